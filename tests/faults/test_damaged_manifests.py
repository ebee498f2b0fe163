"""Manifests with bits flipped, ends cut off, sectors zeroed, and keys of other programs."""

import json
import pickle
import random
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from messages import message_of

import dfgen
from dfgen.binding.arguments import SequenceArguments, open_table
from dfgen.errors import ManifestError
from dfgen.manifest.table_reading import read_table

ROWS = 40
RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "id": [f"row-{row}" for row in range(ROWS)],
        "path": [f"imgs/{row % 3}/{row}.png" for row in range(ROWS)],
        "kind": pd.Categorical.from_codes(RANDOM.integers(-1, 3, ROWS), ["cat", "dog", "bird"]),
        "grade": pd.Categorical.from_codes(RANDOM.integers(0, 3, ROWS), [3, 1, 2], ordered=True),
        "age": RANDOM.random(ROWS),
        "boxes": [[[1.0, 2.0, float(row), 4.0]] * (row % 3) for row in range(ROWS)],
        "note": [None if row % 4 == 0 else f"note {row}" for row in range(ROWS)],
        "split": pd.Categorical(["train", "val"] * (ROWS // 2)),
        "bytes": RANDOM.integers(10**3, 10**6, ROWS),
        "mtime_ns": RANDOM.integers(10**18, 2 * 10**18, ROWS),
        "width": pd.array([None, *RANDOM.integers(100, 1000, ROWS - 1)], "Int32"),
    }
)
FRAME.attrs["dfgen"] = {
    "labels": {"boxes": {"box_format": "xyxy"}},
    "recipe": {"source": "imgs", "seed": 3, "split": {"train": 0.5, "val": 0.5}},
}


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dfgen.write_manifest(FRAME, tmp_path / "m.parquet")
    return tmp_path / "m.parquet"


def flipped(data, place):
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def damaged(data, flips, cuts, sectors):
    """Yield copies with one bit flipped, cut short, or with a sector of zeros."""
    draw = random.Random(0)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    ends = [*range(8 * (footer - 16), 8 * footer), *range(8 * (len(data) - 8), 8 * len(data))]
    for place in [*ends, *(draw.randrange(8 * len(data)) for _ in range(flips))]:
        yield f"bit {place}", flipped(data, place)
    for _ in range(cuts):
        length = draw.randrange(len(data))
        yield f"cut to {length}", data[:length]
    for start in [*range(footer - 512, footer, 16), *range(0, len(data), 512)]:
        yield f"zeros from {start}", data[:start] + bytes(512) + data[start + 512 :]
    for _ in range(sectors):
        start = draw.randrange(len(data) - 512)
        yield f"zeros from {start}", data[:start] + bytes(512) + data[start + 512 :]


def values(path):
    """Return the ids, paths and labels, which the fingerprint protects."""
    frame = dfgen.read_manifest(path).drop(columns=["split", "bytes", "mtime_ns", "width"])
    return {name: repr(frame[name].astype(object).tolist()) for name in frame}


def unseen(path, damages):
    """Return the damages that are neither refused by a message with the path nor without effect."""
    whole, faults = values(path), []
    for what, data in damages:
        path.write_bytes(data)
        try:
            if values(path) != whole:
                faults.append(f"{what}: other rows")
        except (ManifestError, UserWarning) as error:
            if str(path) not in str(error):
                faults.append(f"{what}: {error}")
        except Exception as error:
            faults.append(f"{what}: {error!r}")
    return faults


@pytest.mark.slow
def test_damaged_manifest_is_rejected_or_reads_the_same(manifest):
    assert unseen(manifest, damaged(manifest.read_bytes(), 300, 60, 60)) == []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.alarm(600)
@pytest.mark.parametrize("rows", [1, ROWS])
def test_thousands_of_manifest_damages_are_all_noticed(manifest, rows):
    dfgen.write_manifest(FRAME[:rows], manifest)
    assert unseen(manifest, damaged(manifest.read_bytes(), 3_000, 1_000, 1_000)) == []


