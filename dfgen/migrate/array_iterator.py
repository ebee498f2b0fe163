"""NumpyArrayIterator: what `flow` returns, batches of images that lie in memory."""

from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError
from dfgen.manifest.warn import warn
from dfgen.migrate.flow_arguments import FlowOptions
from dfgen.migrate.flow_iterator import IMAGE, FlowIterator
from dfgen.migrate.flow_labels import bound_labels
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.spec import Values


class NumpyArrayIterator(FlowIterator):
    """Batches of the images of an array: what `flow` returns.

    Args:
        generator: the `ImageDataGenerator`.
        x: images, (rows, height, width, channels), or with the channels second.
        y: targets of the rows, or None.
        sample_weight: of the rows, or None.
        options: the arguments that all iterators share.
        ignore_class_split: whether both subsets need not have the same classes.
    """

    def __init__(
        self,
        generator: Any,
        x: npt.ArrayLike,
        y: npt.ArrayLike | None,
        sample_weight: npt.ArrayLike | None,
        options: FlowOptions,
        *,
        ignore_class_split: bool,
    ) -> None:
        if isinstance(x, tuple | list) and len(x) == 2:
            raise ArgumentError(
                "flow takes images alone, got a pair (images, others): write a keras.utils."
                "PyDataset of the iterator and of the others, with shuffle=False"
            )
        images = np.asarray(x)
        labels = None if y is None else np.asarray(y)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        _check_lengths(images, labels, weights)
        if options.subset is not None and labels is not None and not ignore_class_split:
            _check_classes(labels, options)
        part = options.part(len(images))
        self.x = images[part]
        _check_images(self.x, options.data_format)
        self.y = None if labels is None else labels[part]
        self.sample_weight = None if weights is None else weights[part]
        feature = generator.held_image(self.x.shape[1:], options)
        super().__init__(
            generator,
            options,
            BoundFeature(IMAGE, feature, self.x),
            None if self.y is None else bound_labels("label", "y", self.y),
            self.sample_weight,
        )


def _check_lengths(x: Values, y: Values | None, weights: Values | None) -> None:
    """Refuse targets or weights of another number of rows, in Keras's words."""
    for called, name, given in (
        ("`y` (labels)", "y", y),
        ("`sample_weight`", "sample_weight", weights),
    ):
        if given is not None and len(given) != len(x):
            raise ArgumentError(
                f"`x` (images tensor) and {called} should have the same length. Found: x.shape = "
                f"{x.shape}, {name}.shape = {given.shape}"
            )


def _check_classes(y: Values, options: FlowOptions) -> None:
    cut = int(len(y) * (options.validation_split or 0))
    if not np.array_equal(np.unique(y[:cut]), np.unique(y[cut:])):
        raise ArgumentError(
            "Training and validation subsets have different number of classes after the split. If "
            "your numpy arrays are sorted by the label, you might want to shuffle them."
        )


def _check_images(x: Values, data_format: str) -> None:
    """Refuse what is no array of images; warn of channels that are none."""
    if x.ndim != 4:
        raise ArgumentError(
            "Input data in `NumpyArrayIterator` should have rank 4. You passed an array with shape "
            f"{x.shape}"
        )
    axis = 3 if data_format == "channels_last" else 1
    if x.shape[axis] not in (1, 3, 4):
        warn(
            f'NumpyArrayIterator is set to use the data format convention "{data_format}" '
            f"(channels on axis {axis}), i.e. expected either 1, 3, or 4 channels on axis {axis}. "
            f"However, it was passed an array with shape {x.shape} ({x.shape[axis]} channels)."
        )
