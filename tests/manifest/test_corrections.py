"""Corrected labels and found problems go back into a manifest, each into the row of its id."""

import json
import os
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from command import run
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, ManifestError, UnknownArgumentError
from dfgen.system import only_writer


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Six images of two kinds, 000.png to 005.png, and their manifest, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for row in range(6):
        path = tmp_path / "imgs" / ("cat", "dog")[row % 2] / f"{row:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 3)).save(path)
    dfgen.build_manifest(
        "imgs", pattern="{kind}/{id}.png", split={"train": 0.5, "val": 0.5}, stratify="kind",
        out="m.parquet",
    )  # fmt: skip
    return tmp_path


@pytest.fixture
def frame():
    """Four rows with a label of each type."""
    return pd.DataFrame(
        {
            "id": [3, 7, 12, 20],
            "path": ["/x/a.png", "/x/b.png", "/x/c.png", "/x/d.png"],
            "kind": pd.Categorical(["cat", "dog", "cat", None], categories=["dog", "cat"]),
            "grade": pd.Categorical(["01", "02", "01", "02"]),
            "sick": pd.Categorical(["False", "True", "False", "True"]),
            "age": [0.5, 1.5, np.nan, 3.5],
            "legs": pd.array([4, 4, 3, 4], "Int16"),
            "free": [True, False, True, True],
            "says": ["miaow", "woof", "miaow", "woof"],
            "tags": [["a"], ["a", "b"], [], ["b"]],
            "seen": pd.to_datetime(["2020-01-01"] * 4),
        }
    )


def changes(before, after):
    found = dfgen.diff(before, after)
    columns = [found[name] for name in ("change", "id", "column", "old", "new")]
    return [tuple(None if pd.isna(v) else v for v in row) for row in zip(*columns, strict=True)]


def said(call, *arguments, error=ManifestError, **options):
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_corrections_go_to_the_rows_of_their_ids_and_class_names_keep_their_numbers(frame):
    frame.index = list("wxyz")
    before = frame.copy()
    fixed = dfgen.update_labels(frame, pd.DataFrame({"id": [12, 3], "kind": ["dog", "cat"]}))
    assert fixed["kind"].tolist()[:3] == ["cat", "dog", "dog"]
    assert list(fixed["kind"].cat.categories) == ["dog", "cat"]
    assert changes(frame, fixed) == [("relabelled", 12, "kind", "cat", "dog")]
    pd.testing.assert_frame_equal(fixed.drop(columns="kind"), frame.drop(columns="kind"))
    pd.testing.assert_frame_equal(frame, before)


def test_classes_of_many_digits_stay_as_they_are_where_some_are_missing(frame):
    grades = pd.Categorical([2**53, 2**53 + 1, None, 2**53 + 3])
    fixes = pd.DataFrame({"id": [3], "grade": [2**53 + 3]})
    after = dfgen.update_labels(frame.assign(grade=grades), fixes)
    assert after["grade"].cat.codes.tolist() == [2, 1, -1, 2]


def test_a_csv_of_a_spreadsheet_is_read_as_the_manifest_has_its_columns(frame, tmp_path):
    text = "\ufeffid,kind,grade,sick,age,legs,free,says,seen\r\n"
    text += "007,cat,01,FALSE,2,3,TRUE,miaow,2021-02-03\r\n"
    (tmp_path / "to_fix.csv").write_bytes(text.encode())
    fixed = dfgen.update_labels(frame, tmp_path / "to_fix.csv")
    *others, (change, id, column, old, new) = changes(frame, fixed)
    assert others == [
        ("relabelled", 7, "kind", "dog", "cat"),
        ("relabelled", 7, "grade", "02", "01"),
        ("relabelled", 7, "sick", "True", "False"),
        ("relabelled", 7, "age", "1.5", "2"),
        ("relabelled", 7, "legs", "4", "3"),
        ("relabelled", 7, "free", "false", "true"),
        ("relabelled", 7, "says", "woof", "miaow"),
    ]
    assert (change, id, column, old[:10], new[:10]) == (
        "relabelled", 7, "seen", "2020-01-01", "2021-02-03",
    )  # fmt: skip
    assert fixed.dtypes.to_dict() == frame.dtypes.to_dict()


