"""DirectoryIterator: what `flow_from_directory` returns, a class for each folder."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, listed
from dfgen.manifest.warn import warn
from dfgen.migrate.flow_arguments import SUFFIXES, FileOptions
from dfgen.migrate.flow_iterator import FlowIterator, bound_files
from dfgen.migrate.flow_labels import bound_classes
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix

_CLASS_MODES = ("categorical", "binary", "sparse", "input", None)


class DirectoryIterator(FlowIterator):
    """Batches of the images in the folders of a directory: what `flow_from_directory` returns.

    Args:
        generator: the `ImageDataGenerator`.
        directory: with a folder for each class.
        options: the arguments that all iterators share.
        classes: the names of the folders in the order of their numbers; None: all, sorted.
        class_mode: as of `flow_from_directory`.
        follow_links: whether to go into folders that are links.
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
    """Return the images below a folder of a directory that Keras takes, and those it does not."""
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
    """Whether a file is an image by its name, but none that Keras takes."""
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
            f"{len(others):,} images are left out, as by Keras's own, which does not say so: it "
            f"takes {', '.join(SUFFIXES)} alone, not {listed(others[:3])}. "
            'dfgen.build_manifest(directory, pattern="{kind}/{id}.{ext}") takes them'
        )
