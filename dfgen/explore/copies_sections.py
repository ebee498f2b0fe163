"""The sections on copies: duplicates, and leaks between splits."""

from collections.abc import Sequence

import pandas as pd

from dfgen.explore.html_text import Html, element, markup, short
from dfgen.explore.page_section import Section, note, tiles
from dfgen.manifest.duplicates import copies_across, copies_in_groups
from dfgen.manifest.file_copies import file_copies
from dfgen.manifest.schema import PARTS, count, part_column

_HASHES = {"digest", "phash"}
_NOT_LOOKED_FOR = (
    "Copies were not looked for: the manifest has no hashes of its files. To have them, build it "
    'with facts="full" (--facts full), which decodes every file once.'
)
_GROUPS, _OF_GROUP = 20, 8
_PAIRS = 24


def copies_sections(frame: pd.DataFrame) -> list[Section]:
    """Return the sections of duplicates and of leaks; `frame` counts its index."""
    if not {*frame.columns} >= _HASHES:
        unknown = note(_NOT_LOOKED_FOR)
        return [Section(name.lower(), name, unknown) for name in ("Duplicates", "Leaks")]
    files = file_copies(frame)
    return [
        _duplicates(frame, copies_in_groups(frame, files)),
        _leaks(frame, copies_across(frame, files))
        if part_column(frame)
        else Section("leaks", "Leaks", note("There are no splits for a picture to leak between.")),
    ]


def _duplicates(frame: pd.DataFrame, found: pd.DataFrame) -> Section:
    """Return groups of rows whose pictures are copies of each other."""
    groups = [rows for _, rows in found[found["group"] < _GROUPS].groupby("group")]
    kinds = found.drop_duplicates("group")["kind"].value_counts().sort_index()
    total = int(kinds.sum())
    head = "No picture has a copy."
    if groups:
        told = ", ".join(f"{size:,} {kind}" for kind, size in kinds.items())
        head = f"{count(total, 'group')} of copies ({told}), {len(found):,} rows."
        head += f" The first {_GROUPS}:" * (total > _GROUPS)
    body = markup([note(head), *(_group(frame, rows) for rows in groups)])
    shown = [row for rows in groups for row in rows.index[:_OF_GROUP]]
    return Section(
        "duplicates", "Duplicates", body, total, "groups of copies", rows=shown,
        marks={"duplicate": found.index.tolist()},
    )  # fmt: skip


def _group(frame: pd.DataFrame, rows: pd.DataFrame) -> Html:
    """Return the pictures of a group, and in which split each is."""
    some = rows.index[:_OF_GROUP]
    more = len(rows) - len(some)
    said = f"{rows['kind'].iloc[0]}, {count(len(rows), 'row')}"
    said += f"; {more:,} are not shown" * bool(more)
    part = part_column(frame)
    parts = () if part is None else map(short, frame[part].loc[some])
    return element("div", element("p", said), tiles(f"Copies, {said}", some, parts), class_="group")


def _leaks(frame: pd.DataFrame, found: pd.DataFrame) -> Section:
    """Return pairs of copies that are in different splits."""
    some = found.iloc[:_PAIRS]
    others = pd.Index(frame["id"]).get_indexer(some["other_id"]).tolist()
    pairs = [*zip(others, some.index.tolist(), strict=True)]
    head = "No picture of a split has a copy in another."
    if pairs:
        first = f" The first {len(some)}:" * (len(found) > len(some))
        head = f"{count(len(found), 'row')} with a copy in an earlier split, in pairs.{first}"
    boxes = [_pair(one, rows) for (_, one), rows in zip(some.iterrows(), pairs, strict=True)]
    return Section(
        "leaks",
        "Leaks",
        markup([note(head), element("div", *boxes, class_="pairs")]),
        len(found),
        "rows",
        alarms=True,
        rows=[row for pair in pairs for row in pair],
        marks={"leak": found.index.tolist()},
    )


def _pair(leak: pd.Series, rows: Sequence[int]) -> Html:
    part = next(name for name in PARTS if name in leak)
    notes = short(leak[f"other_{part}"]), f"{short(leak[part])}: {leak['kind']}"
    return tiles(f"Copies, {leak['kind']}", rows, notes)
