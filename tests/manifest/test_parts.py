import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from full_disk import files_of_at_most

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingFileError, WriteError
from dfgen.manifest import parts_writer, written_parts
from dfgen.manifest.parts import read_part, read_parts_index
from dfgen.manifest.table_reading import read_table
from dfgen.packs.pack_index import sealed

ROWS = 25


@pytest.fixture(autouse=True)
def small_parts(monkeypatch, tmp_path):
    """Have parts of 10 rows in a folder of their own."""
    monkeypatch.setattr(parts_writer, "PART_ROWS", 10)
    monkeypatch.chdir(tmp_path)


def frame(rows=ROWS):
    numbers = np.arange(rows)
    return pd.DataFrame(
        {
            "id": [f"{number * 7 % rows:02d}" for number in numbers],  # parts overlap in their ids
            "path": [f"{Path.cwd()}/imgs/{number % 3}/ä{number}.png" for number in numbers],
            "kind": pd.Categorical.from_codes(numbers % 3 - 1, ["dog", "cat", "unseen"]),
            "stars": pd.Categorical(numbers % 5, categories=[4, 3, 2, 1, 0], ordered=True),
            "note": [None if number % 4 else f"n{number}" for number in numbers],
            "age": pd.array([None if number % 6 else number for number in numbers], "Int16"),
            "score": np.where(numbers % 7, numbers / 3, np.nan),
            "taken": pd.Timestamp("2026-01-31").as_unit("s"),
            "boxes": [[[1.0, 2.0, 3.0, 4.0]] * (number % 3) for number in numbers],
            "split": pd.Categorical(np.where(numbers < 12, "val", "train"), ["val", "train"]),
        }
    )


def parts_of(folder="pets.manifest"):
    return sorted(path.name for path in Path(folder).glob("part-*"))


def written(rows=ROWS):
    dfgen.write_manifest(frame(rows), "pets.manifest")
    return Path("pets.manifest").absolute()


def refusal(path="pets.manifest", error=ManifestError):
    with pytest.raises(error) as caught:
        dfgen.read_manifest(path)
    return str(caught.value)


def batches(table, rows=4):
    """Return batches whose categories know only what they have seen."""
    for start in range(0, len(table), rows):
        piece = table.slice(start, rows).to_pandas()
        yield pa.Table.from_pandas(piece, table.schema, preserve_index=False)


def test_parts_hold_what_one_file_holds_with_its_types_attrs_and_fingerprint():
    dfgen.write_manifest(frame(), "pets.parquet")
    written()
    assert len(parts_of()) == 2
    one, parts = (dfgen.read_manifest(f"pets.{end}") for end in ("parquet", "manifest"))
    pd.testing.assert_frame_equal(parts, one)
    assert parts.attrs == one.attrs
    assert read_table("pets.manifest")[1] == read_table("pets.parquet")[1]


@pytest.mark.parametrize("rows", [1, 4, 10, 40])
def test_batches_of_any_size_become_the_manifest_of_the_whole_table(rows):
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    dfgen.write_manifest(frame(), "pets.parquet", root="imgs")
    dfgen.write_manifest(batches(table, rows), "pets.manifest", root="imgs")
    assert len(parts_of()) == 3
    one, parts = (dfgen.read_manifest(f"pets.{end}") for end in ("parquet", "manifest"))
    pd.testing.assert_frame_equal(parts, one)
    keys = [read_table(f"pets.{end}")[1] for end in ("parquet", "manifest")]
    assert keys[0] == keys[1]


def test_a_reader_of_batches_is_written_to_one_file_as_well():
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    dfgen.write_manifest(table.to_reader(4), "reader.parquet")
    dfgen.write_manifest(frame(), "pets.parquet")
    assert read_table("reader.parquet")[1] == read_table("pets.parquet")[1]


def test_classes_of_batches_are_numbered_as_they_come():
    kinds = [["b", "a"], ["c", "b"]]
    stream = (
        pa.table({"id": [2 * n, 2 * n + 1], "path": ["s3://b/x", "s3://b/y"], "kind": two})
        for n, two in enumerate(pa.array(kind).dictionary_encode() for kind in kinds)
    )
    dfgen.write_manifest(stream, "pets.manifest")
    df = dfgen.read_manifest("pets.manifest")
    assert [*df["kind"].cat.categories] == ["b", "a", "c"] and [*df["kind"]] == ["b", "a", "c", "b"]
    assert df.attrs["dfgen"]["root"] is None


