"""Of keys that do not match, the cause is told by its name, and what it would mend is counted."""

import string
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dfgen.explain.joins import nearest_keys
from dfgen.explain.key_causes import JoinKeys, likely_cause

LETTERS = string.ascii_lowercase
WORDS = st.text(LETTERS, min_size=8, max_size=12)
NUMBERS = st.integers(10_000, 10**9).map(str)

# What is distorted -> keys of files, and how the table writes them.
DISTORTED = {
    "blanks or line ends": (WORDS, lambda key: f" {key}\r\n"),
    'quotes, or the ="..." of Excel': (NUMBERS, lambda key: f'="{key}"'),
    "separator": (WORDS.map("{0[0]}/{0}".format), lambda key: key.replace("/", "\\")),
    "Unicode form": (WORDS.map(lambda key: f"{key}é"), lambda key: key.replace("é", "e\u0301")),
    "case": (WORDS, str.upper),
    "blank, - and _": (WORDS.map("{0[0]} {0}".format), lambda key: key.replace(" ", "_")),
    "directory": (WORDS, lambda key: f"{key[:2]}/{key}"),
    "extension": (WORDS.map(lambda key: f"{key}.jpg"), lambda key: key.replace(".jpg", ".png")),
    "whole numbers as floats": (NUMBERS, lambda key: f"{key}.0"),
    "leading zeros": (NUMBERS, lambda key: key.zfill(12)),
    'the prefix "pet_"': (NUMBERS, lambda key: f"pet_{key}"),
    'the suffix "-large"': (WORDS, lambda key: f"{key}-large"),
    'the prefix "id=" and the suffix "/1"': (WORDS, lambda key: f"id={key}/1"),
    "case, and extension": (WORDS, lambda key: f"{key.upper()}.JPG"),
    "blanks or line ends, and case": (WORDS, lambda key: f" {key.upper()}"),
    "whole numbers as floats, and leading zeros":
        (NUMBERS.map("00{}".format), lambda key: f"{key[2:]}.0"),
    "directory, and extension": (WORDS, lambda key: f"C:\\pets\\{key[:2]}\\{key}.jpg"),
}  # fmt: skip


def sides(files, labels):
    left, right = (pa.chunked_array([list(keys)], pa.string()) for keys in (files, labels))
    return (
        JoinKeys(left, pc.invert(pc.is_in(left, value_set=right))),
        JoinKeys(right, pc.invert(pc.is_in(right, value_set=left))),
    )


@pytest.mark.parametrize("name", DISTORTED)
@settings(max_examples=8, deadline=None)
@given(st.data())
def test_a_cause_is_told_by_its_name_and_its_cures_are_counted(name, data):
    keys, distort = DISTORTED[name]
    least = 4 if "fix" in name else 1
    files = data.draw(st.lists(keys, min_size=least, max_size=30, unique=True))
    distorted = data.draw(st.integers(least, len(files)))
    alone = [f"~{place}~{key[:3]}#" for place, key in enumerate(files[:2])]
    labels = [distort(key) for key in files[:distorted]] + files[distorted:]
    cure = likely_cause(*sides(files, labels + alone))
    assert (cure.cause.name, cure.files, cure.labels) == (name, distorted, distorted)


@pytest.mark.parametrize("turned", [False, True])
def test_both_sides_may_be_the_distorted_one(turned):
    pairs = [(f"pet_{n}", f"{n}") for n in range(1000, 1010)]
    files, labels = zip(*(pair[::-1] if turned else pair for pair in pairs), strict=True)
    cure = likely_cause(*sides(files, labels))
    assert cure.cause.name == 'the prefix "pet_"'
    assert cure.cause.advice == (
        'cut it off in the table: .str.removeprefix("pet_")'
        if turned
        else "let the pattern hold it, as in pet_{id}"
    )


def test_paths_that_lack_a_folder_are_given_it_since_no_field_holds_a_slash():
    keys = [f"{n % 2}/{n // 2}.jpg" for n in range(1000, 1010)]  # names alone are there twice
    cure = likely_cause(*sides([f"Fotos/{key}" for key in keys], keys))
    assert cure.cause.advice == 'put it to the keys of the table: "Fotos/" + keys'


@settings(max_examples=20, deadline=None)
@given(st.lists(st.uuids().map(str), min_size=2, max_size=30, unique=True), st.data())
def test_keys_that_merely_differ_have_no_cause(keys, data):
    cut = data.draw(st.integers(1, len(keys) - 1))
    assert likely_cause(*sides(keys[:cut], keys[cut:])) is None


def test_numbers_that_follow_each_other_have_no_cause():
    files = [str(n) for n in range(1, 101)]
    assert likely_cause(*sides(files, [str(n) for n in range(51, 151)])) is None


def test_a_file_that_has_its_row_is_no_cure():
    assert likely_cause(*sides(["a"], ["a", "A"])) is None
    assert likely_cause(*sides(["a", "A"], ["a"])) is None  # A may be another file's key


@settings(max_examples=60, deadline=None)
@given(*[st.lists(st.text("aA0_. /", min_size=1, max_size=4), min_size=1, max_size=12)] * 2)
def test_no_cause_gives_two_keys_of_files_one_row_nor_a_file_two(keys, rows):
    files, labels = sides(keys, {*rows})
    cure = likely_cause(files, labels)
    if cure is None:
        return
    made = {key: cure.cause.normalise(pa.chunked_array([[key]]))[0].as_py() for key in keys + rows}
    of_files, of_rows = (Counter(made[key] for key in {*side}) for side in (keys, rows))
    lost, free = (side.unmatched.to_pylist() for side in (files, labels))
    alone = {made[row] for row in free if of_rows[made[row]] == 1}
    cured = [key for key in lost if made[key] in alone and of_files[made[key]] == 1]
    assert cure.files == len(cured) > 0
    assert cure.labels == len({*cured})


def test_causes_of_many_keys_are_counted_on_all_of_them():
    numbers = np.random.default_rng(0).permutation(30_000)
    labels = [f"{n}.JPG" if n % 3 else f"x{n}" for n in numbers]
    cure = likely_cause(*sides([f"{n:06}" for n in range(30_000)], labels))
    assert cure.cause.name == "extension, and leading zeros"
    assert (cure.files, cure.labels) == (20_000, 20_000)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("xat_0123.jpg", "cat_0123.jpg"),  # at the first character
        ("cat_0_123.jpg", "cat_0123.jpg"),  # in the middle
        ("cat_0183.jpg", "cat_0123.jpg"),  # a digit
        ("cat_0123.png", "cat_0123.jpg"),  # the extension
        ("at_0123.jpg", "cat_0123.jpg"),
        ("löwe_1.jpg", "lowe_1.jpg"),
        ("zebra", None),
        ("", None),
    ],
)
def test_the_nearest_key_is_named(key, nearest):
    known = pa.chunked_array([["cat_9999.jpg", "cot_7777.jpg", "cat_0123.jpg"], ["lowe_1.jpg", ""]])
    assert nearest_keys([key], known) == {key: nearest}
