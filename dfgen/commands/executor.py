"""Executors of a command: threads, local processes, or a Dask cluster."""

import multiprocessing
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from dfgen.errors import ArgumentError, MissingPackageError, WorkerError, quote, reason, whole
from dfgen.executors import Made
from dfgen.machine import end_with_parent

_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss|ucx|ucxx)://)?(?:\[.+\]|[^/:]+):\d+")


@contextmanager
def executor_of(processes: int | None, dask: str | None) -> Iterator[Made | None]:
    """Yield the executor of `--processes` or `--dask`; None: threads of this process."""
    if processes is not None and dask is not None:
        raise ArgumentError("--processes are on this machine, --dask is a cluster: leave one out")
    if processes is None and dask is None:
        yield None
    elif dask is not None:
        with _client(dask) as client:
            yield client.get_executor(pure=False)
    else:
        number = whole("processes", processes, least=1)
        context, others = multiprocessing.get_context("spawn"), multiprocessing.active_children()
        try:
            yield partial(ProcessPoolExecutor, number, context, _begin)  # again if some died
        finally:
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()


def _begin() -> None:
    """Have a worker end silently on Ctrl-C, and when the command is killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        advice = '--dask needs Dask: pip install "keras-dfgen[dask]"'
        raise MissingPackageError(advice) from None
    if not _ADDRESS.fullmatch(address):  # Client would try for a minute
        raise ArgumentError(
            f"--dask {quote(address)} is not the address of a scheduler: expected one as "
            "tcp://10.0.0.1:8786, which `dask scheduler` prints"
        )
    try:
        return Client(address, set_as_default=False)
    except Exception as error:  # of sockets, or of the text of the address
        raise WorkerError(
            f"--dask {address}: no scheduler answers: {reason(error)}. `dask scheduler` starts one"
        ) from error
