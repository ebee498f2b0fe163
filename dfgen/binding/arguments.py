"""The arguments of a Sequence, and the features that they stand for."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.table_columns import Columns
from dfgen.errors import (
    ArgumentError,
    DecodeError,
    ManifestError,
    WriteError,
    brief,
    column_list,
    flag,
    one_of,
    warn,
)
from dfgen.explain.labels import warn_of_lookalikes
from dfgen.limits import DEFAULT, limits_given
from dfgen.loading.receipts import ids_digest
from dfgen.machine import HAS_MEMORY_FILES, IS_WINDOWS
from dfgen.manifest.paths import absolute_place, is_address
from dfgen.manifest.schema import label_columns
from dfgen.manifest.table_reading import mapped_rows, read_table
from dfgen.samples.features.base import Feature, class_names_in_order
from dfgen.samples.features.classes import LABEL_MODES, Category, MultiLabel, Number
from dfgen.samples.features.image import DEFAULT_SIZE, Image, checked_size
from dfgen.samples.pixels.formats import BY_SUFFIX, FORMATS, sniff
from dfgen.samples.pixels.scaling import Scale
from dfgen.samples.transforms import Transform, check_transform
from dfgen.spec import Tree, leaves, map_leaves
from dfgen.stores.archives import archive_at, member_of
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import is_remote, scheme_of
from dfgen.table.any_table import TAKEN, Table, arrow_table, is_table
from dfgen.table.arrow_types import (
    LISTS,
    TEXT,
    are_files,
    are_numbers,
    check_names,
    content_parts,
)

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

_ID = re.compile("(?i:^id|uuid|_id)$|Id$")
_WRITE = {
    "array": 'dfgen.Array("{0}", shape=...), or for rows of array files dfgen.Array("{0}", '
    'shape=..., index="index") or dfgen.Image("{0}", size=..., index="index")',
    "sound": 'dfgen.Audio("{0}", sample_rate=..., seconds=...)',
    "image": 'dfgen.Mask("{0}") for masks, y=dfgen.Image("{0}") for images',
    "unknown": 'dfgen.Bytes("{0}"), or dfgen.Array("{0}", shape=..., decode=function)',
}
"""Content of files -> the feature to write."""


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


def named_features(
    columns: Columns, arguments: SequenceArguments
) -> tuple[Tree, Tree, dict[str, Feature]]:
    """Return x and y with names for features, and name -> feature.

    The name is the key in a dict, else the kind. Kinds that occur several times are numbered:
    `image_0`, `image_1`.
    """
    x, y = trees = chosen_features(columns, arguments)
    kinds = Counter(f.kind for tree in trees if not isinstance(tree, Mapping) for f in leaves(tree))
    numbers = defaultdict[str, Any](count)

    x_names, y_names = (
        {key: key for key in tree}
        if isinstance(tree, Mapping)
        else map_leaves(
            lambda f: f.kind if kinds[f.kind] == 1 else f"{f.kind}_{next(numbers[f.kind])}", tree
        )
        for tree in trees
    )
    names, features = (*leaves(x_names), *leaves(y_names)), (*leaves(x), *leaves(y))
    named, arrays = [*zip(names, features, strict=True)], Counter[str]()
    for key, feature in named:
        arrays.update(leaves(feature.arrays(key)))
    if arrays and max(arrays.values()) > 1:
        twice = arrays.most_common(1)[0][0]
        raise ArgumentError(f"x and y both have an entry named {twice!r}: rename one")
    return x_names, y_names, dict(named)


def chosen_features(columns: Columns, arguments: SequenceArguments) -> tuple[Tree, Tree]:
    """Return x and y with a feature for each column name; the features know their classes."""
    x, y = arguments.x, arguments.y
    if y is not None and arguments.label_mode is None:
        raise ArgumentError(
            f"label_mode=None means no targets, but y={brief(y)} names some: leave one of them out"
        )
    x = map_leaves(lambda leaf: _feature(columns, "x", leaf, arguments), x)
    if not [*leaves(x)]:
        raise ArgumentError(f"x={x!r} has no input: give a column, a feature, a list or a dict")
    if y is None and arguments.label_mode is not None:
        names = arguments.id, arguments.sampling_weight, *leaves(arguments.sample_weight)
        taken = {name for name in names if isinstance(name, str)}
        y = _only_label(columns, taken.union(*(feature.columns for feature in leaves(x))))
    given = *leaves(arguments.x), *leaves(y)
    y = map_leaves(lambda leaf: _feature(columns, "y", leaf, arguments), y)
    pairs = zip(given, (*leaves(x), *leaves(y)), strict=True)
    kinds = {feature.kind for leaf, feature in pairs if isinstance(leaf, str)}
    changed = [n for n in IMAGE_OPTIONS if getattr(arguments, n) != getattr(SequenceArguments, n)]
    if changed and "image" not in kinds:
        options = (f"{n.removeprefix('image_')}={getattr(arguments, n)!r}" for n in changed)
        raise ArgumentError(
            f"{changed[0]}= is for an image that x gives by its column name: write it into the "
            f'feature, dfgen.Image("path", {", ".join(options)})'
        )
    has_label_options = arguments.label_mode not in ("int", None) or arguments.class_names
    if has_label_options and "label" not in kinds:
        raise ArgumentError(
            "label_mode= and class_names= are for a column that y gives by its name: write them "
            "into the feature, Category(column, label_mode=..., class_names=...)"
        )
    return x, y


def _feature(columns: Columns, argument: str, leaf: Any, arguments: SequenceArguments) -> Feature:
    """Return the feature of a leaf of x or y, with its class names."""
    if isinstance(leaf, str):
        leaf = _of_column(columns, argument, columns.check(argument, leaf), arguments)
    if not isinstance(leaf, Feature):
        raise ArgumentError(
            f"{argument} must be a column name, a feature such as dfgen.Image(...), or a list or "
            f"dict of these, got {brief(leaf)}"
        )
    for name in leaf.columns:
        columns.check(type(leaf).__name__, name)
    resolved = leaf.resolve(replace(columns, checks_classes=argument == "y"))
    if resolved.class_names:
        name = getattr(leaf, "labels", None) or leaf.columns[0]
        labels = columns.attributes.get("labels", {})
        known = leaf.class_names or labels.get(name, {}).get("class_names")
        can_change = not known and getattr(leaf, "sep", None) is None
        source, kind = columns.source if can_change else None, columns[name].type
        warn_of_lookalikes(name, resolved.class_names, source, kind)
    return resolved


def _of_column(columns: Columns, argument: str, name: str, arguments: SequenceArguments) -> Feature:
    """Return the feature that fits the content of a column."""
    stored = columns.stored if name in columns.stored else columns  # makes no array of all paths
    first, kind, is_input = columns.first(name), stored[name].type, argument == "x"
    content = _content(first)
    is_image = content == "image" or (content is None and (name == "path" or are_files(kind)))
    if is_input and is_image:
        mode, scale = arguments.color_mode, arguments.scale
        return Image(name, arguments.image_size, color_mode=mode, scale=scale)
    if content is not None:
        write = _WRITE[content].format(name)
        raise ArgumentError(
            f'{argument}="{name}" is a file, {brief(first)}: write {argument}={write}'
        )
    if is_input and kind in TEXT:
        raise ArgumentError(
            f'x="{name}" is text such as {brief(first)}, which is no file name of an image: write '
            f'x=dfgen.Image("{name}"), x=dfgen.Category("{name}") or x=dfgen.Text("{name}")'
        )
    own = arguments.label_mode or "int", arguments.class_names
    mode, classes = ("int", None) if is_input else own
    if are_numbers(kind):
        if mode != "int" or classes is not None:
            raise ArgumentError(
                f"label_mode= and class_names= need classes, but column {name!r} has {kind}: write "
                f'dfgen.Category("{name}", class_names=[...]), or make it a category, df["{name}"] '
                f'= df["{name}"].astype("Int64").astype("category")'
            )
        return Number(name)
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or kind in TEXT:
        return Category(name, mode, classes)
    if isinstance(kind, LISTS) and kind.value_type in TEXT and mode == "int":
        return MultiLabel(name, classes)
    raise ArgumentError(
        f"column {name!r} has {kind}, expected numbers, text or categories. For lists of labels "
        f'write dfgen.MultiLabel("{name}"), for boxes dfgen.Boxes("{name}", labels=...), for other '
        f'values dfgen.Column("{name}", function, shape=...)'
    )


def _content(value: Any) -> str | None:
    """Return what a file contains: "image", "array" or "sound", "unknown" if no format matches.

    Its extension tells it, or its first bytes. Returns None if the value is no file.
    """
    data, path = content_parts(value[0] if isinstance(value, list) and value else value)
    if data is not None:
        try:
            return FORMATS[sniff(data[:16])].holds
        except DecodeError:
            return "unknown"
    if not isinstance(path, str):
        return None
    member = member_of(path)
    suffix = os.path.splitext(path if member is None else member.name)[1].lower()
    name = BY_SUFFIX.get(suffix)
    return None if name is None else FORMATS[name].holds


def _only_label(columns: Columns, used: Iterable[str]) -> str | None:
    """Return the column that must be the label: the only one that has no other use.

    A column with a different value in each row and the name of an id is none. Returns None if there
    is no label.
    """
    names = [name for name in label_columns(columns.names) if name not in used]
    names = [name for name in names if not (_ID.search(name) and _is_unique(columns[name]))]
    if len(names) > 1:
        raise ArgumentError(
            f"y=None, and several columns could be the label: {column_list(names)}. Name one, "
            f'y="{names[0]}", several, y={names[:2]!r}, or none, label_mode=None'
        )
    return names[0] if names else None


def _is_unique(values: pa.Array) -> bool:
    is_id = values.type in TEXT or pa.types.is_integer(values.type)
    return is_id and len(values) > 1 and pc.count_distinct(values).as_py() == len(values)