def test_a_manifest_without_rows_keeps_its_columns():
    dfgen.write_manifest(frame().head(0), "pets.manifest")
    assert [*dfgen.read_manifest("pets.manifest")] == [*frame()]
    table = pa.Table.from_pandas(frame().head(0), preserve_index=False)
    dfgen.write_manifest(iter([table]), "stream.manifest")
    assert [*dfgen.read_manifest("stream.manifest")] == [*frame()]


def test_any_parquet_reader_reads_the_parts_as_they_are():
    folder = written()
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    assert pa.concat_tables(tables)["kind"].to_pylist() == [
        None if pd.isna(kind) else kind for kind in frame()["kind"]
    ]
    index = json.loads((folder / "_manifest.json").read_text())
    assert [part["rows"] for part in index["parts"]] == [12, 13]
    assert [part["splits"] for part in index["parts"]] == [{"val": 12}, {"train": 13}]
    assert index["parts"][0]["least"] == "00" and index["parts"][0]["greatest"] == "24"


def test_parts_whose_rows_did_not_change_keep_their_file():
    folder = written(30)
    before = {name: (folder / name).stat().st_ino for name in parts_of()}
    df = dfgen.read_manifest("pets.manifest")
    df.loc[12, "kind"] = "dog"
    more = df.tail(3).assign(id=["x", "y", "z"])
    df = pd.concat([df, more], ignore_index=True).astype({"kind": df["kind"].dtype})
    dfgen.write_manifest(df, "pets.manifest")
    after = {name: (folder / name).stat().st_ino for name in parts_of()}
    assert [*after] == [f"part-0000{n}.parquet" for n in (0, 2, 3, 4)]
    assert before.items() & after.items() == before.items() - {
        ("part-00001.parquet", before["part-00001.parquet"])
    }
    pd.testing.assert_frame_equal(dfgen.read_manifest("pets.manifest"), df, check_dtype=False)
    assert [part.file for part in read_parts_index(str(folder)).parts] == [
        f"part-0000{n}.parquet" for n in (0, 3, 2, 4)
    ]


def test_a_new_class_and_another_root_change_no_part():
    folder = written()
    before = {name: (folder / name).stat().st_ino for name in parts_of()}
    df = dfgen.read_manifest("pets.manifest")
    df["kind"] = df["kind"].cat.add_categories(["bird"])
    dfgen.write_manifest(df, "pets.manifest")
    assert {name: (folder / name).stat().st_ino for name in parts_of()} == before
    assert [*dfgen.read_manifest("pets.manifest")["kind"].cat.categories][-1] == "bird"


def swap(folder, *names):
    a, b = (folder / name for name in names)
    a.rename(folder / "kept"), b.rename(a), (folder / "kept").rename(b)


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def another(folder):
    other = frame().assign(kind="dog")
    dfgen.write_manifest(other, "other.manifest")
    shutil.copy("other.manifest/part-00001.parquet", folder / "part-00001.parquet")


def longer_schema(path):
    table = pq.read_table(path)
    pq.write_table(table.append_column("weight", pa.array([0.5] * len(table))), path)


def part_above(folder):
    """Have the index name a part in another folder, under a checksum that is right."""
    index = json.loads((folder / "_manifest.json").read_text())
    del index["checksum"]
    index["parts"][1]["file"] = "../part-00001.parquet"
    (folder / "_manifest.json").write_bytes(sealed(index))
    (folder / "part-00001.parquet").rename("part-00001.parquet")


