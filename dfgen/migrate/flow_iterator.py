"""FlowIterator: what the iterators of Keras's `ImageDataGenerator` have in common."""

import os
import secrets
import threading
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from secrets import randbits
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import PIL.Image
import pyarrow as pa

from dfgen.errors import ArgumentError, brief, listed, warn
from dfgen.loading.loader import Loader
from dfgen.loading.lookahead import LookAhead
from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import Batch
from dfgen.migrate.flow_arguments import SUFFIXES, FileOptions, FlowOptions, bound_labels
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.reader import SampleReader
from dfgen.spec import IntArray, Values
from dfgen.training.data_adapter import Passes
from dfgen.training.keras_calls import Call
from dfgen.training.layout import Layout, Weighs
from dfgen.training.progress import Progress

_REFUSED = {"y": ("`y`", "targets"), "sample_weight": ("`sample_weights`", "sample weights")}
_COLUMNS = {"y": "y_col=", "sample_weight": "weight_col="}


def checked_arguments(given: Mapping[str, Any], weighted: bool) -> dict[str, Any]:
    """Return the arguments of `fit` without those that Keras drops for a PyDataset."""
    for name, (called, what) in _REFUSED.items():
        if given.get(name) is not None:
            raise ArgumentError(
                f"When providing `x` as a PyDataset, {called} should not be passed. Instead, the "
                f"{what} should be included as part of the PyDataset. Columns of them are "
                f"flow_from_dataframe({_COLUMNS[name]})"
            )
    if given.get("class_weight") is not None and weighted:
        raise ArgumentError(
            "You cannot specify `class_weight` and `sample_weight` at the same time. Multiply "
            "weight_col= by the weights of the classes"
        )
    if given.get("batch_size") is not None:
        warn(
            f"batch_size={given['batch_size']!r} of fit does nothing, as in Keras, which does not "
            "say so: it is for flow_from_dataframe(batch_size=)"
        )
    return {**given, "batch_size": None, "shuffle": None}


def checked_class_weight(given: Any, classes: Collection[int] | None) -> Mapping[int, float]:
    """Return what the classes weigh, and tell of what is no class.

    `classes` are the numbers that there are; None: not known.
    """
    if not isinstance(given, Mapping) or not all(isinstance(w, Real) for w in given.values()):
        raise ArgumentError(
            f"class_weight must be a dict of the number of a class and its weight, got "
            f'{brief(given)}: dfgen.Sequence takes names, and "balanced"'
        )
    others = [name for name in given if classes is not None and name not in classes]
    if others:
        warn(
            f"class_weight has weights for {listed(others)}, which count for nothing, as in Keras, "
            "which does not say so: classes go by their numbers, it.class_indices"
        )
    return given


@dataclass(frozen=True)
class SavedImages:
    """Writes the images of each batch into a folder, as `save_to_dir` asks.

    Files are called `{prefix}_{row}_{number}.{format}`.
    """

    folder: str
    prefix: str
    format: str
    channels_first: bool

    def save(self, images: Values, rows: IntArray) -> None:
        """Write one file for each, stretched to 0..255 as `keras.utils.array_to_img` does."""
        for image, row in zip(images, rows.tolist(), strict=True):
            pixels = image.transpose(1, 2, 0) if self.channels_first else image
            levels = pixels.astype(np.float32) - pixels.min()
            levels *= np.float32(255) / (levels.max() or 1)
            shown = np.squeeze(levels.astype(np.uint8), 2) if levels.shape[2] == 1 else levels
            name = f"{self.prefix}_{row}_{secrets.randbelow(10**7)}.{self.format}"
            PIL.Image.fromarray(shown.astype(np.uint8)).save(os.path.join(self.folder, name))


@dataclass(frozen=True)
class FlowLayout(Layout):
    """A `Layout` whose weights are, like labels, what a column holds, in its own dtype.

    If devices share batches they are those of every `Layout`, which count no padding.

    Args:
        own_weights: the name of their array; None: rows have none of their own.
        saved: writes the images of each batch.
        class_weight: number of a class -> what its rows weigh, as of `fit`; then `weighted` too.
    """

    own_weights: str | None = None
    saved: SavedImages | None = None
    class_weight: Mapping[int, float] | None = None

    def batch(self, batch: Batch) -> tuple[Any, ...]:
        """Return (x,), (x, y) or (x, y, weights)."""
        x, *others = super().batch(batch)
        if self.y == self.x:  # class_mode="input": whoever adds noise to x means x alone
            others[0] = x.copy()
        if self.class_weight is not None:
            others[1] = others[1] * _class_weights(others[0], self.class_weight)
        if self.saved is not None:
            self.saved.save(x, batch.rows)
        return (x, *others)

    def _nest(self, named: Mapping[str, Any], weights: Weighs) -> tuple[Any, ...]:
        nested = super()._nest(named, weights)
        if self.own_weights is None or self.weighted or self.y is None:
            return nested
        return (*nested, named[self.own_weights])


