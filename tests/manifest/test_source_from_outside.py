"""A source is one file and one line: this one is the XML of imglab, which dfgen does not know."""

import inspect
import os
import re

import pandas as pd
import pyarrow as pa
import pytest
from contracts import SourceContract
from defusedxml.ElementTree import parse
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, MissingFileError
from dfgen.manifest.building.recipe import all_arguments
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.source import (
    BOXES,
    IMAGES,
    LABELS,
    NAMES,
    TEXT,
    Argument,
    RowGroup,
    Source,
)

SIDES = ("left", "top", "width", "height")


def read_imglab(file, images=None, subset="all", tags=()):
    if not os.path.exists(file):
        raise MissingFileError(f"there is no file {file}")
    rows = []
    for image in parse(file).getroot().iter("image"):
        boxes = [box for box in image.iter("box") if not tags or box.findtext("label") in tags]
        if subset in ("all", image.get("subset")):
            row = {"path": image.get("file"), "labels": [box.findtext("label") for box in boxes]}
            sides = [[float(box.get(side)) for side in SIDES] for box in boxes]
            row["boxes"] = [[x, y, x + width, y + height] for x, y, width, height in sides]
            rows.append(row)
    schema = pa.schema({"path": pa.string(), "labels": LABELS, "boxes": BOXES})
    folder = os.path.abspath(images or os.path.dirname(file))
    labels = {"boxes": {"box_format": "xyxy"}}
    yield RowGroup(pa.Table.from_pylist(rows, schema), labels=labels, folder=folder)


def check(arguments):
    if arguments["tags"] and arguments["subset"] != "all":
        raise ArgumentError("tags= or subset=: give one of them")


IMGLAB = Source(
    read_imglab,
    Argument(TEXT, "XML file of imglab.", "FILE.xml", is_path=True),
    {
        "images": IMAGES,
        "subset": Argument(
            TEXT, "Images to take.", default="all", choices=("all", "train", "test")
        ),
        "tags": Argument(NAMES, "Label to keep. Repeatable.", default=()),
    },
    check=check,
)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Two images, what imglab says of them, and a source that reads it."""
    monkeypatch.setitem(SOURCES, "imglab", IMGLAB)
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    for name in "ab":
        Image.new("L", (8, 6)).save(tmp_path / f"{name}.png")
    return tmp_path


def write(folder):
    box = '<box top="2" left="1" width="2" height="2"><label>{}</label></box>'
    (folder / "imglab.xml").write_text(
        f'<dataset><images><image file="a.png" subset="train">{box.format("cat")}'
        f'{box.format("dog")}</image><image file="b.png" subset="test"/></images></dataset>'
    )


ROWS = [
    {"path": "a.png", "labels": ["cat", "dog"], "boxes": [[1, 2, 3, 4]] * 2},
    {"path": "b.png", "labels": [], "boxes": []},
]


class TestImglab(SourceContract):
    expected = ROWS

    def source(self, *arguments):
        return IMGLAB.read(*arguments)

    def make(self, folder):
        write(folder)
        return (str(folder / "imglab.xml"),)

    def missing(self, folder):
        return (str(folder / "nothing.xml"),)


def test_a_recipe_file_builds_with_it_and_the_manifest_keeps_its_arguments(data):
    (data / "recipes").mkdir()
    (data / "recipes/r.toml").write_text(
        'imglab = "../imglab.xml"\nimages = ".."\ntags = ["cat"]\n'
    )
    frame = dfgen.build_manifest("recipes/r.toml", out="m.parquet")
    assert frame["path"].tolist() == [f"{data}/a.png", f"{data}/b.png"]
    assert frame["labels"].map(list).tolist() == [["cat"], []]
    assert frame["width"].tolist() == [8, 8]
    again = dfgen.build_manifest(update="m.parquet")
    pd.testing.assert_frame_equal(again, frame)
    assert again.attrs["dfgen"]["recipe"] == {
        "imglab": f"{data}/imglab.xml",
        "images": str(data),
        "subset": "all",
        "tags": ["cat"],
        "unmatched": "error",
        "facts": "header",
        "seed": 0,
    }


def test_the_function_names_every_argument_once_and_in_order():
    """Its typed signature and its docstring are for people; the sources and recipes decide."""
    parameters = inspect.signature(dfgen.build_manifest).parameters
    others = ["update", "out", "workers", "executor", "limits", "storage_options", "unknown"]
    assert list(parameters) == [*all_arguments(), *others]
    for name, argument in all_arguments().items():
        assert parameters[name].default == (() if argument.accepts == NAMES else None)
    text = inspect.getdoc(dfgen.build_manifest).partition("Args:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^    (\w+):", text, re.MULTILINE) == list(parameters)[:-1]


def test_arguments_of_one_name_are_one_argument():
    known = all_arguments()
    for source in SOURCES.values():
        assert all(known[name] == argument for name, argument in source.arguments.items())
