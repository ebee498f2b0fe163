"""Files cut short, empty, flipped in a bit, or not what their names say: a problem of their row."""

import contextlib
import io
import os
import pickle
import subprocess
import sys
import wave
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import PIL.Image
import pyarrow as pa
import pytest
from loaders import batches_of
from odd_images import damaged_files, files
from public.first_batch import x_of

import dfgen
from dfgen.errors import DecodeError, DfgenError, MissingFileError
from dfgen.loading.loader import Loader
from dfgen.samples.features.arrays import Array
from dfgen.samples.features.audio import Audio
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.decoders import decode_image
from dfgen.samples.reader import BoundFeature, SampleReader

ROWS, BAD, SIZE = 6, 3, (17, 24)
IMAGES = ("jpg", "png", "webp", "gif", "tif", "bmp")


def made(kind, number):
    """The bytes of a file that shows the number of its row."""
    if kind == "npy":
        file = io.BytesIO()
        np.save(file, np.full(50, number, np.float32))
        return file.getvalue()
    if kind in ("wav", "flac", "ogg", "mp3"):
        sound = np.sin(np.arange(4000) / (4 + number)).astype(np.float32) / 2
        if kind == "wav":
            file = io.BytesIO()
            with wave.open(file, "wb") as written:
                written.setparams((1, 2, 8000, 0, "NONE", ""))
                written.writeframes((sound * 32767).astype("<i2").tobytes())
            return file.getvalue()
        file = io.BytesIO()
        pytest.importorskip("soundfile").write(file, sound, 8000, format=kind.upper())
        return file.getvalue()
    noise = np.random.default_rng(number).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    if kind == "gif":  # which OpenCV 4.11 does not write
        file = io.BytesIO()
        PIL.Image.fromarray(noise).save(file, "GIF")
        return file.getvalue()
    return cv2.imencode(f".{kind}", noise)[1].tobytes()


def feature(kind):
    if kind == "npy":
        return Array("path", (50,))
    if kind in ("wav", "flac", "ogg", "mp3"):
        return Audio("path", sample_rate=8000, seconds=0.5)
    return Image("path", size=SIZE)


def by_hand(kind, content):
    """Return what one file becomes: its bytes or its path."""
    return x_of(pd.DataFrame({"id": [0], "path": [content]}), feature(kind))[0]


def loader(folder, kind, bad, **options):
    """Rows of files, one of which holds what `bad` makes of its bytes."""
    paths = [str(folder / f"{number}.{kind}") for number in range(ROWS)]
    for number, path in enumerate(paths):
        content = made(kind, number)
        Path(path).write_bytes(bad(content) if number == BAD else content)
    part = BoundFeature("x", feature(kind), pa.array(paths))
    ids = np.arange(ROWS) + 100
    return Loader(SampleReader(ids, (part,)), batch_size=2, workers=2, **options), paths[BAD]


def held(folder, kind, bad):
    """Check that the row is named, and that every other one is seen in each epoch, as it is."""
    found, path = loader(folder, kind, bad)
    with contextlib.closing(found), pytest.raises(DfgenError) as caught:
        list(batches_of(found))
    assert type(caught.value) is DecodeError
    assert f"id={100 + BAD}" in str(caught.value) and repr(path) in str(caught.value)
    whole, _ = loader(folder / "..", kind, lambda content: content)
    with contextlib.closing(whole):
        right = {
            row: batch.arrays["x"][place].copy()
            for batch in batches_of(whole)
            for place, row in enumerate(batch.rows.tolist())
        }
    found, _ = loader(folder, kind, bad, on_error="skip")
    with contextlib.closing(found):
        for epoch in range(2):
            seen = []
            for step in range(len(found)):
                batch = found.batch(epoch, step)
                for place, row in enumerate(batch.rows.tolist()):
                    seen.append(row)
                    expected = right[row] * (row != BAD)
                    np.testing.assert_array_equal(batch.arrays["x"][place], expected)
            assert sorted(seen) == list(range(ROWS))
        assert list(found.problems) == [BAD]
    return str(caught.value)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.mark.parametrize("kind", [*IMAGES, "npy", "wav", "flac", "ogg", "mp3"])
