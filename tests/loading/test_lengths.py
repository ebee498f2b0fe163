"""Sounds, arrays and lists of unequal length: padded to their batch's longest, masked, bucketed."""

import os
import wave

import numpy as np
import pandas as pd
import pytest
from messages import message_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError, ManifestError

RATE, ROWS = 1000, 22
LENGTHS = [5 + row * 7 % 31 for row in range(ROWS)]
X = {
    "audio": dfgen.Audio("path", RATE, None, padding_mask=True),
    "array": dfgen.Array("array", (None, 2), padding_mask=True),
    "column": dfgen.Column("tokens", np.array, (None,), "int32", padding_mask=True),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A row for each length; all that it holds are its number plus 1, as long as that."""
    folder = tmp_path_factory.mktemp("lengths")
    for row, length in enumerate(LENGTHS):
        with wave.open(f"{folder}/{row}.wav", "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", ""))
            file.writeframes(np.full(length, (row + 1) << 8, "<i2").tobytes())
        np.save(f"{folder}/{row}.npy", np.full((length, 2), row + 1, "f4"))
    frame = pd.DataFrame({"id": range(ROWS), "label": [row % 2 for row in range(ROWS)]})
    frame["path"] = [f"{folder}/{row}.wav" for row in range(ROWS)]
    frame["array"] = [f"{folder}/{row}.npy" for row in range(ROWS)]
    frame["tokens"] = [[row + 1] * length for row, length in enumerate(LENGTHS)]
    return frame


def told(name, values):
    """The rows of a batch, by what its arrays hold first."""
    first = values.reshape(len(values), values.shape[1], -1)[:, 0, 0]
    return (np.round(first * (128 if name == "audio" else 1)) - 1).astype(int).tolist()


def sequence(frame, x, **options):
    return dfgen.Sequence(frame, x, y="label", batch_size=4, **options)


OPTIONS = [{"workers": 0}, {"workers": 1, "use_multiprocessing": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=["here", "processes"])
@pytest.mark.parametrize("name", X)
def test_rows_are_padded_to_longest_and_masked(rows, name, options):
    seen = []
    with sequence(rows, X[name], bucket_by="length", **options) as seq:
        for step in range(len(seq)):
            batch, _ = seq[step]
            values, mask = batch[name], batch["padding_mask"]
            found = told(name, values)
            seen += found
            lengths = np.array([LENGTHS[row] for row in found])
            assert values.shape[1] == lengths.max()
            assert (mask == (np.arange(lengths.max()) < lengths[:, None])).all()
            there = values.reshape(*mask.shape, -1)
            assert ((there != 0) == mask[..., None]).all()
            assert (np.diff(there, axis=1)[mask[:, 1:]] == 0).all()
        assert sorted(seen) == list(range(ROWS))
        served = seq.preprocessing()([row.to_dict() for _, row in rows.iloc[:3].iterrows()])
        assert served["padding_mask"].sum(axis=1).tolist() == LENGTHS[:3]


def test_skipped_broken_file_keeps_a_nonempty_mask(rows, tmp_path):
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    broken = rows.assign(array=[str(tmp_path / "broken.npy"), *rows.array[1:]])
    with sequence(broken, X["array"], shuffle=False, on_error="skip") as seq:
        batch, _, weights = seq[0]
        assert weights[0] == 0 and seq.problems.index.tolist() == [0]
        assert batch["array"][0].sum() == 0 and batch["padding_mask"].sum(axis=1).all()


def a_folder(path):
    path.mkdir()


def long_by_its_header(path):
    np.save(path, np.ones((7, 2), "f4"))
    path.write_bytes(path.read_bytes().replace(b"(7, 2), }        ", b"(20000000, 2), } "))


FAULTS = {
    "missing": (lambda path: None, "the file does not exist"),
    "folder": (a_folder, "the file cannot be read: not a regular file"),
    "pipe": (os.mkfifo, "the file cannot be read: not a regular file"),
    "loop": (lambda path: path.symlink_to(path), "the file cannot be read: Too many levels"),
    "no .npy": (lambda path: path.write_bytes(b"P5 1 1 255 0"), "this is a .pnm image, not a .npy"),
    "longer than its bytes": (
        long_by_its_header,
        "truncated .npy file: float32 of shape (20000000, 2) takes 160,000,000 bytes",
    ),
    "another shape": (
        lambda path: np.save(path, np.ones((5000, 4), "f4")),
        "the array is float32 of shape (5000, 4), expected float32 of shape (None, 2)",
    ),
    "another kind": (
        lambda path: np.save(path, np.ones((5000, 2), "c8")),
        "the array is complex64 of shape (5000, 2), expected float32 of shape (None, 2)",
    ),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes in folders")
@pytest.mark.parametrize("fault", FAULTS)
def test_false_header_is_a_row_problem_without_padding(rows, tmp_path, fault):
    make, said = FAULTS[fault]
    make(path := tmp_path / "bad.npy")
    frame = rows[:4].assign(array=[*rows.array[:3], str(path)])
    with sequence(frame, X["array"], shuffle=False, on_error="skip", workers=0) as seq:
        batch, _, weights = seq[0]
        assert batch["array"].shape == (4, max(LENGTHS[:3]), 2)
        assert weights.astype(bool).tolist() == [True, True, True, False]
        assert seq.problems.reason.item().startswith(said)
    message = message_of(ManifestError, sequence, frame, X["array"])
    assert f"row id=3, array={str(path)!r}: {said}" in message


@pytest.mark.parametrize(("shape", "whole"), [((None,), [1, 2]), ((None, 2), [[1, 2]])])
def test_empty_list_row_is_only_padding(shape, whole):
    lists = pd.DataFrame({"id": [0, 1], "tokens": [[], whole], "y": [0.0, 1.0]})
    x = dfgen.Column("tokens", np.array, shape, "int32")
    batch, _ = dfgen.Sequence(lists, x, "y", batch_size=2, shuffle=False)[0]
    assert np.asarray(batch).tolist() == [np.zeros_like(whole).tolist(), whole]


def test_missing_list_is_named_or_handled_by_function():
    lists = pd.DataFrame({"id": [0, 1], "tokens": [None, [1, 2]], "y": [0.0, 1.0]})
    given = {"y": "y", "batch_size": 2, "shuffle": False}
    x = dfgen.Column("tokens", np.array, (None,), "int32")
    with dfgen.Sequence(lists, x, **given) as seq, pytest.raises(DecodeError, match="id=0"):
        seq[0]
    own = dfgen.Column("tokens", lambda tokens: tokens or [], (None,), "int32")
    with dfgen.Sequence(lists, own, **given) as seq:
        assert np.asarray(seq[0][0]).tolist() == [[0, 0], [1, 2]]


def test_what_has_no_length_is_refused(rows):
    x = dfgen.Column("label", np.array, (None,))
    assert "int64" in message_of(ManifestError, sequence, rows, x)
    assert "needs arrays of unequal length" in message_of(
        ArgumentError, sequence, rows, "label", bucket_by="length"
    )
    longer = dfgen.Column("tokens", lambda tokens: [*tokens, 1], (None,))
    with sequence(rows, longer, shuffle=False) as seq:
        message = message_of(DecodeError, lambda: seq[0])
    assert "returned an array that has shape (6,), expected (5,)" in message
