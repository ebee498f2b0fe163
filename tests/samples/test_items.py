"""Several files in one row: (items, height, width, channels), of one length or padded."""

from pathlib import Path

import cv2
import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from messages import message_of
from watching import EAGER

import dfgen
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DecodeError, ManifestError, TransformError
from dfgen.samples.features.array import Array
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask

ROWS, ITEMS, SIZE = 8, 3, (10, 14)
RANDOM = {"size": SIZE, "resize": "crop_or_pad", "crop": "random", "flip": "horizontal"}
COUNTS = [1 + row % ITEMS for row in range(ROWS)]


def pixels_of(row, item):
    """Each pixel tells its row, item and place."""
    down, across = np.mgrid[:16, :20]
    return np.stack([np.full_like(down, 10 * row + item), down, across], -1).astype(np.uint8)


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    folder = tmp_path_factory.mktemp("items")
    rows = []
    for row in range(ROWS):
        names = {"frames": [], "masks": []}
        for item in range(ITEMS):
            pixels = pixels_of(row, item)
            for name, values in (("frames", pixels[..., ::-1]), ("masks", pixels[..., 2])):
                names[name].append(f"{folder}/{name}_{row}_{item}.png")
                cv2.imwrite(names[name][-1], values)
        some = {name[:-1]: paths[: COUNTS[row]] for name, paths in names.items()}
        rows.append({"id": f"row {row}", **names, **some, "y": row % 2})
        rows[-1]["first"] = names["frames"][0]
    return pd.DataFrame(rows)


def sequence(frame, x, y="y", **options):
    options = {"batch_size": 4, "workers": 2, "shuffle": False, **options}
    return dfgen.Sequence(frame, x, y, **options)


def batch(frame, x, y="y", step=0, **options):
    with sequence(frame, x, y, **options) as seq:
        return seq[step]


# Lists of one length


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {}, {"workers": 1, "use_multiprocessing": True}], ids=str
)
def test_the_images_of_a_list_are_one_array(frame, options):
    x, y = batch(frame, Image("frames", size=(16, 20)), **options)
    assert (x.shape, x.dtype) == ((4, ITEMS, 16, 20, 3), np.uint8)
    for row in range(4):
        for item in range(ITEMS):
            np.testing.assert_array_equal(x[row, item], pixels_of(row, item))
    np.testing.assert_array_equal(y, [0, 1, 0, 1])


def test_chance_decides_once_for_all_items_of_a_row(frame):
    seen = set()
    with sequence(frame, Image("frames", **RANDOM), seed=3) as seq:
        for x, _ in (seq[0], seq[1]):
            np.testing.assert_array_equal(x[:, :1, ..., 1:].repeat(ITEMS, 1), x[..., 1:])
            np.testing.assert_array_equal(x[:, :, 0, 0, 0] % 10, [[0, 1, 2]] * 4)
            seen |= {row[0, ..., 1:].tobytes() for row in x}
    assert len(seen) > 5


