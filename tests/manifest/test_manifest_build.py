import os
import warnings

import pandas as pd
import pytest
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError
from dfgen.manifest.sources import file_tree

KINDS = ("cat", "dog")


@pytest.fixture
def data(tmp_path):
    """Twelve images of two kinds in folders, and labels.csv beside them."""
    for row in range(12):
        folder = tmp_path / "imgs" / KINDS[row % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 3)).save(folder / f"img_{row:03d}.png")
    labels = pd.DataFrame(
        {
            "object_id": [f"{row:03d}" for row in range(12)],
            "colour": ["red", "green", "blue"] * 4,
            "fast": [True, False] * 6,
            "grade": [10, 9, 2] * 4,
            "age": [row / 2 for row in range(12)],
        }
    )
    labels.to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path


JOINED = {"pattern": "{kind}/img_{id}.png", "on": "id=object_id"}


def build_joined(data, **options):
    options = {**JOINED, "labels": data / "labels.csv", **options}
    return dfgen.build_manifest(data / "imgs", **options)


def refused(error, *arguments, **options):
    with pytest.raises(error) as caught:
        dfgen.build_manifest(*arguments, **options)
    return str(caught.value)


def test_a_folder_alone_has_paths_as_ids(data):
    frame = dfgen.build_manifest(data / "imgs")
    assert frame["id"].tolist()[:2] == ["cat/img_000.png", "cat/img_002.png"]
    assert frame["path"].tolist()[:1] == [f"{data}/imgs/cat/img_000.png"]
    assert frame["width"].tolist() == [4] * 12
    assert list(frame.columns) == [
        "id", "path", "bytes", "mtime_ns", "format", "width", "height", "channels", "orientation",
        "bits", "frames", "sample_rate", "problem",
    ]  # fmt: skip


def test_files_get_their_labels(data):
    frame = build_joined(data, category=["grade"], facts="none")
    by_id = frame.set_index("id")
    assert list(frame.columns) == ["id", "path", "kind", "colour", "fast", "grade", "age"]
    assert by_id.loc["007", "path"] == f"{data}/imgs/dog/img_007.png"
    assert by_id.loc["007", ["kind", "colour", "fast", "grade", "age"]].tolist() == [
        "dog", "green", "False", "9", 3.5,
    ]  # fmt: skip
    names = {name: list(frame[name].cat.categories) for name in ("colour", "fast", "grade")}
    assert names == {
        "colour": ["blue", "green", "red"],
        "fast": ["False", "True"],
        "grade": ["2", "9", "10"],
    }


def test_what_is_built_is_what_is_read(data):
    split = {"train": 0.5, "val": 0.5}
    frame = build_joined(data, split=split, stratify="colour", out=data / "m.parquet")
    back = dfgen.read_manifest(data / "m.parquet")
    pd.testing.assert_frame_equal(back, frame)
    assert back.attrs == frame.attrs
    assert frame.attrs["dfgen"]["root"] == str(data / "imgs")
    assert frame.attrs["dfgen"]["recipe"] == {
        "source": str(data / "imgs"),
        "pattern": "{kind}/img_{id}.png",
        "labels": str(data / "labels.csv"),
        "on": "id=object_id",
        "unmatched": "error",
        "facts": "header",
        "split": split,
        "stratify": "colour",
        "seed": 0,
    }
    assert pd.crosstab(frame["colour"], frame["split"]).to_numpy().tolist() == [[2, 2]] * 3


def test_a_frame_of_labels_with_a_named_index(data):
    labels = pd.read_csv(data / "labels.csv", dtype={"object_id": str}).set_index("object_id")
    labels["colour"] = pd.Categorical(labels["colour"], categories=["red", "green", "blue", "pink"])
    frame = build_joined(data, labels=labels, label=["colour"], facts="none")
    assert list(frame.columns) == ["id", "path", "colour"]
    assert list(frame["colour"].cat.categories) == ["red", "green", "blue", "pink"]
    assert frame.attrs["dfgen"]["recipe"]["labels"] == "a DataFrame"


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_a_table_that_names_its_files(data):
    table = pd.DataFrame(
        {
            "id": ["1", "2", "3"],
            "file": ["imgs/cat/img_000.png", str(data / "imgs/dog/img_001.png"), "imgs/no.png"],
            "kind": ["cat", "dog", None],
        }
    )
    table.to_csv(data / "t.csv", index=False)
    frame = dfgen.build_manifest(labels=data / "t.csv", path_column="file")
    assert frame["id"].tolist() == [1, 2, 3]
    assert frame["path"].tolist() == [
        f"{data}/imgs/cat/img_000.png", f"{data}/imgs/dog/img_001.png", f"{data}/imgs/no.png",
    ]  # fmt: skip
    assert frame["problem"].fillna("").tolist() == ["", "", "the file does not exist"]
    table["id"] = ["1", "02", "3"]
    table.to_csv(data / "t.csv", index=False)
    frame = dfgen.build_manifest(labels=data / "t.csv", path_column="file", root=data)
    assert frame["id"].tolist() == ["1", "02", "3"]


