"""RowSource: where the arrays of a feature come from, one row or a whole chunk at a time."""

from dataclasses import dataclass
from typing import Any, Protocol

from dfgen.samples.features.base import Feature
from dfgen.samples.stores.known_files import KnownFiles
from dfgen.samples.stores.store import Store
from dfgen.spec import IntArray, Present, Values, Watch


class HeldRows(Protocol):
    """Which rows lie in packs."""

    @property
    def all_packed(self) -> bool:
        """Whether every row does."""

    def holds(self, row: int) -> bool:
        """Whether one row does."""


class RowSource:
    """Fills the arrays of one feature for any row of a manifest; travels to worker processes.

    One that holds decoded pixels passes the rows it lacks on, to the `FileSource` in the end.
    """

    files: "FileSource"
    """The end of the chain."""

    spec: Any
    """The shape and dtype of the pixels it holds, None for a length that differs; None: it holds
    none, and `take` is never called."""

    @property
    def far(self) -> bool:
        """Whether it reads ahead into the memory of this process."""
        return False

    @property
    def pixels_for(self) -> Feature:
        """The feature that makes the arrays of a batch of these pixels."""
        return self.files.feature

    def read(self, row: int, out: Any, store: Store, watch: Watch, given: Any) -> Any:
        """Fill `out` for one row; see `Feature.read`."""
        raise NotImplementedError

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the pixels of many rows; return which of them it holds, None: all."""
        raise NotImplementedError

    def ahead(self, rows: IntArray) -> None:
        """Have the system read some rows before they are asked for."""

    def has(self, row: int) -> bool:
        """Whether it reads one row without opening a file of its own."""
        return self.files.packed is not None and self.files.packed.holds(row)


@dataclass(frozen=True, eq=False)
class FileSource(RowSource):
    """Reads and decodes the file of each row, or runs the user's function on its columns.

    `known` are sizes and times that the manifest has (None: nothing is compared), `packed` tells
    which rows lie in packs.
    """

    feature: Feature
    values: Any
    known: KnownFiles | None = None
    packed: HeldRows | None = None
    spec = None

    @property
    def files(self) -> "FileSource":  # type: ignore[override]
        """Itself."""
        return self

    @property
    def far(self) -> bool:
        """Whether the files lie in remote packs."""
        return bool(getattr(self.values, "far", False))

    def ahead(self, rows: IntArray) -> None:
        """Have the packs of files read where some rows lie."""
        if hasattr(self.values, "ahead"):
            self.values.ahead(rows)

    def read(self, row: int, out: Any, store: Store, watch: Watch, given: Any) -> Any:
        """Read the file of one row, if it is the one that the manifest knows."""
        if self.known is not None:
            store = self.known.of(row, store)
        return self.feature.read(self.feature.at(self.values, row), out, store, watch, given)
