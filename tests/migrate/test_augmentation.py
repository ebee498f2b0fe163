"""Random transforms of ImageDataGenerator, beside Keras's own."""

import math
from itertools import product
from pathlib import Path

import cv2
import keras
import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from keras.src.legacy.preprocessing.image import ImageDataGenerator as Reference

from dfgen.errors import ArgumentError
from dfgen.migrate.augmentation import FILL_MODES, Augmentation

# what SciPy says to Keras
pytestmark = pytest.mark.filterwarnings("ignore:Please (import|use):DeprecationWarning")

# Eileen Collins, by NASA, in the public domain: https://flic.kr/p/r9qvLn
PHOTOGRAPH = cv2.imread(str(Path(__file__).parents[1] / "data" / "astronaut.jpg"))[..., ::-1]
PHOTOGRAPH = PHOTOGRAPH.astype(np.float32)
IMAGES = {
    "rgb": PHOTOGRAPH, "gray": PHOTOGRAPH[20:, :, :1],
    "rgba": np.concatenate([PHOTOGRAPH[:70], PHOTOGRAPH[30:100, ::-1, :1]], axis=2),
    "tall": PHOTOGRAPH[:90, 30:37], "tiny": PHOTOGRAPH[40:45, 50:57],
    "one row": PHOTOGRAPH[50:51, :9], "one pixel": PHOTOGRAPH[50:51, 60:61],
}  # fmt: skip
SMOOTH = cv2.blur(IMAGES["rgba"], (5, 5))  # few pixels of an edge say more of OpenCV's 32nds
AFFINE = [
    {"theta": 90, "tx": 0.25, "ty": 0.25},  # else places of some lie just between two pixels
    {"theta": -180.0},
    {"theta": 17.5},
    {"tx": 3},
    {"ty": -4.5},
    {"tx": 500, "ty": -333.25},
    {"shear": 30.0},
    {"shear": -75.0},
    {"zx": 1.3, "zy": 0.7},
    {"zx": 0, "zy": -2.5},
    {"theta": 33, "tx": 2, "ty": 3, "shear": 11, "zx": 0.8, "zy": 1.1},
]
LEVELS = [
    {"channel_shift_intensity": 40.5}, {"channel_shift_intensity": -300}, {"brightness": 0},
    {"brightness": 0.7}, {"brightness": 1.8}, {"flip_horizontal": True},
    {"flip_vertical": 1, "flip_horizontal": 0},
    {"theta": 10, "channel_shift_intensity": -33, "flip_horizontal": 1, "brightness": 1.2}, {},
]  # fmt: skip
NEAR = 0.5  # of 255, on average: older OpenCV knows places to a 32nd of a pixel
BOUND = 2.0  # promised


def difference(image, parameters, **arguments):
    """The mean difference of what this and Keras make of an image."""
    before = image.copy()
    made = Augmentation(**arguments).apply(image, parameters)
    expected = Reference(**arguments).apply_transform(image.copy(), parameters)
    assert (made.dtype, made.shape) == (np.float32, expected.shape)
    assert np.array_equal(image, before)
    return float(np.abs(made - expected).mean())


@each("image", IMAGES)
@each("fill_mode", FILL_MODES)
def test_geometry_and_filling_are_those_of_keras(image, fill_mode):
    for parameters, order in product(AFFINE, (0, 1)):
        arguments = {"fill_mode": fill_mode, "cval": 77.0, "interpolation_order": order}
        assert difference(IMAGES[image], parameters, **arguments) < NEAR, (parameters, order)


@pytest.mark.parametrize("image", IMAGES)
def test_levels_and_flips_are_those_of_keras(image):
    for parameters in LEVELS:
        exact = "theta" not in parameters
        bound = 1e-6 if exact else NEAR
        assert difference(IMAGES[image], parameters) < bound, parameters


@pytest.mark.parametrize("order", (2, 3, 4, 5))
def test_splines_are_near_to_those_of_keras(order):
    for fill_mode, image in product(FILL_MODES, ("rgb", "gray", "tall")):
        arguments = {"fill_mode": fill_mode, "interpolation_order": order}
        for parameters in AFFINE[2::4] + AFFINE[-1:]:
            assert difference(IMAGES[image], parameters, **arguments) < BOUND, fill_mode


