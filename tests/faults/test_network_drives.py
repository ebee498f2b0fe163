"""Network drives and other machines: files that go stale, that are replaced, and wrong clocks."""

import io
import os
import time
import zipfile

import cv2
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import WriteError
from dfgen.files import only_writer
from dfgen.loading.loader import Loader
from dfgen.samples.features.arrays import Array
from dfgen.training.callbacks.backup_files import Generations

ROWS = 6
SECOND = 10**9
NO_LABELS = {"image_size": (4, 4), "label_mode": None}
SILLY = ".nfs00000000deadbeef00000001"
"""How NFS names a file that was removed while somebody has it open."""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "imgs").mkdir()
    for row in range(ROWS):
        cv2.imwrite(f"{tmp_path}/imgs/{row}.png", np.full((4, 4, 3), row, np.uint8))
    return tmp_path / "imgs"


def first_batch(given, x="path"):
    loader = Loader(
        bind(SequenceArguments(given, x, **NO_LABELS)).reader, batch_size=ROWS, workers=1
    )
    [values] = loader.batch(0, 0).arrays.values()
    loader.close()
    return sorted(values.reshape(ROWS, -1)[:, 0].tolist())


def test_removed_but_open_network_files_are_ignored(folder, tmp_path):
    frame = dfgen.build_manifest(folder)
    for name in ("", "pack", "backup", "cache"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / SILLY).write_bytes(b"half of a file")
    (folder / SILLY).write_bytes((folder / "0.png").read_bytes())
    with pytest.warns(UserWarning, match=rf"Left out: 1 path, hidden: {SILLY}"):
        again = dfgen.build_manifest(folder)
    assert again["path"].tolist() == frame["path"].tolist()
    dfgen.write_manifest(frame, tmp_path / "a.parquet")
    assert len(dfgen.read_manifest(tmp_path / "a.parquet")) == ROWS
    assert dfgen.verify(tmp_path / "a.parquet").empty
    for _ in range(2):  # the second finds the pack of the first
        dfgen.pack(frame, tmp_path / "pack", image_size=(4, 4))
    assert dfgen.verify(tmp_path / "pack").empty
    assert first_batch(str(tmp_path / "pack")) == [*range(ROWS)]
    backups = Generations(tmp_path / "backup")
    backups.save({"word": "new"}, {"a": np.zeros(3)})
    assert backups.load()[1]["word"] == "new"
    with dfgen.Sequence(frame, label_mode=None, cache=tmp_path / "cache") as sequence:
        assert len(sequence[0][0]) == ROWS


@pytest.mark.parametrize("how", ["replaced", "overwritten"])
def test_replaced_mapped_array_yields_only_new_rows(tmp_path, how):
    """They are all new ones: never of both."""
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((ROWS, 3), np.float32))
    frame = pd.DataFrame({"id": range(ROWS), "path": str(path), "index": range(ROWS)})
    part = bind(SequenceArguments(frame, Array("path", (3,), index="index"), label_mode=None))
    loader = Loader(part.reader, batch_size=ROWS, workers=1)
    assert not loader.batch(0, 0).arrays["array"].any()
    file = io.BytesIO()
    np.save(file, np.ones((ROWS, 3), np.float32))
    new = path if how == "overwritten" else tmp_path / "new"
    new.write_bytes(file.getvalue())
    os.utime(new, (1, 1))
    os.replace(new, path)
    assert (loader.batch(0, 0).arrays["array"] == 1).all()
    loader.close()


@pytest.mark.parametrize("years", [-50, 80])
def test_locks_and_change_detection_ignore_wrong_clocks(folder, tmp_path, years):
    """Times come from the server of a drive, and ages from the clock of this machine."""
    when = int(time.time()) + years * 365 * 86_400 if years > 0 else 86_400
    out = tmp_path / "m.parquet"
    with only_writer(str(out)):
        [held] = [path for path in tmp_path.iterdir() if path.name.endswith(".dfgen-lock")]
        os.utime(held, (when, when))
        with pytest.raises(WriteError, match="is being written by process"):
            dfgen.build_manifest(folder, out=out)
    backups, others = Generations(tmp_path / "backup"), Generations(tmp_path / "other")
    for each in (backups, others):  # the newest is the last one by its number, not by its time
        each.save({"word": "old"}, {})
        each.save({"word": "new"}, {})
        os.utime(f"{each.folder}/backup-00000001.npz", (when, when))
        assert each.load()[1]["word"] == "new"
    for row in range(ROWS):
        os.utime(folder / f"{row}.png", (when, when))
    built = dfgen.build_manifest(folder, out=out)
    assert built["mtime_ns"].tolist() == [when * SECOND] * ROWS
    assert dfgen.verify(out).empty
    for _ in range(2):
        with dfgen.Sequence(out, label_mode=None, image_size=(4, 4), cache=tmp_path / "c") as made:
            assert sorted(made[0][0][:, 0, 0, 0].tolist()) == [*range(ROWS)]
    cv2.imwrite(f"{folder}/3.png", np.full((4, 4, 3), 9, np.uint8))
    os.utime(folder / "3.png", (when - 5, when - 5))  # an older one that has come back
    assert dfgen.verify(out)["change"].tolist() == ["changed"]
    updated = dfgen.build_manifest(folder, update=out)
    assert updated["mtime_ns"].tolist().count((when - 5) * SECOND) == 1


ZONES = ("Asia/Kathmandu", "America/St_Johns", "UTC")


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="no zone can be set")
@pytest.mark.parametrize("archive", [False, True], ids=["folder", "zip"])
def test_manifest_is_the_same_in_every_time_zone(folder, tmp_path, monkeypatch, archive):
    source = folder
    if archive:
        source = tmp_path / "imgs.zip"
        with zipfile.ZipFile(source, "w") as made:
            for row in range(ROWS):
                made.write(folder / f"{row}.png", f"{row}.png")
    found = []
    for zone in ZONES:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        found.append(dfgen.build_manifest(source, out=tmp_path / f"{len(found)}.parquet"))
        for number in range(len(found)):
            assert dfgen.verify(tmp_path / f"{number}.parquet").empty
            assert first_batch(str(tmp_path / f"{number}.parquet")) == [*range(ROWS)]
    monkeypatch.undo()
    time.tzset()
    for frame in found[1:]:
        pd.testing.assert_frame_equal(frame, found[0])
