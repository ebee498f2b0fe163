"""A label source: how it describes itself, and what it yields."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.manifest.schema import Label

ListLengths = npt.NDArray[np.integer[Any]]

# Lists of lists of floats: pandas turns them into arrays and Arrow turns these back into the same
# type, which it does not for lists of fixed size.
BOXES = pa.list_(pa.list_(pa.float32()))
LABELS = pa.list_(pa.string())

ANNOTATED = ("annotated_width", "annotated_height")
"""Columns that a source may give: the size of the image that was annotated; null: not known."""


def nest(
    values: pa.Array, lengths: ListLengths, missing: npt.NDArray[np.bool_] | None = None
) -> Any:
    """Return lists of so many values each, one after the other; null where `missing` and 0 long.

    Example:
        >>> nest(pa.array([1, 2, 3]), np.array([2, 0, 1])).to_pylist()
        [[1, 2], [], [3]]
    """
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = None if missing is None else np.append(missing, False)
    return pa.ListArray.from_arrays(pa.array(ends, mask=mask), values)


def nest_boxes(
    boxes: npt.NDArray[Any], lengths: ListLengths, missing: npt.NDArray[np.bool_] | None = None
) -> Any:
    """Return (n, k) numbers as lists of k floats, so many of them a row."""
    each = np.full(len(boxes), boxes.shape[1])
    with np.errstate(over="ignore"):  # infinite, which is outside of every image
        inner = nest(pa.array(boxes.astype(np.float32).ravel()), each)
    return nest(inner, lengths, missing)


# The type of a value as TOML reads it.
TEXT = (str,)
NAMES = (list,)
ONE_OR_MORE = (str, list)
OF_SPLITS = (str, list, dict)

IMAGES_A_GROUP = 4096
"""The images of one row group, where each has an annotation of its own to read."""

Paths = str | list[str] | dict[str, str | list[str]]
"""One path, several, or those of each split."""


@dataclass(frozen=True)
class RowGroup:
    """Some rows of a source, and what it did on the way to them.

    Args:
        rows: the rows; the same columns in every group
        skipped: reason -> the paths that were left out for it, for people to read
        notes: what was done with rows that did not match
        labels: column -> its class names or box format, where the source knows them
        folder: where relative paths start, absolute; "": where those of a label table do
        total: how many rows there are in all groups, if that is known already
        facts: columns that are facts of the files, as the listing of a bucket has them
        warnings: what the user should look at
    """

    rows: pa.Table
    skipped: Mapping[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    labels: Mapping[str, Label] = field(default_factory=dict)
    folder: str = ""
    total: int | None = None
    facts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Argument:
    """One argument of a build: of `build_manifest`, of a recipe, and of the command.

    Args:
        accepts: its type, one of those above
        help: what the command says of it, a sentence
        metavar: how the command calls its value
        default: its value where it is left out; for `NAMES` the empty tuple
        choices: the values that there are, if these can be listed
        is_path: it holds paths; relative ones start at the folder of the recipe's file
        from_file: the command takes a text file of its names, one a line
    """

    accepts: tuple[type, ...]
    help: str
    metavar: str | None = None
    default: Any = None
    choices: tuple[str, ...] = ()
    is_path: bool = False
    from_file: bool = False


IMAGES = Argument(OF_SPLITS, "Folder of the images.", "[SPLIT=]FOLDER", is_path=True)
"""The argument `images` of every source whose annotations lie apart from the images."""


@dataclass(frozen=True)
class Source:
    """A label source; its name in `SOURCES` is also that of the argument that says where it is.

    Args:
        read: yields the row groups. Called with `place`, then by name with the others
        place: the argument of the source's own name
        arguments: the other arguments that are of such sources alone, by name
        shared: names of the arguments of any build that `read` takes too: `pattern` (parsed),
            `path_column`, `root`, `unmatched`; or `limits`; or `options`, which open what is far
            away
        check: raises ArgumentError where the arguments of its own, defaults included, clash
        rows_share_images: says by the arguments whether several rows are of one image; a split
            keeps them together, as they are not independent samples
        folder: the argument whose folder is searched for files, so that `verify(root=...)` can
            look elsewhere, if there is one
        gives_facts: it yields facts of the files (bytes, mtime_ns), which are not labels
    """

    read: Callable[..., Iterator[RowGroup]]
    place: Argument
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    check: Callable[[Mapping[str, Any]], None] = lambda arguments: None
    rows_share_images: Callable[[Mapping[str, Any]], bool] = lambda arguments: False
    folder: str | None = None
    gives_facts: bool = False
