"""Damaged files by number: `case("png", 17)` is the same bytes each time, and 18 are others.

The seeds are files of real encoders, made when they are asked for. What befalls them befalls files
on disks and wires, or is what an attacker would try: bits flipped, ends cut off, sectors zeroed,
lengths that lie, the head of one file on another, chunks twice, elsewhere, or not at all.
"""

import io
import json
import re
import struct
import tempfile
import zlib
from functools import cache, partial
from pathlib import Path

import h5py
import numpy as np
import odd_images
import pandas as pd
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq

import dfgen
from dfgen.spec import Spec
from dfgen.stores.slots import Room, Slots

LARGEST = 20_000  # bytes of a seed
SMALL = (0, 1, 2, 3, 4, 7, 8, 16, 17, 24, 25, 32, 127, 128, 255)
LENGTHS = (
    *SMALL,
    256,
    5000,
    2**15 - 1,
    2**15,
    2**16 - 1,
    2**16,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
)
WORDS = (
    b"0", b"-1", b"1e999", b"nan", b"1" * 40, b"9223372036854775808", b"1" * 5000, b"null", b"true",
    b"~", b'""', b"[]", b"{}", b"[[[[", b"<", b"&a", b"*a", b"<<: *a", b"!!python/name:os.system",
    b"2020-99-99", b"\0", b"\xff\xfe", b"\xed\xa0\x80", "\u202e\ufeff".encode(), b"\\u0000", b"..",
)  # fmt: skip
TEXTS = {
    "xml": (
        b'<?xml version="1.0"?>\n<annotation><folder>a</folder><filename>0.png</filename>\n<size>'
        b"<width>40</width><height>30</height><depth>3</depth></size>\n<object><name>cat</name>"
        b"<pose>Left</pose><difficult>0</difficult><bndbox><xmin>1</xmin><ymin>2.5</ymin>"
        b"<xmax>30</xmax><ymax>20</ymax></bndbox></object>\n</annotation>\n",
    ),
    "coco": (
        json.dumps({
            "info": {"year": 2017},
            "images": [{"id": 1, "file_name": "0.png", "width": 40, "height": 30}],
            "categories": [{"id": 7, "name": "cat", "supercategory": "pet"}],
            "annotations": [{
                "id": 1, "image_id": 1, "category_id": 7, "bbox": [1, 2.5, 10, 8], "area": 80.0,
                "iscrowd": 0, "segmentation": [[1, 2, 3, 4, 5, 6]], "keypoints": [1, 2, 2],
            }],
        }, indent=1).encode(),
    ),
    "jsonl": (
        b'{"path": "0.png", "kind": "cat", "age": 3, "weight": 2.5, "seen": "2020-01-31"}\n'
        b'{"path": "1.png", "kind": "dog", "age": null, "weight": 7, "seen": "2021-02-28"}\n',
    ),
    "yaml": (
        b"# pets\npath: .\ntrain: images/train\nval:\n  - images/val\nnc: 2\n"
        b"names:\n  0: cat\n  1: 'dog'\ndownload: null\n",
        b"train: images/train\nval: images/val\nnames: [cat, dog]\n",
    ),
    "toml": (
        b'# pets\nsource = "images"\npattern = "{split}/{id}.png"\nfacts = "none"\nseed = 3\n',
        b'source = "images"\npattern = "{kind}/{id:int}.png"\nsplit = {train = 0.8, val = 0.2}\n'
        b'category = ["kind"]\nunmatched = "keep"\nstratify = "kind"\n',
    ),
}  # fmt: skip
BREAKS = {
    "jpeg": rb"(?=\xff[\xc0-\xfe])",
    "webp": rb"(?=VP8[ LX]|ANI[MF]|ALPH|EXIF|XMP |ICCP)",
    "gif": rb"(?=\x21[\xf9\xfe\xff]|,\0)",
    "avif": rb"(?s)(?=....(?:ftyp|meta|hdlr|pitm|il..|i[nr]..|ip..|ispe|pixi|av1C|colr|mdat|auxC))",
    "bmp": rb"(?s)(?<=\A.{14})(?=.)|(?<=\A.{18})|(?<=\A.{26})|(?<=\A.{30})|(?<=\A.{54})",
    "npy": rb"(?=[{}(),:'])",
    "hdf5": rb"(?=OHDR|OCHK|TREE|HEAP|SNOD|GCOL|FRHP|FHDB|BTHD|BTLF|FSHD)",
    "manifest": rb"(?=PAR1|ARROW:schema|dfgen|\x15|\x19)",
    "parquet": rb"(?=PAR1|ARROW:schema|dfgen|\x15|\x19)",
}
"""Kind -> before what a file comes apart; PNG and TIFF do by their lengths, text by its words."""
WORDED = {*TEXTS, "csv", "state", "preprocessing"}


