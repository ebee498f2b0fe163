"""Files that a manifest leaves out on purpose: `verify` counts them, and does not call them new.

The entry `left_out` of the `dfgen` key maps a reason to paths in one text, separated by NUL, which
no path holds. Paths are relative to the root of the manifest, with `..` where they lie elsewhere.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.path_roots import are_below, below_place, posix
from dfgen.manifest.paths import tidy

UNMATCHED = "unmatched"
"""The reason of files without a label, or without an annotation, under `unmatched="drop"`."""
REMOVED = "removed"
"""The reason of files whose rows were in the manifest, until it was written again without them."""


def paths_as_text(paths: Iterable[str], root: str | None) -> str:
    """Return absolute paths as the entry holds them for one reason."""
    column = pa.chunked_array([pa.array(sorted({*paths}), pa.string())])
    if root is None:
        return "\0".join(column.to_pylist())
    below = are_below(column, root)
    outside = column.filter(pc.invert(below)).to_pylist()
    if "://" not in root:
        outside = [one if "://" in one else posix(os.path.relpath(one, root)) for one in outside]
    return "\0".join([*below_place(column.filter(below), root).to_pylist(), *outside])


def paths_left_out(left_out: Mapping[str, str], root: str | None, *reasons: str) -> pa.ChunkedArray:
    """Return the absolute paths of files that are left out, for these reasons or for any."""
    texts = [left_out[reason] for reason in reasons or left_out if left_out.get(reason)]
    names = [name for text in texts for name in text.split("\0")]
    return tidy(pa.chunked_array([pa.array(names, pa.string())]), root or "/")


def with_other_root(
    left_out: Mapping[str, str], old: str | None, new: str | None
) -> dict[str, str]:
    """Return the entry for a manifest with another root."""
    if old == new:
        return dict(left_out)
    texts = {reason: paths_left_out(left_out, old, reason).to_pylist() for reason in left_out}
    return {reason: paths_as_text(paths, new) for reason, paths in texts.items()}


def with_removed(
    known: Mapping[str, Any], paths: pa.ChunkedArray, before: pa.ChunkedArray
) -> dict[str, Any]:
    """Return what a frame says of itself, and which files it no longer has.

    `paths` are its absolute paths, `before` those of the manifest that it replaces.
    """
    left_out = {**known.get("left_out", {})}
    gone = {*before.to_pylist(), *paths_left_out(left_out, known["root"], REMOVED).to_pylist()}
    gone -= {*paths.to_pylist()}
    if gone:
        left_out[REMOVED] = paths_as_text(gone, known["root"])
    return {**known, "left_out": left_out} if left_out else dict(known)
