import json
import string
from pathlib import Path

import numpy as np
import pandas as pd
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dfgen
from dfgen.errors import ManifestError, MissingFileError, WriteError
from dfgen.manifest.table_reading import read_table

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


def missing_as_none(column):
    return [None if pd.isna(value) else value for value in column]


def stored(path):
    """Return the paths as stored and the dfgen key."""
    table = pq.read_table(path)
    return table["path"].to_pylist(), json.loads(table.schema.metadata[b"dfgen"])


def rewrite(path, change):
    """Change the dfgen key of a manifest as another program might."""
    table = pq.read_table(path)
    metadata = {**table.schema.metadata, b"dfgen": change(table.schema.metadata[b"dfgen"])}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def refuses(path, error=ManifestError, **arguments):
    with pytest.raises(error) as caught:
        dfgen.read_manifest(path, **arguments)
    return str(caught.value)


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
@pytest.mark.filterwarnings("ignore:.* names files in")  # in any folder of the machine
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=frames())
def test_what_is_written_is_read_back(tmp_path, frame):
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    back = dfgen.read_manifest(tmp_path / "m.parquet")
    expected = frame.reset_index(drop=True)
    for name in ("id", "note"):  # object or str, as pandas chooses to hold text
        assert missing_as_none(back.pop(name)) == missing_as_none(expected.pop(name))
    pd.testing.assert_frame_equal(back, expected, check_dtype=False, check_categorical=True)
    assert [str(kind) for kind in back.dtypes[2:]] == [str(kind) for kind in expected.dtypes[2:]]
    again = tmp_path / "again.parquet"
    dfgen.write_manifest(dfgen.read_manifest(tmp_path / "m.parquet"), again)
    assert stored(again) == stored(tmp_path / "m.parquet")


def test_pandas_alone_reads_the_same_types(tmp_path):
    dfgen.write_manifest(FRAME.drop(columns="grade"), tmp_path / "m.parquet")
    with_pandas = pd.read_parquet(tmp_path / "m.parquet")
    with_dfgen = dfgen.read_manifest(tmp_path / "m.parquet", root="/data")
    pd.testing.assert_series_equal(with_pandas.dtypes, with_dfgen.dtypes)
    assert with_pandas["path"].tolist() == ["a.png", "b/c d.jpg", "b/é.png"]
    assert "dfgen" not in with_pandas.attrs


def test_a_filtered_frame_keeps_root_recipe_and_all_class_names(tmp_path):
    frame = plain(4).assign(kind=pd.Categorical(list("abab")))
    frame["path"] = [f"{tmp_path}/imgs/{row}/x.png" for row in range(4)]
    frame.attrs["dfgen"] = {"root": f"{tmp_path}/imgs", "labels": {}, "recipe": {"seed": 3}}
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    back = dfgen.read_manifest(tmp_path / "m.parquet")
    part = pd.concat([back[:1], back[2:3]])
    assert part.attrs == back.attrs
    dfgen.write_manifest(part, tmp_path / "part.parquet")
    paths, metadata = stored(tmp_path / "part.parquet")
    assert paths == ["0/x.png", "2/x.png"]
    assert metadata["root"] == "imgs"
    assert metadata["recipe"] == {"seed": 3}
    assert metadata["labels"]["kind"]["class_names"] == ["a", "b"]


def test_root_is_the_deepest_common_folder_or_none(tmp_path):
    def root_of(*paths):
        frame = pd.DataFrame({"id": range(len(paths)), "path": paths})
        dfgen.write_manifest(frame, tmp_path / "m.parquet")
        stored_paths, metadata = stored(tmp_path / "m.parquet")
        return metadata["root"], stored_paths

    assert root_of("/data/x/a.png", "/data/xy/b.png") == ("/data", ["x/a.png", "xy/b.png"])
    assert root_of("/data/./x//a.png", "/data/y/../b.png") == ("/data", ["x/a.png", "b.png"])
    assert root_of("/data/a.png", "/other/b.png") == (None, ["/data/a.png", "/other/b.png"])
    assert root_of("s3://bucket/a.png") == (None, ["s3://bucket/a.png"])
    assert root_of(f"{tmp_path}/a.png", f"{tmp_path}/b/c.png") == (".", ["a.png", "b/c.png"])


def test_relative_paths_start_at_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = plain(2).assign(path=["imgs/a.png", "./imgs/b.png"])
    dfgen.write_manifest(frame, "m.parquet")
    assert dfgen.read_manifest("m.parquet")["path"].tolist() == [
        f"{tmp_path}/imgs/a.png",
        f"{tmp_path}/imgs/b.png",
    ]


