"""Reads the facts of files in threads of this process: size, time, header, and all of a file.

A file that a decoder refuses has a problem that begins with `UNDECODABLE`. One that is decoded to
its end also has a digest of its bytes, and a hash of what it looks like.
"""

import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.errors import ArgumentError, DecodeError, is_outside, reason
from dfgen.executors import Made, check_executor
from dfgen.limits import DEFAULT, Limits, read_file
from dfgen.manifest.building.kept_facts import KeptFacts
from dfgen.manifest.file_errors import fault_of
from dfgen.manifest.schema import SCHEMA
from dfgen.samples.pixels.decoders import decode_stored, turn
from dfgen.samples.pixels.formats import FORMATS, header_of, parse_header, read_known
from dfgen.samples.pixels.geometry import Pixels, Size, place
from dfgen.samples.pixels.headers import Header
from dfgen.samples.pixels.resizing import resize
from dfgen.samples.pixels.sounds import load_soundfile, whole_sound
from dfgen.stores.array_files import check_row, hdf5_arrays, whole_array
from dfgen.stores.store import Head, StorageOptions, Store
from dfgen.stores.stores import Stores, store_of
from dfgen.system import threads, usable_cpus, whole
from dfgen.table.arrow_types import is_text
from dfgen.table.file_columns import Content

TASK = 256
DECODED = 32
FAR = 8
FAR_READERS = 64  # of 20 ms each, 3,200 files a second

UNDECODABLE = "cannot be decoded"
"""The kind of the problem of a file whose header is fine."""

NOT_THERE = "the file does not exist"

SomeFacts = tuple[int, list[pa.RecordBatch]]
_SIDE = 32  # pixels of what is hashed; a smaller picture has no hash
_EDGE = 0.1  # what a pixel at the edge counts for
_LEAST = 1.0  # gray levels times 32 that half of the frequencies stand above, at least
_ONE_COLOUR = 0.8  # share of the pixels of which five gray levels hold less
_WAVES = 10  # half waves across and down together, at most

_SUMS = np.add.outer(np.arange(_WAVES + 1), np.arange(_WAVES + 1))
_LOW = np.flatnonzero((_SUMS > 0) & (_SUMS <= _WAVES))[:64]
_LOW = np.concatenate([_LOW[start::3] for start in range(3)])  # each third has waves of all kinds


class Whole(NamedTuple):
    """A file that was decoded to its end.

    `fault` is what its decoder says, `digest` BLAKE2b-128 of its bytes, `phash` the perceptual hash
    of a picture; None where there is none.
    """

    header: Header
    fault: str | None
    digest: str
    phash: int | None


_Found = tuple[Head | None, Header | None, Whole | None, str | None]
"""Facts from the store, the header and all of a file, and what is wrong with it."""


def facts_schema() -> pa.Schema:
    """Return the columns of facts as Arrow has them."""
    return pa.schema({name: fact.type for name, fact in SCHEMA.items()})


@dataclass(frozen=True)
class Access:
    """How files are opened.

    Args:
        workers: threads; None: the usual.
        limits: what one file may ask for.
        options: open URLs.
        executor: reads in place of this process; None: none.
        kept: where facts are kept until the manifest is written; None: nowhere.
    """

    workers: int | None = None
    limits: Limits = DEFAULT
    options: StorageOptions | None = None
    executor: Made | None = None
    kept: KeptFacts | None = None

    def __post_init__(self) -> None:
        check_executor(self.executor)
        if self.workers is not None:
            whole("workers", self.workers)

    def threads(self, store: Stores) -> int:
        """Return how many threads read: where each waits for a network, many more than CPUs."""
        return self.workers or (FAR_READERS if store.far else usable_cpus())


USUAL: Access = Access()


def read_here(files: Any, access: Access, decode: bool) -> Iterator[SomeFacts]:
    """Yield the place of the first of some files, and the facts of all of them, in their order."""
    store = store_of([files], access.limits, access.options)
    task = FAR if store.far else DECODED if decode else TASK
    starts = range(0, len(files), task)
    tasks = [files[start : start + task] for start in starts]
    with threads(access.threads(store)) as pool:
        read = partial(_read_many, store=store, decode=decode)
        yield from zip(starts, pool.map(read, tasks), strict=True)


