"""Recipes as TOML files, and which arguments win: those given, then those of a recipe.

manifests/README.md specifies the file for other programs.
"""

import os
import tomllib
from collections.abc import Mapping
from typing import Any

from dfgen.errors import ArgumentError, ManifestError, did_you_mean, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.recipe import (
    A_FRAME,
    Recipe,
    absolute_recipe,
    all_arguments,
    make_recipe,
)
from dfgen.manifest.file_errors import reading
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.table_format import FORMAT_ARGUMENTS

SUFFIX = ".toml"
_WORDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    list: "a list",
    dict: "a table",
}


def resolve(
    given: Mapping[str, Any],
    known: Mapping[str, Any] | None = None,
    where: str = "",
    limits: Limits = DEFAULT,
) -> Recipe:
    """Return the recipe of the arguments given, completed by a recipe file or an older recipe.

    A source that ends in .toml is the recipe file; else `known` is the recipe of the manifest that
    is updated, at `where`. A source of another kind than its own replaces it as a whole.
    """
    given = {
        name: value
        for name, value in given.items()
        if value is not None and not (isinstance(value, tuple) and not value)
    }
    file = given.get("source")
    if isinstance(file, str) and file.endswith(SUFFIX):
        known, where = read_recipe(file, limits), file
        del given["source"]
    base = dict(known or {})
    if _kind(given) not in (None, _kind(base)):
        base = {}
    if known == {} and _kind(given) is None:
        raise ArgumentError(
            "the manifest was made by hand: it has no recipe. Name its source: a folder, "
            "or another one"
        )
    if base.get("labels") == A_FRAME and "labels" not in given:
        raise ArgumentError(
            f"the labels of {where} came from a DataFrame, which is not kept beside it. In Python, "
            f"give it again: dfgen.build_manifest(update={quote(where)}, labels=df, "
            f"out={quote(where)}); or write it to a .csv or .parquet file and give that (--labels)"
        )
    if given.keys() & {"labels", "listing", "metadata"}:  # another table is written otherwise
        base = {name: value for name, value in base.items() if name not in FORMAT_ARGUMENTS}
    return make_recipe({**base, **given})


def read_recipe(path: str, limits: Limits = DEFAULT) -> dict[str, Any]:
    """Return the arguments of a recipe file, with absolute paths."""
    missing = f"there is no recipe {path}. Looked in {os.getcwd()}"
    try:
        bounded = reading(path, " as TOML", missing, limits=limits, bound="header_bytes")
        with bounded, open(path, "rb") as file:
            arguments = tomllib.load(file)
            check_recipe(arguments, path)
    except ManifestError as error:
        raise ArgumentError(str(error)) from error.__cause__
    return absolute_recipe(arguments, os.path.dirname(os.path.abspath(path))) or {}


def check_recipe(arguments: Mapping[str, Any], where: str) -> None:
    """Raise if arguments have a name or a type that a recipe does not know."""
    known = all_arguments()
    for name, value in arguments.items():
        if name not in known:
            raise ArgumentError(
                f"{where} has the unknown key {quote(name)}.{did_you_mean(name, known)} "
                f"Keys: {', '.join(known)}"
            )
        accepted = known[name].accepts
        if not isinstance(value, accepted) or (isinstance(value, bool) and bool not in accepted):
            expected = " or ".join(word for kind, word in _WORDS.items() if kind in accepted)
            raise ArgumentError(f"{where}: {name} = {value!r}: expected {expected}")
        odd = [] if name == "split" else [v for v in _parts(value) if not isinstance(v, str)]
        if odd and isinstance(value, list | dict):
            raise ArgumentError(f"{where}: {name} holds {odd[0]!r}: expected text")


def _parts(value: Any) -> list[Any]:
    """Return what lists and tables hold, however deep."""
    if isinstance(value, dict):
        value = list(value.values())
    return [part for one in value for part in _parts(one)] if isinstance(value, list) else [value]


def _kind(arguments: Mapping[str, Any]) -> str | None:
    """Return which kind of source the arguments name, if any."""
    return next((name for name in (*SOURCES, "path_column") if name in arguments), None)
