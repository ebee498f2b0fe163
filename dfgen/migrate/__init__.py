"""Older loaders, over dfgen's workers: `ImageDataGenerator`, and the generator by hand.

One import is changed, and nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dfgen.migrate.endless_batches import generator_from_df as generator_from_df
    from dfgen.migrate.image_data_generator import ImageDataGenerator as ImageDataGenerator

_HOMES = {"ImageDataGenerator": "image_data_generator", "generator_from_df": "endless_batches"}

__all__ = ["ImageDataGenerator", "generator_from_df"]


def __getattr__(name: str) -> Any:
    """Import what needs Keras when it is asked for: worker processes take the features alone."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
