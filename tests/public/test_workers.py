"""Workers: equal batches whoever makes them, and what happens when one dies, hangs or fails."""

import contextlib
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import dfgen
from dfgen import errors
from public.leftovers import assert_same, children, of_pass, passes, pictures, sequence, written
from public.leftovers import nothing_left as nothing_left
from public.permutation import epoch_rows

ROWS = 23
PIXELS, PNG = pictures(ROWS)
PROCESSES = {"use_multiprocessing": True}
WAYS = {
    **{"caller": {"workers": 0}, "thread": {"workers": 1}, "threads": {"workers": 3}},
    **{"process": {"workers": 1, **PROCESSES}, "processes": {"max_queue_size": 1, **PROCESSES}},
    "unnamed": {"workers": None},
}
ways = pytest.mark.parametrize("way", ["caller", "threads", "processes"])
kinds = pytest.mark.parametrize("way", ["threads", "processes"])


@pytest.fixture
def frame(tmp_path):
    return written(tmp_path / "imgs", PNG)


def ordered(frame, way="threads", x="path", **options):
    return sequence(frame, x, **{"shuffle": False, **WAYS[way], **options})


def array(decode):
    """Return a feature of 40 bytes of a file; a function is called with its row."""

    def first(data):
        decode(PNG.index(data))
        return np.frombuffer(data[:40], np.uint8)

    return dfgen.Array("path", (40,), "uint8", decode=first)


def assert_fails(error, word, frame, way="threads", **options):
    with pytest.raises(error, match=word), ordered(frame, way, **options) as seq:
        of_pass(seq)


def assert_skipped(seq, bad):
    """Make a pass in which some rows are bad, and compare it with all others."""
    with pytest.warns(UserWarning, match=f"r{bad[0]}") if bad else contextlib.nullcontext():
        pixels, rows = of_pass(seq)
    assert rows == [0 if row in bad else row for row in range(ROWS)]
    assert seq.problems.id.tolist() == [f"r{row}" for row in bad]
    good = np.setdiff1d(range(ROWS), bad)
    expected = PIXELS if pixels.ndim == 4 else np.array([[*data[:40]] for data in PNG])
    np.testing.assert_array_equal(pixels[good], expected[good])
    assert not pixels[[*bad]].any()


def noisy(sample, rng):
    noise = rng.integers(0, 256, sample["image"].shape, np.uint8)
    return {**sample, "image": sample["image"] ^ noise}


