"""Which part of a remote pack do the processes of a training fetch?

moto's S3 runs in this process and counts the bytes of shards that it is asked for.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
from corpus import photographs

import dfgen

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from servers import s3_server

RANKS = 4


def main() -> None:
    print(f"| bytes fetched / bytes of the pack, {RANKS} ranks | epoch 1 | epoch 2 |")
    print("|---|--:|--:|")
    with tempfile.TemporaryDirectory() as name, s3_server({"bucket": {}}) as server:
        folder = Path(name)
        paths = [str(file) for file in photographs()]
        frame = pd.DataFrame({"id": range(len(paths)), "path": paths})
        dfgen.pack(frame, folder / "pack", image_size=(128, 128), shard_size="20MB")
        for file in (folder / "pack").iterdir():
            server.put("bucket", f"pack/{file.name}", file.read_bytes())
        whole = sum(file.stat().st_size for file in folder.glob("pack/shard-*"))
        for what, caches in (("one cache folder", [0] * RANKS), ("one each", range(RANKS))):
            sequences = [
                dfgen.Sequence(
                    "s3://bucket/pack", label_mode=None, batch_size=24, shard=(rank, RANKS),
                    cache=folder / f"{what}{cache}", storage_options=server.options,
                )
                for rank, cache in enumerate(caches)
            ]  # fmt: skip
            parts = []
            for _ in range(2):
                server.clear_counts()
                with ThreadPoolExecutor(RANKS) as pool:
                    list(pool.map(sum, [(len(x) for (x,) in one) for one in sequences]))
                parts.append(f"{fetched(server) / whole:.3f}")
            print(f"| {what} | {' | '.join(parts)} |")
            for sequence in sequences:
                sequence.close()


def fetched(server: Any) -> int:
    """Return the bytes of shards that were asked for."""
    asked = [part for method, path, part in server.ranges if "shard-" in path and method == "GET"]
    extents = [part.removeprefix("bytes=").split("-") for part in asked]
    return sum(int(last) + 1 - int(first) for first, last in extents)


if __name__ == "__main__":
    main()
