import re

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest
from cases import each

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest import parts_writer
from dfgen.manifest.parts import read_parts_index

ROWS = 24


def frame(folder):
    numbers = np.arange(ROWS)
    return pd.DataFrame(
        {
            "id": numbers,
            "path": [f"{folder}/imgs/{number % 2}/{number}.png" for number in numbers],
            "kind": pd.Categorical.from_codes(numbers % 4 - 1, ["dog", "cat", "bird"]),
            "stars": pd.Categorical(numbers % 5, categories=[4, 3, 2, 1, 0], ordered=True),
            "my note": [None if number % 3 else f"n{number}" for number in numbers],
            "score": np.where(numbers % 5, numbers / 2, np.nan),
            "low": numbers - 3.0,
            "width": pd.array([None if n % 6 == 5 else n * 20 for n in numbers], "Int32"),
            "seen": numbers % 2 == 0,
            "old": pd.array([(True, False, None)[n % 3] for n in numbers], "boolean"),
            "split": pd.Categorical(
                np.where(numbers < 8, "val", "train"), ["val", "train", "test"]
            ),
        }
    )


@pytest.fixture(params=["pets.parquet", "pets.manifest", "foreign.parquet"])
def manifest(request, tmp_path, monkeypatch):
    """A manifest in one file, in parts of 8 rows, or in a file that another program wrote anew."""
    monkeypatch.setattr(parts_writer, "PART_ROWS", 8)
    path = tmp_path / request.param
    dfgen.write_manifest(frame(tmp_path), path)
    if request.param == "foreign.parquet":
        import pyarrow.parquet as pq

        pq.write_table(pq.read_table(path), path, row_group_size=5)
    return path


def without_nulls(values):
    return [None if value is pd.NA or value != value else value for value in values.astype(object)]


CONDITIONS = {
    "split == 'train' and width > 200": lambda r: r["split"] == "train" and gt(r["width"], 200),
    "not (split == 'train' and width > 200)": lambda r: (
        not (r["split"] == "train" and gt(r["width"], 200))
    ),
    "kind != 'dog'": lambda r: r["kind"] != "dog",
    "not kind == 'dog'": lambda r: r["kind"] != "dog",
    "not kind != 'dog'": lambda r: r["kind"] == "dog",
    "kind in ['dog', 'bird'] or id in (5, 6)": lambda r: (
        r["kind"] in ("dog", "bird") or r["id"] in (5, 6)
    ),
    "kind not in ['dog', None]": lambda r: r["kind"] not in ("dog", None),
    "kind is None": lambda r: r["kind"] is None,
    "`my note` is not None": lambda r: r["my note"] is not None,
    "score == None": lambda r: r["score"] is None,
    "not score < 4": lambda r: r["score"] is None or r["score"] >= 4,
    "id == 7 or id == 8": lambda r: r["id"] in (7, 8),  # the last of a part, the first of another
    "2 < id <= 9": lambda r: 2 < r["id"] <= 9,
    "not 2 < id <= 9": lambda r: not 2 < r["id"] <= 9,
    "score > low": lambda r: gt(r["score"], r["low"]),
    "low < -1.5": lambda r: r["low"] < -1.5,
    "(stars == 3) | (stars == 0) & ~seen": lambda r: (
        r["stars"] == 3 or (r["stars"] == 0 and not r["seen"])
    ),
    "old": lambda r: bool(r["old"]),
    "not old": lambda r: not r["old"],
    "seen and not (id >= 20)": lambda r: r["seen"] and r["id"] < 20,
    "split == 'nothing'": lambda r: False,
}


def gt(value, other):
    return value is not None and value > other


@each(("where", "keeps"), CONDITIONS.items())
def test_a_condition_keeps_the_rows_for_which_python_says_yes(manifest, where, keeps):
    whole = dfgen.read_manifest(manifest)
    rows = {name: without_nulls(column) for name, column in whole.items()}
    chosen = [keeps({name: column[row] for name, column in rows.items()}) for row in range(ROWS)]
    found = dfgen.read_manifest(manifest, where=where)
    pd.testing.assert_frame_equal(found, whole[chosen].reset_index(drop=True))
    assert found.attrs == whole.attrs


