"""The batches of several steps in one piece, as Keras 3.16 asks for them on JAX."""

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dfgen
from dfgen.training import backends


class Rest(list):
    """What Keras calls PartialBatchList."""


@pytest.fixture(autouse=True)
def rest(monkeypatch):
    monkeypatch.setattr(backends, "PartialBatchList", Rest)


def sequence(df, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 2, "y": "label", **options}
    return dfgen.Sequence(df, **options)


def singles(found):
    """The single batches of what a pass gave, in order."""
    for piece in found:
        if isinstance(piece, Rest):
            yield from piece
        else:
            steps = keras.tree.flatten(piece)[0].shape[0]
            yield from (keras.tree.map_structure(lambda a, i=i: a[i], piece) for i in range(steps))


def assert_same(found, expected):
    found, expected = list(found), list(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, one, other)


def test_the_arrays_of_four_steps_are_the_memory_that_workers_wrote_to(frame):
    seq, made = sequence(frame(40), max_queue_size=3), []
    start = seq._loader.start

    def spy(*position, **asked):
        made.append(start(*position, **asked))
        return made[-1]

    seq._loader.start = spy
    whole = list(seq.get_jax_iterator(super_batch=4))
    assert [type(each) for each in whole] == [tuple, tuple, Rest]
    for place, (x, y) in enumerate(whole[:2]):
        assert (x.shape, y.shape) == ((4, 4, 4, 4, 3), (4, 4))
        assert x.flags.c_contiguous
        assert x.ctypes.data % 64 == 0
        for step, pending in enumerate(made[4 * place : 4 * place + 4]):
            assert pending.arrays["image"].ctypes.data == x[step].ctypes.data
            assert pending.arrays["label"].ctypes.data == y[step].ctypes.data


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.integers(1, 40),
    batch_size=st.integers(1, 9),
    steps=st.integers(2, 7),
    workers=st.integers(0, 2),
    done=st.integers(0, 50),
)
def test_any_rows_steps_and_beginnings_give_the_batches_of_single_steps(
    frame, rows, batch_size, steps, workers, done
):
    options = {"batch_size": batch_size, "workers": workers}
    done %= -(-rows // batch_size)
    one, several = sequence(frame(rows), **options), sequence(frame(rows), **options)
    for epoch in range(2):
        if not epoch:
            for _ in zip(range(done), one, strict=False):
                pass
            several.load_state_dict(one.state_dict())
            one.load_state_dict(one.state_dict())
        assert_same(singles(several.get_jax_iterator(super_batch=steps)), iter(one))


def halved(batch, rng):
    return {**batch, "image": batch["image"] // 2}


def in_place(batch, rng):
    batch["image"] //= 2
    return batch


@pytest.mark.parametrize("function", [halved, in_place])
def test_what_a_function_makes_of_a_batch_is_what_comes(frame, function):
    one, several = (sequence(frame(24), batch_transform=function) for _ in range(2))
    assert_same(singles(several.get_jax_iterator(super_batch=3)), iter(one))


def test_weights_and_rows_that_could_not_be_read(frame):
    df = frame(24).assign(weight=np.arange(24.0))
    df.loc[[3, 17], "path"] = "gone.png"
    options = {"on_error": "skip", "sample_weight": "weight"}
    one, several = (sequence(df, **options) for _ in range(2))
    assert_same(singles(several.get_jax_iterator(super_batch=3)), iter(one))


def test_repeat_goes_on_over_epochs_in_whole_pieces(frame):
    one, several = sequence(frame(22)).repeat(), sequence(frame(22)).repeat()
    batches, pieces = iter(one), several.get_jax_iterator(super_batch=5)
    found = [next(pieces)[1].shape for _ in range(1)]
    assert found == [(5, 4)]
    expected = [next(batches) for _ in range(5)]
    again = sequence(frame(22)).repeat().get_jax_iterator(super_batch=5)
    assert_same(singles([next(again)]), expected)
    short = next(again)  # the sixth batch has two rows
    assert isinstance(short, Rest)
    assert_same(short, [next(batches) for _ in range(5)])


def test_a_pass_that_is_left_and_begun_anew_writes_to_nothing_that_was_given_out(frame):
    seq = sequence(frame(40), max_queue_size=10)
    first = next(seq.get_jax_iterator(super_batch=4))
    kept = keras.tree.map_structure(np.copy, first)
    for _ in range(3):
        list(seq.get_jax_iterator(super_batch=4))
    assert_same([first], [kept])


def test_a_keras_without_lists_of_single_batches_is_told_of_the_short_one(frame, monkeypatch):
    monkeypatch.setattr(backends, "PartialBatchList", None)
    with pytest.raises(dfgen.DfgenError, match="drop_remainder=True leaves a short last one out"):
        list(sequence(frame(13)).get_jax_iterator(super_batch=2))