@pytest.mark.parametrize("offset, factor", [(-100, 1.5), (90, 0.4), (0, 3.0)])
def test_brightness_outside_0_to_255_is_that_of_keras(offset, factor):
    image = PHOTOGRAPH * np.float32(1.2) + np.float32(offset)
    assert difference(image, {"brightness": factor}) < 1e-4


def test_brightness_of_an_even_image_outside_the_range_is_that_of_keras():
    assert difference(np.full((4, 5, 3), 300, np.float32), {"brightness": 0.5}) == 0


@settings(max_examples=60, deadline=None)
@given(
    height=st.integers(1, 60),
    width=st.integers(1, 60),
    channels=st.sampled_from((1, 3, 4)),
    fill_mode=st.sampled_from(list(FILL_MODES)),
    flips=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 2**32),
)
def test_any_draw_is_applied_as_by_keras(height, width, channels, fill_mode, flips, seed):
    given = {
        "rotation_range": 180, "width_shift_range": 0.9, "height_shift_range": [3, 50],
        "shear_range": 60, "zoom_range": 0.6, "channel_shift_range": 60,
        "brightness_range": (0.2, 1.8), "fill_mode": fill_mode, "cval": 9,
        "horizontal_flip": flips[0], "vertical_flip": flips[1],
    }  # fmt: skip
    image = SMOOTH[5 : 5 + height, 30 : 30 + width, :channels]
    parameters = Augmentation(**given).draw(image.shape, np.random.default_rng(seed))
    assert difference(image, parameters, **given) <= BOUND


DRAWN = {
    "rotation": {"rotation_range": 40},
    "negative rotation": {"rotation_range": -40.5},
    "share": {"width_shift_range": 0.25, "height_shift_range": 0.125},
    "pixels": {"width_shift_range": 30.0, "height_shift_range": 1.5},
    "whole pixels": {"width_shift_range": 9, "height_shift_range": 3},
    "one whole pixel": {"width_shift_range": 1},
    "one pixel": {"width_shift_range": 1.0, "height_shift_range": [0.5, 1]},
    "negative whole pixels": {"width_shift_range": -3},
    "list of shares": {"width_shift_range": [0.1, 0.2, 0.5], "height_shift_range": (0.25,)},
    "list of pixels": {"width_shift_range": [-20, 5, 11], "height_shift_range": [0.5, 2.5]},
    "list of negative pixels": {"width_shift_range": [-3, -1]},
    "no list": {"width_shift_range": [], "height_shift_range": ()},
    "shear": {"shear_range": 12},
    "zoom": {"zoom_range": 0.3},
    "zoom pair": {"zoom_range": [1.4, 0.6]},
    "fixed zoom": {"zoom_range": (1.2, 1.2)},
    "channels": {"channel_shift_range": 25.5},
    "brightness": {"brightness_range": [0.4, 1.1]},
    "flips": {"horizontal_flip": True, "vertical_flip": True},
    "nothing": {},
    "nothing, by None": dict.fromkeys(
        ("rotation_range", "shear_range", "width_shift_range", "height_shift_range")
    ),
}


@each("case", DRAWN)
def test_draws_are_distributed_as_those_of_keras(case):
    """Two samples of one distribution differ as much with a probability of one in 10^5."""
    count, shape = 2000, (120, 80, 3)
    rng, augmentation = np.random.default_rng(8), Augmentation(**DRAWN[case])
    reference = Reference(**DRAWN[case])
    np.random.seed(8)
    ours = [augmentation.draw(shape, rng) for _ in range(count)]
    theirs = [reference.get_random_transform(shape) for _ in range(count)]
    assert ours[0].keys() == theirs[0].keys()
    for name in ours[0]:
        one, two = ([drawn[name] for drawn in drawns] for drawns in (ours, theirs))
        if None in two:
            assert set(one) == set(two) == {None}
        elif len(set(two)) < 20:  # a few numbers: which, and how often each
            values, counts = np.unique(np.round(np.float64(one), 9), return_counts=True)
            expected, shares = np.unique(np.round(np.float64(two), 9), return_counts=True)
            assert np.array_equal(values, expected), name
            assert np.abs(counts - shares).max() < 4.8 * math.sqrt(count / 2), name
        else:
            assert largest_gap(one, two) < 2.47 * math.sqrt(2 / count), name


