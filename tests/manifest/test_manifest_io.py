"""Manifests are written whole, read as they were written, and refused if they are damaged."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError, MissingFileError, WriteError
from dfgen.manifest import writing

FRAME = pd.DataFrame(
    {
        "id": ["007", "8", "é\n"],
        "path": [f"{Path(__file__).parent}/{name}" for name in ("a.png", "b/c d.jpg", "b/é.png")],
        "kind": pd.Categorical(["cat", None, "dog"], categories=["dog", "cat", "bird"]),
        "grade": pd.Categorical([2, 1, 2], categories=[3, 2, 1], ordered=True),
        "age": [1.5, float("nan"), 3.0],
        "count": [1, 2, 3],
        "tags": [["x", "y"], [], None],
        "split": pd.Categorical(["train", "val", "train"], categories=["train", "val", "test"]),
        "width": pd.array([4, None, 6], dtype="Int32"),
        "problem": [None, "the file does not exist", None],
    }
)


def plain(rows=3):
    return pd.DataFrame({"id": range(rows), "path": [f"/data/{row}.png" for row in range(rows)]})


def key_of(path):
    return json.loads(pq.read_schema(path).metadata[b"dfgen"])


def rewrite(path, table=None, **changes):
    """Change rows and the key of a manifest, as another program might."""
    table = pq.read_table(path) if table is None else table
    content = json.loads(table.schema.metadata[b"dfgen"])
    key = json.dumps({name: v for name, v in (content | changes).items() if v != "gone"})
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"dfgen": key}), path)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
NAME = st.text(st.characters(codec="utf-8", exclude_characters="\0/\\"), min_size=1, max_size=8)


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 6))
    names = draw(st.lists(TEXT, min_size=1, max_size=4, unique=True))
    folders = NAME.filter(lambda name: name not in (".", ".."))

    def column(values):
        return draw(st.lists(values, min_size=rows, max_size=rows))

    ids = draw(st.sampled_from([st.integers(-(2**63), 2**63 - 1), TEXT.filter(bool)]))
    codes = column(st.integers(-1, len(names) - 1))
    return pd.DataFrame(
        {
            "id": draw(st.lists(ids, min_size=rows, max_size=rows, unique=True)),
            "path": ["/r/" + "/".join(parts) for parts in column(st.lists(folders, min_size=1))],
            "kind": pd.Categorical.from_codes(codes, names, ordered=draw(st.booleans())),
            "grade": pd.Categorical(column(st.sampled_from([3, 1])), categories=[3, 2, 1]),
            "note": pd.Series(column(st.none() | TEXT), dtype=object),
            "age": column(st.floats(width=64)),
            "count": column(st.integers(-(2**63), 2**63 - 1)),
            "ok": column(st.booleans()),
            "width": pd.array(column(st.none() | st.integers(0, 99)), dtype="Int32"),
        },
        index=draw(st.lists(st.integers(), min_size=rows, max_size=rows)),
    )


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=frames())
def test_any_frame_comes_back(tmp_path, frame):
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    back, expected = dfgen.read_manifest(tmp_path / "m.parquet"), frame.reset_index(drop=True)
    for name in ("note", "path"):  # object or str, as pandas chooses
        values = [[None if pd.isna(v) else v for v in each.pop(name)] for each in (back, expected)]
        assert values[0] == values[1]
    pd.testing.assert_frame_equal(back, expected, check_dtype=False, check_categorical=True)
    dfgen.write_manifest(dfgen.read_manifest(tmp_path / "m.parquet"), tmp_path / "again.parquet")
    first, again = (pq.read_table(tmp_path / name) for name in ("m.parquet", "again.parquet"))
    assert again.cast(first.schema).equals(first)  # text of pandas becomes large_string
    assert key_of(tmp_path / "again.parquet") == key_of(tmp_path / "m.parquet")


def test_file_has_checksummed_row_groups_and_final_name(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "GROUP_ROWS", 4)
    dfgen.write_manifest(iter([plain(5), plain(9)[5:]]), tmp_path / "m.parquet", root="/data")
    with pq.ParquetFile(tmp_path / "m.parquet") as file:
        groups = [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)]
    assert groups == [4, 4, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["m.parquet"]
    (tmp_path / "other").touch()
    assert (tmp_path / "m.parquet").stat().st_mode == (tmp_path / "other").stat().st_mode
    data = bytearray((tmp_path / "m.parquet").read_bytes())
    place = data.index(b"8.png")
    data[place] ^= 1
    (tmp_path / "m.parquet").write_bytes(data)
    for where in (None, "id > 3"):
        with pytest.raises(ManifestError, match=r"m\.parquet"):
            dfgen.read_manifest(tmp_path / "m.parquet", where=where)


def test_batches_share_class_names_and_columns(tmp_path):
    out = tmp_path / "m.parquet"
    one = plain(2).assign(kind=pd.Categorical(["b", "a"]), split="train")
    two = plain(4)[2:].assign(kind=pd.Categorical(["c", None]), split="val")
    dfgen.write_manifest(iter([one, two]), out, root="/data")
    frame = dfgen.read_manifest(out)
    assert frame["kind"].cat.categories.tolist() == ["a", "b", "c"]
    assert frame["kind"].cat.codes.tolist() == [1, 0, 2, -1]
    assert frame["split"].tolist() == ["train"] * 2 + ["val"] * 2
    table = pa.Table.from_pandas(frame)
    dfgen.write_manifest(table.to_reader(1), tmp_path / "again.parquet", root="/data")
    assert key_of(tmp_path / "again.parquet")["fingerprint"] == key_of(out)["fingerprint"]
    before = out.read_bytes()
    for batches, error, word in (
        ([one, one], ManifestError, "several rows"),
        ([one, two.drop(columns="split")], ManifestError, "columns"),
        ([one, two.assign(kind=[[1], [2]])], ManifestError, "kind"),
        ([], ManifestError, "batch"),
    ):
        with pytest.raises(error, match=word):
            dfgen.write_manifest(iter(batches), out, root="/data")
    with pytest.raises(ArgumentError, match="root="):
        dfgen.write_manifest(iter([one]), out)
    assert out.read_bytes() == before


def test_filtered_manifest_is_written_in_its_place(tmp_path):
    rows = 3000
    out = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(rows), out)
    size = out.stat().st_size
    frame = dfgen.read_manifest(out)
    dfgen.write_manifest(frame[:10], out)
    assert out.stat().st_size < size / 5
    assert dfgen.read_manifest(out)["id"].tolist() == [*range(10)]


def test_too_many_class_names_keep_the_old_file(tmp_path):
    out = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(), out)
    before = out.read_bytes()
    names = [f"{number:0100d}" for number in range(180_000)]
    with pytest.raises(ManifestError, match=r"kind(.|\n)*180,000 class names"):
        dfgen.write_manifest(plain().assign(kind=pd.Categorical(names[:3], names)), out)
    assert out.read_bytes() == before


def test_class_names_without_rows_keep_their_numbers(tmp_path):
    names = [f"class number {number}" for number in range(60_000)][::-1]
    frame = plain(30_000).assign(kind=pd.Categorical.from_codes(np.arange(60_000)[::2], names))
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    back = dfgen.read_manifest(tmp_path / "m.parquet")
    pd.testing.assert_series_equal(back["kind"], frame["kind"])


@pytest.mark.parametrize(
    ("paths", "root", "stored"),
    [
        (["/data/x/a.png", "/data/xy/b.png"], "/data", ["x/a.png", "xy/b.png"]),
        (["/data/./x//a.png", "/data/y/../b.png"], "/data", ["x/a.png", "b.png"]),
        (["/data/a.png", "/other/b.png"], None, ["/data/a.png", "/other/b.png"]),
        (["s3://bucket/a.png"], None, ["s3://bucket/a.png"]),
        (["{}/a.png", "{}/b/c.png"], ".", ["a.png", "b/c.png"]),
        (["imgs/a.png", "./imgs/b.png"], "imgs", ["a.png", "b.png"]),
    ],
)
def test_root_is_the_deepest_common_folder_or_none(tmp_path, monkeypatch, paths, root, stored):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"id": range(len(paths)), "path": [p.format(tmp_path) for p in paths]})
    dfgen.write_manifest(frame, "m.parquet")
    assert key_of("m.parquet")["root"] == root
    assert pq.read_table("m.parquet")["path"].to_pylist() == stored


def test_path_outside_the_given_root_is_refused(tmp_path):
    with pytest.raises(ManifestError, match=r'root="/elsewhere"(.|\n)*/data/0\.png'):
        dfgen.write_manifest(plain(2), tmp_path / "m.parquet", root="/elsewhere")


STORED = ["../a.png", "x/../../a.png", "x\\..\\a.png", "/etc/a.png", "s3://bucket/a.png", "a\0.png"]


@pytest.mark.filterwarnings("ignore:.*fingerprint")
@pytest.mark.parametrize("path", STORED)
def test_stored_paths_are_checked(tmp_path, path):
    dfgen.write_manifest(plain(2), tmp_path / "m.parquet")
    table = pq.read_table(tmp_path / "m.parquet")
    pq.write_table(table.set_column(1, "path", [["0.png", path]]), tmp_path / "m.parquet")
    for options in ({}, {"columns": ["path"]}, {"where": "id == 1"}):
        with pytest.raises(ManifestError, match="path") as caught:
            dfgen.read_manifest(tmp_path / "m.parquet", **options)
        assert json.dumps(path) in str(caught.value)


@pytest.mark.parametrize("name", ["A:/x.png", "C:\\win.png", "\\x.png"])
def test_windows_absolute_names_are_read(tmp_path, name):
    file, path = tmp_path / "imgs" / name, tmp_path / "m.parquet"
    file.parent.mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(file)
    Image.new("RGB", (4, 4)).save(tmp_path / "imgs" / "b.png")
    built = dfgen.build_manifest(tmp_path / "imgs", out=path)
    assert set(built["id"]) == {name, "b.png"} and built["problem"].isna().all()
    assert dfgen.read_manifest(path, where=f"path == {str(file)!r}")["id"].tolist() == [name]
    assert dfgen.verify(path).empty
    with dfgen.Sequence(path, image_size=(4, 4)) as sequence:
        assert len(sequence[0][0]) == 2


def test_relative_path_without_root_is_refused(tmp_path):
    path = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(1), path)
    rewrite(path, root=None)
    with pytest.raises(ManifestError, match="root="):
        dfgen.read_manifest(path)
    assert dfgen.read_manifest(path, root="/here")["path"].tolist() == ["/here/0.png"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"format": 2}, "format 2"), ({"format": "x"}, "damaged"), ({"recipe": "gone"}, "recipe"),
        ({"labels": {"kind": {}}}, "kind"), ({"root": 3}, "root"), ({"fingerprint": "x"}, "print"),
        ({"labels": {"id": {"kind": "category", "class_names": ["a"]}}}, "class names"),
    ],
)  # fmt: skip
def test_wrong_keys_are_refused(tmp_path, changes, word):
    path = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(), path)
    rewrite(path, unknown_entry=3)
    assert len(dfgen.read_manifest(path)) == 3
    rewrite(path, **changes)
    with pytest.raises(ManifestError, match=word):
        dfgen.read_manifest(path)


@pytest.mark.filterwarnings("ignore:.*fingerprint")
def test_value_outside_the_class_names_is_refused(tmp_path):
    path = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(2).assign(kind=pd.Categorical(["a", "b"])), path)
    rewrite(path, pq.read_table(path).set_column(2, "kind", [["a", "x"]]))
    with pytest.raises(ManifestError, match=r"row 1 has kind='x'"):
        dfgen.read_manifest(path)


def test_class_names_of_bytes_are_refused(tmp_path):
    dfgen.write_manifest(plain(2).assign(kind=[b"cat", b"dog"]), tmp_path / "m.parquet")
    labels = {"kind": {"kind": "category", "class_names": ["cat", "dog"]}}
    rewrite(tmp_path / "m.parquet", labels=labels)
    with pytest.raises(ManifestError, match="binary, which cannot hold its class names"):
        dfgen.read_manifest(tmp_path / "m.parquet")


def test_advice_on_categories_keeps_their_order(tmp_path):
    grade = pd.Categorical([2.5, None, 1.5], categories=[2.5, 1.5], ordered=True)
    frame = plain().assign(grade=grade)
    with pytest.raises(ManifestError) as error:
        dfgen.write_manifest(frame, tmp_path / "m.parquet")
    names = {"df": frame}
    exec(str(error.value).partition(": ")[2], names)
    dfgen.write_manifest(names["df"], tmp_path / "m.parquet")
    again = dfgen.read_manifest(tmp_path / "m.parquet")["grade"]
    assert again.cat.ordered and again.cat.categories.tolist() == ["2.5", "1.5"]
    assert again.isna().tolist() == [False, True, False]


@pytest.mark.parametrize("columns", [["path"], ["kind"]])
def test_faulty_columns_are_named_without_ids(tmp_path, columns):
    frame = plain(2).assign(kind=pd.Categorical(["cat", "dog"]))
    dfgen.write_manifest(frame, tmp_path / "m.parquet", root="/data")
    table = pq.read_table(tmp_path / "m.parquet")
    places = pa.array(["../0.png", "1.png"])
    table = table.set_column(1, "path", places).set_column(2, "kind", pa.array(["cat", "bird"]))
    rewrite(tmp_path / "m.parquet", table)
    with pytest.raises(ManifestError, match=r"bird|leaves its root"):
        dfgen.read_manifest(tmp_path / "m.parquet", columns=columns)


def test_images_on_another_disk_are_no_warning(tmp_path):
    dfgen.write_manifest(plain(2).assign(width=[1, 2]), tmp_path / "m.parquet")
    assert key_of(tmp_path / "m.parquet")["root"] == "/data"
    assert len(dfgen.read_manifest(tmp_path / "m.parquet")) == 2
    with dfgen.Sequence(tmp_path / "m.parquet", x=dfgen.Number("width"), batch_size=2) as rows:
        assert len(rows) == 1


def test_changed_rows_are_a_warning(tmp_path):
    path = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(2), path)
    rewrite(path, pq.read_table(path).take([1, 0]))
    with pytest.warns(UserWarning, match="fingerprint"):
        assert dfgen.read_manifest(path)["id"].tolist() == [1, 0]
    dfgen.read_manifest(path, columns=["id"])


@pytest.mark.parametrize("content", ["table", "text", "folder", "nothing", "csv"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / ("m.csv" if content == "csv" else "pets.parquet")
    if content == "table":
        plain().to_parquet(path)
    elif content == "folder":
        path.mkdir()
    elif content != "nothing":
        path.write_text("id,path\n1,a.png\n")
    else:
        dfgen.write_manifest(plain(), path.with_name("pet.parquet"))
    error = MissingFileError if content == "nothing" else ManifestError
    words = {"table": "write_manifest", "nothing": 'Did you mean "pet.parquet"'}
    with pytest.raises(error, match=words.get(content, path.name)):
        dfgen.read_manifest(path)


@pytest.mark.parametrize("name", ["m.csv", "m.xlsx", "file/m.parquet", "no/m.parquet", "", "other"])
def test_places_that_cannot_be_written_are_refused(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "other").write_text("mine")
    with pytest.raises((WriteError, ManifestError)):
        dfgen.write_manifest(plain(), tmp_path / name)
    for name in ("m", "m.pq", "M.PARQUET"):
        dfgen.write_manifest(plain(), tmp_path / name)


WRONG = ["width in [1, 'a']", "width > 'a'", "kind == 1", "seen == 3", "problem in [None]", "count"]


@pytest.mark.parametrize("where", [*WRONG, pc.field("count") + 1, pc.field("kind") > 3])
def test_wrong_conditions_name_themselves(tmp_path, where):
    dfgen.write_manifest(FRAME.assign(seen=True), tmp_path / "m.parquet")
    with pytest.raises(ArgumentError, match="where="):
        dfgen.read_manifest(tmp_path / "m.parquet", where=where)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("grade > 2", ["8"]), ("kind.isna()", ["8"]), ("not kind == 'dog'", ["007", "8"]),
        ("tags.isna()", ["é\n"]), ("count == 9223372036854775807", []), ("age != age", ["8"]),
        ("problem.str.contains('exist')", ["8"]), ("width > 4 or count == 1", ["007", "é\n"]),
        (pc.field("count").isin([2, 3]) & pc.field("age").is_valid(), ["é\n"]),
        (pc.match_substring(pc.field("path"), "c d"), ["8"]),
    ],
)  # fmt: skip
def test_conditions_are_those_of_one_row_group(tmp_path, monkeypatch, where, ids, rows):
    monkeypatch.setattr(writing, "GROUP_ROWS", rows)
    dfgen.write_manifest(FRAME, tmp_path / "m.parquet")
    assert dfgen.read_manifest(tmp_path / "m.parquet", where=where)["id"].tolist() == ids


def test_empty_frame_is_a_manifest(tmp_path):
    dfgen.write_manifest(plain(0), tmp_path / "m.parquet")
    back = dfgen.read_manifest(tmp_path / "m.parquet")
    assert list(back.columns) == ["id", "path"] and len(back) == 0


def test_reading_imports_no_builder(tmp_path):
    dfgen.write_manifest(plain(), tmp_path / "m.parquet")
    code = (
        f"import sys, dfgen; dfgen.read_manifest({str(tmp_path / 'm.parquet')!r}, where='id > 1')\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('cv2', 'yaml') or 'xml.etree' in m\n"
        "       or m.startswith(('dfgen.manifest.building', 'dfgen.manifest.sources'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_file_that_is_no_manifest_is_not_replaced(tmp_path):
    path = tmp_path / "m.parquet"
    plain().to_parquet(path)
    with pytest.raises(DfgenError, match=r"m\.parquet"):
        dfgen.write_manifest(plain(), path)
