"""Backup files: each is written whole and checked when it is read; two are kept."""

import json
import os
import re
from contextlib import suppress
from glob import glob
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, warn
from dfgen.files import write_whole
from dfgen.locks import LOCK_SUFFIX, FileLock

NamedArrays = dict[str, npt.NDArray[Any]]
_NAME = re.compile(r"backup-(\d{8})\.npz")


class Generations:
    """The newest two backups in a folder, such as `backup-00000017.npz`: arrays, facts as JSON."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        lock = os.path.join(self.folder, LOCK_SUFFIX)
        advice = "wait until that training has ended, or give another backup_dir"
        self.lock = FileLock(lock, f"{self.folder} is in use", advice, shared=True)

    def save(self, facts: dict[str, Any], arrays: NamedArrays) -> None:
        """Write a backup, then delete all but the newest two."""
        paths = self._paths()
        number = int(_NAME.findall(paths[-1])[0]) + 1 if paths else 0
        path = os.path.join(self.folder, f"backup-{number:08}.npz")
        named: dict[str, Any] = {"facts": np.array(json.dumps(facts)), **arrays}
        for name in glob(".backup-*.tmp", root_dir=self.folder):  # of killed processes
            os.unlink(os.path.join(self.folder, name))
        write_whole(path, lambda file: np.savez(file, **named))
        for path in paths[:-1]:
            os.unlink(path)

    def load(self) -> tuple[str, dict[str, Any], NamedArrays] | None:
        """Return path, facts and arrays of the newest intact backup; None if there are no files."""
        paths = self._paths()
        for path in reversed(paths):
            try:
                with open(path, "rb") as file, np.load(file) as archive:
                    if (member := archive.zip.testzip()) is not None:
                        raise BadZipFile(f"the checksum of {member} is wrong")
                    arrays = dict(archive)
                return path, json.loads(arrays.pop("facts").item()), arrays
            except Exception as error:  # damaged archives raise errors of many types
                warn(f"{path} is damaged, the backup before it is used: {error}")
        if paths:
            raise ArgumentError(
                f"no backup in {self.folder} can be read. Delete the folder to start again, or "
                "give another backup_dir to keep it"
            )
        return None

    def delete(self) -> None:
        """Delete all backups, the newest last, and the folder if nothing else is in it."""
        with suppress(FileNotFoundError):  # if another callback saved there and deleted it
            for name in sorted(os.listdir(self.folder)):
                if _NAME.search(name):  # temporary files of killed processes as well
                    os.unlink(os.path.join(self.folder, name))
        self.lock.release()
        with suppress(OSError):
            os.rmdir(self.folder)

    def _paths(self) -> list[str]:
        names = filter(_NAME.fullmatch, sorted(os.listdir(self.folder)))
        return [os.path.join(self.folder, name) for name in names]
