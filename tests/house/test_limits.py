"""Bounds on memory and on the time of a read, and what the workers tell of their time."""

import os
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from loaders import batches_of

import dfgen
from dfgen.loading.loader import Loader
from dfgen.samples.features.base import Reading
from dfgen.samples.features.image import Image
from dfgen.samples.reader import BoundFeature, SampleReader
from dfgen.stores.stores import Stores

pytestmark = pytest.mark.timeout(60)


def sequence(df, **options):
    return dfgen.Sequence(df, **{"batch_size": 4, "image_size": (4, 4), "workers": 2, **options})


@pytest.fixture
def stuck(frame, tmp_path):
    """A frame whose row 6 is a pipe that nobody writes to: its read never returns."""
    pipe = str(tmp_path / "pipe.png")
    os.mkfifo(pipe)
    df = frame(20)
    df.loc[6, "path"] = pipe
    yield df
    # let the abandoned reads go, so that their threads end
    writer = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    os.write(writer, b"x")
    os.close(writer)


@pytest.mark.parametrize(
    ("memory", "nbytes"),
    [(1000, 1000), ("2GB", 2 * 10**9), ("1.5 MiB", 3 * 2**19), ("512kb", 512_000), (None, 1 << 62)],
)
def test_memory_is_bytes_or_a_text(memory, nbytes):
    assert dfgen.Limits(memory=memory).depth(1, 1 << 62) == nbytes


@pytest.mark.parametrize("memory", ["much", "2 GBs", "1.2.3GB", "GB", 0, -5])
def test_a_wrong_memory_is_refused(memory):
    with pytest.raises(ValueError, match="memory must be"):
        dfgen.Limits(memory=memory)


def test_a_wrong_read_timeout_is_refused():
    with pytest.raises(ValueError, match="read_timeout must be seconds above 0, got 0"):
        dfgen.Limits(read_timeout=0)


@pytest.mark.parametrize(("batch_size", "depth"), [(1, 10), (4, 5), (10, 2), (20, 1)])
def test_batches_in_flight_stay_below_memory_limit(frame, batch_size, depth):
    row = 4 * 4 * 3 + 4  # pixels and an int32
    seq = sequence(frame(100), batch_size=batch_size, limits=dfgen.Limits(memory=20 * row))
    started, start = [], seq._loader.start
    seq._loader.start = lambda *position, **asked: (
        started.append(position[1]) or start(*position, **asked)
    )
    next(iter(seq))
    assert len(started) == depth + 1
    assert seq._loader.depth * batch_size * row <= 20 * row


def test_a_batch_larger_than_the_memory_is_refused(frame):
    with pytest.raises(ValueError) as caught:
        sequence(frame(8), limits=dfgen.Limits(memory="0.1KB"))
    assert str(caught.value) == (
        "one batch takes 208 bytes, more than limits.memory='0.1KB': make the batches smaller, or "
        "the limit larger"
    )


@pytest.mark.slow
@pytest.mark.parametrize("use_multiprocessing", [False, True], ids=["threads", "processes"])
def test_endless_read_is_an_error_naming_the_row(stuck, use_multiprocessing):
    seq = sequence(
        stuck,
        shuffle=False,
        limits=dfgen.Limits(read_timeout=0.5),
        use_multiprocessing=use_multiprocessing,
    )
    batches = iter(seq)
    assert next(batches)[0][:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    with pytest.raises(TimeoutError) as caught:
        next(batches)
    assert str(caught.value) == (
        f"row id=6, path={stuck.path[6]!r}: to read and decode its file took longer than "
        "limits.read_timeout=0.5 seconds: raise the limit if it is to take so long"
    )
    assert seq[3][0][:, 0, 0, 0].tolist() == [12, 13, 14, 15]
    seq.close()


@pytest.mark.slow
@pytest.mark.parametrize("use_multiprocessing", [False, True], ids=["threads", "processes"])
def test_endless_read_is_skipped_with_on_error_skip(stuck, use_multiprocessing):
    seq = sequence(
        stuck,
        shuffle=False,
        on_error="skip",
        limits=dfgen.Limits(read_timeout=0.5),
        use_multiprocessing=use_multiprocessing,
    )
    for _ in range(2):
        rows = [x[:, 0, 0, 0].tolist() for x, _, _ in seq]
        assert rows == [
            [0, 1, 2, 3],
            [4, 5, 0, 7],
            *([r, r + 1, r + 2, r + 3] for r in (8, 12, 16)),
        ]
    assert seq.problems["id"].tolist() == [6]
    seq.close()


def test_batch_with_endless_read_is_completed_once(stuck):
    options = {"shuffle": False, "on_error": "skip", "workers": 1}
    with sequence(stuck[6:10], limits=dfgen.Limits(read_timeout=0.5), **options) as seq:
        assert seq[0][0][:, 0, 0, 0].tolist() == [0, 7, 8, 9]
        assert seq.metrics.samples == 3


def test_batch_with_endless_read_keeps_its_plan(stuck):
    image = BoundFeature("image", Image("path", size=(4, 4)), pa.array(stuck.path[:7]))
    loader = Loader(
        SampleReader(np.arange(7), (image,)),
        batch_size=4,
        shard=(1, 2),
        on_error="skip",
        workers=2,
        limits=dfgen.Limits(read_timeout=0.5),
    )
    # training leaves out the last rows
    assert [batch.rows.tolist() for batch in batches_of(loader, plan=loader.given)] == [[2, 3], [6]]
    assert [*loader.problems] == [6]
    loader.close()


def test_a_slow_transform_is_no_slow_read(frame):
    def slow(sample, rng):
        threading.Event().wait(0.3)
        return sample

    seq = sequence(frame(2), transform=slow, limits=dfgen.Limits(read_timeout=0.1))
    assert len(list(seq)) == 1


@pytest.mark.parametrize("use_multiprocessing", [False, True], ids=["threads", "processes"])
def test_metrics_count_samples_batches_bytes_and_seconds(frame, use_multiprocessing):
    df = frame(40)

    def busy(sample, rng):
        end = time.perf_counter() + 0.001
        while time.perf_counter() < end:
            pass
        return sample

    with sequence(
        df, transform=busy, max_queue_size=1, use_multiprocessing=use_multiprocessing
    ) as seq:
        assert seq.metrics.samples == seq.metrics.batches == 0
        list(seq)
        metrics = seq.metrics
    assert metrics.batches == 10
    assert 40 <= metrics.samples <= 44  # one batch ahead
    size = sum(os.path.getsize(path) for path in df.path)
    assert size <= metrics.bytes <= size * 1.2
    assert metrics.seconds["transform"] >= 0.04
    assert all(metrics.seconds[stage] > 0 for stage in ("read", "decode", "resize"))
    assert metrics.seconds["consumer_wait"] > 0


def test_feature_reports_stages_and_bytes_read(frame):
    path = frame(1).path[0]
    told = []
    out = np.empty((4, 4, 3), np.uint8)
    dfgen.Image(size=(4, 4)).read(path, out, Reading(Stores(), lambda *stage: told.append(stage)))
    assert told == [("read",), ("decode", os.path.getsize(path)), ("resize",)]
