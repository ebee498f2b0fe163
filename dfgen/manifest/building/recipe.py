"""A recipe: the arguments that build a manifest."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import pandas as pd

from dfgen.errors import ArgumentError, did_you_mean
from dfgen.manifest.paths import A_FRAME
from dfgen.manifest.schema import quote
from dfgen.manifest.splits import check_shares

CHOICES = {
    "unmatched": ("error", "keep", "drop"),
    "facts": ("none", "header"),
    "box_label": ("largest", "first", "all", "each"),
}
SOURCE_FIELDS = ("source", "voc", "coco", "yolo", "metadata", "listing", "arrays")
"""Where the rows come from: at most one of them."""

Paths = str | list[str] | dict[str, str | list[str]]
"""One path, several, or those of each split."""


@dataclass(frozen=True)
class Recipe:
    """What to build; the arguments of `build_manifest` that decide what the manifest holds.

    Raises:
        ArgumentError: Arguments that cannot be, or cannot be together.
    """

    source: str | None = None
    voc: str | None = None
    coco: Paths | None = None
    yolo: str | None = None
    metadata: str | None = None
    listing: str | None = None
    arrays: str | list[str] | None = None
    images: Paths | None = None
    box_label: str = "largest"
    class_names: tuple[str, ...] = ()
    pattern: str | None = None
    labels: str | pd.DataFrame | None = field(default=None, compare=False)
    on: str | None = None
    path_column: str | None = None
    root: str | None = None
    id: str | None = None
    category: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    unmatched: str = "error"
    facts: str = "header"
    split: Mapping[str, float] | None = None
    stratify: str | None = None
    group: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise ArgumentError(
                    f"{name}={quote(value)}: expected {' or '.join(map(quote, choices))}."
                    f"{did_you_mean(str(value), choices)}"
                )
        for wrong, advice in self._clashes():
            if wrong:
                raise ArgumentError(advice)
        if self.split is not None:
            check_shares(self.split)

    def _clashes(self) -> tuple[tuple[bool, str], ...]:
        """Return what does not go together: whether it was asked for, and what to say then."""
        given = [name for name in SOURCE_FIELDS if getattr(self, name) is not None]
        folder, table = bool(given), self.labels is not None
        by_path = self.path_column is not None
        return (
            (
                len(given) > 1,
                f"{' and '.join(f'{name}=' for name in given)} both say where the rows come from: "
                "give one of them. Build the others on their own, and pandas.concat the frames.",
            ),
            (
                not folder and not (table and by_path),
                "Nothing to build from: give a folder of files, or a table that names them with "
                "labels= and path_column= (--labels TABLE --path-column COLUMN).",
            ),
            (
                self.images is not None and given[:1] not in (["voc"], ["coco"]),
                "images= (--images) is the folder of the images that voc= or coco= (--voc, --coco) "
                "annotate: give one of those.",
            ),
            (
                self.voc is not None and not isinstance(self.images, str),
                "voc= (--voc) needs images= (--images): the folder of the images, whose paths are "
                "those of the XML files but for the extension.",
            ),
            (
                self.voc is None and bool(self.class_names or self.box_label != "largest"),
                "box_label= and class_names= (--box-label, --class-names) are for voc= (--voc): "
                "the other sources number their classes themselves.",
            ),
            (
                len(set(self.class_names)) < len(self.class_names),
                f"class_names= (--class-names) has {quote(_twice(self.class_names))} twice: a "
                "class has one number.",
            ),
            (
                folder and by_path and self.listing is None,
                "path_column= is for a table that names its files itself: leave the folder out, "
                "and say with root= (--root) where relative paths start.",
            ),
            (
                folder and table and self.on is None,
                "labels= needs on= (--on): which part of a file's path is the key of which "
                "column of the table. FIELD=COLUMN, where FIELD is a field of the pattern, name, "
                "stem or relpath.",
            ),
            (
                self.on is not None and not (folder and table),
                "on= (--on) joins the files of a folder with labels= (--labels): give both.",
            ),
            (
                self.pattern is not None and given[:1] not in (["source"], ["listing"]),
                "pattern= (--pattern) is for the files of a folder: give the folder.",
            ),
            (
                self.split is None and (self.stratify is not None or self.group is not None),
                "stratify= and group= say how to split: give split=, as in "
                '{"train": 0.8, "val": 0.2} (--split train=0.8 --split val=0.2).',
            ),
        )

    @property
    def kind(self) -> str:
        """Where the rows come from: the name in `SOURCES`."""
        given = [name for name in SOURCE_FIELDS if getattr(self, name) is not None]
        return "table" if not given else "files" if given == ["source"] else given[0]

    @property
    def folder(self) -> str:
        """The absolute folder where relative paths start, if the source does not know better."""
        if self.source is not None:
            return os.path.abspath(self.source)
        if self.voc is not None:
            return os.path.abspath(str(self.images))
        if self.root is not None:
            return os.path.abspath(self.root)
        if isinstance(self.labels, str):
            return os.path.dirname(os.path.abspath(self.labels))
        return os.getcwd()

    def arguments(self) -> dict[str, Any]:
        """Return the arguments as plain JSON types, without those left at None or empty."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        if isinstance(self.labels, pd.DataFrame):
            values["labels"] = A_FRAME
        if self.split is not None:
            values["split"] = dict(self.split)
        if self.voc is None:
            del values["box_label"]
        plain = {
            key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
        }
        return {key: value for key, value in plain.items() if value not in (None, [])}


def _twice(names: tuple[str, ...]) -> str:
    return next((name for name in names if names.count(name) > 1), "")
