"""The jobs that dfgen exists for, from the files to the trained model."""

import gc
import json
import os
import threading
from pathlib import Path

import annotated
import cv2
import keras
import numpy as np
import pandas as pd
import pytest
from killing import Killer

import dfgen
from dfgen.manifest.table_reading import read_table

IMAGES_OF_COCO = 82_783
PICTURES = 100


class Stopped(Exception):
    pass


class Stopper(Killer):
    """Raises where a Killer kills."""

    def pass_by(self, when, epoch, step):
        if (when, epoch, step) == self.place:
            raise Stopped


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory):
    """Twelve images in two folders of a tree like ImageNet DET's; pixels encode the row."""
    folder = tmp_path_factory.mktemp("imagenet")
    for row in range(12):
        name = f"ILSVRC2013_train_{row // 6}/n{row:05}"
        path = folder / f"Data/{name}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        width, height = ((430, 500), (300, 200))[row % 2]
        shade = np.full((height, width, 3), 20 * row + 10, np.uint8)
        shade[::2] = 0  # so that a standard deviation is there
        assert cv2.imwrite(str(path), shade, [cv2.IMWRITE_JPEG_QUALITY, 100])
        boxes = [
            [],
            [("dog", 1, 1, 200, 100), ("cat", 5, 5, 30, 30)],
            [("dog", 5, 5, 30, 30), ("cat", 1, 1, 200, 100)],
        ][row % 3]
        annotated.xml(folder / f"Annotations/{name}.xml", *boxes, size=(width, height))
    return folder


def sequences(manifest):
    """Training and validation of job B: from the same code."""
    frame = dfgen.read_manifest(manifest)
    image = dfgen.Image(
        "path", size=(482, 415), resize="crop_or_pad", scale="standardize", dtype="float16"
    )
    label = dfgen.Category("label", label_mode="categorical")
    return [
        dfgen.Sequence(
            frame[frame["split"] == split], image, label, batch_size=2, seed=1, shuffle=shuffle
        )
        for split, shuffle in {"train": True, "val": False}.items()
    ]


def classifier():
    keras.utils.set_random_seed(1)
    layers = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3, activation="softmax")]
    model = keras.Sequential(layers)
    model.compile("adam", "categorical_crossentropy", run_eagerly=False, jit_compile=False)
    return model


def test_b_annotations_beside_images_become_one_hot_classes_of_fixed_numbers(imagenet, tmp_path):
    out = tmp_path / "det.parquet"
    dfgen.build_manifest(
        voc=imagenet / "Annotations", images=imagenet / "Data",
        split={"train": 0.75, "val": 0.25}, stratify="label", out=out,
    )  # fmt: skip
    known = read_table(out)[1]["labels"]["label"]["class_names"]
    assert known == ["background", "cat", "dog"]
    train, val = sequences(out)
    assert train.class_names == val.class_names == known
    assert (len(train.manifest), len(val.manifest)) == (9, 3)
    for place, (images, labels) in enumerate(val[i] for i in range(len(val))):
        rows = val.manifest.iloc[2 * place : 2 * place + 2]
        assert (images.shape[1:], images.dtype) == ((482, 415, 3), "float16")
        expected = np.eye(3)[[known.index(name) for name in rows["label"]]]
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_allclose(np.asarray(images, "f4").mean((1, 2, 3)), 0, atol=0.01)
        np.testing.assert_allclose(np.asarray(images, "f4").std((1, 2, 3)), 1, atol=0.01)


