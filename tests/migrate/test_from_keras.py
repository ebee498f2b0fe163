"""`from_keras`: an iterator of Keras's ImageDataGenerator as a Sequence with equal batches."""

import numpy as np
import pandas as pd
import pytest
from keras.src.legacy.preprocessing.image import ImageDataGenerator
from PIL import Image

import dfgen
import dfgen.migrate
from dfgen.errors import ArgumentError

KINDS = ("cat", "dog", "owl")
ROTATED = Image.Exif()
ROTATED[0x0112] = 6
FILES = [
    ("jpg", "RGB", {"quality": 90}), ("png", "RGB", {}), ("jpg", "L", {}), ("png", "RGBA", {}),
    ("jpg", "RGB", {"exif": ROTATED}), ("bmp", "RGB", {}), ("png", "P", {}), ("tif", "RGB", {}),
    ("png", "LA", {}), ("png", "L", {}), ("jpg", "CMYK", {}),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("kinds"), np.random.default_rng(0)
    for row, (suffix, mode, options) in enumerate(FILES):
        pixels = rng.integers(0, 256, (9 + 2 * row, 31 - row, 4), np.uint8)
        picture = Image.fromarray(pixels if mode in ("RGBA", "LA") else pixels[..., :3])
        path = folder / KINDS[row % 3] / f"{row:02}.{suffix}"
        path.parent.mkdir(exist_ok=True)
        (picture.quantize(16) if mode == "P" else picture.convert(mode)).save(path, **options)
    return folder


def flow(folder, *, generator=ImageDataGenerator, of=None, **options):
    """Return an iterator of `flow_from_dataframe` with rows in another order than their index."""
    paths = [str(path.relative_to(folder)) for path in sorted(folder.glob("*/*"))]
    kinds, number = [path[:3] for path in paths], [int(path[4:6]) for path in paths]
    df = pd.DataFrame({"filename": paths, "class": kinds, "number": number})
    df = df.assign(share=df.number / 8, tags=[[kind, "cat"] for kind in kinds])
    df = df.sample(frac=1, random_state=3)
    size = {"target_size": (16, 12), "batch_size": 4, "shuffle": False}
    return generator(**(of or {})).flow_from_dataframe(df, str(folder), **{**size, **options})


def parts(batch):
    """Return the arrays of a batch of Keras or dfgen, in order."""
    batch = [*batch.values()] if isinstance(batch, dict) else batch
    if isinstance(batch, tuple | list):
        return [array for part in batch if part is not None for array in parts(part)]
    return [np.asarray(batch)]


def assert_equal(flow, **options):
    seq = dfgen.migrate.from_keras(flow, **options)
    assert isinstance(seq, dfgen.Sequence) and len(seq) == len(flow)
    for i in range(len(flow)):
        ours, theirs = parts(seq[i]), parts(flow[i])
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs, strict=True):
            their = their[:, None] if our.shape == (*their.shape, 1) else their  # binary labels
            assert our.shape == their.shape
            np.testing.assert_array_equal(our, their.astype(our.dtype))


class Inverted(ImageDataGenerator):
    def standardize(self, x):
        return 255 - super().standardize(x)


OPTIONS = [
    *({"interpolation": name} for name in ("nearest", "bilinear", "bicubic", "lanczos")),
    {"color_mode": "grayscale", "interpolation": "hamming"}, {"keep_aspect_ratio": True},
    {"color_mode": "rgba", "interpolation": "box"}, {"target_size": (5, 40), "batch_size": 11},
    {"of": {"validation_split": 0.3, "rescale": 1 / 255}, "subset": "training"},
    {"of": {"validation_split": 0.3}, "subset": "validation"},
    {"of": {"samplewise_center": True, "preprocessing_function": np.sqrt}, "generator": Inverted},
    {"class_mode": "sparse"}, {"class_mode": "categorical"}, {"class_mode": "input"},
    {"class_mode": "sparse", "classes": ["owl", "dog", "cat"], "weight_col": "share"},
    {"class_mode": "categorical", "y_col": "tags"}, {"class_mode": None},
    {"class_mode": "binary", "classes": ["owl", "cat"]},
    {"class_mode": "raw", "y_col": "share", "weight_col": "number"},
    {"class_mode": "raw", "y_col": ["number", "share"]},
    {"class_mode": "multi_output", "y_col": ["number", "share"]},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_pixels_targets_and_weights_equal_those_of_keras(folder, options):
    assert_equal(flow(folder, **options))


def test_folders_equal_those_of_keras(folder):
    options = {"target_size": (7, 9), "batch_size": 3, "shuffle": False}
    assert_equal(ImageDataGenerator().flow_from_directory(str(folder), **options), workers=2)


def noisy(image):
    return image + np.random.normal(0, 9, image.shape)


@pytest.mark.parametrize(
    "of",
    [
        {"rotation_range": 30, "horizontal_flip": True, "zoom_range": 0.2},
        {"preprocessing_function": noisy, "brightness_range": (0.5, 2)},
    ],
    ids=["moved", "own function"],
)
def test_random_transforms_depend_on_seed_epoch_and_row(folder, of):
    def epochs(seed=7, **options):
        with dfgen.migrate.from_keras(flow(folder, of=of, seed=seed), **options) as seq:
            return [np.concatenate([batch[0] for batch in seq]) for _ in range(2)]

    first, second = epochs(workers=0)
    for workers in (1, 2):
        np.testing.assert_array_equal(epochs(workers=workers), [first, second])
    assert (first != second).any(axis=(1, 2, 3)).sum() > 8
    assert (first != epochs(seed=8)[0]).any(axis=(1, 2, 3)).sum() > 8


def test_shuffled_rows_come_once(folder):
    options = {"shuffle": True, "class_mode": "raw", "y_col": "number"}
    numbers = [n for batch in dfgen.migrate.from_keras(flow(folder, **options)) for n in batch[1]]
    assert sorted(numbers) == list(range(11)) != numbers


def test_other_iterators_are_refused(folder):
    for other in (ImageDataGenerator().flow(np.zeros((4, 8, 8, 3))), str(folder), None):
        with pytest.raises(ArgumentError, match="ImageDataGenerator"):
            dfgen.migrate.from_keras(other)


@pytest.mark.parametrize("options", [{"transform": noisy}, {"y": "class"}, {"image_size": (3, 4)}])
def test_arguments_that_the_flow_sets_are_refused(folder, options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        dfgen.migrate.from_keras(flow(folder), **options)
