"""join_predictions: what several processes have predicted, as one."""

import json
import os
from collections.abc import Iterable
from typing import Any

import pandas as pd

from dfgen.errors import ArgumentError, brief
from dfgen.manifest.not_a_manifest import check_out
from dfgen.training.predictions.predictions_file import (
    PREDICTIONS,
    check_rows,
    run_of_file,
    write_joined,
)
from dfgen.training.predictions.run_identity import refuse_other

_AS_MADE = "join parts as they were made, and filter afterwards"

_Part = pd.DataFrame | str | os.PathLike[str]


def join_predictions(
    parts: Iterable[_Part], out: str | os.PathLike[str] | None = None
) -> pd.DataFrame | str:
    """Return the predictions of several processes, `shard=(0, n)` to `(n - 1, n)`, as one frame.

    The parts may come in any order. Checked is that they are of one run: the same manifest, model
    and arguments; and that no part, and no row of one, is missing or there twice.

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
    told = [_told(one, number) for number, one in enumerate(given)]
    for number, one in enumerate(told):
        mended = {**one, "shard": told[0]["shard"], "paths": told[0].get("paths")}
        where = _named(given[number], number)
        advice = f"Join what goes with {_named(given[0], 0)}"
        refuse_other(mended, told[0], f"{where} holds predictions", advice)
        check_rows(given[number], one, where, _AS_MADE)
    order = _in_order(given, told)
    said = {**told[0], "shard": [0, 1], "part": [0, told[0]["rows"]], "part_ids": told[0]["ids"]}
    if out is None:
        return _joined([given[place] for place in order], said)
    paths = [given[place] for place in order]
    if not all(isinstance(path, str) for path in paths):
        raise ArgumentError(f"out={brief(out)} needs parts that are files, got frames")
    path = os.path.abspath(out)
    check_out(path, key=PREDICTIONS.encode(), kind="file of predictions")
    write_joined(path, [str(one) for one in paths], said)
    return path


def _told(part: pd.DataFrame | str, number: int) -> Any:
    if isinstance(part, str):
        return run_of_file(part)
    told = part.attrs.get(PREDICTIONS, {})
    if "shard" not in told:
        raise ArgumentError(
            f"{_named(part, number)} does not say of which run it is: expected a frame as "
            "predict_frame returns it for a Sequence with shard=(index, count), whose attrs have "
            f"{PREDICTIONS!r}"
        )
    return told


def _named(part: pd.DataFrame | str, number: int) -> str:
    return part if isinstance(part, str) else f"parts[{number}]"


def _in_order(given: list[Any], told: list[Any]) -> list[int]:
    count = told[0]["shard"][1]
    found: dict[int, int] = {}
    for place, one in enumerate(told):
        index, of = one["shard"]
        if of != count:
            raise ArgumentError(
                f"{_named(given[0], 0)} is one of {count} parts, {_named(given[place], place)} one "
                f"of {of}: they are not parts of the same run"
            )
        if index in found:
            first = found[index]
            raise ArgumentError(
                f"part {index} of {count} is there twice: {_named(given[first], first)} and "
                f"{_named(given[place], place)}"
            )
        found[index] = place
    missing = [index for index in range(count) if index not in found]
    if missing:
        raise ArgumentError(
            f"of {count} parts {', '.join(map(str, missing))} (from 0) are missing: expected the "
            "predictions of each process"
        )
    return [found[index] for index in range(count)]


def _joined(parts: list[Any], said: dict[str, Any]) -> pd.DataFrame:
    frames = [pd.read_parquet(one) if isinstance(one, str) else one for one in parts]
    bare = [frame.copy(deep=False) for frame in frames]
    for frame in bare:
        frame.attrs = {}  # pandas compares them
    joined: pd.DataFrame = pd.concat(bare, ignore_index=isinstance(parts[0], str))
    joined.attrs[PREDICTIONS] = json.loads(json.dumps(said))
    return joined
