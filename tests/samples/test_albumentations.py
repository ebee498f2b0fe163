"""Albumentations pipelines: the same pixels from any worker; masks and boxes move with images."""

import copy
import os
import pickle
import subprocess
import sys

import albumentations as A
import keras
import numpy as np
import pandas as pd
import pytest
from messages import message_of
from PIL import Image as Pillow

import dfgen
from dfgen.errors import ArgumentError

ROWS, SIDE = 24, 48
BOXES = A.BboxParams("pascal_voc", label_fields=["labels"])
IMAGE = dfgen.Image(size=(32, 40), load_size=(SIDE, SIDE))
MASK = dfgen.Mask("mask")
LABELLED = dfgen.Boxes(max_boxes=2)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """A frame of images with two white rectangles each, a mask of classes 1 and 2, and boxes."""
    folder = tmp_path_factory.mktemp("scenes")
    rng = np.random.default_rng(0)
    rows = []
    for row in range(ROWS):
        mask = np.zeros((SIDE, SIDE), np.uint8)
        boxes = []
        for number, left in enumerate((2, 26), 1):
            x, y = left + rng.integers(4), rng.integers(2, 20)
            width, height = rng.integers(8, 16, 2)
            mask[y : y + height, x : x + width] = number
            boxes.append([x, y, x + width, y + height])
        noise = rng.integers(0, 60, (SIDE, SIDE, 3), np.uint8)
        Pillow.fromarray(np.where(mask[..., None], 255 - noise, noise)).save(f"{folder}/{row}.png")
        Pillow.fromarray(mask).save(f"{folder}/{row}_mask.png")
        names = {"path": f"{folder}/{row}.png", "mask": f"{folder}/{row}_mask.png"}
        rows.append({"id": row, **names, "boxes": boxes, "labels": [1, 2], "kind": row % 2})
    return pd.DataFrame(rows)


def pipeline(**options):
    return A.Compose(
        [
            A.RandomCrop(32, 40),
            A.HorizontalFlip(p=0.5),
            A.Affine(scale=(0.8, 1.2), rotate=(-20, 20), p=0.8),
            A.OneOf([A.RandomBrightnessContrast(), A.GaussNoise(), A.GaussianBlur()], p=0.5),
        ],
        **{"bbox_params": BOXES, **options},
    )


def sequence(df, transform, x=IMAGE, y=(MASK, LABELLED), **options):
    y = list(y) if isinstance(y, tuple) else y
    transform = dfgen.albumentations(transform)
    return dfgen.Sequence(df, x, y, transform=transform, **{"batch_size": 5, **options})


def arrays(seq, epochs=1):
    return [keras.tree.flatten(batch) for _ in range(epochs) for batch in seq]


@pytest.fixture(scope="module")
def one_by_one(scenes):
    with sequence(scenes, pipeline(), workers=0) as seq:
        return arrays(seq, epochs=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"workers": 1}, {"workers": 2}, {"workers": 7}, {"workers": 1, "use_multiprocessing": True}],
    ids=["1 thread", "2 threads", "7 threads", "2 processes"],
)
def test_pixels_are_the_same_from_any_worker(scenes, one_by_one, options):
    with sequence(scenes, pipeline(seed=3), **options) as seq:
        found = arrays(seq, epochs=2)
    for ones, others in zip(one_by_one, found, strict=True):
        for a, b in zip(ones, others, strict=True):
            np.testing.assert_array_equal(a, b)


def test_every_epoch_and_seed_draws_anew(scenes, one_by_one):
    with sequence(scenes, pipeline(), seed=1) as seq:
        found = [*one_by_one, *arrays(seq)]
    sums = [int(x.astype(int).sum()) for batch in found for x in batch[0]]
    assert len(set(sums)) > 0.95 * len(sums)


@pytest.mark.parametrize("format", ["xyxy", "xywh", "rel_xyxy"])
def test_masks_and_boxes_move_with_their_image(scenes, format):
    kept = 0
    steps = [A.RandomCrop(32, 40), A.D4() if format == "xyxy" else A.HorizontalFlip()]
    steps += [A.Resize(32, 40, mask_interpolation=0)]
    boxes = dfgen.Boxes(max_boxes=2, format=format)
    with sequence(scenes, A.Compose(steps, bbox_params=BOXES), y=(MASK, boxes)) as seq:
        for x, (masks, found) in seq:
            for image, mask, where, labels in zip(
                x, masks[..., 0], found["boxes"], found["labels"], strict=True
            ):
                edges = 2 if format == "xyxy" else 0  # resized pixels at them are between both
                assert ((image[..., 0] > 128) != (mask > 0)).mean() < 0.08 * edges + 1e-9
                for label in (1, 2):
                    shown, is_kept = mask == label, labels == label
                    kept += is_kept.sum()
                    assert is_kept.sum() == shown.any()
                    if shown.any():
                        box = xyxy(where[is_kept][0], format)
                        np.testing.assert_allclose(box, around(shown), atol=0.6 * edges + 1e-3)
                assert (where[labels < 0] == -1).all()
    assert ROWS < kept <= 2 * ROWS


