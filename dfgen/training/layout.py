"""The nesting of a batch for Keras, and the view of a Sequence that other modules use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pandas as pd

from dfgen.binding.bind import Binding
from dfgen.binding.nested import channels_first, leaves, tree_of
from dfgen.loading.loader import Loader
from dfgen.loading.pending_batch import Batch
from dfgen.loading.problems import Problems
from dfgen.spec import Spec
from dfgen.training.progress import Progress


@dataclass(frozen=True)
class Layout:
    """How the arrays of a batch are nested for Keras. Weights of pixels are (batch, 1, 1)."""

    x: Any  # names of arrays, nested as the inputs of a model
    y: Any  # likewise, or None
    images: frozenset[str]  # arrays that follow `keras.config.image_data_format()`
    weighted: bool  # whether every batch has weights
    weighing: Mapping[str, tuple[int, str | None]]
    """Array of y -> axes of its loss after the batch, and its name if its weights differ."""
    filled: frozenset[str] = frozenset()  # arrays of y with weights of their own, of full shape

    def batch(self, batch: Batch) -> tuple[Any, ...]:
        """Return (x,), (x, y) or (x, y, weights)."""
        arrays = {**batch.arrays, **{n: channels_first(batch.arrays[n]) for n in self._turned}}

        def weights(name: str) -> Any:
            own = batch.weights_of(name)
            shape = self._weight_shape(name, arrays[name].shape[1:])
            return np.broadcast_to(own.reshape(-1, *[1] * len(shape)), own.shape + shape).copy()

        return self._nest(arrays, weights)

    def specs(self, specs: Mapping[str, Spec]) -> tuple[Any, ...]:
        """Return the Spec of each array, nested as the batches."""
        turned = {name: self.turned(name, spec) for name, spec in specs.items()}
        shapes = {name: self._weight_shape(name, turned[name].shape) for name in self.weighing}
        return self._nest(turned, lambda name: Spec(shapes[name], np.dtype(np.float32)))

    def element_spec(self, specs: Mapping[str, Spec]) -> Any:
        """Return the KerasTensor of each array, nested as the batches."""

        def tensor(spec: Spec, name: str) -> keras.KerasTensor:
            dtype = "string" if spec.dtype.hasobject else spec.dtype
            return keras.KerasTensor((None, *spec.shape), dtype, name=name)

        names = self._nest({name: name for name in specs}, lambda name: "sample_weight")
        return keras.tree.map_structure(tensor, self.specs(specs), names)

    def _nest(self, parts: Mapping[str, Any], weights: Callable[[str], Any]) -> tuple[Any, ...]:
        nested = tuple(tree_of(t, parts.__getitem__) for t in (self.x, self.y) if t is not None)
        differ = len(self.weighing) > 1 and (self.filled or len({*self.weighing.values()}) > 1)
        weighed = self.y if differ else next(iter(self.weighing), None)
        return (*nested, tree_of(weighed, weights)) if self.weighted else nested

    def _weight_shape(self, name: str, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        axes = self.weighing[name][0]
        return shape[:axes] if name in self.filled else (1,) * axes

    def turned(self, name: str, spec: Spec) -> Spec:
        """Return the Spec of an array with its channels where the model expects them."""
        if name not in self._turned:
            return spec
        *items, height, width, channels = spec.shape
        return Spec((*items, channels, height, width), spec.dtype)

    @property
    def _turned(self) -> frozenset[str]:
        return self.images if keras.config.image_data_format() == "channels_first" else frozenset()


@dataclass(frozen=True, eq=False)
class SequenceView:
    """The parts of a Sequence; `binding` is None for `repeat()`, which is endless."""

    loader: Loader
    layout: Layout
    endless: bool = False
    binding: Any = None


def layout_of(binding: Binding, weighted: bool) -> Layout:
    """Return the layout of bound inputs and targets."""
    images = frozenset(name for name, spec in binding.reader.specs.items() if spec.pixels)
    weighing: dict[str, tuple[int, str | None]] = {}
    for bound in map(binding.__getitem__, leaves(binding.y)):
        for name, spec in bound.specs.items():
            differs = bound.present is not None or name in binding.own_weights
            weighing[name] = spec.loss_axes, bound.name if differs else None
    x, y = binding.arrays(binding.x), binding.arrays(binding.y)
    return Layout(x, y, images, weighted and y is not None, weighing)


def problems_frame(problems: Problems) -> pd.DataFrame:
    """Return id, path, stage, reason and epoch of the skipped rows, in the order of rows."""
    columns = ["id", "path", "stage", "reason", "epoch"]
    rows = [[*problems.where(row), *problems[row]] for row in sorted(problems)]
    return pd.DataFrame(rows, columns=columns).astype({"epoch": "Int64"})


def summary(loader: Loader, progress: Progress, rows: int, seed: int) -> str:
    """Return one line: rows, batches, arrays, seed and how far training has come."""
    plan, place = loader.plan, progress.place
    arrays = [
        f"{name} {'x'.join(map(str, spec.shape)).replace('None', '?') or 'scalar'} {spec.dtype}"
        for name, spec in loader.specs.items()
    ]
    part = f"; part {plan.shard[0]} of {plan.shard[1]}" if plan.shard[1] > 1 else ""
    part += f"; {plan.left_out:,} rows left out of each epoch" if plan.left_out else ""
    state = f"epoch {place.epoch}" + (f" after {place.step:,} batches" if place.step else "")
    batches = f"{rows:,} rows, {len(loader):,} batches of {loader.batch_size}{part}"
    return f"<dfgen.Sequence: {batches}; {', '.join(arrays)}; seed {seed}, {state}>"
