"""How long until the first batch of a manifest of a million rows, and which files are touched?"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from unittest import mock

import polars as pl
from corpus import manifest
from measure import Findings, Rates, Verdict, alternate, finish

import dfgen

ROWS = 1_000_000
ROUNDS = 5


def main() -> Findings:
    path = str(manifest(ROWS))
    dfgen.Sequence  # noqa: B018 - loads Keras, which is not in question
    names = ("read_manifest", "Sequence", "first batch", "all", "by path")
    steps: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        start = time.perf_counter()
        frame = dfgen.read_manifest(path)
        read = time.perf_counter()
        sequence = dfgen.Sequence(frame, image_size=(224, 224), batch_size=64)
        made = time.perf_counter()
        next(iter(sequence))
        end = time.perf_counter()
        sequence.close()
        by_path = _first_batch(path)
        seconds = (read - start, made - read, end - made, end - start, by_path)
        for name, value in zip(steps, seconds, strict=True):
            steps[name].append(value)
    with images_touched() as touched:
        dfgen.Sequence(dfgen.read_manifest(path), image_size=(224, 224), batch_size=64).close()
        dfgen.Sequence(path, image_size=(224, 224), batch_size=64).close()
    print(f"\n{ROWS:,} rows, batch 64: median seconds (lowest .. highest)")
    for name, values in steps.items():
        print(f"{name:<44}{median(values):>8.2f} ({min(values):.2f} .. {max(values):.2f})")
    tables = _tables(path)
    tables.show("tables opened", "pandas")
    return finish(
        [
            Verdict("first batch of 10^6 rows, from a frame", median(steps["all"]), 3, "s", True),
            Verdict("first batch of 10^6 rows, by path", median(steps["by path"]), 3, "s", True),
            Verdict("images looked for at two openings", len(touched), 12, "images", True),
            Verdict("Polars frame of 10^6 rows", tables.ratio("Polars", "pandas"), 1, "x pandas"),
        ]
    )


def _first_batch(path: str) -> float:
    start = time.perf_counter()
    with dfgen.Sequence(path, image_size=(224, 224), batch_size=64) as sequence:
        next(iter(sequence))
        return time.perf_counter() - start


def _tables(path: str) -> Rates:
    """Open the id, path and kind of each row as a table of pandas and of Polars."""
    frame = dfgen.read_manifest(path)[["id", "path", "kind"]]
    classes = pl.Enum(list(frame["kind"].cat.categories))
    columns = {name: frame[name].to_numpy() for name in frame}
    tables = {"pandas": frame, "Polars": pl.DataFrame(columns, schema_overrides={"kind": classes})}

    def opener(table: object) -> Callable[[], int]:
        def opened() -> int:
            dfgen.Sequence(table, image_size=(224, 224), batch_size=64).close()
            return 1

        return opened

    return alternate({name: opener(table) for name, table in tables.items()}, 25)


@contextmanager
def images_touched() -> Iterator[list[str]]:
    """Collect the JPEG files that Python opens or asks the status of."""
    touched: list[str] = []
    listening = True

    def note(path: object) -> None:
        if listening and isinstance(path, str) and path.endswith(".jpg"):
            touched.append(path)

    def noting(function: Callable[..., object]) -> Callable[..., object]:
        def noted(path: object, *rest: object, **named: object) -> object:
            note(path)
            return function(path, *rest, **named)

        return noted

    sys.addaudithook(lambda event, values: note(values[0]) if event == "open" else None)
    with (
        mock.patch.object(os, "stat", noting(os.stat)),
        mock.patch.object(os, "lstat", noting(os.lstat)),
        mock.patch.object(os, "access", noting(os.access)),
    ):
        yield touched
    listening = False


if __name__ == "__main__":
    main()
