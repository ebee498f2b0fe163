"""Rows that cannot be read: by what the manifest knows of their files, and by a look at a few.

The sizes and times that a frame knows are then what reads compare with.
"""

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import DfgenError, ManifestError, MissingFileError, warn
from dfgen.explain.missing import missing_path
from dfgen.manifest.paths import is_address
from dfgen.manifest.sources.file_tree import check_folder
from dfgen.packs.rows import PackSource
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.segmentation import Segmentation
from dfgen.samples.pixels.scaling import too_deep
from dfgen.samples.reader import BoundRows, SampleReader
from dfgen.spec import IntArray
from dfgen.stores.archives import member_of
from dfgen.stores.store import Store
from dfgen.stores.stores import has_store, scheme_of
from dfgen.table.arrow_types import is_list, is_text, lengths_of, nulls, place_of

_DEPTHS = np.array([8, 16, 32])
_ROWS = 6  # whose files are looked at, one of each column


def known_problems(columns: Columns) -> dict[int, str]:
    """Return row -> what the manifest's facts say is wrong with its file."""
    if "problem" not in columns.names:
        return {}
    held = columns.source["problem"]  # of Arrow it knows whether it has anything in any row
    if isinstance(held, pa.ChunkedArray) and held.null_count == len(held):
        return {}
    problems = columns["problem"]
    if not is_text(problems.type):
        return {}  # empty, or a column of the user's own
    rows = pc.indices_nonzero(pc.not_equal(problems, "")).to_pylist()
    return {row: problems[row].as_py() for row in rows}


def checked_problems(
    columns: Columns,
    rows: BoundRows,
    problems: dict[int, str],
    packs: Mapping[str, PackSource],
    refuse: bool,
) -> dict[int, str]:
    """Return row -> what is wrong with its file, too many bits as well, or refuse such rows."""
    if problems and refuse:
        known = "problem" in columns.names
        source = "the facts of the manifest" if known else "the headers of their files"
        is_good = 'df["problem"].isna()'
        if known and pc.any(pc.equal(columns["problem"], "")).as_py():
            is_good = 'df["problem"].fillna("") == ""'
        without = f"df = df[{is_good}], " if known else ""
        if without and columns.file is not None:
            without = 'where="problem.isna()", '
        raise ManifestError(
            _refusal(problems, rows, f"a problem, by {source}")
            + f'\nLeave them out, {without}or train on the others with on_error="skip"'
        )
    deep = _deep_rows(columns, rows.features, packs)
    asked = "images of more bits than requested, by the facts of the manifest"
    if deep and refuse:
        raise ManifestError(_refusal(deep, rows, asked))
    if told := deep.keys() - problems.keys():
        row = min(told)
        warn(
            f"{len(told):,} of {len(rows):,} rows have {asked}, so that on_error='skip' makes them "
            f"zeros of weight 0, such as {rows.where(row)}: {deep[row]}"
        )
    return deep | problems


def warn_of_no_region(rows: BoundRows) -> None:
    """Warn of labelled objects that have no region: nothing of them is in any mask."""
    for bound in rows.features:
        if not isinstance(bound.feature, Segmentation):
            continue
        where, column = bound.values.offsets, bound.feature.column
        regions = bound.values.arrays[0]
        bare = nulls(regions)
        if is_list(regions.type):
            bare |= lengths_of(regions) == 0
        elif is_text(regions.type):
            bare |= np.asarray(pc.fill_null(pc.equal(regions, "[]"), False))
        places = [place_of(where, int(n)) for n in np.flatnonzero(bare)]
        places = [(row, place) for row, place in places if bound.has(row)]
        if places:
            row, place = places[0]
            warn(
                f"{len(places):,} of {where[-1]:,} objects in column {column!r} have a label but "
                f"no region, such as object {place} of {rows.where(row)}: masks show background "
                "there. Draw their regions, or remove these objects from the annotations"
            )


def _deep_rows(
    columns: Columns, features: Iterable[BoundFeature], packs: Mapping[str, PackSource]
) -> dict[int, str]:
    """Return row -> why its file has too many bits for its image, by the facts of the manifest.

    Warns of an image that keeps the numbers of files of different depths. The facts are those of
    the column of files; images that lie in packs as pixels are left alone.
    """
    is_fact = {"bits", "format"} <= {*columns.names} and "bits" not in columns.labels
    if not is_fact or not pa.types.is_integer(columns["bits"].type):
        return {}
    rows = dict[int, str]()
    held = columns.of_facts
    decoded = {name for name, held in packs.items() if held.is_pixels}
    read = (bound for bound in features if bound.name not in decoded)
    for feature in (b.image for b in read if b.image and b.image.column == held):
        bits = columns["bits"]
        most = pc.max(bits).as_py() or 0
        most_bits = {None: 8, "uint8": 16}.get(feature.dtype)
        if most_bits is not None and most > most_bits:
            for row in pc.indices_nonzero(pc.greater(bits, most_bits)).to_pylist():
                rows[row] = too_deep(bits[row].as_py())
        elif most_bits is None and (feature.scale is None or isinstance(feature.scale[0], float)):
            found = pc.unique(bits).drop_null().to_numpy()
            depths = sorted(set(_DEPTHS[np.searchsorted(_DEPTHS, found.clip(max=32))].tolist()))
            if len(depths) > 1:
                warn(
                    f"the files of {feature!r} have {' and '.join(map(str, depths))} bits a "
                    "channel, by the facts of the manifest, and it keeps the numbers of each: the "
                    'brightest are 255 in some, 65535 in others. Give scale="0..1" and '
                    'dtype="float32", or choose files of one depth: df[df["bits"] == '
                    f"{depths[-1]}]"
                )
    return rows


