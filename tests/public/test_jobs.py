"""The jobs that dfgen exists for, A to E of JOBS.md, from the files to the first training step."""

import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
from public.leftovers import nothing_left as nothing_left
from public.trees import box, coco, image, images, of_voc, rows_of


def head(names, channels=3):
    """Return a compiled model with a softmax head for each name, and its number of classes."""
    pixels = keras.Input((None, None, channels))
    pooled = keras.layers.GlobalAveragePooling2D()(pixels)
    heads = {
        name: keras.layers.Dense(classes, activation="softmax", name=name)(pooled)
        for name, classes in names.items()
    }
    model = keras.Model(pixels, heads if len(heads) > 1 else heads[next(iter(heads))])
    loss = "sparse_categorical_crossentropy"
    losses = dict.fromkeys(heads, loss) if len(heads) > 1 else loss
    model.compile("sgd", losses, run_eagerly=True)
    return model


def test_a_one_frame_answers_several_questions(tmp_path):
    keys = [461756, 461757, 9, 10, 77, 5, 400]
    folders = [tmp_path / f"imgs/{key % 7}/{key % 3}" for key in keys]
    names = [f"blah_{key}.png" for key in keys]
    paths = [str(image(folders[row] / name, row)) for row, name in enumerate(names)]
    labels = {"bi": [*"dccdcdd"], "multi": [*"wbgwgbg"]}
    frame = pd.DataFrame({"object_id": keys, "path": paths, **labels})
    frame = frame.astype(dict.fromkeys(labels, "category"))
    built = dfgen.build_manifest(
        tmp_path / "imgs", pattern="{_}/{_}/blah_{id}.png", labels=frame.drop(columns="path"),
        on="id=object_id",
    )  # fmt: skip
    assert built.set_index("id")["multi"].to_dict() == dict(
        zip(map(str, keys), frame["multi"], strict=True)
    )
    x = dfgen.Image("path", size=(6, 8), scale="-1..1")
    heads = {"bi": 2, "multi": 3}
    for y in ("bi", "multi", {name: dfgen.Category(name) for name in heads}):
        with dfgen.Sequence(frame, x, y, batch_size=3, id="object_id", seed=1) as seq:
            names = heads if isinstance(y, dict) else {y: heads[y]}
            history = head(names).fit(seq, epochs=2, verbose=0).history["loss"]
            assert len(history) == 2 and np.isfinite(history).all()
            orders = []
            for _ in range(2):
                rows = []
                for pixels, labels in seq:
                    rows += rows_of((np.asarray(pixels) + 1) * 127.5)
                    labels = labels if isinstance(y, dict) else {y: labels}
                    for name in names:
                        classes = sorted(set(frame[name]))
                        expected = [classes.index(frame[name][row]) for row in rows[-len(pixels) :]]
                        assert np.asarray(labels[name]).tolist() == expected
                orders.append(rows)
            assert sorted(orders[0]) == sorted(orders[1]) == [*range(7)]


