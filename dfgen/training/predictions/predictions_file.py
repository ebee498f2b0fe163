"""Predictions in Parquet files: written part by part, and those of several processes joined."""

import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dfgen.errors import ArgumentError, WriteError, brief
from dfgen.loading.state import ids_digest
from dfgen.manifest.not_a_manifest import check_out
from dfgen.system import NFS_NAME, write_whole
from dfgen.training.predictions.run_identity import refuse_other

PREDICTIONS = "dfgen_predictions"
"""The key of the run in `df.attrs`, and in the schema metadata of a file."""

_RUN = "run.json"
_PART = re.compile(r"(\d+)-(\d+)-([0-9a-f]+)\.parquet")
_GROUP = 1 << 17  # rows of a row group


def frame_of_columns(table: pa.Table) -> pd.DataFrame:
    """Return predictions as a frame, in which numbers of classes stay numbers where some lack."""
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    numbers = [name for name in table.column_names if name.startswith("y_pred")]
    kinds = {name: "Int64" for name in numbers if pa.types.is_int64(table.schema.field(name).type)}
    return frame.astype(kinds)


def _is_remains(name: str) -> bool:
    return name.endswith(".tmp") or name.startswith(NFS_NAME)


def claim(folder: str, run: Mapping[str, Any], argument: str) -> None:
    """Make a folder for the files of a run, or find it as this run has left it."""
    path = os.path.join(folder, _RUN)
    advice = f"Give another {argument}=, or remove {folder}"
    try:
        os.makedirs(folder, exist_ok=True)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                refuse_other(json.load(file), run, f"{folder} holds files", advice)
        elif not all(_is_remains(name) for name in os.listdir(folder)):
            raise ArgumentError(f"{folder} holds files that predict_frame did not write. {advice}")
        else:
            write_whole(path, lambda file: file.write(json.dumps(run).encode()))
    except OSError as error:
        raise WriteError(f"{folder} cannot be written to: {error}. {advice}") from error


class PartsFolder:
    """A folder beside a file to be, with what is predicted so far: a file for some batches each.

    Each is written whole or not at all, and called by a digest of it: one that was damaged or
    edited is not taken for one of them. A folder of another run is refused.
    """

    def __init__(self, out: str, run: Mapping[str, Any]) -> None:
        self._folder = f"{out}.parts"
        claim(self._folder, run, "out")

    def add(self, steps: range, table: pa.Table, heads: Mapping[str, Any]) -> str:
        """Write what is predicted of some batches; return the path of the file."""
        known = {PREDICTIONS: json.dumps(heads)}
        file = io.BytesIO()
        pq.write_table(
            table.replace_schema_metadata({**(table.schema.metadata or {}), **known}), file
        )
        data = file.getvalue()
        name = f"{steps.start:012d}-{steps.stop:012d}-{_digest(data)}.parquet"
        path = os.path.join(self._folder, name)
        write_whole(path, lambda file: file.write(data))
        return path

    def files(self, steps: range) -> Iterator[tuple[int, str]]:
        """Yield the files that there are from the first of some steps on, with the step after."""
        known = {}
        for name in os.listdir(self._folder):
            path, match = os.path.join(self._folder, name), _PART.fullmatch(name)
            if match is not None and _digest(Path(path).read_bytes()) == match[3]:
                known[int(match[1])] = int(match[2]), path
        step = steps.start
        while step in known:
            step, path = known[step]
            yield step, path

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def check_rows(part: pd.DataFrame | str, run: Mapping[str, Any], where: str, advice: str) -> None:
    """Refuse predictions, in a frame or a file, of which rows are gone, doubled or moved."""
    first, stop = run["part"]
    rows = pq.read_metadata(part).num_rows if isinstance(part, str) else len(part)
    if rows != stop - first:
        raise ArgumentError(
            f"{where} has {rows:,} rows, but {stop - first:,} were predicted in it: {advice}"
        )
    name = run.get("id")
    if name is not None and ids_digest(_column(part, name)) != run["part_ids"]:
        raise ArgumentError(
            f"{where} has other rows than were predicted in it, or in another order, as its column "
            f"{name!r} says: {advice}"
        )


def _column(part: pd.DataFrame | str, name: str) -> Iterator[object]:
    if isinstance(part, pd.DataFrame):
        yield from part.get(name, ())
        return
    with pq.ParquetFile(part) as file:
        for batch in file.iter_batches(columns=[name]):
            yield from batch[0].to_pylist() if batch.num_columns else ()


def run_of_file(path: str) -> Any:
    """Return what a file says of its run."""
    try:
        with pq.ParquetFile(path) as file:
            return json.loads((file.schema_arrow.metadata or {})[PREDICTIONS.encode()])
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise ArgumentError(
            f"{path} is no file of predictions, as predict_frame(out=...) writes them"
        ) from error


