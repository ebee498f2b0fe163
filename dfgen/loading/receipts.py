"""What was trained on: receipts of epochs, counted batch by batch, and the state to resume from."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, brief, warn, whole
from dfgen.loading.order.draws import ORDER
from dfgen.loading.order.epochs import Epochs, Order
from dfgen.spec import IntArray
from dfgen.table.arrow_types import MappedColumn

State = dict[str, int | str]

_VERSION = 2
_IDS = 65_536  # hashed at once
OF_RANK = "receipt", "skipped"
"""Fields that each process of a training has of its own."""

Ids: TypeAlias = npt.NDArray[Any] | pa.Array | MappedColumn
"""The ids of all rows."""
_BLOCK = 8192  # positions at once


class Place(NamedTuple):
    """The place that a training has reached."""

    epoch: int = 0  # the number of complete passes
    step: int = 0  # batches of the next pass; all of them if it has just ended
    digest: int = 0  # the receipt of their rows
    skipped: int = 0  # their rows that could not be read


def receipt(epoch: int, positions: npt.ArrayLike, ids: Iterable[object]) -> int:
    """Return the digest of the ids at these positions of an epoch.

    Use it to show which rows a model was trained on. Receipts of parts add up, modulo 2**128, to
    the receipt of the whole, in any order and on any host; a lost, repeated or exchanged row
    changes the sum. It is the sum modulo 2**128 of BLAKE2b-128 of the texts
    "{epoch}|{position}|{id}", each read as a little-endian integer.

    Example:
        >>> whole = receipt(0, [0, 1, 2], ["a", "b", "c"])
        >>> whole == (receipt(0, [2], ["c"]) + receipt(0, [0, 1], ["a", "b"])) % 2**128
        True
    """
    pairs = zip(np.asarray(positions).tolist(), ids, strict=True)
    texts = [f"{epoch}|{position}|{id}".encode() for position, id in pairs]
    digests = [blake2b(text, digest_size=16).digest() for text in texts]
    return sum(int.from_bytes(digest, "little") for digest in digests) % 2**128


def ids_digest(ids: Any) -> str:
    """Return the digest of ids in their order, as 32 hexadecimal digits.

    Use it to compare the rows of two frames and their order; an array of ids is the fastest. An id
    counts as its text, so 7 is "7". It is BLAKE2b-128 of "dfgen/ids/1" and, for each 65,536 ids,
    their number, their lengths in characters (all little-endian int64) and their joined UTF-8.

    Example:
        >>> ids_digest(["a", "bc"]) == ids_digest(["ab", "c"])
        False
    """
    if not isinstance(ids, pa.Array | MappedColumn | np.ndarray):
        ids = pa.array([str(id) for id in ids], pa.large_string())
    digest = blake2b(b"dfgen/ids/1", digest_size=16)
    for start in range(0, len(ids), _IDS):
        block = ids[start : start + _IDS]
        block = pa.array(block) if isinstance(block, np.ndarray) else block
        block = block.cast(pa.large_string())
        lengths = pc.utf8_length(block).to_numpy()
        digest.update(np.append(len(block), lengths).astype("<i8").tobytes())
        whole_block = pa.LargeListArray.from_arrays([0, len(block)], block)
        digest.update(pc.binary_join(whole_block, pa.scalar("", block.type))[0].as_buffer())
    return digest.hexdigest()


@dataclass(frozen=True)
class Identity:
    """The training to which a state belongs.

    Args:
        order: the digest of the order of rows.
        seed: of the order.
        rows: the number of rows.
        ids: their `ids_digest`.
        labels: a digest of their labels, which may change.
        batch_size: rows of a global batch.
        processes: the number of processes that share each batch.

    Example:
        >>> training = Identity("shuffled", 0, rows=6, ids=ids_digest(range(6)), batch_size=2)
        >>> training.place(training.state(Place(epoch=1, step=2)))
        Place(epoch=1, step=2, digest=0, skipped=0)
    """

    order: str
    seed: int
    rows: int
    ids: str
    labels: str = ""
    batch_size: int = 32
    processes: int = 1

    def state(self, place: Place) -> State:
        """Return the state of a training at a place: a dict for JSON, under 1 kB.

        Args:
            place: `step` counts the global batches of the epoch that the model was trained on; all
                of them if the epoch has just ended.
        """
        return {
            "version": _VERSION,
            **asdict(self),
            "order": f"{ORDER} {self.order}",
            "epoch": place.epoch,
            "step": place.step,
            "receipt": f"{place.digest:032x}",
            "skipped": place.skipped,
        }

    def place(self, state: Mapping[str, Any]) -> Place:
        """Return the place of a state; raise if it belongs to another training.

        Labels, and the number of processes, may have changed, which warns; likewise the batch size
        if the rows taken are whole batches of the new size.

        Args:
            state: as returned by `state`, also after JSON; other keys are ignored.
        """
        own = self.state(Place())
        if not isinstance(state, Mapping):
            raise ArgumentError(f"the state is {brief(state)}, expected the dict of state_dict()")
        if missing := own.keys() - state.keys():
            raise ArgumentError(f"the state lacks {', '.join(sorted(missing))}: use another state")
        for name in ("version", "order", "seed", "rows", "ids"):
            if state[name] != own[name]:
                raise ArgumentError(
                    f"the state was saved with {name}={state[name]!r}, and this training has "
                    f"{name}={own[name]!r}, so rows would be repeated and missed: make the same "
                    "Sequence again, or train from the start"
                )
        least = {"batch_size": 1, "processes": 1, "epoch": 0, "step": 0, "skipped": 0}
        numbers = (whole(f"{name} of the state", state[name], least=n) for name, n in least.items())
        size, _, epoch, step, skipped = numbers
        taken = step * size
        if taken < self.rows and taken % self.batch_size:
            sizes = [n for n in range(1, min(taken, 2**14) + 1) if not taken % n]
            fitting = sorted(sorted(sizes, key=lambda n: abs(n - self.batch_size))[:12])
            raise ArgumentError(
                f"the state was saved after {taken:,} rows of an epoch, which are no whole batches "
                f"of batch_size={self.batch_size}: use one of {', '.join(map(str, fitting))}"
            )
        if taken and taken - size >= self.rows:
            raise ArgumentError(
                f"step={step} of the state, of batches of {size} rows, is beyond the end of an "
                f"epoch of {self.rows:,} rows"
            )
        digest = state["receipt"]
        if not isinstance(digest, str) or re.fullmatch("[0-9a-f]{1,32}", digest) is None:
            raise ArgumentError(f"receipt of the state={digest!r} is not a hexadecimal number")
        for name in ("labels", "batch_size", "processes"):
            if state[name] != own[name]:
                warn(f"the state was saved with {name}={state[name]!r}, now it is {own[name]!r}")
        return Place(epoch, -(-taken // self.batch_size), int(digest, 16), skipped)


@dataclass(frozen=True)
class Receipt:
    """The rows that were taken in one epoch.

    `rows + skipped + missing - repeated + left_out` is the number of rows of the manifest. If rows
    are drawn, it is the number of draws of an epoch: a row that is drawn twice is `repeated` only
    if it is taken three times. Two runs took the same rows at the same positions if their digests
    are equal, for any number of workers, hosts and interruptions. Receipts of hosts add up.

    Args:
        epoch: the epoch of the Sequence.
        rows: rows taken; a row that was taken twice counts twice.
        digest: of rows and positions, 32 hexadecimal digits: `dfgen.loading.receipts.receipt`.
        repeated: rows that were taken too often.
        missing: rows that were not taken, or too rarely.
        skipped: rows that could not be read and had weight 0 in their batch.
        left_out: rows at the end of the order that fill no batch.
    """

    epoch: int
    rows: int
    digest: str
    repeated: int = 0
    missing: int = 0
    skipped: int = 0
    left_out: int = 0

    def __add__(self, other: "Receipt") -> "Receipt":
        """Return the receipt of two parts of an epoch, as two hosts have taken them."""
        if not isinstance(other, Receipt):
            return NotImplemented
        if (self.epoch, self.left_out) != (other.epoch, other.left_out):
            raise ArgumentError(f"{self} and {other} are not parts of the same epoch")
        names = ("rows", "repeated", "missing", "skipped")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        digest = (int(self.digest, 16) + int(other.digest, 16)) % 2**128
        return replace(self, digest=f"{digest:032x}", **sums)


@dataclass(frozen=True)
class Handed:
    """A batch that was handed out."""

    seconds: float  # from its request on
    rows: IntArray
    skipped: Sequence[int] = ()  # places of rows that could not be read


class Ledger:
    """Counts the batches of an epoch, and continues with the next epoch.

    Batches before the place where it begins count as taken once. It keeps rows only of batches that
    are not the expected ones.
    """

    def __init__(self, epochs: Epochs, ids: Ids, place: Place) -> None:
        self._epochs, self._ids, self.place = epochs, ids, place
        self._surplus: list[IntArray] = []  # rows of batches that were not expected
        self._lack: list[IntArray] = []  # the rows that were expected instead

    @property
    def complete(self) -> bool:
        """Whether the epoch has ended; the next batch begins the next one."""
        return self.place.step == len(self._epochs.plan)

    def take(self, handed: Handed) -> Receipt | None:
        """Count a batch; return the receipt of the epoch if it was its last."""
        if self.complete:
            self.place, self._surplus, self._lack = Place(self.place.epoch + 1), [], []
        place, rows, lost = self.place, handed.rows, handed.skipped
        positions, expected, _ = self._epochs.batch(place.epoch, place.step)
        if not np.array_equal(rows, expected):
            self._surplus.append(rows)
            self._lack.append(expected)
            positions = np.resize(positions, len(rows))
        if lost:
            positions, rows = np.delete(positions, lost), np.delete(rows, lost)
        digest = place.digest + receipt(place.epoch, positions, ids_at(self._ids, rows))
        skipped = place.skipped + len(lost)
        self.place = Place(place.epoch, place.step + 1, digest % 2**128, skipped)
        return self.close() if self.complete else None

    def close(self) -> Receipt:
        """Return the receipt of an epoch that has ended."""
        place, plan, counts = self.place, self._epochs.plan, Counter[int]()
        for rows in self._surplus:
            counts.update(rows.tolist())
        for rows in self._lack:
            counts.subtract(rows.tolist())
        repeated = sum(count for count in counts.values() if count > 0)
        missing = repeated - counts.total()
        taken = plan.taken + counts.total() - place.skipped
        digest = f"{place.digest:032x}"
        return Receipt(place.epoch, taken, digest, repeated, missing, place.skipped, plan.left_out)


def digest_before(order: Order, ids: Ids, epoch: int, taken: int) -> int:
    """Return the receipt of the first positions of an epoch; 10**6 rows take 1 s."""
    digest = 0
    for start in range(0, taken, _BLOCK):
        block = np.arange(start, min(start + _BLOCK, taken))
        digest += receipt(epoch, block, ids_at(ids, order.at(epoch, block)[0]))
    return digest % 2**128


def ids_at(ids: Ids, rows: IntArray) -> list[object]:
    """Return the ids of rows."""
    if isinstance(ids, np.ndarray):
        return list(ids[rows].tolist())
    return [ids[row].as_py() for row in rows.tolist()]  # `take` would wait for the GIL
