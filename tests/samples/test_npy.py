"""Arrays of .npy files come back, and broken ones say what is wrong with them."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dfgen.errors import DecodeError
from dfgen.samples.pixels.formats import read_header
from dfgen.stores.array_files import array_header, decode_array


def saved(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4),
        np.asfortranarray(np.arange(24).reshape(2, 3, 4)),
        np.array(3.5, ">f4"),
        np.zeros((0, 3), np.int8),
        np.array([True, False]),
    ],
)
def test_arrays_come_back(tmp_path, array):
    decoded = decode_array(saved(array))
    np.testing.assert_array_equal(decoded, array)
    assert (decoded.dtype, decoded.shape) == (array.dtype, array.shape)
    path = tmp_path / "array.npy"
    path.write_bytes(saved(array))
    assert (read_header(str(path)).format, read_header(str(path)).width) == ("npy", None)


def header_of(shape, descr="<f8", padded=117):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    body = text.encode().ljust(padded) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body


def test_messages_of_broken_arrays():
    for data, message in [
        (b"PK\3\4", "no .npy file"),
        (saved(np.array([{}]), allow_pickle=True), "never unpickles"),
        (saved(np.zeros(3))[:-1], "truncated .* takes 24 bytes, and 23 follow"),
        (header_of("(1000000, 1000000, 1000)"), "truncated .* 8,000,000,000,000,000 bytes"),
        (header_of("(-1, 3)") + bytes(24), "broken .npy header: float64"),
        (header_of("(2,)", "|S0"), "broken .npy header: |S0"),
        (b"\x93NUMPY\2\0\xff\xff\xff\xff" + header_of("(3,)")[10:], "header of 4,294,967,295"),
        (header_of("(3,)", padded=20_000) + bytes(24), "broken .npy header: Header info length"),
        (b"\x89HDF\r\n\x1a\n", "HDF5 files are read by rows"),
    ]:
        with pytest.raises(DecodeError, match=message):
            decode_array(data)
    broken = (header_of("(3") + bytes(24), header_of("(3,)", "<i3") + bytes(24))
    for data in (saved(np.zeros(3))[:9], saved(np.zeros(3))[:40], *broken):
        with pytest.raises(DecodeError, match=r"^broken \.npy header: "):
            decode_array(data)


@given(
    st.sampled_from(["<f4", ">f8", "|u1", "<i8", "|b1", "<c16", "<M8[ns]", [("a", "<f4")]]),
    st.lists(st.integers(0, 4), max_size=4),
    st.booleans(),
    st.sampled_from([(1, 0), (2, 0), (3, 0)]),
)
def test_npy_header_is_read_like_numpy(dtype, shape, fortran, version):
    array = np.zeros(shape, dtype, order="F" if fortran else "C")
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version)
    start = len(file.getvalue()) - array.nbytes
    file.seek(0)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    assert array_header(file) == (array.shape, fortran, array.dtype)
    assert file.tell() == start


def test_npy_header_read_is_retried_after_thread_interference(monkeypatch):
    file = io.BytesIO()
    np.save(file, np.zeros(2, [("a", "<f4")]))
    file.seek(0)
    read, failures = np.lib.format.read_array_header_1_0, iter([True, True, False])

    def often_fails(file):
        file.read(3)
        if next(failures):
            raise SystemError("AST constructor recursion depth mismatch (before=54, after=51)")
        file.seek(-3, io.SEEK_CUR)
        return read(file)

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", often_fails)
    assert array_header(file)[0] == (2,)
