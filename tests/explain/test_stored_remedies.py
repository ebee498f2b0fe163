"""When a cache or a pack of decoded pixels is advised, what it is said to take and what it does."""

import shlex
from dataclasses import replace

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import dfgen
from dfgen.bench.advice import advise
from dfgen.bench.model_wait import ModelWait
from dfgen.bench.report import pack_line
from dfgen.bench.stages import BACKEND, DECODE, HAND_OVER, NUMPY, READ, RESIZE, Rates
from dfgen.cli import app
from dfgen.explain.remedies import Remedy, stored_remedies
from dfgen.explain.speed import Waiting, gains
from dfgen.limits import Limits
from dfgen.loading.metrics import STAGES
from dfgen.packs.pack_rows import PackRows
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.reader import SampleReader
from dfgen.samples.sources.cached_pixels import CachedPixels
from dfgen.samples.sources.file_source import FileSource
from dfgen.samples.stores.cache.cache_folder import open_memory

CACHE = Remedy(
    'cache="cache", 2.0 GB of disk', {"decode": 0.0, "own work": 0.0}, 1e-5, is_stored=True
)


def reader(*features, rows=1_000, transform=None):
    paths = pa.array([f"{row}.png" for row in range(rows)])
    bound = [BoundFeature(f"x{place}", one, paths) for place, one in enumerate(features)]
    return SampleReader(np.arange(rows), tuple(bound), transform)


def found(*features, **given):
    limits = Limits(cache=given.pop("limit", "1GB"))
    return [one.what for one in stored_remedies(reader(*features, **given), limits)]


@pytest.mark.parametrize(
    ("options", "megabytes"),
    [
        ({"size": (100, 50)}, "15.0"),
        ({"size": (100, 50), "color_mode": "grayscale"}, "5.0"),
        ({"size": (100, 50), "scale": "0..1", "flip": "horizontal"}, "15.0"),
        ({"size": (10, 10), "load_size": (100, 100), "crop": "random"}, "30.0"),
        ({"size": (10, 10), "dtype": "uint16"}, "0.6"),
    ],
    ids=str,
)
def test_a_cache_is_named_with_the_room_that_its_pixels_take(options, megabytes):
    named = f'cache="cache", {megabytes} MB of disk, from the second epoch on'
    assert found(Image("path", **options)) == [named]


@pytest.mark.parametrize(
    "options",
    [
        {"size": None},
        {"size": (10, 10), "crop": "random_resized"},
        {"size": (10, 10), "crop": "random", "resize": "crop"},
        {"size": (10, 10), "dtype": "float32"},
    ],
    ids=str,
)
def test_what_a_cache_cannot_keep_is_not_told_of_one(options):
    assert found(Image("path", **options)) == []


def test_images_that_are_stored_already_or_lie_in_a_table_need_no_cache():
    images = reader(Image("path", size=(10, 10)))
    (bound,) = images.features
    in_table = replace(bound, values=pa.array([b""] * 1_000))
    assert stored_remedies(SampleReader(np.arange(1_000), (in_table,))) == []
    packed = FileSource(bound.feature, bound.values, packed=PackRows(np.array([0, 1_000])))
    slots = open_memory(bound.feature.spec, 1 << 20)
    files = FileSource(bound.feature, bound.values)
    cached = CachedPixels(files, (bound.feature, bound.feature), images.store, slots)
    for source in (packed, cached):
        assert stored_remedies(replace(images, sources={bound.name: source})) == []


def test_of_what_does_not_fit_a_part_is_named_and_of_hardly_anything_nothing():
    image = Image("path", size=(100, 100))  # 30 MB
    (part,) = stored_remedies(reader(image), Limits(cache="15MB"))
    assert part.what == (
        'cache="cache", 15.0 MB of disk, which is room for 50% of the images, from the second '
        "epoch on"
    )
    assert part.left == dict.fromkeys(("read", "decode", "resize", "own work"), 0.5)
    assert 0 < part.costs < 0.01
    assert found(image, limit="2MB") == []