AGAIN = "Take another copy of the folder, or build it again"
SECOND = "{folder}/part-00001.parquet"


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (
            lambda folder: (folder / "part-00001.parquet").unlink(),
            f"{SECOND} is missing, which holds 13 rows of {{folder}}. {AGAIN}",
        ),
        (
            lambda folder: (folder / "part-00001.parquet").write_bytes(b"PAR1"),
            f"{SECOND} is cut short: it has 4 bytes, expected {{bytes}}. {AGAIN}",
        ),
        (
            lambda folder: swap(folder, "part-00000.parquet", "part-00001.parquet"),
            "{folder}/part-00000.parquet holds what part-00001.parquet should hold: the two were "
            "exchanged. Rename them back",
        ),
        (
            lambda folder: flip(folder / "part-00001.parquet", 999),
            f"{SECOND} is damaged, or a part of another manifest: its bytes are not those that "
            f"were written with {{folder}}/_manifest.json, by their checksum. {AGAIN}",
        ),
        (
            lambda folder: longer_schema(folder / "part-00001.parquet"),
            f"{SECOND} has another schema than the manifest around it: it has 'weight' (double). "
            + AGAIN,
        ),
        (
            lambda folder: (folder / "_manifest.json").unlink(),
            "{folder} is not finished: _manifest.json, which is written last, is missing. If a "
            "build was broken off, run the same command again",
        ),
        (
            lambda folder: flip(folder / "_manifest.json", 60),
            "{folder}/_manifest.json was edited or damaged: its checksum is not the one that was "
            f"written. {AGAIN}",
        ),
        (
            part_above,
            "{folder}/_manifest.json is damaged: a part of it is not in its folder. " + AGAIN,
        ),
    ],
    ids=["missing", "truncated", "swapped", "bit", "schema", "unfinished", "edited", "above"],
)
def test_a_damaged_folder_is_refused_with_its_path(damage, expected):
    folder = written()
    nbytes = (folder / "part-00001.parquet").stat().st_size
    damage(folder)
    expected = expected.format(folder=folder, bytes=f"{nbytes:,}")
    assert refusal(error=(ManifestError, MissingFileError)) == expected.replace("'", '"')


def test_a_part_of_another_manifest_is_refused():
    folder = written()
    another(folder)
    assert refusal().startswith(f"{folder}/part-00001.parquet is ")


def test_an_index_that_is_cut_short_or_newer_is_refused():
    index = written() / "_manifest.json"
    whole = index.read_text()
    index.write_text(whole[:500])
    assert refusal().startswith(f"{index} is cut short or damaged: ")
    index.write_text(whole.replace('"format": 1,\n "kind"', '"format": 2,\n "kind"'))
    assert "Upgrade dfgen" in refusal() and "format 2" in refusal()
    index.write_bytes(b"")
    assert refusal().startswith(f"{index} is cut short or damaged: ")


def test_ids_that_stand_in_two_batches_are_refused_and_nothing_is_left():
    piece = pa.table({"id": list(range(10)), "path": ["s3://b/x"] * 10})
    with pytest.raises(ManifestError, match=r"in several batches \(10 or more\): 0, 1"):
        dfgen.write_manifest(iter([piece, piece]), "pets.manifest")
    assert not Path("pets.manifest").exists()


def test_an_id_that_ends_a_batch_and_begins_the_next_is_refused(monkeypatch):
    first, second = ({"id": ids, "path": ["s3://b/x"] * 10} for ids in (range(10), range(9, 19)))
    for checked in (written_parts._CHECKED, 5):  # at once, and within bounds
        monkeypatch.setattr(written_parts, "_CHECKED", checked)
        with pytest.raises(ManifestError, match=r"in several batches \(1 or more\): 9\."):
            dfgen.write_manifest(map(pd.DataFrame, [first, second]), "pets.manifest")


def test_parts_are_as_near_to_their_size_as_can_be():
    dfgen.write_manifest(frame(26), "pets.manifest")
    assert [part.rows for part in read_parts_index("pets.manifest").parts] == [8, 9, 9]


def test_batches_of_paths_need_a_root():
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    with pytest.raises(ArgumentError, match="write_manifest was given batches without root="):
        dfgen.write_manifest(table.to_reader(), "pets.manifest")
    assert not Path("pets.manifest").exists()


def test_batches_of_other_columns_are_refused():
    one = pa.table({"id": [1], "path": ["s3://b/x"]})
    for other, told in (
        (one.append_column("x", pa.array([1])), "a batch has the columns"),
        (pa.table({"id": ["a"], "path": ["s3://b/x"]}), "column 'id' of a batch has type string"),
    ):
        with pytest.raises(ManifestError, match=told):
            dfgen.write_manifest(iter([one, other]), "pets.manifest")


def test_a_stream_that_breaks_leaves_the_manifest_that_was_there():
    folder = written()
    before = dfgen.read_manifest("pets.manifest")

    def broken():
        yield pa.table({"id": [*range(20)], "path": ["s3://b/x"] * 20})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dfgen.write_manifest(broken(), "pets.manifest")
    pd.testing.assert_frame_equal(dfgen.read_manifest("pets.manifest"), before)
    assert sorted(path.name for path in folder.iterdir()) == ["_manifest.json", *parts_of()]
    assert len(parts_of()) == 2