def test_a_file_that_a_table_names_in_several_spellings_has_one_id(data):
    names = ["cat/img_000.png", "./cat/img_000.png", "dog//img_001.png", ".//dog/./img_001.png"]
    table = pd.DataFrame({"file": names, "kind": ["x", "y", "x", "y"]})
    table.to_csv(data / "t.csv", index=False)
    how = {"labels": data / "t.csv", "path_column": "file", "root": data / "imgs"}
    message = refused(ManifestError, **how)
    assert "on several rows" in message
    assert '"cat/img_000.png"' in message and '"dog/img_001.png"' in message
    table[1::2].to_csv(data / "t.csv", index=False)
    assert dfgen.build_manifest(**how)["id"].tolist() == ["cat/img_000.png", "dog/img_001.png"]


def test_another_column_as_id(data):
    frame = build_joined(data, pattern="{kind}/{name}.png", on="name=file", id="object_id",
                         labels=pd.DataFrame({"file": [f"img_{n:03d}" for n in range(12)],
                                              "object_id": range(12)}))  # fmt: skip
    assert frame["id"].tolist()[:3] == [0, 2, 4]
    assert list(frame.columns)[:4] == ["id", "path", "kind", "name"]


def test_a_split_in_the_folder_names(data):
    frame = dfgen.build_manifest(data / "imgs", pattern="{split}/img_{id}.png", facts="none")
    assert frame["split"].value_counts().to_dict() == {"cat": 6, "dog": 6}
    assert refused(
        ManifestError, data / "imgs", pattern="{split}/img_{id}.png", split={"train": 1}
    ) == (
        'split= (--split) was given, and the rows have a column "split" already. Leave split out '
        "to use it, or rename it"
    )


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_unmatched_rows_are_refused_kept_or_dropped(data):
    os.remove(data / "imgs/cat/img_000.png")
    Image.new("L", (4, 3)).save(data / "imgs/cat/img_999.png")
    options = {**JOINED, "labels": data / "labels.csv"}
    message = refused(ManifestError, data / "imgs", **options)
    assert message.splitlines()[1:3] == [
        f"1 of 12 files have no row in {data}/labels.csv, 11 have one:",
        '  "999"',
    ]
    kept = build_joined(data, unmatched="keep").set_index("id")
    assert len(kept) == 13
    assert pd.isna(kept.loc["999", "colour"])
    assert kept.loc["000", "problem"] == "no file for this row of labels: object_id 000"
    assert kept.loc["000", "colour"] == "red"
    with pytest.warns(UserWarning) as caught:
        assert len(build_joined(data, unmatched="drop")) == 11
    assert [str(warning.message) for warning in caught] == [
        f"Left out 1 file without a row in {data}/labels.csv.",
        f"Left out 1 row of {data}/labels.csv without a file.",
    ]


def test_a_class_that_a_split_lacks_is_warned_of(data):
    labels = pd.DataFrame({"id": [f"{n:03d}" for n in range(12)], "rare": ["x"] + ["y"] * 11})
    options = {"labels": labels, "on": "id", "split": {"train": 0.75, "val": 0.25}}
    message = (
        'Split "val" has no row with rare = "x". Split with stratify=rare (--stratify rare), or '
        "give the class more rows."
    )
    with pytest.warns(UserWarning) as caught:
        build_joined(data, **options, label=["rare"], facts="none")
    assert [str(warning.message) for warning in caught] == [message]
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning) as caught:
        build_joined(data, **options, stratify="rare", facts="none")
    assert [str(warning.message) for warning in caught] == [
        'Split "val" has no row with rare = "x". Give the class more rows, or leave it out.'
    ]


