""".npy files: their headers and numbers.

NumPy compiles headers (`ast.literal_eval`), which in CPython 3.11 now and then fails in threads, so
those of plain numbers are read here.
"""

import io
import math
import re
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError
from dfgen.limits import DEFAULT, Limits

ArrayHeader = tuple[tuple[int, ...], bool, np.dtype[Any]]
"""Shape, Fortran order and dtype."""

_LONGEST = 1000  # bytes of a plain one, far more than they have
_PLAIN = re.compile(
    rb"\{'descr': '([<>|][biufc]\d+)', 'fortran_order': (False|True), "
    rb"'shape': \((|\d+,|\d+(?:, \d+)+)\), \}\s*"
)
"""The header that `numpy.save` writes of plain numbers."""


def array_header(file: IO[bytes], limits: Limits = DEFAULT) -> ArrayHeader:
    """Read shape, Fortran order and dtype of a .npy file; DecodeError of objects, or if broken."""
    try:
        version = np.lib.format.read_magic(file)
        shape, fortran, dtype = _plain(file, version, limits) or _any(file, version)
    except (OSError, DecodeError):
        raise
    except Exception as error:  # of Python's compiler, which NumPy asks, of any kind
        # NumPy goes on to say how to unpickle it all the same
        said = str(error).partition("\n")[0] or type(error).__name__
        raise DecodeError(f"broken .npy header: {said}") from error
    if dtype.hasobject:
        raise DecodeError(
            "a .npy file of Python objects: dfgen never unpickles; save plain numbers"
        )
    if min(shape, default=0) < 0 or dtype.itemsize == 0:
        raise DecodeError(f"broken .npy header: {dtype} of shape {shape}")
    return shape, fortran, dtype


def _plain(file: IO[bytes], version: tuple[int, int], limits: Limits) -> ArrayHeader | None:
    """Read a header of plain numbers; leave the file where it was if it is another."""
    start, bytes_of_length = file.tell(), 2 if version == (1, 0) else 4
    length = int.from_bytes(file.read(bytes_of_length), "little")
    if not limits.allows("header_bytes", length):
        what = f"the .npy file has a header of {length:,} bytes"
        raise DecodeError(limits.refusal("header_bytes", length, what))
    found = _PLAIN.fullmatch(file.read(length)) if length <= _LONGEST else None
    try:
        if found is not None:
            descr, fortran, shape = (group.decode() for group in found.groups())
            numbers = tuple(int(number) for number in shape.split(",") if number)
            return numbers, fortran == "True", np.dtype(descr)
    except TypeError:
        pass  # no dtype: NumPy says so
    file.seek(start)
    return None


def _any(file: IO[bytes], version: tuple[int, int]) -> ArrayHeader:
    """Have NumPy read a header; again where a thread came in between."""
    start = file.tell()
    read = np.lib.format.read_array_header_2_0
    if version == (1, 0):
        read = np.lib.format.read_array_header_1_0
    for _ in range(100):
        try:
            return read(file)
        except SystemError:
            file.seek(start)
    return read(file)


def whole_array(file: IO[bytes], limits: Limits = DEFAULT) -> ArrayHeader:
    """Read the header of a .npy file that holds all it promises; leave it where numbers begin."""
    shape, fortran, dtype = array_header(file, limits)
    start, wanted = file.tell(), math.prod(shape) * dtype.itemsize
    there = file.seek(0, io.SEEK_END) - start
    file.seek(start)
    if there < wanted:
        raise DecodeError(
            f"truncated .npy file: {dtype} of shape {shape} takes {wanted:,} bytes after the "
            f"header, {there:,} are there"
        )
    return shape, fortran, dtype


def decode_array(data: bytes, limits: Limits = DEFAULT) -> npt.NDArray[Any]:
    """Decode a .npy file; pickled objects are refused, never loaded."""
    if data.startswith(b"\x89HDF"):
        raise DecodeError('an HDF5 file is read by rows: name their column, as in index="index"')
    if not data.startswith(b"\x93NUMPY"):
        raise DecodeError(
            f"not a .npy file: it begins with {data[:8]!r}. dfgen.Image reads images, a function "
            "of your own other files: dfgen.Array(..., decode=function)"
        )
    file = io.BytesIO(data)
    shape, fortran, dtype = whole_array(file, limits)
    array = np.frombuffer(data, dtype, math.prod(shape), file.tell())
    return array.reshape(shape, order="F" if fortran else "C")
