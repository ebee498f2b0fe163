"""StoredPixels: images that are decoded already, of a pack, a cache or an array file."""

from typing import Protocol, runtime_checkable

from dfgen.samples.features.spec import Indices, Present, Spec, Values
from dfgen.samples.pixels.geometry import Geometry


class StoredPixels(Protocol):
    """The decoded pixels of every row of a manifest, or of some of them.

    It travels to worker processes, so it can be pickled; what it opens it opens there.
    """

    @property
    def spec(self) -> Spec:
        """The shape of each row: (height, width, channels), None for a length that differs."""

    def at(self, row: int) -> Values | None:
        """Return the pixels of one row, (height, width, channels), a view; None: none are there.

        Raises:
            DecodeError: what is stored of this row is broken.
        """

    def take(self, rows: Indices, out: Values) -> Present | None:
        """Fill `out`, (rows, height, width, channels), all at once and with Python's lock released.

        It is asked only where no length of its Spec is None. Return which of the rows are there,
        None: all.
        """

    def placed(self, row: int) -> Geometry | None:
        """Return how the upright image of a row became what is read of it, None: that is all."""


@runtime_checkable
class ReadsAhead(Protocol):
    """StoredPixels that can have the system read rows before they are asked for.

    Those that are `far` are read into the memory of this process.
    """

    far: bool

    def ahead(self, rows: Indices) -> None:
        """Have some rows read into the system's cache; it may take a while."""
