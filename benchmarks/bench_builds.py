"""Header facts of 10^5 files: two processes beside threads, and Dask beside these, which is faster?

python benchmarks/bench_builds.py [FILES]
"""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from measure import Findings, Verdict, alternate, finish

import dfgen
from dfgen.commands.executor import executor_of
from dfgen.executors import Made
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.scan import read_facts

WORKERS = 2


def main(files: int = 100_000) -> Findings:
    from corpus import linked  # here, as processes that are spawned import this file again
    from distributed import Client, LocalCluster

    folder = linked()
    paths = [str(path) for path in sorted(folder.rglob("*.png"))][:files]

    def facts(executor: Made | None) -> Callable[[], int]:
        return lambda: len(read_facts(paths, Access(executor=executor)))

    def built(workers: int | None) -> Callable[[], int]:
        def build() -> int:
            with executor_of(workers, None) as executor:
                return len(dfgen.build_manifest(folder, executor=executor))

        return build

    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool,
    ):
        rates = alternate(
            {
                "threads": facts(None),
                "2 processes": facts(pool),
                "Dask, 2 workers": facts(client.get_executor(pure=False)),
                "build, threads": built(None),
                "build, --workers 2": built(WORKERS),
            }
        )
    print(f"\nheader facts of {len(paths):,} files, and whole builds of 100,000", end="")
    rates.show("files", "threads")
    name = f"header facts, {len(paths):,} files"
    processes, build = "2 processes", rates.ratio("build, --workers 2", "build, threads")
    return finish(
        [
            Verdict(f"{name}, {processes}", rates.ratio(processes, "threads"), 0.9, "x threads"),
            Verdict(f"{name}, Dask", rates.ratio("Dask, 2 workers", processes), 0.8, "x processes"),
            Verdict(
                "build of 100,000 files, --workers 2",
                build,
                0.9,
                "x threads",
                limit="the processes start in a second, of a build of three",
            ),
        ]
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
