"""dfgen.sequences: a Sequence for each split, alike in all but chance."""

import inspect
import warnings
from typing import get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from watching import watcher

import dfgen
from dfgen.errors import ArgumentError, ManifestError, UnknownArgumentError
from dfgen.samples.features.chance import without_chance
from dfgen.training.split_sequences import SequenceArguments, TrainArguments

SMALL = {"batch_size": 4, "image_size": (4, 4), "workers": 2}


@pytest.fixture
def split(frame):
    """A manifest of 40 rows with text labels; "val" has one class, and "test" no row."""
    manifest = frame(40).assign(label=["b"] * 30 + ["a"] * 10)
    names = pd.Categorical(["train"] * 28 + ["val"] * 2 + ["train"] * 10, ["train", "val", "test"])
    return manifest.assign(split=names)


def rows_of(seq):
    return [row for step in range(len(seq)) for row in seq.rows(step).tolist()]


def test_arguments_are_those_of_sequence():
    ours = get_type_hints(SequenceArguments)
    theirs = inspect.signature(dfgen.Sequence).parameters
    given = ["manifest", "x", "y", "shuffle", "unknown"]
    assert {*ours} == {*theirs} - {*given}
    hints = get_type_hints(dfgen.Sequence.__init__)
    assert ours == {name: hints[name] for name in ours}
    assert {*get_type_hints(TrainArguments)} < {*ours}


def test_train_alone_is_shuffled_and_class_names_are_those_of_all_rows(split):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dfgen.sequences(split, y="label", **SMALL)
    assert list(found) == ["train", "val"]
    assert found["train"].class_names == found["val"].class_names == ["a", "b"]
    assert sorted(rows_of(found["train"])) == [*range(38)]
    assert rows_of(found["train"]) != [*range(38)]
    assert rows_of(found["val"]) == [0, 1]
    assert found["val"][0][1].tolist() == [1, 1]
    assert found["train"].manifest["id"].tolist() == [*range(28), *range(30, 40)]


@pytest.mark.backend
def test_a_model_trains_and_validates(split):
    model, found = watcher(), dfgen.sequences(split, y="label", **SMALL)
    model.fit(found["train"], validation_data=found["val"], epochs=2, verbose=0)
    assert model.seen("tested") == [28, 29] * 2
    assert sorted(model.seen()) == sorted(2 * [*range(28), *range(30, 40)])


def test_what_chooses_or_weighs_rows_of_training_goes_to_train_alone(split):
    manifest = split.assign(weight=np.r_[np.ones(38), 5.0, 5.0])
    found = dfgen.sequences(
        manifest, y="label", balance="weight", rows_per_epoch=11, drop_remainder=True,
        class_weight="balanced", **SMALL,
    )  # fmt: skip
    assert len(found["train"]) == 2
    assert len(found["train"][0]) == 3
    assert rows_of(found["val"]) == [0, 1]
    assert len(found["val"][0]) == 2


def test_train_has_arguments_of_its_own(split):
    found = dfgen.sequences(
        split, y="label", train={"transform": darken, "batch_size": 2, "seed": 3}, **SMALL
    )
    assert not found["train"][0][0].any()
    assert found["val"][0][0].any()
    assert (len(found["train"][0][0]), found["val"].batch_size) == (2, 4)
    assert found["train"].seed == 3


def darken(sample, rng):
    sample["image"][:] = 0
    return sample


def test_random_crops_and_flips_are_for_train_alone(split):
    image = dfgen.Image(size=(2, 2), load_size=(4, 4), crop="random", flip="horizontal")
    found = dfgen.sequences(split, image, "label", batch_size=4)
    assert found["train"]._binding["image"].feature == image
    assert found["val"]._binding["image"].feature == dfgen.Image(
        size=(2, 2), load_size=(4, 4), crop="center"
    )


@pytest.mark.parametrize(
    ("feature", "still"),
    [
        (dfgen.Image(), dfgen.Image()),
        (dfgen.Image(resize="crop", crop="random"), dfgen.Image(resize="crop", crop="center")),
        (dfgen.Image(flip="horizontal_and_vertical"), dfgen.Image()),
        (dfgen.Image(crop="random_resized", area=(0.5, 1), ratio=(1, 1), flip="horizontal"),
         dfgen.Image(resize="crop")),
        (dfgen.Mask("mask", like="image"), dfgen.Mask("mask", like="image")),
        (dfgen.Audio("path", 8000, 1, start="random"),
         dfgen.Audio("path", 8000, 1, start="center")),
        (dfgen.Number("age"), dfgen.Number("age")),
    ],
    ids=repr,
)  # fmt: skip
def test_what_a_feature_is_without_chance(feature, still):
    assert without_chance(feature) == still
    assert not without_chance(feature).is_random