def test_every_reader_rejects_a_damaged_manifest(manifest):
    data = manifest.read_bytes()
    manifest.write_bytes(flipped(data, 4_000))
    for read in (
        dfgen.read_manifest,
        dfgen.verify,
        lambda path: dfgen.diff(path, FRAME),
        lambda path: dfgen.split(path, folds=2),
        lambda path: dfgen.build_manifest(update=path),
        lambda path: open_table(SequenceArguments(path)),
    ):
        assert str(manifest) in message_of(ManifestError, read, manifest)
    assert manifest.read_bytes() == flipped(data, 4_000)


def test_impossible_footer_size_is_named_with_file_size(manifest):
    data = manifest.read_bytes()
    footer = b"\x01\x02\x03\x7f"
    manifest.write_bytes(data[:-8] + footer + data[-4:])
    said = message_of(ManifestError, dfgen.read_manifest, manifest)
    assert f" {len(data)} bytes" in said and f"{int.from_bytes(footer, 'little')}bytes" in said


def test_other_programs_read_a_manifest_with_its_checksum(manifest):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    ids = FRAME["id"].tolist()
    assert pq.read_table(manifest, page_checksum_verification=True)["id"].to_pylist() == ids
    assert pd.read_parquet(manifest)["id"].tolist() == ids
    assert polars.read_parquet(manifest)["id"].to_list() == ids
    assert polars.scan_parquet(manifest).select("id").collect()["id"].to_list() == ids
    rows = duckdb.execute("SELECT id FROM read_parquet(?)", [str(manifest)]).fetchall()
    assert [row[0] for row in rows] == ids


# -- manifests of other programs, and of before ------------------------------------------------


def rewritten(path, change=lambda table: table, key=lambda key: key):
    """Write a manifest as another program does, which keeps the key and has no checksum."""
    table = pq.read_table(path)
    entries = {**json.loads(table.schema.metadata[b"dfgen"])}
    text = key(entries)
    text = text if isinstance(text, bytes) else json.dumps(text).encode()
    table = change(table)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"dfgen": text}), path)
    return path


def test_manifest_without_checksum_reads_the_same(manifest):
    whole = dfgen.read_manifest(manifest)
    assert pickle.dumps(dfgen.read_manifest(rewritten(manifest))) == pickle.dumps(whole)


def test_other_programs_may_change_facts_and_splits(manifest):
    rewritten(
        manifest, lambda table: table.drop_columns(["bytes"]).append_column("fold", [[0] * ROWS])
    )
    assert dfgen.read_manifest(manifest)["fold"].tolist() == [0] * ROWS


@pytest.mark.parametrize(
    "read", [dfgen.read_manifest, lambda path: open_table(SequenceArguments(path))]
)
def test_labels_changed_by_other_programs_cause_a_warning(manifest, read):
    rewritten(manifest, lambda table: table.append_column("more", [list(range(ROWS))]))
    with pytest.warns(UserWarning, match="fingerprint") as caught:
        read(manifest)
    assert len(caught) == 1 and str(manifest) in str(caught[0].message)


def test_rewritten_manifest_is_read_without_a_warning(manifest):
    rewritten(manifest, lambda table: table.append_column("more", [list(range(ROWS))]))
    with warnings.catch_warnings(action="ignore"):
        frame = dfgen.read_manifest(manifest)
    dfgen.write_manifest(frame, manifest)
    assert dfgen.read_manifest(manifest)["more"].tolist() == list(range(ROWS))


