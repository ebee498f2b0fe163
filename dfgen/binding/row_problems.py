"""Rows that cannot be read, by what the manifest knows of their files."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns, InPacks
from dfgen.errors import ManifestError, warn
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.segmentation import Segmentation
from dfgen.samples.pixels.scaling import too_deep
from dfgen.samples.reader import BoundRows
from dfgen.table.arrow_types import is_text, place_of

_DEPTHS = np.array([8, 16, 32])


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
    packs: Mapping[str, InPacks],
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
        places = [place_of(where, int(n)) for n in bound.feature.without_region(bound.values)]
        bare = [(row, place) for row, place in places if bound.has(row)]
        if bare:
            row, place = bare[0]
            warn(
                f"{len(bare):,} of {where[-1]:,} objects in column {column!r} have a label but no "
                f"region, such as object {place} of {rows.where(row)}: masks show background "
                "there. Draw their regions, or remove these objects from the annotations"
            )


def _deep_rows(
    columns: Columns, features: Iterable[BoundFeature], packs: Mapping[str, InPacks]
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
    decoded = {name for name, held in packs.items() if held.stored is not None}
    read = (bound for bound in features if bound.name not in decoded)
    for feature in (b.image for b in read if b.image and b.image.column == held):
        bits = columns["bits"]
        most = pc.max(bits).as_py() or 0
        if feature.most_bits is not None and most > feature.most_bits:
            for row in pc.indices_nonzero(pc.greater(bits, feature.most_bits)).to_pylist():
                rows[row] = too_deep(bits[row].as_py())
        elif feature.most_bits is None and feature.raw_depth:
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
