"""Text of HDF5 files, read by a process of its own.

Text lies in heaps, where three changed bytes have libhdf5 read memory that is not its own, or go
round for ever. It then ends this process, and no notebook; numbers lie elsewhere.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence

from dfgen.errors import DecodeError
from dfgen.samples.stores.arrays.array_files import open_hdf5
from dfgen.system import python_command

_LONGEST = 120  # seconds that the texts of one file may take

Texts = dict[str, list[str] | None]


def read_texts(source: str | bytes, names: Sequence[str]) -> Texts:
    """Return arrays of a file, or of the bytes of one, as lists; None: they hold no text."""
    place, data = (source, b"") if isinstance(source, str) else ("-", source)
    command, environment = python_command(__name__, place, *names)
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=_LONGEST, env=environment
        )
    except subprocess.TimeoutExpired:
        raise DecodeError(f"its text was not read in {_LONGEST} s: the file is damaged") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise DecodeError(f"damaged: reading its text ends a process by {name}")
    if done.returncode:
        raise DecodeError(f"its text cannot be read: {done.stderr.decode(errors='replace')}")
    texts: Texts = json.loads(done.stdout)
    return texts


def _text(values: list[object]) -> list[str] | None:
    texts = [value.decode() for value in values if isinstance(value, bytes)]
    return texts if len(texts) == len(values) else None


def _main() -> None:
    place, *names = sys.argv[1:]
    try:
        arrays = open_hdf5(sys.stdin.buffer.read() if place == "-" else place)
        texts = {name: _text(arrays[name][...].ravel().tolist()) for name in names}
    except Exception as error:
        sys.exit(" ".join(str(error).split()) or type(error).__name__)
    print(json.dumps(texts))


if __name__ == "__main__":
    _main()
