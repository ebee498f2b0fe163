"""Resuming after other stops, and states that are none."""

import keras
import pytest
from public.numbered import flat, sequence, state_after, take
from public.permutation import epoch_rows, epochs_rows
from public.test_resume import LENGTH as LENGTH
from public.test_resume import ROWS as ROWS
from public.test_resume import assert_equal_ends as assert_equal_ends
from public.test_resume import run as run
from public.test_resume import whole as whole
from public.training_script import EPOCHS, STEPS, Stopped, make_model, make_sequence, stop, train

import dfgen


def test_a_drawn_seed_goes_on():
    first, seq = (make_sequence(seed=None) for _ in range(2))
    whole = [first[step][0].tolist() for step in range(STEPS)]
    take(seq, 4)
    assert [seq[step][0].tolist() for step in range(STEPS)] != whole
    take(first, 3)
    seq.load_state_dict(first.state_dict())
    assert [x.tolist() for x, _ in seq] == whole[3:]


def test_changed_labels_warn_and_training_goes_on():
    df = sequence(ROWS).manifest
    df.loc[3, "label"] = "c"
    seq = sequence(df)
    with pytest.warns(UserWarning, match="labels"):
        seq.load_state_dict(state_after(ROWS, 5))
    assert flat(seq) == epoch_rows(ROWS, 0)[20:]


@pytest.mark.parametrize("state", [None, [1, 2], {}, {"epoch": 1}, "text"], ids=str)
def test_a_value_that_is_no_state_is_rejected(state):
    with pytest.raises(dfgen.DfgenError, match="state"):
        sequence(ROWS).load_state_dict(state)


@pytest.mark.backend
@pytest.mark.parametrize("stops", [[2, 3], [("end", 1)]], ids=str)
def test_repeat_with_steps_per_epoch_goes_on(tmp_path, stops):
    def make():
        seq = make_sequence()
        return {"x": seq.repeat(), "steps_per_epoch": 3, "epochs": 4, "sequence": seq}

    result, whole = run(tmp_path / "a", *stops, make=make), run(tmp_path / "b", make=make)
    assert_equal_ends(result, whole)
    assert result[1].state_dict() == whole[1].state_dict()


@pytest.mark.backend
def test_unbuilt_models_go_on_and_an_ended_run_begins_again(tmp_path, whole):
    with pytest.raises(Stopped):
        train(tmp_path, 7, stop, model=make_model(built=False))
    for _ in range(2):
        result = train(tmp_path, model=make_model(built=False))
        assert_equal_ends(result, whole)
    assert len(result[2]["loss"]) == EPOCHS


@pytest.mark.backend
@pytest.mark.parametrize("word", ["model", "seed", "Sequence"])
def test_a_backup_of_another_training_is_rejected(tmp_path, word):
    with pytest.raises(Stopped):
        train(tmp_path, 3, stop)
    model = keras.Sequential([keras.layers.Reshape((1,)), keras.layers.Dense(2)])
    model.compile("adam", "mse", run_eagerly=True)
    options = {"model": ("model", model), "seed": ("sequence", make_sequence(seed=4))}
    name, value = options.get(word, ("x", make_sequence()))
    with pytest.raises(ValueError, match=word):
        train(tmp_path, **{name: value})


def test_loading_a_state_moves_a_sequence_in_use():
    seq = sequence(ROWS, workers=2)
    take(seq, 7)
    seq.load_state_dict(state_after(ROWS, LENGTH + 2))
    assert take(seq, 3) == epoch_rows(ROWS, 1)[8:20]
    seq.load_state_dict(state_after(ROWS, 5))
    assert take(seq, 3) == epoch_rows(ROWS, 0)[20:32]
    assert flat(seq) == epoch_rows(ROWS, 0)[20:]  # a loop left early begins again
    assert take(seq.repeat(), LENGTH + 3) == epochs_rows(ROWS, (1, 2))[: ROWS + 12]
