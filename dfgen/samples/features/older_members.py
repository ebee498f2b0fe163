"""Members of features by their older names, so that features of your own go on working."""

import warnings
from typing import Any

from dfgen.spec import Spec

_NOW = {
    "after_transform": "read_spec(False)",
    "before_transform": "read_spec(True)",
    "has_channels": "pixel_kind",
    "is_image": "pixel_kind",
    "label_column": "the last of its columns, if it has a field class_names",
    "loss_axes": "axes= of its Spec",
    "many_labels": "for features that derive from MultiLabel",
    "transform_input": "what a first length of None in read_spec(True) says",
}


def read(feature: Any, name: str) -> Any:
    """Return a member by its older name, and warn; AttributeError if there never was such."""
    if name not in ("after_transform", "before_transform", "has_channels", "is_image"):
        raise AttributeError(f"{type(feature).__name__!r} object has no attribute {name!r}")
    _warn(type(feature), name)
    if name.endswith("_transform"):
        return feature.read_spec(name == "before_transform")
    return feature.pixel_kind == "image" or (name == "has_channels" and bool(feature.pixel_kind))


def adopt(cls: Any) -> None:
    """Give a class that defines members by their older names the new ones, and warn."""
    given = _NOW.keys() & vars(cls).keys()
    for name in sorted(given):
        _warn(cls, name)
    if given & {"after_transform", "before_transform"}:
        cls.read_spec = lambda feature, transform: _own(
            feature, "before_transform" if transform else "after_transform", feature.spec
        )
    if given & {"has_channels", "is_image"}:
        kinds = {"image": "is_image", "map": "has_channels"}
        cls.pixel_kind = property(
            lambda feature: next((kind for kind in kinds if _own(feature, kinds[kind])), None)
        )


def loss_axes(feature: Any, spec: Spec) -> int:
    """Return the axes of a loss, as a feature says it, or the Spec of its array."""
    own = getattr(type(feature), "loss_axes", None)
    return spec.loss_axes if own is None else int(own(feature, spec))


def _own(feature: Any, name: str, default: Any = None) -> Any:
    return getattr(feature, name) if hasattr(type(feature), name) else default


def _warn(cls: type, old: str) -> None:
    told = f"{cls.__name__}.{old} is now {_NOW[old]}"
    warnings.warn(told, DeprecationWarning, stacklevel=4)
