"""Image, Mask and Boxes in a Sequence: one draw for all of a row, the same from any worker."""

import keras
import numpy as np
import pandas as pd
import pytest
from messages import message_of
from PIL import Image as Pillow

import dfgen
from dfgen.samples.transforms import sample_rng

ROWS, SIDE = 12, 40
PALETTE = {(0, 0, 0): 0, (255, 0, 0): 1}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """A frame of images with one red rectangle each, its mask in colours, and its box."""
    folder = tmp_path_factory.mktemp("scenes")
    rng = np.random.default_rng(0)
    rows = []
    for row in range(ROWS):
        pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
        x, y = rng.integers(2, 20, 2).tolist()
        width, height = rng.integers(6, 18, 2).tolist()
        pixels[y : y + height, x : x + width] = 255, 0, 0
        Pillow.fromarray(pixels).save(folder / f"{row}.png")
        rows.append(
            {
                "id": row,
                "path": f"{folder}/{row}.png",
                "mask": f"{folder}/{row}.png",
                "boxes": [[x, y, x + width, y + height]] if row else [],
                "labels": [("flat", "tall")[height > width]] if row else [],
                "kind": "ab"[row % 2],
            }
        )
    return pd.DataFrame(rows)


IMAGE = dfgen.Image(size=(20, 24), load_size=(24, 30), crop="random", flip="horizontal")
MASK = dfgen.Mask("mask", palette=PALETTE)
BOXES = dfgen.Boxes(max_boxes=2, class_names=("flat", "tall"))


def sequence(df, x, y=None, **options):
    return dfgen.Sequence(df, x, y, **{"batch_size": 4, "workers": 2, **options})


def check(image, mask, boxes, labels):
    """Image, mask and box of one sample show the same rectangle."""
    if not mask.any():
        return
    y, x = np.nonzero(mask[..., 0])
    inside = [x.min(), y.min(), x.max() + 1, y.max() + 1]
    assert (image[..., 0].astype(int)[mask[..., 0] == 0] < 200).all()
    assert (image[..., 0].astype(int)[mask[..., 0] == 1] > 50).all()
    if labels[0] >= 0:
        np.testing.assert_allclose(boxes[0], inside, atol=1)


def test_image_mask_and_boxes_of_a_row_share_one_draw(scenes):
    seq = sequence(scenes, IMAGE, {"mask": MASK, "objects": BOXES})
    assert repr(seq).startswith(
        "<dfgen.Sequence: 12 rows, 3 batches of 4; image 20x24x3 uint8, mask 20x24x1 uint8, "
        "objects 2x4 float32, objects_labels 2 int32;"
    )
    assert seq.class_names == {"objects": ["flat", "tall"]}
    passes = []
    for _ in range(2):
        passes.append(list(seq))
        for x, y in passes[-1]:
            assert y.keys() == {"mask", "objects"} and y["objects"].keys() == {"boxes", "labels"}
            for sample in zip(x, y["mask"], *y["objects"].values(), strict=True):
                check(*sample)
    rows = [np.concatenate([x for x, _ in batches]) for batches in passes]
    assert len({pixels.tobytes() for pixels in np.concatenate(rows)}) > ROWS


@pytest.mark.parametrize(
    "options",
    [{"workers": 1}, {"workers": 3}, {"workers": 1, "use_multiprocessing": True}],
    ids=["1 thread", "3 threads", "2 processes"],
)
def test_the_same_pixels_from_any_worker(scenes, options):
    y = (MASK, BOXES)
    with (
        sequence(scenes, IMAGE, y, workers=0) as alone,
        sequence(scenes, IMAGE, y, **options) as seq,
    ):
        for _ in range(2):
            for expected, found in zip(alone, seq, strict=True):
                keras.tree.map_structure(np.testing.assert_array_equal, expected, found)


def test_chance_comes_before_the_transforms_and_leaves_it_a_generator(scenes):
    draws = []

    def transform(sample, rng):
        draws.append(rng.random())
        return sample

    plain, transformed = (
        sequence(scenes, IMAGE, MASK, workers=0, transform=function)
        for function in (None, transform)
    )
    for expected, found in zip(plain, transformed, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, expected, found)
    rng = sample_rng(0, 0, transformed._loader.rows(0, 0)[0])
    assert draws[0] == rng.random(4)[3]


