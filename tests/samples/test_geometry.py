"""Where things land: a drawn rectangle is found again in image, mask and boxes."""

from types import SimpleNamespace

import cv2
import keras
import numpy as np
import pyarrow as pa
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from public.corpus import exif

from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.pixels.geometry import RESIZE, STILL, Draw, move, place, shrunk
from dfgen.samples.reader import SampleReader

HEIGHT, WIDTH = 120, 170
BOX = 50, 30, 101, 78  # x1, y1, x2, y2 of the rectangle, in the upright picture
TURNS = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
"""EXIF orientation -> `PIL.Image.Transpose` that stores an upright picture so."""

DRAWS = [STILL, Draw(0.0, 0.0), Draw(0.999, 0.4, True), Draw(flip=True), Draw(0.3, 0.8)]


def picture(shape=(HEIGHT, WIDTH), box=BOX):
    pixels = np.full((*shape, 3), (20, 40, 60), np.uint8)
    x1, y1, x2, y2 = box
    pixels[y1:y2, x1:x2] = 240, 10, 10
    return pixels


def save(pixels, path, orientation=1, **options):
    """Write a file that shows the pixels once it is turned upright."""
    stored = Pillow.fromarray(pixels)
    if TURNS[orientation] is not None:
        stored = stored.transpose(Pillow.Transpose(TURNS[orientation]))
    stored.save(path, exif=exif(orientation), **options)


def made(
    tmp_path, image, draw=STILL, *, orientation=1, suffix="png", box=BOX, shape=(HEIGHT, WIDTH)
):
    """Return image, mask and boxes of the picture, through files and a SampleReader."""
    path, mask = f"{tmp_path}/image.{suffix}", f"{tmp_path}/mask.png"
    pixels = picture(shape, box)
    save(pixels, path, orientation, **({"quality": 95} if suffix == "jpg" else {}))
    cv2.imwrite(mask, (pixels[..., 0] > 100).astype(np.uint8))
    boxes = Boxes(like=image, max_boxes=2)
    encoded = boxes.encode(pa.array([[list(map(float, box))]]), pa.array([[7]]))
    parts = (
        BoundFeature("image", image, pa.array([path])),
        BoundFeature("mask", Mask("mask", like=image, fill_value=9), pa.array([mask]), "image"),
        BoundFeature("boxes", boxes, encoded, "image"),
    )
    reader = SampleReader(np.array([0]), parts)
    out = {name: np.empty(spec.shape, spec.dtype) for name, spec in reader.specs.items()}
    object.__setattr__(reader, "_random", {"image": SimpleNamespace(draw=lambda rng: draw)})
    reader.read(0, out, np.random.default_rng(0))
    return out


def found(shown):
    """Return xyxy of the True pixels."""
    y, x = np.nonzero(shown)
    return [x.min(), y.min(), x.max() + 1, y.max() + 1]


def check(out, tolerance=1):
    red, classes = out["image"][..., 0].astype(int) > 130, out["mask"][..., 0]
    if not (classes == 1).any():  # it lies outside of the crop
        assert not red.any() and (out["boxes"] == -1).all() and (out["labels"] == -1).all()
        return
    inside = found(classes == 1)
    np.testing.assert_allclose(found(red), inside, atol=tolerance)
    assert out["labels"].tolist() == [7, -1]
    np.testing.assert_allclose(out["boxes"][0], inside, atol=tolerance)
    assert (out["boxes"][1] == -1).all()
    black = out["image"].max(axis=2) == 0
    if black.any():  # padded: there and nowhere else is the fill value
        np.testing.assert_array_equal(classes == 9, black)


IMAGES = {
    "smaller": {"size": (60, 60)},
    "larger": {"size": (200, 300)},
    "wide": {"size": (40, 150)},
    "from load_size": {"size": (60, 80), "load_size": (75, 100)},
    "from a larger load_size": {"size": (150, 220), "load_size": (190, 260)},
}


@each("draw", DRAWS)
@each("how", RESIZE)
@each("sizes", IMAGES.values())
def test_the_rectangle_is_found_again(tmp_path, sizes, how, draw):
    check(made(tmp_path, Image(resize=how, **sizes), draw))


@each("how", RESIZE)
@each("orientation", range(1, 9))
def test_boxes_and_masks_refer_to_the_upright_image(tmp_path, orientation, how):
    image = Image(size=(90, 100), resize=how, load_size=(110, 120))
    draw = Draw(0.6, 0.2, flip=True)
    out = made(tmp_path, image, draw, orientation=orientation, suffix="jpg")
    check(out)
    upright = made(tmp_path, image, draw)
    np.testing.assert_array_equal(out["mask"], upright["mask"])
    np.testing.assert_array_equal(out["boxes"], upright["boxes"])


