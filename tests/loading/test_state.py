"""Receipts, and the state a training goes on from."""

import json
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from messages import message_of

from dfgen.errors import ArgumentError
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.shuffle import permutation
from dfgen.loading.state import Identity, Place, ids_digest, receipt

N, BATCH_SIZE = 50, 12
IDS = [f"row-{row}" for row in range(N)]
NOW = Identity(seed=3, batch_size=BATCH_SIZE, rows=N, ids=ids_digest(IDS))
EDITED = (
    "the state is not as it was saved: it was edited or damaged, and rows would be repeated or "
    "missed. Use the one saved before it, or start anew without a state; one that you edit on "
    'purpose says so by "checksum": None'
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.integers(2**60, 2**70), st.lists(st.integers(), max_size=1), st.just({}),
)  # fmt: skip


def ids_at(positions, epoch=0):
    return [IDS[row] for row in permutation(positions, N, seed=0, epoch=epoch)]


EPOCH = receipt(0, range(N), ids_at(range(N)))


class TestReceipt:
    def test_is_the_sum_as_written_down(self):
        digests = [blake2b(text, digest_size=16).digest() for text in (b"4|0|a", b"4|9|b")]
        expected = sum(int.from_bytes(digest, "little") for digest in digests) % 2**128
        assert receipt(4, [0, 9], ["a", "b"]) == expected
        assert receipt(0, [0, 1], ["a", "b"]) == 0x7879BDC3D132C9B4FBF0D223A72D24DA

    @given(st.lists(st.sampled_from([1, 2, 3, 4, 6, 12]), min_size=5, max_size=5))
    def test_adds_up_over_hosts_and_interruptions(self, hosts):
        total = 0
        for step, count in enumerate(hosts):
            for r in range(count):
                positions = Plan(N, BATCH_SIZE, (r, count)).positions(step)
                total += receipt(0, positions, ids_at(positions))
        assert total % 2**128 == EPOCH

    def test_shows_a_row_lost_doubled_exchanged_or_of_another_epoch(self):
        positions = list(range(N))
        ids = ids_at(positions)
        swapped = [ids[1], ids[0], *ids[2:]]
        found = {
            receipt(0, positions[1:], ids[1:]), receipt(0, [*positions, 7], [*ids, ids[7]]),
            receipt(0, [*positions[:-1], 7], [*ids[:-1], ids[7]]), receipt(0, positions, swapped),
            receipt(1, positions, ids),
        }  # fmt: skip
        assert len(found) == 5
        assert EPOCH not in found

    def test_numbers_count_as_their_text(self):
        assert receipt(0, np.array([1, 2]), np.array([7, 8])) == receipt(0, [1, 2], ["7", "8"])

    def test_no_rows(self):
        assert receipt(0, [], []) == 0

    def test_refuses_rows_without_an_id(self):
        with pytest.raises(ArgumentError) as refusal:
            receipt(0, [1, 2], ["a"])
        assert str(refusal.value) == "2 positions and 1 ids: expected one id each"


class TestIdsDigest:
    def test_golden_digest(self):
        assert ids_digest(["a", "bc", "ä"]) == "c4e2eb8656b8c1b6b3dd99d0f1612011"

    @given(st.lists(st.lists(st.text("ab", max_size=3), max_size=4), min_size=2, max_size=2))
    def test_differs_where_the_ids_differ(self, pair):
        one, other = pair
        assert (ids_digest(one) == ids_digest(other)) == (one == other)

    def test_sees_the_order_and_the_length_across_blocks(self):
        ids = list(range(150_000))
        swapped = [1, 0, *ids[2:]]
        assert len({ids_digest(ids), ids_digest(swapped), ids_digest(ids[:-1])}) == 3

    def test_is_that_of_blocks_as_written_down(self):
        ids = [str(row) for row in range(65_537)]
        digest = blake2b(b"dfgen/ids/1", digest_size=16)
        for block in (ids[:65_536], ids[65_536:]):
            digest.update(b"".join(n.to_bytes(8, "little") for n in (len(block), *map(len, block))))
            digest.update("".join(block).encode())
        assert ids_digest(ids) == digest.hexdigest()

    def test_numbers_count_as_their_text(self):
        assert ids_digest(np.arange(3)) == ids_digest(["0", "1", "2"]) == ids_digest(iter(range(3)))

    def test_arrays_have_that_of_their_values_across_blocks(self):
        text = [f"ä{row}" for row in range(140_000)]
        assert ids_digest(pa.array(text)[7:]) == ids_digest(text[7:])
        numbers = np.arange(140_000) * -(2**40)
        assert ids_digest(numbers) == ids_digest(pa.array(numbers)) == ids_digest(numbers.tolist())


