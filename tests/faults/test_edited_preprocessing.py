"""A preprocessing beside a model whose JSON was edited is refused, or makes what training saw."""

import copy
import json

import pytest
from cases import each

import dfgen
from dfgen.binding.preprocessing import Preprocessing
from dfgen.errors import ArgumentError

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
WRONG = (None, "x", -1, 1.5, True, 10**30, [], {}, [-1, -1], ["a"])


def entries(data, above=()):
    for key, value in data.items() if isinstance(data, dict) else ():
        yield (*above, key)
        yield from entries(value, (*above, key))


def edited(entry, change):
    data = copy.deepcopy(SAVED)
    holder = data
    for key in entry[:-1]:
        holder = holder[key]
    change(holder)
    return json.dumps(data)


@each("entry", [*entries(SAVED)])
def test_fault_63_an_entry_that_was_edited_is_refused(entry):
    """One that could be meant is told by the digest, others by their names."""
    *_, key = entry

    def refused(change):
        with pytest.raises(ArgumentError) as error:
            Preprocessing.from_json(edited(entry, change))
        return str(error.value)

    if key == "digest":  # whoever removes it says that the edit is meant
        assert Preprocessing.from_json(edited(entry, lambda holder: holder.pop(key))) == MADE
    else:
        told = refused(lambda holder: holder.pop(key))
        assert key in told or "was edited" in told or entry[-2:-1] in (("inputs",), ("targets",))
    holder = SAVED
    for name in entry[:-1]:
        holder = holder[name]
    for value in WRONG:
        if repr(value) != repr(holder[key]):
            refused(lambda holder, value=value: holder.update({key: value}))
    assert refused(lambda holder: holder.update(more=1))


def test_fault_63_what_another_edit_would_make_is_not_made_in_silence():
    text = json.dumps(SAVED).replace('"0..1"', '"-1..1"')
    with pytest.raises(ArgumentError) as error:
        Preprocessing.from_json(text)
    assert str(error.value) == (
        "the preprocessing was edited since it was saved, and would make other arrays than the "
        'model was trained on. Save it again, or remove its "digest" if the change is intended'
    )


def test_a_preprocessing_that_was_saved_before_a_field_was_made_has_its_default():
    old = copy.deepcopy(SAVED)
    del old["digest"], old["inputs"]["image"]["fields"]["decode"]
    del old["inputs"]["age"]["fields"]["index"]
    loaded = Preprocessing.from_json(json.dumps(old))
    assert loaded.inputs["image"] == MADE.inputs["image"]
    assert loaded.inputs["age"] == dfgen.Array("path", shape=(3,))
