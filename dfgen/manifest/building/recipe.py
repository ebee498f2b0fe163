"""A recipe: the arguments that build a manifest, where they are paths, and what clashes."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from dfgen.errors import ArgumentError, did_you_mean
from dfgen.manifest.path_roots import URL, absolute_place, in_folder
from dfgen.manifest.paths import is_utf8, portable_root
from dfgen.manifest.schema import quote
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.source import NAMES, TEXT, Argument
from dfgen.manifest.splitting.split_rules import Splitting
from dfgen.samples.stores.archives.archive_paths import ARCHIVES, member_of
from dfgen.samples.stores.schemes import has_store, scheme_of

A_FRAME = "a DataFrame"
"""The entry of a recipe for a table of labels that was never a file."""
LABEL_TABLE = "labels"
"""The kind of a recipe whose rows are those of its table of labels."""


def _shared(accepts: tuple[type, ...], help: str, metavar: str | None = None, **more: Any) -> Any:
    argument = Argument(accepts, help, metavar, **more)
    return field(default=argument.default, metadata={"argument": argument})


@dataclass(frozen=True)
class Recipe:
    """A manifest to build; `make_recipe` makes one of arguments, and refuses what cannot be.

    Beside `kind` and `own` it has the arguments of any build, with what the command says of them.
    """

    kind: str  # the name of the source, or `LABEL_TABLE`
    own: Mapping[str, Any]  # the arguments that are of such sources alone, defaults included
    pattern: str | None = _shared(
        TEXT, "Path below the folder, as in '{kind}/{id:int}.jpg': fields are columns."
    )
    labels: Any = _shared(  # noqa: RUF009 - a table may be anything
        TEXT, "Label table: .csv, .tsv, .jsonl or .parquet.", is_path=True
    )
    on: str | None = _shared(
        TEXT,
        "Key of file and label: a pattern field, name, stem or relpath = the column.",
        "FIELD[=COLUMN]",
    )
    path_column: str | None = _shared(TEXT, "Column of the label table that names the files.")
    root: str | None = _shared(TEXT, "Folder where relative paths start.", is_path=True)
    id: str | None = _shared(TEXT, "Column of unique ids. Default: {id}, id, or the path.")
    category: tuple[str, ...] = _shared(
        NAMES, "Column of whole numbers that are classes. Repeatable.", default=()
    )
    label: tuple[str, ...] = _shared(
        NAMES, "Column to keep as label. Repeatable. Default: all.", default=()
    )
    unmatched: str = _shared(
        TEXT,
        "Files without labels, labels without file: error, keep or drop. Default: error.",
        default="error",
        choices=("error", "keep", "drop"),
    )
    facts: str = _shared(
        TEXT,
        "What to read of each file: none, header, or full: decodes it. Default: header.",
        default="header",
        choices=("none", "header", "full"),
    )
    split: Mapping[str, float] | None = _shared(
        (dict,), "A split and its share, as train=0.8. Repeatable.", "NAME=SHARE"
    )
    folds: int | None = _shared((int,), "Make a column fold, 0 to N - 1, instead of splits.", "N")
    stratify: str | None = _shared(TEXT, "Column whose classes get exactly these shares.")
    group: str | None = _shared(TEXT, "Column whose groups stay whole.")
    order: str | None = _shared(TEXT, "Column of times: the earliest rows are the first split.")
    group_duplicates: bool = _shared(
        (bool,), "Keep copies of a picture in one split; needs facts full.", default=False
    )
    seed: int = _shared((int,), "Another seed gives another split. Default: 0.", default=0)

    @property
    def divides(self) -> bool:
        """Whether it makes splits or folds."""
        return self.split is not None or self.folds is not None

    @property
    def splitting(self) -> Splitting:
        """How the rows are divided."""
        return Splitting(**{each.name: getattr(self, each.name) for each in fields(Splitting)})

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
        shared = {name: getattr(self, name) for name in shared_arguments()}
        if self.labels is not None and not isinstance(self.labels, str):
            shared["labels"] = A_FRAME
        if self.split is not None:
            shared["split"] = dict(self.split)
        values = {**self.own, **shared}
        plain = {
            name: list(values[name]) if isinstance(values[name], tuple) else values[name]
            for name in all_arguments()
            if name in values
        }
        return {name: value for name, value in plain.items() if not is_left_out(value)}


def is_left_out(value: Any) -> bool:
    """Whether a value of an argument says nothing: None, False, or empty."""
    return value is None or value is False or value == []


def shared_arguments() -> dict[str, Argument]:
    """Return the arguments of any build by name."""
    return {item.name: item.metadata["argument"] for item in fields(Recipe) if item.metadata}


def all_arguments() -> dict[str, Argument]:
    """Return every argument that a recipe may have: the sources, their arguments, the shared ones.

    Example:
        >>> list(all_arguments())[:3]
        ['source', 'voc', 'coco']
    """
    places = {name: source.place for name, source in SOURCES.items()}
    own = {name: item for source in SOURCES.values() for name, item in source.arguments.items()}
    return {**places, **own, **shared_arguments()}


def make_recipe(arguments: Mapping[str, Any]) -> Recipe:
    """Return the recipe of arguments; None, or (), stands for one that is left out.

    Example:
        >>> make_recipe({"voc": "xml", "images": "jpg"}).own["box_label"]
        'largest'
    """
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
    recipe = Recipe(kind, own, **{name: given[name] for name in shared.keys() & given.keys()})
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
    recipe.splitting.check()
    if recipe.group_duplicates and recipe.facts != "full":
        raise ArgumentError(
            "group_duplicates= (--group-duplicates) finds copies by what all of a file tells: give "
            'facts="full" (--facts full), which decodes every file once'
        )


def unit_of(recipe: Mapping[str, Any]) -> str | None:
    """Return the column whose rows stay together by a recipe: its group, or the path of an image.

    Example:
        >>> unit_of({"voc": "xml", "box_label": "each"})
        'path'
    """
    sources = [source for name, source in SOURCES.items() if name in recipe]
    shared = any(source.rows_share_images(recipe) for source in sources)
    return recipe.get("group") or ("path" if shared else None)


def _stray(name: str) -> str:
    """Return what to say of an argument that is not of the source."""
    takers = [key for key, item in SOURCES.items() if name in (*item.arguments, *item.shared)]
    sources = " or ".join(f"{source}=" for source in takers)
    option = name.replace("_", "-")
    return f"{name}= (--{option}) goes with {sources}: give that, or leave {name}= out"


def absolute_recipe(recipe: dict[str, Any] | None, folder: str) -> dict[str, Any] | None:
    """Return a recipe with absolute paths, where relative ones start at `folder`."""
    return _with_paths(recipe, lambda path: in_folder(folder, path))


def portable_recipe(recipe: dict[str, Any] | None, folder: str) -> dict[str, Any] | None:
    """Return a recipe as stored: paths relative to the folder of its file, as the root is."""
    return _with_paths(recipe, lambda path: portable_root(os.path.abspath(path), folder) or path)


def paths_named(arguments: Mapping[str, Any]) -> list[str]:
    """Return the files and folders that arguments name, absolute; no addresses.

    Example:
        >>> paths_named({"source": "/data/imgs", "labels": "/data/labels.csv", "seed": 3})
        ['/data/imgs', '/data/labels.csv']
    """
    found: list[str] = []

    def note(path: str) -> str:
        found.append(os.path.abspath(path))
        return path

    _with_paths(dict(arguments), note)
    return found


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
