"""The files of an archive in place of a folder: the same rows as of what it unpacks to."""

import re
from collections import Counter

from dfgen.errors import ManifestError
from dfgen.samples.storage.archives.archive_paths import Member
from dfgen.samples.storage.archives.members import Archives

_LEAVES = re.compile(r"^[/\\]|^[A-Za-z]:[/\\]|(?:^|[/\\])\.\.(?:[/\\]|$)|\0|::(?:zip|tar)://")
_HIDDEN = re.compile(r"(?:.*?/)??\.[^/]*")

Left = tuple[str, str]
"""Why a file was left out, and its path."""


def list_archive(member: Member, suffixes: tuple[str, ...]) -> tuple[list[str], list[Left]]:
    """Return the paths of the members below a place that have a suffix, and what is left out.

    The order is that of folders: the files of one come first, sorted by name, then those in it.

    Args:
        member: the archive, or a folder in it.
        suffixes: in lower case.

    Raises:
        MissingFileError: there is no such archive.
        ManifestError: the archive cannot be read, or has nothing below that folder.
    """
    below = f"{member.name}/" if member.name else ""
    with_folder = [name for name in Archives().contents(member).names if name.startswith(below)]
    names = Counter(name[len(below) :] for name in with_folder)
    if below and not names:
        raise ManifestError(
            f"the archive {member.archive} has nothing in {member.name!r}: see what it holds with "
            f"dfgen.build_manifest({member.archive!r})"
        )
    files, left = list[str](), dict[Left, None]()
    for name in sorted(names, key=_as_walked):
        reason, shown = _why_left(name, suffixes)
        if reason:
            left[reason, shown] = None
        else:
            files.append(name)
        if names[name] > 1:
            left["repeated name in the archive, of which the last counts", name] = None
    return files, [*left]


def _why_left(name: str, suffixes: tuple[str, ...]) -> Left:
    """Return why a member is left out, "" if it is not, and how it is called."""
    if _LEAVES.search(name):
        return "name that leaves the archive, or cannot be one in it", name
    if hidden := _HIDDEN.match(name):
        return "hidden", hidden[0]
    if name.lower().endswith(suffixes):
        return "", name
    dot = name.rpartition("/")[2].rpartition(".")
    return (f".{dot[2].lower()}" if dot[1] else "without extension"), name


def _as_walked(path: str) -> str:
    """Return what sorts paths as folders are walked: files before folders, each by name."""
    folder, slash, name = path.rpartition("/")
    return ("\2" + folder.replace("/", "\0\2") + "\0" if slash else "") + "\1" + name
