"""`dfgen.migrate` beside Keras's own `ImageDataGenerator`, on the same files, batch by batch."""

import contextlib
import io
import warnings

import keras_files
import numpy as np
import pandas as pd
import pytest
from keras.src.legacy.preprocessing import image as legacy

from dfgen.migrate import ImageDataGenerator

SIZE = {"target_size": (16, 12), "batch_size": 5, "shuffle": False}
ATTRIBUTES = [
    "samples", "n", "batch_size", "image_shape", "class_indices", "classes", "labels", "filenames",
    "filepaths", "class_mode", "color_mode", "data_format", "dtype", "interpolation", "seed",
    "save_to_dir", "save_prefix", "save_format", "shuffle", "subset", "target_size", "num_classes",
    "keep_aspect_ratio", "batch_index", "total_batches_seen", "sample_weight", "directory",
    "white_list_formats", "allowed_class_modes",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    keras_files.write_folder(folder)
    return str(folder)


@pytest.fixture
def frame(folder, tmp_path):
    return keras_files.write_folder(tmp_path).sample(frac=1, random_state=3)


def made(generator, flow, *arguments, of=None, **options):
    """What one of the two makes, or raises; what it warns of, and what it prints."""
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            result = getattr(generator(**(of or {})), flow)(*arguments, **options)
        except Exception as error:
            result = error
    told = [(one.category, str(one.message)) for one in caught]
    return result, told, printed.getvalue()


def both(flow, *arguments, **options):
    pairs = [
        made(generator, flow, *arguments, **options)
        for generator in (ImageDataGenerator, legacy.ImageDataGenerator)
    ]
    (ours, our_warnings, our_print), (theirs, their_warnings, their_print) = pairs
    assert our_print == their_print
    assert [one[0] for one in our_warnings] == [one[0] for one in their_warnings]
    for (_, our), (_, their) in zip(our_warnings, their_warnings, strict=True):
        assert our.startswith(their), "Keras's own words come first"
    return ours, theirs


def same(ours, theirs, atol=0.0):
    """Compare two arrays, or lists of them: dtypes, shapes, values."""
    if isinstance(theirs, pd.api.extensions.ExtensionArray):  # text of pandas 3
        theirs = np.asarray(theirs)
    assert type(ours) is type(theirs)
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, atol)
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype.kind in "OU":
            assert ours.tolist() == theirs.tolist()
        else:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)
    else:
        assert ours == theirs


def assert_same(ours, theirs, atol=0.0):
    """Compare iterators: what they tell of themselves, then batches by index and by `next`."""
    for name in ATTRIBUTES:
        assert hasattr(ours, name) == hasattr(theirs, name), name
        if hasattr(theirs, name):
            same(getattr(ours, name), getattr(theirs, name))
    assert len(ours) == len(theirs)
    for index in range(len(theirs)):
        same(ours[index], theirs[index], atol)
    for _ in range(len(theirs) + 1 if len(theirs) else 0):
        same(next(ours), next(theirs), atol)
        assert ours.batch_index == theirs.batch_index
        assert ours.total_batches_seen == theirs.total_batches_seen
        assert ours.index_array.tolist() == theirs.index_array.tolist()


def of_frame(frame, folder, of=None, **options):
    return both("flow_from_dataframe", frame, folder, of=of, **{**SIZE, **options})


@pytest.mark.parametrize("color_mode", ["rgb", "rgba", "grayscale"])
@pytest.mark.parametrize(
    "interpolation", ["nearest", "bilinear", "bicubic", "hamming", "box", "lanczos"]
)
def test_pixels_of_every_kind_of_file(folder, frame, color_mode, interpolation):
    pair = of_frame(frame, folder, color_mode=color_mode, interpolation=interpolation)
    assert_same(*pair)


@pytest.mark.parametrize(
    ("class_mode", "options"),
    [
        ("categorical", {}),
        ("categorical", {"y_col": "tags"}),
        ("categorical", {"y_col": "tags", "classes": ["owl", "cat"]}),
        ("categorical", {"classes": ("dog", "owl", "dog")}),
        ("sparse", {"weight_col": "share"}),
        ("sparse", {"classes": ["owl", "dog", "cat"], "weight_col": "number"}),
        ("binary", {"classes": ["owl", "dog"]}),
        ("raw", {"y_col": "number"}),
        ("raw", {"y_col": "class"}),
        ("raw", {"y_col": ["number", "share"], "weight_col": "share"}),
        ("raw", {"y_col": ["number", "class"]}),
        ("other", {"y_col": "share"}),
        ("multi_output", {"y_col": ["number", "share"]}),
        ("multi_output", {"y_col": ["tags"], "weight_col": "share"}),
        ("input", {"weight_col": "number"}),
        (None, {}),
        (None, {"weight_col": "share", "y_col": "no such column"}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", [None, "float64", "uint8"])
def test_targets_and_weights_of_every_class_mode(folder, frame, class_mode, options, dtype):
    with warnings.catch_warnings():
        ours, theirs = pair_without_words(frame, folder, {"dtype": dtype}, class_mode, options)
    assert_same(ours, theirs)


def pair_without_words(frame, folder, of, class_mode, options):
    """Both, where dfgen tells more than Keras does: of rows that it leaves out."""
    ours, theirs = (
        made(one, "flow_from_dataframe", frame, folder, of=of, class_mode=class_mode,
             **{**SIZE, **options})[0]
        for one in (ImageDataGenerator, legacy.ImageDataGenerator)
    )  # fmt: skip
    return ours, theirs


@pytest.mark.parametrize("subset", ["training", "validation", None])
@pytest.mark.parametrize("validation_split", [0.3, 0.01, 0.0])
@pytest.mark.parametrize("flow", ["flow_from_dataframe", "flow_from_directory"])
def test_subsets_are_the_same_rows(folder, frame, flow, subset, validation_split):
    data = (frame, folder) if flow == "flow_from_dataframe" else (folder,)
    of = {"validation_split": validation_split, "rescale": 1 / 255}
    ours, theirs = both(flow, *data, of=of, subset=subset, **SIZE)
    assert_same(ours, theirs)


@pytest.mark.parametrize("class_mode", ["categorical", "sparse", "binary", "input", None])
@pytest.mark.parametrize("options", [{}, {"classes": ["owl", "cat", "none"]}, {"save_prefix": "a"},
                                     {"keep_aspect_ratio": True, "interpolation": "bilinear"},
                                     {"keep_aspect_ratio": True}], ids=repr)  # fmt: skip
def test_folders_are_classes(folder, class_mode, options):
    assert_same(*both("flow_from_directory", folder, class_mode=class_mode, **{**SIZE, **options}))
