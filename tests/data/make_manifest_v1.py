"""Made manifest_v1.parquet, which every later version must read. Run once per format version."""

from pathlib import Path

import pandas as pd

import dfgen

FOLDER = Path(__file__).parent
FRAME = pd.DataFrame(
    {
        "id": ["007", "8", "é\n"],
        "path": [f"{FOLDER}/imgs/{name}" for name in ("a.png", "b/c d.jpg", "b/é.png")],
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

if __name__ == "__main__":
    dfgen.write_manifest(FRAME, FOLDER / "manifest_v1.parquet")