def test_x_and_y_may_be_nested_and_y_left_out(split):
    found = dfgen.sequences(split, ["path", dfgen.Number("id")], **SMALL)
    (_, number), label = found["val"][0]
    assert number.tolist() == [28, 29]
    assert label.tolist() == [1, 1]
    found = dfgen.sequences(split, {"a": "path"}, {"b": "label"}, **SMALL)
    assert {*found["val"][0][0]} | {*found["val"][0][1]} == {"a", "b"}
    assert len(dfgen.sequences(split, label_mode=None, **SMALL)["val"][0]) == 1


def test_a_split_alone_does_not_choose_the_label(split):
    """In "val" alone the second column looks like an id, so that the first would be the label."""
    manifest = split.assign(row_id=[f"r{row % 30}" for row in range(40)])
    with pytest.raises(ArgumentError, match="several columns could be the label: label, row_id"):
        dfgen.sequences(manifest, **SMALL)


def test_files_and_arrow_tables_are_split_as_frames_are(split, tmp_path):
    dfgen.write_manifest(split, tmp_path / "m.parquet")
    for manifest in (tmp_path / "m.parquet", pa.Table.from_pandas(split)):
        found = dfgen.sequences(manifest, y="label", **SMALL)
        assert found["val"].manifest["id"].tolist() == [28, 29]
        assert found["val"][0][0][:, 0, 0, 0].tolist() == [28, 29]


def test_one_fold_is_for_validation(split):
    manifest = dfgen.split(split, folds=4, stratify="label")
    seen = []
    for fold in range(4):
        found = dfgen.sequences(manifest, y="label", fold=fold, **SMALL)
        val, train = (set(found[name].manifest["id"]) for name in ("val", "train"))
        assert (len(val), train) == (10, {*range(40)} - val)
        seen += val
    assert sorted(seen) == [*range(40)]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"split": None}, {},
         'the manifest has no column "split". Make one: df = dfgen.split(df, {"train": 0.8, '
         '"val": 0.2}), or with folds=5 and then sequences(df, fold=0). Columns: id, path, '
         "label"),
        ({"split": [None, "train"] * 20}, {},
         "20 rows have no split, the first is row 0 (id 0). Give them one, or drop them: "
         "df = df[df['split'].notna()]"),
        ({"split": ["training", "val"] * 20}, {},
         "the column \"split\" holds 'training', 'val': expected one called \"train\", which is "
         'shuffled. Rename it: df["split"].replace("training", "train")'),
        ({"split": 1}, {}, 'the column "split" holds int64, expected names, as "train" and "val"'),
        ({"split": None}, {"fold": 0},
         'fold=0, but the manifest has no column "fold". Make one: df = dfgen.split(df, '
         "folds=5). Columns: id, path, label"),
        ({"fold": 0}, {"fold": 0},
         'fold=0, but the manifest has a column "split" too, whose test rows would be trained '
         'on. Take the rows to train on: df[df.split == "train"].drop(columns="split")'),
        ({"split": None, "fold": 0}, {"fold": 0},
         "every row is in fold 0: none is left to train on"),
        ({"split": None, "fold": [0, 1] * 20}, {"fold": 2},
         "fold=2 is none of the folds of the manifest: 0, 1"),
        ({}, {"shuffle": False},
         'shuffle=False: sequences shuffles the split "train" alone. Leave it out, or make that '
         "Sequence yourself"),
        ({}, {"train": {"image_size": (2, 2)}},
         "train={'image_size': (2, 2)} has 'image_size': expected a dict of arguments that may "
         "differ from split to split, sample_weight, class_weight, balance, rows_per_epoch, "
         "bucket_by, batch_size, seed, drop_remainder, transform, batch_transform, on_error, "
         "workers, use_multiprocessing, max_queue_size, limits, shard, window. Give others to "
         "sequences itself, for all splits"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(split, change, options, message):
    manifest = split
    for name, values in change.items():
        manifest = (
            manifest.drop(columns=name) if values is None else manifest.assign(**{name: values})
        )
    with pytest.raises((ManifestError, ArgumentError)) as caught:
        dfgen.sequences(manifest, y="label", **options)
    assert str(caught.value) == message


def test_an_unknown_argument_is_told_as_sequence_tells_it(split):
    with pytest.raises(UnknownArgumentError, match="image_size="):
        dfgen.sequences(split, y="label", target_size=(2, 2))
