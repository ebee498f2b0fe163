"""What is proposed for a reader's files, by what they are made to be and how large they are."""

import cv2
import numpy as np
import pyarrow as pa
import pytest

from dfgen.explain.remedies import Remedy, remedies
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.column import Column
from dfgen.samples.features.image import Image
from dfgen.samples.features.number import Number
from dfgen.samples.reader import SampleReader

ALIASED = "Image(antialias=False), which aliases"
RESCALED = "scale=None and keras.layers.Rescaling in the model"
NORMALIZED = "scale=None and keras.layers.Normalization(mean=..., variance=...) in the model"
FEWER = "files of fewer pixels, as these have 9.0 times as many as are used"


@pytest.fixture
def paths(tmp_path):
    """Ten PNGs of 90x120 pixels."""
    for row in range(10):
        cv2.imwrite(f"{tmp_path}/{row}.png", np.zeros((90, 120, 3), np.uint8))
    return [f"{tmp_path}/{row}.png" for row in range(10)]


def reader(paths, *features, transform=None):
    values = pa.array(paths)
    bound = [BoundFeature(f"x{place}", one, values) for place, one in enumerate(features)]
    return SampleReader(np.arange(len(paths)), tuple(bound), transform)


def found(paths, **options):
    return [one.what for one in remedies(reader(paths, Image(**options)))]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"size": (70, 95)}, [ALIASED]),
        ({"size": (70, 95), "antialias": False}, []),
        ({"size": (70, 95), "interpolation": "nearest"}, []),
        ({"size": (90, 120)}, []),
        ({"size": (180, 240)}, []),
        ({"size": (60, 60), "resize": "crop_or_pad"}, []),
        ({"size": None}, []),
        ({"size": (30, 40)}, [FEWER, ALIASED]),
        ({"size": (30, 40), "crop": "random_resized"}, []),  # a small crop uses all pixels
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_smaller_files_and_no_filter_are_named_where_images_shrink(paths, options, named):
    assert found(paths, **options) == named


@pytest.mark.parametrize(
    ("scale", "layer"),
    [
        ("0..1", RESCALED), ("tf", RESCALED), ((1 / 255, 0), RESCALED), ("torch", NORMALIZED),
        (((0.5,) * 3, (0.2,) * 3), NORMALIZED), ("standardize", None), ("caffe", None),
        (None, None),
    ],
)  # fmt: skip
def test_scaling_in_the_model_is_named_where_a_layer_of_keras_does_it(paths, scale, layer):
    assert found(paths, size=(90, 120), scale=scale) == ([] if layer is None else [layer])


def test_scaling_to_a_dtype_that_was_asked_for_stays(paths):
    assert found(paths, size=(90, 120), scale="0..1", dtype="float16") == []


def test_each_remedy_tells_what_it_leaves_of_which_stage(paths):
    told = remedies(reader(paths, Image(size=(30, 40), scale="0..1"), Image(size=(30, 40))))
    assert told == [
        Remedy(FEWER, pytest.approx({"decode": 1 / 9, "resize": 1 / 9})),
        Remedy(ALIASED, {"resize": 0.3}),
        Remedy(RESCALED, {"scale": 0.0}),
    ]


def test_functions_of_the_user_are_not_called(paths):
    def fails(*given):
        raise AssertionError

    column = Column("age", fails, shape=(1,))
    with_functions = reader(paths, Image(size=(70, 95)), column, transform=fails)
    assert [one.what for one in remedies(with_functions)] == [ALIASED]


def test_a_table_without_files_has_nothing_to_propose():
    numbers = (BoundFeature("age", Number("age"), np.zeros(3, np.float32)),)
    assert remedies(SampleReader(np.arange(3), numbers)) == []


def test_files_that_cannot_be_read_are_passed_over(paths, tmp_path):
    (tmp_path / "0.png").unlink()
    (tmp_path / "9.png").write_bytes(b"no image")
    assert found(paths, size=(70, 95)) == [ALIASED]
    assert found([f"{tmp_path}/gone.png"] * 3, size=(4, 4)) == []