@each("draw", DRAWS)
@each("how", ["stretch", "crop", "pad"])
@each("load_size", [None, (64, 90)])
def test_a_jpeg_decoded_smaller_lies_where_its_boxes_do(tmp_path, load_size, how, draw):
    image = Image(size=(48, 70), resize=how, load_size=load_size)
    out = made(tmp_path, image, draw, suffix="jpg", shape=(613, 1001), box=(300, 200, 650, 420))
    check(out)


@each("interpolation", ["nearest", "area"])
@each("sizes", IMAGES.values())
def test_every_interpolation(tmp_path, sizes, interpolation):
    check(made(tmp_path, Image(interpolation=interpolation, **sizes)))


def test_crop_or_pad_does_not_scale(tmp_path):
    """To a size less high than the picture, and wider."""
    out = made(tmp_path, Image(size=(80, 300), resize="crop_or_pad"))
    np.testing.assert_array_equal(out["image"][:, 65:235], picture()[20:100])
    assert not out["image"][:, :65].any() and not out["image"][:, 235:].any()
    assert out["boxes"][0].tolist() == [115, 10, 166, 58]


def test_the_crop_of_load_size_is_the_centre_of_what_a_transform_gets(tmp_path):
    small = made(tmp_path, Image(size=(60, 80), load_size=(75, 100)))
    large = made(tmp_path, Image(size=(75, 100)))
    middle = large["image"][7:67, 10:90].astype(int)
    assert np.abs(small["image"] - middle).mean() < 1.5


def test_random_places_reach_every_corner_and_all_between():
    share = np.linspace(0, 1, 1000, endpoint=False)
    tops = [place((50, 9), (40, 9), (40, 9), "crop_or_pad", Draw(y, 0)).source.top for y in share]
    assert np.bincount(tops).tolist() == pytest.approx([1000 / 11] * 11, abs=1)


def test_a_window_of_nothing_but_padding(tmp_path):
    image = Image(size=(10, 10), load_size=(100, 100), resize="pad", crop="random")
    out = made(tmp_path, image, Draw(0.0, 0.5))
    assert not out["image"].any() and (out["mask"] == 9).all()
    assert (out["boxes"] == -1).all() and (out["labels"] == -1).all()


def test_boxes_are_clipped_as_keras_clips_them():
    boxes = np.array([[-5, -5, 10, 10], [30, 2, 70, 8], [0, 0, 50, 40], [38, 0, 40, 9]], float)
    geometry = place((40, 50), (20, 20), (40, 50), "stretch", Draw(0.0, 0.0))
    moved, left = move(boxes, geometry)
    expected = keras.utils.bounding_boxes.clip_to_image_size(
        {"boxes": boxes[None].astype("float32"), "labels": np.zeros((1, 4))},
        height=20,
        width=20,
        bounding_box_format="xyxy",
    )
    labels = keras.ops.convert_to_numpy(expected["labels"])[0]
    assert left.tolist() == (labels != -1).tolist() == [True, False, True, False]
    np.testing.assert_array_equal(
        moved[left], keras.ops.convert_to_numpy(expected["boxes"])[0][left]
    )


@settings(max_examples=300)
@given(
    st.tuples(st.integers(1, 300), st.integers(1, 300)),
    st.tuples(st.integers(1, 99), st.integers(1, 99)),
    st.tuples(st.integers(0, 50), st.integers(0, 50)),
    st.sampled_from(RESIZE),
    st.floats(0, 0.9999),
    st.floats(0, 0.9999),
)
def test_a_geometry_stays_within_the_image(image, size, more, how, y, x):
    load_size = size[0] + more[0], size[1] + more[1]
    geometry = place(image, size, load_size, how, Draw(y, x))
    top, left, height, width = geometry.source
    assert top >= 0 and left >= 0 and height >= 1 and width >= 1
    assert top + height <= image[0] and left + width <= image[1]
    assert min(geometry.target[2:]) >= 1
    moved, kept = move(np.array([[0.0, 0.0, image[1], image[0]]]), geometry)
    assert (moved >= 0).all() and (moved <= [size[1], size[0]] * 2).all()
    first, last = np.array(geometry.target[:2]), np.add(geometry.target[:2], geometry.target[2:])
    assert kept[0] == ((first < size) & (last > 0)).all()


def test_a_side_of_a_smaller_image_has_a_pixel_at_least():
    assert shrunk((4000, 3), 100) == (100, 1) and shrunk((3, 4000), 100) == (1, 100)
