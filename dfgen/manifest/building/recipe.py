"""The arguments of a build: their types, recipes as TOML files, and which go together.

The signatures of `build_manifest` and of the sources say which arguments there are, and which are
paths.
"""

import inspect
import os
import tomllib
import types
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, Literal, Union, get_args, get_origin

from dfgen.errors import ArgumentError, ManifestError, brief, did_you_mean, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.splitting import Splitting
from dfgen.manifest.paths import absolute_place, in_folder, is_address, is_utf8
from dfgen.manifest.reading import read_text, reading
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.label_table import TableFormat, table_name
from dfgen.stores.archives import ARCHIVES, member_of
from dfgen.stores.stores import has_store, scheme_of

A_FRAME = "a DataFrame"
"""The value that a recipe records for a label table that is not a file."""
OF_TABLE = "labels"
"""The kind of a build with a row for each row of its label table."""
_OF_A_CALL = ("update", "out", "workers", "executor", "limits", "storage_options", "unknown")
"""Arguments that no recipe has."""
_DEFAULTS = {"unmatched": "error", "facts": "header", "label": (), "category": ()}
_WORDS = {str: "text", Integral: "a whole number", Mapping: "a dict", bool: "True or False"}
_FOLDER = ", the folder of the files. A frame with id and path is a manifest; labels are labels="


class Recipe:
    """The arguments of `build_manifest` that say which rows there are: `recipe[name]`."""

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        self.function, self.arguments = function, dict(arguments)
        for name in {"label", "category"} & arguments.keys():
            value = arguments[name]
            self.arguments[name] = (value,) if isinstance(value, str) else tuple(value)
        self.kind = self._kind()
        self.splitting = Splitting(
            **{name: arguments[name] for name in Splitting.__annotations__ if name in arguments}
        )
        self.format = TableFormat(*map(arguments.get, TableFormat._fields))
        self._check()

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name, _DEFAULTS.get(name))

    @property
    def table(self) -> str:
        """The name of the label table in messages."""
        return table_name(self["labels"])

    @property
    def key(self) -> str:
        """The column of the label table that identifies files."""
        return split_on(self["on"])[1] if self["on"] is not None else self["path_column"] or ""

    @property
    def columns(self) -> set[str]:
        """The columns that the arguments name."""
        named = self.splitting.named.values()
        return {self["id"] or "id", *named, *self["label"], *self["category"]}

    @property
    def folder(self) -> str:
        """The absolute folder where relative paths of the label table start."""
        if self["root"] is not None:
            return absolute_place(self["root"])
        table = self["labels"]
        return os.path.dirname(os.path.abspath(table)) if isinstance(table, str) else os.getcwd()

    def recorded(self) -> dict[str, Any]:
        """Return the arguments as plain JSON types, with absolute paths."""
        values = _with_folder(self.function, self.arguments, os.getcwd())
        for name, value in values.items():
            if isinstance(value, tuple):
                values[name] = list(value)
            elif isinstance(value, Mapping):
                values[name] = dict(value)
            elif name == "labels" and not isinstance(value, str):
                values[name] = A_FRAME
        return values

    def _kind(self) -> str:
        kinds = [name for name in SOURCES if name in self.arguments]
        if len(kinds) > 1:
            raise ArgumentError(
                f"{' and '.join(f'{name}=' for name in kinds)} both say where the rows come from: "
                "give one of them. Build the others separately, and pandas.concat the frames"
            )
        if not kinds and not {"labels", "path_column"} <= self.arguments.keys():
            raise ArgumentError(
                "nothing says where the rows come from: give a folder of files, voc=, coco= or "
                "yolo=, or a table that names the files, labels= and path_column="
            )
        return kinds[0] if kinds else OF_TABLE

    def _check(self) -> None:
        """Raise if arguments do not go together."""
        has_table, has_on = "labels" in self.arguments, "on" in self.arguments
        takers = {
            name: [kind for kind, read in SOURCES.items() if name in read.__annotations__]
            for name in ("images", "image_sets", "pattern")
        } | {"path_column": [OF_TABLE]}
        for name, kinds in takers.items():
            if name in self.arguments and self.kind not in kinds:
                raise ArgumentError(
                    f"{name}= does not go with {self.kind}=, but with "
                    f"{' or '.join(f'{kind}=' for kind in kinds)}: leave it out"
                )
        if self.kind != OF_TABLE and has_table != has_on:
            raise ArgumentError(
                "labels= and on= go together: on= says which part of a file's path is the key in "
                'which column of the table. Give both, as in labels="t.csv", on="stem=file"'
            )
        if self.kind == OF_TABLE and has_on:
            raise ArgumentError(
                "on= joins labels= with files, and there is no folder of files: give it, or leave "
                "on= out"
            )
        if self.splitting.group_duplicates and self["facts"] != "full":
            raise ArgumentError(
                'group_duplicates=True needs facts="full" (--facts full), which decodes each file '
                "once and computes the hashes"
            )
        for name in ("labels", "voc", "coco", "yolo"):
            places = self[name].values() if isinstance(self[name], Mapping) else [self[name]]
            for place in places:
                scheme = scheme_of(place) if isinstance(place, str) else ""
                if has_store(scheme) and scheme not in (*ARCHIVES, ""):
                    frame = ", or read it with pandas and give labels=df" * (name == "labels")
                    raise ArgumentError(
                        f"{name}={quote(place)} is remote, but only images are read from remote "
                        f"stores: copy it to a disk{frame}"
                    )


