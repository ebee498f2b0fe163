"""Do the arrays of x have the shapes that a model takes? Told before the first step."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras

from dfgen.errors import ArgumentError


def check_shapes(model: Any, x: Any) -> None:
    """Refuse images of another size or other channels than a model can take.

    A functional model insists on the shapes of its inputs. A Sequential may take others, where its
    layers do: that is tried, without numbers. Height and width exchanged are never meant, and
    where a Flatten follows nobody else would tell.

    Args:
        model: of Keras; one that does not know its inputs is left alone.
        x: the inputs as `element_spec` has them.

    Raises:
        ArgumentError: a shape does not go into the model.
    """
    other = [pair for pair in _pairs(model, x) if _differ(*pair)]
    for given, expected in other:
        sizes = _sizes(given), _sizes(expected)
        turned = sizes[0] != sizes[1] and sizes[0] == sizes[1][::-1]
        if isinstance(model, keras.Sequential) and not turned and _takes(model, given):
            continue
        raise ArgumentError(
            f"x gives {given.name!r} as {_shown(given)}, but the model takes {_shown(expected)}"
            f"{', height and width exchanged' if turned else ''}: {_advice(given, expected)}"
        )


def _pairs(model: Any, x: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each array and the input that it feeds."""
    inputs = getattr(model, "inputs", None) or []
    keyed = None if isinstance(model, keras.Sequential) or not inputs else model.input
    if isinstance(x, Mapping):
        named = keyed if isinstance(keyed, Mapping) else {one.name: one for one in inputs}
        yield from ((x[name], named[name]) for name in named if name in x)
    elif len(given := keras.tree.flatten(x)) == len(inputs):
        yield from zip(given, inputs, strict=True)


def _differ(given: Any, expected: Any) -> bool:
    if len(given.shape) != len(expected.shape):
        return False  # Keras may add an axis, or take one away
    sizes = zip(given.shape[1:], expected.shape[1:], strict=True)
    return any(None not in pair and pair[0] != pair[1] for pair in sizes)


def _takes(sequential: Any, tensor: Any) -> bool:
    """Whether the layers take it one after another; of symbols, so that nothing is computed."""
    try:
        for layer in sequential.layers:
            other = [pair for pair in _pairs(layer, tensor) if _differ(*pair)]
            if other and not (isinstance(layer, keras.Sequential) and _takes(layer, tensor)):
                return False
            axes = getattr(layer.input_spec, "axes", None) or {}
            if any(tensor.shape[axis] not in (None, size) for axis, size in axes.items()):
                return False
            tensor = layer.compute_output_spec(tensor)
    except Exception:  # of any layer, of the user's own too
        return False
    return True


def _advice(given: Any, expected: Any) -> str:
    """Return what to write in the Sequence, or in the model."""
    shape = ", ".join("None" if size is None else str(size) for size in given.shape[1:])
    found = [f"the model begin with keras.Input(({shape}{',' * (len(given.shape) == 2)}))"]
    if len(given.shape) == 4:
        if _channels(given) != _channels(expected):
            names = {1: "grayscale", 3: "rgb", 4: "rgba"}
            if (mode := names.get(_channels(expected))) is not None:
                found.insert(0, f'color_mode="{mode}"')
        elif None not in _sizes(expected):
            found.insert(0, f"image_size={_sizes(expected)}")
    return f"write {found[0]}, or let {found[-1]}" if len(found) > 1 else f"let {found[0]}"


def _sizes(image: Any) -> tuple[Any, ...]:
    last = keras.config.image_data_format() == "channels_last"
    return tuple(image.shape[1:-1] if last else image.shape[2:])


def _channels(image: Any) -> Any:
    return image.shape[-1 if keras.config.image_data_format() == "channels_last" else 1]


def _shown(tensor: Any) -> str:
    return str(("batch", *tensor.shape[1:])).replace("'", "").replace("None", "any")