def test_a_transform_gets_load_size_and_gives_back_size(scenes):
    seen = []

    def corner(sample, rng):
        seen.append({name: value.shape for name, value in sample.items()})
        boxes = np.minimum(sample["boxes"], [24, 20, 24, 20]).astype(np.float32)
        kept = (boxes[:, :2] < boxes[:, 2:]).all(axis=1)
        return {
            "image": sample["image"][:20, :24],
            "mask": sample["mask"][:20, :24],
            "boxes": np.concatenate([boxes[kept], boxes[kept]]),
            "labels": np.concatenate([sample["labels"][kept]] * 2),
        }

    image = dfgen.Image(size=(20, 24), load_size=(24, 30), scale="0..1")
    seq = sequence(scenes, image, [MASK, BOXES], transform=corner, workers=0)
    x, (mask, boxes) = seq[0]
    assert seen[0] == {"image": (24, 30, 3), "mask": (24, 30, 1), "boxes": (1, 4), "labels": (1,)}
    assert (x.shape, x.dtype, mask.shape) == ((4, 20, 24, 3), np.float32, (4, 20, 24, 1))
    assert x.max() == 1 and (boxes["labels"][:, 0] == boxes["labels"][:, 1]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s | {"boxes": s["boxes"][:, :3]},
         "the transform returned 'boxes' as float32 of shape (1, 3), expected float32 of shape "
         "(None, 4)"),
        (lambda s: s | {"boxes": s["boxes"].astype(float)},
         "the transform returned 'boxes' as float64 of shape (1, 4), expected float32 of shape "
         "(None, 4): write sample[\"boxes\"] = boxes.astype(np.float32)"),
        (lambda s: s | {"labels": s["labels"][:0]},
         "the transform returned 1 boxes, but 0 labels for them"),
        (lambda s: s | {"labels": np.repeat(s["labels"], 3), "boxes": np.repeat(s["boxes"], 3, 0)},
         "the transform returned 3 boxes, more than max_boxes=2"),
    ],
)  # fmt: skip
def test_a_transform_that_breaks_its_contract(scenes, change, message):
    image = dfgen.Image(size=(20, 24))
    seq = sequence(scenes[1:], image, BOXES, transform=lambda s, rng: change(s), workers=0)
    assert message_of(dfgen.errors.TransformError, seq.__getitem__, 0).endswith(f": {message}")


def test_a_row_that_is_skipped_has_no_boxes(scenes, tmp_path):
    df = scenes.copy()
    df.loc[3, "mask"] = f"{tmp_path}/gone.png"
    seq = sequence(df, IMAGE, [MASK, BOXES], on_error="skip", shuffle=False)
    x, (mask, boxes), (of_pixels, of_boxes) = seq[0]
    assert of_pixels.shape == (4, 1, 1) and of_boxes["boxes"].shape == (4, 1)
    assert of_pixels.ravel().tolist() == pytest.approx([4 / 3] * 3 + [0])
    assert not x[3].any() and not mask[3].any()
    assert (boxes["boxes"][3] == -1).all() and (boxes["labels"][3] == -1).all()
    assert seq.problems["reason"].tolist() == [
        f"path={df.path[3]!r}, mask={df['mask'][3]!r}: the file does not exist"
    ]


def test_job_b_of_height_482_and_width_415_standardised_float16(scenes):
    """Cropped or padded without scaling, as in ImageNet DET; labels one-hot."""
    image = dfgen.Image(size=(482, 415), resize="crop_or_pad", scale="standardize", dtype="float16")
    kind = dfgen.Category("kind", "categorical", ("a", "b"))
    x, y = sequence(scenes, image, kind, shuffle=False)[0]
    assert (x.shape, x.dtype, y.shape) == ((4, 482, 415, 3), np.float16, (4, 2))
    padded = np.zeros((482, 415, 3))
    padded[221:261, 187:227] = np.asarray(Pillow.open(scenes.path[0]))
    expected = (padded - padded.mean()) / padded.std()
    np.testing.assert_allclose(x[0], expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([dfgen.Image(), dfgen.Image("mask")], MASK,
         "Mask('mask') lies on one of several images: name it, like='image_0'. Images: image_0, "
         "image_1"),
        ({"left": dfgen.Image(), "right": dfgen.Image("mask")},
         dfgen.Boxes(class_names=("flat", "tall"), like="lefd"),
         "Boxes('boxes') has like='lefd', which is no image here. Images: left, right. "
         'Did you mean "left"?'),
        (dfgen.Number("id"), MASK,
         "Mask('mask') lies on an image, but x and y have none: give x=dfgen.Image(...) as well"),
        ({"labels": dfgen.Image()}, BOXES, "x and y both have an entry named 'labels': rename one"),
        ("path", "boxes",
         "column 'boxes' holds list<item: list<item: int64>>, for which no feature is known: are "
         "these boxes? dfgen.Boxes('boxes', labels=...)"),
        ("path", dfgen.Boxes("boxs"),
         'Boxes="boxs" is not a column of the manifest. Columns: id, path, mask, boxes, labels, '
         'kind. Did you mean "boxes"?'),
        ("path", dfgen.Boxes(labels="classes"),
         'Boxes="classes" is not a column of the manifest. Columns: id, path, mask, boxes, labels, '
         'kind. Did you mean "labels"?'),
    ],
)  # fmt: skip
def test_what_belongs_to_no_image_is_refused(scenes, x, y, message):
    assert message_of(dfgen.DfgenError, sequence, scenes, x, y) == message


