"""Where a training stands: the receipt of the rows an epoch took, and the state to go on from."""

import warnings
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError
from dfgen.loading.order.permutation import ORDER, batch_count
from dfgen.system import whole

State = dict[str, int | str | None]


class Place(NamedTuple):
    """How far training has come.

    Args:
        epoch: passes completed.
        step: batches taken of the next one; or all of an epoch that has just ended.
        digest: the receipt of their rows.
        skipped: how many of their rows could not be read.
    """

    epoch: int = 0
    step: int = 0
    digest: int = 0
    skipped: int = 0


_VERSION = 1
_KEYS = (
    "version",
    "order",
    "seed",
    "epoch",
    "step",
    "batch_size",
    "rows",
    "ids",
    "labels",
    "shuffle",
    "balance",
    "bucket_by",
    "window",
    "pack",
    "receipt",
    "skipped",
)
_BLOCK = 65_536  # ids hashed at once


def receipt(epoch: int, positions: npt.ArrayLike, ids: Iterable[object]) -> int:
    """Return the digest of the rows that stood at these positions of an epoch.

    Use it to show which rows a model took. Receipts of parts add up, modulo 2**128, to the receipt
    of the whole, whatever the order of the parts and whichever host took them; a row lost, taken
    twice or exchanged changes the sum.

    Args:
        epoch: The epoch.
        positions: The positions in the order of the epoch; integers, in one dimension.
        ids: The id of the row at each position; an id counts as its text.

    Returns:
        The sum modulo 2**128 of BLAKE2b-128 of "{epoch}|{position}|{id}", each read as a
        little-endian integer.

    Raises:
        ArgumentError: If there are not as many ids as positions.

    Example:
        >>> whole = receipt(0, [0, 1, 2], ["a", "b", "c"])
        >>> whole == (receipt(0, [2], ["c"]) + receipt(0, [0, 1], ["a", "b"])) % 2**128
        True
    """
    places, names = np.asarray(positions).tolist(), list(ids)
    if len(places) != len(names):
        raise ArgumentError(f"{len(places)} positions and {len(names)} ids: expected one id each.")
    texts = (f"{epoch}|{place}|{name}" for place, name in zip(places, names, strict=True))
    digests = (blake2b(text.encode(), digest_size=16).digest() for text in texts)
    return sum(int.from_bytes(digest, "little") for digest in digests) % 2**128


def ids_digest(ids: Iterable[object]) -> str:
    """Return the digest of ids in their order, as 32 hexadecimal digits.

    Use it to tell whether two frames have the same rows in the same order: 10**6 ids take 0.2 s.

    Args:
        ids: The ids; an id counts as its text, so 7 is "7".

    Returns:
        BLAKE2b-128 of "dfgen/ids/1" and, for each 65,536 ids, their number, their lengths in
        characters (all little-endian int64) and their joined UTF-8.

    Example:
        >>> ids_digest(["a", "bc"]) == ids_digest(["ab", "c"])
        False
    """
    digest = blake2b(b"dfgen/ids/1", digest_size=16)
    rest = iter(ids)
    while block := [str(id) for id in islice(rest, _BLOCK)]:
        digest.update(np.array([len(block), *map(len, block)], "<i8").tobytes())
        digest.update("".join(block).encode())
    return digest.hexdigest()


