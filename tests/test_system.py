"""Files are written whole or not at all; and what is said of them, and of arguments, is true."""

import os
import stat

import numpy as np
import pytest

from dfgen.errors import ArgumentError, WriteError
from dfgen.system import flag, one_of, whole, write_whole


def test_a_folder_that_cannot_be_flushed_is_told_as_what_it_is(tmp_path, monkeypatch):
    path, flush = tmp_path / "a.bin", os.fsync
    path.write_bytes(b"old")

    def failing(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(5, "Input/output error")
        flush(handle)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(WriteError) as caught:
        write_whole(str(path), lambda file: file.write(b"new"))
    assert str(caught.value) == (
        f"{path} was written, but its folder could not be flushed to the disk: [Errno 5] "
        "Input/output error. After a loss of power it may be missing, or be what it was before: "
        "write it again"
    )
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_what_interrupts_the_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def interrupted(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(str(path), interrupted)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("value", [True, np.True_, 1, np.int64(1), np.array(True)])
def test_a_flag_is_a_bool_of_python_or_numpy_or_one(value):
    assert flag("shuffle", value) is True
    assert flag("shuffle", type(value)(0) if not isinstance(value, np.ndarray) else ~value) is False


@pytest.mark.parametrize("value", ["yes", None, 2, 1.0, np.float64(1), np.array([True])])
def test_what_is_neither_true_nor_false_is_no_flag(value):
    with pytest.raises(ArgumentError) as error:
        flag("shuffle", value)
    assert str(error.value) == (
        f"shuffle must be True or False, got {value!r}: write shuffle=True or shuffle=False"
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("RGB", "'RGB': write mode=\"rgb\""),
        ("gray", "'gray': write mode=\"grayscale\""),
        ("bgr", "'bgr': give another scale"),
        ("rgbb", "'rgbb'. Did you mean \"rgb\"?"),
        (np.ones((2, 2)), "a numpy.ndarray of shape (2, 2)"),
        ([], "[]"),
    ],
)
def test_a_value_of_another_library_is_told_what_it_is_here(value, said):
    with pytest.raises(ArgumentError) as error:
        elsewhere = {"gray": "grayscale", "bgr": "give another scale"}
        one_of("mode", value, (None, "rgb", "grayscale"), elsewhere)
    assert str(error.value) == f"mode must be one of (None, 'rgb', 'grayscale'), got {said}"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (32.0, "32.0 is not a whole number of 1 or more: write n=32"),
        ("8", "'8' is not a whole number of 1 or more: write n=8"),
        (np.float32(2), "np.float32(2.0) is not a whole number of 1 or more: write n=2"),
        (0.0, "0.0 is not a whole number of 1 or more: ask for more"),
        (float("inf"), "inf is not a whole number of 1 or more: ask for more"),
        (True, "True is not a whole number of 1 or more: ask for more"),
    ],
)
def test_what_is_meant_by_a_number_that_is_not_whole_is_told(value, said):
    with pytest.raises(ArgumentError) as error:
        whole("n", value, least=1, advice="ask for more")
    assert str(error.value).replace("n=2.0 ", "n=np.float32(2.0) ") == f"n={said}"
