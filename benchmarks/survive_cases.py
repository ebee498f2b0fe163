"""The cases of survive.py: each does one thing to a loader and says what came of it.

A case gets `open_(**job)`, which opens a feed on `ROWS` files of a folder of its own. What it sees
is an Outcome; what only an onlooker sees (a hang, a crash, processes left) is survive.py's.
"""

import contextlib
import ctypes
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import psutil
from survive_loaders import Draw, Feed, Pixels

ROWS, BAD, EPOCHS, BREAKS = 120, 37, 2, 10
Open = Callable[..., Feed]


@dataclass(frozen=True)
class Outcome:
    """What came of a case, and whether that is what a user needs."""

    good: bool
    what: str


@dataclass(frozen=True)
class Case:
    """What is done, and the function that does it."""

    title: str
    run: Callable[[Open, Path], Outcome]
    limit: float = 90  # seconds, of which the longest that ends takes a third on an idle machine
    needs: str = ""  # "processes": of its own; "fit": a backend that trains; "mount": a small disk


EVERY_ROW = Outcome(True, "every row once")
NAMED, UNNAMED = "error names the file", "error without the file"


def write_files(folder: Path) -> list[str]:
    """Write the files of a turn; return their paths."""
    folder.mkdir(parents=True)
    paths = [folder / f"pet-{row:04}.png" for row in range(ROWS)]
    for row, path in enumerate(paths):
        PIL.Image.new("RGB", (32, 32), (row, row, row)).save(path)
    return [str(path) for path in paths]


def workers() -> list[psutil.Process]:
    """Return the worker processes that live; helpers of multiprocessing are none."""
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
            if np.asarray(pixels)[:, 0, 0, 0].tolist() != rows:
                raise RuntimeError("a row has the pixels of another")
            yield epoch, rows


def came(batches: Iterator[tuple[int, list[int]]]) -> Outcome:
    """Say whether each row came once in each epoch."""
    seen = Counter((epoch, row) for epoch, rows in batches for row in rows)
    wanted = Counter((epoch, row) for epoch in range(EPOCHS) for row in range(ROWS))
    lost, more = (wanted - seen).total(), (seen - wanted).total()
    return Outcome(False, f"{lost} rows lost, {more} doubled") if lost or more else EVERY_ROW


def told(error: BaseException, name: str = f"pet-{BAD:04}") -> str:
    """Say whether an error, with all that a user sees of it, names the file."""
    return NAMED if name in "".join(traceback.format_exception(error)) else UNNAMED


def goes_on(batches: Iterator[tuple[int, list[int]]]) -> Outcome:
    """Say what came of a training that should not have noticed."""
    try:
        return came(batches)
    except Exception as error:
        traceback.print_exc()
        return Outcome(False, f"error: {type(error).__name__}")


def names_it(batches: Iterator[tuple[int, list[int]]]) -> Outcome:
    """Say what came of a training that has to stop at a row, and name it."""
    try:
        found = came(batches)
    except BaseException as error:
        traceback.print_exc()
        what = told(error)
        return Outcome(what == NAMED, what)
    return Outcome(False, "unnoticed" if found.good else found.what)


def kill_one(open_: Open, folder: Path) -> Outcome:
    return goes_on(_killing(open_(change=slowly), lambda step: step == 2, 1))


def kill_all(open_: Open, folder: Path) -> Outcome:
    return goes_on(_killing(open_(change=slowly), lambda step: step in range(2, 40, 4), None))


def _killing(feed: Feed, at: Callable[[int], bool], count: int | None) -> Iterator[Any]:
    for step, batch in enumerate(epochs(feed)):
        if at(step):
            for worker in workers()[:count]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    worker.kill()
        yield batch


def user_function(fault: Callable[[], object]) -> Callable[[Open, Path], Outcome]:
    """Return a case where the user's function does a thing on one row."""

    def change(pixels: Pixels, row: int, draw: Draw) -> Pixels:
        if row == BAD:
            fault()
        return pixels

    return lambda open_, folder: names_it(epochs(open_(change=change)))