def test_a_split_of_the_table_without_rows_is_warned_of(data):
    split = pd.Categorical(["train"] * 12, categories=["train", "val"])
    labels = pd.DataFrame({"id": [f"{n:03d}" for n in range(12)], "split": split})
    with pytest.warns(UserWarning) as caught:
        build_joined(data, labels=labels, on="id", facts="none")
    assert [str(warning.message) for warning in caught] == ['Split "val" has no row.']


def test_one_column_may_be_named_without_a_list(data):
    frame = build_joined(data, category="grade", label="colour", facts="none")
    assert list(frame.columns) == ["id", "path", "colour", "grade"]
    assert list(frame["grade"].cat.categories) == ["2", "9", "10"]


@pytest.mark.parametrize("fast", [[True] * 12, pd.array([True] * 12, "boolean")])
def test_booleans_have_both_classes_even_if_one_does_not_occur(data, fast):
    labels = pd.DataFrame({"id": [f"{n:03d}" for n in range(12)], "fast": fast})
    frame = build_joined(data, labels=labels, on="id", facts="none")
    assert list(frame["fast"].cat.categories) == ["False", "True"]


def test_half_floats_are_numbers(data):
    labels = pd.DataFrame({"id": [f"{n:03d}" for n in range(12)]})
    labels["half"] = labels.index.to_numpy().astype("float16")
    frame = build_joined(data, labels=labels, on="id", facts="none", out=data / "m.parquet")
    assert dfgen.read_manifest(data / "m.parquet")["half"].tolist() == frame["half"].tolist()
    assert sorted(frame["half"]) == list(range(12))
    assert frame.attrs["dfgen"]["labels"]["half"] == {"kind": "number"}


def test_a_split_of_a_table_stays_beside_the_labels_that_are_named(data):
    table = pd.DataFrame({"path": ["a", "b"], "kind": ["x", "x"], "age": 1, "split": ["val", "t"]})
    frame = dfgen.build_manifest(labels=table, path_column="path", label="kind", facts="none")
    assert [*frame] == ["id", "path", "kind", "split"]


@pytest.mark.parametrize("at_once", [65_536, 2])
def test_files_of_other_kinds_and_hidden_ones_are_warned_of_once(data, monkeypatch, at_once):
    monkeypatch.setattr(file_tree, "FILES_A_GROUP", at_once)
    for name in ("a.txt", "b.txt", "c.docx", ".hidden.png"):
        (data / "imgs" / name).touch()
    with pytest.warns(UserWarning) as caught:
        dfgen.build_manifest(data / "imgs", pattern="{kind}/img_00{id}.png", facts="none")
    assert [str(warning.message) for warning in caught] == [
        "Left out: 1 path, .docx: c.docx\nLeft out: 2 paths, .txt: a.txt, b.txt\n"
        "Left out: 1 path, hidden: .hidden.png\n"
        "Left out: 2 paths, not of the pattern: cat/img_010.png, dog/img_011.png\n"
        'Widen the pattern "{kind}/img_00{id}.png", or move files that are no samples elsewhere.'
    ]
    assert caught[0].filename == __file__


def test_duplicate_ids_are_refused_before_any_file_is_opened(data):
    assert refused(ManifestError, data / "imgs", pattern="{id}/{name}.png") == (
        'the field {id} of the pattern "{id}/{name}.png" is the same in several paths, as "cat" in '
        "6, expected the id of one row. If names repeat in other folders, rename the field, "
        '"{file}/{name}.png", and the paths are the ids'
    )


