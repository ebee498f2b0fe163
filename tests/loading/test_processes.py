"""Worker processes: the same bytes as threads, and every way to die. Each test has an alarm."""

import gc
import io
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image as Pillow

import dfgen
from dfgen.loading.workers import shared_memory as memories
from dfgen.loading.workers.shared_memory import HEADER, room, shared_arrays, shared_memory
from dfgen.spec import Spec

pytestmark = pytest.mark.timeout(120)


def sequence(df, **options):
    options = {"batch_size": 8, "image_size": (4, 4), "workers": 1, **options}
    return dfgen.Sequence(df, use_multiprocessing=True, **options)


def shift(sample, rng):
    return {**sample, "image": sample["image"] + rng.integers(100, dtype=np.uint8)}


def contents(seq, epochs=2):
    return [[tuple(a.tobytes() for a in batch) for batch in seq] for _ in range(epochs)]


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_give_the_same_bytes_as_threads(frame, workers):
    df = frame(60).assign(weight=np.arange(60.0))
    options = {"y": "label", "sample_weight": "weight", "transform": shift, "scale": "0..1"}
    with dfgen.Sequence(df, batch_size=8, image_size=(4, 4), workers=0, **options) as reference:
        expected = contents(reference)
    with sequence(df, workers=workers, **options) as seq:
        assert contents(seq) == expected


def test_batches_that_are_kept_stay_as_they_were(frame):
    with sequence(frame(120), image_size=(64, 64)) as seq:
        kept = [(x, x.copy()) for x, _ in seq]
    assert all((x == copy).all() for x, copy in kept)


def test_an_error_in_a_transform_names_the_row_and_holds_the_traceback(frame):
    def fail(sample, rng):
        raise KeyError("nothing here")

    df = frame(8)
    with sequence(df, transform=fail, shuffle=False) as seq, pytest.raises(RuntimeError) as caught:
        seq[0]
    assert str(caught.value) == (
        f"row id=0, path={df.path[0]!r}: the transform raised KeyError: 'nothing here'"
    )
    assert "in fail" in caught.value.__notes__[0]


def test_a_missing_file_is_the_same_error_as_in_a_thread(frame):
    df = frame(8)
    df.loc[3, "path"] = "gone.png"
    with sequence(df) as seq, pytest.raises(FileNotFoundError, match=r"row id=3, path='gone\.png'"):
        seq[0]


def test_processes_need_workers(frame):
    with pytest.raises(ValueError, match="use_multiprocessing=True needs workers, got workers=0"):
        sequence(frame(8), workers=0)


def test_no_process_is_left_after_close_or_after_the_sequence_is_gone(frame):
    def children(seq):
        return [worker._child for worker in seq._loader._maker.pool.workers if worker._child]

    with sequence(frame(40)) as closed:
        list(closed)
        first = children(closed)
    dropped = sequence(frame(40))
    list(dropped)
    second = children(dropped)
    del dropped
    gc.collect()
    assert first and second
    for child in first + second:
        child.wait(timeout=60)  # raises if it is still there


def test_without_shared_memory_workers_use_a_temporary_file_and_say_so(frame, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(memories.os, "posix_fallocate", full)
    with pytest.warns(UserWarning, match="bytes of shared memory are not available"):
        file, memory = shared_memory(1000)
    memory[:5] = b"dfgen"
    assert file.read(5) == b"dfgen"
    memory.close()
    file.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with sequence(frame(40), shuffle=False) as seq:
            assert [int(v) for x, _ in seq for v in x[:, 0, 0, 0]] == [*range(40)]


@pytest.mark.parametrize("rows", [1, 5, 16])
def test_there_is_room_for_arrays_of_any_size(rows):
    one = {"image": Spec((5, 7, 3), np.dtype("uint8")), "number": Spec((), np.dtype("float64"))}
    specs = {name: Spec((rows, *spec.shape), spec.dtype) for name, spec in one.items()}
    file, memory = shared_memory(HEADER + room(one, rows))
    found = shared_arrays(memory, specs)
    assert {name: Spec(array.shape, array.dtype) for name, array in found.items()} == specs
    for number, array in enumerate(found.values()):
        array[...] = number + 1
    assert [np.unique(array).tolist() for array in found.values()] == [[1], [2]]
    file.close()


def test_large_columns_are_sent_once_for_all_processes():
    column = pa.array([bytes(1 << 18)] * 8, pa.large_binary())
    numbers = np.arange(1 << 18)
    sent = memories.SharedPickle(
        {"one": column, "two": column.slice(0), "numbers": numbers, "few": [1]}
    )
    pickled, _, size, places = sent.message
    assert len(pickled) < 10_000
    assert size == (8 << 18) + numbers.nbytes  # both columns are one; their offsets are few
    assert len(places) == 3
    found = [memories.shared_object(sent.message) for _ in range(2)]
    assert found[0]["one"].equals(column)
    assert found[0]["two"].buffers()[2].address == found[0]["one"].buffers()[2].address
    found[0]["numbers"][0] = 7  # functions may write into what they hold
    assert (found[1]["numbers"] == numbers).all()
    assert numbers[0] == 0


def test_what_is_small_needs_no_shared_memory():
    sent = memories.SharedPickle([np.arange(3)])
    assert sent.handles == ()
    assert memories.shared_object(sent.message)[0].tolist() == [0, 1, 2]


def test_processes_read_images_from_a_large_column():
    images = []
    for row in range(12):
        file = io.BytesIO()
        Pillow.fromarray(np.full((8, 8, 3), row, np.uint8)).save(file, "PNG")
        images.append({"bytes": file.getvalue() + bytes(1 << 18), "path": None})
    table = pa.table({"id": range(12), "image": images, "row": range(12)})
    image = dfgen.Image("image", size=(4, 4))
    with dfgen.Sequence(table, x=image, y="row", use_multiprocessing=True, workers=1) as seq:
        for x, y in seq:
            assert (np.asarray(x)[:, 0, 0, 0] == np.asarray(y)).all()


UNGUARDED = """
import numpy as np, pyarrow as pa
from dfgen.loading.loader import Loader
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.column import Column
from dfgen.samples.reader import SampleReader

print("begins")
added = {"value": 1}

def add(number):
    return number + added["value"]

part = BoundFeature("number", Column("number", add), pa.array([0.0] * 4))
reader = SampleReader(np.arange(4), (part,))
for processes in (False, True):
    added["value"] = 1
    loader = Loader(reader, batch_size=2, workers=1, use_multiprocessing=processes)
    for epoch in range(2):
        print(*(float(batch.arrays["number"][0]) for batch in loader.batches(epoch)))
        added["value"] = 10
    loader.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["__main__", "<run_path>", "a_job.of_mine"])
def test_a_script_without_a_guard_runs_once_and_its_function_works_on_a_copy(tmp_path, name):
    script = tmp_path / "train.py"
    script.write_text(UNGUARDED)
    start = [script]
    if name != "__main__":
        start = ["-c", f"import runpy; runpy.run_path({str(script)!r}, run_name={name!r})"]
    made = subprocess.run([sys.executable, *start], capture_output=True, text=True, timeout=60)
    assert made.stderr == ""
    assert made.stdout.splitlines() == ["begins", "1.0 1.0", "10.0 10.0", "1.0 1.0", "1.0 1.0"]
