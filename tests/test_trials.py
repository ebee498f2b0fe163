"""What is proposed for a reader's files: what changes the arrays and saves time on those files."""

import cv2
import numpy as np
import pyarrow as pa
import pytest

from dfgen.errors import MissingFileError
from dfgen.loading import trials
from dfgen.loading.trials import Remedy, remedies
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.column import Column
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.features.number import Number
from dfgen.samples.reader import SampleReader

ALIASED = "Image(antialias=False), which aliases"
RESCALED = "scale=None and keras.layers.Rescaling in the model"
NORMALIZED = "scale=None and keras.layers.Normalization(mean=..., variance=...) in the model"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A CPU's time that goes by the work: filters and scaling cost 10, all else 1."""
    cost = {"resize": 1.0}
    monkeypatch.setattr(trials, "_CpuWatch", lambda: _Counted(cost))
    resize = Image.read

    def read(self, *given):
        cost["resize"] = 10.0 if self.antialias else 1.0
        return resize(self, *given)

    monkeypatch.setattr(Image, "read", read)


class _Counted:
    def __init__(self, cost):
        self.cost, self.seconds = cost, {}

    def __call__(self, stage, nbytes=0):
        if stage:
            self.seconds[stage] = self.seconds.get(stage, 0) + self.cost.get(stage, 1.0)


@pytest.fixture
def paths(tmp_path):
    """Ten JPEGs of 90x120 pixels."""
    random = np.random.default_rng(0)
    for row in range(10):
        cv2.imwrite(f"{tmp_path}/{row}.jpg", random.integers(0, 256, (90, 120, 3), np.uint8))
    return [f"{tmp_path}/{row}.jpg" for row in range(10)]


def reader(paths, *features, transform=None):
    values = pa.array(paths)
    bound = [BoundFeature(f"x{place}", one, values) for place, one in enumerate(features)]
    return SampleReader(np.arange(len(paths)), tuple(bound), transform)


def found(paths, **options):
    return {one.what: one.left for one in remedies(reader(paths, Image(**options)))}


def test_a_filter_that_is_not_needed_is_named_where_images_shrink(paths):
    assert found(paths, size=(70, 95)) == {ALIASED: {"resize": 0.1}}


@pytest.mark.parametrize(
    "options",
    [
        {"size": (90, 120)},
        {"size": (60, 60), "resize": "crop_or_pad"},
        {"size": (180, 240)},
        {"size": (70, 95), "antialias": False},
        {"size": (70, 95), "interpolation": "nearest"},
    ],
    ids=["of the size", "crop_or_pad", "enlarged", "without", "nearest"],
)
def test_antialias_is_not_named_where_it_does_nothing(paths, options):
    assert ALIASED not in found(paths, **options)


@pytest.mark.parametrize(
    ("scale", "layer"),
    [
        ("0..1", RESCALED),
        ("tf", RESCALED),
        ((1 / 255, 0), RESCALED),
        ("torch", NORMALIZED),
        (((0.5,) * 3, (0.2,) * 3), NORMALIZED),
        ("standardize", None),
        ("caffe", None),
        (None, None),
    ],
)
def test_scaling_in_the_model_is_named_where_a_layer_of_keras_does_it(paths, scale, layer):
    named = found(paths, size=(90, 120), scale=scale)
    assert named == ({} if layer is None else {layer: {"scale": 0.0}})


def test_scaling_to_a_dtype_that_was_asked_for_stays(paths):
    assert found(paths, size=(90, 120), scale="0..1", dtype="float16") == {}


def test_smaller_files_are_named_where_these_have_more_pixels_than_are_used(paths):
    what = "files of fewer pixels, as these have 9.0 times as many as are used"
    assert found(paths, size=(30, 40), antialias=False) == {
        what: pytest.approx({"decode": 1 / 9, "resize": 1 / 9})
    }
    assert found(paths, size=(70, 95), antialias=False) == {}
    crops = {"size": (30, 40), "crop": "random_resized", "antialias": False}
    assert found(paths, **crops) == {}  # a small crop uses them all


def test_two_images_are_tried_together(paths):
    both = reader(paths, Image(size=(70, 95)), Image(size=(70, 95)))
    assert remedies(both) == [Remedy(ALIASED, {"resize": 0.1})]


def test_a_mask_that_follows_its_image_is_tried_with_it(paths):
    image, mask = Image(size=(70, 95)), Mask("path", like=Image(size=(70, 95)))
    masks = [path.replace("jpg", "png") for path in paths]
    for path in masks:
        cv2.imwrite(path, np.zeros((90, 120), np.uint8))
    features = (
        BoundFeature("image", image, pa.array(paths)),
        BoundFeature("mask", mask, pa.array(masks), like="image"),
    )
    assert [one.what for one in remedies(SampleReader(np.arange(10), features))] == [ALIASED]


def test_functions_of_the_user_are_not_called(paths):
    def fails(*given):
        raise AssertionError

    column = Column("age", fails, shape=(1,))
    with_functions = reader(paths, Image(size=(70, 95)), column, transform=fails)
    assert [one.what for one in remedies(with_functions)] == [ALIASED]


def test_a_table_without_files_has_nothing_to_try():
    numbers = (BoundFeature("age", Number("age"), np.zeros(3, np.float32)),)
    assert remedies(SampleReader(np.arange(3), numbers)) == []


def test_files_that_cannot_be_read_are_passed_over(paths, tmp_path):
    (tmp_path / "0.jpg").unlink()
    (tmp_path / "9.jpg").write_bytes(b"no image")
    assert found(paths, size=(70, 95)) == {ALIASED: {"resize": 0.1}}
    gone = [f"{tmp_path}/gone.jpg"] * 3
    with pytest.raises(MissingFileError):
        reader(gone, Image(size=(4, 4))).read(0, {"x0": np.zeros((4, 4, 3), np.uint8)}, None)
    assert found(gone, size=(4, 4)) == {}


def test_trying_costs_a_few_rows_and_real_time_is_that_on_a_cpu(paths, monkeypatch):
    monkeypatch.undo()
    tried = remedies(reader(paths, Image(size=(90, 120), scale=(((0.5,) * 3, (0.2,) * 3)))))
    assert [one.what for one in tried] == [NORMALIZED]
