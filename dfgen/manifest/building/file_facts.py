"""Reads the facts of files in threads of this process: size, time, header, and the whole file.

Whole files are decoded to their end, which finds broken ones, digests and perceptual hashes.

A build in progress keeps them beside its manifest, in the folder `<manifest>.building`, in files
that are written whole or not at all. So a build that was killed continues.
"""

import hashlib
import io
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import IO, Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc
import xxhash
from pyarrow.feather import write_feather

from dfgen import __version__
from dfgen.errors import ArgumentError, DecodeError, is_outside, reason, whole
from dfgen.executors import Made, check_executor
from dfgen.files import write_whole
from dfgen.limits import DEFAULT, Limits, read_file
from dfgen.machine import threads, usable_cpus
from dfgen.manifest.reading import fault_of
from dfgen.manifest.schema import OF_WHOLE_FILES, SCHEMA
from dfgen.samples.pixels.decoders import decode_stored, turn
from dfgen.samples.pixels.formats import FORMATS, header_of, opened, parse_header
from dfgen.samples.pixels.geometry import Pixels, Size, place, resize
from dfgen.samples.pixels.headers import Header
from dfgen.samples.pixels.sounds import check_frames, load_soundfile
from dfgen.stores.array_files import check_row, hdf5_arrays, whole_array
from dfgen.stores.store import Head, StorageOptions, Store
from dfgen.stores.stores import Stores, store_of
from dfgen.table.arrow_types import TEXT, Content

_SIDE = 32  # pixels of the hashed picture; smaller pictures have no hash
_EDGE = 0.1  # weight of a pixel at the edge
_LEAST = 1.0  # gray levels times 32, which half of the frequencies exceed
_ONE_COLOUR = 0.8  # largest share of the pixels within five gray levels
_WAVES = 10  # half waves across and down together, at most

_SUMS = np.add.outer(np.arange(_WAVES + 1), np.arange(_WAVES + 1))
_LOW = np.flatnonzero((_SUMS > 0) & (_SUMS <= _WAVES))[:64]
_LOW = np.concatenate([_LOW[start::3] for start in range(3)])  # each third has all kinds of waves

_BLOCK = 1 << 24  # bytes of an array that are read at once
KEPT_EVERY = 5.0  # seconds of reading that a killed build can lose
TASK = 256  # files of a thread at a time
DECODED = 32  # if they are decoded
FAR = 8  # if they are remote
FAR_READERS = 64  # threads; with 20 ms a file, 3,200 files a second
UNDECODABLE = "cannot be decoded"
"""The kind of the problem of a file whose header is fine."""
NOT_THERE = "the file does not exist"
SomeFacts = tuple[int, list[pa.RecordBatch]]


def _rows_of_waves() -> npt.NDArray[np.float32]:
    """Return the orthonormal DCT-II, a wave a row, with weights that are larger in the middle."""
    place = (np.arange(_SIDE) + 0.5) / _SIDE
    waves = np.cos(np.pi * np.outer(np.arange(_SIDE), place)) * np.sqrt(2 / _SIDE)
    waves[0] /= np.sqrt(2)
    weighted: npt.NDArray[np.float64] = waves * (_EDGE + (1 - _EDGE) * np.sin(np.pi * place))
    return weighted.astype(np.float32)


_WAVE = _rows_of_waves()[: _WAVES + 1]


def _reduction(size: Size) -> int:
    """Return the reduction at which a JPEG may be decoded for its hash: 1, 2, 4 or 8."""
    return next((number for number in (8, 4, 2) if min(size) >= 2 * _SIDE * number), 1)


