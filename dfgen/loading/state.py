"""The state of a training: digests of its rows and ids, and the state to go on from."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, brief, warn
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.shuffle import ORDER
from dfgen.system import flag, whole
from dfgen.table.arrow_types import joined_text
from dfgen.table.mapped_column import MappedColumn

State = dict[str, int | str | None]


class Place(NamedTuple):
    """How far training has come."""

    epoch: int = 0  # passes completed
    step: int = 0  # batches taken of the next one; or all of an epoch that has just ended
    digest: int = 0  # the receipt of their rows
    skipped: int = 0  # how many of their rows could not be read
    first: int = 0  # positions before batch 0, taken by batches of another size: below their size
    ended: bool = False  # whether the epoch has: what of it was not taken is left out

    @property
    def under_way(self) -> bool:
        """Whether something of the epoch was taken."""
        return bool(self.step or self.first)

    def taken(self, batch_size: int, rows: int) -> int:
        """Return how many positions of the epoch were taken."""
        return min(self.step * batch_size + self.first, rows)

    def plan(self, plan: Plan) -> Plan:
        """Return the plan of epochs of which this one goes on here."""
        if not (self.first or self.ended):
            return plan
        stop = self.taken(plan.batch_size, plan.rows) if self.ended else None
        return plan.going_on(self.epoch, self.first, stop)


_VERSION = 1
_IDS = 65_536  # hashed at once
# which a state has where they are not None
_OPTIONAL = ("rows_per_epoch", "weights", "window", "order_batch")
_PLACE = ("epoch", "step", "positions", "ended", "receipt", "skipped")
_MAY_CHANGE = ("batch_size", "processes")
CHECKSUM = "checksum"
OF_RANK = "receipt", "skipped", CHECKSUM
"""What each of the processes that train together has its own of."""
_EDITED = (
    "the state is not as it was saved: it was edited or damaged, and rows would be repeated or "
    "missed. Use the one saved before it, or start anew without a state; one that you edit on "
    'purpose says so by "checksum": None'
)


def receipt(epoch: int, positions: npt.ArrayLike, ids: Iterable[object]) -> int:
    """Return the digest of the rows that stood at these positions of an epoch, by their ids.

    Use it to show which rows a model took. Receipts of parts add up, modulo 2**128, to the receipt
    of the whole, whatever the order of the parts and whichever host took them; a row lost, taken
    twice or exchanged changes the sum. It is the sum modulo 2**128 of BLAKE2b-128 of the texts
    "{epoch}|{position}|{id}", each read as a little-endian integer.

    Example:
        >>> whole = receipt(0, [0, 1, 2], ["a", "b", "c"])
        >>> whole == (receipt(0, [2], ["c"]) + receipt(0, [0, 1], ["a", "b"])) % 2**128
        True
    """
    places, names = np.asarray(positions).tolist(), list(ids)
    if len(places) != len(names):
        raise ArgumentError(f"{len(places)} positions and {len(names)} ids: expected one id each")
    texts = (f"{epoch}|{place}|{name}" for place, name in zip(places, names, strict=True))
    digests = (blake2b(text.encode(), digest_size=16).digest() for text in texts)
    return sum(int.from_bytes(digest, "little") for digest in digests) % 2**128


def ids_digest(ids: Any) -> str:
    """Return the digest of ids in their order, as 32 hexadecimal digits.

    Use it to tell whether two frames have the same rows in the same order; one array of ids
    is the fastest. An id counts as its text, so 7 is "7". It is BLAKE2b-128 of
    "dfgen/ids/1" and, for each 65,536 ids, their number, their lengths in characters (all
    little-endian int64) and their joined UTF-8.

    Example:
        >>> ids_digest(["a", "bc"]) == ids_digest(["ab", "c"])
        False
    """
    digest = blake2b(b"dfgen/ids/1", digest_size=16)
    for block in _texts(ids):
        lengths = pc.utf8_length(block).to_numpy()
        digest.update(np.append(len(block), lengths).astype("<i8").tobytes())
        digest.update(joined_text(block)[0])
    return digest.hexdigest()


def _texts(ids: Any) -> Iterator[pa.Array]:
    """Yield ids as text, 65,536 at a time."""
    if isinstance(ids, pa.Array | MappedColumn | np.ndarray):
        for start in range(0, len(ids), _IDS):
            block = ids[start : start + _IDS]
            block = pa.array(block) if isinstance(block, np.ndarray) else block
            yield block.cast(pa.large_string())
        return
    rest = iter(ids)
    while block := [str(id) for id in islice(rest, _IDS)]:
        yield pa.array(block, pa.large_string())


@dataclass(frozen=True)
class Identity:
    """The identity that tells the order of rows of one training from that of another.

    Args:
        seed: of the order.
        batch_size: rows of a global batch.
        rows: the number of rows.
        ids: their `ids_digest`.
        labels: a digest of their labels, which may change.
        shuffle: whether they are shuffled.
        balance: by which classes they are balanced, None where they are not.
        bucket_by: by which shapes batches are gathered, None where they are not.
        rows_per_epoch: rows drawn in an epoch, None where they are as many as there are.
        weights: a digest of those that rows are drawn by, None where they are not.
        window: bytes of a window and a digest of its blocks, None where rows are not shuffled so.
        processes: how many share each batch.
        order_batch: the batch size that the epoch was begun with, where its order depends on that
            and it is another one by now; else None.

    Raises:
        ArgumentError: a number that cannot be.

    Example:
        >>> training = Identity(seed=0, batch_size=2, rows=6, ids=ids_digest(range(6)))
        >>> training.place(training.state(Place(epoch=1, step=2)))
        Place(epoch=1, step=2, digest=0, skipped=0, first=0, ended=False)
    """

    seed: int
    batch_size: int
    rows: int
    ids: str
    labels: str = ""
    shuffle: bool = True
    balance: str | None = None
    bucket_by: str | None = None
    rows_per_epoch: int | None = None
    weights: str | None = None
    window: str | None = None
    processes: int = 1
    order_batch: int | None = None

    @property
    def places(self) -> int:
        """The number of positions of an epoch."""
        return self.rows_per_epoch or self.rows

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("batch_size", 1), ("rows", 0)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=least))

    def state(self, place: Place) -> State:
        """Return the state of a training that has come to a place: a dict for JSON, under 1 kB.

        Args:
            place: `step` counts the global batches of the epoch that the model took: at its end
                all of them, and it has ended, or 0 with the next epoch. The digest is of rows it
                took.

        Raises:
            ArgumentError: a number is negative.
        """
        step = whole("step", place.step)
        state: State = {
            "version": _VERSION,
            "order": ORDER,
            **{name: v for name, v in vars(self).items() if v is not None or name not in _OPTIONAL},
            "epoch": whole("epoch", place.epoch),
            "positions": place._replace(step=step).taken(self.batch_size, self.places),
            "ended": place.ended,
            "receipt": f"{whole('receipt', place.digest, most=2**128 - 1):032x}",
            "skipped": whole("skipped", place.skipped),
        }
        return {**state, CHECKSUM: _checksum(state)}

    def place(self, state: Mapping[str, object]) -> Place:
        """Return the place to go on from, or refuse the state of another training.

        Use it before a training goes on: with other rows or another seed, rows would be repeated
        and missed. The number of workers may have changed. So may the batch size, the number of
        processes and labels, which warns. One without a checksum, edited on
        purpose, has its numbers checked.

        Args:
            state: what `state` gave, also after JSON; what else is in it is for others to read.
        """
        _check_form(state, self.state(Place()))
        if state.get(CHECKSUM) not in (None, _checksum(state)):
            raise ArgumentError(_EDITED)
        self._check_order(state)
        if state["labels"] != self.labels:
            warn("the state was saved with other labels: training goes on with those of now")
        whole("batch_size of the state", state["batch_size"], least=1)
        epoch = whole("epoch of the state", state["epoch"])
        taken = whole("positions of the state", state["positions"], most=self.places)
        ended = flag("ended of the state", state["ended"])
        whole("processes of the state", state["processes"], least=1)
        skipped = whole("skipped of the state", state["skipped"], most=taken)
        digest = state["receipt"]
        if not isinstance(digest, str) or re.fullmatch("[0-9a-f]{1,32}", digest) is None:
            raise ArgumentError(f"receipt of the state={digest!r} is not a hexadecimal number")
        self._tell_changes(state, taken)
        step, first = divmod(taken, self.batch_size)
        return Place(epoch, step, int(digest, 16), skipped, first, ended)

    def _tell_changes(self, state: Mapping[str, object], taken: int) -> None:
        now = vars(self)
        names = [name for name in _MAY_CHANGE if state.get(name, now[name]) != now[name]]
        if names:
            was, new = (
                " and ".join(f"{name}={values[name]!r}" for name in names)
                for values in (state, now)
            )
            warn(
                f"the state was saved with {was}, this training has {new}: its epoch goes on "
                f"after the {taken:,} rows that were taken"
            )

    def _check_order(self, state: Mapping[str, object]) -> None:
        for name, value in vars(self).items():
            saved = state.get(name)
            if name in ("labels", "order_batch", *_MAY_CHANGE) or saved == value:
                continue
            was = f"with {name}={saved!r}, this training has {name}={value!r}"
            advice = f"Go on with {name}={saved!r}"
            if name == "ids":
                was = "with other ids, or the same in another order"
                advice = "Go on with the manifest it was saved with"
            elif name == "weights":
                was = "with other weights in balance="
                advice = "Go on with those weights"
            elif name == "window" and None in (saved, value):
                was = "with the rows in other files, which are shuffled otherwise"
                advice = "Go on with the pack, or the files, it was saved with"
            raise ArgumentError(
                f"the state was saved {was}: rows would be repeated and missed. {advice}, or start "
                "anew without the state"
            )


def _check_form(state: Mapping[str, object], expected: State) -> None:
    """Refuse what is no state, an incomplete one, and one of another version or order."""
    if not isinstance(state, Mapping):
        raise ArgumentError(
            f"the state is {brief(state)}, expected the dict that state_dict() gave: "
            "of a file, json.loads(Path(path).read_text())"
        )
    missing = [key for key in expected if key not in state and key not in (CHECKSUM, *_OPTIONAL)]
    if missing:
        raise ArgumentError(
            f"the state lacks {', '.join(missing)}: it was cut short, or is no state of dfgen. "
            "Use the one saved before it"
        )
    for name in ("version", "order"):
        if state[name] != expected[name]:
            raise ArgumentError(
                f"the state has {name}={state[name]!r}; this dfgen reads {name}="
                f"{expected[name]!r}. If it was saved by a newer dfgen: pip install --upgrade "
                "keras-dfgen"
            )


def _checksum(state: Mapping[str, object]) -> str:
    names = ["version", "order", *Identity.__dataclass_fields__, *_PLACE]
    known = ((name, state.get(name)) for name in names)
    texts = (f"{name}={value}\0" for name, value in known if value is not None)
    return blake2b("".join(texts).encode(), digest_size=8).hexdigest()
