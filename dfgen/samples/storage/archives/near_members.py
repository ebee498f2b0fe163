"""Members of an archive that are like a missing one; asked once a program is to end."""

from difflib import get_close_matches

from dfgen.errors import DfgenError
from dfgen.samples.storage.archives.archive_paths import Member
from dfgen.samples.storage.archives.members import Archives

_NAMES = 5_000  # that are compared
_SHOWN = 3


def near_member(member: Member) -> str:
    """Return what an archive has instead of a member: of the same name, in its folder, anywhere."""
    try:
        names = [*dict.fromkeys(Archives().contents(member).names)]
    except (DfgenError, OSError) as error:
        return str(error)
    folder, _, last = member.name.rpartition("/")
    alike = [name for name in names if name.rpartition("/")[2] == last]
    beside = [name for name in names if name.rpartition("/")[0] == folder]
    found = alike[:_SHOWN] or get_close_matches(
        member.name, (beside or names)[:_NAMES], n=_SHOWN, cutoff=0.0
    )
    return f"the archive has {', '.join(map(repr, found)) or 'no members'}" + ", ..." * (
        len(names) > len(found)
    )