def case(kind: str, number: int) -> bytes:
    """Return a damaged file; the same whatever was made before."""
    rng = np.random.default_rng([zlib.crc32(kind.encode()), number])
    known = seeds(kind)
    data, other = known[rng.integers(len(known))], known[rng.integers(len(known))]
    for _ in range(rng.integers(1, 3)):
        way = WAYS[rng.integers(len(WAYS))]
        data = way(rng, kind, data, other)
    return data


@cache
def seeds(kind: str) -> list[bytes]:
    """Return whole files of a kind."""
    if kind in TEXTS:
        return list(TEXTS[kind])
    if maker := (MAKERS | MORE).get(kind):
        return [data[:LARGEST] for data in maker()]
    names = (kind, "tifffile") if kind == "tiff" else (kind,)
    found = [data for name, data in odd_images.files().items() if name.split("-")[0] in names]
    return [data for data in found if 20 < len(data) < LARGEST]


def npy_files():
    for shape, dtype, order in (
        ((6, 5), "<f4", "C"), ((6, 5), ">i2", "F"), ((30,), "u1", "C"), ((6, 5), "<U3", "C"),
        ((6, 5), "O", "C"), ((2, 5), [("a", "<f4"), ("b", "u1", 3)], "C"), ((0, 5), "?", "C"),
    ):  # fmt: skip
        for version in (1, 0), (2, 0), (3, 0):
            file = io.BytesIO()
            array = np.zeros(shape, np.dtype(dtype), order)
            np.lib.format.write_array(file, array, version)
            yield file.getvalue()


def hdf5_files():
    for options in (
        {}, {"chunks": (2, 5)}, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True},
        {"fletcher32": True, "chunks": (3, 5)}, {"scaleoffset": 2, "dtype": "i4"},
        {"maxshape": (None, 5)}, {"dtype": ">f8"}, {"fillvalue": 7}, {"track_times": True},
    ):  # fmt: skip
        for newest in (False, True):
            file = io.BytesIO()
            options = {"dtype": "f4", **options}
            with h5py.File(file, "w", libver="latest" if newest else "earliest") as tree:
                made = tree.create_dataset("x", (6, 5), **options)
                made[...] = np.arange(30).reshape(6, 5)
                made.attrs["unit"] = "m"
                tree.create_group("more")["y"] = np.arange(6)
                tree["more/name"] = np.array([b"cat", b"dog"] * 3)
            yield file.getvalue()


def parquet_files():
    plain = {
        "id": ["a", "b", "c"], "path": ["0.png", "1.png", "2.png"], "kind": ["cat", "dog", "cat"],
        "age": [1, None, 3], "weight": [0.5, 1.5, float("nan")], "split": ["train"] * 3,
    }  # fmt: skip
    table = pa.table(plain)
    coded = table.set_column(2, "kind", table["kind"].dictionary_encode())
    boxes = pa.array([[[1.0, 2, 3, 4]], [], None], pa.list_(pa.list_(pa.float32(), 4)))
    parts = pa.array([{"bytes": b"GIF8", "path": "0.gif"}, None, {"bytes": b"", "path": None}])
    nested = table.append_column("boxes", boxes).append_column("image", parts)
    for given in (table, coded, nested):
        for options in (
            {"compression": "none"}, {"compression": "zstd", "write_page_checksum": True},
            {"use_dictionary": False, "data_page_version": "2.0"}, {"row_group_size": 2},
        ):  # fmt: skip
            file = io.BytesIO()
            pq.write_table(given, file, **options)
            yield file.getvalue()


