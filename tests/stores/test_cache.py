"""cache=: decoded pixels are kept, and every batch is what it would be without."""

import ctypes
import gc
import io
import os
import re
import resource
import shutil
import signal
import sys
import tarfile
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pandas as pd
import pytest
from messages import message_of
from servers import MODIFIED, http_server

from dfgen import pack
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.errors import ArgumentError
from dfgen.limits import Limits
from dfgen.loading.loader import Loader
from dfgen.samples.features.array import Array
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.stores.archives.members import Archives
from dfgen.samples.stores.cache.cache_folder import (
    open_folder,
    open_memory,
)
from dfgen.samples.stores.local_files import Files
from dfgen.spec import Spec

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no flock, no pwrite, no forks")
ROWS, SIZE = 24, (32, 40)


def write_image(path, number, size=None):
    """Random blocks by number, of a size by it too."""
    rng = np.random.default_rng(number)
    height, width = size or rng.integers(50, 150, 2)
    small = rng.integers(0, 256, (8, 9, 3), np.uint8)
    assert cv2.imwrite(str(path), cv2.resize(small, (int(width), int(height))))


@pytest.fixture
def frame(tmp_path):
    (tmp_path / "imgs").mkdir()
    paths = [str(tmp_path / "imgs" / f"{row}.{('jpg', 'png')[row % 2]}") for row in range(ROWS)]
    for row, path in enumerate(paths):
        write_image(path, row)
    return pd.DataFrame({"id": range(ROWS), "path": paths, "label": np.arange(ROWS) % 2})


def image(**options):
    return Image("path", **{"size": SIZE, **options})


def made(frame, x=None, cache=None, *, y="label", epochs=2, transform=None, **options):
    """All arrays of some epochs, and the metrics, of a Loader that makes nothing ahead."""
    x, given = x or image(), {name: options.pop(name, None) for name in ("limits", "root")}
    options = {"workers": 0, "seed": 3, "batch_size": 5, **options}
    bound = bind(frame, x, y, cache=cache, transform=transform, **given)
    loader = Loader(bound.reader, limits=given["limits"], **options)
    try:
        found = [
            {name: np.array(array) for name, array in loader.batch(epoch, step).arrays.items()}
            for epoch in range(epochs)
            for step in range(len(loader))
        ]
        return found, loader.metrics
    finally:
        loader.close()


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])


def upside_down(sample, rng):
    return {**sample, "image": np.roll(sample["image"][::-1], rng.integers(5), axis=1)[:32, :40]}


IMAGES = {
    "plain": image(),
    "grayscale, scaled": image(color_mode="grayscale", scale="0..1"),
    "crop": image(resize="crop"),
    "crop in the centre": image(resize="crop", crop="center", interpolation="area"),
    "pad": image(resize="pad", interpolation="nearest"),
    "crop or pad": image(resize="crop_or_pad"),
    "flips": image(flip="horizontal_and_vertical"),
    "flips, standardized": image(flip="horizontal", scale="standardize", antialias=False),
    "load_size": image(load_size=(40, 48)),
    "16 bits": image(dtype="uint16"),
    "enlarged, random crop": image(size=(180, 160), load_size=(190, 200), crop="random"),
}


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("transform", [None, upside_down])
def test_epochs_are_the_same_with_and_without(frame, tmp_path, kind, transform):
    if transform is not None and kind == "enlarged, random crop":
        transform = None
    options = {"x": IMAGES[kind], "transform": transform}
    plain, _ = made(frame, **options)
    for cache in (tmp_path / "cache", tmp_path / "cache", "memory"):
        cached, metrics = made(frame, cache=cache, **options)
        assert_same(plain, cached)
    assert (metrics.cache_hits, metrics.cache_misses) == (ROWS, ROWS)


