"""Real signals at chosen moments of the main thread: the n-th line of dfgen that it comes to."""

import signal
import sys
import threading
from pathlib import Path

import dfgen

_CODE = str(Path(dfgen.__file__).parent)


def send(number=signal.SIGINT):
    """Send a signal to the main thread, from whichever thread."""
    signal.pthread_kill(threading.main_thread().ident, number)


class Lines:
    """Counts the lines of dfgen that the main thread comes to, and sends it a signal at one."""

    def __init__(self, last=None, number=signal.SIGINT):
        self.count, self._last, self._number = 0, last, number

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *exception):
        sys.settrace(self._before)

    def _trace(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(_CODE):
            return None
        if event == "line":
            self.count += 1
            if self.count == self._last:
                sys.settrace(self._before)
                send(self._number)
        return self._trace
