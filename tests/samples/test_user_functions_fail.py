"""Transforms of users that fail, or return something else."""

import traceback

import numpy as np
import pytest
from public.first_batch import batch_of, equal
from public.test_own_feature import every_way as every_way

import dfgen
from dfgen.errors import DfgenError, TransformError


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s, rng: None, lambda s, rng: s["image"], lambda s, rng: {"image": s["image"]},
        lambda s, rng: {**s, "more": 1}, lambda s, rng: {**s, "image": s["image"][1:]},
        lambda s, rng: {**s, "image": s["image"] / 255}, lambda s, rng: {**s, "label": "a"},
    ],
)  # fmt: skip
def test_a_transform_must_return_what_it_got(frame, wrong):
    with pytest.raises(TransformError, match="id"):
        batch_of(frame(3), "path", "label", transform=wrong)


def failing(sample, rng):
    red = int(sample["image"][0, 0, 0])
    return sample if red < 3 else {}["the line that fails"]


def failing_column(number):
    return number if number < 3 else {}["the line that fails"]


@every_way
def test_errors_of_user_functions_name_row_and_line(frame, how):
    df = frame(4).assign(id=["a", "b", "c", "row-d"], number=range(4))
    image = dfgen.Image(size=(4, 4))
    for x, options in (
        (image, {"transform": failing}),
        (dfgen.Column("number", failing_column), {}),
    ):
        with pytest.raises(DfgenError, match="row-d") as caught:
            batch_of(df, x, "label", **options, **how)
        trace = "".join(traceback.format_exception(caught.value))
        assert '{}["the line that fails"]' in trace and "KeyError" in trace


@pytest.mark.parametrize(
    "wrong",
    [
        lambda b, rng: None, lambda b, rng: {"image": b["image"]},
        lambda b, rng: {**b, "label": b["label"][1:]}, lambda b, rng: {**b, "image": 1},
        lambda b, rng: 1 // 0,
    ],
)  # fmt: skip
def test_a_batch_transform_must_return_whole_arrays(frame, wrong):
    with pytest.raises(DfgenError, match=r"batch.transform"):
        batch_of(frame(6), "path", "label", batch_transform=wrong, image_size=(4, 4))


def mixup(batch, rng):
    share = np.float32(rng.beta(0.4, 0.4))
    other = rng.permutation(len(batch["label"]))
    soft = np.eye(2, dtype=np.float32)[batch["label"]]
    image = batch["image"].astype(np.float32)
    return {
        "image": share * image + (1 - share) * image[other],
        "label": share * soft + (1 - share) * soft[other],
    }


@every_way
def test_mixup_as_batch_transform_with_weights(frame, how):
    df = frame(24).assign(weight=np.arange(24) / 4)
    given = {"image_size": (4, 4), "batch_size": 10, "sample_weight": "weight"}
    epochs = []
    for options in (how, {"workers": 0}):
        with dfgen.Sequence(df, "path", "label", batch_transform=mixup, **given, **options) as seq:
            epochs.append([seq[2], *seq, *seq])
    with dfgen.Sequence(df, "path", "label", **given, workers=0) as seq:
        plain = [*seq]
    for batch, expected in zip(*epochs, strict=True):
        equal([*map(np.asarray, batch)], [*map(np.asarray, expected)])
    equal(np.asarray(epochs[0][0][0]), np.asarray(epochs[0][3][0]))
    for (x, y, weights), (images, labels, own) in zip(epochs[0][1:4], plain, strict=True):
        rows, soft = np.asarray(images)[:, 0, 0, 0].astype(float), np.asarray(y)
        equal(np.asarray(weights), np.asarray(own))
        np.testing.assert_allclose(own, rows / 4)
        assert (soft.shape, soft.dtype, x.dtype) == ((len(x), 2), np.float32, np.float32)
        np.testing.assert_allclose(soft.sum(0), np.eye(2)[np.asarray(labels)].sum(0), atol=1e-5)
        np.testing.assert_allclose(np.asarray(x)[:, 0, 0, 0].sum(), rows.sum(), rtol=1e-5)
