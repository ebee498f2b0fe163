"""The README and each page of docs run as written, from top to bottom, on real files."""

import io
import os
import re
import shlex
import shutil
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import annotated
import keras
import pytest

import dfgen
import dfgen.errors
import dfgen.explore
import dfgen.migrate
from dfgen.cli import app
from dfgen.demo import unpack_photographs

README = Path(dfgen.__file__).parents[1] / "README.md"
DOCS = README.parent / "docs"
TUTORIALS = DOCS / "tutorials"  # which test_tutorials.py runs on each backend
IN_PHOTOGRAPHS = "`demo/photographs`, which `dfgen demo --keep demo --no-train` writes"
"""A page that says so runs in that folder."""

OWN_ANNOTATIONS = "annotations of your own"
"""A page that says so finds small files of VOC and COCO there."""


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    unpack_photographs(folder)
    return folder


def copy_named(photographs, text, folder):
    """Copy the folders and tables that a page names: all would take a second."""
    for entry in photographs.iterdir():
        if entry.name in text:
            copy = shutil.copytree if entry.is_dir() else shutil.copyfile
            copy(entry, folder / entry.name)


def blocks_of(page):
    text = page.read_text("utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


CLIENTS = ("other-libraries", "migrate-torch", "clips-of-videos")
"""Pages that need packages of the extra clients."""
PAGES = sorted(page for page in DOCS.rglob("*.md") if blocks_of(page) and page.parent != TUTORIALS)


def write_annotations(folder):
    """Write images with the annotations of VOC and COCO."""
    for row in range(20):
        annotated.image(folder / f"JPEGImages/{row}.jpg")
        boxes = [("cat", 1, 1, 9, 9)] * (row % 2)
        annotated.xml(folder / f"Annotations/{row}.xml", *boxes)
    year = folder / "VOCdevkit/VOC2012"
    for row in range(4):
        annotated.image(year / f"JPEGImages/{row}.jpg")
        annotated.xml(year / f"Annotations/{row}.xml", ("cat", 1, 1, 9, 9))
        for masks in ("SegmentationClass", "SegmentationObject"):
            annotated.image(year / f"{masks}/{row}.png")
    for split, names in {"train": "0\n1\n2\n", "val": "3\n"}.items():
        lists = year / "ImageSets/Main"
        lists.mkdir(parents=True, exist_ok=True)
        (lists / f"{split}.txt").write_text(names)
        annotated.image(folder / f"{split}2017/0.jpg")
        annotated.coco(folder / f"annotations/instances_{split}2017.json", {0: "0.jpg"})


@cache
def any_compiled_model():
    """Of images of any size, and six classes; one for all pages, so that Keras compiles it once."""
    layers = keras.layers
    image = keras.Input((None, None, 3))
    pooled = layers.GlobalAveragePooling2D()(layers.Rescaling(1 / 255)(image))
    model = keras.Model(image, layers.Dense(6)(pooled))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def run_commands(text):
    """Run the commands of a block; return what they print."""
    with redirect_stdout(io.StringIO()) as said:
        _run(text)
    return said.getvalue().replace(os.getcwd(), "/data")


def _run(text):
    for line in text.replace("\\\n", "").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "dfgen":
            found = 1 if arguments[0] in ("verify", "diff") else 0
            assert app(arguments, standalone_mode=False) in (None, 0, found)
        else:
            assert program == "make" or [program, arguments[0]] == ["pip", "install"]


def run(page):
    """Run a page in the folder it is written for; return the names that it leaves behind."""
    names, blocks = {"model": any_compiled_model()}, blocks_of(page)
    for (language, text), (after, answer) in zip(blocks, [*blocks[1:], ("", "")], strict=False):
        if language == "sh":
            said = run_commands(text)
            assert after != "text" or {*answer.splitlines()} <= {*said.splitlines()}
        elif language == "python" and re.match(r"\w+Error: ", answer):
            with pytest.raises(dfgen.DfgenError) as caught:
                exec(text, names)
            said = f"{type(caught.value).__name__}: {caught.value}\n"
            assert said.replace(os.getcwd(), "/data") == answer
        elif language == "python":
            exec(text, names)
        assert language in ("python", "sh", "text")
    return names


def test_readme_runs_as_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    unpack_photographs(tmp_path)
    names = run(README)
    assert len(names["rows"]) == (names["df"].split == "val").sum() and names["train"].receipt


@pytest.mark.filterwarnings("ignore:currentThread|getName:DeprecationWarning")  # of KerasTuner
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.* labels are to be corrected")  # of a model without training
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.clients if page.stem in CLIENTS else pytest.mark.page)
        for page in PAGES
    ],
    ids=lambda page: str(page.relative_to(DOCS)),
)
def test_page_runs_as_written(page, photographs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8").replace("\n", " ")
    if OWN_ANNOTATIONS in text:
        write_annotations(tmp_path)
    if IN_PHOTOGRAPHS in text:
        copy_named(photographs, text, tmp_path)
    run(page)