def perceptual_hash(
    pixels: Pixels, size: Size, reduced: int = 1, orientation: int = 1
) -> int | None:
    """Return the hash of a picture, 64 bits, half of them set.

    None for pictures below 32 pixels a side, and for plain pictures, whose hashes are equal by
    chance. The pixels are gray or RGB as stored, `reduced` from `size` (height, width); the hash
    describes the upright picture.
    """
    if min(size) < _SIDE:
        return None
    target = (_SIDE, _SIDE)
    small = np.empty((*target, pixels.shape[2]), pixels.dtype)
    resize(pixels, place(size, target, target, "stretch"), small, "area", reduced=reduced)
    gray = small if small.shape[2] == 1 else cv2.cvtColor(small[..., :3], cv2.COLOR_RGB2GRAY)
    if gray.dtype != np.uint8:  # of any range
        finite = np.nan_to_num(gray, nan=0, posinf=0, neginf=0)
        gray = cv2.normalize(finite, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)
    gray = turn(gray.reshape(_SIDE, _SIDE, 1), orientation)[..., 0]
    darker = np.cumsum(np.bincount(gray.ravel(), minlength=260))
    low = (_WAVE @ (gray - np.float32(cv2.mean(gray)[0])) @ _WAVE.T).ravel()[_LOW]
    one_colour = (darker[5:] - darker[:-5]).max() >= _ONE_COLOUR * gray.size
    if one_colour or np.sort(np.abs(low))[32] < _LEAST:
        return None
    return int.from_bytes(np.packbits(low > np.sort(low)[31:33].mean()).tobytes(), "big")


class Whole(NamedTuple):
    """A file that was decoded to its end."""

    header: Header
    fault: str | None  # the message of the decoder
    digest: str  # BLAKE2b-128 of the bytes
    phash: int | None  # of a picture


def decode_whole(content: Content, store: Store) -> Whole:
    """Read a file once, and decode everything that samples are made of.

    That is the first image of a file, all frames of a sound, all rows of an HDF5 file; for a .npy
    file only the length is checked. JPEGs are decoded as small as the hash needs.
    """
    with opened(content, store) as (file, name):
        file.seek(0)
        if FORMATS[name].holds == "image":
            data = read_file(file, store.limits)
            header, fault, phash = _image(data, name, store.limits)
            return Whole(header, fault, hashlib.blake2b(data, digest_size=16).hexdigest(), phash)
        header, fault = _other(file, name, store.limits)
        file.seek(0)
        digest = hashlib.blake2b(digest_size=16)
        while block := file.read(_BLOCK):
            digest.update(block)
        return Whole(header, fault, digest.hexdigest(), None)


def _image(data: bytes, name: str, limits: Limits) -> tuple[Header, str | None, int | None]:
    """Return the header of an image, the fault of its pixels, and its hash."""
    header = parse_header(io.BytesIO(data), name, limits)
    try:
        color_mode = "grayscale" if name == "jpeg" else "rgb"
        _, pixels, reduced = decode_stored(data, color_mode, _reduction, limits)
    except DecodeError as error:
        return header, str(error), None
    size = pixels.shape[:2] if reduced == 1 else (header.height or 0, header.width or 0)
    return header, None, perceptual_hash(pixels, size, reduced, header.orientation)


def _other(file: IO[bytes], name: str, limits: Limits) -> tuple[Header, str | None]:
    """Return the header of a sound or an array, and the fault of its content."""
    is_sound = FORMATS[name].holds == "sound"
    if is_sound:
        load_soundfile()
    header = parse_header(file, name, limits)
    file.seek(0)
    try:
        if is_sound:
            check_frames(file, name)
        else:
            (_read_rows if name == "hdf5" else whole_array)(file, limits)
    except Exception as error:
        if is_outside(error):
            raise
        return header, reason(error)
    return header, None


def _read_rows(file: IO[bytes], limits: Limits) -> None:
    """Read all arrays of an HDF5 file, from the disk if it is there."""
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


