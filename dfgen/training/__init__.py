"""Keras: the only package that imports it. Without its backend, the import says what to install."""

import sys

from dfgen.errors import MissingPackageError

_BACKENDS = "tensorflow", "jax", "torch"

try:
    import keras as keras
except ModuleNotFoundError as error:
    if error.name not in _BACKENDS:
        raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "keras"]:
        del sys.modules[name]  # the half of it that was imported, so that another try can succeed
    raise MissingPackageError(
        f"Keras runs on {error.name}, which is not installed. Install it:\n"
        f'    pip install "keras-dfgen[{error.name}]"\n'
        f"or set KERAS_BACKEND to another of {', '.join(_BACKENDS)} before Keras is imported"
    ) from None
