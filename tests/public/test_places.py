"""The same images from every place where dfgen reads files: equal pixels, each row once."""

import contextlib
import shutil
import warnings
import zipfile
from pathlib import Path

import fsspec
import h5py
import numpy as np
import pytest
from servers import http_server, s3_server

import dfgen
from dfgen.errors import DecodeError, DfgenError
from public.leftovers import SIZE, assert_same, passes, pictures, sequence, written
from public.leftovers import nothing_left as nothing_left
from public.permutation import epoch_rows

ROWS = 13
PIXELS, PNG = pictures(ROWS)
HTTP = {"client_options": {"allow_http": True}}


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    return written(tmp_path_factory.mktemp("places") / "imgs/a b", PNG)


@pytest.fixture(scope="module")
def places(frame):
    """Return columns of a frame and arguments of a Sequence for each place."""
    top = Path(frame.path[0]).parents[2]
    names, limits = [f"a b/{row}.png" for row in range(ROWS)], dfgen.Limits(cache=5 * 9 * 7 * 3)
    tar, deflated = (shutil.make_archive(f"{top}/a", kind, top / "imgs") for kind in ("tar", "zip"))
    ignored = warnings.catch_warnings(action="ignore")
    with zipfile.ZipFile(top / "stored.zip", "w") as file, ignored:
        file.writestr(names[0], PNG[1])  # the last member of a name counts
        for name, path in zip(names, frame.path, strict=True):
            file.write(path, name)
    stored = {"path": [f"zip://{name}::{top}/stored.zip" for name in names]}
    np.save(top / "a.npy", PIXELS)
    with h5py.File(top / "a.h5", "w") as file:
        file.create_dataset("deep/imgs", data=PIXELS, chunks=(3, 9, 7, 3), compression="gzip")
    objects = dict(zip(names, PNG, strict=True))
    fsspec.filesystem("memory").pipe({f"/places/{name}": objects[name] for name in names})
    rows = {"size": SIZE, "index": "index"}
    found = {
        "file": ({}, {}),
        "root": ({"path": names}, {"root": top / "imgs"}),
        "root url": ({"path": names}, {"root": "memory://places"}),
        "cache": ({}, {"cache": top / "cache"}),
        "small cache": ({}, {"cache": top / "small", "limits": limits}),
        "memory cache": ({}, {"cache": "memory"}),
        "zip": (stored, {}),
        "cached zip": (stored, {"cache": top / "cached"}),
        "deflated zip": ({"path": [f"zip://{name}::{deflated}" for name in names]}, {}),
        "tar": ({"path": [f"tar://{name}::{tar}" for name in names]}, {}),
        "bytes": ({"path": PNG}, {}),
        "structs": ({"path": [{"bytes": data, "path": "x.png"} for data in PNG]}, {}),
        "npy": ({"path": f"{top}/a.npy"}, {"x": dfgen.Image(**rows)}),
        "hdf5": ({"path": f"{top}/a.h5"}, {"x": dfgen.Image(**rows, dataset="deep/imgs")}),
        "memory": ({"path": [f"memory://places/{name}" for name in names]}, {}),
    }
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(
            http_server({name.replace(" ", "_"): objects[name] for name in names})
        ).url
        paths = [f"{url}/{name}".replace(" ", "_") for name in names]
        found["http"] = {"path": paths}, {"storage_options": HTTP}
        options = stack.enter_context(s3_server({"bucket": objects})).options
        paths = [f"s3://bucket/{name}" for name in names]
        found["s3"] = {"path": paths}, {"storage_options": options}
        yield found


PLACES = (
    "file, root, root url, cache, small cache, memory cache, zip, deflated zip, cached zip, tar"
)
WAYS = [(place, False) for place in f"{PLACES}, bytes, structs, npy, hdf5, http".split(", ")]
WAYS += [(place, True) for place in ("file", "cache", "zip", "bytes", "hdf5", "s3")]


@pytest.mark.parametrize(("place", "processes"), [*WAYS, ("s3", False), ("memory", False)])
def test_two_epochs_from_each_place(frame, places, place, processes):
    columns, options = places.get(place) or pytest.skip("no moto")
    rows = frame.assign(**columns, index=range(ROWS))
    found = passes(rows, use_multiprocessing=processes, seed=4, **options)
    expected = [epoch_rows(ROWS, epoch, seed=4) for epoch in range(2)]
    assert_same(found, [(PIXELS[e], e) for e in expected], ordered=place not in ("npy", "hdf5"))
    assert found[0][1] != found[1][1]


@pytest.mark.parametrize("place", ["file", "zip", "tar", "s3", "http", "memory", "small cache"])
def test_a_file_of_another_size_is_detected(frame, places, place):
    """By the manifest, file 3 is larger than it is, and file 7 smaller."""
    columns, options = places.get(place) or pytest.skip("no moto")
    sizes = [len(data) + {3: 1, 7: -1}.get(row, 0) for row, data in enumerate(PNG)]
    changed, options = frame.assign(**columns).assign(bytes=sizes), options | {"shuffle": False}
    with pytest.raises(DecodeError, match="r3"):
        passes(changed, **options)
    with sequence(changed, on_error="skip", batch_size=ROWS, **options) as seq:
        x, _, weights = seq[0]
        assert seq.problems["id"].tolist() == ["r3", "r7"]
    good = np.setdiff1d(range(ROWS), (3, 7))
    np.testing.assert_array_equal(x[good], PIXELS[good])
    assert not x[[3, 7]].any() and not weights[[3, 7]].any()
    assert set(weights[good]) == {np.float32(ROWS / len(good))}


def test_damaged_members_of_a_zip_are_errors(frame, tmp_path):
    path, data = tmp_path / "a.zip", b"BM" + bytes(52) + PIXELS[0].tobytes()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("0.bin", data)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(data[-99:], bytes(99)))
    x = dfgen.Array("path", (54,), "uint8", decode=lambda data: np.frombuffer(data[:54], "uint8"))
    with pytest.raises(DfgenError, match=r"0\.bin"):
        passes(frame[:1].assign(path=f"zip://0.bin::{path}"), x)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_left_out_members_of_a_zip_are_warned_of(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for name in ("a.png", "b.png", "a.png", "../c.png"):
            file.writestr(name, PNG[name == "b.png"])
    with pytest.warns(UserWarning, match=r"leaves the archive.*c\.png\n.*repeated.*: a\.png"):
        found = dfgen.build_manifest(tmp_path / "a.zip")
    assert found["id"].tolist() == ["a.png", "b.png"]
