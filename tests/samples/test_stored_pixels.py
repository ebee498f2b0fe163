"""Pixels that are decoded already: the same samples as of files, a chunk at once or row by row."""

import pickle
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image as Pillow

from dfgen.errors import DecodeError
from dfgen.loading.loader import Loader
from dfgen.packs.packed_pixels import PackedSource
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.pixels.geometry import STILL, Draw, after, move, place
from dfgen.samples.reader import SampleReader
from dfgen.samples.sources.file_source import FileSource
from dfgen.spec import Spec

ROWS, SIZE = 12, (8, 10)


@dataclass(frozen=True)
class InMemory:
    """Stored pixels in an array; what is said to be absent is not there."""

    images: np.ndarray
    absent: tuple = ()
    resized: tuple = ()  # what they were before, and how
    far_packs = ()

    @property
    def spec(self):
        return Spec(self.images.shape[1:], self.images.dtype)

    def at(self, row):
        return None if row in self.absent else self.images[row]

    def take(self, rows, out):
        np.take(self.images, rows, axis=0, out=out, mode="clip")
        return ~np.isin(rows, self.absent) if self.absent else None

    def ahead(self, rows):
        raise AssertionError("nothing is read ahead")

    def placed(self, row):
        return place(*self.resized) if self.resized else None


class Untaken(InMemory):
    """Those that must not be taken a chunk at once."""

    def take(self, rows, out):
        raise AssertionError("taken")


@pytest.fixture
def images(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 200, (ROWS, *SIZE, 3), np.uint8)
    pixels[:, 0, 0, 0] = range(ROWS)
    paths = [f"{tmp_path}/{row}.png" for row in range(ROWS)]
    for path, image in zip(paths, pixels, strict=True):
        Pillow.fromarray(image).save(path)
    return pixels, pa.array(paths)


def batches(image, paths, pixels, *others, transform=None, **options):
    bound, files = BoundFeature("image", image, paths), FileSource(image, paths)
    sources = {"image": files if pixels is None else PackedSource(files, pixels)}
    reader = SampleReader(np.arange(ROWS), (bound, *others), transform, sources=sources)
    loader = Loader(pickle.loads(pickle.dumps(reader)), batch_size=5, seed=3, **options)
    made = [batch for epoch in range(2) for batch in loader.batches(epoch)]
    loader.close()
    return made


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.rows.tolist() == other.rows.tolist()
        for name in one.arrays:
            np.testing.assert_array_equal(one.arrays[name], other.arrays[name])


def add_row(sample, rng):
    return {"image": sample["image"] + np.uint8(rng.integers(9))}


GONE = pa.array(["nowhere.png"] * ROWS)  # nothing is read from it


@pytest.mark.parametrize("workers", [0, 2])
def test_a_chunk_is_taken_at_once_where_the_batch_wants_just_what_is_stored(images, workers):
    pixels, paths = images
    found = batches(Image(size=SIZE), GONE, InMemory(pixels), workers=workers)
    assert_same(found, batches(Image(size=SIZE), paths, None, workers=workers))


@pytest.mark.parametrize(
    "image",
    [
        Image(size=SIZE, scale="0..1"),
        Image(size=SIZE, dtype="float32"),
        Image(size=SIZE, flip="horizontal"),
        Image(size=(5, 5), load_size=SIZE, crop="random", flip="horizontal"),
        Image(size=(5, 5), load_size=SIZE, crop="center"),
        Image(size=(6, 6), crop="random_resized"),
        Image(size=(4, 20)),
        Image(size=(12, 12), resize="pad"),
        Image(size=(6, 6), resize="crop"),
    ],
)
@pytest.mark.parametrize("transform", [None, add_row])
def test_other_samples_are_made_row_by_row_as_those_of_files(images, image, transform):
    pixels, paths = images
    found = batches(image, GONE, Untaken(pixels), transform=transform)
    assert_same(found, batches(image, paths, None, transform=transform))


