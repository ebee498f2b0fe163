"""Each case ends in bounded time, and leaves no child, descriptor, thread or shared memory."""

import faulthandler
import gc
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

import psutil
import pytest

ALARM = 60
"""Seconds that a case may take, however busy the machine; `@pytest.mark.alarm(120)`: more."""


def held():
    """What this process holds: children, descriptors, threads and names in /dev/shm."""
    process = psutil.Process()
    return {
        "children": {child.pid for child in process.children(recursive=True)},
        "descriptors": {
            number: what for number, what in _descriptors() if "anon_inode" not in what
        },
        "threads": {thread for thread in threading.enumerate() if thread.name.startswith("dfgen")},
        "shared memory": {name for name in _shared_memory() if "dfgen" in name},
    }


def _shared_memory():
    """Names in /dev/shm, of other programs too."""
    return os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []


def _descriptors():
    for number in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        try:
            yield number, os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # that of the listing itself
            continue


def new(before, after):
    """What is held after and was not before."""
    return {
        kind: found
        for kind in after
        if (found := [item for item in after[kind] if item not in before[kind]])
    }


@pytest.fixture(autouse=True)
def bounded_and_clean(request):
    """End a hang by an alarm that nothing swallows, and look for what the case left behind."""
    marker = request.node.get_closest_marker("alarm")
    seconds = marker.args[0] if marker else ALARM

    def ring(*_):
        faulthandler.dump_traceback(file=sys.__stderr__)
        raise TimeoutError(f"the case took more than {seconds} seconds")

    before = held()
    previous = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    for _ in range(100):  # threads and processes that were told to end may still be on their way
        left = new(before, held())
        if not left:
            return
        gc.collect()  # 0.3 seconds of a process that has imported TensorFlow
        threading.Event().wait(0.05)
    stacks = ["".join(traceback.format_stack(frame)) for frame in sys._current_frames().values()]
    calls = [_system_call(thread) for thread in left.get("threads", ())]
    told = [*stacks, f"descriptors: {held()['descriptors']}", f"system calls: {calls}"]
    assert left == {}, "\n".join(told)


def _system_call(thread):
    """Number and arguments of what a thread waits for in the system."""
    try:
        return Path(f"/proc/self/task/{thread.native_id}/syscall").read_text()
    except OSError as error:  # no Linux, or it has ended
        return repr(error)
