"""Sequence: a DataFrame as batches for `model.fit`."""

import inspect
import os
from collections.abc import Mapping
from functools import partial
from secrets import randbits
from typing import Any, Never

import pandas as pd

from dfgen.errors import ArgumentError, ManifestError, UnknownArgumentError, did_you_mean
from dfgen.loading.limits import Limits
from dfgen.loading.loader import Loader
from dfgen.loading.order import whole
from dfgen.samples.features import Boxes, Image, Mask
from dfgen.samples.reader import SampleReader
from dfgen.samples.tabular import LABEL_MODES, Category, one_of
from dfgen.samples.transforms import Transform
from dfgen.training.binding import Options, bind
from dfgen.training.columns import ids_of, known_problems, open_manifest
from dfgen.training.handover import Layout
from dfgen.training.passes import Cursor, Passes
from dfgen.training.trees import Tree, leaves
from dfgen.training.weights import row_weights

# Arguments of `ImageDataGenerator.flow_from_dataframe` and the like, and what they are called here.
_OLD_ARGUMENTS = {
    "class_mode": "label_mode",
    "classes": "class_names",
    "dataframe": "manifest",
    "directory": "root",
    "preprocessing_function": "transform",
    "rescale": "scale",
    "target_size": "image_size",
    "weight_col": "sample_weight",
    "x_col": "x",
    "y_col": "y",
}
_NO_LONGER = {
    "interpolation": 'it belongs to the image: x=dfgen.Image("path", interpolation="nearest")',
    "subset": 'a split is a column of the manifest: df[df.split == "train"]',
    "validate_filenames": "build_manifest looks at every file once",
    "validation_split": 'a split is a column of the manifest: df[df.split == "train"]',
}