def _class_weights(y: Values, class_weight: Mapping[int, float]) -> Values:
    """Return what rows weigh by their classes, as Keras's `class_weight_to_sample_weights`."""
    if y.ndim > 1:
        y = y[..., 0] if y.shape[-1] == 1 else y.argmax(-1)
    numbers = np.rint(y).astype(np.int32).tolist()
    return np.array([class_weight.get(number, 1) for number in numbers], np.float32)


IMAGE, WEIGHT = "image", "sample_weight"
_FIXED = {*(field.name for field in fields(FileOptions)), "class_mode", "classes", "sample_weight"}
"""Attributes that batches are no longer made by, once the iterator is there."""


class FlowIterator(Passes):
    """Feeds batches to `fit`, `evaluate` and `predict` as an iterator of Keras's own does.

    And by hand: `next(it)`, endless, `it[0]` and `len(it)`, with the attributes that Keras's has.
    Batches are made ahead of time by threads.

    Of all rows: `image` bound, `labels` None, one or several targets, and `weights`, or None.
    `feeds_itself`: images are the targets.
    """

    white_list_formats: ClassVar[tuple[str, ...]] = SUFFIXES

    def __init__(
        self,
        generator: Any,
        options: FlowOptions,
        image: BoundFeature,
        labels: tuple[BoundFeature, ...] | BoundFeature | None,
        weights: Values | None = None,
        feeds_itself: bool = False,
    ) -> None:
        self.image_data_generator = generator
        self.n = len(image.values)
        self.sample_weight = weights
        for field in fields(options):
            if field.name not in ("batch_size", "validation_split"):
                setattr(self, field.name, getattr(options, field.name))
        self.total_batches_seen = 0
        """Batches that `next` and indexing have returned."""
        self.batch_index = 0
        """Which batch of a pass `next` returns next; 0 begins another pass."""
        self.lock = threading.Lock()
        self._ahead: LookAhead | None = None
        self._pass, self._warned = 0, False
        self._class_weights: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        targets = (labels,) if isinstance(labels, BoundFeature) else labels or ()
        own = () if weights is None else (bound_labels(WEIGHT, WEIGHT, weights),)
        loader = Loader(
            SampleReader(np.arange(self.n), (image, *targets, *own)),
            batch_size=options.batch_size,
            shuffle=options.shuffle,
            seed=randbits(32) if options.seed is None else options.seed,
            weights=None if weights is None else weights.astype(np.float32),
        )
        y: Any = tuple(one.name for one in targets) or None
        if isinstance(labels, BoundFeature):
            y = labels.name
        layout = _layout(options, IMAGE if feeds_itself else y, weights is not None)
        super().__init__(loader, Progress(loader), layout, shuffle=False, endless=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            mode = vars(self).get("class_mode", "")
            if name in ("class_indices", "classes") and mode != "":
                fault = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(f"{fault}: class_mode={mode!r} has no classes")
            return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("workers", "use_multiprocessing", "max_queue_size"):  # of a PyDataset
            warn(
                f"{name}={value!r} does nothing here: batches are made ahead by a thread for each "
                f"CPU. dfgen.Sequence(df, {name}={value!r}) takes it"
            )
            return
        now: Any = getattr(self, name, None) if name in _FIXED else None
        if name in _FIXED and "_loader" in vars(self) and not np.array_equal(value, now):
            raise ArgumentError(
                f"{name} of an iterator cannot be changed to {brief(value)}: make another one, as "
                "by flow_from_dataframe(..., shuffle=False, batch_size=1)"
            )
        object.__setattr__(self, name, value)

    @property
    def index_array(self) -> IntArray:
        """The rows in the order of the pass that `next` is in, or of the current epoch."""
        epoch = self.epoch if self._ahead is None else self._pass
        return np.concatenate([self._loader.rows(epoch, step) for step in range(len(self))])

    def __len__(self) -> int:
        return len(self._loader)

    def __getitem__(self, index: int) -> Any:
        if hasattr(index, "__index__") and index >= len(self):
            raise ArgumentError(
                f"Asked to retrieve element {index}, but the Sequence has length {len(self)}"
            )
        self._warn_unfitted()
        found = super().__getitem__(index)
        self.total_batches_seen += 1
        return _as_keras(found)

    def __iter__(self) -> Self:
        """Return itself, which never ends."""
        return self

    def __next__(self) -> Any:
        with self.lock:
            batch = self._following()
            self.batch_index = (self.batch_index + 1) % len(self)
            self.total_batches_seen += 1
        return _as_keras(self._layout.batch(batch))

    next = __next__

    def _following(self) -> Batch:
        """Return batch `batch_index`; those that follow it are made ahead once a second is wanted.

        For one batch alone, as to look at it, no others are made.
        """
        self._check_rows()
        self._warn_unfitted()
        ahead, index = self._ahead, self.batch_index
        if ahead is not None and ahead.position[1] == index:
            self._pass = ahead.position[0]
            return next(ahead)
        if not index:
            self._end_pass()
        batch = self._loader.batch(self._pass, index)
        after = divmod(index + 1, len(self))
        ahead = LookAhead(self._loader, (self._pass + after[0], after[1]), self._loader.plan)
        self._ahead, self._abandon = ahead, weakref.finalize(self, ahead.close)
        return batch

    def _check_rows(self) -> None:
        if not self.n:
            raise ArgumentError(
                "The PyDataset has length 0: no rows were taken. The warnings when it was made "
                "name the rows left out; subset= and validation_split= leave out others"
            )

    def close(self) -> None:
        """End the threads; the iterator cannot be used any more."""
        self._loader.close()

    def _warn_unfitted(self) -> None:
        if not self._warned:
            self._warned = True
            self.image_data_generator.warn_unfitted()

    def _end_pass(self) -> None:
        if self._ahead is not None:
            self._abandon()
            self._ahead, self._pass = None, self._pass + 1

    def reset(self) -> None:
        """Have `next` begin another pass, in another order where rows are shuffled."""
        self.batch_index = 0
        self._end_pass()

    def _check(self, call: Call) -> None:
        """Refuse and leave out what Keras does, keep `class_weight`, warn of a shuffled predict."""
        self._check_rows()
        self._warn_unfitted()
        given = checked_arguments(call.arguments, self.sample_weight is not None)
        if call.purpose == "predict" and self.shuffle:
            warn(
                "predict on an iterator that shuffles: the predictions come in the order of "
                "its epoch, not of it.filenames. Make it with shuffle=False"
            )
        if given.get("class_weight") is not None:
            known = range(len(getattr(self, "class_indices", ()))) or None
            self._class_weights[call.iterator] = checked_class_weight(given["class_weight"], known)
        super()._check(replace(call, arguments={**given, "class_weight": None}))

    def _divided(self, call: Call) -> tuple[Plan, Layout]:
        plan, layout = super()._divided(call)
        weights = self._class_weights.get(call.iterator)
        if weights is not None and isinstance(layout, FlowLayout):
            layout = replace(layout, weighted=True, class_weight=weights)
        return plan, layout

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "lock": None, "_ahead": None, "_abandon": None,
                "_class_weights": None}  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        new = {"lock": threading.Lock(), "_class_weights": weakref.WeakKeyDictionary()}
        super().__setstate__({**state, **new})


def bound_files(
    generator: Any, column: str, paths: list[str], options: FileOptions
) -> BoundFeature:
    """Return the images of files as an iterator of a generator feeds them."""
    feature = generator.loaded_image(column, options)
    return BoundFeature(IMAGE, feature, pa.array(paths, pa.string()))


def _layout(options: FlowOptions, y: Any, weighs: bool) -> FlowLayout:
    saved = None
    if options.save_to_dir:
        first = options.data_format == "channels_first"
        saved = SavedImages(options.save_to_dir, options.save_prefix, options.save_format, first)
    weighing = dict.fromkeys((y,) if isinstance(y, str) else y or (), (0, None))
    own = WEIGHT if weighs else None
    return FlowLayout(IMAGE, y, frozenset(), False, weighing, own_weights=own, saved=saved)


def _as_keras(batch: tuple[Any, ...]) -> Any:
    if len(batch) == 1:
        return batch[0]
    x, y, *weights = batch
    return (x, list(y) if isinstance(y, tuple) else y, *weights)