def test_a_path_outside_the_given_root_is_refused(tmp_path):
    with pytest.raises(ManifestError) as caught:
        dfgen.write_manifest(plain(2), tmp_path / "m.parquet", root="/elsewhere")
    assert str(caught.value) == (
        '2 of 2 paths of the frame cannot be used: the path is not in root="/elsewhere". '
        'row 0 (id 0): "/data/0.png"; row 1 (id 1): "/data/1.png". Paths are stored relative to '
        "the manifest's root, or all of them absolute"
    )


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("../a.png", 'leaves its root by ".."'),
        ("x/../../a.png", 'leaves its root by ".."'),
        ("x\\..\\a.png", 'leaves its root by ".."'),
        ("/etc/a.png", "is absolute, but has a root"),
        ("s3://bucket/a.png", "is absolute, but has a root"),
        ("a\0.png", "holds a NUL character"),
    ],
)
def test_stored_paths_are_checked(tmp_path, path, fault):
    dfgen.write_manifest(plain(2), tmp_path / "m.parquet")
    table = pq.read_table(tmp_path / "m.parquet")
    pq.write_table(table.set_column(1, "path", [["0.png", path]]), tmp_path / "m.parquet")
    assert refuses(tmp_path / "m.parquet") == (
        f"1 of 2 paths of {tmp_path / 'm.parquet'} cannot be used: the path {fault}. "
        f"row 1 (id 1): {json.dumps(path)}. Paths are stored relative to the manifest's root, or "
        "all of them absolute"
    )


@pytest.mark.parametrize("name", ["A:/x.png", "C:\\win.png", "\\x.png"])
@pytest.mark.parametrize("suffix", ["parquet", "manifest"])
def test_fault_97_what_only_windows_takes_for_absolute_is_listed_and_read(tmp_path, name, suffix):
    file, path = tmp_path / "imgs" / name, tmp_path / f"m.{suffix}"
    file.parent.mkdir(parents=True)
    PIL.Image.new("RGB", (4, 4)).save(file)
    PIL.Image.new("RGB", (4, 4)).save(tmp_path / "imgs" / "b.png")
    built = dfgen.build_manifest(tmp_path / "imgs", out=path)
    assert set(built["id"]) == {name, "b.png"}
    assert built["problem"].isna().all()
    assert dfgen.read_manifest(path, where=f"path == {str(file)!r}")["id"].tolist() == [name]
    assert dfgen.verify(path).empty
    with dfgen.Sequence(path, image_size=(4, 4)) as sequence:
        assert len(sequence[0][0]) == 2


def test_a_relative_path_without_root_is_refused(tmp_path):
    path = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(1), path)
    rewrite(path, lambda key: json.dumps({**json.loads(key), "root": None}).encode())
    assert refuses(path) == (
        f"1 of 1 paths of {path} cannot be used: the path is relative, but the manifest has no "
        'root: give root=. row 0 (id 0): "0.png". Paths are stored relative to the manifest\'s '
        "root, or all of them absolute"
    )
    assert dfgen.read_manifest(path, root="/here")["path"].tolist() == ["/here/0.png"]


def test_an_unknown_version_is_refused(tmp_path):
    path = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(), path)
    rewrite(path, lambda key: json.dumps({**json.loads(key), "format": 2}).encode())
    assert refuses(path) == (
        f"{path} has manifest format 2; this dfgen reads format 1. Upgrade dfgen, or build the "
        "manifest again with this version"
    )


def test_damaged_metadata_is_refused(tmp_path):
    path = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(), path)
    rewrite(path, lambda key: b'{"format": 1, "root": null, "labels": {}}')
    assert refuses(path) == (
        f'{path}: the "dfgen" key of the schema metadata lacks recipe, created_by, fingerprint. '
        "manifests/README.md lists its content"
    )
    rewrite(path, lambda key: b"not JSON")
    assert refuses(path) == (
        f'{path}: the "dfgen" key of the schema metadata is not a JSON object with a "format". '
        "The file was changed by another program, or is damaged: build it again"
    )


def test_a_plain_parquet_file_is_no_manifest(tmp_path):
    path = tmp_path / "m.parquet"
    plain().to_parquet(path)
    assert refuses(path) == (
        f'{path} is a Parquet file but not a manifest: its schema metadata has no "dfgen" key. '
        "Read it with pandas.read_parquet and save it with dfgen.write_manifest, root= the "
        "folder where its paths begin, or build a manifest from it: dfgen build-manifest "
        "--labels TABLE --path-column COLUMN --out M"
    )


