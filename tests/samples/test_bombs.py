"""Bombs: small files that ask for gigabytes, or for hours, are refused by what they say."""

import io
import os
import struct
import subprocess
import sys
import zlib
from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest
from messages import message_of
from PIL import Image
from public.first_batch import x_of

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import DecodeError, DfgenError, ManifestError
from dfgen.limits import FIXED as BOUNDS
from dfgen.limits import Limits
from dfgen.loading.loader import Loader
from dfgen.samples.pixels.decoders import decode_image, decode_values
from dfgen.samples.pixels.formats import read_header
from dfgen.stores.array_files import decode_array
from dfgen.stores.stores import Stores

MOST = 1_000  # MB that any of them may take
PNG = b"\x89PNG\r\n\x1a\n"
TRUST = "if you trust it, give limits=dfgen.Limits"
FIXED = (
    "that dfgen reads: the file is damaged, or made to take memory and time. Save it again, or "
    "leave it out"
)


pyarrow.csv.read_csv(io.BytesIO(b"a\n1\n"))  # Arrow keeps a pipe for signals from then on


def chunk(name, body, length=None):
    length = len(body) if length is None else length
    return struct.pack(">I4s", length, name) + body + struct.pack(">I", zlib.crc32(name + body))


def png(width, height, bits=8, color=2, *more):
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
    return b"".join([PNG, header, *more, pixels, chunk(b"IEND", b"")])


def zeros(megabytes):
    """Return so many MB of zeros, deflated: a thousandth. Each MB is packed by itself."""
    packer = zlib.compressobj(9)
    begin = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return begin + block * (megabytes - 1) + packer.flush()


def encoded(format, size=(8, 8), mode="RGB", **options):
    file = io.BytesIO()
    Image.new(mode, size).save(file, format, **options)
    return file.getvalue()


def with_frame(data, width, height):
    """Return a JPEG that says it has another size."""
    at = next(at for mark in (b"\xff\xc0", b"\xff\xc2") if (at := data.find(mark)) > 0) + 5
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4 :]


def tiff(**tags):
    """Return a TIFF of these entries alone: name -> (number, type, count, value)."""
    entries = b"".join(struct.pack("<HHII", *entry) for entry in tags.values())
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(2000)


TAGS = {
    "width": (256, 3, 1, 4), "height": (257, 3, 1, 4), "bits": (258, 3, 1, 8),
    "packed": (259, 3, 1, 8), "meaning": (262, 3, 1, 1), "samples": (277, 3, 1, 1),
}  # fmt: skip
TILES = {"tile width": (322, 4, 1, 32768), "tile height": (323, 4, 1, 32752),
         "tiles": (324, 4, 1, 8), "tile bytes": (325, 4, 1, 9)}  # fmt: skip


def gif_canvas():
    return b"GIF89a" + struct.pack("<HH", 60_000, 60_000) + encoded("GIF")[10:]


def webp_canvas():
    frames = [Image.new("RGBA", (8, 8), (level, 0, 0, 255)) for level in (0, 99)]
    file = io.BytesIO()
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:])
    data = bytearray(file.getvalue())
    data[24:30] = 2 * (16_383).to_bytes(3, "little")
    return bytes(data)


def ico():
    inner = png(16384, 16384, 16, 6)
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(inner), 22) + inner


XMP = b"XML:com.adobe.xmp\0\1\0\0\0"
BEGIN = b"\xff\xd8\xff\xe0\0\2"
LIE = 0xFFFFFFF0
PIXELS = "more than limits.decoded_bytes='512MiB'"

