"""Labels of any sort: what goes in comes back by its number, and what is missing is told."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dfgen

few = settings(max_examples=40)
pytestmark = pytest.mark.filterwarnings("ignore:column 'y' has values that look alike")
GUESSED = "ignore:column 'y' (is not categorical|has the class|holds numbers as text)"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["", " ", "1", "01", "1.0", "True", "nan", "None", "é", "e\u0301", "犬", "\0", "a\0"]
)
KINDS = [TEXTS, st.integers(-(2**63), 2**63 - 1), st.booleans()]
COLUMNS = st.one_of(*(st.lists(kind, min_size=1, max_size=12) for kind in KINDS))
LISTS = st.one_of(*(st.lists(st.lists(kind, max_size=4), min_size=1, max_size=8) for kind in KINDS))


def batch(values, y, **options):
    frame = pd.DataFrame({"id": range(len(values)), "n": 1.0})
    frame["y"] = values if isinstance(values, pd.Series) else pd.Series(values, index=frame.index)
    seq = dfgen.Sequence(frame, "n", y, batch_size=len(values), shuffle=False, workers=0, **options)
    return seq.class_names, seq[0][1]


def named(values):
    """Leave out texts of blanks, which are no class unless class_names says so."""
    return [value for value in values if not isinstance(value, str) or value.strip()]


def same(found, expected):
    """Equal, and of the same type: 1 is neither True nor "1"."""
    assert [(type(value), value) for value in found] == [(type(v), v) for v in expected]


@pytest.mark.filterwarnings(GUESSED, "ignore:column 'y' has the labels 0 and 1")
@few
@given(COLUMNS.map(named).filter(bool))
def test_a_category_comes_back_by_its_number(values):
    names, numbers = batch(values, dfgen.Category("y"))
    same([names[number] for number in numbers], values)
    if isinstance(values[0], bool):
        assert names == [False, True]
    else:
        assert names == sorted(set(values), key=lambda v: v.encode() if isinstance(v, str) else v)


@few
@given(COLUMNS, st.randoms())
def test_given_class_names_keep_their_order(values, random):
    names = list(dict.fromkeys(values))
    random.shuffle(names)
    _, numbers = batch(values, dfgen.Category("y", class_names=names))
    same([names[number] for number in numbers], values)
    _, one_hot = batch(values, dfgen.Category("y", "categorical", names))
    np.testing.assert_array_equal(one_hot, np.eye(len(names))[numbers])


@pytest.mark.filterwarnings(GUESSED)
@few
@given(COLUMNS.map(named).filter(bool))
def test_categories_of_pandas_keep_their_numbers(values):
    series = pd.Series(pd.Categorical(values, categories=list(dict.fromkeys(values))[::-1]))
    names, numbers = batch(series, "y")
    same(names, list(dict.fromkeys(values))[::-1])
    np.testing.assert_array_equal(numbers, series.cat.codes)


@pytest.mark.filterwarnings(GUESSED, "ignore:column 'y' has the labels 0 and 1")
@few
@given(LISTS)
def test_labels_come_back_by_their_places(lists):
    lists = [named(labels) for labels in lists]
    if not any(lists):
        lists = [*lists, ["a"]]
    names, ones = batch(lists, dfgen.MultiLabel("y"))
    assert ones.dtype == np.float32 and ones.shape == (len(lists), len(names))
    assert set(np.unique(ones)) <= {0, 1}
    for row, labels in zip(ones, lists, strict=True):
        found = [name for name, one in zip(names, row, strict=True) if one]
        same(found, [name for name in names if name in set(labels)])
        assert set(found) == set(labels)


@few
@given(COLUMNS, st.sampled_from([None, float("nan"), pd.NA]), st.integers(0, 12))
def test_a_missing_class_is_refused_never_numbered(values, missing, place):
    names = list(dict.fromkeys(values))
    place = min(place, len(values))
    holed = pd.Series([*values[:place], missing, *values[place:]], dtype=object)
    with pytest.raises(dfgen.DfgenError) as error:
        batch(holed, dfgen.Category("y", class_names=names))
    assert "column 'y' has no class in 1 rows" in str(error.value)
    with pytest.raises(dfgen.DfgenError) as error:
        batch(pd.Series([[value] for value in holed]), dfgen.MultiLabel("y", names))
    assert f"object 0 of row {place} in column 'y' has no label" in str(error.value)
    with pytest.raises(dfgen.DfgenError) as error:
        lists = [[value] for value in values]
        batch(pd.Series([*lists[:place], missing, *lists[place:]]), dfgen.MultiLabel("y", names))
    assert f"column 'y' has no list in 1 rows, the first is row {place}" in str(error.value)


@few
@given(COLUMNS.filter(lambda values: len(set(values)) > 1))
def test_unnamed_class_is_rejected_instead_of_numbered(values):
    *names, unknown = dict.fromkeys(values)
    for column, y in [
        (values, dfgen.Category("y", class_names=names)),
        ([[value] for value in values], dfgen.MultiLabel("y", names)),
    ]:
        with pytest.raises(dfgen.DfgenError) as error:
            batch(column, y)
        assert f"column 'y' holds {unknown!r} ({values.count(unknown)} in all), not among" in (
            str(error.value)
        )


@few
@given(st.data())
def test_types_are_never_taken_for_one_another(data):
    names = data.draw(st.sampled_from([("0", "1"), (0, 1), (False, True)]))
    other = data.draw(st.sampled_from([["0", "1"], [0, 1], [False, True]]))
    assume(type(other[0]) is not type(names[0]))
    for column, y in [
        (other, dfgen.Category("y", class_names=names)),
        ([other, []], dfgen.MultiLabel("y", names)),
    ]:
        with pytest.raises(dfgen.DfgenError) as error:
            batch(column, y)
        assert "its class_names are" in str(error.value)