class Sequence(Passes):
    """Feeds batches made from a manifest to `model.fit`, `evaluate` and `predict`.

    Every row comes once an epoch, in another order each epoch, the same for the same seed on every
    backend and for any number of workers. Batches are made ahead of time by threads.

    Args:
        manifest: a DataFrame (copied: later changes do nothing), or the path of a manifest.
        x: the inputs: a column name, a feature, or a list or dict of those. The column `path`, and
            a text column of names of image files, becomes an `Image`; classes a `Category`;
            numbers a `Number`.
        y: the targets, likewise. None takes the one column that is not id, path, split or a fact;
            with none left, batches hold inputs alone.
        id: the column that tells rows apart. None takes `id`, else the paths where unique.
        sample_weight: a column of numbers, what each row counts in the loss.
        class_weight: class number or name -> weight, for one target of classes.
        batch_size: rows of a batch.
        image_size: (height, width) of images in pixels.
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        label_mode: `"int"` (int32), `"categorical"` (one-hot float32), `"binary"` (float32 of shape
            (batch, 1)), or None: no targets.
        class_names: the classes in the order of their numbers; None takes the column's categories.
        scale: None leaves images uint8 0..255; `"0..1"`, `"-1..1"`, `"standardize"` (each image)
            or a pair (scale, offset) gives float32.
        shuffle: another order each epoch.
        seed: of the order and of the transform's generators; None draws one.
        drop_remainder: leave out a short last batch.
        transform: `transform(sample, rng) -> sample`, in the workers, after resizing and before
            scaling. `sample` is a dict of arrays: by its key in a dict x or y, else `image`,
            `mask`, `array`, `number`, `label`, numbered (`image_0`) where there are several; boxes
            are `boxes` and `labels`, or `key` and `key_labels`.
        on_error: `"raise"`, or `"skip"`: a bad row keeps its place with zeros and weight 0, is
            listed in `problems`, and the real rows of its batch weigh batch / real. Keras's
            `metrics=` ignore weights: use `weighted_metrics=`.
        workers: threads; None = the CPUs this process may use; 0 = the calling thread.
        use_multiprocessing: a process for each worker, for transforms that hold the GIL.
        max_queue_size: batches ready or in the making.
        limits: `dfgen.Limits`: bytes of batches in flight, seconds for one read.
        root: folder where relative paths of a frame begin; None = the working folder.

    Raises:
        ManifestError: the manifest cannot be used: a column, an id, a path, a label.
        ArgumentError: an argument that cannot be.
        UnknownArgumentError: an argument that is not there, such as one of Keras's older API.

    Example:
        >>> df = dfgen.read_manifest("manifests/pets.parquet")  # doctest: +SKIP
        >>> train = dfgen.Sequence(df[df.split == "train"], y="kind", batch_size=64)
        >>> val = dfgen.Sequence(df[df.split == "val"], y="kind", batch_size=64, shuffle=False)
        >>> model.fit(train, validation_data=val, epochs=10)
    """

    def __init__(
        self,
        manifest: pd.DataFrame | str | os.PathLike[str],
        x: Tree = "path",
        y: Tree = None,
        *,
        id: str | None = None,
        sample_weight: str | None = None,
        class_weight: Mapping[Any, float] | None = None,
        batch_size: int = 32,
        image_size: tuple[int, int] = (256, 256),
        color_mode: str = "rgb",
        label_mode: str | None = "int",
        class_names: list[Any] | tuple[Any, ...] | None = None,
        scale: str | tuple[float, float] | None = None,
        shuffle: bool = True,
        seed: int | None = 0,
        drop_remainder: bool = False,
        transform: Transform | None = None,
        on_error: str = "raise",
        workers: int | None = None,
        use_multiprocessing: bool = False,
        max_queue_size: int = 10,
        limits: Limits | None = None,
        root: str | os.PathLike[str] | None = None,
        **unknown: Never,
    ) -> None:
        _refuse_unknown(unknown)
        one_of("label_mode", label_mode, (*LABEL_MODES, None))
        one_of("on_error", on_error, ("raise", "skip"))
        if limits is not None and not isinstance(limits, Limits):
            raise ArgumentError(f'limits must be dfgen.Limits(memory="2GB", ...), got {limits!r}')
        if root is not None and not isinstance(root, str | os.PathLike):
            raise ArgumentError(f"root must be the path of a folder, got {root!r}")
        self.seed = randbits(32) if seed is None else whole("seed", seed)
        options = Options(
            image=partial(Image, size=image_size, color_mode=color_mode, scale=scale),
            label_mode=label_mode,
            class_names=None if class_names is None else tuple(class_names),
        )
        self._columns = open_manifest(manifest, root)
        taken = {id, sample_weight}
        folder = os.fspath(root) if root and isinstance(manifest, pd.DataFrame) else None
        self._binding = bind(self._columns, x, y, options, taken, folder)
        files = self._binding.files
        column, paths = (files.feature.column, files.values) if files else (None, None)
        reader = SampleReader(
            ids_of(self._columns, id, column, paths), self._binding.parts, transform
        )
        problems = known_problems(self._columns) if files else {}
        if problems and on_error == "raise":
            raise ManifestError(_refusal(problems, reader))
        weights = row_weights(self._columns, self._binding, sample_weight, class_weight)
        loader = Loader(
            reader,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=self.seed,
            drop_remainder=drop_remainder,
            weights=weights,
            on_error=on_error,
            problems=problems,
            workers=workers,
            use_multiprocessing=use_multiprocessing,
            max_queue_size=max_queue_size,
            limits=limits,
        )
        super().__init__(
            loader, Cursor(), self._layout_of(weights, on_error), shuffle, endless=False
        )

    def _layout_of(self, weights: object, on_error: str) -> Layout:
        binding = self._binding
        weighted = binding.y is not None and (weights is not None or on_error == "skip")
        images = {part.name for part in binding.parts if isinstance(part.feature, Image | Mask)}
        x, y = binding.arrays(binding.x), binding.arrays(binding.y)
        return Layout(x, y, frozenset(images), weighted)

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self._loader)

    @property
    def epoch(self) -> int:
        """Passes completed since the start of training; `evaluate` and `predict` do not count."""
        return self._cursor.epoch

    @property
    def class_names(self) -> Any:
        """The class names of y in the order of their numbers; by name where y has several."""
        features = {name: self._binding[name].feature for name in leaves(self._binding.y)}
        names = {
            name: list(feature.class_names)
            for name, feature in features.items()
            if isinstance(feature, Category | Boxes) and feature.class_names is not None
        }
        return names.get(self._binding.y) if isinstance(self._binding.y, str) else names or None

    @property
    def manifest(self) -> pd.DataFrame:
        """The rows, in their own order: a copy."""
        source = self._columns.source
        return source.copy() if isinstance(source, pd.DataFrame) else source.to_pandas()

    @property
    def problems(self) -> pd.DataFrame:
        """Rows that were skipped: `row`, `id` and `problem`."""
        found = sorted(self._loader.problems.items())
        ids = [self._loader.reader.id(row) for row, _ in found]
        return pd.DataFrame(
            {"row": [row for row, _ in found], "id": ids, "problem": [why for _, why in found]}
        )

    def repeat(self) -> "Passes":
        """Return an endless view, for `fit(steps_per_epoch=...)`: passes follow one another.

        Training goes on where the last `fit` on such a view stopped, in mid-pass too. Of a `fit`
        that was interrupted, the steps of its unfinished epoch are given back.

        Example:
            >>> model.fit(seq.repeat(), steps_per_epoch=1000, epochs=90)  # doctest: +SKIP
        """
        return Passes(self._loader, self._cursor, self._layout, self._shuffle, endless=True)

    def close(self) -> None:
        """End the threads; the Sequence cannot be used any more."""
        self._loader.close()

    def __enter__(self) -> "Sequence":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        arrays = ", ".join(
            f"{name} {'x'.join(map(str, spec.shape)) or 'scalar'} {spec.dtype}"
            for name, spec in self._loader.specs.items()
        )
        return (
            f"<dfgen.Sequence: {len(self._columns):,} rows, {len(self):,} batches of "
            f"{self.batch_size}; {arrays}; seed {self.seed}, epoch {self.epoch}>"
        )


def _refuse_unknown(unknown: Mapping[str, object]) -> None:
    for name in unknown:
        known = list(inspect.signature(Sequence).parameters)[:-1]
        if name in _OLD_ARGUMENTS:
            advice = f"{name} is now {_OLD_ARGUMENTS[name]}"
        elif name in _NO_LONGER:
            advice = f"{name}: {_NO_LONGER[name]}"
        else:
            advice = f"Arguments: {', '.join(known)}.{did_you_mean(name, known)}"
        raise UnknownArgumentError(f"Sequence has no argument {name}. {advice}")


def _refusal(problems: Mapping[int, str], reader: SampleReader) -> str:
    shown = "".join(f"\n  {reader.where(row)}: {why}" for row, why in list(problems.items())[:10])
    more = f"\n  ... and {len(problems) - 10:,} more" if len(problems) > 10 else ""
    return (
        f"{len(problems):,} of {len(reader):,} rows have a problem, by the facts of the manifest:"
        f'{shown}{more}\nLeave them out, df = df[df["problem"].isna()], or train on the others '
        'with on_error="skip"'
    )