def test_a_second_writer_of_a_folder_is_refused():
    begun, done = threading.Event(), threading.Event()

    def slow():
        begun.set()
        done.wait(60)
        yield pa.table({"id": [1], "path": ["s3://b/x"]})

    writer = threading.Thread(target=lambda: dfgen.write_manifest(slow(), "pets.manifest"))
    writer.start()
    begun.wait(60)
    with pytest.raises(WriteError, match=r"pets.manifest/_manifest.json is being written by"):
        written()
    done.set()
    writer.join()
    assert len(dfgen.read_manifest("pets.manifest")) == 1


def test_a_full_disk_leaves_the_manifest_that_was_there():
    folder = written()
    before = (folder / "_manifest.json").read_bytes()
    said = r"part-00002.parquet cannot be written: .*too large"
    with files_of_at_most(2000), pytest.raises(WriteError, match=said):
        dfgen.write_manifest(frame().assign(note="other"), "pets.manifest")
    assert (folder / "_manifest.json").read_bytes() == before and len(parts_of()) == 2


def test_a_manifest_is_replaced_by_one_without_any_of_its_ids():
    written()
    other = frame().assign(id=[f"other {number}" for number in range(ROWS)])
    dfgen.write_manifest(other, "pets.manifest")
    pd.testing.assert_series_equal(dfgen.read_manifest("pets.manifest")["id"], other["id"])


def test_a_reader_of_parts_that_were_replaced_is_told_to_open_them_again():
    index = read_parts_index(str(written()))
    dfgen.write_manifest(frame().assign(note="other"), "pets.manifest")
    with pytest.raises(MissingFileError, match=r"written anew since it was opened: open it again"):
        read_part(index, index.parts[0])


def test_the_number_of_a_part_that_was_removed_is_not_given_again():
    written(30)
    dfgen.write_manifest(dfgen.read_manifest("pets.manifest").head(20), "pets.manifest")
    assert parts_of() == ["part-00000.parquet", "part-00001.parquet"]
    written(30)
    assert parts_of() == ["part-00000.parquet", "part-00001.parquet", "part-00003.parquet"]


def test_a_folder_of_something_else_is_not_written_into():
    Path("pets.manifest").mkdir()
    Path("pets.manifest/notes.txt").write_text("mine")
    with pytest.raises(WriteError, match=r"and is no manifest: it holds 'notes.txt'"):
        written()


def test_remains_of_a_killed_writer_are_replaced():
    Path("pets.manifest").mkdir()
    Path("pets.manifest/part-00007.parquet").write_bytes(b"half")
    written()
    assert len(parts_of()) == 2


KILLED = """
import os, signal, sys
import pandas as pd
import dfgen
from dfgen.manifest import parts_writer

parts_writer.PART_ROWS, place = 20, int(sys.argv[1])
calls = 0

def counted(_, event, function):
    global calls
    if event == "c_call" and function.__name__ in ("write", "fsync", "replace", "unlink"):
        calls += 1
        if calls == place:
            os.kill(os.getpid(), signal.SIGKILL)

frame = pd.DataFrame({"id": range(50), "path": [f"s3://b/{n}" for n in range(50)], "kind": "new"})
sys.setprofile(counted)
dfgen.write_manifest(frame, "pets.manifest")
sys.setprofile(None)
print(calls)
"""


@pytest.mark.slow
def test_a_writer_that_is_killed_anywhere_leaves_the_old_manifest_or_the_new_one():
    def write(place):
        given = [sys.executable, "-c", KILLED, str(place)]
        return subprocess.run(given, stdout=subprocess.PIPE, check=False)

    written()
    old, there = dfgen.read_manifest("pets.manifest"), {*os.listdir("pets.manifest")}
    shutil.copytree("pets.manifest", "kept")
    calls = int(write(0).stdout)
    new = dfgen.read_manifest("pets.manifest")
    places = random.Random(7).sample(range(1, calls + 1), 20)
    outcomes = set()
    for place in places:
        shutil.rmtree("pets.manifest")
        shutil.copytree("kept", "pets.manifest")
        assert write(place).returncode == -signal.SIGKILL
        found = dfgen.read_manifest("pets.manifest")
        outcomes.add(len(found))
        pd.testing.assert_frame_equal(found, old if len(found) == len(old) else new)
        dfgen.write_manifest(old, "pets.manifest")
        pd.testing.assert_frame_equal(dfgen.read_manifest("pets.manifest"), old)
        names = {*os.listdir("pets.manifest")}
        assert len(names) == len(there) and not [name for name in names if "tmp" in name]
    assert outcomes == {len(old), len(new)}
