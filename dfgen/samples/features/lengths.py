"""Arrays of unequal length, which batches pad to their longest: arguments, and files to ask."""

from typing import Any

from dfgen.errors import ArgumentError, DecodeError, DfgenError, unreadable
from dfgen.samples.features.arguments import checked_shape
from dfgen.samples.features.base import Feature
from dfgen.samples.stores.store import Store


class MayOwnLength(Feature):
    """A feature whose arrays have one shape, or each a length of its own."""

    shape: tuple[int | None, ...]
    extra: str | None = None

    @property
    def own_length(self) -> bool:
        """Whether every array has a length of its own."""
        return self.shape[:1] == (None,)

    def arrays(self, name: str) -> Any:
        """Return the name of its array, and with `extra` that of what tells it from padding."""
        return name if self.extra is None else {self.kind: name, self.extra: f"{name}_mask"}


def own_shape(shape: object) -> tuple[int | None, ...]:
    """Return the shape of an array, of which the first length may be None, each row's own."""
    if isinstance(shape, tuple | list) and len(shape) and shape[0] is None:
        return (None, *checked_shape(shape[1:]))
    return checked_shape(shape)


def check_extra(feature: Any, instead: str) -> None:
    """Refuse an `extra` that is none, or that arrays of one length have no use for."""
    if feature.extra not in (None, "padding_mask"):
        raise ArgumentError(f'extra must be None or "padding_mask", got {feature.extra!r}')
    if feature.extra is not None and not feature.own_length:
        raise ArgumentError(
            f"extra={feature.extra!r} is for arrays of unequal length, {instead}: "
            "with one length there is no padding, leave it out"
        )


def looked(value: Any, store: Store) -> Store:
    """Return the store that tells the header of a file; a pipe is refused, and not waited for."""
    try:
        store = store.look(value)
        head = store.head(value)
    except (DfgenError, MemoryError):
        raise
    except Exception as error:
        raise unreadable(error) from error
    if head.problem:
        raise DecodeError(f"the file cannot be read: {head.problem}")
    return store