def mixed(batch, rng):
    order = rng.permutation(len(batch["image"]))
    return {**batch, "image": batch["image"] // 2 + batch["image"][order] // 2}


@pytest.mark.parametrize("way", WAYS)
def test_batches_are_the_same_from_all_workers(frame, way):
    options = {"transform": noisy, "batch_transform": mixed, "shuffle": True, "seed": 7}
    with ordered(frame, "caller", **options) as one, ordered(frame, way, **options) as other:
        for epoch in range(3):
            found, expected = of_pass(other), of_pass(one)
            assert_same([found], [expected])
            assert found[1] == epoch_rows(ROWS, epoch, seed=7)
        np.testing.assert_array_equal(one[5][0], other[5][0])


@pytest.mark.parametrize("death", ["exit", "kill", "between batches"])
def test_a_worker_that_dies_is_replaced(frame, tmp_path, death):
    def dying(sample, rng):
        flag = tmp_path / f"{sample['number']}"
        if death != "between batches" and sample["number"] % 9 == 5 and not flag.exists():
            flag.touch()
            os._exit(3) if death == "exit" else os.kill(os.getpid(), signal.SIGKILL)
        return noisy(sample, rng)

    [(expected, _)], found = passes(frame, transform=noisy, epochs=1), []
    with ordered(frame, "process", transform=dying, shuffle=True) as seq:
        for step, (pixels, _) in enumerate(seq):
            found.append(np.array(pixels))
            for child in children() if death == "between batches" and step % 2 == 0 else []:
                child.kill()
    np.testing.assert_array_equal(np.concatenate(found), expected)


def test_worker_killing_row_is_named_or_skipped(frame, tmp_path):
    def abort(row):
        if row == 13:
            (tmp_path / str(time.time_ns())).touch()
            os.abort()

    x = array(abort)
    assert_fails(errors.WorkerError, r"r13.*13\.png", frame, "processes", x=x)
    with ordered(frame, "processes", x, on_error="skip") as seq:
        assert_skipped(seq, [13])
        of_pass(seq)  # without another try
    assert len([*tmp_path.glob("[0-9]*")]) == 6  # three tries in each Sequence


@pytest.fixture
def hung(frame):
    """A frame of which two files are pipes that nobody writes to."""
    for path in frame.path[[5, 18]]:
        os.unlink(path)
        os.mkfifo(path)
    yield frame
    for path in frame.path[[5, 18]]:  # end the reads of threads
        writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        os.write(writer, b"x")
        os.close(writer)


@kinds
def test_hung_reads_are_errors_or_skipped(hung, way):
    limits = dfgen.Limits(read_timeout=1.5 if way == "processes" else 0.5)
    assert_fails(errors.ReadTimeoutError, r"r5.*5\.png", hung, way, limits=limits)
    with ordered(hung, way, limits=limits, on_error="skip") as seq:
        assert_skipped(seq, [5, 18])


def raises(error):
    raise error("of row 17")


BAD = {  # what a function does at row 17
    "error": lambda sample: raises(ZeroDivisionError),
    "exit": lambda sample: raises(SystemExit),
    "memory": lambda sample: raises(MemoryError),
    "shape": lambda sample: {**sample, "image": sample["image"][:-1]},
    "missing": lambda sample: {"number": sample["number"]},
    "none": lambda sample: None,
}


@ways
@pytest.mark.parametrize("bad", BAD)
def test_bad_transforms_name_the_row_and_stop(frame, way, bad):
    def transform(sample, rng):
        return BAD[bad](sample) if sample["number"] == 17 else sample

    word = "of row 17" if bad in ("error", "exit", "memory") else ""
    on_error = "raise" if way == "caller" else "skip"  # which skips no mistake of a program
    with ordered(frame, way, transform=transform, on_error=on_error) as seq:
        batches = iter(seq)
        assert [next(batches)[1][0] for _ in range(4)] == [0, 4, 8, 12]
        with pytest.raises(errors.TransformError, match=rf"r17.*17\.png.*{word}"):
            next(batches)
        batches = None
        assert seq[3][1].tolist() == [12, 13, 14, 15]


def damaged(frame, rows):
    for row in rows:
        Path(frame.path[row]).write_bytes(PNG[row][:60])


ODD = list(range(1, ROWS, 2))
MOST = [("processes", 3, 3), ("threads", 0, 0), ("threads", None, 10)]
MOST += [("caller", 0.13, 2), ("threads", 0.14, 3)]  # shares of 23 rows


@pytest.mark.parametrize(("way", "most", "bad"), MOST)
def test_limits_bound_the_number_of_bad_rows(frame, way, most, bad):
    options = {"on_error": "skip", "limits": dfgen.Limits(problems=most)}
    damaged(frame, ODD[:bad])
    with ordered(frame, way, **options) as seq:
        assert_skipped(seq, ODD[:bad])
        of_pass(seq)  # known rows count once, and warn once
    damaged(frame, ODD[: bad + 1])
    assert_fails(errors.ProblemsError, r"\br1\b", frame, way, **options)


@pytest.mark.parametrize("folder", ["imgs", "empty", "gone"])
def test_missing_files_are_bad_rows(frame, tmp_path, folder):
    (tmp_path / "empty").mkdir()
    for row in (1, 10, 21):
        frame.loc[row, "path"] = str(tmp_path / folder / f"no {row}.png")
    with ordered(frame, on_error="skip") as seq:
        assert_skipped(seq, [1, 10, 21])
    assert_fails(errors.MissingFileError, r"\br1\b", frame)