@pytest.mark.parametrize("name", ["to_fix.parquet", "to_fix.jsonl", "an Arrow table"])
def test_lists_are_corrected_from_what_can_hold_them(frame, tmp_path, name):
    fixes = pd.DataFrame({"id": [20, 3], "tags": [["a", "b"], ["b"]]})
    given = tmp_path / name
    if name.endswith(".parquet"):
        fixes.to_parquet(given)
    elif name.endswith(".jsonl"):
        fixes.to_json(given, orient="records", lines=True)
    else:
        given = pa.Table.from_pandas(fixes)
    fixed = dfgen.update_labels(frame, given)
    assert [list(tags) for tags in fixed["tags"]] == [["b"], ["a", "b"], [], ["a", "b"]]


def test_only_the_columns_that_are_named_are_taken_where_a_table_has_others(frame):
    fixes = frame.assign(kind="dog", y_pred="cat", loss=0.5)[
        ["id", "path", "kind", "y_pred", "loss"]
    ]
    assert said(dfgen.update_labels, frame, fixes) == (
        'column "path" of the table of corrections is not a label of the manifest. Labels: kind, '
        "grade, sick, age, legs, free, says, tags, seen. Rename it. Or take those that are: "
        "label=['kind'] (--label kind)"
    )
    fixed = dfgen.update_labels(frame, fixes, label="kind")
    assert fixed["kind"].tolist() == ["dog"] * 4
    assert list(fixed.columns) == list(frame.columns)


def test_a_new_class_is_an_error_unless_it_may_be_new(frame):
    fixes = pd.DataFrame({"id": [7, 3, 12], "kind": ["owl", "ant", "cat"]})
    assert said(dfgen.update_labels, frame, fixes) == (
        'column "kind" of the table of corrections has 2 values not among its classes: "owl" in '
        'row 0 (id 7), "ant" in row 1 (id 3). Classes: dog, cat. Mend them, or number new classes '
        "after the others: new_classes=True (--new-classes)"
    )
    with pytest.warns(UserWarning) as caught:
        fixed = dfgen.update_labels(frame, fixes, new_classes=True)
    assert [str(one.message) for one in caught] == [
        'kind has new classes, numbered after the 2 old ones: "ant", "owl".'
    ]
    assert list(fixed["kind"].cat.categories) == ["dog", "cat", "ant", "owl"]
    assert changes(frame, fixed)[0] == (
        "classes", None, "kind", '["dog", "cat"]', '["dog", "cat", "ant", "owl"]',
    )  # fmt: skip
    message = said(dfgen.update_labels, frame, pd.DataFrame({"id": [7], "says": ["miaw"]}))
    assert 'Classes: miaow, woof. Did you mean "miaow"? Mend' in message


def test_a_new_class_of_lists_is_numbered_after_the_others_too(frame, tmp_path):
    labels = {"tags": {"kind": "list", "class_names": ["b", "a"]}}
    frame.attrs["dfgen"] = {"root": None, "labels": labels, "recipe": None}
    fixes = pd.DataFrame({"id": [7], "tags": [["a", "z"]]})
    assert '"z" in row 0 (id 7). Classes: b, a.' in said(dfgen.update_labels, frame, fixes)
    with pytest.warns(UserWarning, match="^tags has new classes, numbered after the 2 old ones"):
        fixed = dfgen.update_labels(frame, fixes, new_classes=True, out=tmp_path / "m.parquet")
    expected = {"kind": "list", "class_names": ["b", "a", "z"], "corrected": True}
    assert fixed.attrs["dfgen"]["labels"] == {"tags": expected}
    assert labels["tags"]["class_names"] == ["b", "a"]
    back = dfgen.read_manifest(tmp_path / "m.parquet", root="/x")
    assert back.attrs["dfgen"]["labels"]["tags"] == expected


