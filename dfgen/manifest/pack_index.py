"""What a pack is on disk: a folder of Arrow files, and `_manifest.json`, which is written last.

    shard-00000.arrow ...  Arrow IPC files of one record batch each, uncompressed: all columns of
                           the manifest, and of each packed column what it was packed as
        path_pixels        arrow.fixed_shape_tensor of uint8, (height, width, channels)
        path_pixels        or large_binary, where images keep their own sizes; `path_shape` beside
                           it is their (height, width, channels), int32
        path_bytes         or large_binary: whole files
    manifest.arrow         an Arrow IPC file: all columns of the manifest of all rows, no pixels
    _manifest.json         rows, shards with their checksums, arguments, and the `dfgen` key of the
                           manifest: see PackIndex

Row r of the pack stands in the shard s with starts[s] <= r < starts[s + 1], at r - starts[s]. A row
without a good file has null there, and its `problem` says why.
"""

import json
import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import ManifestError, MissingFileError, brief, reason
from dfgen.manifest.schema import Metadata

PACK_FORMAT = 1
INDEX, TABLE = "_manifest.json", "manifest.arrow"
_NEEDED: dict[str, Any] = {
    "rows": int, "shards": list, "packed": dict, "table": dict, "ids": str, "dfgen": dict,
    "order": (str, dict), "created_by": str, "plan": dict,
}  # fmt: skip


@dataclass(frozen=True)
class PackFile:
    """One file of a pack.

    Args:
        file: its name in the folder.
        rows: of the table in it.
        bytes: of the file.
        checksum: the CRC-32 of the file, 8 hexadecimal digits.
    """

    file: str
    rows: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class PackIndex:
    """What `_manifest.json` says of a pack.

    Args:
        folder: the absolute path of the pack.
        rows: in all shards together.
        shards: the files, in the order of their rows.
        packed: name of a packed column -> the arguments that it was packed by: `format`
            (`"pixels"`, `"original"` or `"jpeg"`), `image_size` ([height, width], None: sizes of
            their own), `color_mode`, `resize`, `interpolation`, `antialias`, `max_side`,
            `quality`; those that do not matter are None.
        order: `"kept"`, or the `tag`, `seed` and `epoch` of the permutation that rows stand in.
        table: the file of the manifest's columns.
        ids: `dfgen.loading.state.ids_digest` of the ids, in order.
        dfgen: the `dfgen` key of the manifest; its root is relative to the folder.
        created_by: the version of dfgen.
        plan: what tells this pack from another: see `dfgen.packing.pack_plan`.
    """

    folder: str
    rows: int
    shards: tuple[PackFile, ...]
    packed: dict[str, dict[str, Any]]
    order: str | dict[str, Any]
    table: PackFile
    ids: str
    dfgen: Metadata
    created_by: str
    plan: dict[str, Any]

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first row of each shard, and the number of all rows: shape (shards + 1,)."""
        return np.cumsum([0, *(shard.rows for shard in self.shards)], dtype=np.int64)

    def path(self, file: PackFile) -> str:
        """Return the absolute path of one of its files."""
        return os.path.join(self.folder, file.file)

    def to_json(self) -> bytes:
        """Return the bytes of `_manifest.json`."""
        content = {"format": PACK_FORMAT, "kind": "pack", **vars(self)}
        del content["folder"]
        content |= {"shards": [vars(shard) for shard in self.shards], "table": vars(self.table)}
        return json.dumps(content, ensure_ascii=False, indent=1).encode()


def is_pack(path: object) -> bool:
    """Whether a path is that of the folder of a whole pack.

    Example:
        >>> is_pack("pets.parquet")
        False
    """
    return isinstance(path, str | os.PathLike) and os.path.isfile(os.path.join(path, INDEX))


def is_shard(path: str) -> bool:
    """Whether a path is named as those of the shards of packs.

    Example:
        >>> is_shard("packed/shard-00000.arrow"), is_shard("train-00000.tar")
        (True, False)
    """
    return re.fullmatch(r"shard-\d{5,}\.arrow", os.path.basename(path)) is not None


def read_index(folder: str | os.PathLike[str]) -> PackIndex:
    """Read what `_manifest.json` of a pack says.

    Raises:
        MissingFileError: there is none.
        ManifestError: it is none of a pack, of an unknown version, or incomplete.
    """
    path = os.path.join(os.path.abspath(os.fspath(folder)), INDEX)
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read())
    except FileNotFoundError:
        raise MissingFileError(
            f"there is no pack in {os.fspath(folder)}: {INDEX}, which is written last, is missing. "
            "Where packing was broken off, run the same command again"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(f"{path} cannot be read: {reason(error)}. Pack again") from None
    if not isinstance(content, dict) or content.get("kind") != "pack":
        raise ManifestError(f'{path} is not that of a pack, which has "kind": "pack"')
    if content.get("format") != PACK_FORMAT:
        raise ManifestError(
            f"{path} has pack format {brief(content.get('format'))}; this dfgen reads format "
            f"{PACK_FORMAT}. Upgrade dfgen, or pack again with this version"
        )
    wrong = [name for name, kind in _NEEDED.items() if not isinstance(content.get(name), kind)]
    if wrong:
        raise ManifestError(
            f"{path} is damaged: {', '.join(wrong)} is missing, or not what it should be. Take "
            "another copy of it, or pack again"
        )
    return _index(os.path.dirname(path), content)


def _index(folder: str, content: dict[str, Any]) -> PackIndex:
    try:
        shards = tuple(PackFile(**shard) for shard in content["shards"])
        table = PackFile(**content["table"])
        if sum(shard.rows for shard in shards) != content["rows"] or table.rows != content["rows"]:
            raise ValueError("the rows of its shards are not those of the pack")
        if any(os.path.basename(one.file) != one.file for one in (*shards, table)):
            raise ValueError("a file of it is not in its folder")
    except (TypeError, ValueError) as error:
        raise ManifestError(
            f"{os.path.join(folder, INDEX)} is damaged: {reason(error)}. Take another copy of it, "
            "or pack again"
        ) from None
    given = {name: content[name] for name in _NEEDED}
    return PackIndex(folder, **(given | {"shards": shards, "table": table}))


def open_arrow(path: str) -> pa.ipc.RecordBatchFileReader:
    """Open an Arrow file by a memory map: nothing is read that is not asked for.

    Raises:
        MissingFileError: there is no such file.
        ManifestError: it is none, or was cut short.
    """
    try:
        return pa.ipc.open_file(pa.memory_map(path))
    except FileNotFoundError:
        raise MissingFileError(
            f"{path} is missing: take another copy of it, or pack again"
        ) from None
    except (OSError, ValueError) as error:  # Arrow's own errors are of these
        raise ManifestError(
            f"{path} cannot be read as an Arrow file: {reason(error)}. Take another copy of it, or "
            "pack again"
        ) from None