def cropped(pixels, height=482, width=415):
    """Return pixels cropped or padded around their centre, as TensorFlow does."""
    for axis, size in enumerate((height, width)):
        spare = size - pixels.shape[axis]
        if spare < 0:
            pixels = np.take(pixels, np.arange(size) + (-spare) // 2, axis)
        else:
            edges = [(0, 0)] * 3
            edges[axis] = (spare // 2, spare - spare // 2)
            pixels = np.pad(pixels, edges)
    return pixels


def test_b_annotations_beside_images(tmp_path):
    tree = of_voc(tmp_path)
    sizes = [(430, 500), (300, 201), (415, 482), (500, 90)]
    for row, one in enumerate(tree.rows):
        image(tmp_path / one["path"], row, sizes[row], quality=100, subsampling=0)
    for path in (tmp_path / "xml").rglob("*.xml"):
        path.write_text(path.read_text().replace("<width>40</width><height>30</height>", ""))
    dfgen.build_manifest(**tree.arguments, out=tmp_path / "m.parquet")
    frame = dfgen.read_manifest(tmp_path / "m.parquet")
    size = {"size": (482, 415), "resize": "crop_or_pad"}
    x = dfgen.Image("path", scale="standardize", dtype="float16", **size)
    y = dfgen.Category("label", label_mode="categorical")
    with dfgen.Sequence(frame, x, y, batch_size=3, shuffle=False) as seq:
        assert seq.class_names == ["background", "ant", "cat", "dog"]
        pixels, labels = (np.concatenate([seq[0][i], seq[1][i]]) for i in (0, 1))
    assert pixels.dtype == "float16" and pixels.shape == (4, 482, 415, 3)
    np.testing.assert_array_equal(labels, np.eye(4)[[2, 0, 1, 3]])
    whole = dfgen.Sequence(frame, dfgen.Image(size=None), y, batch_size=1, shuffle=False)
    for row, one in enumerate(tree.rows):
        raw = cropped(np.asarray(whole[row][0][0], float))
        expected = (raw - raw.mean()) / max(raw.std(), raw.size**-0.5)
        np.testing.assert_allclose(pixels[row], expected, atol=0.01)
        assert one["label"] == seq.class_names[labels[row].argmax()]


def test_c_a_list_of_files_behind_a_queue(tmp_path):
    names = [f"{row:012}.png" for row in range(12)]
    images(tmp_path / "train", names, [(8, 6), (10, 5)])
    files = {3 * row: name for row, name in enumerate(names)}
    boxes = [box(3 * row, (17, 90)[row % 2], 1, 1, 2, 2) for row in range(12)]
    path = coco(tmp_path / "c.json", files, boxes, {90: "cat", 17: "dog"}, size=(8, 6))
    document = path.read_text()
    path.write_text(document.replace('"width": 8,', "").replace('"height": 6', '"license": 1'))
    frame = dfgen.build_manifest(coco=path, images=tmp_path / "train")
    x = dfgen.Bytes("path")
    with dfgen.Sequence(frame, x, label_mode=None, batch_size=5, shuffle=False) as seq:
        contents = [content for [batch] in seq for content in batch]
    assert contents == [(tmp_path / "train" / name).read_bytes() for name in names]
    x, y = dfgen.Image("path", size=None), dfgen.MultiLabel("labels")
    options = {"batch_size": 5, "seed": 0, "workers": 2, "max_queue_size": 3}
    with dfgen.Sequence(frame, x, y, drop_remainder=True, **options) as seq:
        assert seq.class_names == ["dog", "cat"] and len(seq) == 2
    with dfgen.Sequence(frame, x, y, **options) as seq:
        rows, shapes = [], set()
        for pixels, labels in seq:
            some = rows_of(pixels)
            np.testing.assert_array_equal(labels, np.eye(2)[np.remainder(some, 2)])
            shapes.add(pixels.shape[1:3])
            rows += some
    assert sorted(rows) == [*range(12)] != rows
    assert shapes <= {(6, 8), (5, 10), (6, 10)}
    with dfgen.Sequence(frame, x, y, **options) as seq:
        next(iter(seq))
    (tmp_path / "train" / names[7]).write_bytes(b"no image")
    with pytest.raises(dfgen.DfgenError, match=names[7]):
        list(dfgen.Sequence(frame, x, y, **options))


def test_d_rows_of_a_big_array_file(tmp_path):
    """Of 1.6 GB, which are shuffled in windows of 1 GB, the first bytes of each row are written."""
    file = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.uint8, (1600, 1 << 20))
    file[:, 0], file[:, 1] = np.divmod(np.arange(1600), 256)
    numbers = np.random.default_rng(0).permutation(1600)
    frame = pd.DataFrame({"id": numbers, "path": f"{tmp_path}/x.npy", "index": numbers})
    frame = dfgen.split(frame.assign(number=numbers), {"train": 0.8, "val": 0.2}, seed=2)
    x = dfgen.Array("path", shape=(1 << 20,), dtype="uint8", index="index")
    seqs = dfgen.sequences(frame, x, "number", batch_size=32, max_queue_size=4, workers=2)
    for name, part in frame.groupby("split", observed=True):
        rows = []
        for arrays, labels in seqs[name]:
            high, low = np.asarray(arrays[:, :2], int).T
            np.testing.assert_array_equal(256 * high + low, labels)
            rows += np.asarray(labels).tolist()
        assert sorted(rows) == sorted(part["number"])
        assert (rows == part["number"].tolist()) == (name == "val")
        early = {*rows[:600]}  # of one window; in a full shuffle, about 225 have their neighbour
        assert name == "val" or sum(row + 1 in early for row in early) > 280
        seqs[name].close()
