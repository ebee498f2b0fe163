"""Files in a bucket and behind HTTP against the same files on this machine's disk.

The servers are processes on a loopback port and share the CPUs with the client: Python's own HTTP
server, which answers after 50 ms, and moto's S3. Reading the files without decoding them is an
upper bound of each.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import numpy as np
import pandas as pd
from corpus import photographs
from measure import THREADS, Findings, Rates, Verdict, alternate, finish

import dfgen
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import store_at

BATCH, ROWS, EPOCHS, READERS = 64, 1_000, 3, 64
LOCAL, HTTP, S3 = "local files", "Python's HTTP server + 50 ms", "moto's S3"
_KEYS = {"access_key_id": "any", "secret_access_key": "any", "region": "us-east-1"}
_SERVERS = str(Path(__file__).parents[1] / "tests" / "servers.py")


def main() -> Findings:
    files = photographs()[:ROWS]
    folder, names = str(files[0].parent), [file.name for file in files]
    verdicts = []
    for what, command in (
        (HTTP, [_SERVERS, "http", folder, "0.05"]),
        (S3, [_SERVERS, "s3", folder]),
    ):
        with served(command) as url:
            root, options = (
                ("s3://bucket", {**_KEYS, "endpoint": url}) if what == S3 else (url, None)
            )
            paths = [f"{root}/{name}" for name in names]
            alone = f"{what}, read alone by {READERS} threads"
            rates = alternate(
                {
                    LOCAL: drained([str(file) for file in files]),
                    what: drained(paths, options),
                    alone: read_alone(paths, options),
                }
            )
        print(f"\nJPEG 500x375 -> 224, batch {BATCH}, {THREADS} threads", end="")
        rates.show("images", LOCAL)
        verdicts.append(verdict(what, rates, alone))
    return finish(verdicts)


def verdict(what: str, rates: Rates, alone: str) -> Verdict:
    """Compare with local files; with what the CPUs allow, where the server takes most of them."""
    made, local, answered = map(rates.median, (what, LOCAL, alone))
    limit = f"the server alone answers {answered:,.0f} a second"
    if what != S3:
        return Verdict(f"{what}, loose JPEG", made / local, 0.9, "x local files", limit=limit)
    both = 1 / (1 / local + 1 / answered)  # one file answered and decoded, on the same CPUs
    return Verdict(f"{what}, loose JPEG", made / both, 0.9, "x decoding + serving", limit=limit)


def drained(paths: list[str], options: dict[str, Any] | None = None) -> Callable[[], int]:
    """Make a Sequence for each pass of some epochs, at whose begin nothing has come yet.

    One that stays would work ahead while others are timed.
    """
    frame = pd.DataFrame({"id": np.arange(len(paths)), "path": paths})
    image = dfgen.Image("path", size=(224, 224))

    def drain() -> int:
        with dfgen.Sequence(
            frame, x=image, batch_size=BATCH, workers=THREADS, storage_options=options
        ) as sequence:
            return sum(len(images) for _ in range(EPOCHS) for (images,) in sequence)

    return drain


def read_alone(paths: list[str], options: dict[str, Any] | None) -> Callable[[], int]:
    """Read all files, on as many threads as are of use, and decode none."""
    store = store_at(paths[0], options=StorageOptions(options))

    def read() -> int:
        with ThreadPoolExecutor(READERS) as pool:
            return sum(data is not None for data in pool.map(store.read, paths))

    return read


@contextmanager
def served(command: list[str]) -> Iterator[str]:
    """Run a server while it is asked; yield its address."""
    with Popen([sys.executable, *command], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin and process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()


if __name__ == "__main__":
    main()
