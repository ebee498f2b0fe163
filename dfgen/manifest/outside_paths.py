"""How far from the file that names them the files of rows may lie.

The rule of all sources: a path that a table, a data.yaml, a recipe or a manifest names lies in what
the caller gave (`root=`, `images=`, the folder itself), or, where only that file was given, in its
folder or the one above; any other is said aloud, once, with its folder and how to allow it.

It is not refused, for most who have their images elsewhere named them themselves, and nothing in a
file tells whose it is. Sequences and annotations leave the one above in silence, as `../imgs` from
`manifests/` does; the top of the file system is above nothing. The rule is lexical: symbolic links
are followed.
"""

import os
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import quote, warn
from dfgen.manifest.path_roots import file_of, files_of
from dfgen.manifest.paths import common_folder, is_absolute, is_upward, is_url


def reach_of(place: str) -> str:
    """Return the folder that a file may name files of, or a folder that was given, absolute.

    Example:
        >>> reach_of("/data/pets/labels/train.csv"), reach_of("/tmp/train.csv")
        ('/data/pets', '/tmp')
    """
    place = os.path.abspath(file_of(place))
    if os.path.isdir(place):
        return place
    own = os.path.dirname(place)
    above = os.path.dirname(own)
    return own if os.path.dirname(above) == above else above


def say_outside(who: str, paths: pa.ChunkedArray, folders: Iterable[str], allow: str) -> None:
    """Warn of paths that lie in none of some folders: absolute ones, and those with `..`.

    Args:
        who: what names them, for the message.
        paths: text; those of folders end in a slash. Addresses are not of this machine.
        folders: absolute.
        allow: what to write where it is meant; `{}` stands for their folder.
    """
    paths = files_of(paths)
    climbing = paths.filter(pc.match_substring(paths, ".."))  # sooner than a pattern
    climbing = climbing.filter(is_upward(climbing))
    for folder in folders:
        below = folder.replace(os.sep, "/").rstrip("/") + "/"
        paths = paths.filter(pc.invert(pc.starts_with(paths, below)))
    paths = paths.filter(pc.and_not(is_absolute(paths), is_url(paths)))
    far = pa.chunked_array([*climbing.chunks, *paths.chunks], paths.type)
    if len(far):
        folder = quote(common_folder(far) or "/")
        warn(
            f"{who} names files in {folder}, which is neither its folder nor the one above. Where "
            f"that is meant, {allow.format(folder)} says so. Look first if it is not your own: it "
            "may name any file of this machine"
        )
