"""DataFrameIterator: what `flow_from_dataframe` returns."""

from typing import Any, ClassVar

import numpy as np

from dfgen.migrate.flow_arguments import FileOptions
from dfgen.migrate.flow_iterator import FlowIterator, bound_files
from dfgen.migrate.flow_labels import bound_classes, bound_labels
from dfgen.migrate.frame_rows import CLASS_MODES, FrameColumns, frame_rows


class DataFrameIterator(FlowIterator):
    """Batches of the images that a frame names: what `flow_from_dataframe` returns.

    Args:
        generator: the `ImageDataGenerator`.
        given: the frame, and which of its columns are what.
        options: the arguments that all iterators share.
    """

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
