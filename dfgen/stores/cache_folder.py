"""A folder of cached pixels.

DIR/0123456789abcdef/           of one decode setting
    89abcdef01234567.keys       sorted 64-bit hashes of the paths of files; named by their digest
    89abcdef01234567.slots      the pixels of these files, sparse
    89abcdef01234567.records    their checksums
"""

import glob
import json
import os
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfgen.files import write_whole
from dfgen.spec import Spec
from dfgen.stores.slots import RECORDS, SLOTS, Room, Slots, memory_slots

_FORMAT = 3
Keys = npt.NDArray[np.uint64]


class Segment(NamedTuple):
    """Slots of some files: that with `keys[i]` has slot i."""

    keys: Keys
    slots: Slots


def open_segments(
    folder: str, settings: Mapping[str, Any], keys: Keys, spec: Spec, most: int | None
) -> list[Segment]:
    """Return segments with slots for all keys, segments of earlier runs first.

    Args:
        folder: of the cache.
        settings: of decoding, for JSON.
        keys: sorted and distinct.
        spec: of the pixels of one file.
        most: bytes of pixels in the whole folder; None: as much as the disk has.

    Raises:
        OSError: the folder cannot be used.
    """
    text = json.dumps([_FORMAT, settings], sort_keys=True).encode()
    own, room = os.path.join(folder, _digest(text)), Room(folder, most)
    os.makedirs(own, exist_ok=True)
    segments = []
    for path in sorted(glob.glob(f"{glob.escape(own)}/*.keys")):
        known = np.fromfile(path, np.uint64)
        left = np.setdiff1d(keys, known, assume_unique=True)
        if len(left) < len(keys) and f"{_digest(known.tobytes())}.keys" == os.path.basename(path):
            segments.append(Segment(known, _slots(path, len(known), spec, room)))
            keys = left
    if len(keys):
        path = os.path.join(own, f"{_digest(keys.tobytes())}.keys")
        write_whole(path, lambda file: file.write(keys.tobytes()))
        segments.append(Segment(keys, _slots(path, len(keys), spec, room)))
    return segments


def open_memory(keys: Keys, spec: Spec, most: int | None) -> list[Segment]:
    """Return a segment in memory."""
    return [Segment(keys, memory_slots(len(keys), spec, most))]


def _slots(path: str, count: int, spec: Spec, room: Room) -> Slots:
    begin = path.removesuffix(".keys")
    return Slots((begin + SLOTS, begin + RECORDS), count, spec, room)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
