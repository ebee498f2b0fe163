"""Files that are others than the manifest knows are problems of their rows; copies are not."""

import os
import shutil
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import each

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.errors import DecodeError
from dfgen.loading.loader import Loader
from dfgen.samples.features.array import Array
from dfgen.samples.stores.known_files import UNKNOWN, KnownFiles, are_same_times, is_same_time
from dfgen.samples.stores.local_files import Files

OPTIONS = Options(image_size=(4, 4), label_mode=None)
SECOND = 10**9
TIME = 1_700_000_000 * SECOND + 123_456_789
COPIED = (
    "the files have the sizes that the manifest knows but other times, as after cp -r or git "
    "clone: reads compare sizes alone. dfgen.verify(..., write=True) takes the times as they are "
    "now; without the column mtime_ns no time is compared"
)
ADVICE = (
    "build_manifest(update=...) or verify(..., write=True) takes files as they are now; without "
    "the columns bytes and mtime_ns nothing is compared"
)


@pytest.fixture
def df(tmp_path):
    (tmp_path / "imgs").mkdir()
    for row in range(8):
        write(tmp_path / "imgs" / f"{row}.png", row)
    return dfgen.build_manifest(tmp_path / "imgs")


def write(path, row, time=TIME):
    cv2.imwrite(str(path), np.full((4, 4, 3), row, np.uint8))
    os.utime(path, ns=(time, time))


def rows_and_problems(df, x="path", options=OPTIONS, **more):
    bound = bind(df, x, options=options, on_error="skip")
    loader = Loader(
        bound.reader, problems=bound.problems, batch_size=8, shuffle=False, on_error="skip",
        workers=2, **more,
    )  # fmt: skip
    batch = loader.batch(0, 0)
    loader.close()
    [array] = batch.arrays.values()
    return array.reshape(8, -1)[:, 0].tolist(), {r: p.reason for r, p in loader.problems.items()}


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_fault_24_a_file_that_was_replaced_is_the_problem_of_its_row(df, processes):
    larger = df["path"][3]
    cv2.imwrite(larger, np.random.default_rng(0).integers(0, 255, (9, 9, 3), np.uint8))
    os.utime(larger, ns=(TIME, TIME))
    write(df["path"][5], 5, TIME + 5 * SECOND)  # of the same size
    os.truncate(df["path"][6], 0)
    rows, problems = rows_and_problems(df, use_multiprocessing=processes)
    assert rows == [0, 1, 2, 0, 4, 0, 0, 7]
    size, other = df["bytes"][3], os.path.getsize(larger)
    when = "2023-11-14 22:13:20.123"
    changed = "the file has changed since the manifest was made: it was "
    assert problems[3] == (
        f"{changed}{size} bytes of {when}+00:00, and is {other} bytes of {when}+00:00. {ADVICE}"
    )
    assert problems[5] == (
        f"{changed}{df['bytes'][5]} bytes of {when}+00:00, and is {df['bytes'][5]} bytes of "
        f"2023-11-14 22:13:25.123+00:00. {ADVICE}"
    )
    assert problems[6].startswith(f"{changed}{df['bytes'][6]} bytes of {when}+00:00, and is 0 byte")
    assert len(problems) == 3


def test_fault_24_by_default_it_is_an_error_that_names_the_row(df):
    write(df["path"][5], 5, TIME + 5 * SECOND)
    reader = bind(df, options=OPTIONS).reader
    with pytest.raises(DecodeError) as caught:
        reader.read(5, {"image": np.empty((4, 4, 3), np.uint8)}, None)
    where = f"row id={df['id'][5]!r}, path={df['path'][5]!r}"
    assert str(caught.value).startswith(f"{where}: the file has changed since the manifest was")


