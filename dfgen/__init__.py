"""dfgen feeds Keras models from a pandas DataFrame.

Names are resolved on first use, so that `import dfgen` loads neither pandas nor Keras. The public
names are listed in `__init__.pyi`.
"""

from importlib import import_module

_STUB = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()  # of a zip file too
_LINES = [line.split() for line in _STUB.splitlines() if line.startswith("from ")]

_HOME = {name: module for _, module, _, name, *_ in _LINES}
"""Public name -> the module that has it."""

__version__ = "0.1.0"
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name in _HOME:
        return globals().setdefault(name, getattr(import_module(_HOME[name]), name))
    raise AttributeError(f"module 'dfgen' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
