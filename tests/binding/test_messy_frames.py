"""Frames as messy as they come: whatever is wrong, it is told in one bounded message of dfgen."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DfgenError, ManifestError, legible

ROWS = 3
TEXTS = ["cat", "", " ", "nan", "{", "{0}", "%s", "'", '"', "\n", "\x00", "\x1b[31m", "\ud800"]
TEXTS += ["😀", "a,b", "['a']", "[1. 2.]", "1", "10", "x" * 100_000, "C:\\x.png", "s3://", "://"]
ODD = [*TEXTS, 1, True, None, float("nan"), float("inf"), 10**30, b"\xff", [1], ["a"], [], {}, {1}]
ODD += [{"a": 1}, ("a",), 1j, pd.NaT, pd.NA, np.zeros((2, 2)), object(), int, range(3)]
ODD += [pd.Timestamp("2020"), pd.Timedelta(1), pd.Period("2020"), pd.Interval(0, 1), [None]]
NAMES = ["id", "path", "kind", "split", "fold", "bytes", "problem", "mtime_ns", "image"]
NAMES += ["{a}", "%s", "'", '"', "\n", "", " kind ", "é", "😀", "x" * 5_000]
OF_ARROW = [pa.list_(pa.int64()), pa.int32(), pa.decimal128(24, 2), pa.string(), pa.bool_()]
whole = st.lists(st.integers(0, 4), min_size=ROWS, max_size=ROWS)


def _column(numbers):
    """Return columns of every dtype made of some numbers."""
    gaps = [None if one == 0 else one for one in numbers]
    days = pd.to_datetime(pd.Series(numbers), unit="D")
    yield from (pd.array(gaps, "Int64"), pd.array([*map(str, numbers)], "string[pyarrow]"))
    yield from (pd.array([one and one > 1 for one in gaps], "boolean"), pd.Categorical(gaps))
    yield from (days, days.dt.tz_localize("UTC"), days - days[0], days.dt.to_period("D"))
    yield from (pd.cut(numbers, 2), pd.Categorical(days), pd.arrays.SparseArray(numbers))
    yield from (np.array(numbers) * 1j, np.array(numbers, "f2"), np.array(numbers, "u8"))
    for kind in OF_ARROW:
        lists = [[one] for one in numbers] if pa.types.is_list(kind) else None
        yield pd.array(lists or pa.array(numbers).cast(kind), pd.ArrowDtype(kind))


columns = st.one_of(
    whole.flatmap(lambda numbers: st.sampled_from([*_column(numbers)])),
    st.lists(st.sampled_from(ODD), min_size=ROWS, max_size=ROWS),
    st.sampled_from(ODD).map(lambda one: [one] * ROWS),
    # pandas makes no categories of surrogates
    st.sampled_from([one for one in TEXTS if not one.startswith("\ud800")]).map(
        lambda one: pd.Categorical([one, "b", one])
    ),
)


def _series(values):
    try:
        return pd.Series(values)
    except UnicodeEncodeError:  # pandas 3 itself refuses to hold such text as text
        return pd.Series(values, dtype=object)


@st.composite
def frames(draw):
    """Draw frames of up to three rows, mostly with ids and paths, and messy columns beside them."""
    known = {"id": range(ROWS), "path": ["a.png", "b.png", "c.png"]}
    held = {name: known[name] for name in known if draw(st.integers(0, 4))}
    held |= draw(st.dictionaries(st.sampled_from(NAMES), columns, max_size=2))
    series = {name: _series(values) for name, values in held.items()}
    frame = pd.DataFrame(series)[: draw(st.sampled_from([3, 3, 1, 0]))]
    return frame.set_axis(draw(indexes(len(frame))))


def indexes(rows):
    """Draw indexes of every kind: not unique, not sorted, with missing values, of two levels."""
    of_kinds = [range(rows), [7] * rows, [None, 1.5, -1.0][:rows], ["b", "a", "b"][:rows]]
    of_kinds += [pd.date_range("2020", periods=rows)[::-1], pd.CategoricalIndex([*"xyz"][:rows])]
    of_kinds += [pd.MultiIndex.from_arrays([range(rows)] * 2)]
    return st.sampled_from([pd.Index(one) for one in of_kinds])


def _told(call):
    """Call, and check what is raised or warned of: an error of ours, bounded and printable."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except DfgenError as error:
            assert len(str(error)) <= 2_000
            str(error).encode()
    assert all(len(str(one.message)) <= 1_000 for one in caught)