def test_rows_that_are_not_there_are_read_from_their_files(images):
    pixels, paths = images
    mixed = pa.array([paths[row].as_py() if row in (2, 7) else "nowhere.png" for row in range(12)])
    found = batches(Image(size=SIZE), mixed, InMemory(pixels, (2, 7)))
    assert_same(found, batches(Image(size=SIZE), paths, None))
    none = batches(Image(size=SIZE), paths, InMemory(pixels, tuple(range(ROWS))))
    assert_same(none, found)


def test_what_else_a_row_has_is_read_beside_what_is_taken(images):
    pixels, paths = images
    other = BoundFeature("other", Image("other", size=SIZE), paths)
    found = batches(Image(size=SIZE), GONE, InMemory(pixels, (3,)), other, on_error="skip")
    assert {int(batch.rows[place]) for batch in found for place in batch.skipped} == {3}
    for batch in found:
        for row, image, beside in zip(batch.rows, *batch.arrays.values(), strict=True):
            expected = np.zeros_like(pixels[row]) if row == 3 else pixels[row]
            np.testing.assert_array_equal(image, expected)
            np.testing.assert_array_equal(beside, expected)


def test_problem_rows_are_not_read_and_stay_blank(images):
    pixels, _ = images
    found = batches(Image(size=SIZE), GONE, InMemory(pixels), on_error="skip", problems={4: "bad"})
    for batch in found:
        for row, image in zip(batch.rows, batch.arrays["image"], strict=True):
            np.testing.assert_array_equal(image, 0 if row == 4 else pixels[row])


@dataclass(frozen=True)
class Broken(InMemory):
    """Row 6 is broken."""

    def at(self, row):
        if row == 6:
            raise DecodeError("its pixels are not whole")
        return super().at(row)


def test_an_error_of_what_is_stored_names_the_row(images):
    with pytest.raises(DecodeError) as error:
        batches(Image(size=SIZE), GONE, Broken(images[0], (6,)))
    assert str(error.value) == "row id=6, path='nowhere.png': its pixels are not whole"


def test_what_follows_an_image_moves_by_all_that_became_of_it(images, tmp_path):
    stored = images[0][:, ::2, ::2].copy()
    pixels = stored.repeat(2, 1).repeat(2, 2)
    masks = [f"{tmp_path}/mask{row}.png" for row in range(ROWS)]
    for path, image in zip(masks, pixels, strict=True):
        Pillow.fromarray(image[..., 0]).save(path)
    image = Image(size=(4, 4), load_size=(4, 5), crop="random", flip="horizontal")
    mask = BoundFeature("mask", Mask("mask", like=image, dtype="uint8"), pa.array(masks), "image")
    kept = Untaken(stored, (), (SIZE, (4, 5), (4, 5), "stretch"))
    for batch in batches(image, GONE, kept, mask):
        np.testing.assert_array_equal(batch.arrays["image"][..., :1], batch.arrays["mask"])


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_boxes_of_stored_pixels_stand_where_the_pixels_do(resize):
    rng = np.random.default_rng(1)
    first = place((60, 90), (30, 30), (30, 30), resize)
    for draw in (STILL, Draw(0.3, 0.8, True)):
        second = place((30, 30), (20, 20), (25, 25), "stretch", draw)
        both = after(first, second)
        starts = rng.uniform(0, 50, (20, 2))
        boxes = np.hstack([starts, starts + rng.uniform(1, 30, (20, 2))])
        found, left = move(boxes, both)
        expected, kept = move(move(boxes, first)[0], second)
        np.testing.assert_allclose(found, expected)
        np.testing.assert_array_equal(left, kept)
        assert both.image == (60, 90)
        near = move(boxes, replace_steps(both))[0]
        np.testing.assert_allclose(near, expected, atol=1.0)


def replace_steps(geometry):
    return geometry._replace(steps=None)
