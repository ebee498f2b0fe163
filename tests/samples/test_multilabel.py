"""MultiLabel: lists of labels to vectors of zeros and ones."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from messages import message_of

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features.multilabel import MultiLabel

OR_IGNORE = ', or, in y, give these rows no weight, by missing="ignore" in the feature'
NAMES = ("", "dog", "Kätzchen", "犬")


def encoded(column, names=NAMES, rows=None):
    feature = MultiLabel("tags", names)
    values = feature.encode(column)
    return feature.gather(values, np.arange(len(column)) if rows is None else np.array(rows, int))


@pytest.mark.parametrize("type", [pa.list_(pa.string()), pa.large_list(pa.large_string())])
def test_a_label_is_a_one_in_the_place_of_its_class(type):
    batch = encoded(pa.array([["犬", ""], [], ["dog"], ["dog", "dog"]], type))
    assert batch.dtype == np.float32
    np.testing.assert_array_equal(batch, [[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]])


@pytest.mark.parametrize(
    ("lists", "names", "expected"),
    [
        (pa.array([[30, 10], [10]]), (10, 20, 30), [[1, 0, 1], [1, 0, 0]]),
        (pa.array([[True], []]), (False, True), [[0, 1], [0, 0]]),
        (pa.array([[], []]), ("a",), [[0], [0]]),
        (pa.array([["a", "b"]], pa.list_(pa.string(), 2)), ("b", "a"), [[1, 1]]),
        (pa.array([["x"], ["b"], ["a", "b"]])[1:], ("a", "b"), [[0, 1], [1, 1]]),
    ],
    ids=["integers", "booleans", "all empty", "fixed size", "sliced"],
)
def test_lists_of_other_types(lists, names, expected):
    np.testing.assert_array_equal(encoded(lists, names), expected)


@pytest.mark.parametrize("make", [dict, pd.Series])
@pytest.mark.parametrize("tags", [["b"], np.array(["b"]), ("b", "b")])
def test_one_row(make, tags):
    value = MultiLabel("tags", ["a", "b"])(make({"tags": tags, "id": 1}))
    assert (value.tolist(), value.dtype) == ([0, 1], np.float32)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (pa.array(["dog"]),
         "column 'tags' holds string, expected a list in each row: for labels within a text write "
         "dfgen.MultiLabel('tags', sep=\",\")"),
        (pa.array([1]), "column 'tags' holds int64, expected a list in each row"),
        (pa.array([["dog"], None, None]),
         "column 'tags' has no list in 2 rows, the first is row 1: write [] where a row has no "
         "labels" + OR_IGNORE),
        (pa.array([["dog"], ["dog", None], [None]]),
         "label 1 of row 1 in column 'tags' is missing (2 such labels): leave it out of its list"),
        (pa.array([["cat", "dog"], ["cat"]]),
         "column 'tags' holds 'cat' (2 in all), not among its class names: '', 'dog', 'Kätzchen', "
         "'犬'. Mend the values, drop such rows, or add them to class_names="),
        (pa.array([[["dog"]]]),
         "column 'tags' holds lists of list<item: string>, MultiLabel needs lists of text, "
         "integers or booleans"),
        (pa.array([[1]], pa.list_(pa.int8())),
         "class_names of column 'tags' are '', 'dog', 'Kätzchen', '犬', but the column holds int8: "
         "give names of that type"),
    ],
)  # fmt: skip
def test_lists_that_cannot_be(lists, message):
    assert message_of(ManifestError, MultiLabel("tags", NAMES).encode, lists) == message


def test_class_names_repeat():
    with pytest.raises(
        ArgumentError, match=r"class_names must be distinct names, got \('a', 'a'\)"
    ):
        MultiLabel("tags", ("a", "a"))
    assert message_of(ArgumentError, MultiLabel("tags"), {"tags": ["a"]}) == (
        "one row does not tell the classes: write MultiLabel('tags', class_names=...)"
    )


def frame(lists):
    return pd.DataFrame({"id": range(len(lists)), "n": 1.0, "tags": lists})


def sequence(lists, y, **options):
    return dfgen.Sequence(
        frame(lists), "n", y, batch_size=len(lists), shuffle=False, workers=0, **options
    )


LISTS = [["red", "big"], [], ["big"]]


def test_a_bare_column_of_lists_of_text_becomes_a_multi_label():
    with pytest.warns(UserWarning) as warned:
        seq = sequence(LISTS, "tags")
    assert [str(warning.message) for warning in warned] == [
        "column 'tags' is not categorical, so its 2 classes are numbered by the sorted values of "
        "this frame: 'big', 'red'. Another frame may number them otherwise: give class_names="
    ]
    assert seq.class_names == ["big", "red"]
    np.testing.assert_array_equal(seq[0][1], [[1, 1], [0, 0], [1, 0]])
    seq = sequence(LISTS, "tags", class_names=["red", "big", "old"])
    assert seq.class_names == ["red", "big", "old"]
    np.testing.assert_array_equal(seq[0][1], [[1, 1, 0], [0, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    ("lists", "y", "options", "message"),
    [
        ([["a"], [1]], "tags", {},
         "column 'tags' has lists that mix int, str: give all entries one type"),
        ([["a"], "b"], "tags", {},
         "column 'tags' mixes list, str: give it one type, as with df['tags'] = "
         "df['tags'].map(lambda one: one if isinstance(one, list) else [one])"),
        ([[1], [2]], "tags", {},
         "column 'tags' holds list<item: int64>, for which no feature is known: for labels write "
         "dfgen.MultiLabel('tags'), for vectors of numbers, one-hot ones too, "
         "dfgen.Column('tags', np.array, shape=(1,))"),
        (LISTS, "tags", {"label_mode": "categorical"},
         "no feature is known: leave label_mode out, or write dfgen.MultiLabel('tags')"),
        ([[], []], dfgen.MultiLabel("tags"), {},
         "column 'tags' has no label in any row: write dfgen.MultiLabel('tags', "
         "class_names=[...])"),
        (["a", "b"], dfgen.MultiLabel("tags"), {},
         "expected a list in each row"),
        ([[["a"]], [["b"]]], dfgen.MultiLabel("tags"), {},
         "MultiLabel needs lists of text, integers or booleans"),
        (LISTS, dfgen.MultiLabel("tags", ["big", "red"]), {"class_names": ["a"]},
         "label_mode and class_names are for a column given by its name"),
        (LISTS, dfgen.MultiLabel("tags", ["big", "red"]), {"class_weight": {"big": 2}},
         "(column 'tags') is MultiLabel, not one class a row: give sample_weight, a column of "
         "weights"),
    ],
)  # fmt: skip
def test_what_a_sequence_refuses(lists, y, options, message):
    assert message in message_of(dfgen.DfgenError, sequence, lists, y, **options)


def test_labels_that_changed_are_noticed_by_a_state():
    y = dfgen.MultiLabel("tags", ["big", "red"])
    state = sequence(LISTS, y).state_dict()
    sequence(LISTS, y).load_state_dict(state)
    with pytest.warns(UserWarning, match="labels"):
        sequence([["red"], [], ["big"]], y).load_state_dict(state)


def test_ten_thousand_classes_take_no_memory_for_zeros():
    feature = MultiLabel("tags", tuple(range(10_000)))
    values = feature.encode(pa.array([[row % 10_000] for row in range(100_000)]))
    assert values.offsets.nbytes + values.numbers.nbytes < 2_000_000
    assert feature.gather(values, np.array([99_999])).argmax() == 9_999
