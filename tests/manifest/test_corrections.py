"""Corrected labels: which values are taken, and which are refused."""

import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ManifestError


def pets(**columns):
    frame = pd.DataFrame(
        {
            "id": [7, 8, 9],
            "path": ["/a.png", "/b.png", "/c.png"],
            "kind": pd.Categorical(["dog", "cat", None], ["dog", "cat", "bird"]),
            "note": ["x", "y", None],
            "legs": pd.array([4, None, 2], "Int16"),
            "weight": [1.5, np.nan, 2.0],
            "sick": [True, False, True],
            "tags": [["a"], [], ["b", "a"]],
            "split": ["train", "val", "train"],
            **columns,
        }
    )
    tags = {"kind": "list", "class_names": ["b", "a"]}
    frame.attrs = {"dfgen": {"root": None, "labels": {"tags": tags}, "recipe": None}}
    return frame


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("kind", ["bird", "dog"], ["bird", "dog"]), ("note", ["NA", "z"], ["NA", "z"]),
        ("legs", [3, 5], [3, 5]), ("weight", [1, 2.5], [1.0, 2.5]),
        ("sick", [False, True], [False, True]), ("tags", [[], ["b"]], [[], ["b"]]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_corrections_of_each_type_reach_their_rows(tmp_path, name, values, expected, kind):
    fixes = pd.DataFrame({"id": [9, 7], name: values})
    if kind == "csv":
        if name == "tags":
            pytest.skip("CSV has no lists")
        fixes.astype({"id": str}).assign(id=["009", "7"]).to_csv(tmp_path / "f.csv", index=False)
        fixes = tmp_path / "f.csv"
    elif kind == "parquet":
        fixes.to_parquet(tmp_path / "f.parquet")
        fixes = tmp_path / "f.parquet"
    before = pets()
    after = dfgen.update_labels(before, fixes)
    found = [after[name].iloc[row] for row in (2, 0)]
    assert [v.tolist() if isinstance(v, np.ndarray) else v for v in found] == expected
    assert after[name].dtype == before[name].dtype
    others = before.columns.drop(name)
    pd.testing.assert_frame_equal(after[others], pets()[others])


REFUSED = [
    ({"id": [6, 7], "kind": ["cat", "cat"]}, "not in the manifest: 6"),
    ({"id": [7, 7], "kind": ["cat", "cat"]}, "several rows"),
    ({"id": ["x"], "kind": ["cat"]}, "int64"),
    ({"id": [7], "knd": ["cat"]}, 'Did you mean "kind"'),
    ({"id": [7], "split": ["val"]}, "label of the manifest"),
    ({"kind": ["cat"]}, '"id"'),
    ({"id": [7], "kind": ["ant"]}, r"'ant' in row 0 \(id 7\)"),
    ({"id": [9, 7], "kind": ["cat", None]}, r"None in row 1 \(id 7\)"),
    ({"id": [7], "legs": [1.5]}, "int16"),
    ({"id": [7], "legs": ["n/a"]}, "int16"),
    ({"id": [7], "tags": [["c"]]}, '"c"'),
]


@pytest.mark.parametrize(("fixes", "word"), REFUSED)
def test_wrong_corrections_are_refused(fixes, word):
    with pytest.raises(ManifestError, match=word):
        dfgen.update_labels(pets(), pd.DataFrame(fixes))


def test_text_ids_keep_their_zeros(tmp_path):
    (tmp_path / "f.csv").write_text("id,kind\n007,cat\n")
    frame = pets(id=["007", "7", "008"])
    assert dfgen.update_labels(frame, tmp_path / "f.csv")["kind"].tolist()[:2] == ["cat", "cat"]
    assert frame["kind"].tolist()[0] == "dog"


def test_file_is_rewritten_or_written_to_out(tmp_path):
    path, out = tmp_path / "m.parquet", tmp_path / "n.parquet"
    dfgen.write_manifest(pets(), path)
    fixes = pd.DataFrame({"id": [7], "kind": ["cat"], "age": [3]})
    dfgen.update_labels(path, fixes, label="kind", out=out)
    assert [dfgen.read_manifest(each)["kind"][0] for each in (path, out)] == ["dog", "cat"]
    dfgen.update_labels(path, fixes[["id", "kind"]])
    again = dfgen.read_manifest(path)
    assert again["kind"][0] == "cat"
    labels = again.attrs["dfgen"]["labels"]
    assert labels["kind"]["class_names"] == ["dog", "cat", "bird"]
    assert labels["kind"]["corrected"] and "corrected" not in labels["note"]