@pytest.mark.parametrize("workers", [{"workers": 2}, {"workers": 2, "use_multiprocessing": True}])
@pytest.mark.parametrize("cache", ["cache", "memory"])
def test_workers_share_it(frame, tmp_path, workers, cache):
    cache = cache if cache == "memory" else tmp_path / cache
    plain, _ = made(frame)
    cached, metrics = made(frame, cache=cache, **workers)
    assert_same(plain, cached)
    assert (metrics.cache_hits, metrics.cache_misses) == (ROWS, ROWS)
    assert metrics.cache_bytes == ROWS * 32 * 40 * 3


@pytest.mark.parametrize("resize", ["stretch", "pad"])
def test_a_random_crop_is_the_same_whether_its_picture_was_there_or_not(frame, tmp_path, resize):
    """Of images made smaller it is whole pixels of the smaller one; without it is of the larger."""
    x = image(resize=resize, load_size=(40, 48), crop="random", flip="horizontal")
    first, _ = made(frame, x, tmp_path / "cache")
    again, metrics = made(frame, x, tmp_path / "cache")
    half, counts = made(frame, x, tmp_path / "half", limits=Limits(cache=ROWS * 2880))
    assert_same(first, again)
    assert_same(first, half)
    assert metrics.cache_misses == 0
    assert counts.cache_hits == ROWS // 2
    plain, _ = made(frame, x)
    apart = [np.abs(a["image"] - b["image"].astype(int)) for a, b in zip(plain, first, strict=True)]
    assert 0 < np.concatenate(apart).mean() < 8


