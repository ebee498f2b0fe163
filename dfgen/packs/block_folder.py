"""A folder of cached pixels, with a folder for each decode setting.

DIR/dfgen-cache.json       {"kind": "dfgen cache", "format": 1}
DIR/0123456789abcdef/      of one decode setting: settings.json, index, pixels (see `SlotFile`)
"""

import contextlib
import json
import os
import weakref
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from dfgen.packs.slot_file import SlotFile, close_files
from dfgen.platform_calls import memory_file
from dfgen.spec import Spec
from dfgen.system import write_whole

_FORMAT = 1
_MARK = "dfgen-cache.json"
_NAMES = ("index", "pixels", "settings.json")  # in this order they are removed
SPARE_PART = 20
"""One part in so many of the free disk stays free where no limit was given."""


def open_folder(folder: str, settings: Mapping[str, Any], spec: Spec, most: int | None) -> SlotFile:
    """Return the slots for one decode setting, made where there are none.

    Args:
        folder: of the cache.
        settings: all that decides what pixels are made of a file, for JSON.
        spec: of the pixels of one row.
        most: bytes of pixels in the whole folder; None: 95 % of what is free.

    Raises:
        OSError: it cannot be used, for the reason that it tells.
    """
    text = json.dumps(settings, sort_keys=True)
    own = os.path.join(folder, blake2b(text.encode(), digest_size=8).hexdigest())
    if os.path.exists(os.path.join(folder, _MARK)):
        _check_mark(folder)
    with contextlib.suppress(OSError):  # of a folder to read from; SlotFile tells what is missing
        os.makedirs(own, exist_ok=True)
        _write_once(os.path.join(folder, _MARK), {"kind": "dfgen cache", "format": _FORMAT})
        _write_once(os.path.join(own, "settings.json"), settings)
    spare = 0
    if most is None:
        disk = os.statvfs(folder)
        spare = disk.f_bavail * disk.f_frsize // SPARE_PART
    index, pixels, _ = (os.path.join(own, name) for name in _NAMES)
    return SlotFile(index, pixels, spec, most, spare, folder)


def open_blocks_in_memory(spec: Spec, most: int) -> SlotFile:
    """Return slots in memory, for this process and those that it starts, till the last ends."""
    files = [memory_file(f"dfgen-{name}") for name in ("index", "pixels")]
    index, pixels = (f"/proc/{os.getpid()}/fd/{file}" for file in files)
    slots = SlotFile(index, pixels, spec, most)
    weakref.finalize(slots, close_files, *files)
    return slots


def _check_mark(folder: str) -> None:
    path = os.path.join(folder, _MARK)
    with open(path, "rb") as file:
        try:
            mark = json.loads(file.read(1000))
            kind, format = mark["kind"], mark["format"]
        except (ValueError, KeyError, TypeError):
            kind = format = None
    if kind != "dfgen cache" or format != _FORMAT:
        raise OSError(0, f"{_MARK} is of another version, format {format!r} instead of {_FORMAT}")


def _write_once(path: str, content: Mapping[str, Any]) -> None:
    if not os.path.exists(path):
        text = json.dumps(content, indent=1, sort_keys=True) + "\n"
        write_whole(path, lambda file: file.write(text.encode()))