@pytest.mark.parametrize("like", ["right", "mask", None])
def test_like_names_the_image_by_array_column_or_value(scenes, like):
    right = dfgen.Image("mask", size=(10, 10), interpolation="nearest")
    images = {"left": dfgen.Image(size=(8, 8)), "right": right}
    x, y = sequence(scenes, images, dfgen.Mask("mask", like=like or right, palette=PALETTE))[0]
    assert y.shape == (4, 10, 10, 1)
    np.testing.assert_array_equal(x["right"][..., :1] > 127, y == 1)


def test_names_of_classes_are_sorted_and_told(scenes):
    with pytest.warns(UserWarning, match="column 'labels' is not categorical, so its 2 classes"):
        seq = sequence(scenes, "path", dfgen.Boxes(max_boxes=1), image_size=(40, 40))
    assert seq.class_names == ["flat", "tall"]


def test_a_manifest_on_disk_holds_boxes(scenes, tmp_path):
    dfgen.write_manifest(scenes, tmp_path / "m.parquet")
    direct, stored = (
        sequence(m, "path", BOXES, image_size=(40, 40)) for m in (scenes, tmp_path / "m.parquet")
    )
    for expected, found in zip(direct, stored, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, expected, found)


# -- training on each backend --------------------------------------------------------------------


@pytest.mark.backend
@pytest.mark.parametrize(
    ("classes", "loss"),
    [
        (2, keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255)),
        (1, keras.losses.BinaryCrossentropy(from_logits=True)),
    ],
    ids=["sparse categorical", "binary"],
)
def test_a_model_learns_masks(scenes, classes, loss):
    image = dfgen.Image(size=(20, 24), flip="horizontal", scale="0..1")
    seq = sequence(scenes, image, MASK)
    model = keras.Sequential([keras.layers.Conv2D(classes, 3, padding="same")])
    model.compile(keras.optimizers.Adam(0.1), loss)
    losses = model.fit(seq, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2


@pytest.mark.slow
@pytest.mark.backend
def test_a_model_learns_boxes_and_classes(scenes):
    """A head that gives the first box and its class; padding weighs nothing."""

    def distance(y_true, y_pred):
        there = keras.ops.cast(y_true >= 0, "float32")
        return keras.ops.mean(there * keras.ops.abs(y_true - y_pred), axis=(1, 2))

    image = dfgen.Image(size=(20, 24), flip="horizontal", scale="0..1")
    boxes = dfgen.Boxes(max_boxes=1, format="rel_xyxy", class_names=("flat", "tall"))
    seq = sequence(scenes, image, boxes)
    inputs = keras.Input((20, 24, 3))
    flat = keras.layers.Flatten()(keras.layers.AveragePooling2D(2)(inputs))
    places = keras.layers.Reshape((1, 4))(keras.layers.Dense(4)(flat))
    labels = keras.layers.Reshape((1, 2))(keras.layers.Dense(2)(flat))
    model = keras.Model(inputs, {"boxes": places, "labels": labels})
    sparse = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    model.compile(keras.optimizers.Adam(0.01), {"boxes": distance, "labels": sparse})
    losses = model.fit(seq, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.backend
def test_keras_layers_take_a_batch_of_boxes(scenes):
    """The layers of Keras that augment for detection, fed as they ask for."""
    x = {"images": dfgen.Image(size=(40, 40), scale="0..1"), "boxes": BOXES}
    seq = sequence(scenes, x, label_mode=None)
    batch = next(iter(seq))[0]
    layer = keras.layers.RandomFlip(bounding_box_format="xyxy", seed=0)
    boxes = {name: keras.ops.convert_to_tensor(value) for name, value in batch["boxes"].items()}
    images = keras.ops.convert_to_tensor(batch["images"])
    flipped = layer({"images": images, "bounding_boxes": boxes}, training=True)
    assert flipped["bounding_boxes"]["boxes"].shape == (4, 2, 4)
