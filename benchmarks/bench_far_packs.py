"""Which part of a pack in S3 do hosts fetch in the first epoch, and with `cache=` in the second?

Ratios alone: moto's S3 runs in this process and counts the bytes of shards that it is asked for.
"""

import shutil
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measure import Findings, Verdict, finish
from PIL import Image

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.ordering import Ordering
from dfgen.loading.loader import Loader

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from servers import s3_server

ROWS, SIZE, SHARD, BATCH = 800, (128, 128), "2MB", 24
WINDOWS, HOSTS = ("1MB", "16MB", "1GB"), (1, 2, 4)
URL = "s3://bucket/pack"


def main() -> Findings:
    most, again = 0.0, [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder, s3_server({"bucket": {}}) as server:
        whole = uploaded(Path(folder), server)
        print(f"\nbytes fetched / bytes of a pack of {whole / 1e6:.0f} MB in shards of {SHARD}")
        print("one node: hosts share the folder of cache=; own nodes: each has its own")
        print("second epoch: by new processes, as in a later run")
        print(f"{'window':>8} {'hosts':>6} {'without':>9}", end="")
        print("".join(f"{one + ', first':>18} {'second':>7}" for one in ("one node", "own nodes")))
        for window, hosts in product(WINDOWS, HOSTS):
            alone = sum(fetched(server, window, (n, hosts), None, (0, 1)) for n in range(hosts)) / 2
            print(f"{window:>8} {hosts:>6} {alone / whole:>9.3f}", end="")
            for own in (False, True):
                ratios = [
                    sum(
                        fetched(server, window, (n, hosts), f"{folder}/cache{n * own}", (epoch,))
                        for n in range(hosts)
                    )
                    / whole
                    for epoch in (0, 1)
                ]
                most, again[own] = max(most, ratios[0]), max(again[own], ratios[1])
                print(f"{ratios[0]:>18.3f} {ratios[1]:>7.3f}", end="")
                for cache in Path(folder).glob("cache*"):
                    shutil.rmtree(cache)
            print()
        processes = {"workers": 4, "use_multiprocessing": True}
        by_processes = max(
            fetched(server, window, (0, 1), None, (0, 1), **processes) / whole / 2
            for window in WINDOWS
        )
    figures = {
        "first epoch with cache=, all hosts": (most, 1.1),
        "second epoch, one node": (again[0], 0.02),
        "second epoch, a node for each host": (again[1], 0.15),
        "an epoch of 4 worker processes, without cache=": (by_processes, 1.1),
    }
    return finish(
        [Verdict(what, *figure, "x the pack", at_most=True) for what, figure in figures.items()]
    )


def uploaded(folder: Path, server: Any) -> int:
    """Put a pack of noise into the bucket; return the bytes of its shards."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{row}.png" for row in range(ROWS)]
    for path in paths:
        Image.fromarray(rng.integers(0, 255, (*SIZE, 3), np.uint8)).save(path, compress_level=0)
    frame = pd.DataFrame({"id": range(ROWS), "path": list(map(str, paths)), "label": 0})
    dfgen.pack(frame, f"{folder}/pack", shard_size=SHARD)
    for file in (folder / "pack").iterdir():
        server.put("bucket", f"pack/{file.name}", file.read_bytes())
    return sum(file.stat().st_size for file in folder.glob("pack/shard-*"))


def fetched(
    server: Any,
    window: str,
    shard: tuple[int, int],
    cache: str | None,
    epochs: tuple[int, ...],
    **more: Any,
) -> int:
    """Return the bytes of shards that a host asks for in some epochs."""
    server.clear_counts()
    bound = bind(
        URL, y="label", ordering=Ordering(window=window), batch_size=BATCH, cache=cache,
        storage_options=server.options,
    )  # fmt: skip
    loader = Loader(bound.reader, batch_size=BATCH, order=bound.order, shard=shard, **more)
    for epoch in epochs:
        for _ in loader.batches(epoch):
            pass
    loader.close()
    asked = [asked for method, path, asked in server.ranges if "shard-" in path and method == "GET"]
    extents = [one.removeprefix("bytes=").split("-") for one in asked]
    return sum(int(last) + 1 - int(start) for start, last in extents)


if __name__ == "__main__":
    main()
