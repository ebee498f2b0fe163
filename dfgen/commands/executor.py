"""Who does the work of a command: processes of this machine, or the workers of a Dask cluster."""

import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module

from dfgen.errors import ArgumentError, MissingPackageError, WorkerError, quote, reason
from dfgen.executors import Made
from dfgen.system import whole

_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss|ucx|ucxx)://)?(?:\[.+\]|[^/:]+):\d+")


@contextmanager
def executor_of(workers: int | None, dask: str | None) -> Iterator[Made | None]:
    """Yield what `--workers` and `--dask` ask for, until its work is done; None: neither is given.

    Raises:
        ArgumentError: both are given, or `workers` is no number of processes.
        MissingPackageError: `distributed` is not installed.
        WorkerError: no scheduler answers.
    """
    if workers is not None:
        whole("workers", workers, least=1)
    if workers is not None and dask is not None:
        raise ArgumentError(
            "--workers are processes of this machine, and --dask is a cluster: leave one out"
        )
    if dask is not None:
        yield from _of_dask(dask)
    elif workers is not None:
        yield from _of_processes(workers)
    else:
        yield None


def _of_processes(workers: int) -> Iterator[Made]:
    """Yield what makes that many, again where some were lost; they end with the command.

    The first ones start at once, while files are listed.
    """
    context, others = multiprocessing.get_context("spawn"), multiprocessing.active_children()
    make = partial(ProcessPoolExecutor, workers, context, _begin)
    first = [make()]
    try:
        first[0].submit(os.getpid)
        yield lambda: first.pop() if first else make()
    finally:
        for process in multiprocessing.active_children():
            if process not in others:
                process.kill()  # in the midst of what nobody needs


def _begin() -> None:
    """Have a worker end in silence on Ctrl-C, and when the command is killed, and import."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_wait_and_end, daemon=True).start()
    import_module("dfgen.manifest.building.scan")


def _wait_and_end() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _of_dask(address: str) -> Iterator[Made]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingPackageError(
            'Dask is not installed, which --dask asks for: pip install "keras-dfgen[dask]"'
        ) from None
    if not _ADDRESS.fullmatch(address):  # Client would say so too, and leave after a minute
        raise ArgumentError(
            f"--dask {quote(address)} is no address of a scheduler, as in tcp://10.0.0.1:8786, "
            "which `dask scheduler` prints"
        )
    try:
        client = Client(address, set_as_default=False)
    except Exception as error:  # of sockets, or of the text of the address
        raise WorkerError(
            f"--dask {address}: no scheduler answers there: {reason(error)}. `dask scheduler` "
            "starts one, and prints its address, as in tcp://10.0.0.1:8786"
        ) from error
    with client:
        yield client.get_executor(pure=False)
