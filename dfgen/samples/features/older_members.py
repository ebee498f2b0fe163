"""Members of features by their older names, so that features of your own go on working."""

import warnings
from collections.abc import Callable
from typing import Any

from dfgen.spec import Spec

_NOW: dict[str, tuple[str, Callable[[Any], Any] | None]] = {
    "after_transform": ("read_spec(False)", lambda feature: feature.read_spec(False)),
    "before_transform": ("read_spec(True)", lambda feature: feature.read_spec(True)),
    "has_channels": ("pixel_kind", lambda feature: feature.pixel_kind is not None),
    "is_image": ("pixel_kind", lambda feature: feature.pixel_kind == "image"),
    "label_column": ("the last of its columns", lambda feature: _label_column(feature)),
    "loss_axes": ("axes= of its Spec", None),
    "many_labels": ("for features that derive from MultiLabel", None),
    "transform_input": ("what a first length of None in read_spec(True) says", None),
}
"""Older name -> its new one, and what it returns."""


def read(feature: Any, name: str) -> Any:
    """Return a member by its older name, and warn; AttributeError if there never was such."""
    new, found = _NOW.get(name, ("", None))
    if found is None:
        raise AttributeError(f"{type(feature).__name__!r} object has no attribute {name!r}")
    _warn(type(feature), name, new, level=4)
    return found(feature)


def adopt(cls: Any) -> None:
    """Give a class that defines members by their older names the new ones, and warn."""
    given = _NOW.keys() & vars(cls).keys()
    for name in sorted(given):
        _warn(cls, name, _NOW[name][0], level=4)
    if given & {"after_transform", "before_transform"}:
        cls.read_spec = _read_spec
    if given & {"has_channels", "is_image"}:
        cls.pixel_kind = property(_pixel_kind)
    if "label_column" in given and "columns" not in vars(cls):
        names = cls.columns.fget
        cls.columns = property(lambda feature: _with(names(feature), feature.label_column))


def loss_axes(feature: Any, spec: Spec) -> int:
    """Return the axes of a loss, as a feature says it, or the Spec of its array."""
    own = getattr(type(feature), "loss_axes", None)
    return spec.loss_axes if own is None else int(own(feature, spec))


def _read_spec(feature: Any, transform: bool) -> Any:
    name = "before_transform" if transform else "after_transform"
    return getattr(feature, name) if hasattr(type(feature), name) else feature.spec


def _pixel_kind(feature: Any) -> str | None:
    if hasattr(type(feature), "is_image") and feature.is_image:
        return "image"
    return "map" if hasattr(type(feature), "has_channels") and feature.has_channels else None


def _label_column(feature: Any) -> str | None:
    return feature.columns[-1] if "class_names" in feature.__dataclass_fields__ else None


def _with(columns: tuple[str, ...], label_column: str | None) -> tuple[str, ...]:
    return (*dict.fromkeys([*columns, *filter(None, [label_column])]),)


def _warn(cls: type, old: str, new: str, level: int) -> None:
    warnings.warn(f"{cls.__name__}.{old} is now {new}", DeprecationWarning, stacklevel=level)
