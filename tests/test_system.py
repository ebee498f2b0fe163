"""Files are written whole or not at all, and what is said of them is true."""

import os
import stat

import pytest

from dfgen.errors import WriteError
from dfgen.system import write_whole


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
