"""The cases of survive.py: each does one thing to a loader and returns the outcome.

A case gets `open_(**job)`, which opens a feed on `ROWS` files of a folder of its own. survive.py
sees hangs, crashes and processes that are left behind.
"""

import contextlib
import ctypes
import gc
import os
import signal
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import PIL.Image
import psutil
from survive_loaders import Draw, Feed, Pixels

ROWS, BAD, EPOCHS, BREAKS = 120, 37, 2, 10
Open = Callable[..., Feed]
Batches = Iterable[tuple[int, list[int]]]


@dataclass(frozen=True)
class Outcome:
    """The result of a case, and whether it is good for a user."""

    good: bool
    what: str


@dataclass(frozen=True)
class Case:
    title: str
    run: Callable[[Open, Path], Outcome]
    needs_processes: bool = False
    limit: float = 90  # seconds


def write_files(folder: Path) -> list[str]:
    """Write the files of a turn; return their paths."""
    folder.mkdir(parents=True)
    paths = [folder / f"pet-{row:04}.png" for row in range(ROWS)]
    for row, path in enumerate(paths):
        PIL.Image.new("RGB", (32, 32), (row, row, row)).save(path)
    return [str(path) for path in paths]


def workers() -> list[psutil.Process]:
    """Return the worker processes, without the helpers of multiprocessing."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            command = " ".join(child.cmdline())
            if "resource_tracker" not in command and "forkserver" not in command:
                found.append(child)
    return found


def slowly(pixels: Pixels, row: int, draw: Draw) -> Pixels:
    time.sleep(0.005)
    return pixels


def epochs(feed: Feed, number: int = EPOCHS) -> Iterator[tuple[int, list[int]]]:
    """Yield (epoch, rows) of each batch; each row must have its own pixels."""
    for epoch in range(number):
        for pixels, rows in feed.epoch():
            if pixels[:, 0, 0, 0].tolist() != rows:
                raise RuntimeError("a row has the pixels of another")
            yield epoch, rows


def exact(batches: Batches) -> Outcome:
    """Return whether each row came once in each epoch."""
    try:
        seen = Counter((epoch, row) for epoch, rows in batches for row in rows)
    except Exception as error:
        traceback.print_exc()
        return Outcome(False, f"error: {type(error).__name__}")
    wanted = Counter((epoch, row) for epoch in range(EPOCHS) for row in range(ROWS))
    lost, more = (wanted - seen).total(), (seen - wanted).total()
    if lost or more:
        return Outcome(False, f"{lost} rows lost, {more} doubled")
    return Outcome(True, "every row once")


def names_file(batches: Batches) -> Outcome:
    """Return whether the training stops with an error that names the file."""
    try:
        for _ in batches:
            pass
    except BaseException as error:
        traceback.print_exc()
        named = f"pet-{BAD:04}" in "".join(traceback.format_exception(error))
        return Outcome(named, "error names the file" if named else "error without the file")
    return Outcome(False, "unnoticed")


def killing(steps: Iterable[int], count: int | None) -> Callable[[Open, Path], Outcome]:
    """Return a case in which workers are killed at some steps."""

    def batches(feed: Feed) -> Iterator[tuple[int, list[int]]]:
        for step, batch in enumerate(epochs(feed)):
            for worker in workers()[:count] if step in steps else []:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
            yield batch

    return lambda open_, folder: exact(batches(open_(change=slowly)))


def user_function(fault: Callable[[], object]) -> Callable[[Open, Path], Outcome]:
    """Return a case in which the user's function fails on one row."""

    def change(pixels: Pixels, row: int, draw: Draw) -> Pixels:
        if row == BAD:
            fault()
        return pixels

    return lambda open_, folder: names_file(epochs(open_(change=change)))


def _raise() -> None:
    raise ValueError("no such thing")


def signalled(send: Callable[[Path], object]) -> Callable[[Open, Path], Outcome]:
    """Return a case in which a signal is sent after two steps."""

    def run(open_: Open, folder: Path) -> Outcome:
        try:
            for step, _ in enumerate(epochs(open_(change=slowly))):
                if step == 2:
                    send(folder)
        except KeyboardInterrupt:
            return Outcome(True, "KeyboardInterrupt")
        except Exception as error:
            return Outcome(False, f"error: {type(error).__name__}")
        return Outcome(False, "unnoticed")

    return run


def _kill_program(folder: Path) -> None:
    (folder / "killed").touch()
    os.kill(os.getpid(), signal.SIGKILL)


def broken_off(open_: Open, folder: Path) -> Outcome:
    """Leave loops over a loader after their first batch, and count what remains."""

    def held() -> tuple[int, int, int]:
        gc.collect()
        me = psutil.Process()
        return me.num_fds(), me.num_threads(), len(me.children(recursive=True))

    feed, before = open_(), None
    for _ in range(BREAKS + 1):
        next(epochs(feed))
        before = before or held()
    deadline = time.monotonic() + 5
    while (after := held()) > (before or after) and time.monotonic() < deadline:
        time.sleep(0.1)
    grown = [new - old for new, old in zip(after, before or after, strict=True)]
    kinds = ("descriptors", "threads", "processes")
    words = [f"{n} {what}" for n, what in zip(grown, kinds, strict=True) if n > 3]
    return Outcome(not words, f"leaves {', '.join(words)}" if words else "nothing left")


