"""A file that is read as a whole, unless that is more than the limits allow."""

import io
from typing import IO

from dfgen.errors import DecodeError
from dfgen.limits import Limits


def refuse_bytes(nbytes: int, limits: Limits) -> None:
    """Refuse a file of more than `limits.file_bytes`."""
    if not limits.allows("file_bytes", nbytes):
        what = f"the file has {nbytes:,} bytes"
        raise DecodeError(limits.refusal("file_bytes", nbytes, what))


def refuse_file(file: IO[bytes], limits: Limits) -> None:
    """Refuse an open file of more than `limits.file_bytes`; it then stands at its end."""
    refuse_bytes(file.seek(0, io.SEEK_END), limits)


def read_file(file: IO[bytes], limits: Limits) -> bytes:
    """Return all bytes of an open file, if they are no more than `limits.file_bytes`."""
    refuse_file(file, limits)
    file.seek(0)
    return file.read()
