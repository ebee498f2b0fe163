"""The processes that a test has started."""

import psutil


def children():
    """Return the processes that this one has started, without the helpers of multiprocessing.

    Those stay until this one ends, whichever test has started them.
    """
    return [one for one in psutil.Process().children() if not _is_helper(one)]


def _is_helper(process):
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return "multiprocessing.resource_tracker" in command or "multiprocessing.forkserver" in command
