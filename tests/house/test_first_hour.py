"""The wrong calls and messy inputs of a first hour with dfgen: what came, was expected, to do."""

import os
import pkgutil
import warnings
from importlib import import_module

import cv2
import numpy as np
import pandas as pd
import pytest
import wrong_calls
from cases import each
from wrong_calls import Pets

KINDS = ("cat", "dog", "owl")
TABLES = [module.name for module in pkgutil.iter_modules(wrong_calls.__path__, "wrong_calls.")]
BEFORE_KERAS = ("builds", "joins", "manifests", "paths", "commands", "odd_input")
"""Tables of calls that are answered before a backend has to do with them: one is enough."""
IMAGES = [
    cv2.imencode(".jpg", np.full((24, 32, 3), 20 * row, np.uint8))[1].tobytes() for row in range(12)
]


def project(folder):
    """Twelve real JPEG files in a new working folder, a frame and a table of labels."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    rows = []
    for row in range(12):
        path = folder / "imgs" / KINDS[row % 3] / f"{100 + row}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(IMAGES[row])
        rows.append((100 + row, str(path), KINDS[row % 3], row / 2, row % 5))
    frame = pd.DataFrame(rows, columns=["id", "path", "kind", "age", "legs"])
    labels = frame[["id", "kind", "age"]].rename(columns={"id": "object_id"})
    labels.to_csv("labels.csv", index=False)
    return Pets(folder, frame)


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(table, marks=[] if table.endswith(BEFORE_KERAS) else pytest.mark.backend)
        for table in TABLES
    ],
)
def test_wrong_calls_are_answered_by_what_came_what_was_expected_and_what_to_do(
    table, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # where the test begins, and ends
    calls = enumerate(import_module(table).CALLS)

    @each(("number", "wrong"), calls)
    def answer(number, wrong):
        answered(wrong, project(tmp_path / str(number) / "project"))  # beside which is nothing

    answer()


def answered(wrong, pets):
    if issubclass(wrong.raises, Warning):
        with pytest.warns(wrong.raises) as caught:
            wrong.call(pets)
        said = "\n".join(str(one.message) for one in caught)
    else:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "column .* is not categorical")
            with pytest.raises(wrong.raises) as raised:
                wrong.call(pets)
        said = "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])
    for word in (wrong.received, wrong.expected, wrong.advice):
        assert word in said
