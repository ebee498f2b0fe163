"""A message on labels without files says which files the build left out, and what they miss."""

import os
import re
from collections import Counter

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dfgen import build_manifest
from dfgen.errors import DfgenError, ManifestError, MissingFileError
from dfgen.explain.findings import refuse
from dfgen.manifest.building.join import join
from dfgen.manifest.sources.path_pattern import parse_pattern


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def images(*paths):
        for path in paths:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Image.new("L", (4, 3)).save(path, "PNG")

    return images


def refused(keys, pattern="{kind}/{id}.jpg", on="id=key"):
    labels = pd.DataFrame({"key": keys, "age": range(len(keys))})
    with pytest.raises(ManifestError) as caught:
        build_manifest("imgs", pattern=pattern, labels=labels, on=on)
    return str(caught.value)


def test_near_misses_of_the_pattern_are_told_with_what_to_write(write):
    write(
        *("imgs/cat/10.jpg", "imgs/cat/11.JPEG", "imgs/cat/12.png"),
        *("imgs/new/cat/13.jpg", "imgs/14.jpg"),
    )
    own = 'build with each pattern and unmatched="drop", and pandas.concat, or move them'
    assert refused(["10", "11", "12", "13", "14", "20"]) == "\n".join(
        [
            'files and the label table do not match on id = "key".',
            "5 of 6 rows of the label table have no file, 1 have one:",
            *(f'  "{n}"' for n in (11, 12, 13, 14, 20)),
            'The pattern "{kind}/{id}.jpg" left out 4 files:',
            '  2 with another extension: "cat/11.JPEG", "cat/12.png", of which 2 are those of rows '
            'without a file; pattern="{kind}/{id}.{_}" takes any',
            '  1 in folders further below: "new/cat/13.jpg", of which 1 are those of rows without '
            f'a file; pattern="{{_}}/{{kind}}/{{id}}.jpg" is for these: {own}',
            '  1 one folder above: "14.jpg", of which 1 are those of rows without a file; '
            f'pattern="{{id}}.jpg" is for these: {own}',
            'To go on anyway: unmatched="keep" (missing labels, rows with a problem) or "drop" '
            "(--unmatched keep|drop)",
            'To list all faults of the table and the files: dfgen.check(labels, "imgs", '
            'pattern="{kind}/{id}.jpg", on="id=key")',
        ]
    )


@pytest.mark.parametrize(
    ("path", "pattern", "said"),
    [
        ("cat/IMG_2.jpg", "{kind}/img_{id}.jpg", '1 in another case: "cat/IMG_2.jpg", of which 1 '
         "are those of rows without a file; write the pattern as they are, or rename them"),
        ("cat/img_2b.jpg", "{kind}/img_{id:int}.jpg", '1 with more than digits: "cat/img_2b.jpg"; '
         "write the field without :int to take them as text"),
        ("cat/2.jpg", "{kind}/img_{id}.jpg", '1 unlike it: "cat/2.jpg", of which 1 are'),
    ],
)  # fmt: skip
def test_what_a_near_miss_has_otherwise(write, path, pattern, said):
    write("imgs/cat/img_1.jpg", f"imgs/{path}")
    assert f"  {said}" in refused(["1", "2"], pattern)


def test_files_of_other_kinds_that_rows_ask_for_are_named(write):
    write("imgs/a.png", "imgs/b.raw", "imgs/other.txt")
    assert '1 of the 1 paths left out as .raw have such a name: "b.raw"' in refused(
        ["a", "b"], None, "stem=key"
    )
    assert "left out" not in refused(["a", "c"], None, "stem=key")


def test_what_matches_more_files_is_proposed(write):
    write("imgs/cat/10.png", "imgs/dog/11.png", "imgs/dog/12.png")
    table = pd.DataFrame({"row": [0, 1, 2], "file": ["10.png", "11.png", "12.png"]})
    with pytest.raises(ManifestError) as caught:
        build_manifest("imgs", labels=table, on="name=row")
    assert '\non="name=file" would match more files: 3 of 3, one file a row\n' in str(caught.value)
    assert '\non="name=key" would match more files: 3 of 3, one file a row\n' in refused(
        ["10.png", "11.png", "12.png"], "{kind}/{id}.png"
    )


