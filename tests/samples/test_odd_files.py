"""Whatever a reader, a store or a header does: the row stays, with its problem, and so does all
else."""

import io
import struct
from dataclasses import dataclass, replace

import annotated
import cv2
import numpy as np
import pandas as pd
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_images import exif
from PIL import Image

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.errors import DecodeError, ManifestError
from dfgen.loading.loader import Loader
from dfgen.samples.features.array import Array
from dfgen.samples.pixels.formats import FORMATS, Format, parse_header, read_header, sniff
from dfgen.samples.pixels.headers import Header
from dfgen.samples.pixels.upright import decode
from dfgen.samples.stores.local_files import Files
from dfgen.samples.stores.schemes import STORES
from dfgen.samples.stores.store import Head

WIDTH, HEIGHT = annotated.WIDTH, annotated.HEIGHT
UNLABELLED = Options(image_size=(4, 5), label_mode=None)


class StrangeError(Exception):
    """Nobody knows it."""


RAISED = [
    RuntimeError("boom"),
    RecursionError("maximum recursion depth exceeded"),
    AssertionError(),
    StrangeError("odd"),
    OverflowError("too large"),
    ZeroDivisionError("division by zero"),
    AttributeError("no such thing"),
    StopIteration(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
]
HEADERS = {  # what a header says -> what is wrong with its row
    "width 0": (Header("odd", 0, 5, 3), "the image is 0 x 5: it has no pixels"),
    "height -1": (Header("odd", 5, -1, 3), "the image is 5 x -1: it has no pixels"),
    "width 2^32-1": (Header("odd", 2**32 - 1, 5, 3), "the image is 4294967295 x 5, 64,"),
    "orientation": (Header("odd", 5, 5, 3, 65535), "the header has orientation 65535, expected 1"),
    "channels": (Header("odd", 5, 5, 2**40), "the image is 5 x 5, 27,"),
    "bits": (Header("odd", 5, 5, 3, 1, "many"), "broken odd header: "),
    "text": (Header("odd", "5", "5", 3), "broken odd header: "),
    "no header": (None, "broken odd header: "),
}


def saying(error):
    return str(error) or type(error).__name__


def raiser(error):
    def reader(*arguments):
        raise error

    return reader


@pytest.fixture
def odd(monkeypatch):
    """Set what files of a format from outside, which begin with ODD!, do to their readers."""
    one = Format(
        (".odd",), b"ODD!", lambda file, name, limits: Header(name, WIDTH, HEIGHT, 3), raiser(0)
    )

    def put(**readers):
        monkeypatch.setitem(FORMATS, "odd", replace(one, **readers))

    return put


@pytest.fixture
def folder(tmp_path):
    """Five files, of which the third is odd."""
    (tmp_path / "imgs").mkdir()
    for row in range(5):
        if row == 2:
            (tmp_path / "imgs" / f"{row}.png").write_bytes(b"ODD! and more bytes than sixteen")
        else:
            pixels = np.full((HEIGHT, WIDTH, 3), row, np.uint8)
            cv2.imwrite(f"{tmp_path}/imgs/{row}.png", pixels)
    return tmp_path


def known(found):
    """Return the details of findings of broken files that the manifest knows."""
    assert set(found["change"]) == {"broken"}
    details = found["detail"].tolist()
    assert all(detail.endswith(" (as the manifest says)") for detail in details)
    return [detail.removesuffix(" (as the manifest says)") for detail in details]


def problems_of(frame):
    return frame["problem"].dropna().tolist()


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_header_reader_that_raises_anything_leaves_a_problem(folder, odd, error):
    odd(header=raiser(error))
    path = folder / "m.parquet"
    frame = dfgen.build_manifest(folder / "imgs", out=path)
    assert problems_of(frame) == [f"broken odd header: {saying(error)}"]
    assert frame["width"].notna().tolist() == [True, True, False, True, True]
    assert frame["bytes"].tolist()[2] == 32
    assert known(dfgen.verify(path)) == problems_of(frame)
    updated = dfgen.build_manifest(folder / "imgs", update=path)
    assert problems_of(updated) == problems_of(frame)
    with pytest.raises(ManifestError, match="1 of 5 rows have a problem, by the facts of the man"):
        bind(frame, "path", options=UNLABELLED)


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_says_what_cannot_be_leaves_a_problem(folder, odd, name):
    header, problem = HEADERS[name]
    odd(header=lambda file, name, limits: header)
    path = folder / "m.parquet"
    frame = dfgen.build_manifest(folder / "imgs", out=path)
    [found] = problems_of(frame)
    assert found.startswith(problem)
    assert frame["format"].isna().tolist() == [False, False, True, False, False]
    assert known(dfgen.verify(path)) == problems_of(frame)
    assert problems_of(dfgen.build_manifest(folder / "imgs", update=path)) == [found]


def reasons(loader):
    return {row: problem.reason for row, problem in loader.problems.items()}


def batches_of(frame, x="path", options=UNLABELLED, **more):
    bound = bind(frame, x, options=options, on_error="skip")
    loader = Loader(bound.reader, problems=bound.problems, on_error="skip", shuffle=False, **more)
    return [loader.batch(0, step) for step in range(len(loader))], reasons(loader)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_decoder_that_raises_anything_names_the_row_or_skips_it(folder, odd, error):
    odd(decode=raiser(error))
    frame = dfgen.build_manifest(folder / "imgs")
    assert frame["problem"].isna().all()
    reader = bind(frame, "path", options=UNLABELLED).reader
    with pytest.raises(DecodeError) as caught:
        reader.read(2, {"image": np.empty((4, 5, 3), np.uint8)}, None)
    expected = f"row id='2.png', path={frame['path'][2]!r}: broken odd file: {saying(error)}"
    assert str(caught.value) == expected
    [batch], problems = batches_of(frame)
    assert problems == {2: f"broken odd file: {saying(error)}"} and batch.skipped == (2,)
    assert batch.arrays["image"][:, 0, 0, 0].tolist() == [0, 1, 0, 3, 4]


@pytest.mark.parametrize("made", [None, "pixels", [[0]]], ids=str)
def test_a_decoder_that_makes_something_else_names_the_row(folder, odd, made):
    odd(decode=lambda data, color_mode: made)
    _, problems = batches_of(dfgen.build_manifest(folder / "imgs"))
    assert list(problems) == [2] and problems[2].startswith("broken odd file: ")


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_sizes_of_images_that_keep_theirs_survive_any_reader(folder, odd, error):
    odd(header=raiser(error))
    frame = dfgen.build_manifest(folder / "imgs", facts="none")
    options = replace(UNLABELLED, image_size=None)
    [batch], problems = batches_of(frame, options=options)
    assert problems == {2: f"broken odd header: {saying(error)}"}
    assert batch.arrays["image"].shape == (5, HEIGHT, WIDTH, 3)
    with pytest.raises(ManifestError, match="1 of 5 rows have a problem, by the headers of their"):
        bind(frame, "path", options=options)


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
@pytest.mark.parametrize("size", [(0, 30), (-1, 30), (2**32 - 1, 30), (2**40, 2**40)], ids=str)
def test_facts_that_no_image_has_are_not_believed(folder, size):
    frame = dfgen.build_manifest(folder / "imgs").drop(index=2).reset_index(drop=True)
    facts = frame[["width", "height"]].astype("Int64")
    facts.loc[1] = size
    frame[["width", "height"]] = facts
    [batch], problems = batches_of(frame, options=replace(UNLABELLED, image_size=None))
    assert not problems and batch.arrays["image"].shape == (4, HEIGHT, WIDTH, 3)


@dataclass(frozen=True)
class Faulty(Files):
    """A store from outside that fails over one file."""

    error: object = None
    method: str = "read"

    def read(self, path):
        return self._try("read", path)

    def head(self, path):
        return self._try("head", path)

    def open(self, path):
        return self._try("open", path)

    def _try(self, method, path):
        if method == self.method and path.endswith("2.png"):
            if isinstance(self.error, Exception):
                raise self.error
            return self.error
        return getattr(Files, method)(Files(), path)


@pytest.fixture
def whole(folder):
    cv2.imwrite(f"{folder}/imgs/2.png", np.full((HEIGHT, WIDTH, 3), 2, np.uint8))
    return folder


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
@pytest.mark.parametrize("method", ["head", "open"])
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_store_that_raises_anything_leaves_a_problem(whole, monkeypatch, method, error):
    path = whole / "m.parquet"
    good = dfgen.build_manifest(whole / "imgs", out=path)
    assert good["problem"].isna().all()
    monkeypatch.setitem(STORES, "", lambda: Faulty(error=error, method=method))
    frame = dfgen.build_manifest(whole / "imgs")
    said = saying(error) if method == "head" else f"the file cannot be read: {saying(error)}"
    assert problems_of(frame) == [said]
    if method == "head":
        [finding] = dfgen.verify(path).to_dict("records")
        assert finding["change"] == "missing" and finding["detail"] == said
    assert problems_of(dfgen.build_manifest(whole / "imgs", update=path)) == (
        [said] if method == "head" else []
    )


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
@pytest.mark.parametrize(
    "head",
    [None, Head("large", 1), Head(2**80, 1), Head(1, 2**80), Head(5, 5, problem=7)],
    ids=str,
)
def test_a_store_that_says_what_cannot_be_leaves_a_problem(whole, monkeypatch, head):
    path = whole / "m.parquet"
    dfgen.build_manifest(whole / "imgs", out=path)
    monkeypatch.setitem(STORES, "", lambda: Faulty(error=head, method="head"))
    assert len(problems_of(dfgen.build_manifest(whole / "imgs"))) == 1
    assert len(dfgen.verify(path)) == 1
    assert len(problems_of(dfgen.build_manifest(whole / "imgs", update=path))) == 1


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_store_whose_read_raises_anything_names_the_row_or_skips_it(whole, monkeypatch, error):
    frame = dfgen.build_manifest(whole / "imgs")
    monkeypatch.setitem(STORES, "", lambda: Faulty(error=error))
    _, problems = batches_of(frame)
    assert problems == {2: f"the file cannot be read: {saying(error)}"}


def test_a_store_that_fails_over_rows_of_an_array_names_the_row(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.zeros((3, 2), np.float32))
    path = str(tmp_path / "x.npy")
    frame = pd.DataFrame({"id": range(3), "path": path, "index": range(3)})
    frame.loc[2, "path"] = f"{tmp_path}/2.png"
    monkeypatch.setitem(STORES, "", lambda: Faulty(error=StrangeError("odd"), method="head"))
    x = Array("path", shape=(2,), index="index")
    _, problems = batches_of(frame, x, Options(label_mode=None))
    assert list(problems) == [2]
    assert problems[2].endswith("the file cannot be read: odd")


@pytest.mark.parametrize("error", [MemoryError("no memory"), KeyboardInterrupt(), SystemExit()])
def test_what_is_no_fault_of_a_file_is_raised(folder, odd, error):
    odd(header=raiser(error))
    with pytest.raises(type(error)):
        read_header(f"{folder}/imgs/2.png")
    odd(decode=raiser(error))
    with pytest.raises(type(error)):
        decode((folder / "imgs" / "2.png").read_bytes())


def test_a_mistake_in_a_feature_is_still_no_bad_row(whole):
    class Mistaken(dfgen.Image):
        def read(self, *arguments):
            return 1 // 0

    with pytest.raises(ZeroDivisionError):
        batches_of(dfgen.build_manifest(whole / "imgs"), Mistaken(), Options(label_mode=None))


# -- files that no tool would write --------------------------------------------------------------


@pytest.mark.parametrize("orientation", [0, 9, 255, 65535])
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_an_orientation_that_does_not_exist_leaves_the_image_as_it_is(
    tmp_path, format, orientation
):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    plain, turned = tmp_path / "plain", tmp_path / "turned"
    Image.fromarray(pixels).save(plain, format)
    Image.fromarray(pixels).save(turned, format, exif=exif(orientation))
    header = read_header(str(turned))
    assert (header.width, header.height, header.orientation) == (7, 5, 1)
    np.testing.assert_array_equal(decode(turned.read_bytes()), decode(plain.read_bytes()))


def encoded(format, mode="RGB", **options):
    file = io.BytesIO()
    Image.effect_noise((37, 23), 90).convert(mode).save(file, format, **options)
    return file.getvalue()


EXIF = exif(6)
REAL = {
    "jpeg": encoded("JPEG", exif=EXIF),
    "png": encoded("PNG", exif=EXIF),
    "png of indices": encoded("PNG", "P"),
    "webp": encoded("WEBP", exif=EXIF),
    "bmp": encoded("BMP"),
    "gif": encoded("GIF", "P"),
    "tiff": encoded("TIFF", exif=EXIF),
    "tiff of pages": encoded("TIFF", "L", save_all=True, append_images=[Image.new("L", (9, 9))]),
    "tiff lzw": encoded("TIFF", compression="tiff_lzw"),
    "pnm": encoded("PPM"),
}


class Careful(io.BytesIO):
    """A file on a machine of little memory: a damaged length is not to be asked for."""

    def read(self, size=-1):
        if size > 2**26:
            raise MemoryError(f"{size:,} bytes")
        return super().read(size)


@settings(max_examples=40, deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", REAL)
def test_a_damaged_file_is_a_header_or_a_problem_and_pixels_or_a_problem(name, data):
    """Never anything else, and never without an end."""
    damaged = bytearray(REAL[name])
    end = min(len(damaged), 400)
    for place in data.draw(st.lists(st.integers(0, end - 1), min_size=1, max_size=6)):
        damaged[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    damaged = bytes(damaged[: data.draw(st.integers(1, len(damaged)) | st.just(len(damaged)))])
    for read in (lambda: parse_header(Careful(damaged), sniff(damaged[:16])),
                 lambda: decode(damaged)):  # fmt: skip
        try:
            found = read()
        except DecodeError:
            continue
        if isinstance(found, Header):
            assert found.width is None or (found.width > 0 and found.height > 0)
            assert 1 <= found.orientation <= 8
        else:
            assert found.dtype == np.uint8 and found.ndim == 3


def big_tiff():
    file = io.BytesIO()
    pages = np.arange(3 * 30, dtype=np.uint8).reshape(3, 5, 6)
    tifffile.imwrite(file, pages, bigtiff=True, metadata=None, photometric="minisblack")
    return file.getvalue()


def test_lengths_beyond_a_file_are_not_read():
    """XMP of 2^60 bytes in a BigTIFF, EXIF of 4 GB in a PNG."""
    data = bytearray(big_tiff())
    assert parse_header(Careful(data), "tiff").frames == 3
    entry = data.index(struct.pack("<HHQ", 0x0131, 2, 12))  # Software becomes XMP
    data[entry : entry + 12] = struct.pack("<HHQ", 0x02BC, 1, 2**60)
    header = parse_header(Careful(data), "tiff")
    assert (header.width, header.orientation) == (6, 1)
    png = REAL["png"]
    at = png.index(b"eXIf")
    with pytest.raises(DecodeError):
        parse_header(Careful(png[: at - 4] + b"\xff\xff\xff\xff" + png[at:]), "png")


def test_pages_of_a_tiff_are_counted_up_to_a_thousand():
    for count, expected in ((1000, 1000), (1001, None)):
        file = io.BytesIO()
        tifffile.imwrite(
            file, np.zeros((count, 2, 2), np.uint8), metadata=None, photometric="minisblack"
        )
        assert parse_header(file, "tiff").frames == expected
