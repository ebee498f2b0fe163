"""Datasets of TensorFlow after a resume, and with a bad row."""

import numpy as np
import pytest
from public.permutation import epoch_rows, epochs_rows
from public.test_keras_devices import SIZE as SIZE
from public.test_keras_devices import SMALL as SMALL
from public.test_keras_devices import rows_of as rows_of

import dfgen


def test_loop_over_tf_dataset_raises_row_error(frame):
    import tensorflow as tf

    df = frame(20)
    df.loc[13, "path"] = "gone.png"
    with pytest.raises(tf.errors.OpError, match=r"id=13.*gone\.png"):
        rows_of(dfgen.Sequence(df, **SMALL).get_tf_dataset())


def test_tf_dataset_after_a_resume_has_the_rest(frame):
    first, seq = (dfgen.Sequence(frame(22), **SMALL) for _ in range(2))
    batches = iter(first)
    next(batches), next(batches)
    seq.load_state_dict(first.state_dict())
    dataset = seq.get_tf_dataset()
    assert rows_of(dataset) + rows_of(dataset) == epochs_rows(22, range(2))[2 * SIZE :]


def test_tf_dataset_has_weights_and_nested_arrays(frame):
    df = frame(10).assign(weight=np.arange(10) / 2)
    seq = dfgen.Sequence(
        df, {"image": "path", "n": "id"}, ["label", "id"], sample_weight="weight", **SMALL
    )
    x, (labels, ids), weights = next(iter(seq.get_tf_dataset()))
    rows = epoch_rows(10, 0)[:SIZE]
    assert [*x] == ["image", "n"]
    for values in (x["n"], ids, np.asarray(x["image"])[:, 0, 0, 0]):
        assert np.asarray(values).tolist() == rows
    assert np.asarray(labels).tolist() == [row % 2 for row in rows]
    assert np.asarray(weights).tolist() == [row / 2 for row in rows]