@pytest.mark.parametrize(
    ("fixes", "message"),
    [
        ({"id": [7, 7], "kind": ["cat", "dog"]},
         '1 key in several rows of the table of corrections, column "id": "7" (rows 0, 1: kind '
         '"cat", "dog"). Rows are counted from 0 below the header. Each id has one row: keep '
         "one of them"),
        ({"id": [7, 7], "kind": ["cat", "cat"]},
         '1 key in several rows of the table of corrections, column "id": "7" (rows 0, 1: alike). '
         "Rows are counted from 0 below the header. Each id has one row: drop the repeated "
         'ones: labels.drop_duplicates("id")'),
        ({"id": [7, 8, 99], "kind": "cat"},
         "2 of 3 ids of the table of corrections are not in the manifest:\n"
         '  "8"\n  "99"\nMend these ids, or leave their rows out'),
        ({"id": ["7", "12.0"], "kind": "cat"},
         "1 of 2 ids of the table of corrections are not in the manifest:\n"
         '  "12.0", nearest: "12"\nLikely cause: whole numbers as floats.\n'
         "Mend these ids, or leave their rows out"),
        ({"object": [7], "kind": ["cat"]},
         'the table of corrections has no column "id" to join on. Columns: object, kind. Call the '
         'column of ids "id"'),
        ({"id": [7, None], "kind": ["cat", "dog"]},
         '"id" is missing in 1 row of the table of corrections: row 1, counted from 0 below the '
         "header. Fill them in, or leave these rows out of the table"),
        ({"id": [7, 20], "kind": [np.nan, None]},
         'column "kind" of the table of corrections is empty in 1 row where the manifest has a '
         "label: row 0 (id 7). To keep a label leave the row out, or by label= (--label) the "
         'column; in pandas it can be taken away: df.loc[df["id"].isin([...]), "kind"] = None'),
        ({"id": [7], "knd": ["cat"]},
         'column "knd" of the table of corrections is not a label of the manifest. Labels: kind, '
         'grade, sick, age, legs, free, says, tags, seen. Did you mean "kind"? Rename it'),
        ({"id": [7]},
         "the table of corrections has no column but id, expected one of the labels: kind, grade, "
         "sick, age, legs, free, says, tags, seen"),
        ({"id": [7, 3], "age": ["1", "n/a"]},
         'column "age" of the table of corrections has "n/a" in row 1 (id 3), expected a value of '
         "type double, as the manifest has"),
        ({"id": [7, 3], "legs": [2.0, 2.5]},
         'column "legs" of the table of corrections has 2.5 in row 1 (id 3), expected a value of '
         "type int16, as the manifest has"),
        ({"id": [7], "legs": [70_000]},
         'column "legs" of the table of corrections has 70000 in row 0 (id 7), expected a value of '
         "type int16, as the manifest has"),
        ({"id": [7], "free": [1]},
         'column "free" of the table of corrections has 1 in row 0 (id 7), expected a value of '
         "type bool, as the manifest has"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_correction_is_told(frame, fixes, message):
    assert said(dfgen.update_labels, frame, pd.DataFrame(fixes)) == message


def test_arguments_that_cannot_be_are_told(frame):
    fixes = pd.DataFrame({"id": [7], "kind": ["cat"]})
    assert said(dfgen.update_labels, frame, fixes, label="knd") == (
        'label="knd" is not a column of the table of corrections. Did you mean "kind"? '
        "Columns: id, kind"
    )
    assert said(dfgen.update_labels, frame, [7]).startswith(
        "the table of corrections must be a pandas or Polars DataFrame, an Arrow table, a DuckDB"
    )
    assert said(dfgen.update_labels, frame, fixes, label=3, error=ArgumentError) == (
        "label=3: expected the name of a column, or a list of them"
    )
    unknown = said(dfgen.update_labels, frame, fixes, new=1, error=UnknownArgumentError)
    assert "no argument new" in unknown


def test_a_label_that_is_missing_may_stay_so_or_be_given(frame):
    fixes = pd.DataFrame({"id": [20, 12], "kind": [None, "dog"], "age": [3.5, 2]})
    assert changes(frame, dfgen.update_labels(frame, fixes)) == [
        ("relabelled", 12, "kind", "cat", "dog"),
        ("relabelled", 12, "age", None, "2"),
    ]
    fixed = dfgen.update_labels(frame, pd.DataFrame({"id": [20], "kind": ["dog"]}))
    assert changes(frame, fixed) == [("relabelled", 20, "kind", None, "dog")]


def test_a_file_is_rewritten_with_its_recipe_and_another_fingerprint(data):
    before = dfgen.read_manifest("m.parquet")
    fixes = pd.DataFrame({"id": ["002", "001"], "kind": ["dog", "dog"]})
    dfgen.update_labels("m.parquet", fixes, out="n.parquet")
    assert changes("m.parquet", before) == []
    dfgen.update_labels(data / "m.parquet", fixes)
    assert (data / "m.parquet").read_bytes() == (data / "n.parquet").read_bytes()
    assert changes(before, "m.parquet") == [("relabelled", "002", "kind", "cat", "dog")]
    after = dfgen.read_manifest("m.parquet")
    assert after.attrs["dfgen"]["recipe"] == before.attrs["dfgen"]["recipe"]
    assert after.attrs["dfgen"]["labels"]["kind"]["corrected"] is True
    same = dfgen.update_labels(before, pd.DataFrame({"id": ["001"], "kind": ["dog"]}))
    for unchanged in (before, same):
        assert "corrected" not in unchanged.attrs["dfgen"]["labels"]["kind"]
    assert sorted(os.listdir()) == ["imgs", "m.parquet", "n.parquet"]


def test_a_manifest_that_grows_keeps_corrected_labels_and_says_so(data):
    dfgen.update_labels("m.parquet", pd.DataFrame({"id": ["002"], "kind": ["dog"]}))
    Image.new("L", (4, 3)).save("imgs/dog/006.png")
    os.rename("imgs/cat/004.png", "imgs/dog/004.png")
    for _ in range(2):
        with pytest.warns(UserWarning) as caught:
            grown = dfgen.build_manifest(update="m.parquet", out="m.parquet")
        assert str(caught[0].message) == (
            "Kept the kind of 2 old rows of m.parquet, where the source has another one: it was "
            "corrected."
        )
        kinds = grown.set_index("id")["kind"].to_dict()
        assert kinds["002"] == kinds["006"] == "dog"
        assert kinds["004"] == "cat"
        assert grown["path"].str.endswith("/dog/004.png").any()


def test_the_command_lists_what_changed(data):
    (data / "to_fix.csv").write_text("id,kind,note\n002,dog,\n001,owl,?\n")
    done = run("update-labels", "m.parquet", "to_fix.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith('dfgen: column "note" of to_fix.csv is not a label of the')
    fix = ("update-labels", "m.parquet", "to_fix.csv", "--label", "kind")
    done = run(*fix)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith('dfgen: column "kind" of to_fix.csv has 1 value not among its')
    done = run(*fix, "--new-classes", "--out", "n.parquet")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Warning: kind has new classes" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["1 classes, 2 relabelled", "Wrote n.parquet"]
    done = run(*fix, "--new-classes", "--json")
    assert json.loads(done.stdout)["counts"]["relabelled"] == 2
    assert (data / "m.parquet").read_bytes() == (data / "n.parquet").read_bytes()
    done = run(*fix, "--new-classes")
    assert done.stdout == "no difference\nWrote m.parquet\n"


def test_a_manifest_that_is_being_written_is_not_corrected(data):
    fixes = pd.DataFrame({"id": ["002"], "kind": ["dog"]})
    with only_writer("m.parquet"):
        message = said(dfgen.update_labels, "m.parquet", fixes, error=dfgen.errors.WriteError)
    assert "m.parquet is being written by process " in message


@pytest.mark.slow
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_killed_correction_leaves_the_manifest_as_it_was_and_can_be_repeated(data, call):
    before = (data / "m.parquet").read_bytes()
    code = f"""if True:
        import os, signal, pandas as pd, dfgen
        fixes = pd.DataFrame({{"id": ["002"], "kind": ["dog"]}})
        os.{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        dfgen.update_labels("m.parquet", fixes)"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert (data / "m.parquet").read_bytes() == before
    fixes = pd.DataFrame({"id": ["002"], "kind": ["dog"]})
    dfgen.update_labels("m.parquet", fixes)
    assert len(dfgen.diff("m.parquet", dfgen.update_labels("m.parquet", fixes))) == 0
    assert sorted(os.listdir()) == ["imgs", "m.parquet"]


@pytest.fixture
def skipped(data):
    """The problems of a pass over images of which 001.png is cut short and 004.png is gone."""
    os.truncate("imgs/dog/001.png", 50)
    dfgen.verify("m.parquet", write=True)  # sees a header as it should be
    os.rename("imgs/cat/004.png", "aside")
    seq = dfgen.Sequence(
        "m.parquet", y="kind", image_size=(4, 4), batch_size=3, on_error="skip", workers=1
    )
    with seq:
        assert sum(int((weight > 0).sum()) for _, _, weight in seq) == 4
        return seq.problems


def test_problems_of_training_go_into_the_manifest_and_stay(data, skipped):
    assert skipped[["id", "stage"]].values.tolist() == [["004", "read"], ["001", "decode"]]
    skipped.to_parquet("problems.parquet")
    before = dfgen.read_manifest("m.parquet")
    found = dfgen.verify("m.parquet", add="problems.parquet")
    assert found[["change", "id"]].values.tolist() == [["missing", "004"], ["broken", "001"]]
    problem = f"cannot be decoded: {skipped['reason'][1]}"
    assert changes(before, "m.parquet") == [
        ("changed", "004", "bytes", str(before["bytes"][2]), None),
        ("changed", "004", "mtime_ns", str(before["mtime_ns"][2]), None),
        *[("changed", "004", name, str(before[name][2]), None)
          for name in ("format", "width", "height", "channels", "orientation", "bits", "frames")],
        ("changed", "004", "problem", None, "the file does not exist"),
        ("changed", "001", "problem", None, problem),
    ]  # fmt: skip
    [_, kept] = dfgen.verify("m.parquet", write=True)["detail"]
    assert kept == f"{problem} (as the manifest says)"
    [_, decoded] = dfgen.verify("m.parquet", decode=True)["detail"]
    assert decoded == kept
    with pytest.raises(ManifestError, match=r"^2 of 6 rows have a problem, by the facts"):
        dfgen.Sequence("m.parquet", y="kind", image_size=(4, 4))


def test_a_file_that_can_be_read_again_is_no_problem_and_that_is_said(data, skipped):
    os.rename("aside", "imgs/cat/004.png")
    with pytest.warns(UserWarning) as caught:
        found = dfgen.verify("m.parquet", add=skipped)
    assert [str(one.message) for one in caught] == [
        "Not taken from the table of problems, as the file can be read now: id '004'"
    ]
    assert found["id"].tolist() == ["001"]


def test_problems_that_cannot_be_added_are_told(data):
    frame = dfgen.read_manifest("m.parquet")
    good = pd.DataFrame({"id": ["003"], "reason": ["x"]})
    assert said(dfgen.verify, frame, add=good, error=ArgumentError) == (
        "add= needs the path of a manifest; a frame was given"
    )
    assert said(dfgen.verify, "m.parquet", add=good[["id"]]) == (
        'the table of problems has neither a column "reason" nor "problem", which say what is '
        "wrong with a row. Columns: id. seq.problems has one"
    )
    assert said(dfgen.verify, "m.parquet", add=good.assign(id="3")) == (
        "1 of 1 ids of the table of problems are not in the manifest:\n"
        '  "3", nearest: "003"\nLikely cause: leading zeros.\n'
        "Mend these ids, or leave their rows out"
    )


@pytest.mark.backend
def test_predictions_show_what_is_wrong_and_its_correction_goes_into_the_manifest(data):
    import keras

    os.truncate("imgs/dog/001.png", 50)
    dfgen.verify("m.parquet", write=True)
    inputs = keras.Input((4, 4, 3))
    dense = keras.layers.Dense(2)
    model = keras.Model(inputs, dense(keras.layers.Flatten()(inputs)))
    dense.set_weights([np.zeros((48, 2)), np.array([1.0, 0.0])])  # all are cats
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with dfgen.Sequence("m.parquet", y="kind", image_size=(4, 4), on_error="skip") as seq:
        rows = dfgen.predict_frame(model, seq)
    rows.loc[rows["id"] == "000", "problem"] = "the model gave NaN"
    rows.to_parquet("rows.parquet")
    wrong = rows[(rows["y_true"] != rows["y_pred"]) & rows["problem"].isna()]
    assert wrong["id"].tolist() == ["003", "005"]
    wrong[["id", "y_pred"]].rename(columns={"y_pred": "kind"}).to_csv("to_fix.csv", index=False)
    before = dfgen.read_manifest("m.parquet")
    dfgen.update_labels("m.parquet", "to_fix.csv")
    dfgen.verify("m.parquet", add="rows.parquet")
    assert changes(before, "m.parquet") == [
        ("changed", "001", "problem", None,
         "cannot be decoded: broken png file: truncated or damaged"),
        ("relabelled", "003", "kind", "dog", "cat"),
        ("relabelled", "005", "kind", "dog", "cat"),
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".xlsx", ".parquet", ".jsonl"])
def test_an_apostrophe_is_taken_off_where_a_spreadsheet_may_have_been(tmp_path, suffix):
    manifest = pd.DataFrame({"id": ["a", "b"], "path": ["a.png", "b.png"], "kind": ["u", "v"]})
    fix = pd.DataFrame({"id": ["a"], "kind": ["'-w"]})
    path = tmp_path / f"fix{suffix}"
    write = {
        ".csv": fix.to_csv, ".tsv": partial(fix.to_csv, sep="\t"), ".xlsx": fix.to_excel,
        ".parquet": fix.to_parquet, ".jsonl": partial(fix.to_json, orient="records", lines=True),
    }[suffix]  # fmt: skip
    write(path, **({} if suffix == ".jsonl" else {"index": False}))
    mended = dfgen.update_labels(manifest, path, new_classes=True)["kind"].tolist()
    assert mended == ["'-w" if suffix in (".parquet", ".jsonl") else "-w", "v"]


@pytest.mark.parametrize(("fix", "where"), [(("'=x", "u"), "id"), (("y", "'=v"), "kind")])
def test_an_apostrophe_that_may_be_meant_is_refused(tmp_path, fix, where):
    manifest = pd.DataFrame({"id": ["=x", "'=x", "y"], "path": ["a.png", "b.png", "c.png"]})
    manifest["kind"] = pd.Categorical(["=v", "'=v", "u"])
    table = pd.DataFrame([fix], columns=["id", "kind"])
    table.to_csv(tmp_path / "fix.csv", index=False)
    with pytest.raises(ManifestError, match=f'column "{where}" of .*fix.csv has "\'=.", and the'):
        dfgen.update_labels(manifest, tmp_path / "fix.csv")
    mended = dfgen.update_labels(manifest, table)["kind"].tolist()
    assert mended == (["=v", "u", "u"] if where == "id" else ["=v", "'=v", "'=v"])
