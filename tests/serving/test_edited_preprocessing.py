"""An edited preprocessing is refused: it would make other arrays than the model was trained on."""

import json

import pytest

import dfgen
from dfgen.errors import ArgumentError
from dfgen.serving.preprocessing import Preprocessing

MADE = Preprocessing(
    x=("image", "age"),
    y="kind",
    inputs={
        "image": dfgen.Image("path", size=(8, 9), scale="0..1"),
        "age": dfgen.Array("path", shape=(3,), index="row"),
    },
    targets={"kind": dfgen.Category("kind", class_names=["cat", "dog"])},
)
SAVED = json.loads(MADE.to_json())


@pytest.mark.parametrize("key", SAVED)
@pytest.mark.parametrize("value", [None, "x", -1, [], {}, "gone"])
def test_edited_entries_are_rejected(key, value):
    data = {k: v for k, v in SAVED.items() if k != key}
    if value != "gone":
        data[key] = value
    if data != SAVED:
        with pytest.raises(ArgumentError):
            Preprocessing.from_json(json.dumps(data))


def test_edited_options_are_rejected():
    text = json.dumps(SAVED)
    assert Preprocessing.from_json(text) == MADE
    with pytest.raises(ArgumentError, match="edited"):
        Preprocessing.from_json(text.replace('"0..1"', '"-1..1"'))
