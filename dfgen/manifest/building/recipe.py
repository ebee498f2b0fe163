"""A recipe: the arguments that build a manifest, where they are paths, and what clashes."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dfgen.errors import ArgumentError, did_you_mean, quote
from dfgen.manifest.path_roots import URL, absolute_place, in_folder
from dfgen.manifest.paths import is_utf8
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.label_table import table_name
from dfgen.manifest.sources.source import NAMES, TEXT, Argument, argument_field, arguments_of
from dfgen.manifest.sources.table_format import TableFormat
from dfgen.manifest.splitting.split_rules import Splitting
from dfgen.stores.archives import ARCHIVES, member_of
from dfgen.stores.stores import has_store, scheme_of

A_FRAME = "a DataFrame"
"""The entry of a recipe for a table of labels that was never a file."""
LABEL_TABLE = "labels"
"""The kind of a recipe whose rows are those of its table of labels."""


@dataclass(frozen=True)
class Recipe:
    """A manifest to build; `make_recipe` makes one of arguments, and refuses what cannot be.

    Beside `kind` and `own` it has the arguments of any build, with what the command says of them.
    """

    kind: str  # the name of the source, or `LABEL_TABLE`
    own: Mapping[str, Any]  # the arguments that are of such sources alone, defaults included
    splitting: Splitting
    pattern: str | None = argument_field(
        TEXT, "Path below the folder, as in '{kind}/{id:int}.jpg': fields are columns."
    )
    labels: Any = argument_field(  # noqa: RUF009 - a table may be anything
        TEXT, "Label table: .csv, .tsv, .xlsx, .jsonl or .parquet.", is_path=True
    )
    on: str | None = argument_field(
        TEXT,
        "Key of file and label: a pattern field, name, stem or relpath = the column.",
        "FIELD[=COLUMN]",
    )
    path_column: str | None = argument_field(
        TEXT, "Column of the label table that names the files."
    )
    sep: str | None = argument_field(
        TEXT, "Separator of the values in the table. Default: found in its rows."
    )
    decimal: str | None = argument_field(
        TEXT, "Decimal mark of its numbers. Default: found in them.", ".|,"
    )
    encoding: str | None = argument_field(
        TEXT, "Encoding of the table, such as cp1252. Default: UTF-8 or UTF-16."
    )
    sheet: str | None = argument_field(TEXT, "Sheet of a workbook. Default: the first.")
    root: str | None = argument_field(TEXT, "Folder where relative paths start.", is_path=True)
    id: str | None = argument_field(TEXT, "Column of unique ids. Default: {id}, id, or the path.")
    category: tuple[str, ...] = argument_field(
        NAMES, "Column of whole numbers that are classes. Repeatable.", default=()
    )
    label: tuple[str, ...] = argument_field(
        NAMES, "Column to keep as label. Repeatable. Default: all.", default=()
    )
    unmatched: str = argument_field(
        TEXT,
        "Action for files without labels and labels without a file. Default: error.",
        default="error",
        choices=("error", "keep", "drop"),
    )
    facts: str = argument_field(
        TEXT,
        "Facts to read from each file; full decodes it. Default: header.",
        default="header",
        choices=("none", "header", "full"),
    )

    @property
    def table(self) -> str:
        """How messages call its label table."""
        return table_name(self.labels)

    @property
    def written(self) -> TableFormat:
        """How its label table is written."""
        return TableFormat(self.sep, self.decimal, self.encoding, self.sheet)

    @property
    def key(self) -> str:
        """The column of the label table that names files."""
        return split_on(self.on)[1] if self.on is not None else self.path_column or ""

    @property
    def columns(self) -> set[str | None]:
        """The columns that it names for more than a join."""
        return {self.id or "id", *self.splitting.named.values(), *self.label, *self.category}

    @property
    def folder(self) -> str:
        """The absolute folder where relative paths start, if the source does not know better."""
        if self.root is not None:
            return absolute_place(self.root)
        if isinstance(self.labels, str):
            return os.path.dirname(os.path.abspath(self.labels))
        return os.getcwd()

    def arguments(self) -> dict[str, Any]:
        """Return the arguments as plain JSON types, without those left at None or empty."""
        values = {**self.own, **vars(self), **vars(self.splitting)}
        if self.labels is not None and not isinstance(self.labels, str):
            values["labels"] = A_FRAME
        if self.splitting.split is not None:
            values["split"] = dict(self.splitting.split)
        plain = {
            name: list(values[name]) if isinstance(values[name], tuple) else values[name]
            for name in all_arguments()
            if name in values
        }
        return {name: value for name, value in plain.items() if not is_left_out(value)}


def split_on(on: str) -> tuple[str, str]:
    """Return field and column of `FIELD[=COLUMN]`."""
    field, _, column = on.partition("=") if isinstance(on, str) else ("", "", "")
    if not field:
        raise ArgumentError(
            f'on={quote(on)}: expected text, FIELD or FIELD=COLUMN, as in on="id=object_id"'
        )
    return field, column or field


def is_left_out(value: Any) -> bool:
    """Whether a value of an argument says nothing: None, False, or empty."""
    return value is None or value is False or value == []


def shared_arguments() -> dict[str, Argument]:
    """Return the arguments of any build by name."""
    return {**arguments_of(Recipe), **arguments_of(Splitting)}


def all_arguments() -> dict[str, Argument]:
    """Return every argument of a recipe: the sources, their arguments, the shared ones."""
    places = {name: source.place for name, source in SOURCES.items()}
    own = {name: item for source in SOURCES.values() for name, item in source.arguments.items()}
    return {**places, **own, **shared_arguments()}


def make_recipe(arguments: Mapping[str, Any]) -> Recipe:
    """Return the recipe of arguments; None, or (), stands for one that is left out."""
    known, shared = all_arguments(), shared_arguments()
    given = {name: value for name, value in arguments.items() if value is not None}
    for name, value in given.items():
        choices = known[name].choices
        if choices and value not in choices:
            raise ArgumentError(
                f"{name}={quote(value)} is unknown.{did_you_mean(str(value), choices)} "
                f"Expected: {', '.join(map(quote, choices))}"
            )
    given |= {name: tuple(given[name]) for name in given if known[name].accepts == NAMES}
    _with_paths(given, _utf8)
    kind = _kind(given)
    _refuse_far(given)
    source = SOURCES.get(kind)
    names = [kind, *source.arguments] if source else []
    own = {name: given.get(name, known[name].default) for name in names}
    how, more = (
        {name: given[name] for name in arguments_of(part).keys() & given.keys()}
        for part in (Splitting, Recipe)
    )
    recipe = Recipe(kind, own, Splitting(**how), **more)
    for name in given:
        if name not in (*own, *shared) and given[name] != known[name].default:
            raise ArgumentError(_stray(name))
    _check_shared(recipe)
    if source:
        source.check(own)
    return recipe


def _utf8(path: str) -> str:
    """Refuse a path that no manifest can hold, be it for the folder where a relative one starts."""
    if not is_utf8(os.path.abspath(path)):
        raise ArgumentError(
            f"the path {os.fsencode(os.path.abspath(path))!r} is not UTF-8, and no manifest can "
            "hold it: rename the file or folder"
        )
    return path


def _refuse_far(given: Mapping[str, Any]) -> None:
    """Refuse tables and annotations that are not on a disk; images may be anywhere."""
    for name in ("labels", *SOURCES):
        place = given.get(name)
        if name == "source" or not isinstance(place, str):
            continue
        scheme = scheme_of(place)
        if has_store(scheme) and scheme not in ARCHIVES:
            frame = f"; in Python, give a frame: labels=pandas.read_csv({quote(place)})"
            raise ArgumentError(
                f"{name}={quote(place)} is far away, and only images are read there: copy it to a "
                f"disk{frame if name == 'labels' else ''}"
            )


def _kind(given: Mapping[str, Any]) -> str:
    kinds = [name for name in SOURCES if name in given]
    if len(kinds) > 1:
        raise ArgumentError(
            f"{' and '.join(f'{name}=' for name in kinds)} both say where the rows come from: "
            "give one of them. Build the others on their own, and pandas.concat the frames"
        )
    if not kinds and not ("labels" in given and "path_column" in given):
        by = f" by {', '.join(f'{name}=' for name in given)}" if given else ""
        raise ArgumentError(
            f"nothing to build from{by}: give a folder of files, or a table that names them with "
            "labels= and path_column= (--labels TABLE --path-column COLUMN)"
        )
    return kinds[0] if kinds else LABEL_TABLE


def _check_shared(recipe: Recipe) -> None:
    """Raise if arguments of any build do not go together, or not with the source."""
    source = SOURCES.get(recipe.kind)
    takes = source.shared if source else ("path_column",)
    table, joined = recipe.labels is not None, recipe.on is not None
    clashes = (
        (
            recipe.path_column is not None and "path_column" not in takes,
            "path_column= is for a table that names its files itself: leave the folder out, and "
            "say with root= (--root) where relative paths start",
        ),
        (
            source is not None and table and not joined,
            "labels= needs on= (--on): which part of a file's path is the key of which column of "
            "the table. FIELD=COLUMN, where FIELD is a field of the pattern, name, stem or relpath",
        ),
        (
            joined and not (source and table),
            "on= (--on) joins the files of a folder with labels= (--labels): give both",
        ),
        (recipe.pattern is not None and "pattern" not in takes, _stray("pattern")),
    )
    for wrong, advice in clashes:
        if wrong:
            raise ArgumentError(advice)
    path = recipe.labels if isinstance(recipe.labels, str) else None
    if not table and "written" in takes:
        path = str(recipe.own[recipe.kind])
        path = f"{path}/metadata.csv" if os.path.isdir(path) else path
    suffix = path and os.path.splitext(path)[1].lower()
    in_memory = "a table in memory" if table else "no label table"
    recipe.written.check(suffix, f"a {suffix} file" if suffix else in_memory)
    recipe.splitting.check()
    if recipe.splitting.group_duplicates and recipe.facts != "full":
        raise ArgumentError(
            "group_duplicates= (--group-duplicates) finds copies by what all of a file tells: give "
            'facts="full" (--facts full), which decodes every file once'
        )


def unit_of(recipe: Mapping[str, Any]) -> str | None:
    """Return the column whose rows stay together: the group, or the path of an image."""
    sources = [source for name, source in SOURCES.items() if name in recipe]
    shared = any(source.rows_share_images(recipe) for source in sources)
    return recipe.get("group") or ("path" if shared else None)


def _stray(name: str) -> str:
    """Return what to say of an argument that is not of the source."""
    takers = [f"{key}=" for key, item in SOURCES.items() if name in (*item.arguments, *item.shared)]
    sources = " or ".join(filter(None, (", ".join(takers[:-1]), takers[-1])))
    option = name.replace("_", "-")
    return f"{name}= (--{option}) goes with {sources}: give that, or leave {name}= out"


def absolute_recipe(recipe: dict[str, Any] | None, folder: str) -> dict[str, Any] | None:
    """Return a recipe with absolute paths, where relative ones start at `folder`."""
    return _with_paths(recipe, lambda path: in_folder(folder, path))


def _with_paths(
    recipe: dict[str, Any] | None, change: Callable[[str], str]
) -> dict[str, Any] | None:
    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(part) for key, part in value.items()}
        if isinstance(value, list):
            return [changed(part) for part in value]
        if not isinstance(value, str) or value == A_FRAME:
            return value
        if member := member_of(value):
            return str(member._replace(archive=change(member.archive)))
        return value if re.match(URL, value) else change(value)

    if recipe is None:
        return None
    paths = {name for name, argument in all_arguments().items() if argument.is_path}
    return {k: changed(value) if k in paths else value for k, value in recipe.items()}
