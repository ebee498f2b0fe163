"""Tables whose bytes do not fit together: Parquet, the Arrow files of packs, Arrow in hand."""

import struct

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from public.leftovers import pictures

import dfgen
from dfgen.errors import ManifestError
from dfgen.table import any_table

ROWS = 8
PATHS = [f"{row}.png" for row in range(ROWS)]
KINDS = ["cat", "dog", "cat", "dog", "dog", "cat", "dog", "cat"]
OFFSETS = np.cumsum([0, *map(len, PATHS)], dtype=np.int32).tobytes()
MOST = 2**26  # bytes that Arrow may take to refuse a file


def test_large_table_in_memory_skips_index_validation(monkeypatch):
    monkeypatch.setattr(any_table, "_VALIDATED", 0)
    numbers = pa.array([0] * (ROWS - 1) + [100], pa.int8())
    kind = pa.DictionaryArray.from_arrays(numbers, pa.array(["cat"]), safe=False)
    table = pa.table({"id": range(ROWS), "shown": kind})
    assert len(any_table.arrow_table(table)) == ROWS


@pytest.mark.parametrize("column", ["kind", "path"])
def test_invalid_dictionary_index_in_a_table_is_rejected(tmp_path, column):
    """It was a class of its own for a Sequence, and an error of Arrow for all others."""
    values = sorted({*KINDS}) if column == "kind" else PATHS
    numbers = pa.array([*range(len(values))] * (ROWS // len(values)), pa.int8()).to_numpy().copy()
    numbers[-1] = 100
    wrong = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(values), safe=False)
    table = pa.table({"id": range(ROWS), "path": PATHS, "kind": KINDS} | {column: wrong})
    for use in (
        lambda: dfgen.Sequence(table, y="kind"),
        lambda: dfgen.write_manifest(table, tmp_path / "m.parquet", root=tmp_path),
        lambda: dfgen.build_manifest(labels=table, path_column="path", facts="none"),
    ):
        with pytest.raises(ManifestError, match=r"cannot be read as an Arrow table: .*100"):
            use()


def parquet(tmp_path, old, new, **options):
    """Write labels as Parquet, some of whose bytes are others."""
    path = tmp_path / "l.parquet"
    table = pa.table({"id": range(ROWS), "path": PATHS, "kind": KINDS})
    pq.write_table(table, path, compression="none", **options)
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    return {"labels": path, "path_column": "path", "facts": "none"}


@pytest.mark.parametrize("run", [b"\x08\x10\x64", b"\x07\x10\x64", b"\x02\x03\xff"])
def test_invalid_dictionary_index_in_parquet_is_rejected(tmp_path, run):
    given = parquet(tmp_path, b"\x01\x03\x5a", run, use_dictionary=["kind"])
    with pytest.raises(ManifestError, match=r"l.parquet cannot be read as .parquet"):
        dfgen.build_manifest(**given)


def test_decreasing_offsets_in_a_table_are_rejected():
    wrong = np.frombuffer(OFFSETS, np.int32).copy()
    wrong[3] = 2**30
    text = pa.py_buffer("".join(PATHS).encode())
    paths = pa.Array.from_buffers(pa.string(), ROWS, [None, pa.py_buffer(wrong), text])
    with pytest.raises(ManifestError, match="cannot be read as an Arrow table"):
        dfgen.Sequence(pa.table({"id": range(ROWS), "path": paths, "kind": KINDS}), y="kind")


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32 - 1])
def test_huge_text_in_parquet_is_rejected(tmp_path, length):
    before = pa.default_memory_pool().max_memory()
    text = PATHS[3].encode()
    old, new = (struct.pack("<I", one) + text for one in (len(text), length))
    with pytest.raises(ManifestError, match=r"l.parquet cannot be read as .parquet"):
        dfgen.build_manifest(**parquet(tmp_path, old, new, use_dictionary=False))
    assert pa.default_memory_pool().max_memory() <= before + MOST


def test_flipped_bit_in_labels_fails_page_checksum(tmp_path):
    """Arrow reads one label for another where nobody asks it to look."""
    path = tmp_path / "labels.parquet"
    for row in range(2):
        (tmp_path / f"{row}.png").write_bytes(pictures(1)[1][0])
    labels = pa.table({"name": ["0.png", "1.png"], "kind": ["cat", "dog"]})
    pq.write_table(labels, path, compression="none", use_dictionary=False, write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"cat", b"bat"))
    assert pq.read_table(path)["kind"].to_pylist() == ["bat", "dog"]
    with pytest.raises(ManifestError, match=r"labels\.parquet.*CRC"):
        dfgen.build_manifest(tmp_path, labels=path, on="name")
