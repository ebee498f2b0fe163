"""What is proposed for a reader's files, by what they are made to be and how large they are.

When a cache or a pack of decoded pixels is proposed, what it is said to take and what it does.
"""

import shlex
from dataclasses import replace

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import dfgen
from dfgen.bench.report import pack_line
from dfgen.cli import app
from dfgen.explain.speed import Remedy, Waiting, gains, remedies, stored_remedies
from dfgen.limits import Limits
from dfgen.loading.metrics import STAGES
from dfgen.packs.packed_pixels import PackRows
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.column import Column
from dfgen.samples.features.image import Image
from dfgen.samples.features.number import Number
from dfgen.samples.reader import SampleReader
from dfgen.samples.sources.cached_pixels import CachedPixels
from dfgen.samples.sources.file_source import FileSource
from dfgen.samples.stores.cache.cache_folder import open_memory

CACHE = Remedy('cache="cache", 2.0 GB of disk', {"decode": 0.0}, 1e-5)
ALIASED = "Image(antialias=False), which aliases"
RESCALED = "scale=None and keras.layers.Rescaling in the model"
NORMALIZED = "scale=None and keras.layers.Normalization(mean=..., variance=...) in the model"
FEWER = "files of fewer pixels, as these have 9.0 times as many as are used"


@pytest.fixture
def paths(tmp_path):
    """Ten PNGs of 90x120 pixels."""
    for row in range(10):
        cv2.imwrite(f"{tmp_path}/{row}.png", np.zeros((90, 120, 3), np.uint8))
    return [f"{tmp_path}/{row}.png" for row in range(10)]


def reader(paths, *features, transform=None):
    values = pa.array(paths)
    bound = [BoundFeature(f"x{place}", one, values) for place, one in enumerate(features)]
    return SampleReader(np.arange(len(paths)), tuple(bound), transform)


def found(paths, **options):
    return [one.what for one in remedies(reader(paths, Image(**options)))]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"size": (70, 95)}, [ALIASED]),
        ({"size": (70, 95), "antialias": False}, []),
        ({"size": (70, 95), "interpolation": "nearest"}, []),
        ({"size": (90, 120)}, []),
        ({"size": (180, 240)}, []),
        ({"size": (60, 60), "resize": "crop_or_pad"}, []),
        ({"size": None}, []),
        ({"size": (30, 40)}, [FEWER, ALIASED]),
        ({"size": (30, 40), "crop": "random_resized"}, []),  # a small crop uses all pixels
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_smaller_files_and_no_filter_are_named_where_images_shrink(paths, options, named):
    assert found(paths, **options) == named


@pytest.mark.parametrize(
    ("scale", "layer"),
    [
        ("0..1", RESCALED), ("tf", RESCALED), ((1 / 255, 0), RESCALED), ("torch", NORMALIZED),
        (((0.5,) * 3, (0.2,) * 3), NORMALIZED), ("standardize", None), ("caffe", None),
        (None, None),
    ],
)  # fmt: skip
def test_scaling_in_the_model_is_named_where_a_layer_of_keras_does_it(paths, scale, layer):
    assert found(paths, size=(90, 120), scale=scale) == ([] if layer is None else [layer])


def test_scaling_to_a_dtype_that_was_asked_for_stays(paths):
    assert found(paths, size=(90, 120), scale="0..1", dtype="float16") == []


def test_each_remedy_tells_what_it_leaves_of_which_stage(paths):
    told = remedies(reader(paths, Image(size=(30, 40), scale="0..1"), Image(size=(30, 40))))
    assert told == [
        Remedy(FEWER, pytest.approx({"decode": 1 / 9, "resize": 1 / 9})),
        Remedy(ALIASED, {"resize": 0.3}),
        Remedy(RESCALED, {"scale": 0.0}),
    ]


def test_functions_of_the_user_are_not_called(paths):
    def fails(*given):
        raise AssertionError

    column = Column("age", fails, shape=(1,))
    with_functions = reader(paths, Image(size=(70, 95)), column, transform=fails)
    assert [one.what for one in remedies(with_functions)] == [ALIASED]


def test_a_table_without_files_has_nothing_to_propose():
    numbers = (BoundFeature("age", Number("age"), np.zeros(3, np.float32)),)
    assert remedies(SampleReader(np.arange(3), numbers)) == []


def test_files_that_cannot_be_read_are_passed_over(paths, tmp_path):
    (tmp_path / "0.png").unlink()
    (tmp_path / "9.png").write_bytes(b"no image")
    assert found(paths, size=(70, 95)) == [ALIASED]
    assert found([f"{tmp_path}/gone.png"] * 3, size=(4, 4)) == []


THOUSAND = [f"{row}.png" for row in range(1_000)]


def stored(image, limit="1GB"):
    return [one.what for one in stored_remedies(reader(THOUSAND, image), Limits(cache=limit))]


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
    assert stored(Image("path", **options)) == [named]


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
    assert stored(Image("path", **options)) == []


def test_images_that_are_stored_already_or_lie_in_a_table_need_no_cache():
    images = reader(THOUSAND, Image("path", size=(10, 10)))
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
    (part,) = stored_remedies(reader(THOUSAND, image), Limits(cache="15MB"))
    assert part.what == (
        'cache="cache", 15.0 MB of disk, which is room for 50% of the images, from the second '
        "epoch on"
    )
    assert part.left == dict.fromkeys(("read", "decode", "resize"), 0.5)
    assert part.costs == 7.5e-6  # of 15 kB
    assert stored(image, limit="2MB") == []
    (of_more_rows,) = stored_remedies(reader(THOUSAND, image), Limits(cache="15MB"), rows=2_000)
    assert "room for 25% of the images" in of_more_rows.what


def test_a_cache_gains_what_making_takes_less_what_copying_takes():
    seconds = dict.fromkeys((*STAGES, "cpu", "consumer_wait"), 0.0)
    seconds |= {"decode": 120.0, "transform": 80.0, "cpu": 200.0}
    waiting = Waiting(80, 100, seconds, 200, workers=2, cpus=2, rows=1_000_000)
    (gain,) = gains(waiting, [CACHE])
    assert gain.what == CACHE.what
    assert gain.seconds == pytest.approx((120 - 10) / 2)  # copying takes 10 s of 2 workers
    assert gains(waiting, [replace(CACHE, costs=1.2e-4)]) == []


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
