"""Binding: a frame, x and y to all that a Loader needs, in a process without Keras."""

import subprocess
import sys

import numpy as np
import pytest
from loaders import batches_of
from messages import message_of

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.binding.row_problems import look_for_files
from dfgen.errors import ArgumentError, ManifestError, MissingFileError
from dfgen.loading.loader import Loader

SCRIPT = """
import sys

import pandas as pd

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.loading.loader import Loader

df = pd.read_json(sys.argv[1], orient="records")
bound = bind(SequenceArguments(df, y="label", image_size=(4, 4), balance="label", batch_size=4))
loader = Loader(bound.reader, batch_size=4, order=bound.order, workers=2)
for batch in (loader.batch(0, step) for step in range(len(loader))):
    red, green, _ = batch.arrays["image"][:, 0, 0].astype(int).T
    assert (red + 256 * green).tolist() == batch.rows.tolist()
    assert batch.arrays["label"].tolist() == (batch.rows % 2).tolist()
loader.close()
print(bound.class_names, sorted({"keras", "tensorflow", "jax", "torch"} & set(sys.modules)))
"""


def test_frame_yields_batches_without_keras(frame, tmp_path):
    path = tmp_path / "frame.json"
    frame(10).to_json(path, orient="records")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "['even', 'odd'] []\n", "")


def test_binding_matches_sequence_with_same_arguments(frame):
    bound = bind(SequenceArguments(frame(8), image_size=(4, 4)))
    with dfgen.Sequence(frame(8), image_size=(4, 4), workers=0, shuffle=False) as seq:
        images, labels = seq[0]
    loader = Loader(bound.reader, batch_size=32, workers=0)
    (batch,) = batches_of(loader)
    np.testing.assert_array_equal(batch.arrays["image"], images)
    np.testing.assert_array_equal(batch.arrays["label"], labels)


def test_problems_of_the_manifest_are_refused_or_kept(frame, tmp_path):
    df = frame(3).assign(problem=[None, "broken png file", None])
    with pytest.raises(ManifestError, match=r"row id=1, path=(.|\n)*fillna"):
        bind(SequenceArguments(df))
    assert bind(SequenceArguments(df, on_error="skip")).problems == {1: "broken png file"}
    assert bind(SequenceArguments(df.assign(problem=""))).problems == {}
    dfgen.write_manifest(df.assign(id=range(3)), tmp_path / "m.parquet")
    with pytest.raises(ManifestError, match='where="problem'):
        bind(SequenceArguments(str(tmp_path / "m.parquet")))
    assert (
        len(bind(SequenceArguments(str(tmp_path / "m.parquet"), where="problem.isna()")).reader)
        == 2
    )


def test_ten_problems_are_shown(frame):
    with pytest.raises(ManifestError) as error:
        bind(SequenceArguments(frame(12).assign(problem="broken png file")))
    assert str(error.value).count("\n  row id=") == 10
    assert "and 2 more" in str(error.value)


def test_labels_digest_ignores_image_size(frame):
    df = frame(2).assign(boxes=[[[0, 0, 2, 2]], []], labels=[[1], []])
    found = [
        bind(
            SequenceArguments(df, dfgen.Image(size=size), dfgen.Boxes(max_items=count))
        ).labels_digest
        for size, count in (((4, 4), 2), ((8, 8), 2), ((4, 4), 3))
    ]
    assert found[0] == found[1] != found[2]


def test_options_refuse_what_is_none():
    with pytest.raises(ArgumentError) as error:
        SequenceArguments(label_mode="multi")
    assert str(error.value) == (
        "label_mode must be one of ('int', 'categorical', 'binary', None), got 'multi'"
    )


def test_the_first_missing_file_is_named(frame, tmp_path):
    df = frame(12)

    def looked(paths=df["path"], known=(), skips=False):
        given = df.assign(path=paths)
        bound = bind(SequenceArguments(given, y=None, image_size=(4, 4)))
        return look_for_files(bound.columns, bound.reader, dict.fromkeys(known, ""), skips)

    none = [f"{tmp_path}/imgs/none{row}.png" for row in range(12)]
    assert looked() is None
    assert looked([*none[:2], *df["path"][2:]], skips=True) is None
    assert looked([none[0], *df["path"][1:]], known=[0]) is None
    last = [*df["path"][:11], none[11]]
    begin = "1 of 6 sampled files are missing, of 12 rows. Row id=11, "
    assert message_of(MissingFileError, looked, last).startswith(begin)
    everything = message_of(MissingFileError, looked, none, skips=True)
    assert everything.startswith("6 of 6 sampled files are missing, of 12 rows. Row id=0, ")