class TestState:
    @pytest.mark.parametrize("step", range(len(Plan(N, BATCH_SIZE)) + 1))
    def test_goes_through_json_at_every_step(self, step):
        """At step 0 and after the last step of an epoch too."""
        state = json.loads(json.dumps(NOW.state(Place(2, step, EPOCH))))
        place = NOW.place(state)
        assert NOW.state(place) == state
        assert (place.epoch, place.digest) == (2, EPOCH)
        assert place.taken(BATCH_SIZE, N) == min(step * BATCH_SIZE, N)

    def test_a_second_resume_within_an_epoch_goes_on_from_the_second(self):
        first = NOW.place(NOW.state(Place(1, 1)))
        second = NOW.place(NOW.state(first._replace(step=first.step + 2)))
        assert second == Place(1, 3)

    @each("size", [1, 5, 12, 60])
    @each("taken", [(0, 0), (1, 3), (4, 1), (4, 2)])
    def test_another_batch_size_and_number_of_processes_warn_and_count_the_same(self, size, taken):
        step, first = taken
        state = replace(NOW, processes=2).state(Place(1, step, 42, 0, first))
        with pytest.warns(UserWarning) as warned:
            place = replace(NOW, batch_size=size, processes=3).place(state)
        done = step * BATCH_SIZE + first
        assert place == Place(1, done // size, 42, 0, done % size)
        was, now = "batch_size=12 and processes=2", f"batch_size={size} and processes=3"
        if size == BATCH_SIZE:
            was, now = "processes=2", "processes=3"
        assert [str(each.message) for each in warned] == [
            f"the state was saved with {was}, this training has {now}: its epoch goes on after the "
            f"{done} rows that were taken"
        ]

    def test_an_epoch_that_has_ended_leaves_out_what_it_did(self):
        state = NOW.state(Place(1, 4, ended=True))
        assert NOW.place(state).ended
        assert NOW.place(state).plan(Plan(N, BATCH_SIZE)).of(1).left_out == 2

    def test_is_under_1_kb(self):
        largest = Identity(
            seed=2**128, batch_size=2**40, rows=2**62, ids="f" * 32, labels="f" * 16,
            shuffle=False, balance="b" * 128, bucket_by="b" * 128, rows_per_epoch=2**30,
            weights="f" * 16, window="9" * 20 + "f" * 16, processes=2**30, order_batch=2**40,
        )  # fmt: skip
        state = largest.state(Place(2**62, 2**62, 2**128 - 1, 2**62))
        assert len(json.dumps(state)) < 1000

    def test_numbers_of_numpy_become_plain(self):
        numbers = {"seed": np.int64(3), "batch_size": np.int32(12), "rows": np.int64(N)}
        state = replace(NOW, **numbers).state(Place(np.int64(1), np.int64(2)))
        assert NOW.place(json.loads(json.dumps(state))) == Place(1, 2)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"seed": 4}, "seed=4, this training has seed=3"),
            ({"rows": 49}, "rows=49, this training has rows=50"),
            ({"shuffle": False}, "shuffle=False, this training has shuffle=True"),
            ({"balance": "kind"}, "balance='kind', this training has balance=None"),
            ({"bucket_by": "shape"}, "bucket_by='shape', this training has bucket_by=None"),
        ],
    )
    def test_refuses_another_order_of_rows(self, change, text):
        state = replace(NOW, **change).state(Place(0, 1))
        with pytest.raises(ArgumentError) as refusal:
            NOW.place(state)
        was = text.split(",")[0]
        assert str(refusal.value) == (
            f"the state was saved with {text}: rows would be repeated and missed. "
            f"Go on with {was}, or start anew without the state"
        )

    @pytest.mark.parametrize("ids", [[*IDS[:-1], "other"], IDS[::-1]])
    def test_refuses_other_ids_and_another_order_of_them(self, ids):
        with pytest.raises(ArgumentError) as refusal:
            NOW.place(replace(NOW, ids=ids_digest(ids)).state(Place(0, 1)))
        assert str(refusal.value) == (
            "the state was saved with other ids, or the same in another order: rows would be "
            "repeated and missed. Go on with the manifest it was saved with, or start anew "
            "without the state"
        )

    def test_an_edited_entry_is_told(self):
        for change in (
            {"epoch": 1},
            {"positions": 24},
            {"step": 2},
            {"labels": "x"},
            {"seed": 4},
            {"skipped": True},
        ):
            with pytest.raises(ArgumentError) as refusal:
                NOW.place(NOW.state(Place(0, 1)) | change)
            assert str(refusal.value) == EDITED

    @given(st.data())
    def test_any_edit_of_any_entry_is_refused_or_changes_nothing(self, data):
        now = replace(NOW, window="1 a", weights="b", balance="c", order_batch=7)
        state = now.state(Place(2, 3, 42, 7))
        name = data.draw(st.sampled_from([*state, "rows_per_epoch", "pack", "extra"]))
        edited = {**state, name: data.draw(VALUES | st.sampled_from([*state.values()]))}
        if data.draw(st.booleans()):
            del edited[name]
        try:
            assert now.place(edited) == Place(2, 3, 42, 7)
        except ArgumentError:
            assert edited != state or name == "labels"

    @each("key", [key for key in NOW.state(Place(0, 1)) if key != "checksum"])
    def test_refuses_a_missing_key(self, key):
        state = NOW.state(Place(0, 1))
        del state[key]
        assert message_of(ArgumentError, NOW.place, state) == (
            f"the state lacks {key}: it was cut short, or is no state of dfgen. "
            "Use the one saved before it"
        )

    def test_refuses_what_is_no_state(self):
        assert message_of(ArgumentError, NOW.place, [1, 2]) == (
            "the state is [1, 2], expected the dict that state_dict() gave: of a file, "
            "json.loads(Path(path).read_text())"
        )

    @pytest.mark.parametrize(
        ("place", "text"),
        [
            (Place(-1, 0), "epoch=-1 is not a whole number of 0 or more"),
            (Place(0, -1), "step=-1 is not a whole number of 0 or more"),
            (Place(0, 0, 2**128), f"receipt={2**128} is not a whole number from 0 to {2**128 - 1}"),
            (Place(0, 0, 0, -1), "skipped=-1 is not a whole number of 0 or more"),
        ],
    )
    def test_is_not_made_of_numbers_that_cannot_be(self, place, text):
        assert message_of(ArgumentError, NOW.state, place) == text

    @pytest.mark.parametrize(("name", "least"), [("seed", 0), ("batch_size", 1), ("rows", 0)])
    def test_a_training_is_not_made_of_numbers_that_cannot_be(self, name, least):
        assert getattr(replace(NOW, **{name: least}), name) == least
        with pytest.raises(ArgumentError) as refusal:
            replace(NOW, **{name: least - 1})
        assert str(refusal.value) == f"{name}={least - 1} is not a whole number of {least} or more"

    def test_rows_of_a_pack_that_were_in_files_before_are_told(self):
        state = NOW.state(Place(0, 1))
        with pytest.raises(ArgumentError, match="saved with the rows in other files, which are"):
            replace(NOW, window="1 a").place(state)

    def test_other_labels_warn_only(self):
        with pytest.warns(UserWarning) as warned:
            place = replace(NOW, labels="b").place(replace(NOW, labels="a").state(Place(0, 1)))
        assert place == Place(0, 1)
        assert [str(warning.message) for warning in warned] == [
            "the state was saved with other labels: training goes on with those of now"
        ]