def split_on(on: str) -> tuple[str, str]:
    """Return field and column of `FIELD[=COLUMN]`."""
    field, _, column = on.partition("=")
    if not field:
        raise ArgumentError(f'on={quote(on)}: expected FIELD or FIELD=COLUMN, as in on="stem=file"')
    return field, column or field


def recipe_of(
    function: Callable[..., Any],
    values: Mapping[str, Any],
    known: Mapping[str, Any] | None = None,
    where: str = "",
    limits: Limits = DEFAULT,
) -> Recipe:
    """Return the recipe of the arguments of a call.

    They are completed by a recipe file, if `source` is one, else by the recipe that is `known` of
    the manifest `where`. A source of another kind replaces such a recipe.
    """
    arguments = {k: _as_text(values[k]) for k in _names_of(function) if values[k] is not None}
    arguments = {
        name: v for name, v in arguments.items() if not (isinstance(v, list | tuple) and not v)
    }
    check_types(function, arguments)
    source = arguments.get("source")
    if isinstance(source, str) and source.endswith(".toml"):
        known = read_recipe(function, source, limits)
        del arguments["source"]
    base = dict(known or {})
    kinds = [name for name in (*SOURCES, "path_column") if name in arguments]
    if kinds and kinds[0] not in base:
        base = {}
    if known == {} and not kinds:
        raise ArgumentError(
            f"{where} has no recipe, because it was not built by build_manifest: name the source"
        )
    if "labels" in arguments:  # written in another way than the table before
        base = {name: value for name, value in base.items() if name not in TableFormat._fields}
    if base.get("labels") == A_FRAME and "labels" not in arguments:
        raise ArgumentError(
            f"the labels of {where} came from a DataFrame, which a manifest does not keep: give it "
            "again, labels=df, or write it to a file and give that"
        )
    return Recipe(function, {**base, **arguments})


def _names_of(function: Callable[..., Any]) -> list[str]:
    """Return the arguments that a recipe may have."""
    return [name for name in inspect.signature(function).parameters if name not in _OF_A_CALL]


def _as_text(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_text(each) for key, each in value.items()}
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(text, str) and not is_utf8(text):
        raise ArgumentError(
            f"the path {os.fsencode(text)!r} is not UTF-8: rename the file or folder"
        )
    return text


def read_recipe(function: Callable[..., Any], path: str, limits: Limits) -> dict[str, Any]:
    """Return the arguments in a recipe file, with paths from its folder."""
    try:
        with reading(path, " as TOML"):
            content = tomllib.loads(read_text(path, " as TOML", limits))
    except ManifestError as error:
        raise ArgumentError(str(error)) from None
    names = _names_of(function)
    for name in content:
        if name not in names:
            raise ArgumentError(
                f"{path} has the unknown key {quote(name)}.{did_you_mean(name, names)} "
                f"Keys: {', '.join(names)}"
            )
    check_types(function, content, f"{path}: ")
    return _with_folder(function, content, os.path.dirname(os.path.abspath(path)))


def check_types(function: Callable[..., Any], values: Mapping[str, Any], where: str = "") -> None:
    """Raise if a value does not have the type of its annotation."""
    for name, parameter in inspect.signature(function).parameters.items():
        kinds, choices = _types(parameter.annotation)
        value = values.get(name)
        if value is None or name == "labels":
            continue
        if choices and value not in choices:
            raise ArgumentError(
                f"{where}{name}={brief(value)}, expected {' or '.join(map(quote, choices))}"
            )
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            words = [_WORDS.get(kind, "a list") for kind in kinds if kind is not os.PathLike]
            more = _FOLDER if name == "source" else ""
            raise ArgumentError(
                f"{where}{name}={brief(value)}, expected {' or '.join(words)}{more}"
            )


def _types(annotation: Any) -> tuple[tuple[type, ...], tuple[str, ...]]:
    """Return the types of an annotation, and its choices."""
    kinds, choices = list[type](), list[str]()
    is_union = get_origin(annotation) in (types.UnionType, Union)
    parts = get_args(annotation) if is_union else (annotation,)
    for part in parts:
        if get_origin(part) is Literal:
            choices += get_args(part)
        elif part is not types.NoneType:
            kinds.append(Integral if part is int else get_origin(part) or part)
    return (*kinds, *[str] * bool(choices)), tuple(choices)


def _with_folder(
    function: Callable[..., Any], values: Mapping[str, Any], folder: str
) -> dict[str, Any]:
    """Return arguments whose relative paths start at a folder."""

    def absolute(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: absolute(each) for key, each in value.items()}
        if not isinstance(value, str) or value == A_FRAME:
            return value
        if member := member_of(value):
            return str(member._replace(archive=in_folder(folder, member.archive)))
        return value if is_address(value) else in_folder(folder, value)

    parameters = inspect.signature(function).parameters
    paths = [name for name in values if os.PathLike in _types(parameters[name].annotation)[0]]
    return {**values, **{name: absolute(values[name]) for name in paths}}