def bad_file(spoil: Callable[[Path], object]) -> Callable[[Open, Path], Outcome]:
    """Return a case in which a file changes after the loader is made."""

    def run(open_: Open, folder: Path) -> Outcome:
        feed = open_()
        spoil(folder / "files" / f"pet-{BAD:04}.png")
        return names_file(epochs(feed))

    return run


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def _replace(path: Path) -> None:
    """Write another photograph with the same first pixel."""
    image = PIL.Image.new("RGB", (48, 48), (BAD, BAD, BAD))
    image.putpixel((40, 40), (255, 0, 0))
    image.save(path)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _bomb(path: Path) -> None:
    """Write a PNG of 20,000 x 20,000 pixels in 400 kB."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    side = 20_000
    packer = zlib.compressobj(1)
    rows = b"".join(packer.compress(bytes((side + 1) * 100)) for _ in range(side // 100))
    header = side.to_bytes(4) * 2 + bytes((8, 0, 0, 0, 0))
    data = chunk(b"IHDR", header) + chunk(b"IDAT", rows + packer.flush()) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def resumed(open_: Open, folder: Path) -> Outcome:
    """Save the state after 7 batches, and resume from it with another feed."""
    first, rest, state = open_(), [], None
    for step, (_, rows) in enumerate(epochs(first, 1)):
        rest += rows if step > 6 else []
        if step == 6 and (state := first.state_dict()) is None:
            return Outcome(False, "cannot")
    again = open_()
    again.state = state
    got = [row for _, rows in epochs(again, 1) for row in rows]
    return Outcome(got == rest, "the rest exactly" if got == rest else "other rows")


def same_order(open_: Open, folder: Path) -> Outcome:
    found = {tuple(map(str, epochs(open_(workers=number)))) for number in (1, 2, 3)}
    return Outcome(len(found) == 1, "the same" if len(found) == 1 else f"{len(found)} orders of 3")


def same_draws(open_: Open, folder: Path) -> Outcome:
    """Compare the random numbers of the user's function for each row."""

    def drawn(pixels: Pixels, row: int, draw: Draw) -> Pixels:
        pixels = pixels.copy()
        pixels[0, 0, 1] = int(256 * draw())
        return pixels

    found = set()
    for number in (1, 2, 3):
        draws = {}
        for pixels, rows in open_(change=drawn, workers=number).epoch():
            draws |= dict(zip(rows, pixels[:, 0, 0, 1].tolist(), strict=True))
        found.add(tuple(sorted(draws.items())))
    return Outcome(len(found) == 1, "the same" if len(found) == 1 else "others")


def under_fit(open_: Open, folder: Path) -> Outcome:
    """Train two epochs with Keras's `fit`, and note the rows of each step."""
    import keras

    steps: list[list[int]] = []

    class Looks(keras.Model):
        def train_step(self, *given: Any) -> Any:
            steps.append([int(row) for row in given[-1][1]])
            return ({"loss": 0.0}, given[0]) if len(given) > 1 else {"loss": 0.0}

    model = Looks()
    model.built = True
    model.compile(run_eagerly=True)
    model.fit(open_().data, epochs=EPOCHS, verbose=0)
    per_epoch = -(-ROWS // 4)
    return exact((step // per_epoch, rows) for step, rows in enumerate(steps))


CASES = {
    "kill_one": Case("a worker process is killed", killing([2], 1), needs_processes=True),
    "kill_all": Case(
        "all workers are killed, ten times", killing(range(2, 40, 4), None), needs_processes=True
    ),
    "segfault": Case("your function crashes on a row", user_function(lambda: ctypes.string_at(0))),
    "sys_exit": Case("it calls `sys.exit`", user_function(lambda: sys.exit(123))),
    "raises": Case("it raises", user_function(_raise)),
    "missing": Case("a file is removed", bad_file(os.remove)),
    "cut": Case("a file is cut short", bad_file(_cut)),
    "replaced": Case("a file is replaced by another", bad_file(_replace)),
    "hangs": Case("a read never returns", bad_file(_pipe)),
    "bomb": Case("an image of 400 million pixels in 400 kB", bad_file(_bomb)),
    "parent": Case("the program is killed", signalled(_kill_program)),
    "ctrl_c": Case("Ctrl-C", signalled(lambda folder: os.killpg(0, signal.SIGINT))),
    "break": Case(f"{BREAKS} loops end with `break`", broken_off, limit=300),
    "resume": Case("resume in mid-epoch, in another process", resumed),
    "order": Case("row order with 1, 2 and 3 workers", same_order),
    "draws": Case("random numbers of a row with 1, 2 and 3 workers", same_draws),
    "fit": Case("two epochs with Keras's `fit`", under_fit),
}
