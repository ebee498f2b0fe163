"""Array(decode=): files of formats that dfgen does not know, by a function of the user's."""

import io
import wave

import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import DecodeError
from dfgen.samples.features.arrays import Array


def scan_of(data):
    """Return the array called `scan` of the bytes of a .npz file."""
    with np.load(io.BytesIO(data)) as arrays:
        return arrays["scan"]


def frames_of(data):
    """Return the 16-bit frames of the bytes of a WAV file."""
    with wave.open(io.BytesIO(data)) as file:
        return np.frombuffer(file.readframes(-1), "<i2")


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    """Nine .npz files whose scan is full of the number of the row, and WAV files of it."""
    folder = tmp_path_factory.mktemp("scans")
    rows = []
    for row in range(9):
        np.savez_compressed(f"{folder}/{row}.npz", scan=np.full((2, 3), row, np.int16), other=0)
        with wave.open(f"{folder}/{row}.wav", "wb") as file:
            file.setparams((1, 2, 8000, 4, "NONE", ""))
            file.writeframes(np.full(4, row, "<i2").tobytes())
        paths = {"path": f"{folder}/{row}.npz", "sound": f"{folder}/{row}.wav"}
        rows.append({"id": f"r{row}", **paths, "y": row})
    return pd.DataFrame(rows)


def sequence(frame, x, **options):
    return dfgen.Sequence(frame, x, "y", batch_size=4, **{"shuffle": False, **options})


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"workers": 2}, {"workers": 1, "use_multiprocessing": True}]
)
def test_a_function_decodes_files_in_any_worker(frame, options):
    x = {
        "scan": Array("path", (2, 3), decode=scan_of),
        "sound": Array("sound", (4,), "int16", decode=frames_of),
    }
    with sequence(frame, x, **options) as seq:
        batches = [(x["scan"].copy(), x["sound"].copy(), np.asarray(y)) for x, y in seq]
    for scan, sound, y in batches:
        assert (scan.dtype, sound.dtype) == ("float32", "int16")
        assert (scan == y[:, None, None]).all() and (sound == y[:, None]).all()
    assert sum(len(y) for _, _, y in batches) == 9


def fails(data):
    return 1 // (len(data) * 0)


FAULTS = [
    (fails, {}, "fails raised ZeroDivisionError: integer division or modulo by zero"),
    (scan_of, {"shape": (3, 2)},
     "scan_of returned an array that has shape (2, 3), expected (3, 2)"),
    (lambda data: scan_of(data) / 2, {"dtype": "int16"},
     "<lambda> returned an array that is float64, which int16 cannot hold"),
    (lambda data: scan_of(data) + 300, {"dtype": "uint8"},
     "<lambda> returned an array that holds 300 to 300, more than uint8 can hold"),
    (lambda data: None, {}, "<lambda> returned NoneType, expected numbers"),
    (lambda data: {"scan": 1}, {}, "<lambda> returned dict, expected numbers"),
    (lambda data: "text", {"shape": ()},
     "<lambda> returned an array that is <U4, which float32 cannot hold"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("decode", "options", "message", "processes"),
    [(*fault, False) for fault in FAULTS] + [(*fault, True) for fault in FAULTS[:2]],
)
def test_decode_error_names_row_path_and_function(frame, decode, options, message, processes):
    x = Array("path", **{"shape": (2, 3), "decode": decode, **options})
    with (
        sequence(frame, x, use_multiprocessing=processes, workers=1) as seq,
        pytest.raises(DecodeError) as caught,
    ):
        list(seq)
    path = frame["path"][0]
    assert str(caught.value) == f"row id='r0', path={path!r}: Array('path'): {message}"