def largest_gap(one, two):
    """The statistic of Kolmogorov and Smirnov."""
    both = np.sort(np.concatenate([one, two]))
    shares = (np.searchsorted(np.sort(values), both, "right") / len(both) for values in (one, two))
    return float(np.abs(np.subtract(*shares)).max())


def test_draws_depend_on_their_generator_alone():
    augmentation = Augmentation(
        rotation_range=9, width_shift_range=[1, 5], zoom_range=0.2, horizontal_flip=True
    )
    np.random.seed(1)
    first = [augmentation.draw((9, 9, 1), np.random.default_rng(row)) for row in range(20)]
    np.random.seed(2)
    again = [augmentation.draw((9, 9, 1), np.random.default_rng(row)) for row in range(20)]
    assert first == again
    assert len({drawn["theta"] for drawn in first}) == 20


def test_bytes_become_float32_and_what_nothing_changes_stays():
    image = PHOTOGRAPH.astype(np.uint8)
    assert np.array_equal(Augmentation().apply(image, {}), PHOTOGRAPH)
    assert Augmentation().apply(image, {}).dtype == np.float32
    assert Augmentation().apply(PHOTOGRAPH, {}) is PHOTOGRAPH


def test_equal_arguments_make_equal_augmentations():
    one = Augmentation(zoom_range=0.25, width_shift_range=[1, 2], brightness_range=[0.5, 1])
    two = Augmentation(
        zoom_range=(0.75, np.float64(1.25)),
        width_shift_range=np.array([1, 2]),
        brightness_range=(0.5, 1),
    )
    assert one == two
    assert hash(one) == hash(two)


@each(
    "arguments, message",
    [
        ({"zoom_range": (1, 2, 3)},
         "zoom_range must be a float or a tuple or list of two floats, got (1, 2, 3)"),
        ({"zoom_range": True},
         "zoom_range must be a float or a tuple or list of two floats, got True"),
        ({"brightness_range": 0.2},
         "brightness_range must be a tuple or list of two floats, or None, got 0.2"),
        ({"brightness_range": ("a", 1)},
         "brightness_range must be a tuple or list of two floats, or None, got ('a', 1)"),
        ({"rotation_range": "20"}, "rotation_range must be a number, got '20'"),
        ({"shear_range": (1, 2)}, "shear_range must be a number, got (1, 2)"),
        ({"cval": math.nan}, "cval must be a number, got nan"),
        ({"width_shift_range": [[1, 2]]},
         "width_shift_range must be a share below 1, pixels, or a list of those, got [[1, 2]]"),
        ({"height_shift_range": True},
         "height_shift_range must be a share below 1, pixels, or a list of those, got True"),
        ({"fill_mode": "mirror"},
         "fill_mode must be one of ('nearest', 'constant', 'reflect', 'wrap'), got 'mirror'"),
        ({"interpolation_order": 6}, "interpolation_order=6 is not a whole number from 0 to 5"),
        ({"horizontal_flip": 0.5},
         "horizontal_flip must be True or False, got 0.5: "
         "write horizontal_flip=True or horizontal_flip=False"),
    ],
)  # fmt: skip
def test_arguments_that_mean_nothing_are_refused(arguments, message):
    with pytest.raises(ArgumentError) as caught:
        Augmentation(**arguments)
    assert str(caught.value) == message