IMAGES = {
    "png of 4 GB": (lambda: png(16384, 16384, 16, 6),
                    f"the image is 16384 x 16384, 2,147,483,648 bytes decoded, {PIXELS}: "
                    f"{TRUST}(decoded_bytes=2147483648)"),
    "float64 tiff": (lambda: tiff(**TAGS | {"width": (256, 4, 1, 16384), "bits": (258, 3, 1, 64),
                                            "height": (257, 4, 1, 8192)}),
                     None),
    "tiff tile": (lambda: tiff(**TAGS, **TILES),
                  f"the image is 32768 x 32752, 1,073,217,536 bytes decoded, {PIXELS}"),
    "gif canvas": (gif_canvas,
                   f"the image is 60000 x 60000, 10,800,000,000 bytes decoded, {PIXELS}"),
    "webp canvas": (webp_canvas,
                    f"the image is 16384 x 16384, 805,306,368 bytes decoded, {PIXELS}"),
    "jpeg": (lambda: with_frame(encoded("JPEG"), 65_000, 65_000),
             f"the image is 65000 x 65000, 12,675,000,000 bytes decoded, {PIXELS}"),
    "progressive": (lambda: with_frame(encoded("JPEG", progressive=True), 12_000, 12_000),
                    f"the image is 12000 x 12000, 864,000,000 bytes decoded, {PIXELS}"),
    "stray bytes": (lambda: BEGIN + bytes(20 << 20), None),
    "segments": (lambda: BEGIN + b"\xff\xe0\0\2" * (1 << 20), None),
    "empty chunks": (lambda: png(4, 4, 8, 2, b"\0\0\0\0abCd\0\0\0\0" * 10**6), None),
    "png text": (lambda: png(4, 4, 8, 2, chunk(b"zTXt", b"Comment\0\0" + zeros(1200))), None),
    "png xmp": (lambda: png(4, 4, 8, 2, chunk(b"iTXt", XMP + zeros(1200))),
                None),
    "png profile": (lambda: png(4, 4, 8, 2, chunk(b"iCCP", b"icc\0\0" + zeros(1200))), None),
    "ico": (ico, None),
    "many icons": (lambda: struct.pack("<HHH", 0, 1, 65535)
                   + 65535 * struct.pack("<BBBBHHII", 16, 16, 0, 0, 1, 32, 9, 22), None),
    "looping tiff": (lambda: tiff(**TAGS)[:82] + struct.pack("<I", 8) + bytes(999), None),
    **{f"chunk {name.decode()}": (lambda name=name: png(4, 4, 8, 2, chunk(name, b"", LIE)), None)
       for name in (b"IDAT", b"PLTE", b"tRNS", b"eXIf", b"iTXt", b"iCCP", b"acTL", b"abCd")},
}  # fmt: skip
"""Name -> what makes the file, and how the error begins; None: however it ends."""

SPARSE = {
    "jpg": b"\xff\xd8\xff\xe0", "png": PNG, "gif": b"GIF89a", "tif": b"II*\0\xff\xff\xff\x7f",
    "webp": b"RIFF\xff\xff\xff\x7fWEBPVP8 ", "avif": b"\0\0\0\x1cftypavif", "qoi": b"qoif",
    "psd": b"8BPS\0\1", "icns": b"icns\x7f\xff\xff\xff", "npy": b"\x93NUMPY\2\0\xf0\xff\xff\xff",
    "jp2": b"\0\0\0\x0cjP  \r\n\x87\n",
}  # fmt: skip

MEASURED = """
import sys
from dfgen.errors import DfgenError
from dfgen.samples.pixels.formats import read_header
from dfgen.samples.pixels.decoders import decode_image, decode_values
from dfgen.stores.stores import Stores
from dfgen.manifest.building.file_facts import decode_whole

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1000

for path in sys.argv[1:]:
    for read in (
        lambda: read_header(path), lambda: decode_image(Stores().read(path)),
        lambda: decode_values(Stores().read(path)), lambda: decode_whole(path, Stores()),
    ):
        open("/proc/self/clear_refs", "w").write("5")
        try:
            said = str(read())[:50]
        except DfgenError as error:
            said = str(error)
        print(peak(), path, said.replace(chr(10), " "), sep="\\t", flush=True)
"""