def make_state(
    *,
    seed: int,
    epoch: int,
    step: int,
    batch_size: int,
    rows: int,
    ids: str,
    labels: str = "",
    shuffle: bool = True,
    balance: str | None = None,
    bucket_by: str | None = None,
    window: int | None = None,
    pack: str | None = None,
    receipt: int = 0,
    skipped: int = 0,
) -> State:
    """Return the state of a training as a dict for JSON, under 1 kB.

    Args:
        seed: The seed of the order.
        epoch: Passes completed.
        step: Global batches of this epoch that the model took. At the end of an epoch either all
            of them, or 0 with the next epoch.
        batch_size: Rows of a global batch.
        rows: The number of rows.
        ids: Their `ids_digest`.
        labels: A digest of their labels.
        shuffle: Whether they are shuffled.
        balance: By which classes they are balanced, None where they are not.
        bucket_by: By which shapes batches are gathered, None where they are not.
        window: Shards in a window, None for a full shuffle.
        pack: The fingerprint of the pack, None for loose files.
        receipt: The receipt of the rows that the model took of this epoch.
        skipped: How many rows of this epoch were skipped.

    Raises:
        ArgumentError: If a number is negative.
    """
    return {
        "version": _VERSION,
        "order": ORDER,
        "seed": whole("seed", seed),
        "epoch": whole("epoch", epoch),
        "step": whole("step", step),
        "batch_size": whole("batch_size", batch_size, least=1),
        "rows": whole("rows", rows),
        "ids": ids,
        "labels": labels,
        "shuffle": shuffle,
        "balance": balance,
        "bucket_by": bucket_by,
        "window": window,
        "pack": pack,
        "receipt": f"{whole('receipt', receipt, most=2**128 - 1):032x}",
        "skipped": whole("skipped", skipped),
    }


def check_state(
    state: Mapping[str, object],
    *,
    seed: int,
    batch_size: int,
    rows: int,
    ids: str,
    labels: str = "",
    shuffle: bool = True,
    balance: str | None = None,
    bucket_by: str | None = None,
    window: int | None = None,
    pack: str | None = None,
) -> Place:
    """Return the place to go on from, or refuse the state of another training.

    Use it before a training goes on: with other rows, another seed or batch size, rows would be
    repeated and missed. The number of hosts and workers may have changed. Changed labels warn.

    Args:
        state: What `make_state` gave, also after JSON.
        seed: As the training has it now, like the others.
        batch_size: Rows of a global batch.
        rows: The number of rows.
        ids: Their `ids_digest`.
        labels: A digest of their labels.
        shuffle: Whether they are shuffled.
        balance: By which classes they are balanced, None where they are not.
        bucket_by: By which shapes batches are gathered, None where they are not.
        window: Shards in a window, None for a full shuffle.
        pack: The fingerprint of the pack, None for loose files.

    Raises:
        ArgumentError: If the state is incomplete, of another version or of another order of rows.
    """
    _check_form(state)
    now: State = {"seed": seed, "shuffle": shuffle, "batch_size": batch_size, "rows": rows}
    now |= {"balance": balance, "bucket_by": bucket_by, "window": window, "pack": pack}
    for name, value in now.items():
        if state[name] != value:
            raise ArgumentError(
                f"The state was saved with {name}={state[name]!r}, this training has "
                f"{name}={value!r}: rows would be repeated and missed. Go on with "
                f"{name}={state[name]!r}, or start anew without the state."
            )
    if state["ids"] != ids:
        raise ArgumentError(
            "The state was saved with other ids, or the same in another order: rows would be "
            "repeated and missed. Go on with the manifest it was saved with, or start anew "
            "without the state."
        )
    if state["labels"] != labels:
        warnings.warn(
            "The state was saved with other labels: training goes on with those of now.",
            stacklevel=3,
        )
    epoch = whole("epoch of the state", state["epoch"])
    step = whole("step of the state", state["step"], most=batch_count(rows, batch_size))
    skipped = whole("skipped of the state", state["skipped"])
    try:
        return Place(epoch, step, int(str(state["receipt"]), 16), skipped)
    except ValueError as error:
        raise ArgumentError(
            f"receipt of the state={state['receipt']!r} is not a hexadecimal number."
        ) from error


def _check_form(state: Mapping[str, object]) -> None:
    """Refuse what is no state, an incomplete one, and one of another version or order."""
    if not isinstance(state, Mapping):
        raise ArgumentError(f"The state is {state!r}; expected the dict that state_dict() gave.")
    missing = [key for key in _KEYS if key not in state]
    if missing:
        raise ArgumentError(
            f"The state lacks {', '.join(missing)}: it was cut short, or is no state of dfgen. "
            "Use the one saved before it."
        )
    for name, known in (("version", _VERSION), ("order", ORDER)):
        if state[name] != known:
            raise ArgumentError(
                f"The state has {name}={state[name]!r}; this dfgen reads {name}={known!r}. "
                "If it was saved by a newer dfgen: pip install --upgrade keras-dfgen."
            )
