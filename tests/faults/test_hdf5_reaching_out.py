"""HDF5 files that take numbers from other files, or kill the process that reads them."""

import os

import h5py
import numpy as np
import pandas as pd
import pytest
from messages import message_of

import dfgen
from dfgen.errors import DecodeError
from dfgen.samples.stores.array_files import open_hdf5, open_rows

SECRET = b"root:x:0:0:top secret"
ALONE = "and dfgen reads no file that another one names: copy the numbers into one file"


def external(file, secret):
    file.create_dataset("x", (3, 7), "u1", external=[(str(secret), 0, 21)])


def link(file, secret):
    file["x"] = h5py.ExternalLink(str(secret), "/x")


def virtual(file, secret):
    layout = h5py.VirtualLayout((3, 7), "u1")
    layout[:] = h5py.VirtualSource(str(secret), "x", (3, 7))
    file.create_virtual_dataset("x", layout)


def growing(file, secret):
    """Write a virtual array whose shape alone has HDF5 open the other file."""
    layout = h5py.VirtualLayout((3, 7), "u1", maxshape=(None, 7))
    source = h5py.VirtualSource(str(secret), "x", (3, 7), maxshape=(None, 7))
    layout[0 : h5py.h5s.UNLIMITED] = source[0 : h5py.h5s.UNLIMITED]
    file.create_virtual_dataset("x", layout)


WAYS = {external: "external storage", link: "an external link", virtual: "virtual"}


def reaching(folder, way, secret):
    with h5py.File(folder / "stranger.h5", "w") as file:
        file["good"] = np.arange(3)
        way(file.create_group("group"), secret)
    return str(folder / "stranger.h5")


def refusal(secret, how):
    return f"the HDF5 file takes 'group/x' from another file, '{secret}' ({how}), {ALONE}"


@pytest.mark.parametrize("way", WAYS)
def test_hdf5_that_takes_numbers_from_another_file_is_refused_by_name(tmp_path, way):
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    path = reaching(tmp_path, way, secret)
    with open(path, "rb") as file:
        data = file.read()
    told = refusal(secret, WAYS[way])
    for source in (path, data):
        for refused in (open_hdf5, lambda source: open_rows(source, "good")):
            assert message_of(DecodeError, refused, source) == told
    frame = pd.DataFrame({"id": [7], "path": [path], "index": [0]})
    found = dfgen.verify(frame, decode=True)
    assert found["detail"].tolist() == [f"cannot be decoded: {told}"]


def test_hdf5_that_names_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    path = reaching(tmp_path, growing, tmp_path / "pipe")
    assert message_of(DecodeError, open_hdf5, path) == refusal(tmp_path / "pipe", "virtual")


def test_soft_links_within_an_hdf5_file_do_no_harm(tmp_path):
    path = reaching(tmp_path, lambda group, _: group.create_dataset("x", data=np.eye(3)), None)
    with h5py.File(path, "a") as file:
        file["again"] = h5py.SoftLink("/group/x")
        file["nowhere"] = h5py.SoftLink("/not/there")
    assert sorted(open_hdf5(path)) == ["good", "group/x"]


@pytest.fixture
def texts(tmp_path):
    """Return a function that writes eight texts, and one byte of that file anew."""

    def write(byte, value):
        with h5py.File(tmp_path / "texts.h5", "w") as file:
            file["y"] = np.array([f"name {row}" for row in range(8)], h5py.string_dtype())
        with open(tmp_path / "texts.h5", "r+b") as file:
            place = byte(file.read())
            file.seek(place)
            file.write(bytes([value]))
        return str(tmp_path / "texts.h5")

    return write


def test_text_of_hdf5_is_no_row_of_numbers(texts):
    path = texts(lambda data: 0, 0x89)
    assert message_of(DecodeError, open_rows, path) == (
        "the HDF5 array 'y' holds text or lists of changing length, expected numbers"
    )