def test_what_is_no_image_is_refused():
    with pytest.raises(ArgumentError) as caught:
        Augmentation().apply(np.zeros((4, 4)), {})
    assert str(caught.value) == (
        "an image must be an array (height, width, channels), got shape (4, 4)"
    )
    with pytest.raises(ArgumentError) as caught:
        Augmentation().apply(np.zeros((32767, 1, 1)), {"tx": 1})
    assert str(caught.value) == (
        "an image of 32767 x 1 pixels is too large to be rotated, shifted, sheared or zoomed, "
        "at most 32766 a side: make it smaller first, as by target_size="
    )


LAYERS = keras.layers
SQUARE = PHOTOGRAPH[:100, :100]
LIKE = {"fill_mode": "nearest"}
"""Layers fill as "reflect" if they are not told."""

# Keras's old arguments, an end of what they draw, and the layer that does the same there
ENDS = {
    "rotation_range=20": (
        {"theta": 20},
        lambda sign: LAYERS.RandomRotation((sign * 20 / 360,) * 2, **LIKE),
    ),
    "width_shift_range=0.13 moves rows": (
        {"ty": -13},
        lambda sign: LAYERS.RandomTranslation((sign * 0.13,) * 2, 0.0, **LIKE),
    ),
    "height_shift_range=0.13 moves columns": (
        {"tx": -13},
        lambda sign: LAYERS.RandomTranslation(0.0, (sign * 0.13,) * 2, **LIKE),
    ),
    "channel_shift_range=40": (
        {"channel_shift_intensity": 40},
        lambda sign: LAYERS.RandomBrightness((sign * 40 / 255,) * 2),
    ),
}


def layer_difference(layer, parameters):
    made = np.asarray(layer(SQUARE[None], training=True))[0]
    return float(np.abs(made - Augmentation().apply(SQUARE, parameters)).mean())


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("sign", (-1, 1))
def test_layers_do_the_same_at_the_ends_of_their_ranges(case, sign):
    parameters, layer = ENDS[case]
    scaled = {name: sign * value for name, value in parameters.items()}
    assert layer_difference(layer(sign), scaled) < NEAR


@pytest.mark.parametrize("zoom", (0.7, 1.3))
def test_random_zoom_does_the_same_less_one(zoom):
    layer = LAYERS.RandomZoom((zoom - 1,) * 2, (0.1, 0.1), **LIKE)
    assert layer_difference(layer, {"zx": 1.1, "zy": zoom}) < NEAR


def test_random_shear_takes_the_sine_and_holds_the_first_row():
    factor = math.sin(math.radians(4))
    layer = LAYERS.RandomShear(x_factor=(factor, factor), **LIKE)
    held = 49.5 * factor  # columns that the first row would else be moved by
    made = np.asarray(layer(SQUARE[None], training=True))[0]
    ours = [
        Augmentation().apply(SQUARE, {"shear": 4 * sign, "tx": -held * sign}) for sign in (-1, 1)
    ]
    assert min(np.abs(made - one).mean() for one in ours) < BOUND


def test_random_flip_flips_as_often():
    layer = LAYERS.RandomFlip("horizontal", seed=1)
    made = np.asarray(layer(np.stack([SQUARE[::10, ::10]] * 200), training=True))
    flipped = (made == SQUARE[::10, ::10][:, ::-1]).all(axis=(1, 2, 3))
    kept = (made == SQUARE[::10, ::10]).all(axis=(1, 2, 3))
    assert (flipped ^ kept).all()
    assert 60 < flipped.sum() < 140


def test_a_number_given_to_a_layer_is_both_ends():
    assert LAYERS.RandomRotation(20 / 360).factor == (-20 / 360, 20 / 360)
    shift = LAYERS.RandomTranslation(0.1, 0.2)
    assert (shift.height_lower, shift.height_upper) == (-0.1, 0.1)
    assert (shift.width_lower, shift.width_upper) == (-0.2, 0.2)
    zoom = LAYERS.RandomZoom(0.2, 0.2)
    assert (zoom.height_lower, zoom.height_upper) == (-0.2, 0.2)
    assert LAYERS.RandomShear(0.2).x_factor == (-0.2, 0.2)
    assert LAYERS.RandomBrightness(0.1).factor == (-0.1, 0.1)
