"""`dfgen bench` on digits and on a few JPEGs: not how fast, but what is shown and claimed."""

import json
import re

import cv2
import keras
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dfgen
from dfgen.bench import job, report, stages
from dfgen.bench.report import advise, shown
from dfgen.bench.stages import (
    BACKEND,
    DECODE,
    HAND_OVER,
    NUMPY,
    ONE,
    READ,
    RESIZE,
    ModelWait,
    Rates,
    alternate,
)
from dfgen.cli import app
from dfgen.errors import ManifestError
from dfgen.explain.speed import Remedy, Waiting
from dfgen.loading.metrics import STAGES


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Measure no longer than it takes to go through the motions."""
    for module in (stages, report):
        monkeypatch.setattr(module, "PASSES", 2)
    monkeypatch.setattr(job, "SECONDS", 0.001)
    monkeypatch.setattr(stages, "_SECONDS", 0.001)
    monkeypatch.setattr(stages, "_HAND_OVER_SECONDS", 0.01)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A manifest of twenty JPEGs; two have a known problem, one is broken unknown to it."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for row in range(20):
        cv2.imwrite(f"{folder}/{row}.jpg", random.integers(0, 256, (30, 40, 3), np.uint8))
    (folder / "7.jpg").write_bytes((folder / "6.jpg").read_bytes()[:40])
    problems = ["the file does not exist" if row in (3, 4) else None for row in range(20)]
    paths = [f"{folder}/{row}.jpg" for row in range(20)]
    frame = pd.DataFrame({"id": range(100, 120), "path": paths, "problem": problems})
    dfgen.write_manifest(frame, folder / "photos.parquet")
    return folder / "photos.parquet"


def command(*arguments):
    return CliRunner().invoke(app, ["bench", *map(str, arguments)])


def refusal(*arguments):
    result = command(*arguments)
    assert result.exit_code == 1
    return result.output


def test_table_and_json_of_a_run(photos, tmp_path):
    done = command(
        photos, "--image-size", "16,24", "--batch-size", "4", "--workers", "2", "--no-antialias",
        "--json", tmp_path / "a.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    number = r"[\d,]+(?:\.\d)?"
    assert re.fullmatch(
        rf"{photos}: 20 rows\. Measured on 17 files chosen at random, [\d.]+ kB on average, "
        rf"{number} images a pass",
        lines[0],
    )
    assert lines[1].startswith(
        "to 16x24 (height x width), antialias=False, batch_size=4, workers=2 of "
    )
    assert lines[2] == "left out, as the manifest names a problem: 2 rows"
    assert lines[3] == "left out, as they cannot be decoded: 1 rows"
    assert lines[4].startswith(f"  row id=107, path='{photos.parent}/7.jpg': broken jpeg header: ")
    assert lines[6].split() == ["images/s", "lowest", "..", "highest", "us/image", "x", "dfgen"]
    for name in (READ, DECODE, RESIZE, HAND_OVER, NUMPY, BACKEND, ONE):
        (line,) = [line for line in lines if line.startswith(f"  {name}  ")]
        assert re.fullmatch(
            rf"\s+{number}\s+{number} \.\. {number}\s+[\d,.]+(\s+[\d.]+)?", line[44:]
        )
    written = json.loads((tmp_path / "a.json").read_text())
    assert set(written) == {
        "manifest", "setting", "versions", "rows", "rows_with_known_problem", "left_out", "files",
        "mean_file_bytes", "images_per_pass", "first_read_files_per_second", "rates", "model",
        "advice",
    }  # fmt: skip
    assert written["setting"]["image_size"] == [16, 24]
    assert (written["rows"], written["rows_with_known_problem"], written["files"]) == (20, 2, 17)
    assert list(written["rates"]) == [READ, DECODE, RESIZE, HAND_OVER, NUMPY, BACKEND, ONE]
    assert set(written["rates"][READ]) == {
        "images_per_second", "images_per_second_lowest", "images_per_second_highest",
        "images_per_second_of_rounds",
    }  # fmt: skip
    assert written["advice"] == lines[-len(written["advice"]) :]


@pytest.mark.backend
def test_a_model_is_fed_and_its_wait_found(photos):
    image = dfgen.Image(size=(32, 32))
    sample = job.choose(str(photos), None, image, 4, 2)
    whole = job.Job(sample.paths, image, 4, 2)
    model = keras.Sequential(
        [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(2, "softmax")]
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    steps = []
    found = stages.model_wait(
        "Small", model, lambda: stages.sequence(whole), 2, lambda: steps.append(1)
    )
    assert (found.model, len(found.rates), len(steps)) == ("Small", 2, 2)
    assert min(found.rates) > 0
    assert 0 <= found.waiting.share <= 1


@pytest.mark.backend
def test_replayed_batches_are_the_first_ones_of_the_sequence(frame):
    with dfgen.Sequence(frame(12), image_size=(4, 4), batch_size=4) as sequence:
        replayed = stages.replay(sequence, 8)
        first = [sequence[step][0] for step in range(3)]
        for step, (images, _) in zip(range(7), replayed, strict=False):
            np.testing.assert_array_equal(images, first[step % 3])
        assert list(stages.arrive(sequence)) == [4, 4, 4]


def test_what_cannot_be_measured_is_refused_before_it_is(photos, tmp_path):
    assert refusal(tmp_path / "none.parquet") == (
        f"dfgen: there is no manifest {tmp_path}/none.parquet\n"
    )
    assert refusal(photos, "--image-size", "224") == (
        "dfgen: --image-size 224: expected H,W, as in 224,224\n"
    )
    assert refusal(photos, "--model", "MobileNetv2").startswith(
        'dfgen: "MobileNetv2" is not a model of keras.applications. '
        'Did you mean "MobileNetV2"? Models: ConvNeXtBase, '
    )
    assert refusal(photos, "--model", "MobileNetV2", "--image-size", "8,8").startswith(
        "dfgen: MobileNetV2 does not take images of 8x8: Input size must be at least 32x32"
    )
    assert refusal(photos, "--rows", "0") == "dfgen: rows=0 is not a whole number of 1 or more\n"
    missing = tmp_path / "missing"
    assert refusal(photos, "--json", missing / "a.json") == (
        f"dfgen: --json {missing}/a.json: there is no folder {missing}\n"
    )


def test_manifests_without_an_image_are_refused(photos, tmp_path):
    frame = dfgen.read_manifest(photos)
    dfgen.write_manifest(frame[frame["problem"].notna()], tmp_path / "bad.parquet")
    with pytest.raises(ManifestError) as caught:
        report.bench(str(tmp_path / "bad.parquet"))
    assert str(caught.value) == (
        "all 2 rows have a problem, by the facts of the manifest. The first: row id=103, "
        f"path='{photos.parent}/3.jpg': the file does not exist"
    )
    (tmp_path / "gone.jpg").touch()
    gone = pd.DataFrame({"id": [1], "path": [f"{tmp_path}/gone.jpg"]})
    dfgen.write_manifest(gone, tmp_path / "gone.parquet")
    with pytest.raises(ManifestError) as caught:
        report.bench(str(tmp_path / "gone.parquet"))
    assert str(caught.value) == (
        f"{tmp_path}/gone.parquet: none of 1 rows chosen at random is an image that can be "
        f"decoded. The first: row id=1, path='{tmp_path}/gone.jpg': the file is empty (0 bytes)"
    )


def test_candidates_take_turns():
    turns = []

    def candidate(name):
        return lambda: turns.append(name) or len(turns)

    found = alternate({"a": candidate("a"), "b": candidate("b")}, int)
    assert turns == ["a", "b"] * 3
    assert found == Rates({"a": (3, 5), "b": (4, 6)})


def figures(read=60_000, both=1_500, hand_over=100_000, made=1_400, one=750):
    names = (READ, DECODE, RESIZE, HAND_OVER, NUMPY, BACKEND, ONE)
    rates = (read, 2_000, both, hand_over, made, made, one)
    return {name: (rate, rate * 1.01) for name, rate in zip(names, rates, strict=True)}


def advice(rounds, model=None, first_read=50_000, share=0.99, remedies=()):
    seconds = dict.fromkeys((*STAGES, "cpu"), 0.0) | {"decode": 1.5, "resize": 0.5, "cpu": 2.0}
    waiting = Waiting(
        share, 1.0, seconds | {"consumer_wait": share}, 2.0, 32, workers=2, cpus=2, rows=1_400
    )
    model = model and ModelWait("Big", 10, model, waiting)
    return advise(
        Rates(rounds), waiting, model, first_read=first_read, rows=10_000, remedies=remedies
    )


def test_advice_is_that_of_input_monitor_for_an_epoch():
    assert advice(figures(), remedies=[Remedy("smaller files", {"decode": 0.5})]) == [
        "dfgen makes 1,407 images/s and hands them to the backend: 96% of the 1,471 that its "
        "stages alone allow.",
        "An epoch of 10,000 images takes 7.1 s, the hand-over alone 0.1 s. 2 workers were busy "
        "100% of it: decode 75%, resize 25%. Possible savings: smaller files (up to 2.7 s).",
    ]


def test_rates_have_digits_that_are_of_use():
    assert [shown(rate) for rate in (9.87, 100.4, 12_345.6)] == ["9.9", "100", "12,346"]


def test_one_worker_that_is_faster_is_named():
    assert advice(figures(one=3_000))[2] == (
        "One worker is faster than 2 on these files, 2.14 x: workers=1. Not tried: "
        "use_multiprocessing=True."
    )


def test_storage_is_named_where_the_first_read_was_slow():
    assert advice(figures(), first_read=200)[2] == (
        "Read for the first time, the files came at 200 a second, slower than the 1,407 that are "
        "used up: if they do not all fit in the memory that the system has for files, storage is "
        "the limit."
    )


def test_the_rate_of_the_first_read_is_that_of_all_rows_that_were_read(photos, monkeypatch):
    def tried(table, image, workers, data, bad):
        data |= dict.fromkeys(table["path"].to_pylist(), b"")
        return 1.0, 1.0  # seconds

    monkeypatch.setattr(job, "_FIRST", 2)
    monkeypatch.setattr(job, "_try", tried)
    assert job.choose(photos, 6, dfgen.Image(), 2, 1).first_read == 3


def test_a_busy_machine_is_noticed():
    assert advice(figures() | {BACKEND: (200, 210, 1_450)})[2] == (
        "The rounds of one measurement differ by up to 7.2 x: the machine had other work. Run this "
        "again on an idle one for figures to rely on."
    )


def test_the_hand_over_is_named_where_it_is_the_limit():
    assert advice(figures(hand_over=1_400), share=0.01)[1] == (
        "The hand-over to the backend takes all the time. Larger batches reduce this cost (31.2 ms "
        "a batch)."
    )


def test_a_model_is_told_how_long_it_waits_and_what_would_help():
    waits, nothing = (
        advice(figures(one=3_000), (700, 700), share=share, first_read=1) for share in (0.5, 0.001)
    )
    assert waits[1].startswith(
        "Big: training waited for its input 50.0% of the time (7.1 of 14.3 s of steps). 2 workers"
    )
    assert len(waits) == 4  # one worker, and storage
    assert nothing[1:] == [
        "Big: training waited for its input 0.1% of the time (0.0 of 14.3 s of steps): nothing to "
        "gain."
    ]