def test_boxes_and_masks_lie_as_without(frame, tmp_path):
    for row, path in enumerate(frame["path"]):
        height, width = cv2.imread(path).shape[:2]
        mask = (np.arange(height * width).reshape(height, width) // 7 + row).astype(np.uint8)
        cv2.imwrite(str(tmp_path / f"m{row}.png"), mask)
    frame["mask"] = [str(tmp_path / f"m{row}.png") for row in range(ROWS)]
    frame["boxes"] = [[[3.0, 5.0, 40.0 + row, 45.0]] for row in range(ROWS)]
    frame["labels"] = [[row % 3] for row in range(ROWS)]
    for resize, flip in (("crop", "horizontal"), ("pad", "vertical")):
        one = image(resize=resize, flip=flip)
        y = {"mask": Mask("mask", like="image"), "boxes": Boxes("boxes", "labels", like="image")}
        options = {"x": {"image": one}, "y": y, "limits": Limits(cache=ROWS * 1920)}
        plain, _ = made(frame, **options)
        for _ in range(2):
            cached, metrics = made(frame, cache=tmp_path / resize, **options)
            assert_same(plain, cached)
        assert metrics.cache_hits == ROWS  # twice half of them


def test_two_sequences_share_a_folder_and_other_settings_do_not(frame, tmp_path):
    cache = tmp_path / "cache"
    made(frame[:10], cache=cache)
    _, metrics = made(frame.sample(frac=1, random_state=0), cache=cache, epochs=1)
    assert (metrics.cache_hits, metrics.cache_misses) == (10, ROWS - 10)
    for x in (image(size=(32, 41)), image(antialias=False), image(color_mode="rgba")):
        _, metrics = made(frame, x, cache, epochs=1)
        assert metrics.cache_hits == 0
    _, metrics = made(frame, image(flip="vertical", scale="0..1"), cache, epochs=1)
    assert metrics.cache_hits == ROWS  # what is done later is no other setting
    assert len([*cache.glob("*/index")]) == 4


def test_a_relative_path_is_another_file_in_another_working_folder(tmp_path, monkeypatch):
    for number, name in enumerate(("here", "there")):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        (tmp_path / name / "a.bmp").write_bytes(bmp(number))
        os.utime("a.bmp", ns=(10**18, 10**18))
        frame = pd.DataFrame({"id": [0], "path": ["a.bmp"], "label": [0]})
        cached, metrics = made(frame, cache=tmp_path / "cache", epochs=1)
        assert_same(made(frame, epochs=1)[0], cached)
        assert metrics.cache_misses == 1


@pytest.mark.parametrize("change", ["size", "time"])
def test_a_changed_file_is_never_served_as_it_was(frame, tmp_path, change):
    made(frame, cache=tmp_path / "cache")
    path = frame["path"][3]
    status = os.stat(path)
    write_image(path, 99, (70, 71))
    if change == "time":  # as many bytes as before
        with open(path, "ab") as file:
            file.truncate(max(status.st_size, os.path.getsize(path)))
        frame_path = frame["path"][5]
        write_image(frame_path, 98)
        os.utime(frame_path, ns=(0, 10**18))
    else:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    plain, _ = made(frame)
    cached, metrics = made(frame, cache=tmp_path / "cache")
    assert_same(plain, cached)
    assert metrics.cache_misses == (1 if change == "size" else 2)


def test_a_file_that_is_not_the_one_of_the_manifest_is_told_as_without(frame, tmp_path):
    stats = [os.stat(path) for path in frame["path"]]
    frame = frame.assign(bytes=[s.st_size for s in stats], mtime_ns=[s.st_mtime_ns for s in stats])
    made(frame, cache=tmp_path / "cache")
    write_image(frame["path"][3], 99, (70, 71))
    made(frame.drop(columns=["bytes", "mtime_ns"]), cache=tmp_path / "cache")
    errors = []
    for cache in (None, tmp_path / "cache"):
        with pytest.raises(ValueError, match="the file has changed since the manifest") as error:
            made(frame, cache=cache)
        errors.append(str(error.value))
    assert errors[0] == errors[1]


def bmp(number):
    """A file whose size does not depend on its pixels."""
    pixels = np.random.default_rng(number).integers(0, 256, (60, 70, 3), np.uint8)
    return cv2.imencode(".bmp", pixels)[1].tobytes()


def written(path, numbers, how="renamed", time=10**18):
    """Write a file of one image, or an archive of several, over what is there; times are given."""
    path, new = Path(path), Path(f"{path}.new")
    if path.suffix == ".zip":
        with zipfile.ZipFile(new, "w") as archive:
            for row, number in enumerate(numbers):
                archive.writestr(zipfile.ZipInfo(f"{row}.bmp"), bmp(number))
    elif path.suffix == ".tar":
        with tarfile.open(new, "w") as archive:
            for row, number in enumerate(numbers):
                info, data = tarfile.TarInfo(f"{row}.bmp"), bmp(number)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    else:
        new.write_bytes(bmp(numbers[0]))
    if how == "in place":
        path.write_bytes(new.read_bytes())
    else:
        if how == "removed":
            path.unlink()
        new.rename(path)
    os.utime(path, ns=(time, time))


def rows_in(place):
    """A frame of two rows, loose or in an archive."""
    paths = [f"{place}/0.bmp", f"{place}/1.bmp"]
    if place.suffix:
        paths = [f"{place.suffix[1:]}://{row}.bmp::{place}" for row in range(2)]
    return pd.DataFrame({"id": range(2), "path": paths, "label": [0, 1]})


@pytest.mark.parametrize(
    ("kind", "when"),
    [(kind, when) for kind in ("imgs", "a.zip", "a.tar") for when in ("before", "after")],
)
@pytest.mark.parametrize("cache", ["cache", "memory"])
@pytest.mark.parametrize("how", ["renamed", "in place", "removed"])
def test_what_is_read_of_a_file_that_is_exchanged_meanwhile_is_not_kept(
    tmp_path, monkeypatch, kind, cache, how, when
):
    place = tmp_path / kind
    target = place if place.suffix else place / "0.bmp"
    if not place.suffix:
        place.mkdir()
        written(place / "1.bmp", [1])
    written(target, [0, 1])
    frame = rows_in(place)
    plain, _ = made(frame, shuffle=False, epochs=1)
    store = Archives if place.suffix else Files
    todo = {"before": [2], "after": [None, 2]}[when]

    def exchange(numbers):
        if numbers and (number := numbers.pop(0)) is not None:
            written(target, [number, 1], how, 10**18 + number * 10**10)

    def exchanging(read):
        def one(self, path, *check):
            mine = todo if path == frame["path"][0] else []
            exchange(mine)
            data = read(self, path, *check)
            exchange(mine)
            return data

        return one

    for name in ("read", "read_as"):
        monkeypatch.setattr(store, name, exchanging(getattr(store, name)))
    cache = cache if cache == "memory" else tmp_path / cache
    reader = bind(frame, image(), "label", cache=cache).reader
    loader = Loader(reader, workers=0, batch_size=5, shuffle=False)
    loader.batch(0, 0)
    assert not todo
    written(target, [0, 1])
    assert_same(plain, [loader.batch(1, 0).arrays])
    loader.close()
    if cache != "memory":
        assert_same(plain, made(frame, cache=cache, shuffle=False, epochs=1)[0])


def test_a_file_that_is_exchanged_after_it_was_looked_for_is_told_as_without(tmp_path):
    (tmp_path / "imgs").mkdir()
    for row in range(2):
        written(tmp_path / f"imgs/{row}.bmp", [row])
    frame = rows_in(tmp_path / "imgs").assign(mtime_ns=10**18)
    reader = bind(frame, image(), "label", cache=tmp_path / "cache").reader
    assert not reader.sources["image"].has(0)
    written(tmp_path / "imgs/0.bmp", [2], time=10**18 + 10**10)
    loader = Loader(reader, workers=0, batch_size=2, shuffle=False)
    with pytest.raises(ValueError, match="the file has changed since the manifest was made"):
        loader.batch(0, 0)
    loader.close()


@pytest.mark.parametrize("kind", ["a.zip", "a.tar"])
def test_an_archive_made_anew_with_the_times_and_sizes_of_old_is_not_served_as_it_was(
    tmp_path, kind
):
    """As tools that make the same archive of the same files do: all members are of 1980."""
    frame = rows_in(tmp_path / kind)
    for numbers, time in (([0, 1], 10**18), ([1, 0], 10**18 + 10**10)):
        written(tmp_path / kind, numbers, time=time)
        plain, _ = made(frame, epochs=1)
        cached, metrics = made(frame, cache=tmp_path / "cache", epochs=1)
        assert_same(plain, cached)
        assert metrics.cache_misses == 2


def test_a_missing_or_broken_file_is_told_as_without(frame, tmp_path):
    made(frame, cache=tmp_path / "cache")
    os.unlink(frame["path"][3])
    with open(frame["path"][8], "wb") as file:
        file.write(b"\xff\xd8\xff broken")
    plain, _ = made(frame, on_error="skip", shuffle=False)
    cached, _ = made(frame, cache=tmp_path / "cache", on_error="skip", shuffle=False)
    assert_same(plain, cached)
    assert not cached[0]["image"][3].any()


def test_what_does_not_fit_is_decoded_each_time_and_what_fits_is_never_evicted(frame, tmp_path):
    options = {"cache": tmp_path / "cache", "limits": Limits(cache=10 * 32 * 40 * 3 + 5)}
    plain, _ = made(frame, epochs=4)
    cached, metrics = made(frame, epochs=4, **options)
    assert_same(plain, cached)
    assert (metrics.cache_hits, metrics.cache_misses) == (3 * 10, ROWS + 3 * (ROWS - 10))
    _, metrics = made(frame, epochs=1, **options)
    assert (metrics.cache_hits, metrics.cache_misses) == (10, ROWS - 10)


def forked(function):
    """Begin a function in a process of its own; return that and what is to be read of it."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            os.write(writing, str(function()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    return child, reading


def ended(child, reading):
    """What a child has returned, and how it ended."""
    with open(reading, encoding="utf-8") as file:
        return file.read(), os.waitpid(child, 0)[1]


def drop_capabilities():
    """Let the modes of folders hold for this process, also if root runs it."""
    version_3, current_process = 0x20080522, 0
    header = (ctypes.c_uint32 * 2)(version_3, current_process)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capset")


def die_at(calls):
    """Have this process killed at its n-th write."""
    left, pwrite = [calls], os.pwrite

    def one(*arguments):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return pwrite(*arguments)

    os.pwrite = one


@pytest.mark.parametrize("calls", [1, 3, 20, 21])
def test_a_killed_training_costs_nothing_but_what_it_had_in_hand(frame, tmp_path, calls):
    """Its third write is the record of the first row; then pixels and record of each."""

    def train():
        die_at(calls)
        made(frame, cache=tmp_path / "cache")

    assert ended(*forked(train)) == ("", signal.SIGKILL)
    plain, _ = made(frame)
    cached, metrics = made(frame, cache=tmp_path / "cache")
    assert_same(plain, cached)
    assert metrics.cache_misses == ROWS - max(0, (calls - 2) // 2)


def test_several_processes_fill_one_cache_at_the_same_time(frame, tmp_path):
    def train():
        return made(frame, cache=tmp_path / "cache", epochs=3)[1].samples

    children = [forked(train) for _ in range(3)]
    cached, _ = made(frame, cache=tmp_path / "cache", epochs=3)
    assert [ended(*child) for child in children] == [(str(3 * ROWS), 0)] * 3
    assert_same(made(frame, epochs=3)[0], cached)
    cached, metrics = made(frame, cache=tmp_path / "cache")
    assert_same(made(frame)[0], cached)
    assert metrics.cache_misses == 0


def test_all_settings_of_a_folder_share_what_it_may_hold(frame, tmp_path):
    options = {"cache": tmp_path / "cache", "limits": Limits(cache=ROWS * 3840)}
    made(frame, **options)
    _, metrics = made(frame, image(size=(8, 8)), **options)
    assert metrics.cache_hits == 0


def test_a_setting_has_one_folder_and_is_written_for_people_to_read(tmp_path):
    spec, folder = Spec((1, 1, 1), np.dtype(np.uint8)), tmp_path / "cache"
    settings = {"shape": [1, 1, 1], "dtype": "uint8"}
    slots = open_folder(str(folder), settings, spec, 10)
    assert slots.put((1, 2), (1, 1), np.zeros(spec.shape, "uint8")) == 0
    again = open_folder(str(folder), dict(reversed(settings.items())), spec, 10)
    assert len(again) == 1
    [written] = folder.glob("*/settings.json")
    assert written.read_text() == ('{\n "dtype": "uint8",\n "shape": [\n  1,\n  1,\n  1\n ]\n}\n')


@pytest.mark.parametrize(
    ("most", "free", "slot"), [(None, 20_000 + 256, 0), (None, 20_000 + 255, -1), (10, 0, 0)]
)
def test_without_a_limit_a_twentieth_of_what_is_free_stays_so(
    tmp_path, monkeypatch, most, free, slot
):
    spec, disk = Spec((1, 1, 1), np.dtype(np.uint8)), SimpleNamespace(f_bavail=100_004, f_frsize=4)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    slots = open_folder(str(tmp_path), {}, spec, most)
    disk.f_bavail, disk.f_frsize = free, 1
    assert slots.put((1, 2), (1, 1), np.zeros(spec.shape, "uint8")) == slot


def test_memory_that_nobody_holds_is_given_back():
    def held():
        files = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        held = [path for path in files if os.path.lexists(path) and "dfgen-" in os.readlink(path)]
        return {(path, os.stat(path).st_ino) for path in held}

    before = held()
    slots = open_memory(Spec((4, 5, 3), np.dtype(np.uint8)), 600)
    own = held() - before
    assert len(own) == 4  # each is open twice
    del slots
    gc.collect()
    assert not held() & own


def test_several_images_share_the_memory_that_they_may_take(frame):
    x = {"small": image(), "gray": image(color_mode="grayscale")}
    most = ROWS * 32 * 40 * 3
    _, metrics = made(frame, x, "memory", limits=Limits(cache=most))
    assert most * 3 // 4 <= metrics.cache_bytes <= most


def test_a_folder_that_cannot_be_made_warns_once_and_training_goes_on(frame, tmp_path):
    (tmp_path / "file").write_text("")
    cache = f"{tmp_path}/file/cache"
    with pytest.warns(UserWarning) as told:
        cached, metrics = made(frame, cache=cache)
    assert [str(one.message) for one in told] == [
        f"cache={cache!r} cannot be used: Not a directory. Training goes on without it"
    ]
    assert_same(made(frame)[0], cached)
    assert metrics.cache_misses == 0


@pytest.mark.parametrize(
    ("mark", "format"), [('{"kind": "dfgen cache", "format": 2}', 2), ("[1]", None), ("\0", None)]
)
def test_a_folder_of_another_version_is_left_alone_with_one_warning(frame, tmp_path, mark, format):
    cache = tmp_path / "cache"
    made(frame, cache=cache)
    (cache / "dfgen-cache.json").write_text(mark)
    before = sorted(map(str, cache.rglob("*")))
    with pytest.warns(UserWarning) as told:
        cached, _ = made(frame, cache=cache)
    assert [str(one.message) for one in told] == [
        f"cache={str(cache)!r} cannot be used: dfgen-cache.json is of another version, format "
        f"{format} instead of 1. Training goes on without it"
    ]
    assert_same(made(frame)[0], cached)
    assert sorted(map(str, cache.rglob("*"))) == before


@pytest.mark.slow
@pytest.mark.parametrize("processes", [False, True])
def test_a_disk_that_takes_no_more_warns_once_and_training_goes_on(frame, tmp_path, processes):
    """A file may have no more than 30 kB here."""

    def train():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 * 3840, resource.RLIM_INFINITY))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            options = {"workers": 2, "use_multiprocessing": processes}
            cached, _ = made(frame, cache=tmp_path / "cache", limits=Limits(cache="1MB"), **options)
        assert_same(plain, cached)
        return [str(one.message) for one in told]

    plain, _ = made(frame)
    told = [
        "the cache takes no more pixels: File too large. Training goes on with the pixels in it"
    ]
    assert ended(*forked(train)) == (str(told), 0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")
def test_what_is_in_a_folder_to_read_alone_is_used(frame, tmp_path):
    cache = tmp_path / "cache"
    made(frame[:10], cache=cache)
    for path in [cache, *cache.rglob("*")]:
        path.chmod(0o555)

    def train():
        drop_capabilities()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            _, metrics = made(frame, cache=cache)
        return [str(one.message) for one in told], metrics.cache_hits, metrics.cache_misses

    told = f"cache={str(cache)!r} cannot be written: dfgen reads the pixels in it and adds none"
    assert ended(*forked(train)) == (str(([told], 20, 2 * (ROWS - 10))), 0)


def test_a_cache_that_is_removed_meanwhile_is_no_harm(frame, tmp_path):
    bound = bind(frame, image(), "label", cache=tmp_path / "cache")
    loader = Loader(bound.reader, workers=0, batch_size=5, shuffle=False)
    batches = [loader.batch(0, 0)]
    shutil.rmtree(tmp_path / "cache")
    batches += [loader.batch(epoch, step) for epoch in (0, 1) for step in range(5)]
    loader.close()
    plain, _ = made(frame, shuffle=False)
    assert_same([plain[0], *plain], [batch.arrays for batch in batches])


@pytest.mark.parametrize("name", ["pixels", "index"])
def test_a_cache_that_is_cut_short_meanwhile_warns_once_and_training_goes_on(frame, tmp_path, name):
    bound = bind(frame, image(), "label", cache=tmp_path / "cache")
    loader = Loader(bound.reader, workers=2, batch_size=5, shuffle=False)
    batches = [loader.batch(epoch, step) for epoch in (0, 1) for step in range(4)]
    (file,) = (tmp_path / "cache").glob(f"*/{name}")
    os.truncate(file, 70)
    with pytest.warns(
        UserWarning, match="the cache takes no more pixels: Input/output error"
    ) as told:
        batches += [loader.batch(epoch, step) for epoch in (2, 3) for step in range(4)]
    assert len(told) == 1
    loader.close()
    plain, _ = made(frame, shuffle=False)
    assert_same(4 * plain[:4], [batch.arrays for batch in batches])


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_files_far_away_are_asked_for_once_and_no_more(frame, tmp_path, processes):
    pytest.importorskip("obstore")
    held = {os.path.basename(path): Path(path).read_bytes() for path in frame["path"]}
    with http_server(held) as server:
        far = frame.assign(
            path=[f"{server.url}/{name}" for name in held],
            bytes=[len(data) for data in held.values()],
            mtime_ns=MODIFIED * 10**9,
        )
        options = {"workers": 2, "use_multiprocessing": processes}
        plain, _ = made(frame, epochs=3)
        cached, metrics = made(far, cache=tmp_path / "cache", epochs=3, **options)
        assert_same(plain, cached)
        assert (metrics.cache_misses, len(server.asked)) == (ROWS, ROWS)
        assert {(kind, count) for (kind, _), count in server.asked.items()} == {("GET", 1)}
        server.clear_counts()
        assert_same(plain, made(far, cache=tmp_path / "cache", epochs=3, **options)[0])
        assert not server.asked
        times = far["mtime_ns"].astype("Int64").where(far.index != 3)
        made(far.assign(mtime_ns=times), cache=tmp_path / "cache", epochs=3, **options)
        assert [*server.asked.values()] == [3]  # of that alone whose time nobody knows
        newer = far.assign(mtime_ns=MODIFIED * 10**9 + 10**12)
        with pytest.raises(ValueError, match="the file has changed since the manifest was made"):
            made(newer, cache=tmp_path / "cache")
        with pytest.raises(ArgumentError, match="must know size and time"):
            made(far.drop(columns="mtime_ns"), cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (
            image(size=None),
            "size=None gives each image a size of its own, a cache has slots of one size",
        ),
        (
            image(dtype="float32"),
            "dtype='float32' has the depth of each file, a cache has slots of one",
        ),
        (
            image(crop="random_resized"),
            'crop="random_resized" crops the image before it is resized: take crop="random" with '
            "load_size=",
        ),
        (
            image(resize="crop", crop="random"),
            "crop=\"random\" with resize='crop' crops images of sizes of their own: take "
            'resize="stretch" or "pad", and load_size=',
        ),
        (
            image(decode=len),
            "decode= is a function, and nothing tells whether it is the one that filled a cache",
        ),
        (Array("path", (3,)), "Array is not kept, images alone are"),
    ],
)
def test_what_may_not_be_kept_is_refused(frame, tmp_path, x, why):
    if isinstance(x, Array):
        np.save(tmp_path / "a.npy", np.zeros(3, np.float32))
        frame["path"] = str(tmp_path / "a.npy")
    cache = str(tmp_path / "cache")
    assert message_of(ArgumentError, bind, frame, {"image": x}, "label", cache=cache) == (
        f"cache={cache!r} has no image to keep: 'image': {why}"
    )
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("format", [{"image_size": SIZE}, {"format": "original"}])
def test_what_is_in_a_pack_needs_no_cache(frame, tmp_path, format):
    pack(frame, tmp_path / "pack", **format)
    assert (
        message_of(ArgumentError, bind, str(tmp_path / "pack"), image(), "label", cache="cache")
        == "cache='cache' has no image to keep: 'image': it is in a pack already"
    )


@pytest.mark.parametrize(
    ("cache", "why"),
    [
        *(
            (one, f'must be a folder or "memory", got {one!r}: write cache=')
            for one in (True, "", 5)
        ),
        (
            "s3://bucket/cache",
            "is a URL, and a cache is mapped into memory: give a folder on a disk",
        ),
        ("~/cache", "\"~\" is not expanded, write os.path.expanduser('~/cache')"),
    ],
)
def test_what_is_no_folder_is_refused(frame, cache, why):
    with pytest.raises(ArgumentError, match=re.escape(why)):
        bind(frame, options=Options(image_size=SIZE), cache=cache)
