"""What docs/about/promises.md says of files, where they are not loose: in caches, packs, archives,
tables, lists, and beside other files of their row."""

import errno
import io
import os
import pickle

import cv2
import numpy as np
import pandas as pd
import pytest
from places import PLACES, SIZE, Held, archive, cut, held, png, write_all
from servers import MODIFIED, http_server

import dfgen
from dfgen.errors import DecodeError, DfgenError, ProblemsError, ReadError
from dfgen.limits import Limits
from dfgen.loading.workers import retries
from dfgen.samples.features.array import Array
from dfgen.samples.features.image import Image

ROWS, BAD = 12, 7
WORKERS = pytest.mark.parametrize(
    "workers",
    [{"workers": 2}, {"workers": 2, "use_multiprocessing": True}],
    ids=["threads", "processes"],
)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:1 problem")]


@WORKERS
@pytest.mark.parametrize("place", [place for place in PLACES if place != "rows"])
def test_a_file_that_cannot_be_used_is_named_or_listed_wherever_it_is(tmp_path, place, workers):
    contents = [cut(row) if row == BAD else png(row) for row in range(ROWS)]
    rows = held(place, tmp_path, contents)
    for _ in range(2):  # with what a cache has kept
        found, problems = rows.rows(epochs=2, on_error="skip", **workers)
        assert found == [0 if row == BAD else row for row in range(ROWS)] * 2
        assert list(problems) == [str(BAD)]
        with pytest.raises(DfgenError) as caught:
            rows.batches(**workers)
        assert f"id={BAD}" in str(caught.value)
        assert place in ("table", "pack") or f"{BAD}.png" in str(caught.value)


@pytest.mark.parametrize("place", [place for place in PLACES if place not in ("rows", "pack")])
def test_training_stops_where_too_many_rows_are_bad_wherever_they_are(tmp_path, place):
    contents = [cut(row) if row % 4 == 3 else png(row) for row in range(ROWS)]
    rows, limits = held(place, tmp_path, contents), Limits(problems=2)
    for _ in range(2):
        with pytest.raises(ProblemsError):
            rows.batches(on_error="skip", limits=limits)
    contents = [cut(row) if row in range(4, 8) else png(row) for row in range(ROWS)]
    (tmp_path / "other").mkdir()
    with pytest.raises(ProblemsError):
        held(place, tmp_path / "other", contents).batches(
            on_error="skip", limits=Limits(problems=1.0)
        )


def files_that_are_known(place, folder):
    """Rows with the facts of their files, and a function that exchanges one of them."""
    contents = [png(row) for row in range(ROWS)]
    other = png(99, (9, 9))
    if place == "rows":
        rows = held(place, folder, range(ROWS))
        status = os.stat(folder / "a.npy")
        rows.manifest = rows.manifest.assign(bytes=status.st_size, mtime_ns=status.st_mtime_ns)

        def exchange():
            np.save(folder / "a.npy", np.full((ROWS + 1, *SIZE, 3), 99, np.uint8))

        return rows, exchange
    rows = held("cache" if place == "in place" else place, folder, contents)
    if place in ("zip", "tar"):
        rows.manifest = dfgen.build_manifest(folder / f"a.{place}")
        rows.manifest = rows.manifest.sort_values(
            "id", key=lambda ids: ids.str.extract(r"(\d+)")[0].astype(int)
        )
        changed = [other if row == BAD else data for row, data in enumerate(contents)]
        return rows, lambda: archive(folder / f"a.{place}", changed)
    path = folder / "imgs" / f"{BAD}.png"
    facts = [os.stat(folder / "imgs" / f"{row}.png") for row in range(ROWS)]
    if place == "list":
        pytest.skip("facts are of one file a row")
    rows.manifest = rows.manifest.assign(
        bytes=[one.st_size for one in facts], mtime_ns=[one.st_mtime_ns for one in facts]
    )

    def exchange():
        if place == "in place":  # as many bytes, another time
            path.write_bytes(png(99).ljust(facts[BAD].st_size, b"\0")[: facts[BAD].st_size])
            os.utime(path, ns=(0, facts[BAD].st_mtime_ns + 10**10))
        else:
            (folder / "new.png").write_bytes(other)
            os.replace(folder / "new.png", path)

    return rows, exchange