def test_every_type_keeps_its_fingerprint_without_a_checksum(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    day = pd.Timestamp("2020-01-02 03:04:05")
    times = {f"at_{unit}": pd.Series([day, pd.NaT]).dt.as_unit(unit) for unit in ("s", "ms", "ns")}
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "path": ["a.png", "b.png"],
            **times,
            **{f"zoned_{name}": each.dt.tz_localize("UTC") for name, each in times.items()},
            "since": pd.Series([pd.Timedelta(5), pd.NaT]),
            "half": np.array([1.5, np.nan], "f2"),
            "nothing": [None, None],
            "large": np.array([2**64 - 1, 0], "u8"),
            "ok": pd.array([True, None], "boolean"),
            "number": pd.Categorical([7, 5]),
            "flags": [[True], None],
            "lists": [[[1.0]], []],
            "file": [b"\0", None],
        }
    )
    for name in frame.columns[2:]:
        dfgen.write_manifest(frame[["id", "path", name]], tmp_path / "m.parquet")
        rewritten(tmp_path / "m.parquet")
        read_table(tmp_path / "m.parquet")


# -- what the key may hold ---------------------------------------------------------------------

WRONG_KEYS = [
    {"root": 7}, {"labels": ["kind"]}, {"labels": {"kind": "category"}}, {"labels": {"kind": {}}},
    {"labels": {"kind": {"kind": ["a"]}}}, {"labels": {"kind": {"kind": "category"}}},
    {"labels": {"kind": {"kind": "category", "class_names": [1.5]}}},
    {"labels": {"kind": {"kind": "category", "class_names": ["a", 1]}}},
    {"labels": {"kind": {"kind": "category", "class_names": "cat"}}},
    {"labels": {"kind": {"kind": "category", "class_names": [], "ordered": 1}}},
    {"labels": {"boxes": {"kind": "list", "box_format": "xywh"}}}, {"recipe": "imgs"},
    {"created_by": None}, {"fingerprint": 3}, {"fingerprint": "9a0c"},
    *({"format": version} for version in (True, 1.0, "1", None, [1], 2)),
]  # fmt: skip


@pytest.mark.parametrize("entries", WRONG_KEYS, ids=str)
def test_metadata_entry_of_wrong_type_is_named(manifest, entries):
    rewritten(manifest, key=lambda key: {**key, **entries})
    message = message_of(ManifestError, dfgen.read_manifest, manifest)
    assert str(manifest) in message
    assert any(str(name) in message for name in (*entries, *entries.get("labels", ())))


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"format": ' + b"9" * 5_000 + b"}", b"\xff"])
def test_a_key_that_is_no_json_is_refused(manifest, text):
    rewritten(manifest, key=lambda key: text)
    assert "dfgen" in message_of(ManifestError, dfgen.read_manifest, manifest)


def test_class_names_unfit_for_their_column_are_rejected(manifest):
    of_age = {"age": {"kind": "category", "class_names": ["old"]}}
    rewritten(manifest, key=lambda key: {**key, "labels": of_age})
    with pytest.raises(ManifestError) as caught:
        dfgen.read_manifest(manifest)
    message = str(caught.value)
    assert message.startswith(
        f"{manifest}: column 'age' has type double, which cannot hold its class names ['old'] of "
        'the "dfgen" key: '
    )
    assert message.endswith(". Build it again")


def test_invalid_manifest_is_rejected_before_writing(manifest, tmp_path):
    frame = FRAME.copy()
    frame.attrs = {"dfgen": {**FRAME.attrs["dfgen"], "labels": {"boxes": {"box_format": "xywh"}}}}
    before = manifest.read_bytes()
    assert "box_format" in message_of(ManifestError, dfgen.write_manifest, frame, manifest)
    assert manifest.read_bytes() == before


@pytest.mark.slow
def test_damaged_manifest_without_checksum_raises_no_foreign_error(manifest):
    """It has no checksum: other labels are warned of by the fingerprint, other facts are not."""
    data = rewritten(manifest).read_bytes()
    with warnings.catch_warnings(action="ignore"):
        faults = unseen(manifest, damaged(data, 100, 20, 20))
    assert [fault for fault in faults if "other rows" not in fault] == []