def manifest_files():
    table = pq.read_table(io.BytesIO(next(parquet_files()))).to_pandas()
    boxes = table.assign(boxes=[[[1.0, 2.0, 3.0, 4.0]], [], None])
    for frame in (table, boxes, table.astype({"kind": "category"})):
        with tempfile.TemporaryDirectory() as folder:
            dfgen.write_manifest(frame, f"{folder}/m.parquet")
            yield Path(f"{folder}/m.parquet").read_bytes()


MAKERS = {
    "npy": npy_files,
    "hdf5": hdf5_files,
    "manifest": manifest_files,
    "parquet": parquet_files,
}
AVIF = ("avif",) if ".avif" in PIL.Image.registered_extensions() else ()  # older Pillow writes none


def csv_files():
    yield b'path,kind,age,weight\n0.png,cat,3,2.5\n1.png,dog,,7\n2.png,"cat, old",12,0.5\n'
    yield b"path;kind;seen\r\n0.png;cat;2020-01-31\r\n1.png;dog;2021-02-28\r\n"


@cache
def packed():
    """Return a folder, which stays as long as the process, with a pack of three images in it."""
    folder = tempfile.TemporaryDirectory()
    for row in range(3):
        PIL.Image.new("RGB", (8, 8), (row, 0, 0)).save(f"{folder.name}/{row}.png")
    frame = dfgen.build_manifest(folder.name, pattern="{id:int}.png")
    dfgen.pack(frame, f"{folder.name}/pack", image_size=(8, 8))
    return folder


def sequence():
    """Return a Sequence of three rows, of whose state and preprocessing the files are."""
    kinds = pd.Categorical(["cat", "dog", "cat"])
    frame = pd.DataFrame({"id": [7, 8, 9], "path": [f"{packed().name}/0.png"] * 3, "kind": kinds})
    return dfgen.Sequence(frame, y="kind", image_size=(8, 8), batch_size=2, seed=3)


def state_files():
    with sequence() as seq:
        yield json.dumps(seq.state_dict(), indent=1).encode()


def preprocessing_files():
    with sequence() as seq:
        yield seq.preprocessing().to_json().encode()


def pack_files():
    for path in sorted(Path(packed().name, "pack").iterdir()):
        if path.is_file():
            yield path.read_bytes()


def slots(folder):
    """Return a cache of three arrays, or what is found of it."""
    spec = Spec((2, 2, 3), np.dtype(np.uint8))
    return Slots((f"{folder}/x.slots", f"{folder}/x.records"), 3, spec, Room(folder))


def cache_files():
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            slots(folder).put(number, np.full((2, 2, 3), number, np.uint8), 5, (2, 2))
        for name in ("x.slots", "x.records"):
            yield Path(folder, name).read_bytes()


MORE = {
    "csv": csv_files,
    "state": state_files,
    "preprocessing": preprocessing_files,
    "pack": pack_files,
    "cache": cache_files,
}
"""Kinds that `make fuzz` alone tries, beside the others."""
KINDS = ("jpeg", "png", "webp", "gif", "tiff", "bmp", *AVIF, *MAKERS, *TEXTS)


# -- what befalls them ---------------------------------------------------------------------------


def cut(rng, kind, data, other):
    return data[: rng.integers(len(data) + 1)]


