"""ImageDataGenerator: Keras's deprecated one, over dfgen's workers."""

import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy.typing as npt
import pandas as pd

from dfgen.errors import did_you_mean, warn
from dfgen.migrate.array_iterator import DataFrameIterator, DirectoryIterator, NumpyArrayIterator
from dfgen.migrate.flow_arguments import FileOptions, FlowOptions
from dfgen.migrate.frame_rows import FrameColumns
from dfgen.migrate.image_transforms import ImageTransforms, taken_by

GivenOptions = TypeVar("GivenOptions", bound=FlowOptions)
_DEPRECATED = {
    "has_ext": "has_ext is deprecated, filenames in the dataframe have to match the exact "
    "filenames in disk.",
    "sort": "sort is deprecated, batches will be created in thesame order than the filenames "
    "provided if `shuffle`is set to `False`.",
    "drop_duplicates": "drop_duplicates is deprecated, you can drop duplicates by using the "
    "pandas.DataFrame.drop_duplicates method.",
}
"""Arguments of keras-preprocessing -> what Keras says of them."""


class ImageDataGenerator(ImageTransforms):
    """Keras's `ImageDataGenerator` as it was, over dfgen's workers: change the import alone.

    `from dfgen.migrate import ImageDataGenerator` stands in the place of
    `from tensorflow.keras.preprocessing.image import ImageDataGenerator`. Batches are those of
    Keras's own, but that what chance decides for a row depends on the seed, the epoch and the row,
    and not on which worker was first. New code is better off with `dfgen.Sequence`.

    Args:
        featurewise_center: subtract the mean of each channel, which `fit` finds.
        samplewise_center: subtract the mean of each image.
        featurewise_std_normalization: divide by the standard deviation, which `fit` finds.
        samplewise_std_normalization: divide by that of each image.
        zca_whitening: refused, with what to write instead.
        zca_epsilon: of whitening.
        rotation_range: degrees, to either side.
        width_shift_range: a share of the width below 1, else pixels, or a list to choose from.
        height_shift_range: likewise, of the height.
        brightness_range: (least, largest) factor, or None.
        shear_range: degrees, to either side.
        zoom_range: (least, largest) factor, or z for (1 - z, 1 + z).
        channel_shift_range: what is added to all pixels at most, to either side.
        fill_mode: what is outside the image: `"nearest"`, `"constant"`, `"reflect"`, `"wrap"`.
        cval: that, with `"constant"`.
        horizontal_flip: flip half of the images left to right.
        vertical_flip: flip half of them upside down.
        rescale: what pixels are multiplied by, after `preprocessing_function`; None or 0: nothing.
        preprocessing_function: `function(image) -> image`, told each image as `floatx` numbers
            0..255 of the shape that it has in the batch, after its transform. It runs in a worker
            thread.
        data_format: `"channels_last"` or `"channels_first"`; None:
            `keras.config.image_data_format()`.
        validation_split: the share of rows, the first ones, that `subset="validation"` takes,
            above 0 and below 1.
        interpolation_order: of transforms: 0, the nearest pixel; 1, linear; up to 5.
        dtype: of images and labels in batches; None: `keras.config.floatx()`.

    Raises:
        ArgumentError: an argument that cannot be.

    Example:
        >>> generator = ImageDataGenerator(rescale=1 / 255, validation_split=0.2)
        >>> train = generator.flow_from_dataframe(
        ...     df, x_col="path", y_col="kind", subset="training"
        ... )  # doctest: +SKIP
        >>> model.fit(train, epochs=10)  # doctest: +SKIP
    """

    def flow(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        batch_size: int = 32,
        shuffle: bool = True,
        sample_weight: npt.ArrayLike | None = None,
        seed: int | None = None,
        save_to_dir: str | None = None,
        save_prefix: str = "",
        save_format: str = "png",
        ignore_class_split: bool = False,
        subset: str | None = None,
    ) -> NumpyArrayIterator:
        """Return batches of images that lie in memory.

        Args:
            x: images, (rows, height, width, channels), or with the channels second.
            y: targets of the rows, an array; None: no targets.
            batch_size: rows of a batch.
            shuffle: another order each epoch.
            sample_weight: what each row counts in the loss.
            seed: of the order and of what chance decides; None draws one.
            save_to_dir: a folder into which each image of a batch is written as it is handed out.
            save_prefix: how the names of these files begin.
            save_format: `"png"` or `"jpeg"`: how they end.
            ignore_class_split: allow subsets that do not have the same classes.
            subset: `"training"` or `"validation"`, by `validation_split`.
        """
        options = self._options(FlowOptions, locals())
        return NumpyArrayIterator(
            self, x, y, sample_weight, options, ignore_class_split=ignore_class_split
        )

    def flow_from_dataframe(
        self,
        dataframe: pd.DataFrame,
        directory: str | os.PathLike[str] | None = None,
        x_col: str = "filename",
        y_col: str | list[str] = "class",
        weight_col: str | None = None,
        target_size: tuple[int, int] = (256, 256),
        color_mode: str = "rgb",
        classes: Sequence[Any] | None = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        save_to_dir: str | None = None,
        save_prefix: str = "",
        save_format: str = "png",
        subset: str | None = None,
        interpolation: str = "nearest",
        validate_filenames: bool = True,
        **kwargs: Any,
    ) -> DataFrameIterator:
        """Return batches of the images that a frame names.

        Args:
            dataframe: a row for each image.
            directory: where relative paths begin; None: the working folder.
            x_col: the column of paths.
            y_col: the column of classes, or targets; for `"multi_output"` a list of columns.
            weight_col: a column of numbers: what each row counts in the loss.
            target_size: (height, width) that images are stretched to.
            color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
            classes: the classes in the order of their numbers; rows of others are left out. None:
                those that occur, sorted.
            class_mode: `"categorical"`: one-hot, or of lists of classes several 1; `"sparse"` and
                `"binary"`: numbers of classes; `"raw"`: the column as it is; `"multi_output"`: a
                target for each column; `"input"`: the images themselves; None: no targets.
            batch_size: rows of a batch.
            shuffle: another order each epoch.
            seed: of the order and of what chance decides; None draws one.
            save_to_dir: a folder into which each image of a batch is written as it is handed out.
            save_prefix: how the names of these files begin.
            save_format: `"png"` or `"jpeg"`: how they end.
            subset: `"training"` or `"validation"`, by `validation_split`.
            interpolation: `"nearest"`, `"bilinear"`, `"bicubic"`, `"hamming"`, `"box"`,
                `"lanczos"`: Pillow's filters.
            validate_filenames: leave out rows whose file is not there or has no suffix that Keras
                knows, with a warning.
            kwargs: `has_ext`, `sort`, `drop_duplicates`, which do nothing, as in Keras.
        """
        for name in sorted(kwargs, key=[*_DEPRECATED, *kwargs].index):
            self._tell_unused(name)
        if class_mode == "other":
            told = '`class_mode="other"` is deprecated, please use `class_mode="raw"`.'
            warnings.warn(told, DeprecationWarning, stacklevel=2)
            class_mode = "raw"
        options = self._options(FileOptions, locals())
        given = FrameColumns(
            frame=dataframe, directory=directory, x_col=x_col, y_col=y_col, weight_col=weight_col,
            classes=classes, class_mode=class_mode, validate_filenames=validate_filenames,
        )  # fmt: skip
        return DataFrameIterator(self, given, options)

    def flow_from_directory(
        self,
        directory: str | os.PathLike[str],
        target_size: tuple[int, int] = (256, 256),
        color_mode: str = "rgb",
        classes: Sequence[str] | None = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        save_to_dir: str | None = None,
        save_prefix: str = "",
        save_format: str = "png",
        follow_links: bool = False,
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
    ) -> DirectoryIterator:
        """Return batches of the images in the folders of a directory, each folder a class.

        Args:
            directory: of these folders; images may lie deeper in them.
            target_size: (height, width) that images are stretched to.
            color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
            classes: the names of the folders in the order of their numbers; None: all, sorted.
            class_mode: `"categorical"`: one-hot; `"sparse"` and `"binary"`: numbers; `"input"`:
                the images themselves; None: no targets.
            batch_size: images of a batch.
            shuffle: another order each epoch.
            seed: of the order and of what chance decides; None draws one.
            save_to_dir: a folder into which each image of a batch is written as it is handed out.
            save_prefix: how the names of these files begin.
            save_format: `"png"` or `"jpeg"`: how they end.
            follow_links: go into folders that are links.
            subset: `"training"` or `"validation"`, by `validation_split` of each class.
            interpolation: as of `flow_from_dataframe`.
            keep_aspect_ratio: cut the largest part of the right aspect ratio from the centre
                instead of stretching.
        """
        options = self._options(FileOptions, locals())
        return DirectoryIterator(
            self, directory, options, classes=classes, class_mode=class_mode,
            follow_links=follow_links,
        )  # fmt: skip

    def _options(self, kind: type[GivenOptions], given: Mapping[str, Any]) -> GivenOptions:
        return kind(
            data_format=self.data_format,
            dtype=self.dtype,
            validation_split=self._validation_split,
            **taken_by(kind, given),
        )

    def _tell_unused(self, name: str) -> None:
        if name in _DEPRECATED:
            warnings.warn(_DEPRECATED[name], DeprecationWarning, stacklevel=3)
            return
        known = inspect.signature(self.flow_from_dataframe).parameters
        warn(
            f"flow_from_dataframe has no argument {name!r}: left out, as in Keras, which does not "
            f"say so.{did_you_mean(name, known)}"
        )
