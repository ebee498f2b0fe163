"""How long reads of far files take, and how large they are: of the last ones."""

import math
from collections import deque

_KEPT = 200  # reads
_LEAST = 20  # reads from which on a late one can be told
_EVERY = 10  # reads between two looks at all of them
_HIGH = 0.95  # of reads are no slower than a slow one, which is no late one yet
_LATE = 2.0  # times a slow one
_SOONEST = 0.1  # seconds before which none is late: a hiccup of this machine, mostly
_USUAL = 0.05  # seconds of a read while none has been
_SIZE = 1 << 18  # bytes of a file while none has been read


class ReadPace:
    """The pace of the last reads: `usual` and `late` seconds, and their mean `size`."""

    def __init__(self) -> None:
        self.usual = _USUAL
        self.late = math.inf
        self.size: float = _SIZE
        self._seconds: deque[float] = deque(maxlen=_KEPT)
        self._noted = 0

    def note(self, seconds: float, size: int) -> None:
        """Note what one read took."""
        self._seconds.append(seconds)
        self._noted += 1
        self.size += (size - self.size) / min(self._noted, _KEPT)
        if self._noted <= _LEAST or self._noted % _EVERY == 0:
            ordered = sorted(self._seconds)
            self.usual = ordered[len(ordered) // 2]
            if self._noted >= _LEAST:
                slow = ordered[int(_HIGH * (len(ordered) - 1))]
                self.late = max(_SOONEST, _LATE * slow)