def flipped(rng, kind, data, other):
    changed = bytearray(data)
    for bit in rng.integers(0, 8 * len(data), rng.integers(1, 9)) if data else ():
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def overwritten(rng, kind, data, other):
    """Overwrite bytes, more often near one of the ends, where headers and tables are."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)) if data else ():
        changed[_place(rng, data)] = rng.choice([*SMALL, rng.integers(256)])
    return bytes(changed)


def lying(rng, kind, data, other):
    """Overwrite what may be a length, a count or a place by another."""
    form, at = rng.choice(["<H", ">H", "<I", ">I", "<Q", ">Q"]), _place(rng, data)
    number = int(rng.choice(LENGTHS)) % 2 ** (8 * struct.calcsize(form))
    packed = struct.pack(form, number)
    return data[:at] + packed + data[at + len(packed) :]


def blanked(rng, kind, data, other):
    """Fill a sector, of a disk or of a smaller kind, by zeros or ones."""
    size = int(rng.choice([8, 64, 512, 4096]))
    at = rng.integers(len(data) + 1) // size * size
    gone = len(data[at : at + size])
    return data[:at] + bytes([rng.choice([0, 255])]) * gone + data[at + gone :]


def lost(rng, kind, data, other):
    at = rng.integers(len(data) + 1)
    return data[:at] + data[at + rng.integers(1, 200) :]


def inserted(rng, kind, data, other):
    at = rng.integers(len(data) + 1)
    return data[:at] + rng.bytes(rng.integers(1, 50)) + data[at:]


def spliced(rng, kind, data, other):
    """Put the first part of one file before the last part of another."""
    if rng.integers(4) == 0:  # of any kind
        other = data
        data = rng.choice(seeds(KINDS[rng.integers(len(KINDS))]))
        data = data[: rng.choice([8, 16, 64])]
        return data + other[len(data) :]
    at = rng.integers(min(len(data), len(other)) + 1)
    return data[:at] + other[at:]


def mixed(rng, kind, data, other):
    """Double, exchange, leave out or damage pieces; the checksums of PNG are right again."""
    found = pieces(kind, data)
    if not found:
        return data
    at, to = rng.integers(len(found), size=2)
    way = rng.integers(6)
    if way == 0:
        most = max(2, 10**6 // max(1, len(found[at])))
        found[at] *= min(most, int(rng.choice([2, 3, 100, 5000])))
    elif way == 1:
        found[at], found[to] = found[to], found[at]
    elif way == 2:
        del found[at]
    elif way == 3:
        foreign = pieces(kind, other) or found
        found[at] = foreign[rng.integers(len(foreign))]
    elif kind in WORDED:
        found[at] = WORDS[rng.integers(len(WORDS))]
    else:
        found[at] = (flipped, overwritten, lying, cut)[rng.integers(4)](rng, kind, found[at], b"")
    if kind == "png":
        return found[0] + b"".join(map(_chunk, found[1:])) if way != 5 else b"".join(found)
    return b"".join(found)


WAYS = (cut, flipped, overwritten, lying, blanked, lost, inserted, spliced, mixed, mixed, mixed)


def pieces(kind, data):
    """Return what a file comes apart into."""
    if kind == "png":
        return list(_chunks(data))
    if kind == "tiff":
        return list(_tags(data))
    if kind in WORDED:
        return re.findall(rb"[\w./]+|\s+|.", data)
    return re.split(BREAKS.get(kind, rb"(?=ARROW1|\xff{4}|dfgen)"), data)


def _place(rng, data):
    """Return a place, in most cases one of the first or last 200."""
    near = rng.integers(min(200, len(data)) or 1)
    return (near, max(0, len(data) - 1 - near), rng.integers(len(data) or 1))[rng.integers(3)]


def _chunks(data):
    yield data[:8]
    at = 8
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        yield data[at:end]
        at = end


def _chunk(data):
    """Return a chunk of PNG with the length and the checksum that it should have."""
    return odd_images.chunk(data[4:8], data[8:-4])


def _tags(data):
    """Yield what is before the first directory of a TIFF, its entries, and what follows."""
    order = "<" if data[:1] == b"I" else ">"
    unpack = partial(struct.unpack_from, buffer=data)
    try:
        (start,) = unpack(order + "I", offset=4)
        (count,) = unpack(order + "H", offset=start)
    except struct.error:
        start, count = 8, 0
    yield data[: start + 2]
    end = start + 2 + 12 * count
    for at in range(start + 2, min(end, len(data)), 12):
        yield data[at : at + 12]
    yield data[end:]
