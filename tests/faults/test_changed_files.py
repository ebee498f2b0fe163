"""Files that are others than the manifest knows are problems of their rows; copies are not."""

import os

import cv2
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.loading.loader import Loader
from dfgen.samples.features.arrays import Array

OPTIONS = {"image_size": (4, 4), "label_mode": None}
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
    bound = bind(SequenceArguments(df, x, **options, on_error="skip"))
    loader = Loader(
        bound.reader, problems=bound.problems, batch_size=8, on_error="skip",
        workers=2, **more,
    )  # fmt: skip
    batch = loader.batch(0, 0)
    loader.close()
    [array] = batch.arrays.values()
    return array.reshape(8, -1)[:, 0].tolist(), {r: p.reason for r, p in loader.problems.items()}


def test_replaced_array_file_is_reported_for_its_rows(tmp_path):
    for name, start in (("a", 0), ("b", 4)):
        np.save(tmp_path / f"{name}.npy", np.arange(start, start + 4, dtype=np.int32)[:, None])
        os.utime(tmp_path / f"{name}.npy", ns=(TIME + start * SECOND,) * 2)
    paths = [f"{tmp_path}/{name}.npy" for name in "ab" for _ in range(4)]
    frame = pd.DataFrame({"id": range(8), "path": paths, "index": [*range(4)] * 2})
    frame["bytes"] = frame["path"].map(os.path.getsize)
    frame["mtime_ns"] = frame["path"].map(lambda path: os.stat(path).st_mtime_ns)
    x, options = Array("path", (1,), dtype="int32", index="index"), {"label_mode": None}
    assert rows_and_problems(frame, x, options) == ([*range(8)], {})
    np.save(tmp_path / "b.npy", np.arange(9, dtype=np.int32)[:, None])
    rows, problems = rows_and_problems(frame, x, options)
    assert rows == [0, 1, 2, 3, 0, 0, 0, 0] and sorted(problems) == [4, 5, 6, 7]


@pytest.mark.parametrize(("cut", "changed"), [(10**6, 0), (10**9, 0), (60 * 10**9, 3)])
def test_verify_accepts_times_truncated_by_a_copy(tmp_path, cut, changed):
    for row in range(3):
        path = tmp_path / f"{row}.png"
        cv2.imwrite(str(path), np.full((2, 2, 3), row, np.uint8))
        os.utime(path, ns=(1_700_000_000_123_456_789 + row,) * 2)
    dfgen.build_manifest(tmp_path, pattern="{id:int}.png", out=tmp_path / "m.parquet")
    for path in tmp_path.glob("*.png"):
        os.utime(path, ns=(path.stat().st_mtime_ns // cut * cut,) * 2)
    assert len(dfgen.verify(tmp_path / "m.parquet")) == changed
