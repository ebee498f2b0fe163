"""Shared parts of commands: options, how their texts are read, and how results are printed."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TextIO

import typer

from dfgen.errors import ArgumentError
from dfgen.system import overwriting

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Manifest = Annotated[str, typer.Argument(help="The manifest.", metavar="M.parquet")]
Root = Annotated[
    str | None, typer.Option(help="Folder of the files, if not the one of the manifest.")
]
Workers = Annotated[
    int | None, typer.Option(help="Threads that read and decode. Default: all CPUs.")
]
Processes = Annotated[
    int | None,
    typer.Option("--workers", help="Processes that read. Default: threads, on all CPUs."),
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask", help="Scheduler of a Dask cluster that reads.", metavar="tcp://HOST:8786"
    ),
]


def _replace(ctx: typer.Context, asked: bool) -> None:
    if asked:
        ctx.with_resource(overwriting())


Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Replace a file of another kind, too.", callback=_replace,
        expose_value=False,
    ),
]  # fmt: skip


def counted(counts: dict[str, int]) -> str:
    """Return how many changes of which kind, as in `2 added, 1 changed`."""
    return ", ".join(f"{rows} {name}" for name, rows in counts.items() if rows) or "no difference"


def shares_of(option: str, texts: list[str] | None) -> dict[str, float] | None:
    """Return the shares of `NAME=SHARE` texts."""
    shares = {}
    for text in texts or ():
        name, _, share = text.partition("=")
        try:
            shares[name] = float(share)
        except ValueError:
            raise ArgumentError(f"{option} {text}: expected NAME=SHARE, as in train=0.8") from None
    return shares or None


def height_and_width(option: str, text: str, otherwise: str = "") -> tuple[int, int]:
    """Return height and width of an `H,W` text; `otherwise` tells what else it may be."""
    try:
        height, width = map(int, text.split(","))
    except ValueError:
        raise ArgumentError(f"{option} {text}: expected H,W, as in 224,224{otherwise}") from None
    return height, width


def part_of(option: str, text: str | None) -> tuple[int, int] | None:
    """Return index and count of an `I/N` text."""
    try:
        index, count = map(int, text.split("/")) if text else (0, 1)
    except ValueError:
        raise ArgumentError(f"{option} {text}: expected I/N, as 0/4 of the first of 4") from None
    return (index, count) if text else None


def one_or_more(option: str, texts: list[str] | None) -> Any:
    """Return one path, or several in a list."""
    return texts[0] if texts and len(texts) == 1 else texts or None


def by_split(option: str, texts: list[str] | None) -> Any:
    """Return one path, several of the same images, or those of each split, `SPLIT=PATH`."""
    if not texts:
        return None
    splits: dict[str, list[str]] = {}
    for text in texts:
        name, is_split, path = text.partition("=")
        if not is_split or os.path.exists(text):
            name, path = "", text
        splits.setdefault(name, []).append(path)
    if "" in splits and len(splits) > 1:
        raise ArgumentError(f"{option} {splits[''][0]}: the others name a split. Name that of all")
    plain = {name: paths[0] if len(paths) == 1 else paths for name, paths in splits.items()}
    return plain.get("", plain)


def lines_of(option: str, path: str | None) -> tuple[str, ...]:
    """Return the lines of a text file."""
    if path is None:
        return ()
    try:
        with open(path, encoding="utf-8") as file:
            return tuple(line.strip() for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{option} {path} cannot be read: {error}") from None


def print_json(result: Mapping[str, Any], file: TextIO | None = None) -> None:
    """Print one JSON object on one line."""
    print(json.dumps(result, ensure_ascii=False), file=file)


def beside(out: str) -> TextIO:
    """Return where to tell of a file that is written: not into it, if it is the standard output."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(out), os.fstat(1)):
            return sys.stderr
    return sys.stdout


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Drop what goes to stderr, C++ included: while it loads, TensorFlow logs at any level."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    stderr = os.dup(2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
