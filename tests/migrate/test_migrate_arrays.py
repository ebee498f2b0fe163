"""`flow` of `dfgen.migrate` beside Keras's own: images that lie in memory."""

import numpy as np
from beside_keras import assert_same, both, made
from cases import each

from dfgen.migrate import ImageDataGenerator

X = np.random.default_rng(0).integers(0, 256, (14, 9, 12, 3), dtype=np.uint8)
Y = np.arange(14) % 2


@each(
    ("arguments", "options", "of"),
    [
        ((X,), {}, {}),
        ((X, Y), {"sample_weight": Y / 3}, {"rescale": 1 / 255}),
        ((X, np.eye(2)[Y]), {"subset": "validation"}, {"validation_split": 0.3}),
        ((X / 255, Y), {"subset": "training"}, {"validation_split": 0.3, "dtype": "float64"}),
        ((X.transpose(0, 3, 1, 2), Y), {}, {"data_format": "channels_first"}),
        ((X[..., :2],), {}, {}),
        ((X, Y[:3]), {}, {}),
        ((X, Y), {"sample_weight": Y[:5]}, {}),
        ((X[0], None), {}, {}),
        ((X, Y // 14 + np.arange(14) // 7), {"subset": "training"}, {"validation_split": 0.5}),
        ((X, np.arange(14) // 7), {"subset": "training", "ignore_class_split": True},
         {"validation_split": 0.5}),
        ((X, Y), {}, {"samplewise_center": True, "preprocessing_function": np.sqrt}),
    ],
)  # fmt: skip
def test_arrays_are_fed_and_refused_as_by_keras(arguments, options, of):
    options = {"batch_size": 4, "shuffle": False, **options}
    ours, theirs = both("flow", *arguments, of=of, **options)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs))
        assert str(ours) == str(theirs)
    else:
        assert_same(ours, theirs, atol=1e-5)


def test_weights_of_a_subset_are_those_of_its_images_where_keras_takes_the_first_ones():
    arguments = {"sample_weight": np.arange(14), "subset": "training", "shuffle": False}
    flow = ImageDataGenerator(validation_split=0.3).flow(X, Y, **arguments)
    assert next(flow)[2].tolist() == [*range(4, 14)]


def test_a_subset_that_is_none_is_refused():
    ours, theirs = both("flow", X, Y, subset="test")
    assert (str(ours), type(theirs)) == (
        'Invalid subset name: test;expected "training" or "validation"',
        ValueError,
    )


def test_further_inputs_are_refused():
    error = made(ImageDataGenerator, "flow", [X, Y], Y)[0]
    assert str(error) == (
        "flow takes images alone, got a pair (images, others): write a keras.utils.PyDataset of "
        "the iterator and of the others, with shuffle=False"
    )