def _read_many(files: Any, store: Store, decode: bool) -> list[pa.RecordBatch]:
    one_by_one = (content.as_py() for content in files)  # bytes take memory
    contents = files.to_pylist() if is_text(files.type) else one_by_one
    found = [_read(content, store, decode) for content in contents]
    try:
        return [_facts(found)]
    except MemoryError:
        raise
    except Exception:  # something that no fact can hold, or be made of
        return [facts_of_one(*one) for one in found]


def facts_of_one(
    head: Head | None, header: Header | None, whole: Whole | None, problem: str | None
) -> pa.RecordBatch:
    """Return the facts of one file; what cannot be kept of it is its problem."""
    for known in ((head, header, whole), (head, None, None)):
        try:
            return _facts([(*known, problem)])
        except MemoryError:
            raise
        except Exception as error:
            problem = f"its facts cannot be kept: {reason(error)}"
    return _facts([(None, None, None, problem)])


def _facts(found: list[_Found]) -> pa.RecordBatch:
    heads, headers, wholes, problems = zip(*found, strict=True)
    arrays = []
    for fact in SCHEMA.values():
        told = ((fact.of_head, heads), (fact.of_header, headers), (fact.of_whole, wholes))
        read, known = next((pair for pair in told if pair[0]), (None, problems))
        if read is None:
            values = problems
        elif any(problems) or known is wholes:
            values = tuple(None if one is None else read(one) for one in known)
        else:
            values = tuple(map(read, known))
        arrays.append(pa.array(values, fact.type))
    return pa.record_batch(arrays, schema=facts_schema())


def _read(path: Content, store: Store, decode: bool) -> _Found:
    """Return what the store and the header say of a file, and what is wrong with it."""
    head = None
    try:
        if decode:
            head = store.head(path)
            if head.problem:
                return head, None, None, head.problem
            whole = decode_whole(path, store)
            return head, whole.header, whole, whole.fault and f"{UNDECODABLE}: {whole.fault}"
        head, file = store.begin(path)
        with file:
            header = None if head.problem else header_of(file, store.limits)
        return head, header, None, head.problem
    except FileNotFoundError:  # dfgen's MissingFileError is one too
        return head, None, None, NOT_THERE
    except (ArgumentError, MemoryError):
        raise
    except Exception as error:  # of a store or a reader, which may be anybody's
        if is_outside(error):
            raise fault_of(error, str(path)) from error
        return head, None, None, str(error) or type(error).__name__


def _rows_of_waves() -> npt.NDArray[np.float32]:
    """Return the orthonormal DCT-II, one wave a row, its columns weighed towards the middle."""
    place = (np.arange(_SIDE) + 0.5) / _SIDE
    waves = np.cos(np.pi * np.outer(np.arange(_SIDE), place)) * np.sqrt(2 / _SIDE)
    waves[0] /= np.sqrt(2)
    weighed: npt.NDArray[np.float64] = waves * (_EDGE + (1 - _EDGE) * np.sin(np.pi * place))
    return weighed.astype(np.float32)


_WAVE = _rows_of_waves()[: _WAVES + 1]


def reduction_for_hash(size: Size) -> int:
    """Return by how much a JPEG may be decoded smaller: 1, 2, 4 or 8."""
    return next((number for number in (8, 4, 2) if min(size) >= 2 * _SIDE * number), 1)


