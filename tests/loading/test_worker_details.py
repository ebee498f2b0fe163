"""Memory ahead, decoders that fail, and transforms that cannot travel."""

import threading

import pytest
from public.leftovers import nothing_left as nothing_left
from public.test_workers import PIXELS as PIXELS
from public.test_workers import array as array
from public.test_workers import assert_fails as assert_fails
from public.test_workers import assert_skipped as assert_skipped
from public.test_workers import damaged as damaged
from public.test_workers import frame as frame
from public.test_workers import ordered as ordered
from public.test_workers import raises as raises
from public.test_workers import ways as ways

import dfgen
from dfgen import errors


@ways
@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_bad_decoders_name_the_row_or_skip_it(frame, way, error):
    x = array(lambda row: raises(error) if row == 17 else None)
    assert_fails(errors.DecodeError, r"r17.*17\.png.*of row 17", frame, way, x=x)
    with ordered(frame, way, x, on_error="skip") as seq:
        assert_skipped(seq, [17])
        assert "of row 17" in seq.problems.reason[0] and seq.problems.epoch[0] == 0


def test_an_unpicklable_transform_is_named(frame):
    lock = threading.Lock()
    transform = lambda sample, rng: lock and sample  # noqa: E731
    assert_fails(errors.DfgenError, "lock", frame, "process", transform=transform)


@pytest.mark.parametrize(("memory", "most"), [(4 * 44 * 2 + 99, 2), (None, 6)])
def test_memory_bounds_the_batches_ahead(frame, memory, most):
    ahead, taken, queued = [], [0], threading.Event()

    def decode(row):
        ahead.append(row // 4 - taken[0])
        if ahead[-1] >= most - 1:
            queued.set()

    limits = dfgen.Limits(memory=memory)
    with ordered(frame, "thread", array(decode), limits=limits, max_queue_size=6) as seq:
        for taken[0], _ in enumerate(seq):
            assert taken[0] or queued.wait(30)
    assert most - 1 <= max(ahead) <= most + 1  # the next one begins as one is taken
    with pytest.raises(errors.ArgumentError, match="memory"):
        ordered(frame, limits=dfgen.Limits(memory=PIXELS[0].size * 4 - 1)).close()


@ways
def test_only_single_row_batches_may_be_entirely_bad(frame, way):
    damaged(frame, [8, 9, 20])
    options = {"on_error": "skip", "limits": dfgen.Limits(problems=1.0), "batch_size": 2}
    with ordered(frame[:21], way, **options) as seq:
        seq[3]
        with pytest.raises(errors.ProblemsError, match="r8"):
            seq[4]
        x, _, weights = seq[10]
    assert len(x) == 1 and not x.any() and weights.tolist() == [0]