@WORKERS
@pytest.mark.parametrize("place", ["cache", "memory", "in place", "zip", "tar", "rows"])
def test_a_file_that_was_replaced_is_told_though_its_pixels_were_kept(tmp_path, place, workers):
    rows, exchange = files_that_are_known(place, tmp_path)
    assert rows.rows(epochs=2, **workers)[0] == [*range(ROWS)] * 2
    exchange()
    with pytest.raises(DecodeError, match="the file has changed since the manifest was made"):
        rows.batches(**workers)
    if place != "rows":  # which is one file
        found, problems = rows.rows(on_error="skip", **workers)
        assert found == [0 if row == BAD else row for row in range(ROWS)]
        assert list(problems) == [str(BAD)]


def test_an_object_that_was_replaced_is_told_though_its_pixels_were_kept(tmp_path):
    pytest.importorskip("obstore")
    contents = {f"{row}.png": png(row) for row in range(ROWS)}
    with http_server(contents) as server:
        frame = pd.DataFrame(
            {
                "id": range(ROWS), "path": [f"{server.url}/{row}.png" for row in range(ROWS)],
                "bytes": [len(data) for data in contents.values()], "mtime_ns": MODIFIED * 10**9,
            }
        )  # fmt: skip
        rows = Held(frame[:6])
        assert rows.rows()[0] == [*range(6)]
        contents["9.png"] = server.held["9.png"] = png(99, (9, 9))
        kept = Held(frame, more={"cache": tmp_path / "cache"})
        for _ in range(2):
            found, problems = kept.rows(on_error="skip")
            assert (found[9], list(problems)) == (0, ["9"])


@pytest.mark.parametrize("place", ["cache", "memory", "zip", "tar", "mask", "list"])
@pytest.mark.parametrize("times", [2, 99])
@pytest.mark.parametrize("why", ["EIO", "EMFILE", "ENOMEM"])
def test_what_is_no_fault_of_a_file_is_tried_again_then_raised_wherever_it_is(
    tmp_path, monkeypatch, place, times, why
):
    monkeypatch.setattr(retries, "WAITS", (0.001,) * 4)
    rows, left = held(place, tmp_path, [png(row) for row in range(ROWS)]), [times]
    name = "pread" if place in ("zip", "tar") else "read"
    call = getattr(os, name)

    def failing(file, *arguments):
        path = os.readlink(f"/proc/self/fd/{file}")
        if path.endswith((f"/{BAD}.png", ".zip", ".tar")) and left[0] > 0:
            left[0] -= 1
            raise OSError(getattr(errno, why), os.strerror(getattr(errno, why)), path)
        return call(file, *arguments)

    monkeypatch.setattr(os, name, failing)
    if times == 2:
        found, problems = rows.rows(on_error="skip", workers=0)
        assert (found, problems) == ([*range(ROWS)], {})
    else:
        with pytest.raises(ReadError):
            rows.batches(on_error="skip", workers=0)


@pytest.mark.parametrize("place", [place for place in PLACES if place != "rows"])
def test_no_pixels_are_those_that_memory_held_before_wherever_they_come_from(tmp_path, place):
    """White rows go through the same buffers again and again, beside rows that are cut short."""
    contents = [cut(255) if row % 4 == 1 else png(255) for row in range(ROWS)]
    rows = held(place, tmp_path, contents)
    if place == "list":
        rows.x = Image("path", size=SIZE, max_items=5)
    found, _ = rows.batches(epochs=6, on_error="skip", max_queue_size=2)
    for batch in found:
        for name, array in batch.items():
            if not name.endswith("mask") or place == "mask":
                assert not array[1].any(), name
    if place == "list":
        assert not any(batch[name][:, 2:].any() for batch in found for name in batch)


def bomb(side):
    """A PNG of so many pixels squared, in a few kB."""
    return cv2.imencode(".png", np.zeros((side, side), np.uint8))[1].tobytes()


