"""What ImageDataGenerator does after its transforms, beside Keras's own."""

import warnings

import keras
import numpy as np
import pytest
from cases import each
from keras.src.legacy.preprocessing.image import ImageDataGenerator as Reference

from dfgen.errors import ArgumentError
from dfgen.migrate.augmentation import Augmentation
from dfgen.migrate.image_transforms import Standardization, refuse_whitening

IMAGES = np.random.default_rng(3).integers(0, 256, (12, 9, 7, 3)).astype(np.float32)
IMAGES *= np.array([1, 0.5, 0.1], np.float32)

CASES = {
    "rescale": {"rescale": 1 / 255},
    "function": {"preprocessing_function": lambda image: image[::-1] + 3, "rescale": 0.5},
    "center": {"samplewise_center": True},
    "deviation": {"samplewise_center": True, "samplewise_std_normalization": True},
    "means": {"featurewise_center": True, "rescale": 1 / 255},
    "deviations": {"featurewise_center": True, "featurewise_std_normalization": True},
    "all": {
        "rescale": 0.01, "samplewise_center": True, "samplewise_std_normalization": True,
        "featurewise_center": True, "featurewise_std_normalization": True,
    },
    "nothing": {"rescale": 0},
}  # fmt: skip


@each("channels_first", (False, True))
@each("case", CASES)
def test_images_become_what_keras_makes_of_them(case, channels_first):
    images = IMAGES.transpose(0, 3, 1, 2) if channels_first else IMAGES
    layout = "channels_first" if channels_first else "channels_last"
    reference = Reference(**CASES[case], data_format=layout)
    reference.fit(images)
    ours = Standardization(**CASES[case]).fitted(images, channels_first=channels_first)
    for image in images[:4]:
        made = ours.apply(image.copy())
        assert made.dtype == np.float32
        np.testing.assert_allclose(made, reference.standardize(image.copy()), atol=2e-4)
    for name in ("mean", "std"):
        found, expected = getattr(ours, name), getattr(reference, name)
        assert (found is None) == (expected is None)
        if found is not None:
            assert (found.shape, found.dtype) == (expected.shape, np.float32)
            np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_fit_counts_augmented_images_each_round():
    rng = np.random.default_rng(1)
    augmentation = Augmentation(channel_shift_range=0.2)
    seen = []

    def transform(image):
        seen.append(augmentation.apply(image, augmentation.draw(image.shape, rng)))
        return seen[-1]

    asked = Standardization(
        featurewise_center=True, featurewise_std_normalization=True, rescale=1 / 255
    )
    found = asked.fitted(IMAGES, random_transform=transform, rounds=3)
    assert len(seen) == 36
    np.testing.assert_allclose(found.mean[0, 0], np.mean(seen, (0, 1, 2)), rtol=1e-4)
    np.testing.assert_allclose(found.std[0, 0], np.std(seen, (0, 1, 2)), rtol=1e-4)


def test_floats_are_changed_in_place_and_bytes_become_floats():
    ours = Standardization(rescale=0.5)
    image, pixels = IMAGES[0].copy(), IMAGES[0].astype(np.uint8)
    assert ours.apply(image) is image
    assert np.array_equal(image, IMAGES[0] / 2)
    assert np.array_equal(ours.apply(pixels), pixels / np.float32(2))


def test_bytes_are_fitted_as_numbers():
    of_bytes = Standardization(featurewise_center=True).fitted(IMAGES.astype(np.uint8))
    np.testing.assert_allclose(
        of_bytes.mean, IMAGES.astype(np.uint8).mean((0, 1, 2), keepdims=True)[0], rtol=1e-5
    )


@pytest.mark.parametrize(
    "deviation, center",
    [
        ("featurewise_std_normalization", "featurewise_center"),
        ("samplewise_std_normalization", "samplewise_center"),
    ],
)
def test_dividing_centres_too_and_both_say_so_in_the_same_words(deviation, center):
    with pytest.warns(UserWarning) as theirs:
        Reference(**{deviation: True})
    with pytest.warns(UserWarning) as ours:
        made = Standardization(**{deviation: True})
    assert getattr(made, center) is True
    assert [str(one.message) for one in ours] == [str(one.message) for one in theirs]
    assert ours[0].filename == __file__


def test_what_was_not_fitted_is_left_out_and_both_say_so_in_the_same_words():
    given = {"featurewise_center": True, "featurewise_std_normalization": True}
    with pytest.warns(UserWarning) as theirs:
        expected = Reference(**given).standardize(IMAGES[0].copy())
    ours = Standardization(**given)
    with pytest.warns(UserWarning) as said:
        ours.warn_unfitted()
    assert [str(one.message) for one in said] == [str(one.message) for one in theirs]
    assert np.array_equal(ours.apply(IMAGES[0].copy()), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.fitted(IMAGES).warn_unfitted()


def test_images_of_other_channels_are_fitted_with_a_warning():
    images = np.ones((2, 4, 4, 2))
    with pytest.warns(UserWarning) as said:
        found = Standardization(featurewise_center=True).fitted(images)
    assert str(said[0].message) == (
        "Expected images of 1, 3 or 4 channels on axis 3, got an array of shape (2, 4, 4, 2) "
        "(2 channels)."
    )
    assert found.mean.shape == (1, 1, 2)


@pytest.mark.parametrize("images", (np.ones((4, 4, 3)), np.ones((0, 4, 4, 3))))
def test_fitting_what_are_no_images_is_refused(images):
    with pytest.raises(ArgumentError) as caught:
        Standardization(featurewise_center=True).fitted(images)
    assert str(caught.value) == (
        f"fit(x) needs images as an array (n, height, width, channels), got shape {images.shape}"
    )


def test_what_is_no_function_is_refused():
    with pytest.raises(ArgumentError) as caught:
        Standardization(preprocessing_function="resnet50")
    assert str(caught.value) == (
        "preprocessing_function must be a function of an image, got 'resnet50'"
    )


def test_whitening_is_refused_and_the_way_that_is_told_does_what_keras_did():
    refuse_whitening(False)
    with pytest.raises(ArgumentError) as caught:
        refuse_whitening(True)
    told = str(caught.value)
    start, way = told.split("channels), ")
    assert start == (
        "zca_whitening=True is not built in. Write whitening as a preprocessing_function, "
        "without rescale: with x, images as an array (n, height, width, "
    )
    steps, function = way.split("; then preprocessing_function=")
    names = {"np": np, "x": IMAGES}
    exec(steps, names)
    made = Standardization(preprocessing_function=eval(function, names)).apply(IMAGES[2])
    reference = Reference(zca_whitening=True, featurewise_center=True)
    reference.fit(IMAGES)
    np.testing.assert_allclose(made, reference.standardize(IMAGES[2].copy()), atol=1e-3)


def test_layers_do_the_same():
    of_each = Standardization(samplewise_center=True, samplewise_std_normalization=True)
    layer = keras.layers.LayerNormalization(
        axis=(1, 2, 3), center=False, scale=False, epsilon=1e-12
    )
    made = keras.ops.convert_to_numpy(layer(IMAGES[:1]))[0]
    np.testing.assert_allclose(made, of_each.apply(IMAGES[0].copy()), atol=1e-5)
    of_all = Standardization(featurewise_center=True, featurewise_std_normalization=True)
    layer = keras.layers.Normalization(axis=-1)
    layer.adapt(IMAGES)
    made = keras.ops.convert_to_numpy(layer(IMAGES[:1]))[0]
    np.testing.assert_allclose(made, of_all.fitted(IMAGES).apply(IMAGES[0].copy()), atol=1e-3)