def xyxy(box, format):
    if format == "xywh":
        return [*box[:2], *(box[:2] + box[2:])]
    return box * (np.array([40, 32, 40, 32]) if format == "rel_xyxy" else 1)


def around(shown):
    y, x = np.nonzero(shown)
    return [x.min(), y.min(), x.max() + 1, y.max() + 1]


def test_a_box_that_is_lost_takes_its_label_with_it(scenes):
    left = A.Compose([A.Crop(0, 0, 24, 48)], bbox_params=BOXES)
    image = dfgen.Image(size=(48, 24), load_size=(48, 48))
    with sequence(scenes, left, image, LABELLED, shuffle=False) as seq:
        labels = np.concatenate([y["labels"] for _, y in seq])
    np.testing.assert_array_equal(labels, [[1, -1]] * ROWS)


def test_limits_of_bbox_params_apply(scenes):
    none = A.Compose([A.NoOp()], bbox_params=A.BboxParams("coco", min_area=10_000))
    with sequence(scenes, none, dfgen.Image(size=(48, 48)), LABELLED) as seq:
        assert all((y["boxes"] == -1).all() and (y["labels"] == -1).all() for _, y in seq)


def test_rows_without_boxes_pass(scenes):
    empty = scenes.assign(boxes=[[]] * ROWS, labels=[[]] * ROWS)
    with sequence(empty, pipeline(), y=LABELLED) as seq:
        assert all((y["boxes"] == -1).all() for _, y in seq)


def test_transforms_of_a_pipeline_draw_apart_from_each_other(scenes):
    """Albumentations's own seeding would flip both ways or neither."""
    seen = set()

    class Noted(A.ImageOnlyTransform):
        def __init__(self, name):
            super().__init__(p=0.5)
            self.name = name

        def apply(self, image, **params):
            seen.add(self.name)
            return image

    transform = dfgen.albumentations(A.Compose([Noted("one"), Noted("other")]))
    found = set()
    for seed in range(40):
        seen.clear()
        transform({"image": np.zeros((4, 4, 3), np.uint8)}, np.random.default_rng(seed))
        found.add(frozenset(seen))
    assert len(found) == 4


def test_two_images_and_masks_under_names_of_the_users_own(scenes):
    x = {"left": dfgen.Image(size=(48, 48)), "right": dfgen.Image("path", size=(48, 48))}
    y = {"shape": dfgen.Mask("mask", like="right"), "kind": "kind",
         "things": dfgen.Boxes(like="left"), "others": dfgen.Boxes(like="right")}  # fmt: skip
    flips = A.Compose([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5)], bbox_params=BOXES)
    with sequence(scenes, flips, x, y) as seq, dfgen.Sequence(scenes, x, y, batch_size=5) as plain:
        moved = 0
        for (x, y), (x0, y0) in zip(seq, plain, strict=True):
            np.testing.assert_array_equal(x["left"], x["right"])
            np.testing.assert_array_equal(x["left"][..., :1] > 128, y["shape"] > 0)
            np.testing.assert_array_equal(y["things"]["boxes"], y["others"]["boxes"])
            np.testing.assert_array_equal(y["kind"], y0["kind"])
            moved += (x["left"] != x0["left"]).any(axis=(1, 2, 3)).sum()
    assert ROWS / 2 < moved < ROWS


def test_gray_images_and_masks_of_many_classes_keep_their_shapes(scenes):
    x = dfgen.Image(size=(32, 40), load_size=(SIDE, SIDE), color_mode="grayscale")
    with sequence(scenes, pipeline(), x, dfgen.Mask("mask", dtype="int32")) as seq:
        x, y = seq[0]
        assert (x.shape, x.dtype.name) == ((5, 32, 40, 1), "uint8")
        assert (y.shape, y.dtype.name) == ((5, 32, 40, 1), "int32")


def test_a_bare_transform_will_do(scenes):
    with sequence(scenes, A.HorizontalFlip(p=1.0), "path", "kind", image_size=(48, 48)) as seq:
        assert seq[0][0].shape == (5, 48, 48, 3)


def test_it_can_be_called_from_a_transform_of_ones_own(scenes):
    flip = dfgen.albumentations(A.HorizontalFlip(p=1.0))

    def transform(sample, rng):
        return flip(sample, rng) | {"number": np.int32(7)}

    options = {"image_size": (48, 48), "shuffle": False, "batch_size": 5}
    with dfgen.Sequence(scenes, "path", "kind", transform=transform, **options) as seq:
        x, y = seq[0]
    with dfgen.Sequence(scenes, "path", "kind", **options) as plain:
        np.testing.assert_array_equal(x, plain[0][0][:, :, ::-1])
    assert y.tolist() == [7] * 5
    pair = dfgen.albumentations(A.HorizontalFlip(p=1.0))
    made = pair({"image_0": x[0], "image_1": x[1]}, np.random.default_rng(0))
    for place in range(2):
        np.testing.assert_array_equal(made[f"image_{place}"], x[place, :, ::-1])