def perceptual_hash(
    pixels: Pixels, size: Size, reduced: int = 1, orientation: int = 1
) -> int | None:
    """Return the hash of a picture, 64 bits, of which half are set; copies have nearly the same.

    None for one of less than 32 pixels a side, or so plain that others have the same by chance.

    Args:
        pixels: gray or RGB, (height, width, channels), uint8, uint16 or float32, as stored.
        size: (height, width) of the whole picture as stored.
        reduced: by how much fewer rows and columns the pixels have.
        orientation: of EXIF, 1 to 8: the hash is that of the upright picture.

    Example:
        >>> perceptual_hash(np.full((64, 64, 1), 128, np.uint8), (64, 64)) is None
        True
    """
    if min(size) < _SIDE:
        return None
    target = (_SIDE, _SIDE)
    small = np.empty((*target, pixels.shape[2]), pixels.dtype)
    resize(pixels, place(size, target, target, "stretch"), small, "area", reduced=reduced)
    gray = small if small.shape[2] == 1 else cv2.cvtColor(small[..., :3], cv2.COLOR_RGB2GRAY)
    if gray.dtype != np.uint8:  # whose range may be any
        finite = np.nan_to_num(gray, nan=0, posinf=0, neginf=0)
        gray = cv2.normalize(finite, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)
    gray = turn(gray.reshape(_SIDE, _SIDE, 1), orientation)[..., 0]
    darker = np.cumsum(np.bincount(gray.ravel(), minlength=260))
    low = (_WAVE @ (gray - np.float32(cv2.mean(gray)[0])) @ _WAVE.T).ravel()[_LOW]
    one_colour = (darker[5:] - darker[:-5]).max() >= _ONE_COLOUR * gray.size
    if one_colour or np.sort(np.abs(low))[32] < _LEAST:
        return None
    return int.from_bytes(np.packbits(low > np.sort(low)[31:33].mean()).tobytes(), "big")


_BLOCK = 1 << 24  # bytes of an array that are read at once

Checked = tuple[Header, str | None, int | None]
"""The header of a file, why it cannot be decoded, or None, and the hash of a picture."""


def decode_whole(content: Content, store: Store) -> Whole:
    """Read a file once, and decode all that samples are made of.

    That is the first image of a file, all frames of a sound, all rows of an HDF5 file; of a .npy
    file the length alone. A JPEG is made as small as its hash needs.

    Raises:
        MissingFileError: there is no such file.
        DecodeError: it is empty, of no known format, or its header is broken.
        ArgumentError: it is a sound, and the package that reads sounds is missing.
    """
    return read_known(content, store, partial(_checked, limits=store.limits))


def _checked(file: IO[bytes], name: str, limits: Limits) -> Whole:
    file.seek(0)
    if FORMATS[name].holds == "image":
        data = read_file(file, limits)
        digest, found = hashlib.blake2b(data, digest_size=16), _image(data, name, limits)
    else:
        found = (*_READERS[FORMATS[name].holds](file, name, limits), None)
        file.seek(0)
        digest = hashlib.blake2b(digest_size=16)
        while block := file.read(_BLOCK):
            digest.update(block)
    header, fault, phash = found
    return Whole(header, fault, digest.hexdigest(), phash)


def _image(data: bytes, name: str, limits: Limits) -> Checked:
    header = parse_header(io.BytesIO(data), name, limits)
    try:
        color_mode = "grayscale" if name == "jpeg" else "rgb"
        _, pixels, reduced = decode_stored(data, color_mode, reduction_for_hash, limits)
    except DecodeError as error:
        return header, str(error), None
    stored = pixels.shape[:2] if reduced == 1 else (header.height or 0, header.width or 0)
    return header, None, perceptual_hash(pixels, stored, reduced, header.orientation)


def _array(file: IO[bytes], name: str, limits: Limits) -> tuple[Header, str | None]:
    header = parse_header(file, name, limits)
    file.seek(0)
    try:
        if name == "hdf5":
            _read_rows(file, limits)
        else:
            whole_array(file, limits)
    except Exception as error:
        if is_outside(error):
            raise
        return header, reason(error)
    return header, None


def _read_rows(file: IO[bytes], limits: Limits) -> None:
    """Read all arrays of an HDF5 file, from the disk where it is on one."""
    on_disk = isinstance(getattr(file, "raw", None), io.FileIO)
    source: Any = file.name if on_disk else io.BytesIO(read_file(file, limits))
    for name, rows in hdf5_arrays(source).items():
        if rows.dtype.hasobject:
            continue
        check_row(rows, limits)
        step = max(1, _BLOCK * len(rows) // max(1, rows.nbytes))
        try:
            for start in range(0, len(rows), step):
                rows[start : start + step]
        except OSError as error:
            raise DecodeError(f"the array {name} is damaged: {reason(error)}") from error


def _sound(file: IO[bytes], name: str, limits: Limits) -> tuple[Header, str | None]:
    load_soundfile()
    return whole_sound(file, name)


_READERS: dict[str, Callable[[IO[bytes], str, Limits], tuple[Header, str | None]]] = {
    "array": _array,
    "sound": _sound,
}
"""Content of a format -> what decodes it, if not as an image."""
