"""A limit to the length of files, as on a disk that is full."""

import resource
import signal
from contextlib import contextmanager


@contextmanager
def files_of_at_most(size):
    """Let no file of this process, or of one that it starts, grow beyond so many bytes."""
    old, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