def test_the_users_pipeline_is_left_as_it_was(scenes):
    theirs = pipeline()
    before = copy.deepcopy(theirs)
    with sequence(scenes, theirs) as seq:
        arrays(seq)
    assert repr(theirs) == repr(before)
    assert theirs.processors["bboxes"].params.label_fields == ["labels"]
    assert theirs.random_generator.random() != 0


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "None"),
        ([A.HorizontalFlip()], "[HorizontalFlip(p=0.5)]"),
        (A.Compose, "the class albumentations.Compose"),
    ],
)
def test_something_else_than_a_pipeline_is_refused(given, shown):
    assert message_of(ArgumentError, dfgen.albumentations, given) == (
        "pipeline must be an albumentations.Compose([...]) of version 2.0.8 or later, got "
        f"{shown}: write dfgen.albumentations(A.Compose([...]))"
    )


@pytest.mark.parametrize(
    ("step", "scale"),
    [
        (A.Normalize(), "((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))"),
        (A.OneOf([A.Normalize(normalization="min_max")]), '"0..1"'),
        (A.ToFloat(), '"0..1"'),
    ],
)
def test_a_pipeline_that_makes_floats_of_whole_numbers_is_told_of_scale(scenes, step, scale):
    name = type(getattr(step, "transforms", [step])[0]).__name__
    with pytest.raises(ArgumentError) as error:
        sequence(scenes, A.Compose([A.HorizontalFlip(), step]), y="kind")
    assert str(error.value) == (
        f"the Albumentations pipeline holds {name}, but images stay whole numbers until scale= "
        f"makes floats of them: leave it out, and write scale={scale}"
    )


def test_a_pipeline_may_normalize_images_that_are_floats(tmp_path):
    path = str(tmp_path / "float.tiff")
    Pillow.fromarray(np.full((4, 4), 0.5, np.float32)).save(path)
    df = pd.DataFrame({"id": [0], "path": path})
    image = dfgen.Image(size=(4, 4), color_mode="grayscale", dtype="float32")
    step = dfgen.albumentations(A.Compose([A.Normalize(0.25, 0.5, max_pixel_value=1)]))
    with dfgen.Sequence(df, image, transform=step, workers=0) as seq:
        assert seq[0][0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("transform", "x", "y", "message"),
    [
        (A.NoOp(), "path", LABELLED, "'boxes' are boxes, which the Albumentations pipeline does "
         'not take: write A.Compose([...], bbox_params=A.BboxParams("pascal_voc"))'),
        (A.NoOp(), "kind", None, "dfgen.albumentations(...) needs an image among x and y; called "
         "from another transform, one that is named image, image_0, ..."),
        (pipeline(), "path", (dfgen.Boxes(), dfgen.Boxes(format="xywh")), "dfgen.albumentations("
         "...) needs all boxes in one format, got {'boxes_0': 'xyxy', 'boxes_1': 'xywh'}"),
    ],
)  # fmt: skip
def test_what_a_pipeline_cannot_take_is_told_at_once(scenes, transform, x, y, message):
    with pytest.raises(ArgumentError) as error:
        sequence(scenes, transform, x, y, **({} if y else {"label_mode": None}))
    assert str(error.value) == message


def test_a_pipeline_draws_the_same_after_it_has_travelled(monkeypatch):
    transform = dfgen.albumentations(pipeline(bbox_params=None))
    pickled = pickle.dumps(transform.of([("image", "image", "")]))
    sample = {"image": np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)}
    for before, after in ((None, "1"), ("0", "0")):
        monkeypatch.delenv("NO_ALBUMENTATIONS_UPDATE", raising=False)
        if before:
            monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", before)
        other = pickle.loads(pickled)
        assert os.environ["NO_ALBUMENTATIONS_UPDATE"] == after
        made = [one(dict(sample), np.random.default_rng(3)) for one in (transform, other)]
        np.testing.assert_array_equal(made[0]["image"], made[1]["image"])
        assert repr(other).startswith("dfgen.albumentations(Compose([")


@pytest.mark.slow
def test_a_worker_process_never_asks_for_a_newer_version(tmp_path):
    transform = dfgen.albumentations(A.Compose([A.HorizontalFlip()]))
    (tmp_path / "pickled").write_bytes(pickle.dumps(transform))
    code = (
        "import pickle, socket; socket.socket.connect = None\n"
        f"transform = pickle.load(open({str(tmp_path / 'pickled')!r}, 'rb'))\n"
        "import sys; print(*sorted({'albumentations', 'pandas', 'keras'} & set(sys.modules)))"
    )
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert run.stdout == "albumentations\n"


def test_dfgen_does_not_import_it():
    code = "import dfgen, sys; dfgen.albumentations; assert 'albumentations' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
