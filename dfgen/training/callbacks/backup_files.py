"""Backups on disk: whole or not there, checked, and the one before kept."""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, WriteError
from dfgen.locks import LOCK_SUFFIX, FileLock
from dfgen.system import write_whole

NamedArrays = dict[str, npt.NDArray[Any]]
Facts = dict[str, Any]

BACKUP_FORMAT = 1
_KEPT = 2
_NAME = re.compile(r"backup-(\d{8})\.dfgen")
_UNFINISHED = re.compile(r"\.backup-\d{8}\.dfgen\.\w+\.tmp")
_DIGEST = 32  # hexadecimal digits at the end of a file


class Generations:
    """The backups in a folder: `backup-00000017.dfgen` and the one before.

    A file is a line of JSON, the arrays that it names as `np.save` writes them, and the BLAKE2b-128
    of all that. It appears whole or not at all.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(folder)
        self._lock = FileLock(
            os.path.join(self.folder, LOCK_SUFFIX),
            f"{self.folder} is in use",
            "two trainings in one folder delete each other's backups. Wait until that one has "
            "ended, or give another backup_dir",
            of_process=True,
        )

    def lock(self) -> None:
        """Keep other processes out, until `unlock`, `delete` or the end of this one."""
        self._make_folder()
        self._lock.acquire()

    def unlock(self) -> None:
        """Let other processes in."""
        self._lock.release()

    def _make_folder(self) -> None:
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as error:
            raise WriteError(f"{self.folder} cannot be made a folder of backups: {error}") from None

    def save(self, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
        """Write one more backup, then delete all but the newest two; return its path."""
        self._make_folder()
        known = self._numbers()
        number = max(known, default=-1) + 1

        def write(file: BinaryIO) -> None:
            hashed = _Hashed(file)
            line = json.dumps({"format": BACKUP_FORMAT, "arrays": list(arrays), **facts})
            hashed.write(line.encode() + b"\n")
            for array in arrays.values():
                np.lib.format.write_array(hashed, np.asarray(array), allow_pickle=False)
            file.write(hashed.digest.hexdigest().encode())

        write_whole(self._path(number), write)
        self._delete([*known, number][:-_KEPT])
        return self._path(number)

    def load(self) -> tuple[str, Facts, NamedArrays] | None:
        """Return path, facts and arrays of the newest backup that is whole; None where none is."""
        numbers = self._numbers()
        for number in reversed(numbers):
            path = self._path(number)
            try:
                facts, arrays = _read(path)
            except (OSError, ValueError) as error:
                print(f"dfgen: {path} is damaged ({error}): trying the one before", flush=True)
                continue
            if facts["format"] != BACKUP_FORMAT:
                raise ArgumentError(
                    f"{path} has format {facts['format']}; this dfgen reads {BACKUP_FORMAT}. If it "
                    "was saved by a newer dfgen: pip install --upgrade keras-dfgen"
                )
            return path, facts, arrays
        if numbers:
            raise ArgumentError(f"no backup in {self.folder} can be read. {self.way_out}")
        return None

    @property
    def way_out(self) -> str:
        """Advice for backups that are of no use."""
        anew = f"To start anew, delete the folder {self.folder}"
        return f"{anew}; to keep them, give another backup_dir"

    def delete(self) -> None:
        """Delete all backups, the newest last, and the folder if nothing else is in it."""
        self._delete(self._numbers())
        self.unlock()
        with suppress(OSError):
            os.rmdir(self.folder)

    def _delete(self, numbers: list[int]) -> None:
        """Delete backups, and what a killed process left unfinished."""
        unfinished = [name for name in self._names() if _UNFINISHED.fullmatch(name)]
        for path in [*unfinished, *map(self._path, numbers)]:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, path))

    def _numbers(self) -> list[int]:
        found = (_NAME.fullmatch(name) for name in self._names())
        return sorted(int(match[1]) for match in found if match)

    def _names(self) -> list[str]:
        return os.listdir(self.folder) if os.path.isdir(self.folder) else []

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, f"backup-{number:08}.dfgen")


class _Hashed:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = blake2b(digest_size=_DIGEST // 2)

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)


def _read(path: str) -> tuple[Facts, NamedArrays]:
    digest = blake2b(digest_size=_DIGEST // 2)
    with open(path, "rb") as file:
        left = os.path.getsize(path) - _DIGEST
        while left > 0 and (data := file.read(min(left, 2**20))):
            digest.update(data)
            left -= len(data)
        if file.read() != digest.hexdigest().encode():
            raise ValueError("its checksum is wrong")
        file.seek(0)
        facts: Facts = json.loads(file.readline())
        names = facts.pop("arrays")
        return facts, {name: np.lib.format.read_array(file, allow_pickle=False) for name in names}
