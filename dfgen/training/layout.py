"""How the arrays of a batch are nested for a model, and what other modules see of a Sequence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from dfgen.binding.bind import Binding
from dfgen.binding.nested import channels_first, leaves, tree_of
from dfgen.loading.loader import Loader
from dfgen.loading.pending_batch import Batch
from dfgen.spec import Spec

Weighs = Callable[[str, int], Any]
"""Returns the weights of an array by its name, with so many axes after the first."""


@dataclass(frozen=True)
class Layout:
    """How the arrays of a batch are nested for Keras.

    `weighing` has for each array of y the axes that its loss has beside that of the batch, and the
    name of the target that rows may lack.
    """

    x: Any  # names of arrays, nested as the inputs of a model
    y: Any  # likewise, or None
    images: frozenset[str]  # that follow `keras.config.image_data_format()`
    weighted: bool  # every batch has weights
    weighing: Mapping[str, tuple[int, str | None]]

    def batch(self, batch: Batch) -> tuple[Any, ...]:
        """Return (x,), (x, y) or (x, y, weights), always the same of them."""
        arrays = {
            name: channels_first(array) if self.turns(name) else array
            for name, array in batch.arrays.items()
        }
        of = lambda name, axes: batch.weights_of(name).reshape(-1, *[1] * axes)  # noqa: E731
        return self._nest(arrays, of)

    def specs(self, specs: Mapping[str, Spec]) -> tuple[Any, ...]:
        """Return the Spec of every array, nested as the batches are."""
        turned = {name: self._spec(name, spec) for name, spec in specs.items()}
        return self._nest(turned, lambda name, axes: Spec((1,) * axes, np.dtype(np.float32)))

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
        in that, or in which rows have a label, each target has its own, nested as y.
        """
        alike = len(set(self.weighing.values())) == 1
        tree = next(iter(self.weighing)) if alike else self.y
        return tree_of(tree, lambda name: of(name, self.weighing[name][0]))

    def _spec(self, name: str, spec: Spec) -> Spec:
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
        name: (bound.feature.loss_axes(spec), None if bound.present is None else bound.name)
        for bound in map(binding.__getitem__, leaves(binding.y))
        for name, spec in bound.specs.items()
    }
    x, y = binding.arrays(binding.x), binding.arrays(binding.y)
    return Layout(x, y, frozenset(images), weighted and y is not None, weighing)