TABLES = {
    "arrays": lambda df: df.assign(frames=df["frames"].map(np.array)),
    "tuples of paths": lambda df: df.assign(frames=[(*map(Path, p),) for p in df["frames"]]),
    "Arrow": lambda df: df.astype({"frames": pd.ArrowDtype(pa.list_(pa.string()))}),
    "Arrow of fixed size": lambda df: pa.Table.from_pandas(df).set_column(
        1, "frames", pa.array(df["frames"].tolist(), pa.list_(pa.string(), ITEMS))
    ),
    "a slice": lambda df: pa.Table.from_pandas(pd.concat([df, df])).slice(ROWS),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_lists_of_every_table(frame, table):
    x, _ = batch(table(frame), Image("frames", size=(16, 20)), step=1)
    np.testing.assert_array_equal(x[3, 2], pixels_of(7, 2))


def test_a_bare_name_of_lists_of_images_is_an_image(frame):
    x, _ = batch(frame, "frames", image_size=(8, 8), color_mode="grayscale", scale="0..1")
    assert (x.shape, x.dtype) == ((4, ITEMS, 8, 8, 1), np.float32)
    renamed = frame.drop(columns="first").rename(columns={"frames": "path"})
    x, _ = batch(renamed, "path", image_size=(8, 8))
    assert x.shape == (4, ITEMS, 8, 8, 3)


def test_lists_of_text_stay_labels(frame):
    tagged = frame.assign(tags=[["a", "b"], ["b"]] * 4)
    with pytest.warns(UserWarning, match="column 'tags' is not categorical"):
        x, y = batch(tagged, {"image": Image("first"), "tags": "tags"}, "tags")
    assert x["tags"].shape == y.shape == (4, 2)


@pytest.mark.parametrize("is_relative", [False, True])
def test_relative_paths_begin_at_the_root(frame, monkeypatch, is_relative):
    folder = Path(frame["frames"][0][0]).parent
    monkeypatch.chdir(folder.parent)
    root = folder.name if is_relative else folder
    short = frame.assign(frames=frame["frames"].map(lambda paths: [Path(p).name for p in paths]))
    x, _ = batch(short, Image("frames", size=(16, 20)), root=root)
    np.testing.assert_array_equal(x[3, 2], pixels_of(3, 2))
    pairs = zip(short["frames"], frame["frames"], strict=True)
    mixed = short.assign(frames=[[*relative[:1], *absolute[1:]] for relative, absolute in pairs])
    x, _ = batch(mixed, Image("frames", size=(16, 20)), root=root)
    np.testing.assert_array_equal(x[3, 2], pixels_of(3, 2))


def test_items_of_different_sizes_are_each_placed_by_their_own(tmp_path):
    paths = [str(tmp_path / f"{item}.png") for item in range(2)]
    cv2.imwrite(paths[0], np.full((4, 8, 3), 50, np.uint8))
    cv2.imwrite(paths[1], np.full((8, 4, 3), 90, np.uint8))
    masks = [path.replace(".png", "_mask.png") for path in paths]
    cv2.imwrite(masks[0], np.full((4, 8), 5, np.uint8))
    cv2.imwrite(masks[1], np.full((8, 4), 9, np.uint8))
    one = pd.DataFrame([{"id": 0, "frames": paths, "masks": masks}])
    x, y = batch(one, Image("frames", (8, 8), resize="pad"), Mask("masks", fill_value=255))
    np.testing.assert_array_equal(x[0, :, 4, 4, 0], [50, 90])
    np.testing.assert_array_equal(x[0, :, 0, 4, 0], [0, 90])
    np.testing.assert_array_equal(y[0, :, 0, 4, 0], [255, 9])
    np.testing.assert_array_equal(y[0, :, 4, 0, 0], [5, 255])


# Lists of different lengths


def test_lists_are_padded_to_the_longest_of_their_batch(frame):
    x = Image("frame", size=(16, 20), max_items=5)
    for rows in ([0, 3], [0, 1, 3, 4], [2, 5]):
        given, _ = batch(frame.iloc[rows], x, batch_size=len(rows))
        longest = max(COUNTS[row] for row in rows)
        assert given["images"].shape == (len(rows), longest, 16, 20, 3)
        for place, row in enumerate(rows):
            mask = np.arange(longest) < COUNTS[row]
            np.testing.assert_array_equal(given["items_mask"][place], mask)
            assert given["items_mask"].dtype == np.bool_
            for item in range(longest):
                expected = pixels_of(row, item) if mask[item] else 0 * pixels_of(0, 0)
                np.testing.assert_array_equal(given["images"][place, item], expected)


def test_every_host_pads_to_the_longest_list_of_all_hosts(frame):
    found = []
    for index in (0, 1):
        x, _, _ = batch(frame, Image("frame", SIZE, max_items=3), batch_size=2, shard=(index, 2))
        found.append(x["items_mask"])
    assert [mask.tolist() for mask in found] == [[[True, False]], [[True, True]]]


def test_what_stands_behind_is_zero_after_scaling_too(frame):
    x, _ = batch(frame, Image("frame", SIZE, max_items=3, scale="-1..1"))
    assert not x["images"][~x["items_mask"]].any() and x["images"][0, 0].min() < -0.9


def test_element_spec_leaves_the_number_of_items_open(frame):
    with sequence(frame, Image("frame", SIZE, max_items=3)) as seq:
        x, _ = seq.element_spec
        assert "; image ?x10x14x3 uint8, image_items_mask ? bool, number scalar" in repr(seq)
    assert (x["images"].shape, x["items_mask"].shape) == ((None, None, 10, 14, 3), (None, None))


def test_a_skipped_row_is_zeros_that_all_count_as_items(frame):
    gone = frame.assign(frame=[["gone.png"], *frame["frame"][1:]])
    x, _, weights = batch(gone, Image("frame", SIZE, max_items=3), on_error="skip")
    assert not x["images"][0].any() and x["items_mask"][0].all()
    assert weights[0] == 0 and weights[1] > 1


# What goes with a list


def test_images_and_masks_follow_item_by_item(frame):
    y = {"masks": Mask("masks"), "gray": Image("frames", like="frames", color_mode="grayscale")}
    x, y = batch(frame, Image("frames", **RANDOM), y)
    np.testing.assert_array_equal(x[..., 2:], y["masks"])
    assert y["gray"].shape == (4, ITEMS, 10, 14, 1)


def test_what_follows_padded_lists_is_padded_alike(frame):
    masks = Mask("mask", fill_value=255)
    x, y = batch(frame, Image("frame", **RANDOM, max_items=3), masks)
    inside = x["items_mask"]
    np.testing.assert_array_equal(x["images"][inside][..., 2:], y[inside])
    assert (y[~inside] == 255).all()


def test_a_transform_sees_all_items_in_one_array(frame):
    def crop(sample, rng):
        assert sample["image"].shape[1:] == (16, 20, 3)
        return {**sample, "image": sample["image"][:, 3:13, 3:17]}

    image = Image("frame", SIZE, load_size=(16, 20), max_items=3)
    x, _ = batch(frame, image, transform=crop)
    np.testing.assert_array_equal(x["images"][1, 1], pixels_of(1, 1)[3:13, 3:17])
    with pytest.raises(TransformError) as error:
        batch(frame, image, transform=lambda s, rng: {**s, "image": s["image"][:0, :10, :14]})
    assert str(error.value) == (
        f"row id='row 0', frame=[{frame['frame'][0][0]!r}]: the transform returned 0 items of "
        "'frame', expected 1"
    )


def test_albumentations_moves_all_items_alike(frame):
    A = pytest.importorskip("albumentations")
    pipeline = A.Compose([A.RandomCrop(*SIZE), A.HorizontalFlip(), A.VerticalFlip()])
    x, y = Image("frames", SIZE, load_size=(16, 20)), Mask("masks")
    x, y = batch(frame, x, y, transform=dfgen.albumentations(pipeline))
    np.testing.assert_array_equal(x[..., 2:], y)
    np.testing.assert_array_equal(x[:, :1, ..., 1:].repeat(ITEMS, 1), x[..., 1:])
    assert len({row.tobytes() for row in x[:, 0, ..., 1:]}) > 2


def test_depths_of_files_that_tell_their_own(tmp_path, frame):
    paths = [str(tmp_path / f"{item}.png") for item in range(2)]
    for item, path in enumerate(paths):
        cv2.imwrite(path, np.full((*SIZE, 3), 1000 * (item + 1), np.uint16))
    deep = pd.DataFrame([{"id": 0, "frames": paths}])
    image = Image("frames", SIZE, dtype="float32")
    found = batch(deep, image, None, label_mode=None)[0]
    np.testing.assert_array_equal(found[0, :, 0, 0, 0], [1000, 2000])
    mixed = deep.assign(frames=[[paths[0], frame["first"][0]]])
    assert message_of(DecodeError, batch, mixed, image, None, label_mode=None) == (
        f"row id=0, frames=[{paths[0]!r}, ... 2 files]: {frame['first'][0]!r}, item 1 of its list: "
        "the files of this row are of different depths: uint16 and uint8"
    )


def test_bytes_in_lists_are_files_too(frame):
    data = [[{"bytes": Path(p).read_bytes(), "path": None} for p in row] for row in frame["frames"]]
    x, _ = batch(frame.assign(frames=data), Image("frames", size=(16, 20)))
    np.testing.assert_array_equal(x[3, 2], pixels_of(3, 2))
    plain = [[entry["bytes"] for entry in row] for row in data]
    x, _ = batch(
        pa.table({"id": frame["id"], "frames": plain, "y": frame["y"]}), Image("frames", SIZE)
    )
    assert x.shape == (4, ITEMS, *SIZE, 3)
    data[0][1]["bytes"] = b"no image"
    with pytest.raises(
        DecodeError, match=r"frames=\[\([\d,]+ bytes\), ... 3 files\]: \(8 bytes\), item 1 of"
    ):
        batch(frame.assign(frames=data), Image("frames"))


def test_targets_may_be_missing(frame):
    masks = [None, *frame["mask"][1:]]
    y = Mask("mask", like="frame", missing="ignore")
    _, y, weights = batch(frame.assign(mask=masks), Image("frame", SIZE, max_items=3), y)
    assert y.shape == (4, 3, *SIZE, 1) and not y[0].any() and y[1, :2].any((1, 2, 3)).all()
    assert weights[:, 0, 0, 0].tolist() == [0, 1, 1, 1]


# By hand, and for serving


def test_a_served_row_is_what_training_saw(frame):
    with sequence(frame, Image("frame", SIZE, scale="0..1", max_items=3)) as seq:
        (x, _), preprocessing = seq[0], seq.preprocessing()
    saved = type(preprocessing).from_json(preprocessing.to_json())
    files = {"frame": [Path(path).read_bytes() for path in frame["frame"][1]]}
    pixels = {"frame": [pixels_of(1, 0), pixels_of(1, 1)]}
    for row in (frame.iloc[1], files, pixels):
        served = saved(row)
        np.testing.assert_array_equal(served["images"][0], x["images"][1, :2])
        assert served["items_mask"].tolist() == [[True, True]]
    together = saved(frame.iloc[:4])
    np.testing.assert_array_equal(together["images"], x["images"])


def test_one_row_by_hand(frame):
    row = frame.iloc[2]
    image = Image("frames", **RANDOM)
    found, masks = (f(row, np.random.default_rng(1)) for f in (image, Mask("masks", like=image)))
    assert found.shape == (ITEMS, 10, 14, 3)
    np.testing.assert_array_equal(found[..., 2:], masks)
    np.testing.assert_array_equal(found[:1, ..., 1:].repeat(ITEMS, 0), found[..., 1:])
    rng = np.random.default_rng(1)
    assert len({image(row, rng).tobytes() for _ in range(6)}) > 2
    assert Image("frame", SIZE, max_items=3)(row).shape == (3, 10, 14, 3)


@pytest.mark.parametrize(
    ("row", "feature", "message"),
    [
        ({"a": []}, Image("a"), "expected 1 files in a list of ['a'], got 0"),
        ({"a": ["x"] * 3}, Image("a", max_items=2),
         "expected 1 to max_items=2 files in a list of ['a'], got 3"),
        ({"a": ["x"], "b": ["x", "y"]}, Mask("b", like=Image("a")),
         "expected as many files in each list of a row, got 'b' 2, 'a' 1"),
        ({"a": "x", "b": ["x", "y"]}, Mask("b", like=Image("a")),
         "expected as many files in each list of a row, got 'b' 2, 'a' no list"),
        ({"a": ["x"]}, Image("a", size=None),
         "Image(column='a', size=None): the images of a list make one array, so give a size"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_by_hand(row, feature, message):
    assert message_of(ArgumentError, feature, row) == message


# What is refused

OTHERS = [["a"] * 3] * (ROWS - 2)


@pytest.mark.parametrize(
    ("column", "image", "message"),
    [
        ([["a"] * 3, *OTHERS, ["a"] * 4], Image("frames"),
         "column 'frames' of row id='row 7' has a list of 4 paths, the first row one of 3 (1 such "
         "rows): for lists of different lengths write dfgen.Image('frames', max_items=4)"),
        ([["a"] * 3, *OTHERS, ["a"] * 4], Image("frames", max_items=3),
         "column 'frames' of row id='row 7' has a list of 4 paths, more than max_items=3 (1 such "
         "rows): write dfgen.Image('frames', max_items=4)"),
        ([["a"] * 3, *OTHERS, []], Image("frames", max_items=3),
         "column 'frames' of row id='row 7' has no paths (1 such rows): drop them, df = "
         "df[df['frames'].str.len() > 0]"),
        ([[], *OTHERS, None], Image("frames"),
         "column 'frames' of row id='row 0' has no paths (2 such rows): drop them, df = "
         "df[df['frames'].str.len() > 0]"),
        ([["a"] * 3, [None, "a", "b"], *OTHERS], Image("frames"),
         "column 'frames' of row id='row 1' has a list of 3 paths, some of them missing (1 such "
         "rows): leave these out"),
        ([[1]] * ROWS, Image("frames"),
         "column 'frames' holds list<item: int64>, expected paths of files"),
    ],
)  # fmt: skip
def test_lists_that_cannot_be(frame, column, image, message):
    assert message_of(ManifestError, sequence, frame.assign(frames=column), image) == message


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (Image("frames"), Mask("mask"), ManifestError,
         "column 'mask' of row id='row 0' has a list of 1 paths, column 'frames' one of 3 (6 such "
         "rows): give both as many"),
        (Image("frames"), Mask("first"), ManifestError,
         "column 'first' goes with 'frames', but only 'frames' holds a list of files in each row: "
         "give both a list, or both one file"),
        (Image("first"), Mask("masks"), ManifestError,
         "column 'masks' goes with 'first', but only 'masks' holds a list of files in each row: "
         "give both a list, or both one file"),
        (Image("frames"), Boxes(class_names=("a",)), ManifestError,
         "column 'boxes' goes with 'frames', but only 'frames' holds a list of files in each row: "
         "give both a list, or both one file"),
        (Image("frames", size=None), "y", ArgumentError,
         "Image('frames') is of images that keep their own sizes, size=None, but the column holds "
         "a list of files, whose images make one array: give a size"),
        (Image("first", max_items=3), "y", ArgumentError,
         "Image('first') has max_items=3, which is for a list of files in each row, but the column "
         "holds large_string: leave it out"),
        (Array("frames", shape=(2,)), "y", ArgumentError,
         "Array('frames') takes one file in each row, but the column holds a list of files: lists "
         "are for dfgen.Image and dfgen.Mask. Give each file a row, df.explode('frames')"),
    ],
)  # fmt: skip
def test_features_that_do_not_go_together(frame, x, y, error, message):
    frame = frame.assign(boxes=[[[0, 0, 1, 1]]] * ROWS, labels=[["a"]] * ROWS)
    assert message_of(error, sequence, frame, x, y) == message


def test_max_items_is_a_number():
    with pytest.raises(ArgumentError) as error:
        Image("frames", max_items=0)
    assert str(error.value) == "max_items=0 is not a whole number of 1 or more"
    with pytest.raises(ArgumentError, match="has max_items=2, which the image that it follows"):
        Image("frames", like="other", max_items=2)


def test_an_error_of_one_file_names_it(frame):
    paths = frame["frames"][0]
    broken = frame.assign(frames=[[*paths[:2], "gone.png"], *frame["frames"][1:]])
    assert message_of(dfgen.DfgenError, batch, broken, Image("frames")) == (
        f"row id='row 0', frames=[{paths[0]!r}, ... 3 files]: 'gone.png', item 2 of its list: the "
        "file does not exist"
    )


def test_lists_tell_no_rows_apart(frame):
    assert message_of(ManifestError, sequence, frame.drop(columns="id"), Image("frames")) == (
        "the manifest has no column 'id' (columns: frames, masks, frame, mask, y, first). Name the "
        'column that tells the rows apart: id="object_id", or number them, '
        'df["id"] = range(len(df))'
    )
    with sequence(frame.drop(columns="id"), Image("frames"), id="first") as seq:
        assert seq[0][0].shape[0] == 4


# Keras


def bag_model(items_mask):
    layers = keras.layers
    images = keras.Input((None, *SIZE, 3), name="images")
    features = layers.Conv3D(4, (1, 3, 3), activation="relu")(images)  # of each item alone
    features = keras.ops.mean(features, axis=(2, 3))
    if not items_mask:
        return keras.Model(images, layers.Dense(2)(keras.ops.mean(features, axis=1)))
    mask = keras.Input((None,), dtype="bool", name="items_mask")
    pooled = layers.GlobalAveragePooling1D()(features, mask=mask)
    return keras.Model({"images": images, "items_mask": mask}, layers.Dense(2)(pooled))


@pytest.mark.backend
@pytest.mark.parametrize("padded", [False, True])
def test_a_model_learns_of_lists(frame, padded):
    model = bag_model(padded)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=EAGER)
    column, most = ("frame", 3) if padded else ("frames", None)
    x = Image(column, **RANDOM, scale="0..1", max_items=most)
    with sequence(frame, x, shuffle=True) as seq:
        history = model.fit(seq, epochs=2, verbose=0)
        assert (seq.receipt.rows, seq.receipt.repeated) == (ROWS, 0)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.backend
def test_the_mask_keeps_padding_out_of_what_a_model_makes(frame):
    model, x = bag_model(True), Image("frame", SIZE, scale="0..1", max_items=3)
    with sequence(frame, x, None, label_mode=None) as seq:
        together = model.predict(seq, verbose=0)
    with sequence(frame, x, None, label_mode=None, batch_size=1) as seq:
        alone = model.predict(seq, verbose=0)
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.backend
def test_lists_follow_the_image_data_format(frame):
    keras.config.set_image_data_format("channels_first")
    try:
        with sequence(frame, Image("frame", SIZE, max_items=3), Mask("mask")) as seq:
            x, y = seq[0]
            assert seq.element_spec[0]["images"].shape == (None, None, 3, *SIZE)
    finally:
        keras.config.set_image_data_format("channels_last")
    assert (x["images"].shape, y.shape) == ((4, 3, 3, *SIZE), (4, 3, 1, *SIZE))
    assert x["images"].flags["C_CONTIGUOUS"]
    last, _ = batch(frame, Image("frame", SIZE, max_items=3))
    np.testing.assert_array_equal(x["images"][1, 1, 1], last["images"][1, 1, ..., 1])


@pytest.mark.backend
def test_masks_of_lists_are_learnt_with_weights(frame):
    layers = keras.layers
    inputs = keras.Input((ITEMS, *SIZE, 3))
    model = keras.Model(inputs, layers.TimeDistributed(layers.Conv2D(32, 1))(inputs))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    weighted = frame.assign(weight=1.0)
    x = Image("frames", SIZE, scale="0..1")
    with sequence(weighted, x, Mask("masks"), sample_weight="weight") as seq:
        assert seq[0][2].shape == (4, 1, 1, 1)
        assert np.isfinite(model.evaluate(seq, verbose=0))


def test_lists_of_files_are_no_rows_of_array_files():
    frame = pd.DataFrame({"id": [1], "path": [["a.npy", "b.npy"]], "row": [0]})
    with pytest.raises(ArgumentError) as error:
        bind(frame, Image(size=(4, 4), index="row"), "id")
    assert str(error.value) == (
        "index='row' is for rows of array files, but column 'path' holds lists of files in each "
        "row: leave it out"
    )
