"""batch_transform: the same batches whoever makes them, and what it may give back."""

import warnings

import keras
import numpy as np
import pytest
import sized

import dfgen
from dfgen.errors import TransformError
from dfgen.loading.workers.chunks import batch_rng

TRIED = "trying it before training, on the labels of the first rows and blank images: "


def sequence(df, batch_transform, **options):
    given = {"image_size": (4, 4), "batch_size": 16, "workers": 2, **options}
    return dfgen.Sequence(df, batch_transform=batch_transform, **given)


def mixup(batch, rng):
    """Labels become soft, images float16."""
    share, other = rng.beta(0.4, 0.4), rng.permutation(len(batch["label"]))
    soft = np.eye(2, dtype=np.float32)[batch["label"]]
    image = batch["image"].astype(np.float16)
    return {
        "image": share * image + (1 - share) * image[other],
        "label": share * soft + (1 - share) * soft[other],
    }


def draw(batch, rng):
    """Labels become what was drawn, one number a sample."""
    return batch | {"label": rng.integers(2**40, size=len(batch["label"]))}


def same(ones, others):
    ones, others = list(ones), list(others)
    assert len(ones) == len(others)
    for one, other in zip(ones, others, strict=True):
        for a, b in zip(keras.tree.flatten(one), keras.tree.flatten(other), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def test_batch_rng_follows_seed_epoch_step_and_process(frame):
    with sequence(frame(48), draw, seed=5, shard=(1, 2)) as seq:
        for epoch in range(2):
            for step, (_, (found, *_), _) in enumerate(seq):
                assert found == batch_rng(5, epoch, step, 1).integers(2**40, size=8)[0]


def test_dtypes_and_shapes_of_samples_may_change(frame):
    with sequence(frame(40), mixup) as seq:
        x, y = seq[2]
        assert (x.shape, x.dtype, y.shape, y.dtype) == (
            (8, 4, 4, 3), np.float16, (8, 2), np.float32,
        )  # fmt: skip
        assert "image 4x4x3 float16, label 2 float32" in repr(seq)
        tensor, _ = seq.get_tf_dataset().element_spec
        assert (tensor.shape.as_list(), tensor.dtype.name) == ([None, 4, 4, 3], "float16")


@pytest.mark.parametrize(
    "label",
    [
        lambda given: np.broadcast_to(np.float32(1), given.shape),
        lambda given: np.frombuffer(given.tobytes(), given.dtype),
    ],
    ids=["in no piece", "not writable"],
)
def test_result_arrays_are_contiguous_and_writable(frame, label):
    def turned(batch, rng):
        return {"image": batch["image"][:, ::-1], "label": label(batch["label"])}

    with sequence(frame(16), turned) as seq:
        for array in seq[0]:
            assert array.flags.c_contiguous
            assert array.flags.writeable


@pytest.mark.parametrize("size", [4, 64])
def test_batches_that_are_kept_stay_as_they_were(frame, size):
    def in_place(batch, rng):
        batch["image"] += np.uint8(1)
        return batch

    with sequence(frame(120), in_place, image_size=(size, size), shuffle=False) as seq:
        kept = [x[:, 0, 0] for x, _ in seq]  # red is the row, green row // 256, blue 0
        for _ in range(2):
            same(seq, [(x, y) for x, y in seq])
    np.testing.assert_array_equal(np.concatenate(kept)[:, 0], np.arange(120) + 1)
    np.testing.assert_array_equal(np.concatenate(kept)[:, 1:], np.ones((120, 2)))


def test_trial_sees_labels_without_reading_files(frame, tmp_path):
    seen = []

    def looks(batch, rng):
        seen.append({name: array.copy() for name, array in batch.items()})
        return batch

    df = frame(10).assign(path=[f"{tmp_path}/{row}.png" for row in range(10)])
    for path in df["path"]:
        open(path, "w").close()  # an empty file, which is refused where it is read
    with dfgen.Sequence(df, {"one": dfgen.Image(size=(4, 4))}, batch_transform=looks):
        (batch,) = seen
    assert batch["one"].shape == (10, 4, 4, 3)
    assert not batch["one"].any()
    assert batch["label"].tolist() == [0, 1] * 5


def test_memory_counts_results_beside_inputs(frame):
    def float64(batch, rng):
        return batch | {"image": batch["image"].astype(float)}

    limits = dfgen.Limits(memory=16 * (48 + 4) * 2)
    sequence(frame(32), lambda batch, rng: batch, limits=limits).close()
    with pytest.raises(dfgen.DfgenError, match=r"^one batch takes 7,040 bytes, more than"):
        sequence(frame(32), float64, limits=limits)


def broken(batch, rng):
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (broken, "raised KeyError: 'no such thing'"),
        (lambda batch, rng: None, "returned None, expected a dict with the keys "
         "['image', 'label']: write batch[\"image\"] = ..., then return batch"),
        (lambda batch, rng: {"image": batch["image"]}, "returned ['image'], expected a dict with "
         "the keys ['image', 'label']: write batch[\"image\"] = ..., then return batch"),
        (lambda batch, rng: batch | {"label": [[1], [1, 2]]}, "returned 'label', which is no "
         "array: setting an array element with a sequence. The requested array has an "
         "inhomogeneous shape after 1 dimensions. The detected shape was (2,) + inhomogeneous "
         "part."),
        (lambda batch, rng: batch | {"label": None}, "returned 'label' as object, expected "
         "numbers"),
        (lambda batch, rng: batch | {"label": batch["label"][1:]}, "returned 'label' of shape "
         "(15,), expected 16 samples, (16, ...)"),
        (lambda batch, rng: batch | {"label": np.float32(1)}, "returned 'label' of shape (), "
         "expected 16 samples, (16, ...)"),
    ],
)  # fmt: skip
def test_a_wrong_one_is_refused_before_training(frame, function, message):
    with pytest.raises(TransformError) as error:
        sequence(frame(32), function)
    assert str(error.value) == f"{TRIED}the batch_transform {message}"


