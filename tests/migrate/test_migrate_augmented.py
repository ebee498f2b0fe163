"""Batches of augmented images of `dfgen.migrate`, and of Keras's own with fixed parameters."""

import beside_keras
import keras
import numpy as np
import pytest
from beside_keras import BOTH, SIZE, made, picture

from dfgen.errors import ArgumentError
from dfgen.migrate import ImageDataGenerator

pytestmark = pytest.mark.filterwarnings("ignore:Please (import|use):DeprecationWarning")

TURNED = {"theta": 20.0, "tx": 1.5, "ty": -2.0, "shear": 8.0, "zx": 0.9, "zy": 1.2}
LEVELS = {"flip_horizontal": True, "channel_shift_intensity": 20.0, "brightness": 0.8}
IMAGES = np.stack([np.asarray(picture(row).resize((12, 16))) for row in range(9)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("augmented"))


@pytest.fixture(scope="module")
def frame(folder):
    return beside_keras.write_folder(folder)


def fixed(generator, parameters):
    """A generator whose transforms are all the same, as users write one."""

    class Fixed(generator):
        def get_random_transform(self, img_shape, seed=None):
            return parameters

    return Fixed


def assert_near(frame, folder, of, generators=BOTH, fit=False, bound=2.0, **options):
    """Compare all batches, and those that the generators make after `fit`."""
    pair = []
    for generator in generators:
        one = generator(**of)
        if fit:
            one.fit(IMAGES)
        pair.append(one.flow_from_dataframe(frame, folder, **{**SIZE, **options}))
    for index in range(len(pair[1])):
        (ours, our_labels), (theirs, their_labels) = (flow[index] for flow in pair)
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert np.array_equal(our_labels, their_labels)
        for one, other in zip(ours, theirs, strict=True):
            deep = other.max() > 1000  # 16 bits, which Keras leaves
            assert np.abs(one - other).mean() < (257 * bound if deep else bound), index


DEGENERATE = {
    "zoom out": {"zoom_range": [1.3, 1.3]},
    "zoom in": {"zoom_range": (0.7, 0.7), "fill_mode": "reflect"},
    "darker": {"brightness_range": (0.7, 0.7)},
    "brighter": {"brightness_range": [1.6, 1.6], "zoom_range": [1.2, 1.2]},
}


@pytest.mark.parametrize("color_mode", ["rgb", "rgba", "grayscale"])
@pytest.mark.parametrize("case", DEGENERATE)
def test_ranges_of_one_value(frame, folder, case, color_mode):
    assert_near(frame, folder, DEGENERATE[case], color_mode=color_mode)


@pytest.mark.parametrize("fill_mode", ["nearest", "constant", "reflect", "wrap"])
@pytest.mark.parametrize("parameters", [TURNED, {**TURNED, **LEVELS}], ids=["turned", "all"])
def test_fixed_parameters_of_a_subclass(frame, folder, fill_mode, parameters):
    generators = [fixed(generator, parameters) for generator in BOTH]
    assert_near(frame, folder, {"fill_mode": fill_mode, "cval": 99.0}, generators)


def test_channels_first(frame, folder):
    generators = [fixed(generator, TURNED) for generator in BOTH]
    assert_near(frame, folder, {"data_format": "channels_first"}, generators)


@pytest.mark.parametrize(
    "of",
    [
        {"rescale": 1 / 255},
        {"samplewise_center": True, "samplewise_std_normalization": True},
        {"featurewise_center": True, "featurewise_std_normalization": True, "rescale": 0.5},
        {"preprocessing_function": keras.applications.resnet50.preprocess_input},
    ],
    ids=lambda of: next(iter(of)),
)
def test_what_comes_after_transforms(frame, folder, of):
    generators = [fixed(generator, TURNED) for generator in BOTH]
    scale = 255.0 if "preprocessing_function" in of else of.get("rescale", 1 / 40)
    assert_near(frame, folder, of, generators, fit=True, bound=2.0 * scale)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_fit_with_augmentation_finds_the_same_numbers(data_format):
    of = {"featurewise_std_normalization": True, "featurewise_center": True}
    pair = [generator(zoom_range=[1.2, 1.2], data_format=data_format, **of) for generator in BOTH]
    images = IMAGES if data_format == "channels_last" else IMAGES.transpose(0, 3, 1, 2)
    for generator in pair:
        generator.fit(images, augment=True, rounds=2, seed=3)
    ours, theirs = pair
    for name in ("mean", "std"):
        found, expected = getattr(ours, name), getattr(theirs, name)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, atol=0.2)


def test_methods_do_what_those_of_keras_do():
    ours, theirs = (generator(rescale=1 / 255, samplewise_center=True) for generator in BOTH)
    one, other = IMAGES[0].astype(np.float32), IMAGES[0].astype(np.float32)
    made = ours.standardize(one)
    np.testing.assert_allclose(made, theirs.standardize(other), atol=1e-6)
    assert made is one  # in place, and so Keras
    assert np.allclose(one, other, atol=1e-6)
    assert np.allclose(ours.standardize(IMAGES[0]), one, atol=1e-6)
    first, second = (ours.random_transform(IMAGES[1], seed=seed) for seed in (1, 1))
    assert np.array_equal(first, second)
    parameters = ours.get_random_transform((16, 12, 3), seed=1)
    assert parameters.keys() == theirs.get_random_transform((16, 12, 3), seed=1).keys()


def test_draws_belong_to_rows_and_epochs_and_not_to_who_asks(frame, folder):
    arguments = {"rotation_range": 90, "horizontal_flip": True, "width_shift_range": [1, 4]}
    flows = [
        ImageDataGenerator(**arguments).flow_from_dataframe(frame, folder, **{**SIZE, "seed": 5})
        for _ in range(2)
    ]
    one, other = flows
    first = [one[index][0] for index in range(len(one))]
    again = [next(other)[0] for _ in range(len(other))]
    assert all(map(np.array_equal, first, again))
    assert not any(map(np.array_equal, first, [next(other)[0] for _ in range(len(other))]))


def test_what_keras_refuses_is_refused(frame, folder):
    for arguments in ({"zoom_range": (1, 2, 3)}, {"brightness_range": 0.4}):
        pair = [made(generator, "fit", IMAGES, of=arguments)[0] for generator in BOTH]
        assert all(isinstance(error, ValueError) for error in pair)
    ours, theirs = (made(one, "fit", IMAGES[0])[0] for one in BOTH)
    assert isinstance(ours, ArgumentError)
    assert isinstance(theirs, ValueError)