@pytest.mark.parametrize("place", ["cache", "memory", "zip", "tar", "table", "list", "pack"])
def test_no_file_takes_more_than_limits_allow_wherever_it_is(tmp_path, place):
    contents = [bomb(3000) if row == BAD else png(row) for row in range(ROWS)]
    rows, limits = held(place, tmp_path, contents), Limits(decoded_bytes=1_000_000)
    with pytest.raises(DecodeError, match=r"Limits\(decoded_bytes=") as caught:
        rows.batches(limits=limits)
    assert f"id={BAD}" in str(caught.value)
    found, problems = rows.rows(on_error="skip", limits=limits)
    assert found == [0 if row == BAD else row for row in range(ROWS)]
    assert list(problems) == [str(BAD)]
    assert rows.rows()[1] == {}  # whoever trusts it


ODD = {
    "empty": b"",
    "a page": b"<html>404 Not Found</html>",
    "cut": cut(1)[:20],
    "a header of another": png(1)[:8]
    + cv2.imencode(".jpg", np.zeros((9, 9, 3), np.uint8))[1].tobytes(),
    "pickled": pickle.dumps([1]),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", ["imgs", "zip", "tar", "table"])
@pytest.mark.parametrize("facts", ["header", "full"])
def test_one_odd_file_of_a_build_is_the_problem_of_its_row_wherever_it_is(
    tmp_path, place, odd, facts
):
    contents = [ODD[odd] if row == BAD else png(row) for row in range(ROWS)]
    if place == "table":
        paths = [f"{row}.png" for row in range(ROWS)]
        files = [{"bytes": data, "path": path} for data, path in zip(contents, paths, strict=True)]
        table = pd.DataFrame({"id": range(ROWS), "image": files})
        df = dfgen.build_manifest(labels=table, path_column="image", facts=facts)
    elif place == "imgs":
        write_all(tmp_path / "imgs", contents)
        df = dfgen.build_manifest(tmp_path / "imgs", facts=facts)
    else:
        archive(tmp_path / f"a.{place}", contents)
        df = dfgen.build_manifest(tmp_path / f"a.{place}", facts=facts)
    assert len(df) == ROWS
    assert df["problem"].notna().sum() == 1
    column = "image" if place == "table" else "path"
    found, problems = Held(df, Image(column, size=SIZE)).rows(on_error="skip")
    assert sorted(found) == sorted([0, *(row for row in range(ROWS) if row != BAD)])
    assert len(problems) == 1


class Bomb:
    """What would make a file if it were unpickled."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return open, (self.mark, "w")


@pytest.mark.filterwarnings("ignore:cache=:UserWarning")
@pytest.mark.parametrize(
    "place", ["zip", "table", "cache index", "cache pixels", "cache settings", "pack", "shard"]
)
def test_nothing_in_a_file_is_executed_wherever_it_is(tmp_path, place):
    mark, contents = tmp_path / "executed", [png(row) for row in range(ROWS)]
    evil = pickle.dumps(Bomb(mark))
    objects = io.BytesIO()
    np.save(objects, np.array([Bomb(mark)] * 3, object), allow_pickle=True)
    if place in ("zip", "table"):
        contents[BAD] = objects.getvalue()
        rows = held(place, tmp_path, contents)
        rows.x = Array("path", (3,), "float32") if place == "zip" else rows.x
        with pytest.raises(DfgenError):
            rows.batches()
    elif place.startswith("cache"):
        rows = held("cache", tmp_path, contents)
        rows.batches()
        name = {"index": "*/index", "pixels": "*/pixels", "settings": "*/settings.json"}
        [path] = (tmp_path / "cache").glob(name[place.removeprefix("cache ")])
        data = path.read_bytes()
        path.write_bytes((evil + data)[: len(data)])
        assert rows.rows(epochs=2)[0] == [*range(ROWS)] * 2
    else:
        rows = held("pack", tmp_path, contents)
        path = next((tmp_path / "pack").glob("shard-*" if place == "shard" else "_manifest.json"))
        if place == "shard":
            path.write_bytes(evil.ljust(path.stat().st_size, b"\0"))
        else:
            path.write_bytes(evil)
        with pytest.raises(DfgenError):
            Held(tmp_path / "pack", rows.x).batches()
    assert not mark.exists()