def test_columns_that_do_not_exist_are_named_with_the_nearest(data):
    options = {**JOINED, "labels": data / "labels.csv"}
    known = "Columns: kind, id, object_id, colour, fast, grade, age"
    for argument in ("label", "category"):
        assert refused(ArgumentError, data / "imgs", **options, **{argument: ["color"]}) == (
            f'{argument}="color" is not a column. Did you mean "colour"? {known}'
        )
    assert refused(ArgumentError, data / "imgs", **options, id="objectid") == (
        f'id="objectid" is not a column. Did you mean "object_id"? {known}'
    )
    assert refused(ArgumentError, data / "imgs", split={"a": 1}, stratify="kind") == (
        'stratify="kind" is not a column. Columns: none; a pattern or a label table makes some'
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing to build from: give a folder of files, or a table that names them with "
         "labels= and path_column= (--labels TABLE --path-column COLUMN)"),
        ({"source": "imgs", "labels": "l.csv"},
         "labels= needs on= (--on): which part of a file's path is the key of which column of the "
         "table. FIELD=COLUMN, where FIELD is a field of the pattern, name, stem or relpath"),
        ({"source": "imgs", "on": "id"},
         "on= (--on) joins the files of a folder with labels= (--labels): give both"),
        ({"source": "imgs", "labels": "l.csv", "path_column": "file"},
         "path_column= is for a table that names its files itself: leave the folder out, and say "
         "with root= (--root) where relative paths start"),
        ({"labels": "l.csv", "path_column": "file", "pattern": "{id}.png"},
         "pattern= (--pattern) goes with source= or voc=: give that, or leave "
         "pattern= out"),
        ({"source": "imgs", "unmatched": "dorp"},
         'unmatched="dorp" is unknown. Did you mean "drop"? Expected: "error", "keep", "drop"'),
        ({"source": "imgs", "split": {"train": 1.0}, "group_duplicates": True},
         "group_duplicates= (--group-duplicates) finds copies by what all of a file tells: give "
         'facts="full" (--facts full), which decodes every file once'),
        ({"source": "imgs", "facts": "all"},
         'facts="all" is unknown. Expected: "none", "header", "full"'),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_together_are_refused(options, message):
    assert refused(ArgumentError, **options) == message


def test_a_manifest_without_rows_is_refused(data):
    labels = pd.DataFrame({"object_id": ["x"]})
    assert refused(ManifestError, data / "imgs", **JOINED, labels=labels, unmatched="drop") == (
        "the manifest would have no rows: the source or the label table is empty, or no file has a "
        'row in it. Check labels= and on=, and see with unmatched="error" what does not match'
    )


def test_a_float_column_is_no_category(data):
    assert "category=" in refused(
        ManifestError, data / "imgs", **JOINED, labels=data / "labels.csv", category=["age"]
    )


def test_a_root_above_the_source(data):
    frame = dfgen.build_manifest(data / "imgs", root=data, facts="none", out=data / "m.parquet")
    assert frame.attrs["dfgen"]["root"] == str(data)
    assert pd.read_parquet(data / "m.parquet")["path"][0] == "imgs/cat/img_000.png"
    assert refused(DfgenError, data / "imgs", root=data / "imgs" / "cat").startswith(
        f'6 of 12 paths of the frame cannot be used: the path is not in root="{data}/imgs/cat".'
    )


def test_nothing_is_said_when_nothing_is_amiss(data, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_joined(data)
    assert capsys.readouterr() == ("", "")


def test_an_index_that_pandas_wrote_without_a_name_is_called_as_pandas_calls_it(tmp_path):
    names = ["Unnamed: 0.1", "Unnamed: 0", "path", "kind"]
    frame = pd.DataFrame([[0, 0, "a.png", "cat"], [1, 1, "b.png", "dog"]], columns=names)
    frame.rename(columns={"Unnamed: 0.1": ""}).to_csv(tmp_path / "labels.csv", index=False)
    built = dfgen.build_manifest(labels=tmp_path / "labels.csv", path_column="path", facts="none")
    assert [*pd.read_csv(tmp_path / "labels.csv")] == names
    assert {*names} == {*built} - {"id", "split"}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"path_column": "file"}, ManifestError,
         'path_column="file" (--path-column), but the label table also has a column "path". '
         "Rename that one, or leave it out with label= (--label)"),
        ({"path_column": "file", "id": "key", "label": ["id", "age"]}, ManifestError,
         'id="key" (--id), but there is a column "id" as well. Rename that one, or leave id out'),
        ({"path_column": "far", "label": "age", "root": None}, ArgumentError,
         "foo://bucket/a.png is an address, which dfgen does not open to read headers. Give "
         'facts="none" (--facts none), or with root= (--root) the folder where the files are '
         "mounted"),
    ],
    ids=["two paths", "two ids", "addresses"],
)  # fmt: skip
def test_columns_of_a_table_that_names_its_files_are_told_apart(data, options, error, message):
    table = pd.DataFrame({"path": "x", "key": [*"abc"], "id": range(3), "age": 1.5})
    table["file"] = [f"imgs/{KINDS[row % 2]}/img_{row:03d}.png" for row in range(3)]
    table["far"] = "foo://bucket/a.png"
    options = {"root": data, **options}
    assert refused(error, labels=table, **options) == message
