"""dfgen.sequences, beyond its public tests: a Sequence for each split."""

import warnings

import pandas as pd
import pyarrow as pa
import pytest
from watching import watcher

import dfgen
from dfgen.errors import ArgumentError, ManifestError, UnknownArgumentError

SMALL = {"batch_size": 4, "image_size": (4, 4), "workers": 2}


@pytest.fixture
def split(frame):
    """A manifest of 40 rows with text labels; "val" has one class, and "test" no row."""
    manifest = frame(40).assign(label=["b"] * 30 + ["a"] * 10)
    names = pd.Categorical(["train"] * 28 + ["val"] * 2 + ["train"] * 10, ["train", "val", "test"])
    return manifest.assign(split=names)


def rows_of(seq):
    return [row for step in range(len(seq)) for row in seq.rows(step).tolist()]


@pytest.mark.backend
def test_a_model_trains_and_validates(split):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        seqs = dfgen.sequences(split, y="label", **SMALL)
    model = watcher()
    model.fit(seqs["train"], validation_data=seqs["val"], epochs=2, verbose=0)
    assert model.seen("tested") == [28, 29] * 2
    assert sorted(model.seen()) == sorted(2 * [*range(28), *range(30, 40)])


def test_training_row_options_apply_to_train_only(split):
    manifest = split.assign(key=split["label"].astype("category"))
    seqs = dfgen.sequences(
        manifest, y="label", balance="key", drop_remainder=True, class_weight="balanced", **SMALL
    )
    assert len(seqs["train"][0]) == 3
    assert rows_of(seqs["val"]) == [0, 1]
    assert len(seqs["val"][0]) == 2


def test_nested_x_and_y_and_omitted_y_work(split):
    seqs = dfgen.sequences(split, ["path", dfgen.Number("id")], **SMALL)
    (_, number), label = seqs["val"][0]
    assert number.tolist() == [28, 29]
    assert label.tolist() == [1, 1]
    seqs = dfgen.sequences(split, {"a": "path"}, {"b": "label"}, **SMALL)
    assert {*seqs["val"][0][0]} | {*seqs["val"][0][1]} == {"a", "b"}
    assert len(dfgen.sequences(split, label_mode=None, **SMALL)["val"][0]) == 1


def test_a_split_alone_does_not_choose_the_label(split):
    """In "val" alone the second column looks like an id, so that the first would be the label."""
    manifest = split.assign(row_id=[f"r{row % 30}" for row in range(40)])
    with pytest.raises(ArgumentError, match="label, row_id"):
        dfgen.sequences(manifest, **SMALL)


def test_arrow_tables_are_split_as_frames_are(split):
    seqs = dfgen.sequences(pa.Table.from_pandas(split), y="label", **SMALL)
    assert seqs["val"].manifest["id"].tolist() == [28, 29]
    assert seqs["val"][0][0][:, 0, 0, 0].tolist() == [28, 29]


@pytest.mark.parametrize(
    ("change", "options", "word"),
    [
        ({"split": None}, {}, 'no column "split"'),
        ({"split": [None, "train"] * 20}, {}, "no split in 20 rows"),
        ({"split": ["training", "val"] * 20}, {}, "'training', 'val'"),
        ({"split": 1}, {}, "int64"),
        ({"split": None}, {"fold": 0}, 'no column "fold"'),
        ({"fold": 0}, {"fold": 0}, "also has"),
        ({"split": None, "fold": 0}, {"fold": 0}, "every row is in fold 0"),
        ({"split": None, "fold": [0, 1] * 20}, {"fold": 2}, "fold=2"),
        ({}, {"shuffle": False}, "shuffle="),
        ({}, {"train": {"image_size": (2, 2)}}, "image_size="),
        ({}, {"train": {"class_names": ["a", "b"]}}, "class_names="),
    ],
)
def test_wrong_splits_and_arguments_are_refused(split, change, options, word):
    manifest = split
    for name, values in change.items():
        manifest = (
            manifest.drop(columns=name) if values is None else manifest.assign(**{name: values})
        )
    with pytest.raises((ManifestError, ArgumentError), match=word):
        dfgen.sequences(manifest, y="label", **options)


@pytest.mark.parametrize("options", [{"target_size": (2, 2)}, {"train": {"target_size": (2, 2)}}])
def test_unknown_arguments_are_refused(split, options):
    with pytest.raises(UnknownArgumentError, match="image_size="):
        dfgen.sequences(split, y="label", **options)