def write_joined(out: str, paths: Iterable[str], run: Mapping[str, Any]) -> None:
    """Write one file of several, holding a little of it at a time."""
    paths = list(paths)
    schema = pq.read_schema(paths[0])
    empty = frame_of_columns(schema.empty_table())
    of_pandas = pa.Schema.from_pandas(empty, preserve_index=False).metadata
    schema = schema.with_metadata({**of_pandas, PREDICTIONS.encode(): json.dumps(run).encode()})

    def write(file: BinaryIO) -> None:
        with pq.ParquetWriter(file, schema) as writer:
            for table in _gathered(paths):
                writer.write_table(table.cast(schema))

    write_whole(out, write)


def _gathered(paths: list[str]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for path in paths:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                held.append(file.read_row_group(group))
                if sum(map(len, held)) >= _GROUP:
                    yield pa.concat_tables(held)
                    held = []
    if held:
        yield pa.concat_tables(held)


_Part = pd.DataFrame | str | os.PathLike[str]


def join_predictions(
    parts: Iterable[_Part], out: str | os.PathLike[str] | None = None
) -> pd.DataFrame | str:
    """Return the predictions of several processes, `shard=(0, n)` to `(n - 1, n)`, as one frame.

    The parts may come in any order. They must be of one run: the same manifest, model and
    arguments; and no part, and no row of one, may be missing or there twice.

    Args:
        parts: frames of `predict_frame` or `evaluate_frame`, as these have returned them, or the
            paths of files that they have written.
        out: the Parquet file to write instead, of parts that are files; no more than one row group
            of theirs is held in memory.

    Returns:
        The rows in the order of the manifest; with `out` the path of the file.

    Raises:
        ArgumentError: the parts are not those of one run, one of them is missing or there twice,
            or rows of one are.
        WriteError: the file cannot be written.

    Example:
        >>> dfgen.join_predictions(["part0.parquet", "part1.parquet"])  # doctest: +SKIP
    """
    if isinstance(parts, str | os.PathLike | pd.DataFrame):
        raise ArgumentError(f"parts must be a list of frames or paths, got {brief(parts)}")
    given = [one if isinstance(one, pd.DataFrame) else os.path.abspath(one) for one in parts]
    if not given:
        raise ArgumentError("parts is an empty list, expected the predictions of each process")
    names = [f"parts[{n}]" if isinstance(one, pd.DataFrame) else one for n, one in enumerate(given)]
    runs = [*map(_run_of, given, names)]
    for part, one, where in zip(given, runs, names, strict=True):
        mended = {**one, "shard": runs[0]["shard"], "paths": runs[0].get("paths")}
        advice = f"Join what goes with {names[0]}"
        refuse_other(mended, runs[0], f"{where} holds predictions", advice)
        check_rows(part, one, where, "join parts as they were made, and filter afterwards")
    order = _in_order(runs, names)
    run = {**runs[0], "shard": [0, 1], "part": [0, runs[0]["rows"]], "part_ids": runs[0]["ids"]}
    ordered = [given[place] for place in order]
    if out is None:
        return _joined(ordered, run)
    if not all(isinstance(path, str) for path in ordered):
        raise ArgumentError(f"out={brief(out)} needs parts that are files, got frames")
    path = os.path.abspath(out)
    check_out(path, key=PREDICTIONS.encode(), kind="file of predictions")
    write_joined(path, map(str, ordered), run)
    return path


def _run_of(part: pd.DataFrame | str, name: str) -> Any:
    if isinstance(part, str):
        return run_of_file(part)
    run = part.attrs.get(PREDICTIONS, {})
    if "shard" not in run:
        raise ArgumentError(
            f"{name} does not say of which run it is: expected a frame as "
            "predict_frame returns it for a Sequence with shard=(index, count), whose attrs have "
            f"{PREDICTIONS!r}"
        )
    return run


def _in_order(runs: list[Any], names: list[str]) -> list[int]:
    count = runs[0]["shard"][1]
    found: dict[int, int] = {}
    for place, one in enumerate(runs):
        index, of = one["shard"]
        if of != count:
            raise ArgumentError(
                f"{names[0]} is one of {count} parts, {names[place]} one of {of}: they are not "
                "parts of the same run"
            )
        if index in found:
            raise ArgumentError(
                f"part {index} of {count} is there twice: {names[found[index]]} and {names[place]}"
            )
        found[index] = place
    missing = [index for index in range(count) if index not in found]
    if missing:
        raise ArgumentError(
            f"of {count} parts {', '.join(map(str, missing))} (from 0) are missing: expected the "
            "predictions of each process"
        )
    return [found[index] for index in range(count)]


def _joined(parts: list[Any], run: dict[str, Any]) -> pd.DataFrame:
    frames = [pd.read_parquet(one) if isinstance(one, str) else one for one in parts]
    bare = [frame.copy(deep=False) for frame in frames]
    for frame in bare:
        frame.attrs = {}  # pandas compares them
    joined: pd.DataFrame = pd.concat(bare, ignore_index=isinstance(parts[0], str))
    joined.attrs[PREDICTIONS] = json.loads(json.dumps(run))
    return joined
