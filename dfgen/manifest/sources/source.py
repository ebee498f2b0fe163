"""A label source: how it describes itself, and what it yields."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

import msgspec
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

MOST_PIXELS = 2**31
Side = Annotated[int, msgspec.Meta(ge=0, lt=MOST_PIXELS)]
"""The width or height of an image in a JSON file; 0: not known."""


def nest(
    values: pa.Array, lengths: ListLengths, missing: npt.NDArray[np.bool_] | None = None
) -> Any:
    """Return lists of so many values each, one after the other; null where `missing` and 0 long."""
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

Paths = str | list[str] | dict[str, str | list[str]]
"""One path, several, or those of each split."""


@dataclass(frozen=True)
class RowGroup:
    """Some rows of a source, the same columns in every group, and what it did on the way."""

    rows: pa.Table
    skipped: Mapping[str, list[str]] = field(default_factory=dict)  # reason -> paths left out
    notes: tuple[str, ...] = ()  # what was done with rows that did not match
    labels: Mapping[str, Label] = field(default_factory=dict)  # what the source knows of columns
    folder: str = ""  # where relative paths start; "": where those of a label table do
    total: int | None = None  # the rows of all groups, if that is known already
    facts: tuple[str, ...] = ()  # columns that are facts of the files, as a bucket lists them
    warnings: tuple[str, ...] = ()  # what the user should look at
    dropped: tuple[str, ...] = ()  # paths of files without a partner, under unmatched="drop"


@dataclass(frozen=True)
class Argument:
    """One argument of a build: of `build_manifest`, of a recipe, and of the command."""

    accepts: tuple[type, ...]  # one of those above
    help: str  # what the command says of it, a sentence
    metavar: str | None = None  # how the command calls its value
    default: Any = None  # where it is left out; for `NAMES` the empty tuple
    choices: tuple[str, ...] = ()  # the values that there are, if these can be listed
    is_path: bool = False  # it holds paths; relative ones start at the folder of the recipe's file
    from_file: bool = False  # the command takes a text file of its names, one a line


def argument_field(
    accepts: tuple[type, ...], help: str, metavar: str | None = None, **more: Any
) -> Any:
    """Return the field of a dataclass that is an argument of any build."""
    described = Argument(accepts, help, metavar, **more)
    return field(default=described.default, metadata={"argument": described})


def arguments_of(kind: type) -> dict[str, Argument]:
    """Return the arguments that are fields of a dataclass, by name."""
    return {item.name: item.metadata["argument"] for item in fields(kind) if item.metadata}


IMAGES = Argument(OF_SPLITS, "Folder of the images.", "[SPLIT=]FOLDER", is_path=True)
"""The argument `images` of every source whose annotations lie apart from the images."""


@dataclass(frozen=True)
class Source:
    """A label source; its name in `SOURCES` is also that of the argument that says where it is.

    `read` yields the row groups. It is called with `place`, then by name with the others: its own
    arguments, and those shared ones that it names: `pattern` (parsed), `path_column`, `root`,
    `unmatched`; `written`, how a table is written; `limits`; `options`, which open what is far
    away.
    """

    read: Callable[..., Iterator[RowGroup]]
    place: Argument  # the argument of the source's own name
    arguments: Mapping[str, Argument] = field(default_factory=dict)  # those of such sources alone
    shared: tuple[str, ...] = ()
    check: Callable[[Mapping[str, Any]], None] = lambda arguments: None  # refuses what clashes
    # whether several rows are of one image: a split keeps them together
    rows_share_images: Callable[[Mapping[str, Any]], bool] = lambda arguments: False
    folder: str | None = None  # the argument whose folder `verify(root=...)` looks for elsewhere
