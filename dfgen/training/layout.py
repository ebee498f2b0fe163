"""How the arrays of a batch are nested for a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from dfgen.loading.making import Batch
from dfgen.samples.features import Image, Mask, Spec
from dfgen.samples.padding import extra_of
from dfgen.training.binding import Binding
from dfgen.training.trees import map_leaves


@dataclass(frozen=True)
class Layout:
    """How the arrays of a batch are nested for Keras.

    Args:
        x, y: names of arrays, nested as the model's inputs and targets; y may be None.
        images: names of the arrays that follow `keras.config.image_data_format()`.
        weighted: whether every batch has weights.
    """

    x: Any
    y: Any
    images: frozenset[str]
    weighted: bool

    def batch(self, batch: Batch) -> tuple[Any, ...]:
        """Return (x,), (x, y) or (x, y, weights), always the same of them."""
        nested = self._nest({name: self._array(name, a) for name, a in batch.arrays.items()})
        if not self.weighted:
            return nested
        weights = batch.weights
        return *nested, np.ones(len(batch.rows), np.float32) if weights is None else weights

    def specs(self, specs: Mapping[str, Spec]) -> tuple[Any, ...]:
        """Return the Spec of every array, nested as the batches are."""
        nested = self._nest({name: self._spec(name, spec) for name, spec in specs.items()})
        return (*nested, Spec((), np.dtype(np.float32))) if self.weighted else nested

    def element_spec(self, specs: Mapping[str, Spec]) -> tuple[Any, ...]:
        """Return the KerasTensor of every array, nested as the batches are."""
        names = {name: name for name in specs}
        nested = (*self._nest(names), "sample_weight") if self.weighted else self._nest(names)
        return tuple(
            keras.tree.map_structure(_keras_tensor, tree, named)
            for tree, named in zip(self.specs(specs), nested, strict=True)
        )

    def _nest(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        trees = (self.x,) if self.y is None else (self.x, self.y)

        def find(tree: Any) -> Any:
            return named[tree] if isinstance(tree, str) else map_leaves(find, tree)

        return tuple(map(find, trees))

    def _array(self, name: str, array: Any) -> Any:
        return np.ascontiguousarray(np.moveaxis(array, -1, 1)) if self._turns(name) else array

    def _spec(self, name: str, spec: Spec) -> Spec:
        return Spec((spec.shape[-1], *spec.shape[:-1]), spec.dtype) if self._turns(name) else spec

    def _turns(self, name: str) -> bool:
        return name in self.images and keras.config.image_data_format() == "channels_first"


def _keras_tensor(spec: Spec, name: str) -> keras.KerasTensor:
    dtype = "string" if spec.dtype.hasobject else spec.dtype
    return keras.KerasTensor((None, *spec.shape), dtype, name=name)


def layout_of(binding: Binding, weighted: bool) -> Layout:
    """Return the layout of bound inputs and targets; weights are for targets alone."""
    images = {part.name for part in binding.parts if isinstance(part.feature, Image | Mask)}
    images |= {
        extra_of(part.name, part.feature.extra)
        for part in binding.parts
        if isinstance(part.feature, Image) and part.feature.extra == "padding_mask"
    }
    x, y = binding.arrays(binding.x), binding.arrays(binding.y)
    return Layout(x, y, frozenset(images), weighted and y is not None)