def test_truncated_file_is_a_problem_of_its_row(folder, kind):
    held(folder, kind, lambda content: content[: len(content) * 6 // 10])


@pytest.mark.parametrize("kind", [*IMAGES, "npy", "wav", "flac", "ogg", "mp3"])
def test_missing_last_byte_is_rejected_or_harmless(folder, kind):
    """GIF and PNG end with what says so; of others it may be a byte that nothing needs."""
    content = made(kind, 1)
    right = by_hand(kind, content)
    with contextlib.suppress(DecodeError):
        np.testing.assert_array_equal(by_hand(kind, content[:-1]), right)


@pytest.mark.parametrize("kind", [*IMAGES, "npy", "wav", "flac", "ogg", "mp3"])
def test_empty_file_is_a_problem_of_its_row(folder, kind):
    assert "(0 bytes)" in held(folder, kind, lambda content: b"")


@pytest.mark.parametrize("kind", ["png", "flac", "ogg"])
def test_flipped_bit_is_found_by_checksums(kind):
    """Or it changes nothing: it stands in what no number is made of."""
    content, changed = made(kind, 1), []
    right = by_hand(kind, content)
    for bit in np.random.default_rng(0).integers(8 * len(content), size=300).tolist():
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(DecodeError):
            if not np.array_equal(by_hand(kind, bytes(flipped)), right):
                changed.append(bit // 8)
    assert changed == []


GARBAGE = {
    "random": (np.random.default_rng(0).bytes(500), "not an image, array or sound"),
    "zeros": (bytes(500), "not an image, array or sound"),
    "page": (b"<!DOCTYPE html><html></html>", "an HTML page instead of the download"),
    "array": (made("npy", 1), "this is a .npy array, not an image: use dfgen.Array"),
    "head": (b"\xff\xd8\xff\xe0" + bytes(500), "cut short, or in another format"),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_named_as_an_image_is_a_problem(folder, what):
    content, said = GARBAGE[what]
    assert said in held(folder, "jpg", lambda _: content)


def test_wrong_suffix_does_not_matter(tmp_path):
    for kind in IMAGES:
        path = tmp_path / "image.jpg"
        path.write_bytes(made(kind, 1))
        image = by_hand("jpg", str(path))
        np.testing.assert_array_equal(image, decode_image(made(kind, 1))[0])


DIGESTS = """
import hashlib, pickle, sys
from dfgen.errors import DecodeError
from dfgen.samples.pixels.decoders import decode_image
found = {}
for name, data in pickle.load(sys.stdin.buffer).items():
    try:
        found[name] = hashlib.md5(decode_image(data)[0].tobytes()).hexdigest()
    except DecodeError as error:
        found[name] = str(error)
sys.stdout.buffer.write(pickle.dumps(found))
"""


SLOW_DDS = PIL.__version__.startswith("10.")
"""Its decoder is in Python, and takes minutes where a damaged file says that it is large."""


@pytest.mark.slow
@pytest.mark.alarm(170)
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="freed memory is filled by glibc")
def test_pixels_are_never_what_the_memory_held_before():
    """Each of two processes has its memory filled with something else."""
    corpus = {
        f"{name}-{way}": data
        for name, ways in damaged_files().items()
        for way, data in ways.items()
        if not (name.startswith("dds") and SLOW_DDS)
    }
    corpus.update((name, data) for name, data in files().items() if name.startswith("heif"))
    runs = []
    for filled in ("1", "165"):
        env = {**os.environ, "MALLOC_PERTURB_": filled, "MALLOC_MMAP_THRESHOLD_": "1000000000"}
        command = [sys.executable, "-c", DIGESTS]
        run = subprocess.run(
            command, env=env, input=pickle.dumps(corpus), stdout=subprocess.PIPE, check=True
        )
        runs.append(pickle.loads(run.stdout))
    assert len(runs[0]) == len(corpus) > 400
    assert {name for name in corpus if runs[0][name] != runs[1][name]} == set()


@pytest.mark.parametrize("workers", [0, 2])
def test_damaged_or_missing_file_error_suggests_a_remedy(tmp_path, workers):
    paths = [str(tmp_path / f"{row}.jpg") for row in range(8)]
    for path in paths:
        cv2.imwrite(path, np.zeros((9, 9, 3), np.uint8))
    os.truncate(paths[3], 60)
    os.remove(paths[6])
    df = pd.DataFrame({"id": range(8), "path": paths, "label": 1.0})
    with dfgen.Sequence(
        df, y="label", image_size=(8, 8), batch_size=4, shuffle=False, workers=workers
    ) as seq:
        for batch, kind, row in ((0, DecodeError, 3), (1, MissingFileError, 6)):
            with pytest.raises(kind, match=f"row id={row}") as caught:
                seq[batch]
            (note,) = [note for note in caught.value.__notes__ if "on_error" in note]
            assert "dfgen.verify(manifest, decode=True) lists all such files" in note