def test_what_is_no_parquet_file_is_refused(tmp_path):
    (tmp_path / "my pets").mkdir()
    assert f"(dfgen build-manifest '{tmp_path}/my pets' --out" in refuses(tmp_path / "my pets")
    path = tmp_path / "m.parquet"
    path.write_text("id,path\n1,a.png\n")
    assert refuses(path).startswith(f"{path} cannot be read as a Parquet file: ")
    none = "is no manifest, which is a Parquet file of dfgen"
    assert refuses(tmp_path) == (
        f"{tmp_path} {none}: it is a folder: make a frame of its files, "
        f'df = dfgen.build_manifest("{tmp_path}") '
        f"(dfgen build-manifest {tmp_path} --out pets.parquet)"
    )
    path = path.rename(tmp_path / "m.csv")
    assert refuses(path) == (
        f'{path} {none}: make a frame of it, df = pd.read_csv("{path}") '
        f"(dfgen build-manifest --labels {path} --path-column path --out pets.parquet)"
    )
    path = path.rename(tmp_path / "m.toml")
    assert refuses(path) == (
        f'{path} {none}: make a frame of it, df = dfgen.build_manifest("{path}") '
        f"(dfgen build-manifest {path})"
    )


def test_a_manifest_is_not_written_under_the_extension_of_another_kind(tmp_path):
    frame = pd.DataFrame({"id": [1], "path": ["/a.png"]})
    with pytest.raises(WriteError) as caught:
        dfgen.write_manifest(frame, tmp_path / "m.csv")
    assert str(caught.value) == (
        f"{tmp_path}/m.csv is called .csv, and a manifest is a Parquet file: name it "
        f"{tmp_path}/m.parquet. For text, df.to_csv does it"
    )
    for name in ("m", "m.pq", "m.parq", "m.v2", "M.PARQUET"):
        dfgen.write_manifest(frame, tmp_path / name)
        assert len(dfgen.read_manifest(tmp_path / name, root="/")) == 1


def test_a_missing_manifest_is_named_with_the_nearest(tmp_path):
    dfgen.write_manifest(plain(), tmp_path / "pets.parquet")
    assert refuses(tmp_path / "pet.parquet", MissingFileError) == (
        f'there is no manifest {tmp_path}/pet.parquet. Did you mean "pets.parquet"?'
    )
    assert refuses(tmp_path / "no" / "pet.parquet", FileNotFoundError) == (
        f"there is no manifest {tmp_path}/no/pet.parquet: the folder {tmp_path}/no does not exist"
    )


def test_a_value_outside_the_class_names_is_refused(tmp_path):
    path = tmp_path / "m.parquet"
    dfgen.write_manifest(plain(2).assign(kind=pd.Categorical(["a", "b"])), path)
    table = pq.read_table(path)
    pq.write_table(table.set_column(2, "kind", [["a", "x"]]), path)
    assert refuses(path) == (
        f"{path}: row 1 (id 1) has kind='x', which is not among its class names ['a', 'b']. "
        "Build the manifest again"
    )


def test_an_empty_frame_is_a_manifest(tmp_path):
    dfgen.write_manifest(plain(0), tmp_path / "m.parquet")
    back = dfgen.read_manifest(tmp_path / "m.parquet")
    assert list(back.columns) == ["id", "path"]
    assert len(back) == 0


def test_a_table_is_read_without_pandas_objects(tmp_path):
    frame = plain(2).assign(grade=pd.Categorical([7, 5], categories=[7, 6, 5]))
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    table, metadata = read_table(tmp_path / "m.parquet", root="/data")
    assert isinstance(table, pa.Table)
    assert table["path"].to_pylist() == ["/data/0.png", "/data/1.png"]
    assert table["grade"].chunk(0).dictionary.to_pylist() == [7, 6, 5]
    assert metadata["root"] == "/data"
    assert set(metadata["fingerprint"]) <= set(string.hexdigits)


def test_many_class_names_keep_their_numbers(tmp_path):
    names = [f"class number {number} of a long list" for number in range(60_000)][::-1]
    kind = pd.Categorical.from_codes(np.arange(60_000)[::2], names)
    frame = plain(30_000).assign(kind=kind)
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    back = dfgen.read_manifest(tmp_path / "m.parquet", root="/data")
    pd.testing.assert_series_equal(back["kind"], frame["kind"])


def test_an_output_that_cannot_be_written_is_refused(tmp_path):
    def refused(path):
        with pytest.raises(WriteError) as caught:
            dfgen.write_manifest(plain(), path)
        return str(caught.value)

    (tmp_path / "file").touch()
    assert refused(tmp_path / "file" / "m.parquet") == (
        f"{tmp_path}/file/m.parquet cannot be written: its folder {tmp_path}/file is a file. "
        "Create the folder first, or choose another place"
    )
    assert refused(tmp_path / "no" / "m.parquet") == (
        f"{tmp_path}/no/m.parquet cannot be written: its folder {tmp_path}/no does not exist. "
        "Create the folder first, or choose another place"
    )
    assert refused(tmp_path) == (
        f"{tmp_path} is a folder: give the name of a file, such as pets.parquet"
    )


def test_a_manifest_is_readable_by_others(tmp_path):
    dfgen.write_manifest(plain(1), tmp_path / "m.parquet")
    (tmp_path / "plain").touch()
    assert (tmp_path / "m.parquet").stat().st_mode == (tmp_path / "plain").stat().st_mode