def peaks(paths):
    """Return path -> the most MB that reading it took, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *map(str, paths)],
        capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == 4 * len(paths)
    found = {}
    for most, path, _ in lines:
        found[path] = max(found.get(path, 0), int(most))
    return found


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bombs")
    for name, (make, _) in IMAGES.items():
        (folder / name).write_bytes(make())
    return folder


def sparse(path, head=b"", nbytes=6 << 30):
    """Write a file that takes no room on the disk."""
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(nbytes)
    return str(path)


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="Linux tells the peak")
def test_bombs_take_less_than_a_gigabyte(bombs, tmp_path):
    files = [sparse(tmp_path / f"sparse.{name}", head) for name, head in SPARSE.items()]
    found = peaks([*bombs.iterdir(), *files])
    assert {path: most for path, most in found.items() if most > MOST} == {}


@pytest.mark.parametrize("name", [name for name, (_, said) in IMAGES.items() if said])
def test_bomb_is_rejected_by_its_bounding_field(bombs, name):
    said = IMAGES[name][1]
    with pytest.raises(DecodeError) as caught:
        decode_image((bombs / name).read_bytes())
    assert str(caught.value).startswith(said)
    assert f"{TRUST}(" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [False, True])
def test_loader_applies_limits_in_workers_and_names_row(tmp_path, processes):
    path = tmp_path / "a.jpg"
    path.write_bytes(encoded("JPEG", (64, 64), progressive=True))
    frame = pd.DataFrame({"id": [7], "path": [str(path)]})
    for limits, said in (
        (Limits(), None),
        (Limits(decoded_bytes=20_000), "the image is 64 x 64, 24,576 bytes decoded, "
         "more than limits.decoded_bytes=20000: if you trust it, give limits=dfgen.Limits"
         "(decoded_bytes=24576)"),
    ):  # fmt: skip
        reader = bind(
            SequenceArguments(frame, image_size=(4, 4), label_mode=None, limits=limits)
        ).reader
        loader = Loader(
            reader, batch_size=1, workers=1, use_multiprocessing=processes, limits=limits
        )
        with closing(loader):
            if said is None:
                assert loader.batch(0, 0).arrays["image"].shape == (1, 4, 4, 3)
                continue
            assert message_of(DecodeError, loader.batch, 0, 0) == f"row id=7, path='{path}': {said}"


FRAMES, SIDE = 500, 1_000
"""1.5 GB, if all frames were decoded."""


def animated(form, **options):
    """Return two frames, red and green, and where the second one begins."""
    frames = [Image.new("RGB", (SIDE, SIDE), color) for color in ("#fe0000", "#00fe00")]
    one, two = io.BytesIO(), io.BytesIO()
    frames[0].save(two, form, save_all=True, append_images=frames[1:], **options)
    frames[0].save(one, form, **options)
    return two.getvalue()


def animated_gif():
    data = animated("GIF")
    start = data.rindex(b"\x21\xf9\x04")
    return data[:start] + data[start:-1] * FRAMES + b";"


def animated_webp():
    data = animated("WEBP")
    start = data.rindex(b"ANMF")
    data = data[:start] + data[start:] * FRAMES
    return data[:4] + struct.pack("<I", len(data) - 8) + data[8:]


def animated_png():
    data = animated("PNG")
    start, stop = data.rindex(b"fcTL") - 4, data.rindex(b"IEND") - 4
    control, pixels = data[start + 8 : start + 34], data[start + 38 :]
    length = struct.unpack(">I", pixels[:4])[0]
    pixels = pixels[8 : 8 + length]
    parts = [data[:start].replace(data[data.index(b"acTL") - 4 : data.index(b"acTL") + 16],
             chunk(b"acTL", struct.pack(">II", FRAMES, 0)))]  # fmt: skip
    for number in range(1, FRAMES):
        parts.append(chunk(b"fcTL", struct.pack(">I", 2 * number - 1) + control[4:]))
        parts.append(chunk(b"fdAT", struct.pack(">I", 2 * number) + pixels[4:]))
    return b"".join([*parts, data[stop:]])


def paged_tiff():
    page = Image.new("RGB", (SIDE, SIDE), "#fe0000")
    file = io.BytesIO()
    others = [Image.new("RGB", (SIDE, SIDE), "#00fe00")] * 60
    page.save(file, "TIFF", save_all=True, append_images=others, compression="tiff_adobe_deflate")
    return file.getvalue()


def sequence_of(form):
    frames = [Image.new("RGB", (SIDE, SIDE), color) for color in ["#fe0000"] + ["#00fe00"] * 10]
    file = io.BytesIO()
    frames[0].save(file, form, save_all=True, append_images=frames[1:], quality=10)
    return file.getvalue()


ANIMATED = {"gif": animated_gif, "webp": animated_webp, "png": animated_png, "tif": paged_tiff}
if ".avif" in Image.registered_extensions():  # older Pillow writes none
    ANIMATED["avif"] = lambda: sequence_of("AVIF")


@pytest.mark.slow
def test_only_first_frame_of_animated_bomb_is_decoded(tmp_path):
    """However many frames come after it, and the limit is that of one."""
    for name, make in ANIMATED.items():
        (tmp_path / f"a.{name}").write_bytes(make())
        pixels = decode_image((tmp_path / f"a.{name}").read_bytes())[0]
        assert pixels.shape == (SIDE, SIDE, 3), name
        assert abs(pixels[0, 0].astype(int) - (254, 0, 0)).max() < 9, name
    files = [tmp_path / f"a.{name}" for name in ANIMATED]
    assert {path: most for path, most in peaks(files).items() if most > 400} == {}
    frame = pd.DataFrame({"id": range(len(files)), "path": [*map(str, files)]})
    for most, fits in ((SIDE * SIDE * 12, True), (SIDE * SIDE * 2, False)):
        limits = Limits(decoded_bytes=most)
        reader = bind(
            SequenceArguments(frame, image_size=(4, 4), label_mode=None, limits=limits)
        ).reader
        for row in range(len(files)):
            out = {"image": np.empty((4, 4, 3), np.uint8)}
            if fits:
                reader.read(row, out, None)
                continue
            with pytest.raises(DecodeError, match=r"more than limits.decoded_bytes"):
                reader.read(row, out, None)


def test_build_keeps_bomb_rows_under_adjustable_limits(bombs, tmp_path):
    folder = tmp_path / "imgs"
    folder.mkdir()
    (folder / "a.png").write_bytes(encoded("PNG"))
    (folder / "b.png").write_bytes(IMAGES["png of 4 GB"][0]())
    with pytest.warns(UserWarning, match="1 problem"):
        frame = dfgen.build_manifest(folder)
    assert frame["problem"].tolist()[1] == IMAGES["png of 4 GB"][1]
    raised = dfgen.build_manifest(folder, limits=Limits(decoded_bytes=2147483648))
    assert raised["problem"].isna().all()
    assert dfgen.verify(raised).empty
    [found] = dfgen.verify(raised, decode=True)["detail"]
    assert found == IMAGES["png of 4 GB"][1]


def test_files_are_bounded_but_array_rows_are_not(tmp_path, monkeypatch):
    path = sparse(tmp_path / "a.jpg", b"\xff\xd8\xff\xe0")
    with pytest.raises(DecodeError) as caught:
        Stores().read(path)
    assert str(caught.value) == (
        "the file has 6,442,450,944 bytes, more than the 4,294,967,296 that dfgen reads: the file "
        "is damaged, or made to take memory and time. Save it again, or leave it out"
    )
    monkeypatch.setitem(BOUNDS, "file_bytes", 10**6)
    with open("/dev/zero", "rb"), pytest.raises(DecodeError, match="more than the 1,000,000 that"):
        Stores(Limits()).read("/dev/zero")
    np.save(tmp_path / "x.npy", np.zeros((0, 1000), "float32"))
    head = (tmp_path / "x.npy").read_bytes().replace(b"(0, 1000)", b"(9000000, 1000)")
    head = head[:8] + struct.pack("<H", len(head) - 10) + head[10:]
    rows = sparse(tmp_path / "rows.npy", head, len(head) + 36 * 10**9)
    assert Stores().row(rows, 8_999_999).shape == (1000,)
    with pytest.raises(DecodeError) as caught:
        Stores(Limits(decoded_bytes=3999)).row(rows, 0)
    assert str(caught.value) == (
        "float32 of shape (1000,) takes 4,000 bytes, more than "
        f"limits.decoded_bytes=3999: {TRUST}(decoded_bytes=4000)"
    )


def test_huge_compressed_hdf5_chunk_is_not_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = str(tmp_path / "x.h5")
    with h5py.File(path, "w") as file:
        shape = (4, 2**14, 2**14)
        file.create_dataset("x", shape, "float32", chunks=(1, 2**14, 2**14), compression="gzip")
    assert "limits.decoded_bytes" in message_of(DecodeError, Stores().row, path, 0)


def test_array_header_size_is_bounded():
    with pytest.raises(DecodeError) as caught:
        decode_array(b"\x93NUMPY\2\0\xff\xff\xff\x7f" + bytes(100))
    assert str(caught.value) == (
        f"the .npy file has a header of 2,147,483,647 bytes, more than the 16,777,216 {FIXED}"
    )


def test_yaml_aliases_and_nesting_are_bounded(tmp_path):
    lines = ["a0: &a0 [cat, cat]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "data.yaml").write_text("\n".join([*lines, "names: *a11", "train: x"]))
    assert message_of(ManifestError, dfgen.build_manifest, yolo=tmp_path / "data.yaml") == (
        f"{tmp_path}/data.yaml refers to parts of itself 100 times, more than the 10 {FIXED}"
    )
    (tmp_path / "data.yaml").write_text("names: " + "[" * 5000 + "]" * 5000)
    with pytest.raises(ManifestError, match="nested too deep"):
        dfgen.build_manifest(yolo=tmp_path / "data.yaml")


def annotations(tmp_path, name):
    """Return what builds from a file of 6 GB, or of a document that is far too long."""
    path = tmp_path / name
    if name == "a.xml":
        (tmp_path / "a.jpg").write_bytes(encoded("JPEG"))
        sparse(path, b"<annotation>", 1 << 30)
        return {"voc": tmp_path, "images": tmp_path}
    sparse(path)
    suffix = path.suffix
    if suffix in (".csv", ".jsonl"):
        return {"labels": path, "path_column": "path"}
    return {{".json": "coco", ".yaml": "yolo", ".toml": "source"}[suffix]: path}


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
@pytest.mark.parametrize(
    ("name", "field"),
    [("t.csv", "the 4,294,967,296 that"), ("t.jsonl", "the 4,294,967,296 that"),
     ("c.json", "the 4,294,967,296 that"), ("d.yaml", "the 16,777,216 that"),
     ("r.toml", "the 16,777,216 that"), ("a.xml", "the 16,777,216 that")],
)  # fmt: skip
def test_huge_tables_and_annotations_are_not_read(tmp_path, name, field):
    with pytest.raises(DfgenError) as caught:
        dfgen.build_manifest(**annotations(tmp_path, name))
    assert f"{tmp_path}/{name} has" in str(caught.value)
    assert f"more than {field}" in str(caught.value)


def test_endless_line_is_not_read(tmp_path):
    path = sparse(tmp_path / "t.jsonl", b'{"path": "a.png"}\n', 1 << 30)
    assert message_of(ManifestError, dfgen.build_manifest, labels=path, path_column="path") == (
        f"{path}, line 2 is longer than 67,108,864 characters, more than the 67,108,864 {FIXED}"
    )
    path = sparse(tmp_path / "t.csv", b"path\n", 1 << 27)
    with pytest.raises(ManifestError, match="holds zero bytes"):  # before any line of it
        dfgen.build_manifest(labels=path, path_column="path")


def test_xml_entities_are_rejected(tmp_path):
    (tmp_path / "a.jpg").write_bytes(encoded("JPEG"))
    (tmp_path / "b.jpg").write_bytes(encoded("JPEG"))
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    text = f'<!DOCTYPE x [<!ENTITY e0 "cat">{entities}]><annotation>&e9;</annotation>'
    (tmp_path / "a.xml").write_text(text)
    (tmp_path / "b.xml").write_text("<annotation></annotation>")
    with pytest.warns(UserWarning, match="1 problem"):
        frame = dfgen.build_manifest(voc=tmp_path, images=tmp_path)
    assert "declares the entity" in frame["problem"].tolist()[0]


def test_large_and_honest_files_are_read(tmp_path):
    photograph = tmp_path / "photograph.jpg"
    Image.new("L", (26_752, 6_688)).save(photograph, quality=30)  # 178.9 million pixels
    assert read_header(str(photograph)).width == 26_752
    frame = pd.DataFrame({"id": [0], "path": [str(photograph)]})
    assert x_of(frame, image_size=(8, 8)).shape == (1, 8, 8, 3)
    text = png(4, 4, 8, 0, chunk(b"tEXt", b"Comment\0" + bytes(9 << 20)))
    assert decode_image(text)[0].shape == (4, 4, 3)
    assert decode_values(text).shape == (4, 4, 1)
