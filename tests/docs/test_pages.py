"""The code of README.md and of each page of docs/ runs as written, from top to bottom.

Blocks of `python` and `sh` run in one namespace, in an empty folder. A block of `text` on the next
line has lines that the command prints, the output of the code, or the error that it raises; `...`
stands for any text. Comments of HTML are invisible to readers:

- `<!-- python`, code, `-->` runs like a block. It writes files with the functions below, or checks.
- `<!-- skip -->` before a block: the block does not run.
- `<!-- clients -->`: the page needs the packages of `make test-clients`.
"""

import io
import os
import re
import shlex
import shutil
from contextlib import nullcontext, redirect_stdout
from functools import cache, partial
from pathlib import Path

import annotated
import cv2
import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
import dfgen.errors
import dfgen.explore
import dfgen.migrate
from dfgen.cli import app
from dfgen.demo import unpack_photographs

README = Path(dfgen.__file__).parents[1] / "README.md"
DOCS = README.parent / "docs"
BLOCK = re.compile(
    r"^(?P<skip><!-- skip -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$"
    r"|^<!-- python\n(?P<hidden>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)


def blocks_of(page):
    """Return (language, text, line, output) of each block that runs.

    `output` is the block of `text` on the next line, or "".
    """
    text, blocks, end = page.read_text("utf-8"), [], 0
    for match in BLOCK.finditer(text):
        code, language = match["hidden"] or match["text"], match["language"] or "python"
        follows = text[end : match.start()] == "\n"
        end = match.end()
        if language in ("python", "sh") and not match["skip"]:
            start = match.start("hidden" if match["hidden"] else "text")
            blocks.append((language, code, text.count("\n", 0, start), ""))
        elif language == "text" and follows and blocks:
            blocks[-1] = (*blocks[-1][:3], code)
        else:
            assert match["skip"] or language in ("text", "toml"), f"{page}: block of {language}"
    return blocks


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    unpack_photographs(folder)
    return folder


def photographs(demo, *names):
    """Copy entries of the demo's photographs, or all, into the working folder."""
    for entry in [demo / name for name in names] or demo.iterdir():
        copy = shutil.copytree if entry.is_dir() else shutil.copyfile
        copy(entry, entry.name)


def annotations():
    """Write images with the annotations of VOC and COCO into the working folder."""
    for row in range(20):
        annotated.image(f"JPEGImages/{row}.jpg")
        annotated.xml(f"Annotations/{row}.xml", *[("cat", 1, 1, 9, 9)] * (row % 2))
    year = Path("VOCdevkit/VOC2012")
    for row in range(4):
        annotated.image(year / f"JPEGImages/{row}.jpg")
        annotated.xml(year / f"Annotations/{row}.xml", ("cat", 1, 1, 9, 9))
        for masks in ("SegmentationClass", "SegmentationObject"):
            annotated.image(year / f"{masks}/{row}.png")
    for split, names in {"train": "0\n1\n2\n", "val": "3\n"}.items():
        lists = year / "ImageSets/Main"
        lists.mkdir(parents=True, exist_ok=True)
        (lists / f"{split}.txt").write_text(names)
        annotated.image(f"{split}2017/0.jpg")
        annotated.coco(f"annotations/instances_{split}2017.json", {0: "0.jpg"})


def labelled_images():
    """Write `labels.csv` with the columns path and label, and its 40 images."""
    rng = np.random.default_rng(0)
    for row in range(40):
        cv2.imwrite(f"{row}.jpg", rng.integers(0, 256, (48, 64, 3), np.uint8))
    table = {"path": [f"{row}.jpg" for row in range(40)], "label": ["cat", "dog"] * 20}
    pd.DataFrame(table).to_csv("labels.csv", index=False)


@cache
def compiled_model(classes=6):
    """A model of images of any size."""
    image = keras.Input((None, None, 3))
    pooled = keras.layers.GlobalAveragePooling2D()(keras.layers.Rescaling(1 / 255)(image))
    model = keras.Model(image, keras.layers.Dense(classes)(pooled))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def run_commands(text):
    for line in text.replace("\\\n", "").splitlines():
        program, *arguments = shlex.split(line, comments=True) or [""]
        if program == "dfgen":
            differences = arguments[0] in ("verify", "diff")  # exit with 1 if there are any
            assert app(arguments, standalone_mode=False) in (None, 0, int(differences))
        else:
            assert program in ("", "make", "pip", "git", "cd")


def assert_shown(shown, actual):
    """Assert that a page shows a text, in which `...` stands for any text."""
    pattern = ".*".join(map(re.escape, shown.strip().split("...")))
    assert re.fullmatch(pattern, actual.strip(), re.DOTALL), f"\n{shown}\nis not\n{actual}"


def run(page, names):
    """Run a page in the working folder, with names in its namespace."""
    for language, text, line, shown in blocks_of(page):
        with redirect_stdout(io.StringIO()) if shown else nullcontext() as output:
            if language == "sh":
                run_commands(text)
            elif re.match(r"\w+Error: ", shown):
                with pytest.raises(dfgen.DfgenError) as caught:
                    exec(compile("\n" * line + text, page, "exec"), names)
                error = f"{type(caught.value).__name__}: {caught.value}"
                print(error.replace(os.getcwd(), "/data"))
            else:
                exec(compile("\n" * line + text, page, "exec"), names)
        if shown and language == "sh":
            assert {*shown.splitlines()} <= {*output.getvalue().splitlines()}
        elif shown:
            assert_shown(shown, output.getvalue())


def pages():
    for page in sorted(DOCS.rglob("*.md")):
        if blocks_of(page):
            marks = [pytest.mark.page]
            if "<!-- clients -->" in page.read_text("utf-8"):
                marks = [pytest.mark.clients]
            if page.parent.name == "tutorials":
                marks += [pytest.mark.slow, pytest.mark.backend, pytest.mark.timeout(600)]
            yield pytest.param(page, marks=marks, id=page.relative_to(DOCS).as_posix())


@pytest.mark.filterwarnings("ignore:currentThread|getName:DeprecationWarning")  # of KerasTuner
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.* labels are to be corrected")  # of a model without training
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # of MixUp on JAX
@pytest.mark.parametrize("page", [*pages()])
def test_page_runs(page, demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {
        "model": compiled_model(),
        "photographs": partial(photographs, demo),
        "annotations": annotations,
        "labelled_images": labelled_images,
        "monkeypatch": monkeypatch,
        "page": page,
    }
    run(page, names)


def test_readme_runs_without_warnings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labelled_images()
    run(README, {"model": compiled_model(2)})