class KeptFacts:
    """A folder of facts with the paths of their files; facts read in another way are not used."""

    def __init__(self, manifest: str, full: bool, limits: Limits) -> None:
        self.folder = f"{os.path.realpath(manifest)}.building"
        self._kind = xxhash.xxh3_64_hexdigest(repr((__version__, full, limits)).encode())
        self._waiting, self._since = list[pa.Table](), time.monotonic()

    def read(self) -> pa.Table | None:
        """Return the facts of an earlier build; None: there are none."""
        tables = []
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.folder)):
                if name.startswith(self._kind) and name.endswith(".arrow"):
                    path = os.path.join(self.folder, name)
                    with suppress(OSError, pa.ArrowInvalid), pa.ipc.open_file(path) as reader:
                        tables.append(reader.read_all())
        return pa.concat_tables(tables) if tables else None

    def add(self, paths: Any, facts: list[pa.RecordBatch]) -> None:
        """Keep the facts of some files, and write them from time to time."""
        table = pa.Table.from_batches(facts)
        self._waiting.append(table.add_column(0, "path", [paths.cast(pa.string())]))
        if time.monotonic() - self._since >= KEPT_EVERY:
            self.write()

    def write(self) -> None:
        """Write the facts that are not yet written."""
        parts, self._waiting, self._since = self._waiting, [], time.monotonic()
        if parts:
            table = pa.concat_tables(parts).combine_chunks()
            digest = xxhash.xxh3_64_hexdigest("\0".join(table["path"].to_pylist()).encode())
            os.makedirs(self.folder, exist_ok=True)
            path = os.path.join(self.folder, f"{self._kind}-{digest}.arrow")
            write_whole(path, lambda file: write_feather(table, file, "uncompressed"))

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


_Found = tuple[Head | None, Header | None, Whole | None, str | None]
"""Facts from the store, the header and the whole file, and the problem."""


@dataclass(frozen=True)
class Access:
    """How files are opened."""

    workers: int | None = None  # threads; None: the usual number
    limits: Limits = DEFAULT
    options: StorageOptions | None = None
    executor: Made | None = None  # reads instead of this process
    kept: KeptFacts | None = None  # keeps facts until the manifest is written

    def __post_init__(self) -> None:
        check_executor(self.executor)
        if self.workers is not None:
            whole("workers", self.workers)

    def threads(self, store: Stores) -> int:
        """Return the number of threads: more than CPUs if they wait for a network."""
        return self.workers or (FAR_READERS if store.far else usable_cpus())


USUAL: Access = Access()


def read_here(files: Any, access: Access, decode: bool) -> Iterator[SomeFacts]:
    """Yield the facts of all files in their order, in parts, with the index of the first file."""
    store = store_of([files], access.limits, access.options)
    task = FAR if store.far else DECODED if decode else TASK
    starts = range(0, len(files), task)
    tasks = [files[start : start + task] for start in starts]
    with threads(access.threads(store)) as pool:
        read = partial(_read_many, store=store, decode=decode)
        yield from zip(starts, pool.map(read, tasks), strict=True)


def _read_many(files: Any, store: Store, decode: bool) -> list[pa.RecordBatch]:
    one_by_one = (content.as_py() for content in files)  # bytes take memory
    contents = files.to_pylist() if files.type in TEXT else one_by_one
    return _batches([_read(content, store, decode) for content in contents])


def _batches(results: list[_Found]) -> list[pa.RecordBatch]:
    """Return the facts of files; if those of a file cannot be stored, that is its problem."""
    try:
        return [batch_of(results)]
    except MemoryError:
        raise
    except Exception as error:
        if len(results) > 1:
            return [batch for one in results for batch in _batches([one])]
        problem = f"its facts cannot be stored: {reason(error)}"
        return [batch_of([(results[0][0], None, None, problem)])]


def batch_of(results: list[_Found]) -> pa.RecordBatch:
    """Return the facts of files as a batch."""
    heads, headers, wholes, problems = zip(*results, strict=True)
    sources = {"bytes": heads, "mtime_ns": heads} | dict.fromkeys(OF_WHOLE_FILES, wholes)
    arrays = []
    for name, kind in zip(SCHEMA.names[:-1], SCHEMA.types, strict=False):
        read = attrgetter("size" if name == "bytes" else name)
        values = [None if one is None else read(one) for one in sources.get(name, headers)]
        arrays.append(pa.array(values, kind))
    return pa.record_batch([*arrays, pa.array(problems, pa.string())], SCHEMA)


def _read(path: Content, store: Store, decode: bool) -> _Found:
    """Return the facts of a file, and its problem."""
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
    except FileNotFoundError:  # MissingFileError too
        return head, None, None, NOT_THERE
    except (ArgumentError, MemoryError):
        raise
    except Exception as error:  # of a store or a reader
        if is_outside(error):
            raise fault_of(error, str(path)) from error
        return head, None, None, str(error) or type(error).__name__
