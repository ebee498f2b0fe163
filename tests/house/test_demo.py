"""The demo: its data, the files it makes of them, their manifest, and the whole of it."""

import shutil
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dfgen
from dfgen import demo
from dfgen.cli import app
from dfgen.errors import WriteError

EXAMPLE = Path(__file__).parents[2] / "manifests" / "digits.parquet"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Return the output and the folder of a demo of one epoch."""
    folder = tmp_path_factory.mktemp("demo") / "kept"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "EPOCHS", 1)
        patch.setattr(demo, "TARGET", 0.0)
        result = CliRunner().invoke(app, ["demo", "--keep", str(folder)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output, folder


def test_data_are_1797_images_of_all_digits():
    pixels, digits = demo.load_digits()
    assert pixels.shape == (1797, 8, 8)
    assert pixels.dtype == np.uint8
    assert (pixels.min(), pixels.max()) == (0, 255)
    assert np.bincount(digits).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


@pytest.mark.slow
def test_files_and_labels_read_back_equal_the_data_and_a_path_tells_the_id_alone(kept):
    _, folder = kept
    pixels, digits = demo.load_digits()
    labels = pd.read_csv(folder / "labels.csv")
    names = [f"imgs/{id[3:]}/{id[1:3]}/digit_{id}.png" for id in labels["object_id"].astype(str)]
    assert len([*folder.glob("imgs/*/*/*.png")]) == 1797
    read = [cv2.imread(str(folder / name), cv2.IMREAD_UNCHANGED) for name in names]
    assert np.array_equal(read, pixels)
    assert np.array_equal(labels["digit"], digits)
    assert labels["parity"].eq("odd").equals(labels["digit"] % 2 == 1)


def test_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "imgs").write_text("a file")
    message = rf"^the digits cannot be written into {tmp_path}: .*\. Name another folder: --keep "
    with pytest.raises(WriteError, match=message):
        demo.write_digits(tmp_path)


@pytest.mark.slow
def test_manifest_has_every_row_once_and_a_stratified_split(kept):
    _, folder = kept
    df = dfgen.read_manifest(folder / "digits.parquet")
    labels = pd.read_csv(folder / "labels.csv").set_index("object_id")
    assert sorted(df["id"]) == sorted(labels.index)
    assert df["path"].is_unique
    assert df["problem"].isna().all()
    for column in ("parity", "digit"):
        assert df[column].astype(str).tolist() == labels.loc[df["id"], column].astype(str).tolist()
    assert df["digit"].cat.categories.tolist() == list("0123456789")
    shares = (df["split"] == "val").groupby(df["digit"], observed=True).mean()
    assert shares.between(0.19, 0.21).all()


@pytest.mark.slow
def test_one_epoch_trains_all_three_models(kept):
    output, _ = kept
    for line in (
        "$ dfgen build-manifest imgs --pattern '{shard}/{part}/digit_{id:int}.png' \\\n",
        '>>> df = dfgen.read_manifest("digits.parquet")\n',
        ">>> train_on_parity(df, epochs=1)\nval_accuracy 0.",
        ">>> train_on_digit(df, epochs=1)\nval_accuracy 0.",
        ">>> train_on_both(df, epochs=1)\nval_digit_accuracy 0.",
    ):
        assert line in output
    assert "    return model.fit(train, validation_data=val, epochs=epochs, verbose=0)\n" in output


@pytest.mark.slow
def test_missed_accuracy_is_told_and_is_exit_code_1(monkeypatch, kept):
    _, folder = kept
    monkeypatch.setattr(demo, "write_digits", lambda folder: pd.read_csv(folder / "labels.csv"))
    monkeypatch.setattr(demo, "_build_and_train", lambda *_: [0.99, 0.961])
    result = CliRunner().invoke(app, ["demo", "--keep", str(folder)])
    assert result.exit_code == 1
    assert result.output.endswith(
        "FAILED: a validation accuracy of 0.961, expected at least 0.97\n"
    )


def test_other_files_in_the_folder_stop_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_show_and_train", lambda *arguments: pytest.fail("trained"))
    demo.write_digits(tmp_path)
    first = next(tmp_path.glob("imgs/*/*/*.png"))
    shutil.copy(first, first.with_name("digit_7.png"))
    result = CliRunner().invoke(app, ["demo", "--keep", str(tmp_path)])
    assert result.exit_code == 1
    assert 'have no row in labels.csv, 1,797 have one:\n  "7"\n' in result.output


@pytest.mark.slow
def test_example_manifest_is_the_one_that_the_demo_makes(kept):
    _, folder = kept
    made = dfgen.read_manifest(folder / "digits.parquet")
    example = dfgen.read_manifest(EXAMPLE, root=folder / "imgs")
    varies = ["mtime_ns", "bytes"]  # with the day, and with the encoder
    pd.testing.assert_frame_equal(example.drop(columns=varies), made.drop(columns=varies))
    for frame in (example, made):
        for name in ("source", "labels"):  # where each has its files
            del frame.attrs["dfgen"]["recipe"][name]
    assert example.attrs["dfgen"] == made.attrs["dfgen"]


@pytest.mark.slow
def test_demo_reaches_its_accuracies(capsys):
    assert demo.run(partial(app, standalone_mode=False))
    assert "FAILED" not in capsys.readouterr().out
