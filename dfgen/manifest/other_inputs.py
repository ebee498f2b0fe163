"""What beginners give for a manifest that is none, and how a frame is made of each."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix

_LABELS = "--labels {} --path-column path"
_FILES = {
    ".csv": ("text", "pd.read_csv({})", _LABELS),
    ".tsv": ("text", 'pd.read_csv({}, sep="\\t")', _LABELS),
    ".txt": ("text", 'pd.read_csv({}, sep=None, engine="python")', ""),
    ".json": ("JSON", "pd.read_json({}); of COCO df = dfgen.build_manifest(coco={})", ""),
    ".jsonl": ("JSON", "pd.read_json({}, lines=True)", _LABELS),
    ".xls": ("a workbook", "pd.read_excel({})", ""),
    ".xlsx": ("a workbook", "pd.read_excel({})", ""),
    ".pkl": ("a pickle", "pd.read_pickle({})", ""),
    ".pickle": ("a pickle", "pd.read_pickle({})", ""),
    ".feather": ("Arrow", "pd.read_feather({})", ""),
    ".toml": ("a recipe", "dfgen.build_manifest({})", "{}"),
    ".yaml": ("text", "dfgen.build_manifest(yolo={})", "--yolo {}"),
    ".yml": ("text", "dfgen.build_manifest(yolo={})", "--yolo {}"),
    ".npy": ("an array", "dfgen.build_manifest(arrays={})", "--arrays {}"),
    ".h5": ("HDF5", "dfgen.build_manifest(arrays={})", "--arrays {}"),
    ".hdf5": ("HDF5", "dfgen.build_manifest(arrays={})", "--arrays {}"),
}
"""Suffix of a file -> what it is, what makes a frame of it, and what a manifest in a shell."""

OTHER_SUFFIXES = (*_FILES, ".npz", ".db", ".html")
"""Of what is no Parquet file."""


def frame_of_file(path: str) -> tuple[str, str] | None:
    """Return what is at a path, or may be, and how a frame is made of it; None: nothing is known.

    Example:
        >>> frame_of_file("labels.xlsx")
        ('a workbook', 'make a frame of it, df = pd.read_excel("labels.xlsx")')
    """
    name = path.lower().removesuffix(".gz").removesuffix(".zip")
    suffix, shown = os.path.splitext(name)[1], f'"{path}"'
    kind, reader, command = _FILES.get(suffix, ("", "", ""))
    if os.path.isdir(path):
        kind, reader, command = "a folder", "dfgen.build_manifest({})", "{}"
    if reader:
        shell = f"dfgen build-manifest {command} --out pets.parquet".replace("{}", path)
        advice = f"make a frame of it, df = {reader.replace('{}', shown)}"
        return kind, advice + f", or a manifest, {shell}" * bool(command)
    format = formats_by_suffix().get(suffix)
    if format is not None:
        what = "a sound" if FORMATS[format].holds == "sound" else "an image"
        return what, 'make a frame of their paths, df = pd.DataFrame({"path": [...]})'
    return None


def frame_of(given: Any) -> str:
    """Return what an object is, and how a frame is made of it."""
    for applies, advice in _ANSWERS:
        if applies(given):
            return f"{_name(given)}{advice(given)}"
    return _name(given)


def _name(given: Any) -> str:
    return "None" if given is None else f"a {type(given).__name__}"


def _first(given: Any) -> Any:
    return next(iter(given), None)


def _packages(given: Any) -> Iterator[str]:
    return (kind.__module__.partition(".")[0] for kind in type(given).__mro__)


def _of(*packages: str) -> Callable[[Any], bool]:
    return lambda given: any(package in packages for package in _packages(given))


def _of_mapping(given: Mapping[Any, Any]) -> str:
    values = [*given.values()]
    if values and not isinstance(values[0], list | tuple | np.ndarray | pd.Series | str | int):
        return f": give one of them, Sequence(given[{_first(given)!r}], ...)"
    return ": make a frame of it, df = pd.DataFrame(given)"


def _of_list(given: Any) -> str:
    first = _first(given)
    if isinstance(first, pd.DataFrame):
        return " of frames: make a Sequence of each, or one frame of all, pd.concat(given)"
    if isinstance(first, str | os.PathLike):
        return ': make a frame of the paths, df = pd.DataFrame({"path": given})'
    if isinstance(first, tuple | list) and len(first) == 2:
        return ': make a frame of the pairs, df = pd.DataFrame(given, columns=["path", "label"])'
    return ": make a frame of the rows, df = pd.DataFrame(given)"


def _of_series(given: Any) -> str:
    if str(given.dtype).lower() in ("bool", "boolean"):
        return " of booleans: give the rows that it chooses, Sequence(df[given], ...)"
    return f': give the whole frame, and the column by its name, Sequence(df, x="{given.name}")'


def _of_array(given: Any) -> str:
    if getattr(given, "dtype", None) is not None and getattr(given.dtype, "kind", "f") in "OUST":
        return ': make a frame of the paths, df = pd.DataFrame({"path": given})'
    return (
        ': fit takes arrays as they are; of a large one dfgen.build_manifest(arrays="x.npy") makes '
        "a frame, once np.save has written it"
    )


_ANSWERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], str]], ...] = (
    (
        lambda given: given is None,
        lambda given: ": give a frame first, Sequence(df, ...), as of pd.read_csv(...), or of "
        'dfgen.build_manifest("imgs")',
    ),
    (
        lambda given: isinstance(given, type) or (callable(given) and hasattr(given, "__name__")),
        lambda given: ": give a frame, not what makes one",
    ),
    (
        lambda given: isinstance(given, pd.DataFrame),
        lambda given: ": it is a frame already, give it to dfgen.Sequence as it is",
    ),
    (
        lambda given: type(given).__name__ in ("DataFrameGroupBy", "SeriesGroupBy"),
        lambda given: ": give the frame itself; to keep groups whole, "
        'dfgen.split(df, {"train": 0.8, "val": 0.2}, group="owner")',
    ),
    (lambda given: type(given).__name__ == "Series", _of_series),
    (lambda given: isinstance(given, Mapping), _of_mapping),
    (lambda given: isinstance(given, list | tuple | set | frozenset | pd.Index), _of_list),
    (
        lambda given: hasattr(given, "collect"),
        lambda given: ": call .collect() first",
    ),
    (
        lambda given: hasattr(given, "samples") and _of("torch", "torchvision")(given),
        lambda given: ': make a frame of its samples, df = pd.DataFrame(given.samples, '
        'columns=["path", "label"])',
    ),
    (lambda given: isinstance(given, np.ndarray) or type(given).__name__ == "Tensor", _of_array),
    (lambda given: "Tensor" in type(given).__name__ and hasattr(given, "shape"), _of_array),
    (
        lambda given: hasattr(given, "to_pandas"),
        lambda given: ": make a frame of it, df = given.to_pandas()",
    ),
    (
        _of("tensorflow", "torch", "keras", "grain"),
        lambda given: ": fit takes it as it is; a Sequence is made of a frame with a row for each "
        'file, df = pd.DataFrame({"path": [...], "label": [...]})',
    ),
    (
        lambda given: hasattr(given, "__iter__"),
        lambda given: ": make a frame of its rows, df = pd.DataFrame(list(given))",
    ),
)  # fmt: skip
"""Whether it is that, and what to say behind its name."""
