"""States and backups of a training: cut short, with bits flipped, or of another training."""

import json
import random
import warnings
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from messages import message_of

from dfgen.errors import ArgumentError
from dfgen.loading.state import Identity, Place, ids_digest
from dfgen.training.callbacks.generations import Generations

NOW = Identity(seed=3, batch_size=4, rows=10, ids=ids_digest(range(10)), labels="l")
STATE = NOW.state(Place(2, 1, 42, 0))
OLDER = {name: value for name, value in STATE.items() if name != "checksum"}
OTHERS = {
    "manifest": replace(NOW, ids=ids_digest(range(1, 11))),
    "order of rows": replace(NOW, ids=ids_digest(range(10)[::-1])),
    "number of rows": replace(NOW, rows=9), "seed": replace(NOW, seed=4),
    "shuffling": replace(NOW, shuffle=False),
    "balance": replace(NOW, balance="b"),
}  # fmt: skip


def test_fault_46_a_state_goes_through_json_at_every_step():
    for step in range(4):
        place = Place(2, step, 2**128 - 1, step)
        found = NOW.place(json.loads(json.dumps(NOW.state(place))))
        taken = min(4 * step, 10)
        assert found == place._replace(step=taken // 4, first=taken % 4)


@pytest.mark.parametrize("other", OTHERS)
def test_fault_46_the_state_of_another_training_is_refused(other):
    with pytest.raises(ArgumentError, match="rows would be repeated and missed"):
        OTHERS[other].place(STATE)


@pytest.mark.parametrize("version", [{"version": 3}, {"order": "dfgen/perm/2"}])
def test_fault_46_the_state_of_another_version_is_refused(version):
    ((name, value),) = version.items()
    with pytest.raises(ArgumentError) as caught:
        NOW.place(STATE | version)
    assert str(caught.value).startswith(f"the state has {name}={value!r}; this dfgen reads {name}=")


@each("entry", STATE)
def test_fault_46_an_entry_of_a_state_that_it_cannot_have_is_refused(entry):
    for value in (None, "x", -1, 1.5, [], {}, "-2a", "f" * 33):
        if STATE[entry] is None or entry == "checksum":  # None says that there is nothing
            value = value or "other"
        with pytest.raises(ArgumentError, match=r"edited or damaged|this dfgen reads"):
            NOW.place({**STATE, entry: value})
        if entry not in ("labels", "checksum"):  # labels may change
            assert entry in message_of(ArgumentError, NOW.place, {**OLDER, entry: value})


def test_fault_46_a_state_without_an_entry_is_refused():
    for entry in OLDER:
        with pytest.raises(ArgumentError) as caught:
            NOW.place({name: value for name, value in STATE.items() if name != entry})
        assert str(caught.value) == (
            f"the state lacks {entry}: it was cut short, or is no state of dfgen. Use the one "
            "saved before it"
        )


def test_fault_46_of_a_damaged_backup_the_one_before_is_used(tmp_path):
    """Or the newest one, if the damage is in what nobody reads, such as the time of a file."""
    backups = Generations(tmp_path)
    arrays = {"0": np.arange(12, dtype="float32").reshape(3, 4), "1": np.array(7)}
    for place in (Place(0, 1), Place(2, 1, 42, 0)):
        backups.save({"state": NOW.state(place)}, arrays)
    newest = tmp_path / "backup-00000001.npz"
    data, older = newest.read_bytes(), []
    draw = random.Random(0)
    copies = [data[:length] for length in range(0, len(data), 7)]
    for place in (draw.randrange(8 * len(data)) for _ in range(300)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        copies.append(bytes(flipped))
    copies += [data[:at] + bytes(len(data[at : at + 512])) + data[at + 512 :] for at in (0, 300)]
    for copy in copies:
        newest.write_bytes(copy)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            path, facts, saved = backups.load()
        older.append(path != str(newest))
        assert [f"{newest} is damaged" in str(each.message) for each in caught] == [True] * older[
            -1
        ]
        assert facts["state"] == (NOW.state(Place(0, 1)) if older[-1] else STATE)
        assert [*saved] == ["0", "1"]
        np.testing.assert_array_equal(saved["0"], arrays["0"])
    assert sum(older) > 0.8 * len(copies)