def _raise() -> None:
    raise ValueError("no such thing")


def parent_killed(open_: Open, folder: Path) -> Outcome:
    for step, _ in enumerate(epochs(open_(change=slowly))):
        if step == 2:
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(False, "not killed")


def interrupted(open_: Open, folder: Path) -> Outcome:
    """Press Ctrl-C: the signal goes to all processes of the terminal."""
    try:
        for step, _ in enumerate(epochs(open_(change=slowly))):
            if step == 2:
                os.killpg(0, signal.SIGINT)
    except KeyboardInterrupt:
        return Outcome(True, "KeyboardInterrupt")
    except Exception as error:
        return Outcome(False, f"error: {type(error).__name__}")
    return Outcome(False, "unnoticed")


def broken_off(open_: Open, folder: Path) -> Outcome:
    """Leave loops over a loader after their first batch, and see what remains of each."""

    def held() -> tuple[int, int, int]:
        gc.collect()
        me = psutil.Process()
        return me.num_fds(), me.num_threads(), len(me.children(recursive=True))

    feed, before = open_(), None
    for number in range(BREAKS + 1):
        for _ in epochs(feed):
            break
        before = held() if number == 0 else before
    deadline = time.monotonic() + 5
    while (after := held()) > (before or after) and time.monotonic() < deadline:
        time.sleep(0.1)
    grown = [new - old for new, old in zip(after, before or after, strict=True)]
    words = [f"{n} {what}" for n, what in zip(grown, KINDS, strict=True) if n > 3]
    return Outcome(not words, f"leaves {', '.join(words)}" if words else "nothing left")


KINDS = ("descriptors", "threads", "processes")


def bad_file(spoil: Callable[[Path], object]) -> Callable[[Open, Path], Outcome]:
    """Return a case where a file changes after the loader was made."""

    def run(open_: Open, folder: Path) -> Outcome:
        feed = open_()
        spoil(folder / "files" / f"pet-{BAD:04}.png")
        return names_it(epochs(feed))

    return run


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:60])


def _replace(path: Path) -> None:
    """Put another photograph there whose first pixel is the same."""
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


def no_descriptors(open_: Open, folder: Path) -> Outcome:
    """Let nobody open a file for half a second."""
    feed = open_(change=slowly)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def limit(number: int, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (number, hard))

    def batches() -> Iterator[tuple[int, list[int]]]:
        for step, batch in enumerate(epochs(feed)):
            if step == 2:
                pids = [os.getpid(), *(worker.pid for worker in workers())]
                limit(3, pids)
                threading.Timer(0.5, limit, (soft, pids)).start()
            yield batch

    return goes_on(batches())


def no_guard(open_: Open, folder: Path) -> Outcome:
    """Run a script without `if __name__ == "__main__"`."""
    script = folder / "script.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\n"
        "from survive_cases import came, epochs\nfrom survive_loaders import LOADERS, Job\n"
        f"paths = sorted(map(str, Path({str(folder / 'files')!r}).glob('*.png')))\n"
        "feed = LOADERS[sys.argv[1]][1](Job(paths))\nprint(came(epochs(feed)).what)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, str(script), os.environ["SURVIVE_LOADER"]]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    ended = done.stdout.strip().splitlines()[-1:] == [EVERY_ROW.what]
    return EVERY_ROW if ended else Outcome(False, f"error, exit code {done.returncode}")


def unpicklable(open_: Open, folder: Path) -> Outcome:
    lock = threading.Lock()

    def holds_a_lock(pixels: Pixels, row: int, draw: Draw) -> Pixels:
        with lock:
            return pixels

    try:
        return came(epochs(open_(change=holds_a_lock)))
    except Exception as error:
        traceback.print_exc()
        named = told(error, "holds_a_lock") == NAMED
        return Outcome(named, f"error {'names' if named else 'without'} the function")


def small_memory(open_: Open, folder: Path) -> Outcome:
    return goes_on(epochs(open_(size=512)))