def test_files_that_were_copied_as_a_whole_are_used_with_a_warning(df, tmp_path):
    shutil.copytree(tmp_path / "imgs", tmp_path / "copy", copy_function=shutil.copyfile)
    copied = df.assign(path=df["path"].str.replace("/imgs/", "/copy/"))
    with pytest.warns(UserWarning) as warned:
        rows, problems = rows_and_problems(copied)
    assert [str(one.message) for one in warned] == [COPIED]
    assert rows == [*range(8)] and not problems
    os.truncate(copied["path"][3], 70)  # sizes that are known are compared as before
    copied["mtime_ns"] = copied["mtime_ns"].astype("Int64")
    copied.loc[0, ["bytes", "mtime_ns"]] = None
    with pytest.warns(UserWarning, match="as after cp -r"):
        rows, problems = rows_and_problems(copied)
    assert list(problems) == [3]
    assert problems[3].startswith(f"the file has changed since the manifest was made: it was "
                                  f"{df['bytes'][3]} bytes, and is 70 bytes. ")  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("Int64", True), ("float64", True), ("int64[pyarrow]", True), ("uint64", False),
        ("int32", False), ("object", True), ("string", False), (None, None),
    ],
)  # fmt: skip
def test_facts_of_any_dtype_or_none(df, kind, missing):
    if kind is None:
        df = df.drop(columns=["bytes", "mtime_ns"])
    else:
        sizes = pd.Series([*df["bytes"]], dtype=object)
        if missing:
            sizes[2] = None
        df = df.assign(bytes=sizes.astype(kind))
        times = df["mtime_ns"].astype("float64" if kind == "float64" else "Int64")
        df["mtime_ns"] = times.where(df.index != 4)
    rows, problems = rows_and_problems(df)
    assert rows == [*range(8)] and not problems
    write(df["path"][4], 4, TIME + 5 * SECOND)
    write(df["path"][3], 3, TIME + 5 * SECOND)
    assert list(rows_and_problems(df)[1]) == ([] if kind is None else [3])


def test_lists_second_images_and_bytes_in_rows_have_no_facts(df):
    write(df["path"][4], 4, TIME + 5 * SECOND)
    other = df.assign(image=df["path"]).drop(columns="path")
    assert not rows_and_problems(
        other, dfgen.Image("image", size=(4, 4)), Options(label_mode=None)
    )[1]
    lists = df.assign(path=[[path] for path in df["path"]])
    assert not rows_and_problems(lists, dfgen.Image("path", size=(4, 4)), Options(label_mode=None))[
        1
    ]
    data = [{"bytes": Path(path).read_bytes(), "path": path} for path in df["path"]]
    table = pa.table({"id": [*range(8)], "path": data, "bytes": [1] * 8, "mtime_ns": [1] * 8})
    assert not rows_and_problems(table, dfgen.Image("path", size=(4, 4)), Options(label_mode=None))[
        1
    ]


def test_an_array_file_that_was_replaced_is_the_problem_of_its_rows(tmp_path):
    for name, start in (("a", 0), ("b", 4)):
        np.save(tmp_path / f"{name}.npy", np.arange(start, start + 4, dtype=np.int32)[:, None])
        os.utime(tmp_path / f"{name}.npy", ns=(TIME + start * SECOND,) * 2)
    paths = [f"{tmp_path}/{name}.npy" for name in "ab" for _ in range(4)]
    frame = pd.DataFrame({"id": range(8), "path": paths, "index": [*range(4)] * 2})
    frame["bytes"] = frame["path"].map(os.path.getsize)
    frame["mtime_ns"] = frame["path"].map(lambda path: os.stat(path).st_mtime_ns)
    x, options = Array("path", (1,), dtype="int32", index="index"), Options(label_mode=None)
    assert rows_and_problems(frame, x, options) == ([*range(8)], {})
    np.save(tmp_path / "b.npy", np.arange(9, dtype=np.int32)[:, None])
    rows, problems = rows_and_problems(frame, x, options)
    assert rows == [0, 1, 2, 3, 0, 0, 0, 0] and sorted(problems) == [4, 5, 6, 7]
    shutil.copy2(tmp_path / "a.npy", tmp_path / "b.npy")
    for size, step in ((4, 1), (8, 0)):  # rows of this file alone, and beside those of another
        loader = Loader(
            bind(frame, x, options=options).reader, batch_size=size, shuffle=False, workers=0
        )
        with pytest.raises(DecodeError, match="the file has changed since the manifest was made"):
            loader.batch(0, step)