def test_the_right_root_is_proposed(write, tmp_path):
    write("data/imgs/a.png", "data/imgs/b.png")
    table = pd.DataFrame({"path": ["a.png", "b.png"], "x": [1, 2]})
    with pytest.raises(MissingFileError) as caught:
        build_manifest(labels=table, path_column="path", root="data")
    assert str(caught.value) == (
        f"none of the 2 files exists, as \"{tmp_path}/data/a.png\": 'a.png' is in "
        f"'{tmp_path}/data/imgs': give root=\"data/imgs\" (--root) (2 of 2 are found by that). "
        'For files that are not on this machine give facts="none" (--facts none)'
    )


def joined_by(files, labels, on, unmatched="drop"):
    joined = join(files, labels, on, pattern=PATTERN, unmatched=unmatched)
    refuse(joined.findings)
    return joined


PATTERN = parse_pattern("{year:int}/{id}.jpg")


def files_of(paths):
    fields = PATTERN.extract(pa.array(paths)).flatten()
    return pa.table({"path": paths, **dict(zip(PATTERN.fields, fields, strict=True))})


@pytest.mark.parametrize("on", ["id=Image ID", "Image ID", "stem=Image ID", "relpath=Image ID"])
def test_a_folder_that_is_an_id_by_chance_is_no_key_that_is_recommended(on):
    files = files_of([f"{2023 + n % 2}/IMG_{n}.jpg" for n in range(1_997)])
    labels = pa.table({"Image ID": range(1_000, 3_000), "kind": ["cat"] * 2_000})
    with pytest.raises(DfgenError) as caught:
        joined_by(files, labels, on, "error")
    assert "year=" not in str(caught.value)
    assert ('write FIELD=COLUMN, on="FIELD=Image ID"' in str(caught.value)) == (on == "Image ID")


def test_row_numbers_of_pandas_are_no_key_that_is_recommended():
    labels = pa.table({"Unnamed: 0": range(9), "file": [f"x{n}" for n in range(9)]})
    with pytest.raises(ManifestError) as caught:
        joined_by(files_of([f"a/{n}.jpg" for n in range(9)]), labels, "name=file", "error")
    assert "would match" not in str(caught.value)


SMALL = st.integers(0, 30)


@settings(max_examples=60, deadline=None)
@given(
    paths=st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=60, unique=True),
    columns=st.lists(
        st.lists(SMALL, min_size=25, max_size=25, unique=True), min_size=2, max_size=2
    ),
    on=st.sampled_from(["year=a", "id=a", "name=a", "stem=b", "relpath=b", "a", "b"]),
    texts=st.sampled_from(["{}", "{}.jpg", "7/{}.jpg"]),
)
def test_a_join_that_is_recommended_labels_as_many_files_as_it_says(paths, columns, on, texts):
    files = files_of([f"{year % 9:02}/{name}.jpg" for year, name in paths])
    a, b = columns
    labels = pa.table({"a": a, "b": [texts.format(n) for n in b]})
    labels = labels.append_column("kind", [[f"k{n}" for n in a]])
    try:
        joined_by(files, labels, on, "error")
    except DfgenError as error:
        found = re.search(
            r'on="(\w+=\w+)"(?: would match more files:|, which matches) (.*)', str(error)
        )
    else:
        return
    if not found:
        return
    labelled = joined_by(files, labels, found[1]).rows["kind"].to_pylist()
    most = max(Counter(labelled).values())
    each = "one file a row" if most == 1 else f"up to {most} files a row"
    assert found[2] == f"{len(labelled)} of {len(paths)}, {each}"
    assert most == 1 or (most <= 10 and len({*labelled}) >= 12.5)