def resumed(open_: Open, folder: Path) -> Outcome:
    """Note the place after 7 batches, and go on from it with another loader."""
    first, rows, rest, place = open_(), [], [], None
    for step, (_, batch) in enumerate(epochs(first, 1)):
        (rows if step < 7 else rest).extend(batch)
        if step == 6 and (place := first.place()) is None:
            return Outcome(False, "cannot")
    again = open_()
    again.go_to(place)
    got = [row for _, batch in epochs(again, 1) for row in batch]
    return Outcome(got == rest, "the rest exactly" if got == rest else "other rows")


def same_order(open_: Open, folder: Path) -> Outcome:
    found = {tuple(map(str, epochs(open_(workers=number)))) for number in (1, 2, 3)}
    return Outcome(len(found) == 1, "the same" if len(found) == 1 else f"{len(found)} orders of 3")


def _drawn(pixels: Pixels, row: int, draw: Draw) -> Pixels:
    pixels = pixels.copy()
    pixels[0, 0, 1] = int(256 * draw())
    return pixels


def same_draws(open_: Open, folder: Path) -> Outcome:
    """Compare what the user's function draws for each row, whatever the order of the rows."""
    found = set()
    for number in (1, 2, 3):
        feed, drawn = open_(change=_drawn, workers=number), {}
        for pixels, rows in feed.epoch():
            drawn |= dict(zip(rows, np.asarray(pixels)[:, 0, 0, 1].tolist(), strict=True))
        found.add(tuple(sorted(drawn.items())))
    return Outcome(len(found) == 1, "the same" if len(found) == 1 else "others")


def under_fit(open_: Open, folder: Path) -> Outcome:
    """Give it to `fit` of Keras as it is, for two epochs, and look at what each step gets."""
    import keras

    steps: list[list[int]] = []

    class Looks(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.pool = keras.layers.GlobalAveragePooling2D()
            self.dense = keras.layers.Dense(1)

        def call(self, images: Any) -> Any:
            return self.dense(self.pool(images))

        def train_step(self, data: Any) -> dict[str, float]:
            steps.append([int(row) for row in data[1]])
            return {"loss": 0.0}

    model = Looks()
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(open_().data(), epochs=EPOCHS, verbose=0)
    each = -(-ROWS // 4)
    return came((step // each, rows) for step, rows in enumerate(steps))


CASES = {
    "kill_one": Case("a worker process is killed", kill_one, needs="processes"),
    "kill_all": Case("all of them are killed, ten times", kill_all, needs="processes"),
    "segfault": Case("a function of yours crashes on a row", user_function(
        lambda: ctypes.string_at(0))),
    "sys_exit": Case("it calls `sys.exit`", user_function(lambda: sys.exit(123))),
    "raises": Case("it raises", user_function(_raise)),
    "unpicklable": Case("it cannot be pickled", unpicklable),
    "missing": Case("a file is gone", bad_file(os.remove)),
    "cut": Case("a file is cut short", bad_file(_cut)),
    "replaced": Case("a file is another one now", bad_file(_replace)),
    "hangs": Case("a read never returns; 5 s allowed where that can be said", bad_file(_pipe)),
    "bomb": Case("an image of 400 million pixels in 400 kB", bad_file(_bomb)),
    "no_descriptors": Case("no file can be opened for half a second", no_descriptors),
    "small_memory": Case("/dev/shm has 1 MiB", small_memory, needs="mount"),
    "parent": Case("the program is killed", parent_killed),
    "ctrl_c": Case("Ctrl-C", interrupted),
    "break": Case(f"{BREAKS} loops are left by `break`", broken_off, 300),
    "no_guard": Case("a script without `__main__` guard", no_guard),
    "resume": Case("going on in mid-epoch, in another process", resumed),
    "order": Case("the order with 1, 2 and 3 workers", same_order),
    "draws": Case("random numbers of a row with 1, 2 and 3 workers", same_draws),
    "fit": Case("two epochs under Keras's `fit`, defaults otherwise", under_fit, needs="fit"),
}  # fmt: skip