@each(
    ("now", "same"),
    [
        (TIME, True), (TIME // SECOND * SECOND, True), (TIME // SECOND * SECOND + SECOND, True),
        (TIME // (2 * SECOND) * 2 * SECOND, True), (TIME // 10**6 * 10**6, True), (None, True),
        (TIME + 10**6 - 1, True), (TIME + 10**6, False), (TIME - 3 * SECOND, False),
        (TIME // SECOND * SECOND - 3 * SECOND, False),
    ],
)  # fmt: skip
def test_a_time_that_a_copy_has_cut_is_the_same(now, same):
    assert is_same_time(now, TIME) is same
    if now is not None:
        both = np.array([[now, now, TIME], [TIME, TIME - SECOND, now]])
        assert are_same_times(*both).tolist() == [is_same_time(*pair) for pair in both.T.tolist()]


def test_only_facts_that_the_manifest_has_of_a_file_are_compared():
    later, store = TIME + 10 * SECOND, Files()
    known = KnownFiles(np.array([5, UNKNOWN, 7, UNKNOWN]), np.array([TIME, TIME, UNKNOWN, UNKNOWN]))
    for row, agreeing, others in (
        (0, [(5, TIME), (5, None)], [(6, TIME), (5, later), (6, None)]),
        (1, [(9, TIME), (9, None)], [(9, later)]), (2, [(7, later)], [(5, later)]),
        (3, [(9, later), (7, None)], []),
    ):  # fmt: skip
        assert (known.of(row, store) is store) is (row == 3)
        for now in agreeing:
            assert known.agrees(row, *now)
            known.check(np.array([row, 3]), *now)
        for now in others:
            assert not known.agrees(row, *now)
            with pytest.raises(DecodeError, match="the file has changed since"):
                known.check(np.array([3, row]), *now)
    for sizes, times in ((None, None), (None, known.times), (known.sizes, None)):
        part = KnownFiles(sizes, times)
        assert part.agrees(0, 5 if times is None else 9, TIME if sizes is None else later)
        part.check(np.arange(1), 5 if times is None else 9, TIME if sizes is None else later)
    assert KnownFiles(None, None).of(0, store) is store


@each(
    ("known", "now", "said"),
    [
        ((5_000, TIME), (6, TIME), "it was 5,000 bytes of 2023-11-14 22:13:20.123+00:00, and is 6 "
         "bytes of 2023-11-14 22:13:20.123+00:00"),
        ((5, TIME), (6, None), "it was 5 bytes, and is 6 bytes"),
        ((5, UNKNOWN), (6, TIME), "it was 5 bytes, and is 6 bytes"),
        ((UNKNOWN, TIME), (6, 0), "it was of another size of 2023-11-14 22:13:20.123+00:00, and is "
         "6 bytes of 1970-01-01 00:00:00.000+00:00"),
        ((5, TIME), (5, 10**30), "it was 5 bytes of 2023-11-14 22:13:20.123+00:00, and is 5 bytes "
         f"of {10**30} ns"),
    ],
)  # fmt: skip
def test_a_changed_file_is_told_by_what_is_known_of_both(known, now, said):
    files = KnownFiles(*(np.array([fact]) for fact in known))
    with pytest.raises(DecodeError) as caught:
        files.check(np.array([0]), *now)
    assert str(caught.value) == (
        f"the file has changed since the manifest was made: {said}. {ADVICE}"
    )


@pytest.mark.parametrize(("cut", "changed"), [(10**6, 0), (10**9, 0), (60 * 10**9, 3)])
def test_verify_takes_times_that_a_copy_has_cut_for_the_same(tmp_path, cut, changed):
    for row in range(3):
        path = tmp_path / f"{row}.png"
        cv2.imwrite(str(path), np.full((2, 2, 3), row, np.uint8))
        os.utime(path, ns=(1_700_000_000_123_456_789 + row,) * 2)
    dfgen.build_manifest(tmp_path, pattern="{id:int}.png", out=tmp_path / "m.parquet")
    for path in tmp_path.glob("*.png"):
        os.utime(path, ns=(path.stat().st_mtime_ns // cut * cut,) * 2)
    assert len(dfgen.verify(tmp_path / "m.parquet")) == changed
