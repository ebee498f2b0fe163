"""Members of zip and tar archives are files: listed, looked at, verified and trained on."""

import io
import tarfile
import zipfile

import pytest
from contracts import StoreContract

from dfgen.errors import MissingFileError
from dfgen.samples.storage.archives import Archives


def write_zip(path, contents, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


def write_tar(path, contents, form=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=form) as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000.25
            archive.addfile(info, io.BytesIO(data))


class ArchiveContract(StoreContract):
    kind = "zip"

    def write(self, path, contents):
        write_zip(path, contents)

    def make(self, folder, contents):
        self.write(folder / "held", contents)
        return Archives(), {name: f"{self.kind}://{name}::{folder}/held" for name in contents}

    def missing(self, folder):
        return f"{self.kind}://a::{folder}/none"

    def test_missing_bytes_are_refused(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"1"})
        for path, message in (
            (self.missing(tmp_path), f"there is no archive '{tmp_path}/none'"),
            (paths["a"].replace("a", "b", 1), f"the archive '{tmp_path}/held' has no member 'b'"),
        ):
            path = path if "//b" in path or "none" in path else f"{self.kind}://b::{tmp_path}/held"
            for ask in (store.read, store.head, lambda path: store.row(path, 0), store.open):
                with pytest.raises(MissingFileError) as caught:
                    ask(path)
                assert str(caught.value) == message


class TestStored(ArchiveContract):
    pass


class TestDeflated(ArchiveContract):
    def write(self, path, contents):
        write_zip(path, contents, zipfile.ZIP_DEFLATED)


class TestTar(ArchiveContract):
    kind = "tar"

    def write(self, path, contents):
        write_tar(path, contents)
