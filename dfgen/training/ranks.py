"""The processes that train together: they compare what they are about to do, and keep in touch.

The backend carries the first exchange. From then on each process has a line, TCP, to the first one,
whatever the backend: by it they gather small values, agree on the step after which to leave, and
hear at once of a process that has died, which gloo, NCCL and JAX tell late, without a name or not.
"""

import hmac
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import sha256
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError, RankError, brief
from dfgen.loading.loader import Loader
from dfgen.training.device_division import connected
from dfgen.training.keras_calls import of_fit
from dfgen.training.keras_private import VERSION, random_seed

_GRACE = 5.0  # seconds in which a process may end by itself after another one has
_CONNECTING = 30.0  # seconds
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Seconds, seconds and times: a machine that is gone is noticed after 25 s."""


def gathered(value: Any) -> list[Any]:
    """Return what each process gave, in their order, by way of the backend; all must call it.

    Args:
        value: what JSON can hold.
    """
    text = json.dumps(value)
    if keras.backend.backend() == "torch":
        import torch

        texts: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(texts, text)
        return [json.loads(each) for each in texts]
    from jax.experimental import multihost_utils

    data = np.frombuffer(text.encode(), np.uint8)
    sizes = np.ravel(multihost_utils.process_allgather(np.array([len(data)], np.int32)))
    padded = np.zeros(sizes.max(), np.uint8)
    padded[: len(data)] = data
    rows = np.reshape(multihost_utils.process_allgather(padded), (len(sizes), -1))
    return [json.loads(bytes(row[:size])) for row, size in zip(rows, sizes, strict=True)]


def alike(model: Any, loader: Loader) -> dict[str, Any]:
    """Return what processes that train one model have alike, beside the order of the rows."""
    backend = keras.backend.backend()
    found: dict[str, Any] = {"keras_seed": random_seed()}
    for name in ("dfgen", "keras", backend):
        found[f"version of {name}"] = sys.modules[name].__version__
    for name, spec in loader.specs.items():
        found[f"array {name!r}"] = f"{spec.shape} {spec.dtype}"
    for bound in loader.reader.features:
        feature: Any = bound.feature
        for one in fields(feature) if is_dataclass(feature) else ():
            found[f"{one.name} of {bound.name!r}"] = _shown(getattr(feature, one.name))
    if backend == "torch" and VERSION < (3, 16) and model.built:  # later ones take the first one's
        sums = [float(variable.value.detach().double().sum()) for variable in model.variables]
        found["weights"] = sha256(repr(sums).encode()).hexdigest()[:16]
    return found


def _shown(value: Any) -> str:
    """Return a value of a feature as text, the same in each process; a long one as its digest."""
    value = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) < 100 else sha256(text.encode()).hexdigest()[:16]


class Ranks:
    """The lines between the processes of one `fit`, by which each hears of all others.

    All processes must call its methods in the same order.

    Args:
        index: of this process.
        names: of all of them, for messages.
        lines: of the first process to each other one by its index; of another one to the first.
    """

    def __init__(self, index: int, names: list[str], lines: Mapping[int, socket.socket]) -> None:
        self.index, self._names, self._lines = index, names, lines
        self._given: list[deque[Any]] = [deque() for _ in names]
        self._rounds: SimpleQueue[Any] = SimpleQueue()
        self._ended: set[int] = set()
        self._gone: str | None = None
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._wants: Callable[[], Any] = lambda: None
        self._leave: Callable[[], Any] = lambda: None
        for rank, line in lines.items():
            listen = partial(_listen, weakref.ref(self), rank, line)
            threading.Thread(target=listen, name="dfgen-ranks", daemon=True).start()

    @property
    def count(self) -> int:
        """The number of processes."""
        return len(self._names)

    def gather(self, what: str, value: Any) -> list[Any]:
        """Return what each process gave, in their order, when all have.

        Args:
            what: it is about, in words; the same on all of them.
            value: what JSON can hold.
        """
        self._tell("value", [what, value]) if self.index else self._heard(0, "value", [what, value])
        while True:
            with suppress(Empty):
                found = self._rounds.get(timeout=1)  # so that handlers of signals have their turn
                if found is None:
                    self._rounds.put(None)
                    raise RankError(self._gone)
                if len({each for each, _ in found}) > 1:
                    raise RankError(
                        "the processes do not do the same: "
                        + by_rank([each for each, _ in found])
                        + ". Give each of them the same program, callbacks and number of steps"
                    )
                return [each for _, each in found]

    def may_leave(self, wants: Callable[[], bool], leave: Callable[[], Any]) -> None:
        """Have all leave a step early where a method says so; both methods are held weakly."""
        self._wants, self._leave = weakref.WeakMethod(wants), weakref.WeakMethod(leave)

    def step(self, position: tuple[int, int], waits_in_vain: bool = False) -> Any:
        """Wait until all have their batch of a step; return how to leave where one wants to."""
        wants = self._wants()
        leaves = waits_in_vain or (wants is not None and bool(wants()))
        epoch, step = position
        told = self.gather(f"step {step} of epoch {epoch}", leaves)
        if not any(told):
            return None
        if (leave := self._leave()) is None:
            raise RankError(f"{self._names[told.index(True)]} leaves the training")
        return leave

    def close(self) -> None:
        """Leave in peace."""
        if not self._closed.is_set():
            self._closed.set()
            self._tell("ended", None)
            with self._lock:
                for line in self._lines.values():
                    with suppress(OSError):
                        line.shutdown(socket.SHUT_WR)

    def _tell(self, kind: str, value: Any) -> None:
        """Send all lines a message; whoever does not get it has ended, which the line tells."""
        text = json.dumps([kind, value]).encode() + b"\n"
        with self._lock:  # so that messages do not mix, and no line is closed meanwhile
            for line in self._lines.values():
                with suppress(OSError):
                    line.sendall(text)

    def _heard(self, rank: int, kind: str, value: Any) -> None:
        with self._lock:
            if kind == "value":
                self._given[rank].append(value)
            elif kind == "ended":
                self._ended.add(rank)
            elif kind == "gathered":
                self._rounds.put(value)
            else:
                self._lose(*value)
            if all(self._given):
                found = [given.popleft() for given in self._given]
                self._tell("gathered", found)
                self._rounds.put(found)
            waiting = any(self._given) or (self.index and kind == "ended")
            early = [each for each in self._ended if not self._given[each]]
            if waiting and early:
                self._lose(
                    f"{self._names[early[0]]} has ended its fit, and others have not: all must "
                    "take equally many steps, so let nothing that differs between them, such as "
                    "EarlyStopping by rows of their own, end one alone",
                    died=False,
                )

    def _hung_up(self, rank: int) -> None:
        with self._lock:
            self._lines[rank].close()
        if rank not in self._ended and not self._closed.is_set():
            self._lose(
                f"{self._names[rank]} has died, or left its fit by an error, which it shows. Run "
                "all processes again; with BackupAndRestore they go on from the last backup"
            )

    def _lose(self, why: str, died: bool = True) -> None:
        """Tell all that it is over, and end this process where it waits for one that died."""
        with self._lock:
            if self._gone is not None or self._closed.is_set():
                return
            self._gone = why
            self._tell("over", [why, died])
            self._rounds.put(None)
        if not died:
            return  # whoever goes on waits in `gather`
        print(f"\ndfgen: {why}", file=sys.stderr, flush=True)
        ending = threading.Thread(target=_end_if_it_hangs, args=(self._closed,), daemon=True)
        ending.start()


def _listen(owner: "weakref.ref[Ranks]", rank: int, line: socket.socket) -> None:
    with suppress(OSError, ValueError), line.makefile("rb") as file:  # of half a message
        for text in file:
            if (ranks := owner()) is None:
                break
            ranks._heard(rank, *json.loads(text))
            del ranks
    if (ranks := owner()) is None:
        line.close()
    else:
        ranks._hung_up(rank)


def _end_if_it_hangs(closed: threading.Event) -> None:
    """End the process where its main thread waits for one that is no more.

    It may do so in `fit`, or at its end, where JAX waits for all processes.
    """
    while not closed.wait(_GRACE):
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        if of_fit("x", frame) is not None or _is_in(frame, "jax._src.distributed"):
            print("dfgen: this process waits for it in vain, and ends", file=sys.stderr, flush=True)
            os._exit(1)


def _is_in(frame: FrameType | None, module: str) -> bool:
    while frame is not None and frame.f_globals.get("__name__") != module:
        frame = frame.f_back
    return frame is not None


def meet(told: Mapping[str, Any], refusal: str | None = None) -> Ranks | None:
    """Compare what the processes are about to do, and connect them; all must call it.

    Args:
        told: name -> what must be the same on all of them; but `shard` must be another.
        refusal: why this process does not begin, which the others are told.

    Returns:
        None where it does not begin, and, with a warning, where they cannot be connected.

    Raises:
        ArgumentError: they differ.
        RankError: another one does not begin.
    """
    index, count = connected() or (0, 1)
    server = socket.create_server(("", 0), backlog=count) if index == 0 else None
    mine = {
        "told": told,
        "refusal": refusal,
        "host": socket.gethostname(),
        "process": os.getpid(),
        "port": server and server.getsockname()[1],
        "addresses": _addresses(),
        "token": secrets.token_hex(16),
    }
    try:
        found = gathered(mine)
        names = [
            f"rank {rank} (process {each['process']} on {each['host']})"
            for rank, each in enumerate(found)
        ]
        if refusal is not None:
            return None
        _refuse_differences([each["told"] for each in found])
        for name, each in zip(names, found, strict=True):
            if each["refusal"] is not None:
                raise RankError(f"{name} does not begin: {each['refusal']}")
        fault, lines = None, {}
        try:
            token = found[0]["token"]
            lines = {0: _call(index, token, found[0])} if index else _answer(server, token, count)
        except OSError as error:
            fault = str(error)
        faults = [fault for fault in gathered(fault) if fault is not None]
    finally:
        if server is not None:
            server.close()
    if faults:
        for line in lines.values():
            line.close()
        warnings.warn(
            f"the processes cannot reach the first one beside the backend ({faults[0]}): on "
            "SIGTERM they do not leave together, and none can say which of them has died. Let "
            f"them open any port of {found[0]['host']}",
            stacklevel=2,
        )
        return None
    return Ranks(index, names, lines)


def _addresses() -> list[str]:
    """Return addresses at which others may reach this machine."""
    names = [socket.gethostname(), os.environ.get("MASTER_ADDR", "")]
    found = []
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("192.0.2.1", 9))  # a reserved address: it sends nothing, but has a route
        found.append(asking.getsockname()[0])
    for name in filter(None, names):
        with suppress(OSError):
            found += [info[4][0] for info in socket.getaddrinfo(name, None, socket.AF_INET)]
    return [*dict.fromkeys(str(each) for each in found)]


def _call(index: int, token: str, first: Mapping[str, Any]) -> socket.socket:
    """Return a line to the first process."""
    is_here = first["host"] == socket.gethostname()
    faults = []
    for address in ["127.0.0.1"] * is_here + first["addresses"]:
        try:
            line = socket.create_connection((address, first["port"]), _CONNECTING / 6)
            line.sendall(json.dumps([token, index]).encode() + b"\n")
            return _kept_alive(line)
        except OSError as error:
            faults.append(f"{address}:{first['port']}: {error.strerror or error}")
    raise OSError("; ".join(faults) or "no address is known")


def _answer(server: Any, token: str, count: int) -> dict[int, socket.socket]:
    """Return a line to each other process, which shows the token."""
    lines: dict[int, socket.socket] = {}
    until = time.monotonic() + _CONNECTING
    while len(lines) < count - 1:
        server.settimeout(max(0.01, until - time.monotonic()))
        line, _ = server.accept()
        line.settimeout(_CONNECTING / 6)
        with suppress(OSError, ValueError, TypeError), line.makefile("rb", 0) as file:
            shown, rank = json.loads(file.readline(200))
            if hmac.compare_digest(str(shown), token):
                lines[int(rank)] = _kept_alive(line)
                continue
        line.close()
    return lines


def _kept_alive(line: socket.socket) -> socket.socket:
    line.settimeout(None)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return line


_ADVICE = {
    "shard": 'Give each its own part: shard="auto", or (0, 2), (1, 2)',
    "keras_seed": "Call keras.utils.set_random_seed(0) in each before the model is made",
    "weights": (
        "Call keras.utils.set_random_seed(0) in each before the model is made, or load the same "
        "weights"
    ),
    "ids": "Give all the same rows in the same order",
}


def _refuse_differences(told: list[Mapping[str, Any]]) -> None:
    """Refuse processes that would train on other rows or in another way than each other."""
    faults = []
    for name in dict.fromkeys(name for each in told for name in each):
        values = [each.get(name) for each in told]
        if name == "shard":
            parts = {each and tuple(each) for each in values}  # None: Keras divides the batches
            if parts != {None} and parts != {(n, len(told)) for n in range(len(told))}:
                faults.append((name, values))
        elif any(value != values[0] for value in values):
            faults.append((name, values))
    if faults:
        shown = "; ".join(f"{name}: {by_rank(values)}" for name, values in faults[:4])
        advice = next((_ADVICE[name] for name, _ in faults if name in _ADVICE), None)
        raise ArgumentError(
            "the processes that train together are not set up alike, and rows would be repeated "
            f"and missed, or models drift apart. {shown}. {advice or 'Make them the same on all'}"
        )


def by_rank(values: list[Any]) -> str:
    """Return `3 on rank 0, 4 on ranks 1 and 2`."""
    texts = [brief(value) if not isinstance(value, str) else value for value in values]
    ranks = {text: [n for n, each in enumerate(texts) if each == text] for text in texts}
    return ", ".join(
        f"{text} on rank{'s' * (len(held) > 1)} {' and '.join(map(str, held))}"
        for text, held in ranks.items()
    )