def test_columns_and_expressions_of_pyarrow_are_taken_and_paths_are_absolute(manifest):
    whole = dfgen.read_manifest(manifest)
    path = whole["path"][6]
    expected = whole.loc[[6], ["kind", "path"]].reset_index(drop=True)
    for where in (f"path == {path!r}", pc.field("path") == path, pc.field("id") == 6):
        found = dfgen.read_manifest(manifest, columns=["kind", "path"], where=where)
        pd.testing.assert_frame_equal(found, expected)
    alone = dfgen.read_manifest(manifest, columns=["split"])
    pd.testing.assert_frame_equal(alone, whole[["split"]])


def test_parts_without_a_chosen_row_are_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(parts_writer, "PART_ROWS", 8)
    dfgen.write_manifest(frame(tmp_path), tmp_path / "pets.manifest")
    whole = dfgen.read_manifest(tmp_path / "pets.manifest")
    for part in read_parts_index(str(tmp_path / "pets.manifest")).parts[1:]:
        (tmp_path / "pets.manifest" / part.file).unlink()
    for where in ("split == 'val'", "id < 8", "2 <= id < 5 and kind is not None"):
        found = dfgen.read_manifest(tmp_path / "pets.manifest", where=where)
        pd.testing.assert_frame_equal(
            found, whole.query("id < 8").merge(found[["id"]]), check_dtype=False
        )
    assert not len(dfgen.read_manifest(tmp_path / "pets.manifest", where="id > 99"))


def test_a_part_whose_rows_all_lack_their_split_has_those_without_one(tmp_path, monkeypatch):
    monkeypatch.setattr(parts_writer, "PART_ROWS", 8)
    df = frame(tmp_path)
    df.loc[df["id"] < 8, "split"] = None
    dfgen.write_manifest(df, tmp_path / "pets.manifest")
    found = dfgen.read_manifest(tmp_path / "pets.manifest", where="split is None")
    assert [*found["id"]] == [*range(8)]


@each(
    ("where", "expected"),
    [
        (
            "splitt == 'val'",
            "'splitt', which is no column of the manifest. Did you mean",
        ),
        (
            "split == val",
            "'val', which is no column of the manifest. A text stands in quotes",
        ),
        ("split = 'val'", 'Write "==" to compare'),
        ("width >", "cannot be read: invalid syntax"),
        (
            "width + 1 > 2",
            "width + 1 is neither a column nor a value. Expected a condition",
        ),
        ("__import__('os').remove('x')", "is no condition. Expected a condition such as"),
        ("width < None", "None is compared by `is None` or `is not None`"),
        ("kind is 'dog'", "stands behind `is`, which is for None alone: write =="),
        ("not 2 > stars", "stars is an ordered category, whose order < and > do not follow"),
        ("`stars` > 2", "`stars` is an ordered category, whose order < and > do not follow"),
        ("kind in 'dog'", "is no list of values, as in [...] should stand"),
        ("kind == 3", "cannot be asked of this manifest: "),
        ("width", "Filter expression must evaluate to bool"),
        (pc.field("widht") > 3, "there is no column 'widht'. Did you mean \"width\"?"),
        (3, "where=3 is no condition, expected a text such as"),
    ],
)
def test_what_is_no_condition_is_refused(manifest, where, expected):
    with pytest.raises(ArgumentError, match=re.escape(expected)):
        dfgen.read_manifest(manifest, where=where)


def test_columns_that_are_not_there_are_refused(manifest):
    with pytest.raises(ManifestError, match="kinds"):
        dfgen.read_manifest(manifest, columns=["id", "kinds"])
    with pytest.raises(ArgumentError, match=re.escape("write columns=['id']")):
        dfgen.read_manifest(manifest, columns="id")


def test_a_condition_is_asked_of_a_pack_too(tmp_path):
    image = dfgen.build_manifest  # the smallest pack: whole files
    import PIL.Image

    for number in range(4):
        PIL.Image.new("RGB", (2, 2), (number, 0, 0)).save(tmp_path / f"{number}.png")
    df = image(tmp_path)
    dfgen.pack(df, tmp_path / "packed", format="original")
    whole = dfgen.read_manifest(tmp_path / "packed")
    found = dfgen.read_manifest(tmp_path / "packed", where="row in [1, 2]", columns=["id", "row"])
    pd.testing.assert_frame_equal(found, whole.loc[1:2, ["id", "row"]].reset_index(drop=True))