def _refusal(rows: Mapping[int, str], reader: BoundRows, held: str) -> str:
    """Return why a Sequence refuses rows, with a line for each of the first ten."""
    lines = [f"\n  {reader.where(row)}: {why}" for row, why in list(rows.items())[:10]]
    more = f"\n  ... and {len(rows) - 10:,} more" if len(rows) > 10 else ""
    return f"{len(rows):,} of {len(reader):,} rows have {held}:{''.join(lines)}{more}"


class _LookedFor(NamedTuple):
    """A file that is looked for, and what is at its path instead, or ""."""

    row: int
    column: str
    path: str
    fault: str


def look_for_files(
    columns: Columns, reader: SampleReader, known: Mapping[int, str], skips: bool
) -> None:
    """Raise if some of a few files are missing: of the first row, the last, and four between.

    Nothing is opened. Files that a store reads by an address are left alone; so are rows `known`
    to be bad. Where bad rows are skipped, it raises only if all are missing, since then nothing
    but zeros would be trained on. A root that absolute paths do not need must exist all the same,
    and it warns if they lie elsewhere.
    """
    rows = {int(row) for row in np.linspace(0, len(reader) - 1, _ROWS)} - known.keys()
    files = [
        _LookedFor(row, column, path, _fault(reader.store, path))
        for row in sorted(rows)
        for column, path in reader.paths(row)
        if not has_store(scheme_of(path))
    ]
    missing = [file for file in files if file.fault]
    if missing and not (skips and len(missing) < len(files)):
        alone = any(file.column == missing[0].column and not file.fault for file in files)
        zeros = '. on_error="skip" would train on zeros alone' if skips else ""
        raise MissingFileError(
            f"{len(missing)} of {len(files)} sampled files are missing, of {len(reader):,} rows. "
            f"Row id={reader.id(missing[0].row)!r}, {_told(columns, missing, alone)}{zeros}"
        )
    root = columns.root
    if files and root and columns.file is None and not (is_address(root) or member_of(root)):
        check_folder(root, "Give its folder as root=")
        _warn_unless_below(root, [file.path for file in files])


def _warn_unless_below(root: str, paths: list[str]) -> None:
    folder = os.path.join(os.path.realpath(root), "")
    if not any(
        path.startswith(os.path.join(root, "")) or os.path.realpath(path).startswith(folder)
        for path in paths
    ):
        warn(
            f"root={root!r} has no part in where files are read: all {len(paths)} sampled paths "
            f"are absolute, as {paths[0]!r}, and lie elsewhere. Leave root= out, or, "
            "to read copies below that root, make the paths relative to it"
        )


def _fault(store: Store, path: str) -> str:
    """Return why there is no file at a path, or ""; what else may be wrong, reading it tells."""
    try:
        problem = store.head(path).problem
    except MissingFileError:
        return "there is no file"
    except (DfgenError, OSError, ValueError):
        return ""
    return "a folder is where a file should be" if problem and os.path.isdir(path) else ""


def _told(columns: Columns, missing: list[_LookedFor], alone: bool) -> str:
    """Return where the first of the missing files was looked for, and what to do."""
    first = missing[0]
    function, root, path = _relative(columns, first)
    folder = os.path.abspath(root or "")
    by = f"the root {root!r} of the manifest" if function else f"root={columns.root!r}"
    where = (
        f"{first.column}={path!r}: {first.fault} at {os.path.join(folder, path)!r} by {by} in the "
        f"working folder {os.getcwd()!r}. "
    )
    if os.path.isdir(first.path):
        return f"{where}Make a frame of its content, df = dfgen.build_manifest({path!r})"
    argument = f"{function} root=" if function else "root="
    advice = missing_path(path, folder, column=first.column, argument=argument)
    return f"{where}{advice}" + ". Leave such rows out" * alone


def _relative(columns: Columns, file: _LookedFor) -> tuple[str, str | None, str]:
    """Return the function that sets the root of a path, the root, and the path below it."""
    for function, root in (("", columns.root), columns.read_by):
        start = "" if root is None else root.rstrip("/") + "/"
        if start and file.path.startswith(start):
            return function, root, file.path.removeprefix(start)
    return "", columns.root, file.path


_PATH = "path"  # the column of files that `bytes` and `mtime_ns` are of


def known_sizes_of_files(
    columns: Columns, features: Iterable[BoundFeature], packs: Mapping[str, PackSource]
) -> dict[str, IntArray]:
    """Return the sizes in the column `bytes` for each feature of the files in the column `path`.

    Unknown sizes are -1. Lists of files and packed rows have none.
    """
    sizes = whole_column(columns, "bytes")
    if sizes is None:
        return {}
    return {
        bound.name: sizes
        for bound in features
        if bound.files is not None and bound.feature.columns[0] == _PATH
        if bound.name not in packs
    }


def whole_column(columns: Columns, name: str) -> IntArray | None:
    """Return a column of whole numbers, -1 if unknown; None if it is no such column."""
    if name not in columns.names:
        return None
    values = columns[name]
    if pa.types.is_floating(values.type):  # of pandas, if some are missing
        values = pc.if_else(pc.is_finite(values), values, None)
    elif not pa.types.is_integer(values.type):
        return None
    try:
        whole = values.cast(pa.int64())
        whole = pc.fill_null(whole, -1) if whole.null_count else whole  # else a view
    except pa.ArrowInvalid:  # the user's own numbers
        return None
    return np.asarray(whole.to_numpy(zero_copy_only=False))