@pytest.mark.slow
def test_b_a_run_that_stops_goes_on_where_it_was(imagenet, tmp_path):
    out = tmp_path / "det.parquet"
    dfgen.build_manifest(
        voc=imagenet / "Annotations", images=imagenet / "Data",
        split={"train": 0.75, "val": 0.25}, stratify="label", out=out,
    )  # fmt: skip

    def fit(folder, place=None):
        train, val = sequences(out)
        model, backup = classifier(), dfgen.BackupAndRestore(folder, train, save_freq=1)
        callbacks = [backup, *([Stopper(train, place)] if place else [])]
        model.fit(train, validation_data=val, epochs=2, callbacks=callbacks, verbose=0)
        return model.get_weights(), train.receipt

    weights, receipt = fit(tmp_path / "whole")
    with pytest.raises(Stopped):
        fit(tmp_path / "backup", ("step", 1, 2))
    again, same = fit(tmp_path / "backup")
    assert (same.digest, same.rows, same.missing) == (receipt.digest, 9, 0)
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "count", [828, pytest.param(IMAGES_OF_COCO, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_c_a_list_of_files_behind_a_queue(tmp_path, count):
    folder = tmp_path / "train2014"
    write_pictures(folder, count)
    document = {
        "images": [
            {"id": 3 * row, "file_name": f"{row:012}.png", "width": 8, "height": 6}
            for row in range(count)
        ],
        "categories": [{"id": 90, "name": "cat"}, {"id": 17, "name": "dog"}],
        "annotations": [
            annotated.box(3 * row, (17, 90)[row % 2], 1, 1, 2, 2) for row in range(count)
        ],
    }
    (tmp_path / "instances.json").write_text(json.dumps(document))
    out = tmp_path / "coco.parquet"
    dfgen.build_manifest(coco=tmp_path / "instances.json", images=folder, out=out)
    frame = dfgen.read_manifest(out)
    assert len(frame) == count
    assert not frame["problem"].notna().any()
    of_file = dfgen.Sequence(out, dfgen.Bytes("path"), dfgen.MultiLabel("labels"))
    assert of_file.class_names == ["dog", "cat"]
    frame["number"] = np.arange(count, dtype=np.int32)
    files_come_whole(frame[:20])
    everything_comes_once(frame)
    what_is_left_early_ends(frame)


def write_pictures(folder, count):
    """Write a hundred images, and give them as many names as are needed."""
    folder.mkdir()
    for row in range(PICTURES):
        assert cv2.imwrite(str(folder / f"{row:012}.png"), np.full((6, 8, 3), row, np.uint8))
    for row in range(PICTURES, count):
        os.link(folder / f"{row % PICTURES:012}.png", folder / f"{row:012}.png")


def files_come_whole(frame):
    with dfgen.Sequence(frame, dfgen.Bytes("path"), label_mode=None, shuffle=False) as seq:
        [files] = seq[0]
    assert list(files) == [Path(path).read_bytes() for path in frame["path"]]


def everything_comes_once(frame):
    image = dfgen.Image("path", size=(6, 8))
    y = {"number": "number", "classes": dfgen.MultiLabel("labels")}
    with dfgen.Sequence(frame, image, y, batch_size=256, seed=0, workers=2) as seq:
        assert seq.class_names["classes"] == ["dog", "cat"]  # as in the manifest: by category id
        seen = []
        for images, labels in seq:
            numbers = np.asarray(labels["number"])
            np.testing.assert_array_equal(np.asarray(images)[:, 0, 0, 0], numbers % PICTURES)
            np.testing.assert_array_equal(np.asarray(labels["classes"]), np.eye(2)[numbers % 2])
            seen.append(numbers)
    seen = np.concatenate(seen)
    assert (np.sort(seen) == np.arange(len(frame))).all()
    assert (seen != np.arange(len(frame))).mean() > 0.9  # a full shuffle


def what_is_left_early_ends(frame):
    """Leaving the loop and a bad file end all threads; the error names the row."""
    before = set(threading.enumerate())
    for _ in dfgen.Sequence(frame, label_mode=None, image_size=(6, 8), workers=4):
        break
    gone = Path(frame["path"][50]).with_name("nowhere.png")
    gone.touch()  # until the Sequence has looked for it
    bad = pd.concat([frame[:50], frame[50:51].assign(path=str(gone))])
    name = f"{frame['id'][50]}.*/nowhere.png"
    options = {"label_mode": None, "image_size": (6, 8), "batch_size": 8, "workers": 4}
    with dfgen.Sequence(bad, **options) as seq, pytest.raises(dfgen.DfgenError, match=name):
        gone.unlink()
        list(seq)
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("dfgen-"):
            thread.join(10)
            assert not thread.is_alive()


def test_d_big_sequential_reads_shuffled_in_memory_and_handed_out_in_small_batches(tmp_path):
    """A thirtieth of 89,820 samples of a big array file, training and validation each by itself."""
    count, before = 2_994, set(threading.enumerate())
    numbers = np.arange(count)
    pixels = np.broadcast_to(numbers[:, None, None, None] >> [0, 8, 0], (count, 8, 8, 3))
    np.save(tmp_path / "x.npy", pixels.astype(np.uint8))
    frame = dfgen.build_manifest(arrays=tmp_path / "x.npy", split={"train": 0.8, "val": 0.2})
    frame["number"] = numbers.astype("float32")
    x = dfgen.Image("path", size=(8, 8), index="index")
    seqs = dfgen.sequences(frame, x, "number", window="100KB", seed=0)
    for name, split in frame.groupby("split", observed=True):
        seen = [row for _, labels in seqs[name] for row in np.asarray(labels).astype(int)]
        assert sorted(seen) == split["number"].tolist()
        assert (seen == sorted(seen)) == (name == "val")
        for images, labels in (seqs[name][step] for step in range(0, len(seqs[name]), 9)):
            low, high = np.asarray(images, int)[:, 3, 5, :2].T
            np.testing.assert_array_equal(low + 256 * high, labels)
    layers = [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse", run_eagerly=False, jit_compile=False)
    backup = dfgen.BackupAndRestore(tmp_path / "backup", seqs["train"], save_freq=20)
    stopper = Stopper(seqs["train"], ("step", 0, 33))
    with pytest.raises(Stopped):
        model.fit(seqs["train"], callbacks=[backup, stopper], verbose=0)
    again = dfgen.sequences(frame, x, "number", window="100KB", seed=0)
    backup = dfgen.BackupAndRestore(tmp_path / "backup", again["train"])
    model.fit(again["train"], validation_data=again["val"], callbacks=[backup], verbose=0)
    receipt = again["train"].receipt
    assert (receipt.rows, receipt.missing, receipt.repeated) == (len(again["train"].manifest), 0, 0)
    for seq in (*seqs.values(), *again.values()):
        seq.close()
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("dfgen-"):
            thread.join(10)
            assert not thread.is_alive()
