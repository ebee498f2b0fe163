"""How the arrays of a batch are nested for a model; how a Sequence is seen: a view, its repr."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pandas as pd

from dfgen.binding.bind import Binding
from dfgen.binding.nested import channels_first, leaves, tree_of
from dfgen.loading.loader import Loader
from dfgen.loading.order.row_order import PaddingShare
from dfgen.loading.pending_batch import Batch
from dfgen.loading.problems import Problems
from dfgen.spec import Spec
from dfgen.training.progress import Progress

Weighs = Callable[[str, int], Any]
"""Returns the weights of an array by its name, with so many axes after the first."""


@dataclass(frozen=True)
class Layout:
    """How the arrays of a batch are nested for Keras.

    `weighing` has for each array of y the axes that its loss has beside that of the batch, and the
    name of the target where its rows weigh otherwise than those of others, or may lack it.
    `fills` has for arrays of y whether weights must be, or may not be, as large as they are.
    """

    x: Any  # names of arrays, nested as the inputs of a model
    y: Any  # likewise, or None
    images: frozenset[str]  # that follow `keras.config.image_data_format()`
    weighted: bool  # every batch has weights
    weighing: Mapping[str, tuple[int, str | None]]
    fills: Mapping[str, bool] = field(default_factory=dict)

    def batch(self, batch: Batch) -> tuple[Any, ...]:
        """Return (x,), (x, y) or (x, y, weights), always the same of them."""
        arrays = {
            name: channels_first(array) if self.turns(name) else array
            for name, array in batch.arrays.items()
        }

        def of(name: str, axes: int) -> Any:
            weights = batch.weights_of(name).reshape(-1, *[1] * axes)
            if self.fills.get(name):
                weights = np.broadcast_to(weights, arrays[name].shape[: weights.ndim])
            return weights.copy()  # Keras may multiply them in place

        return self._nest(arrays, of)

    def specs(self, specs: Mapping[str, Spec]) -> tuple[Any, ...]:
        """Return the Spec of every array, nested as the batches are."""
        turned = {name: self.turned(name, spec) for name, spec in specs.items()}

        def of(name: str, axes: int) -> Spec:
            shape = turned[name].shape[: max(axes, 0)] if self.fills.get(name) else (1,) * axes
            return Spec(shape, np.dtype(np.float32))

        return self._nest(turned, of)

    def element_spec(self, specs: Mapping[str, Spec]) -> tuple[Any, ...]:
        """Return the KerasTensor of every array, nested as the batches are."""
        names = self._nest({name: name for name in specs}, lambda name, axes: "sample_weight")
        found: tuple[Any, ...] = keras.tree.map_structure(_keras_tensor, self.specs(specs), names)
        return found

    def _nest(self, named: Mapping[str, Any], weights: Weighs) -> tuple[Any, ...]:
        trees = (self.x,) if self.y is None else (self.x, self.y)
        nested = tuple(tree_of(tree, named.__getitem__) for tree in trees)
        return (*nested, self._weights(weights)) if self.weighted else nested

    def _weights(self, of: Weighs) -> Any:
        """Return the weights for Keras, which multiplies losses by them as NumPy multiplies.

        A loss of pixels, (batch, height, width), needs them as (batch, 1, 1). Where losses differ
        in that, in what rows weigh or which have a label, or weights are to fill targets, each
        target has its own, nested as y.
        """
        alike = len({*self.weighing.values()}) == 1 and (len(self.weighing) == 1 or not self.fills)
        tree = next(iter(self.weighing)) if alike else self.y
        return tree_of(tree, lambda name: of(name, self.weighing[name][0]))

    def turned(self, name: str, spec: Spec) -> Spec:
        """Return the Spec of an array as Keras gets it, with its channels where they are to be."""
        if not self.turns(name):
            return spec
        *items, height, width, channels = spec.shape
        return Spec((*items, channels, height, width), spec.dtype)

    def turns(self, name: str) -> bool:
        """Whether the channels of an array stand before its height and width."""
        return name in self.images and keras.config.image_data_format() == "channels_first"


@dataclass(frozen=True, eq=False)
class SequenceView:
    """The parts of a Sequence, for checks, predictions, bench and explore: see `view_of`.

    `binding` is None of a `repeat()`, which is endless, and of other passes.
    """

    loader: Loader
    layout: Layout
    endless: bool = False
    binding: Any = None

    @property
    def element_spec(self) -> tuple[Any, ...]:
        """The KerasTensor of every array, nested as the batches are."""
        return self.layout.element_spec(self.loader.specs)


def _keras_tensor(spec: Spec, name: str) -> keras.KerasTensor:
    dtype = "string" if spec.dtype.hasobject else spec.dtype
    return keras.KerasTensor((None, *spec.shape), dtype, name=name)


def layout_of(binding: Binding, weighted: bool) -> Layout:
    """Return the layout of bound inputs and targets; weights are for targets alone."""
    images = {name for bound in binding.reader.features for name in bound.channel_arrays}
    weighing = {
        name: (
            spec.loss_axes,
            bound.name if bound.present is not None or name in binding.own_weights else None,
        )
        for bound in map(binding.__getitem__, leaves(binding.y))
        for name, spec in bound.specs.items()
    }
    x, y = binding.arrays(binding.x), binding.arrays(binding.y)
    return Layout(x, y, frozenset(images), weighted and y is not None, weighing)


def problems_frame(problems: Problems) -> pd.DataFrame:
    """Return id, path, stage, reason and epoch of rows that are skipped, in the order of rows."""
    rows = sorted(problems)
    where, found = [problems.where(row) for row in rows], [problems[row] for row in rows]
    columns = {
        "id": [id for id, _ in where],
        "path": [path for _, path in where],
        "stage": [one.stage for one in found],
        "reason": [one.reason for one in found],
        "epoch": pd.array([one.epoch for one in found], dtype="Int64"),
    }
    return pd.DataFrame(columns)


def summary(
    loader: Loader, progress: Progress, rows: int, seed: int, padding: PaddingShare | None
) -> str:
    """Return one line: rows of the manifest, batches, arrays, seed, how far training has come."""
    plan, place = loader.plan, progress.place
    arrays = ", ".join(f"{name} {_shape(spec, 'x')}" for name, spec in loader.specs.items())
    index, count = plan.shard
    part = f"; part {index} of {count}" if count > 1 else ""
    part += f"; {plan.rows:,} rows drawn an epoch" if plan.rows != rows else ""
    part += f"; {plan.left_out:,} rows left out of each epoch" if plan.left_out else ""
    if padding is not None:
        saved, before = (f"{share:.1%}" for share in padding)
        part += f"; {saved} padding, {before} without bucket_by"
    step = f" after {place.step:,} batches" if place.step else ""
    return (
        f"<dfgen.Sequence: {rows:,} rows, {len(loader):,} batches of "
        f"{loader.batch_size}{part}; {arrays}; seed {seed}, epoch {place.epoch}{step}>"
    )


def _shape(spec: Spec, by: str = " x ") -> str:
    return f"{by.join(map(str, spec.shape)).replace('None', '?') or 'scalar'} {spec.dtype}"