def test_a_cache_gains_what_making_takes_less_what_copying_takes():
    seconds = dict.fromkeys((*STAGES, "cpu", "consumer_wait"), 0.0)
    seconds |= {"decode": 120.0, "transform": 80.0, "cpu": 200.0}
    waiting = Waiting(80, 100, seconds, 200, workers=2, cpus=2, rows=1_000_000)
    (gain,) = gains(waiting, [CACHE])
    assert gain.what == CACHE.what
    assert gain.seconds == pytest.approx((120 - 10) / 2)  # copying takes 10 s of 2 workers
    assert gains(waiting, [replace(CACHE, costs=1.2e-4)]) == []


def points(rows=10_000, model=None, hand_over=50_000, remedy=CACHE):
    names = (READ, DECODE, RESIZE, HAND_OVER, NUMPY, BACKEND)
    rates = dict(zip(names, (1e6, 1_000, 1_000, hand_over, 1_000, 900), strict=True))
    rates = {name: (rate, rate) for name, rate in rates.items()}
    told = advise(
        Rates(rates), 1e6, model, rows=rows, workers=2, cpus=2, remedies=[remedy]
    )  # fmt: skip
    return [point for point in told if "cache" in point]


def test_bench_tells_what_would_come_at_most_and_how_long_an_epoch_takes():
    assert points() == [
        'cache="cache", 2.0 GB of disk: up to 50,000 images/s, an epoch of 10,000 images in 0.2 s '
        "instead of 11.1 s."
    ]
    (slow,) = points(remedy=replace(CACHE, costs=2e-4))
    assert "up to 9,901 images/s" in slow  # reading 1e-6, copying 1e-4 of two workers


def test_bench_names_no_cache_that_gains_less_than_a_second_or_where_it_is_not_the_limit():
    assert points(rows=900) == []
    assert points(hand_over=500) == []
    assert points(remedy=replace(CACHE, left={"decode": 0.99})) == []


def test_bench_promises_no_more_than_the_model_takes():
    model = ModelWait("Small", 10, (800, 800), input_wait=0.5)
    (point,) = points(model=model)
    assert "up to 1,600 images/s, an epoch of 10,000 images in 6.2 s instead of 12.5 s" in point


@pytest.mark.parametrize("antialias", [True, False])
def test_the_command_and_the_argument_that_are_named_do_what_is_said_of_them(
    tmp_path, monkeypatch, antialias
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my imgs").mkdir()
    for row in range(40):
        cv2.imwrite(f"my imgs/{row}.png", np.full((60, 80, 3), row, np.uint8))
    dfgen.build_manifest("my imgs", out="my imgs.parquet")
    df = dfgen.read_manifest("my imgs.parquet")
    image = Image("path", size=(50, 50), antialias=antialias)
    with dfgen.Sequence(df, x=image, batch_size=8) as plain:
        ways = stored_remedies(
            plain._loader.reader, pack=lambda image: pack_line("my imgs.parquet", image)
        )
        expected = np.concatenate([plain[step][0] for step in range(5)])
    options = "" if antialias else " --no-antialias"
    assert [way.what for way in ways] == [
        'cache="cache", 0.3 MB of disk, from the second epoch on',
        f"dfgen pack 'my imgs.parquet' --out packed --image-size 50,50{options}, 0.3 MB of disk",
    ]
    line = ways[1].what.partition(", 0.3 MB")[0]
    done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exit_code == 0, done.output
    shard = pd.read_feather("packed/shard-00000.arrow")
    assert shard["path_pixels"].map(len).sum() == 40 * 50 * 50 * 3
    with dfgen.Sequence("packed", x=image, batch_size=8) as packed:
        found = np.concatenate([packed[step][0] for step in range(5)])
        np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(expected, axis=0))
        assert stored_remedies(packed._loader.reader) == []
    with dfgen.Sequence(df, x=image, batch_size=8, cache="cache") as cached:
        for _ in range(2):
            found = np.concatenate([cached[step][0] for step in range(5)])
            np.testing.assert_array_equal(found, expected)
        assert cached.metrics.cache_bytes == 40 * 50 * 50 * 3
        assert stored_remedies(cached._loader.reader) == []
