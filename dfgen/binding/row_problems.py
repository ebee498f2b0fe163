"""Rows that cannot be read, by the facts of the manifest and by a look at a few files."""

import os
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow.compute as pc

from dfgen.binding.table_columns import Columns, whole_column
from dfgen.errors import DfgenError, ManifestError, MissingFileError
from dfgen.explain.missing import missing_path
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.scaling import too_deep
from dfgen.samples.reader import BoundFeature, BoundRows, SampleReader
from dfgen.stores.store import Store
from dfgen.stores.stores import has_store, scheme_of
from dfgen.table.arrow_types import TEXT

_SAMPLED = 6  # rows whose files are looked for
_SHOWN = 10


def known_problems(columns: Columns) -> dict[int, str]:
    """Return row -> the problem of its file, by the column `problem` of the manifest."""
    if "problem" not in columns.names:
        return {}
    stored = columns.source["problem"]  # the chunks of a large manifest are copied only if needed
    if getattr(stored, "null_count", None) == len(stored):
        return {}
    problems = columns["problem"]
    if problems.type not in TEXT:
        return {}
    rows = pc.indices_nonzero(pc.not_equal(problems, "")).to_pylist()
    return {row: problems[row].as_py() for row in rows}


def deep_problems(columns: Columns, features: Iterable[BoundFeature]) -> dict[int, str]:
    """Return row -> why its file has too many bits for an Image, by the fact `bits`."""
    bits, problems = whole_column(columns, "bits"), dict[int, str]()
    if bits is None:
        return {}
    for bound in features:
        image = bound.feature
        most = {None: 8, "uint8": 16}.get(image.dtype) if isinstance(image, Image) else None
        if most is not None and image.columns[0] == columns.file_column:
            deep = np.flatnonzero(bits > most)
            problems |= {int(row): too_deep(int(bits[row])) for row in deep}
    return problems


def check_problems(columns: Columns, rows: BoundRows, problems: Mapping[int, str]) -> None:
    """Raise a ManifestError that lists the first rows with problems."""
    lines = [f"\n  {rows.where(row)}: {why}" for row, why in [*problems.items()][:_SHOWN]]
    lines += [f"\n  ... and {len(problems) - _SHOWN:,} more"] * (len(problems) > _SHOWN)
    drop = "drop them"
    if "problem" in columns.names:
        code = 'df = df[df["problem"].fillna("") == ""]'
        drop += ', where="problem.isna()"' if columns.file else f", {code}"
    raise ManifestError(
        f"{len(problems):,} of {len(rows):,} rows have a problem:{''.join(lines)}\nTo train on the "
        f'others, {drop}, or give on_error="skip"'
    )


def look_for_files(
    columns: Columns, reader: SampleReader, problems: Mapping[int, str], skips: bool
) -> None:
    """Raise a MissingFileError if files of six sampled rows are missing.

    No file is opened. Remote files and rows with known `problems` are left out. If bad rows are
    skipped, it raises only if all files are missing, because the model would get only zeros.
    """
    rows = {int(row) for row in np.linspace(0, len(reader) - 1, _SAMPLED)} - problems.keys()
    missing, number = [], 0
    files = [(row, *file) for row in sorted(rows) for file in reader.paths(row)]
    for row, column, path in files:
        exists = os.path.isfile(path)
        if exists or not has_store(scheme_of(path)):
            number += 1
            if not exists and (what := _fault(reader.store, path)):
                missing.append((row, column, path, what))
    if missing and not (skips and len(missing) < number):
        row, column, path, what = missing[0]
        raise MissingFileError(
            f"{len(missing)} of {number} sampled files are missing, of {len(reader):,} rows. "
            f"Row id={reader.id(row)!r}, {column}={path!r}: {what}, "
            f"{_advice(columns, column, path)}"
        )
    root = columns.root
    if files and root and not (columns.file or "://" in root or os.path.isdir(root)):
        raise MissingFileError(
            f"there is no folder root={root!r}, and the paths do not need it: leave it out"
        )


def _fault(store: Store, path: str) -> str:
    """Return what is at the path of a file instead of it, "" if there is a file."""
    try:
        is_folder = store.head(path).problem and os.path.isdir(path)
    except MissingFileError:
        return "there is no file"
    except (DfgenError, OSError, ValueError):  # reading the file raises it again
        return ""
    return "there is a folder" if is_folder else ""


def _advice(columns: Columns, column: str, path: str) -> str:
    if os.path.isdir(path):
        return f"Make a frame of its files, df = dfgen.build_manifest({path!r})"
    read = "" if columns.file or columns.root else "dfgen.read_manifest "
    for root in (columns.root, columns.attributes.get("root")):
        if root and path.startswith(root.rstrip("/") + "/"):
            relative = path.removeprefix(root.rstrip("/") + "/")
            return missing_path(relative, os.path.abspath(root), column=column,
                                argument=f"{read}root=")  # fmt: skip
    return missing_path(path, os.getcwd(), column=column)
