"""The wrong calls and messy inputs of a first hour with dfgen: what came, was expected, to do."""

import pkgutil
import warnings
from importlib import import_module

import cv2
import numpy as np
import pandas as pd
import pytest
import wrong_calls
from wrong_calls import Pets

KINDS = ("cat", "dog", "owl")
TABLES = [module.name for module in pkgutil.iter_modules(wrong_calls.__path__, "wrong_calls.")]
BEFORE_KERAS = ("builds", "joins", "manifests", "paths", "commands", "odd_input")
"""Tables of calls that are answered before a backend has to do with them: one is enough."""
CALLS = [
    pytest.param(
        call,
        id=f"{table.partition('.')[2]}: {call.what}",
        marks=[] if table.endswith(BEFORE_KERAS) else pytest.mark.backend,
    )
    for table in TABLES
    for call in import_module(table).CALLS
]


@pytest.fixture
def pets(tmp_path, monkeypatch):
    """Twelve real JPEG files in a new working folder, a frame and a table of labels."""
    folder = tmp_path / "project"  # beside which there is nothing
    folder.mkdir()
    monkeypatch.chdir(folder)
    rows = []
    for row in range(12):
        path = folder / "imgs" / KINDS[row % 3] / f"{100 + row}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.full((24, 32, 3), 20 * row, np.uint8))
        rows.append((100 + row, str(path), KINDS[row % 3], row / 2, row % 5))
    frame = pd.DataFrame(rows, columns=["id", "path", "kind", "age", "legs"])
    labels = frame[["id", "kind", "age"]].rename(columns={"id": "object_id"})
    labels.to_csv("labels.csv", index=False)
    return Pets(folder, frame)


@pytest.mark.parametrize("wrong", CALLS)
def test_wrong_call_is_answered_by_what_came_what_was_expected_and_what_to_do(wrong, pets):
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