names = st.one_of(st.none(), st.sampled_from(NAMES), st.sampled_from(ODD))


@settings(max_examples=60)
@given(frames(), names, names, names, names)
def test_any_frame_makes_a_sequence_or_one_error(frame, y, id, weight, balance):
    _told(lambda: bind(SequenceArguments(frame, y=y, id=id, sample_weight=weight, balance=balance)))


@settings(max_examples=40)
@given(frames(), names, st.data())
def test_binding_ignores_index_and_keeps_frame_unchanged(frame, y, data):
    def bound(given):
        with warnings.catch_warnings(action="ignore"):
            try:
                made = bind(SequenceArguments(given, y=y, label_mode="int"))
            except DfgenError as error:
                return str(error)
        return [str(one) for one in made.reader.ids], made.class_names, made.labels_digest

    before, columns = frame.copy(), list(frame.columns)
    found = bound(frame)
    assert bound(frame.set_axis(data.draw(indexes(len(frame))))) == found
    assert list(frame.columns) == columns
    pd.testing.assert_index_equal(frame.index, before.index)
    assert repr(frame.to_dict("list")) == repr(before.to_dict("list"))
    if not isinstance(found, str) and "id" in columns and frame["id"].notna().all():
        assert found[0] == [str(one) for one in frame["id"]]


@pytest.mark.slow
@settings(max_examples=40)
@given(frames(), st.sampled_from(NAMES), st.sampled_from(["stratify", "group", "order"]))
def test_any_frame_makes_a_manifest_or_one_error(tmp_path_factory, frame, name, how):
    path = tmp_path_factory.getbasetemp() / "messy.parquet"
    _told(lambda: dfgen.split(frame, {"train": 0.5, "val": 0.5}, **{how: name}))
    _told(lambda: dfgen.split(frame, folds=2))
    _told(lambda: dfgen.verify(frame))
    _told(lambda: dfgen.diff(frame, frame[::-1]))
    _told(lambda: (dfgen.write_manifest(frame, path), dfgen.read_manifest(path)))


def test_message_is_bounded_without_control_characters():
    message = str(ArgumentError("y='\x1b[31m\ud800' " + "x" * 100_000 + ": write y='kind'"))
    assert len(message) <= 2_000
    assert message.startswith("y='\\x1b[31m\\ud800' xxx")
    assert message.endswith("xxx: write y='kind'")
    assert legible("two\nlines, é") == "two\nlines, é"


def test_large_integers_and_invalid_text_are_named():
    for value, word in ((10**30, "int"), ("a\ud800", "Unicode")):
        frame = pd.DataFrame(
            {"id": [1], "path": ["a.png"], "big": pd.Series([value], dtype=object)}
        )
        with pytest.raises(ManifestError, match=f"'big'.*{word}"):
            bind(SequenceArguments(frame, y="big"))


def test_arrow_list_columns_survive_a_manifest(tmp_path):
    boxes = pd.array([[1, 2], [3]], pd.ArrowDtype(pa.list_(pa.int64())))
    frame = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "boxes": boxes})
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    read = dfgen.read_manifest(tmp_path / "m.parquet", root=".")
    assert [list(one) for one in read["boxes"]] == [[1, 2], [3]]


def test_previous_split_can_stratify_folds():
    frame = pd.DataFrame({"id": range(8), "path": [*"abcdefgh"], "split": ["train", "val"] * 4})
    frame["split"] = frame["split"].astype("category")
    folds = dfgen.split(frame, folds=2, stratify="split")["fold"]
    assert folds.groupby(frame["split"].astype(str)).sum().tolist() == [2, 2]
