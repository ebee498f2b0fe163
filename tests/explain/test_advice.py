"""Messages that say what to write instead: paths, columns, labels, arguments, and speed."""

import os
import re
from unittest.mock import Mock

import pandas as pd
import pytest

import dfgen
from dfgen.errors import ManifestError, MissingFileError, UnknownArgumentError
from dfgen.explain.speed import Waiting, verdict

FILES = (
    "imgs/cat/100.jpg",
    "imgs/cat/100.xml",
    "imgs/a b.png",
    "51.jpg",
    "data/pets/z.jpg",
    "test/masks/1.png",
    "train/masks/1.png",
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("path", "root", "advice"),
    [
        ("file://51.jpg", None, '.str.removeprefix("file://")'),
        ("~/51.jpg", None, ".map(os.path.expanduser)"),
        ("imgs\\cat\\100.jpg", None, r'.str.replace("\\", "/")'),
        (" 51.jpg\n", None, ".str.strip()"),
        ("imgs/cat/100.JPG", None, "'100.jpg', in another case"),
        ("imgs/cat/100.png", None, 'df["path"].str.replace(".png", ".jpg")'),
        ("imgs/cat/100", None, 'df["path"].astype(str) + ".jpg"'),
        ("cat/100.jpg", None, 'root="imgs"'),
        ("imgs/cat/100.jpg", "imgs", 'root="."'),
        ("masks/1.png", None, "give the one of this table as root="),
        ("imgs/dog/800.jpg", None, "has no 'dog', it holds 'a b.png', 'cat'"),
        ("s4://bucket/1.jpg", None, "no store"),
    ],
)
def test_a_path_without_a_file(files, path, root, advice):
    frame = pd.DataFrame({"id": [1, 2], "path": path})
    with pytest.raises(MissingFileError, match=re.escape(advice)):
        dfgen.Sequence(frame, label_mode=None, root=root)


def test_unlistable_folder_does_not_hide_the_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "scandir", Mock(side_effect=PermissionError))
    with pytest.raises(MissingFileError, match="no label table"):
        dfgen.build_manifest(labels="labels.csv", path_column="path")


FRAME = pd.DataFrame(
    {"id": [1, 2], "path": "1.jpg", "kind": pd.Categorical(["cat", "dog"]), "weight ": 1.0}
)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"y": "kid"}, 'Did you mean "kind"'), ({"y": "kind,path"}, "['kind', 'path']"),
        ({"y": "weight"}, "df.columns.str.strip()"), ({"x": "1.jpg"}, 'x="path"'),
        ({"y": "kind", "id": "row"}, "Columns: id, path"),
    ],
    ids=str,
)  # fmt: skip
def test_a_name_that_is_no_column(arguments, advice):
    with pytest.raises((ManifestError, TypeError, ValueError), match=re.escape(advice)):
        dfgen.Sequence(FRAME, **arguments)


LABELS = {
    "lists as text": ["['cat', 'dog']", "[]"] * 2,
    "missing values as text": ["cat", "nan", "dog", "cat"],
    "case": ["cat", "Cat", "dog", "dog"],
    "many classes": [f"{number}.5" for number in range(30)],
    "several labels": ["cat", "cat,dog", "dog,cat", "dog"],
    "vectors": [[0, 1, 0], [1, 0, 0]],
}
ADVICE = {
    "missing values as text": "isin(['nan'])",
    "case": "'cat', 'Cat'", "many classes": "pd.to_numeric", "several labels": 'sep=","',
    "vectors": "dfgen.Column('label', np.array, shape=(3,))",
}  # fmt: skip


@pytest.mark.parametrize("case", LABELS)
def test_suspicious_labels(case):
    labels = LABELS[case]
    frame = pd.DataFrame({"id": range(len(labels)), "size": 1.0, "label": labels})
    target = dfgen.MultiLabel("label") if case == "vectors" else "label"
    if case == "lists as text":
        with pytest.raises(ManifestError, match="literal_eval"):
            dfgen.Sequence(frame, "size", target)
        return
    with pytest.warns(UserWarning) as warned:
        seq = dfgen.Sequence(frame, "size", target)
    assert any(ADVICE[case] in str(warning.message) for warning in warned)
    if case != "vectors":
        dfgen.Sequence(frame, "size", target, class_names=seq.class_names)  # without a warning


def test_a_blank_label_is_rejected():
    frame = pd.DataFrame({"id": range(3), "size": 1.0, "label": ["cat", " ", "dog"]})
    with pytest.raises(ManifestError, match="blank class ' ' in 1 rows"):
        dfgen.Sequence(frame, "size", "label")


def test_an_infinite_target():
    frame = pd.DataFrame({"id": range(3), "size": 1.0, "age": [1, float("inf"), 3]})
    with pytest.warns(UserWarning, match="NaN"):
        dfgen.Sequence(frame, "size", "age")


@pytest.mark.parametrize(
    ("function", "argument", "advice"),
    [
        (dfgen.Sequence, "target_size", "image_size=(height, width)"),
        (dfgen.Sequence, "num_workers", "workers="), (dfgen.Sequence, "flip", "dfgen.Image(..."),
        (dfgen.Sequence, "validation_split", "dfgen.split"),
        (dfgen.Sequence, "batchsize", 'Did you mean "batch_size"'),
        (dfgen.Sequence, "qqq", "leave it out"),
        (dfgen.build_manifest, "batch_size", "dfgen.Sequence"),
        (dfgen.build_manifest, "x_col", "path_column="),
    ],
)  # fmt: skip
def test_an_argument_of_another_library(function, argument, advice):
    with pytest.raises(UnknownArgumentError, match=re.escape(advice)):
        function(FRAME, **{argument: 3})


def waiting(waited=80.0, steps=100.0, workers=2, consumer_wait=None, **given):
    stages = ("read", "decode", "resize", "transform", "scale", "batch_transform", "table")
    seconds = {stage: float(given.pop(stage, 0)) for stage in stages}
    seconds["consumer_wait"] = waited if consumer_wait is None else consumer_wait
    return Waiting(waited, steps, seconds, workers=workers, **{"cpus": 2, **given})


@pytest.mark.parametrize(
    ("measured", "advice"),
    [
        (waiting(2.8, decode=190), "2.8% of the time (2.8 of 100.0 s): nothing to gain."),
        (waiting(0.6, 2, decode=4), "too short for advice."),
        (waiting(decode=150, read=45), 'decode 77%, read 23%. Try cache="folder", or a pack'),
        (waiting(read=180, decode=18), "Try more workers than CPUs, a pack, or a faster disk."),
        (waiting(transform=195), "Try use_multiprocessing=True, or layers in the model."),
        (waiting(transform=195, processes=True), "2 processes were busy 98% of it: transform "
         "100%. Try layers in the model."),
        (waiting(decode=100, workers=1), "Try workers=2 (the number of CPUs) or use_multi"),
        (waiting(decode=90, workers=0), "The calling thread (workers=0) was busy 90%"),
        (waiting(20, decode=100), "Try max_queue_size=40"),
        (waiting(20, decode=100, depth=2), "Limits(memory=...): now it allows 2 batches"),
        (waiting(40, table=3, batches=10_000, consumer_wait=1), "Try larger batches: the hand-over "
         "took 4.0 ms a batch"),
        (waiting(2, read=20, start=30, began="epoch"), "after 30.0 s in its first epoch: nothing"),
    ],
    ids=range(12),
)  # fmt: skip
def test_the_verdict_on_speed(measured, advice):
    assert advice in verdict(measured)
