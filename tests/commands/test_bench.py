"""`dfgen bench` measures files, URLs, packs and caches as a Sequence reads them."""

import json
import os

import cv2
import keras
import numpy as np
import pandas as pd
import pytest
from command import run

import dfgen
from dfgen.bench import bench
from dfgen.errors import ArgumentError, ManifestError

QUICK = {"image_size": (8, 8), "batch_size": 4, "seconds": 0.1}


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A manifest m.parquet of nine PNG files of noise in the working folder."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("imgs")
    random = np.random.default_rng(0)
    for row in range(9):
        cv2.imwrite(f"imgs/{row}.png", random.integers(0, 256, (30, 40, 3), np.uint8))
    return dfgen.build_manifest("imgs", out="m.parquet")


def bytes_per_image(figures):
    return figures["bytes_per_second"] / figures["images_per_second"]


def test_files_are_measured_as_they_are(photos):
    figures = bench("m.parquet", workers=1, **QUICK)
    assert figures["images_per_second"] > 0 and bytes_per_image(figures) > 3000
    assert (figures["rows"], figures["problems"], figures["workers"]) == (9, 0, 1)
    assert 0 < figures["busy"] <= 1
    assert sum(figures["stages"].values()) == pytest.approx(1)
    assert {"read", "decode", "resize"} <= {*figures["stages"]}


def test_pack_is_measured_without_its_source_files(photos):
    dfgen.pack("m.parquet", "packed", image_size=(8, 8))
    figures = bench("packed", workers=1, **QUICK)
    assert bytes_per_image(figures) < 1000 and "decode" not in figures["stages"]
    for path in photos["path"]:
        os.remove(path)
    assert bench("packed", **QUICK)["problems"] == 0


def test_a_full_cache_decodes_nothing(photos):
    bench("m.parquet", cache="cache", **QUICK)  # fills it
    assert "decode" not in bench("m.parquet", cache="cache", **QUICK)["stages"]


def test_bad_rows_are_counted(photos):
    os.truncate("imgs/3.png", 40)
    os.remove("imgs/5.png")
    figures = bench("m.parquet", **QUICK)
    assert figures["problems"] == 2 and figures["images_per_second"] > 0
    ended = run("bench", "m.parquet", "--image-size", "8,8", "--seconds", "0.1")
    assert "2 rows cannot be read" in ended.stdout


@pytest.mark.backend
def test_a_model_is_trained_and_its_wait_measured(photos, monkeypatch):
    def small(weights, input_shape, classes):
        flat = keras.layers.Flatten(), keras.layers.Rescaling(1 / 255)
        dense = keras.layers.Dense(classes, "softmax")
        return keras.Sequential([keras.Input(input_shape), *flat, dense])

    monkeypatch.setattr(keras.applications, "Small", small, raising=False)
    model = bench("m.parquet", model="Small", **QUICK)["model"]
    assert model["name"] == "Small" and model["images_per_second"] > 0
    assert 0 <= model["input_wait"] <= 1 and "waited" in model["verdict"]
    options = ["--image-size", "8,8", "--batch-size", "4", "--seconds", "0.1", "--model", "Small"]
    lines = run("bench", "m.parquet", *options).stdout.splitlines()
    assert lines[0].startswith("m.parquet: 9 rows to 8x8, batches of 4")
    assert " images/s, " in lines[1] and "busy" in lines[1]
    assert lines[2].startswith("Small: ")
    figures = json.loads(run("bench", "m.parquet", *options, "--json").stdout)
    assert (figures["image_size"], figures["model"]["name"]) == ([8, 8], "Small")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"seconds": 0}, "seconds=0"), ({"batch_size": 0}, "batch_size=0"),
        ({"model": "MobileNetV9"}, "Did you mean"), ({"model": "VGG16"}, "8x8"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused(photos, options, match):
    with pytest.raises(ArgumentError, match=match):
        bench("m.parquet", **{**QUICK, **options})


def test_a_manifest_without_rows_is_refused(photos):
    dfgen.write_manifest(pd.DataFrame({"id": [1], "path": ["/a.png"]})[:0], "none.parquet")
    with pytest.raises(ManifestError, match="rows"):
        bench("none.parquet", **QUICK)
