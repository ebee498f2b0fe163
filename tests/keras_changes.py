"""Changes to the installed Keras, as another version of it might have them."""

import inspect
import re

import keras

from dfgen.training import keras_private

EPOCHS = keras_private.EpochIterator
TRAINER = next(c for c in keras.Model.__mro__ if re.search(r"backend\.\w+\.trainer", c.__module__))
BASE = next(c for c in keras.Model.__mro__ if c.__module__ == "keras.src.trainers.trainer")


def rename(patch, owner, old, new, functions=None):
    """Give a name another one in all that a class of Keras does, or in some functions of it."""
    if old in vars(owner) and functions is None:
        patch.setattr(owner, new, vars(owner)[old], raising=False)
    for name, value in list(vars(owner).items()):
        value = inspect.unwrap(value.fget if isinstance(value, property) else value)
        if inspect.isfunction(value) and (functions is None or name in functions):
            code = value.__code__
            names, variables = (
                tuple(new if name == old else name for name in known)
                for known in (code.co_names, code.co_varnames)
            )
            if functions is None:
                changed = code.replace(co_names=names)
            else:
                own = new if code.co_name == old else code.co_name
                changed = code.replace(co_varnames=variables, co_name=own)
            patch.setattr(value, "__code__", changed)
