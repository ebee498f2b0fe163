"""LocalPack, RemotePack: where a pack is written, and what a run before this one has written."""

import contextlib
import json
import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from dfgen.errors import MissingFileError, ReadError, WriteError, listed, reason
from dfgen.locks import LOCK_SUFFIX, FileLock
from dfgen.packs.pack_index import INDEX, TABLE, PackFile, folder_of, in_pack
from dfgen.packs.writing.pack_plan import PackPlan
from dfgen.packs.writing.shard_files import (
    PackedShard,
    check_same,
    problems_remote,
    put_whole,
    read_shard,
)
from dfgen.stores.archives import ARCHIVES
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import is_remote, scheme_of, store_at
from dfgen.system import NFS_NAME, write_whole

BEGUN = "_packing.json"
"""The object in a store that says which pack is written there, and which shards are there."""

_LOCK = f".pack{LOCK_SUFFIX}"
_OURS = re.compile(
    rf"(?:shard-\d{{5,}}\.arrow|{re.escape(TABLE)}|{re.escape(INDEX)}|{re.escape(_LOCK)}"
    rf"|{re.escape(BEGUN)}|{re.escape(NFS_NAME)}\w+"
    rf"|\.(?:shard-\d+\.arrow|manifest\.arrow|_manifest\.json)\.[0-9a-f]{{8}}\.tmp)"
)
_AT_A_TIME = 3  # shards: two that are written, and one to spare
_HEADS = 32
_READ_ONLY = ("http", "https", *ARCHIVES)


def _refuse_strangers(folder: str, names: list[str]) -> None:
    strangers = [name for name in sorted(names) if not _OURS.fullmatch(name)]
    if strangers:
        raise WriteError(
            f"{folder} is not empty: it holds {listed(strangers)}. A pack has a folder of its own: "
            "name one that is not there yet"
        )


def _refuse_small(place: str, needed: int, folder: str, advice: str) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise WriteError(
            f"{place} needs about {needed / 1e9:,.1f} GB more, and its disk has "
            f"{free / 1e9:,.1f} GB free: make space, {advice}"
        )


@dataclass(frozen=True)
class LocalPack:
    """A folder of this machine."""

    folder: str  # its absolute path

    def check(self) -> None:
        """Refuse a folder that holds anything else than a pack, or what one left."""
        try:
            _refuse_strangers(self.folder, os.listdir(self.folder))
        except FileNotFoundError:
            return
        except WriteError:
            raise
        except OSError as error:
            raise WriteError(
                f"{self.folder} cannot be packed into: {reason(error)}. Name a folder that is "
                "empty or not there yet"
            ) from None

    def alone(self) -> contextlib.AbstractContextManager[object]:
        """Make the folder, and return its lock."""
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as error:
            raise WriteError(f"{self.folder} cannot be made: {reason(error)}") from None
        advice = "wait until that has ended, or choose another place"
        return FileLock(os.path.join(self.folder, _LOCK), f"{self.folder} is being written", advice)

    def begin(self, plan: PackPlan) -> dict[int, PackedShard]:
        """Return the shards that a run before this one has written."""
        return {
            number: read_shard(plan.path(number), plan.identity, len(plan.rows(number)))
            for number in range(len(plan))
            if os.path.exists(plan.path(number))
        }

    def check_space(self, plan: PackPlan, left: list[int]) -> None:
        """Refuse to begin where the disk has not the space."""
        needed = int(plan.nbytes[left].sum()) + plan.whole.rows.nbytes
        advice = "choose another place, or a smaller image_size or max_side"
        if left:
            _refuse_small(self.folder, needed, self.folder, advice)

    def note(self, number: int, shard: PackedShard) -> None:
        """Do nothing: a file that is there is whole."""

    def finish(self, index: bytes) -> None:
        """Write `_manifest.json`."""
        write_whole(os.path.join(self.folder, INDEX), lambda file: file.write(index))


@dataclass(frozen=True)
class RemotePack:
    """A prefix of a remote store, which has no locks: BEGUN says whose it is.

    It is written before the first shard, and again after each, with length and checksum.
    """

    folder: str  # its URL
    options: StorageOptions
    _begun: dict[str, Any] = field(default_factory=dict, repr=False)

    def check(self) -> None:
        """Refuse a prefix below which there is anything else than a pack, or what one left."""
        _refuse_strangers(self.folder, [*self._sizes()])

    def alone(self) -> contextlib.AbstractContextManager[object]:
        """Return no lock: there is none."""
        return contextlib.nullcontext()

    def begin(self, plan: PackPlan) -> dict[int, PackedShard]:
        """Say which pack this is, if it is none yet; return the shards that BEGUN names."""
        path, sizes = in_pack(self.folder, BEGUN), self._sizes()
        begun = {"plan": plan.identity, "shards": {}}
        with contextlib.suppress(MissingFileError, ValueError):
            begun = json.loads(store_at(path, options=self.options).read(path))
        check_same(self.folder, begun["plan"], plan.identity)
        self._begun.update(begun)
        self._write_begun()
        files = {int(n): PackFile(**one) for n, one in begun["shards"].items()}
        there = {n: file for n, file in files.items() if sizes.get(file.file) == file.bytes}
        with ThreadPoolExecutor(_HEADS) as pool:
            paths = map(plan.path, there)
            problems = pool.map(lambda path: problems_remote(path, self.options), paths)
            shards = zip(there.items(), problems, strict=True)
            return {number: PackedShard(file, told) for (number, file), told in shards}

    def check_space(self, plan: PackPlan, left: list[int]) -> None:
        """Refuse to begin where temporary files have not the space."""
        folder = tempfile.gettempdir()
        needed = _AT_A_TIME * int(plan.nbytes[left].max(initial=0))
        what = f"{folder}, for the files that go to {self.folder},"
        _refuse_small(what, needed, folder, "set TMPDIR, or choose a smaller shard_size")

    def note(self, number: int, shard: PackedShard) -> None:
        """Note that a shard is there, where the next run will look for it."""
        self._begun["shards"][str(number)] = vars(shard.file)
        self._write_begun()

    def finish(self, index: bytes) -> None:
        """Write `_manifest.json`."""
        put_whole(in_pack(self.folder, INDEX), index, self.options)

    def _write_begun(self) -> None:
        data = json.dumps(self._begun, ensure_ascii=False).encode()
        put_whole(in_pack(self.folder, BEGUN), data, self.options)

    def _sizes(self) -> dict[str, int]:
        """Return name and length of all that is there."""
        try:
            files = [*store_at(self.folder, options=self.options).list(self.folder)]
        except MissingFileError:  # some stores have folders
            files = []
        except ReadError as error:
            why = str(error).removeprefix("the file cannot be read: ")
            raise WriteError(f"{self.folder} cannot be packed into: {why}") from None
        return {path[len(self.folder) + 1 :]: head.size for path, head in files}


PackFolder = LocalPack | RemotePack


def pack_folder(out: str, options: StorageOptions) -> PackFolder:
    """Return where a pack is written, or raise a WriteError: nothing can be written there."""
    scheme, folder = scheme_of(out), folder_of(out)
    if scheme in _READ_ONLY or (scheme and not is_remote(folder)):
        why = "is written in" if is_remote(folder) else "has a store"
        raise WriteError(
            f"{out} cannot be packed into: nothing {why} {scheme}://. Name a folder, or the URL of "
            "one in a bucket, as s3://bucket/packed"
        )
    return RemotePack(folder, options) if is_remote(folder) else LocalPack(folder)
