"""NumpyArrayIterator: what `flow` returns, batches of images that lie in memory."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, listed, warn
from dfgen.migrate.flow_arguments import (
    SUFFIXES,
    FileOptions,
    FlowOptions,
    bound_classes,
    bound_labels,
)
from dfgen.migrate.flow_iterator import IMAGE, FlowIterator, bound_files
from dfgen.migrate.frame_rows import CLASS_MODES, FrameColumns, frame_rows
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix
from dfgen.spec import Values

_CLASS_MODES = ("categorical", "binary", "sparse", "input", None)


class DirectoryIterator(FlowIterator):
    """Batches of the images in the folders of a directory: what `flow_from_directory` returns.

    `options` are the arguments that all iterators share, the others those of the method.
    """

    allowed_class_modes: ClassVar[set[str | None]] = {*_CLASS_MODES}

    def __init__(
        self,
        generator: Any,
        directory: str | os.PathLike[str],
        options: FileOptions,
        *,
        classes: Sequence[str] | None,
        class_mode: str | None,
        follow_links: bool,
    ) -> None:
        if class_mode not in _CLASS_MODES:
            modes = ", ".join(map(repr, _CLASS_MODES))
            raise ArgumentError(f"Invalid class_mode: {class_mode}; expected one of: {{{modes}}}")
        self.directory, self.class_mode = directory, class_mode
        names = list(classes or _folders(directory))
        self.num_classes = len(names)
        self.class_indices = dict(zip(names, range(len(names)), strict=True))
        self.filenames: list[str] = []
        numbers: list[int] = []
        others: list[str] = []
        for name in names:
            found, left_out = _images(directory, name, follow_links)
            taken = found[options.part(len(found))]
            self.filenames += taken
            numbers += [self.class_indices[name]] * len(taken)
            others += left_out
        self.classes = np.array(numbers, np.int32)
        _tell(self.filenames, others)
        targets = None
        if class_mode not in ("input", None):
            targets = bound_classes("class", class_mode, numbers, len(names), options.dtype)
        self.filepaths = [os.path.join(directory, name) for name in self.filenames]
        image = bound_files(generator, "filename", self.filepaths, options)
        super().__init__(generator, options, image, targets, None, class_mode == "input")
        self.samples, self.image_shape = self.n, image.feature.spec.shape
        print(f"Found {self.samples} images belonging to {self.num_classes} classes.")

    @property
    def labels(self) -> Any:
        """The numbers of the classes of all files, int32."""
        return self.classes


def _folders(directory: str | os.PathLike[str]) -> list[str]:
    with os.scandir(directory) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def _images(
    directory: str | os.PathLike[str], folder: str, follow_links: bool
) -> tuple[list[str], list[str]]:
    files = list(_files(os.path.join(directory, folder), follow_links))
    taken = [os.path.join(folder, file) for file in files if file.lower().endswith(SUFFIXES)]
    return taken, [os.path.join(folder, file) for file in files if _is_other_image(file)]


def _files(folder: str, follow_links: bool) -> Iterator[str]:
    """Yield the files below a folder, relative to it, in Keras's order: folder by folder."""
    found = sorted(os.walk(folder, followlinks=follow_links), key=lambda walked: walked[0])
    for root, _, names in found:
        inner = os.path.relpath(root, folder)
        for name in sorted(names):
            yield name if inner == os.curdir else os.path.join(inner, name)


def _is_other_image(name: str) -> bool:
    lower = name.lower()
    format = FORMATS.get(formats_by_suffix().get(os.path.splitext(lower)[1], ""))
    return format is not None and format.decode is not None and not lower.endswith(SUFFIXES)


def _tell(taken: list[str], others: list[str]) -> None:
    """Tell what Keras tells of .tiff files, and which images it leaves out without a word."""
    if any(name.lower().endswith(".tiff") for name in taken):
        warn(
            'Using ".tiff" files with multiple bands will cause distortion. Please verify your '
            "output."
        )
    if others:
        warn(
            f"{len(others):,} images are left out, as in Keras, which does not say so: it "
            f"takes {', '.join(SUFFIXES)} alone, not {listed(others[:3])}. "
            'dfgen.build_manifest(directory, pattern="{kind}/{id}.{ext}") takes them'
        )


class DataFrameIterator(FlowIterator):
    """Batches of the images that a frame names: what `flow_from_dataframe` returns."""

    allowed_class_modes: ClassVar[set[str | None]] = {*CLASS_MODES}

    def __init__(self, generator: Any, given: FrameColumns, options: FileOptions) -> None:
        taken, mode = frame_rows(given, options), given.class_mode
        self.directory, self.class_mode = given.directory or "", mode
        self.filenames = taken.filenames
        chosen = given.frame.iloc[taken.rows]
        targets: Any = None
        self._targets: Any = None
        if taken.classes is not None:
            self.class_indices, self.classes = taken.classes, taken.numbers
            count = len(taken.classes)
            targets = bound_classes(
                str(given.y_col), str(mode), taken.numbers, count, options.dtype
            )
        elif mode == "multi_output":
            self._targets = [np.array(chosen[name].tolist()) for name in given.y_col]
            pairs = zip(given.y_col, self._targets, strict=True)
            targets = tuple(
                bound_labels(f"label_{number}", str(name), values)
                for number, (name, values) in enumerate(pairs)
            )
        elif mode == "raw":
            self._targets = np.asarray(chosen[given.y_col].values)
            targets = bound_labels("label", str(given.y_col), self._targets)
        weights = np.asarray(chosen[given.weight_col].values) if given.weight_col else None
        self.filepaths = taken.filepaths
        image = bound_files(generator, str(given.x_col), self.filepaths, options)
        super().__init__(generator, options, image, targets, weights, mode == "input")
        self.samples, self.image_shape = self.n, image.feature.spec.shape
        held = "validated" if given.validate_filenames else "non-validated"
        of = "" if taken.classes is None else f" belonging to {len(taken.classes)} classes"
        print(f"Found {self.samples} {held} image filenames{of}.")

    @property
    def labels(self) -> Any:
        """The targets of all rows, or the numbers of their classes."""
        return self._targets if self.class_mode in ("multi_output", "raw") else self.classes


class NumpyArrayIterator(FlowIterator):
    """Batches of the images of an array: what `flow` returns."""

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
