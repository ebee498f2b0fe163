"""The arguments of `dfgen.Sequence` that `bind` uses, and the table that they name."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import pandas as pd

from dfgen.binding.nested import Tree
from dfgen.binding.table_columns import Columns
from dfgen.errors import (
    ArgumentError,
    ManifestError,
    WriteError,
    brief,
    column_list,
    flag,
    one_of,
    warn,
)
from dfgen.limits import DEFAULT, limits_given
from dfgen.loading.state import ids_digest
from dfgen.machine import HAS_MEMORY_FILES, IS_WINDOWS
from dfgen.manifest.paths import absolute_place, is_address
from dfgen.manifest.table_reading import mapped_rows, read_table
from dfgen.samples.features.base import class_names_in_order
from dfgen.samples.features.classes import LABEL_MODES
from dfgen.samples.features.image import DEFAULT_SIZE, Image, checked_size
from dfgen.samples.pixels.scaling import Scale
from dfgen.samples.transforms import Transform, check_transform
from dfgen.stores.archives import archive_at
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import is_remote, scheme_of
from dfgen.table.any_table import TAKEN, Table, arrow_table, is_table
from dfgen.table.arrow_types import check_names

SampleWeight = str | Mapping[str, str | None] | Sequence[str | None] | None
"""The column of weights of all targets, or one per target, nested as y."""
ClassWeight = Mapping[Any, Any] | Sequence[Any] | str | None
"""Class -> weight, or `"balanced"`, or one of these per target, nested as y."""
Balance = str | Mapping[str, Mapping[Any, float]] | None
"""A column, or column -> value -> its share of an epoch."""
Cache = str | os.PathLike[str] | None
"""A folder, `"memory"`, or None."""
IMAGE_OPTIONS = ("image_size", "color_mode", "scale")
FEATURE_OPTIONS = (*IMAGE_OPTIONS, "label_mode", "class_names")
"""SequenceArguments for columns that x and y give by their names."""


@dataclass(frozen=True)
class SequenceArguments:
    """The arguments of `dfgen.Sequence` that `bind` uses, with the same defaults."""

    manifest: Table | str | os.PathLike[str] = None
    x: Tree = "path"
    y: Tree = None
    _: KW_ONLY
    id: str | None = None
    sample_weight: SampleWeight = None
    class_weight: ClassWeight = None
    balance: Balance = None
    sampling_weight: str | None = None
    bucket_by: str | None = None
    batch_size: int = 32
    image_size: tuple[int, int] | None = DEFAULT_SIZE
    color_mode: str = "rgb"
    label_mode: str | None = "int"
    class_names: Any = None
    scale: Scale = None
    shuffle: bool = True
    transform: Transform | None = None
    on_error: str = "raise"
    limits: Any = DEFAULT  # Limits; None is replaced
    root: Any = None  # a path of a folder or archive, or an address; becomes text
    storage_options: Any = None  # StorageOptions; a mapping or None is replaced
    cache: Any = None  # Cache; a path becomes absolute
    pack: str | os.PathLike[str] | None = None
    where: Any = None
    window: int = 10**9  # bytes of rows in large files that are shuffled together; not public

    def __post_init__(self) -> None:
        one_of("label_mode", self.label_mode, (*LABEL_MODES, None))
        one_of("bucket_by", self.bucket_by, (None, "shape", "length"))
        one_of("on_error", self.on_error, ("raise", "skip"))
        root = self.root
        if root is not None:
            if not isinstance(root, str | os.PathLike):
                raise ArgumentError(f"root must be the path of a folder, got {root!r}")
            root = os.fspath(root) or None
            root = absolute_place(root) if root and (archive_at(root) or is_address(root)) else root
        if self.transform is not None:
            check_transform("transform", self.transform, "sample")
        names = self.class_names
        for name, value in (
            ("image_size", checked_size("image_size", self.image_size)),
            ("class_names", None if names is None else class_names_in_order(names)),
            ("shuffle", flag("shuffle", self.shuffle)),
            ("root", root),
            ("limits", limits_given(self.limits)),
            ("cache", None if self.cache is None else _checked_cache(self.cache)),
            ("storage_options", StorageOptions(self.storage_options)),
        ):
            object.__setattr__(self, name, value)

    def image(self, column: str) -> Image:
        """Return the feature for the name of a column of images."""
        return Image(column, self.image_size, color_mode=self.color_mode, scale=self.scale)


def _checked_cache(cache: Any) -> str:
    """Return the absolute path of a folder, or `"memory"`.

    Raises:
        ArgumentError: it is neither.
    """
    if not isinstance(cache, str | os.PathLike) or not os.fspath(cache):
        raise ArgumentError(f'cache must be a folder or "memory", got {cache!r}: cache="cache"')
    place = os.fspath(cache)
    if scheme_of(place) or place.startswith("~/") or IS_WINDOWS:
        raise ArgumentError(
            f"cache={place!r} must be a folder of this machine, without ~, and not on Windows: a "
            "cache is mapped into memory"
        )
    if place == "memory" and not HAS_MEMORY_FILES:
        raise ArgumentError(f"cache={place!r} works on Linux only: give a folder")
    return place if place == "memory" else os.path.abspath(place)


def open_table(arguments: SequenceArguments) -> Columns:
    """Return the columns of a frame (copied), of another table, or of a manifest file.

    Raises:
        ManifestError: there is no table, it has no rows, or names of columns are not unique text.
        ArgumentError: `where=` needs a manifest file, not a table in memory.
    """
    manifest = arguments.manifest
    is_path = isinstance(manifest, str | os.PathLike)
    if arguments.where is not None and not is_path:
        raise ArgumentError(
            f"where={brief(arguments.where)} filters a manifest file, but the manifest is a "
            f"{type(manifest).__name__}: filter it before, df.query(...)"
        )
    if isinstance(manifest, Columns):
        return manifest
    if is_path:
        columns = _mapped(arguments) or _read(arguments)
    elif isinstance(manifest, pd.DataFrame):
        known = manifest.attrs.get("dfgen", {})
        columns = Columns(manifest.copy(), known, root=arguments.root)
    elif is_table(manifest):
        columns = Columns(arrow_table(manifest, "the manifest"), root=arguments.root)
    else:
        raise ManifestError(
            f"the manifest must be {TAKEN}, or the path of a manifest, got {brief(manifest)}"
        )
    check_names(columns.names, "the manifest")
    if not len(columns):
        raise ManifestError(
            f"the manifest has no rows (columns: {column_list(columns.names)}): was it filtered by "
            "a value that does not occur?"
        )
    return columns


def _read(arguments: SequenceArguments) -> Columns:
    """Return the columns of a manifest file, read into memory."""
    path, options = os.fspath(arguments.manifest), arguments.storage_options
    table, metadata = read_table(
        path, arguments.root, limits=arguments.limits, options=options, where=arguments.where
    )
    return Columns(table, metadata.attributes, arguments.root, path)


def _mapped(arguments: SequenceArguments) -> Columns | None:
    """Return the memory-mapped columns of a large manifest; None if it is to be read."""
    path, where = os.fspath(arguments.manifest), arguments.where
    if is_remote(path) or os.path.isdir(path):
        return None
    try:
        conditions = () if where is None else (where,)
        rows = mapped_rows(path, arguments.root, conditions, arguments.limits)
    except WriteError as error:
        warn(f"the rows of {path} are read into memory, because {error}")
        return None
    if rows is None:
        return None
    root = None if arguments.root is None else rows.metadata.root
    names = (name for name in ("id", "path") if name in rows.table.column_names)
    stored = {name: rows.column(name) for name in names}
    digest = partial(rows.digest_of_ids, ids_digest)
    return Columns(rows.table, rows.metadata.attributes, root, path, stored, digest)
