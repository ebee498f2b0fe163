"""Keras: the only package that imports it. Without its backend, the import says what to install."""

import sys
from importlib.util import find_spec

from dfgen.errors import MissingPackageError

_BACKENDS = "tensorflow", "jax", "torch"


def _how_to_choose(missing: str) -> str:
    found = [name for name in _BACKENDS if find_spec(name) is not None]
    if found:
        choices = " or ".join(f"KERAS_BACKEND={name}" for name in found)
        return (
            f"Keras is set to run on {missing}, which is not installed; {' and '.join(found)} "
            f"{'is' if len(found) == 1 else 'are'}. Set {choices} in the environment, or "
            '"backend" in ~/.keras/keras.json, before Keras is imported; or '
            f'pip install "keras-dfgen[{missing}]"'
        )
    return (
        "Keras runs on TensorFlow, JAX or torch, and none of them is installed. Install one:\n"
        '    pip install "keras-dfgen[tensorflow]"\n'
        '    pip install "keras-dfgen[jax]"    and set KERAS_BACKEND=jax in the environment\n'
        '    pip install "keras-dfgen[torch]"  and set KERAS_BACKEND=torch in the environment'
    )


try:
    import keras as keras
except ModuleNotFoundError as error:
    if error.name not in _BACKENDS:
        raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "keras"]:
        del sys.modules[name]  # the half of it that was imported, so that another try can succeed
    raise MissingPackageError(_how_to_choose(error.name)) from None
