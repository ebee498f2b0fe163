"""Every store keeps the contract."""

import pytest
from contracts import StoreContract

from dfgen.errors import DecodeError, DfgenError
from dfgen.samples.storage.files import Files


class TestFiles(StoreContract):
    def make(self, folder, contents):
        paths = {}
        for name, data in contents.items():
            paths[name] = str(folder / name)
            (folder / name).write_bytes(data)
        return Files(), paths

    def missing(self, folder):
        return str(folder / "missing")

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            (".", "the file cannot be read: Is a directory"),
            ("loop", "the file cannot be read: Too many levels of symbolic links"),
            ("nul\0", "the file cannot be read: embedded null byte"),
            ("x" * 300, "the file cannot be read: File name too long"),
        ],
    )
    def test_what_cannot_be_read_says_why(self, tmp_path, name, message):
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        with pytest.raises(DecodeError) as error:
            Files().read(f"{tmp_path}/{name}")
        assert str(error.value) == message

    def test_a_file_is_no_folder(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"1"})
        with pytest.raises(DfgenError, match=r"^the file does not exist$"):
            store.read(paths["a"] + "/b")