def later(change):
    """A transform that is right at its trial and wrong where there are pixels."""
    return lambda batch, rng: change(batch) if batch["image"].any() else batch


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda batch: {}, "returned [], expected a dict with the keys ['image', 'label']: "
         "write batch[\"image\"] = ..., then return batch"),
        (lambda batch: batch | {"label": np.ones(16)}, "returned 'label' as float64 of shape "
         "(16,), expected int32 of shape (16,), as it returned when it was tried before training"),
        (lambda batch: batch | {"image": batch["image"][:, 1:]}, "returned 'image' as uint8 of "
         "shape (16, 3, 4, 3), expected uint8 of shape (16, 4, 4, 3), as it returned when it was "
         "tried before training"),
        (lambda batch: {name: array[1:] for name, array in batch.items()}, "returned 'image' as "
         "uint8 of shape (15, 4, 4, 3), expected uint8 of shape (16, 4, 4, 3), as it returned when "
         "it was tried before training"),
    ],
)  # fmt: skip
def test_one_that_goes_wrong_later_names_the_batch(frame, change, message, workers=0, **options):
    seq = sequence(frame(32), later(change), shuffle=False, workers=workers, **options)
    with seq, pytest.raises(TransformError) as error:
        seq[1]
    assert str(error.value) == f"batch 1 of epoch 0: the batch_transform {message}"


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"workers": 2}, {"workers": 1, "use_multiprocessing": True}]
)
def test_one_that_raises_later_names_the_batch(frame, options):
    test_one_that_goes_wrong_later_names_the_batch(
        frame, lambda batch: broken(batch, None), "raised KeyError: 'no such thing'", **options
    )


def test_a_trial_of_numbers_warns_of_nothing(frame):
    def standardized(batch, rng):
        pixels = batch["image"].astype(np.float32)
        return batch | {"image": (pixels - pixels.mean()) / pixels.std()}

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sequence(frame(16), standardized).close()
    assert caught == []


@pytest.fixture(scope="module")
def sized_frame(tmp_path_factory):
    return sized.manifest_of(sized.write_images(tmp_path_factory.mktemp("sized")))


def test_batches_of_different_sizes_keep_what_is_different(sized_frame):
    """Sizes that the images have are open in its specs, those that it makes itself are not."""

    def thumbnails(batch, rng):
        image = batch["image"][:, ::-1].astype(np.float32)
        label = np.repeat(image.mean(axis=(1, 2)), 2, axis=1)
        return batch | {"image": image, "label": label}

    with (
        sized.sequence(sized_frame, batch_transform=thumbnails) as seq,
        sized.sequence(sized_frame) as plain,
    ):
        assert [(spec.shape, spec.dtype) for spec in seq.element_spec] == [
            ((None, None, None, 3), "float32"),
            ((None, 6), "float32"),
        ]
        for (x, _), (x0, _) in zip(seq, plain, strict=True):
            np.testing.assert_array_equal(x, x0[:, ::-1])


def test_sizes_and_masks_of_padding_go_through_it(sized_frame):
    seen = []

    def looks(batch, rng):
        seen.append({name: array.shape for name, array in batch.items()})
        return batch

    image = dfgen.Image(size=None, padding_mask=True)
    with sized.sequence(sized_frame, image, batch_transform=looks) as seq:
        x, _ = seq[0]
    height, width = x["images"].shape[1:3]
    assert seen[-1]["image_padding_mask"] == (4, height, width, 1)
    assert len(seen) == 3  # two trials, and the batch
