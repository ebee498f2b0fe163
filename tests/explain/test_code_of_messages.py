"""The code that messages print is run on the frame that caused them, and cures it."""

import ast
import re
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import dfgen
from dfgen.errors import DfgenError
from dfgen.explain import labels

ROWS = 8
TWO = ["a", "b"] * 4
HALVES = {"train": 0.5, "val": 0.5}
START = re.compile(r"(?:import ast; )?\b(?:df(?:\[[^\]]+\]|\.columns)? = )")


@pytest.fixture(autouse=True)
def images(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("imgs").mkdir()
    for row in range(ROWS):
        Image.new("L", (4, 4), row).save(f"imgs/{row}.jpg")
    labels._WARNED.clear()


def frame(**columns):
    paths = [f"imgs/{row}.jpg" for row in range(ROWS)]
    return pd.DataFrame({"id": range(ROWS), "f": np.arange(8.0), "path": paths} | columns)


def read(df, x="f", y=None, **options):
    options = {"shuffle": False, **({"label_mode": None} if y is None else {}), **options}
    with dfgen.Sequence(df, x, y, workers=0, batch_size=ROWS, **options) as seq:
        return seq[0]


def code_of(message):
    """Return the longest statements that a message has after a `df... = `."""
    found = START.search(message)
    text = message[found.start() :] if found else ""
    for end in range(len(text), 0, -1):
        try:
            tree = ast.parse(text[:end])
        except SyntaxError:
            continue
        is_tuple = isinstance(getattr(tree.body[-1], "value", None), ast.Tuple)
        if text[end - 1] not in ", " and not is_tuple:
            return text[:end]
    return None


def message_of(df, call):
    """Return the message with code that a call gives, or None."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(df)
        except (DfgenError, KeyError) as error:
            return str(error)
    return next((str(one.message) for one in caught if code_of(str(one.message))), None)


images_of = partial(read, x="path", image_size=(4, 4))
labels_of = partial(read, y="k")
sequences_of = partial(dfgen.sequences, x="f", label_mode=None, workers=0)
CASES = {
    "ints in a label mode": (frame(k=[0, 1] * 4), partial(labels_of, label_mode="categorical")),
    "float ints": (frame(k=[0.0, 1, np.nan, 1] * 2), partial(labels_of, label_mode="categorical")),
    "balance": (frame(k=["a", None] * 4), partial(read, balance="k", shuffle=True)),
    "float ids": (frame(id=np.arange(8.0)), read),
    "no ids": (frame().drop(columns=["id", "path"]), read),
    "problems": (frame(problem=[None, "bad"] * 4), images_of),
    "fold and split": (
        frame(fold=[0, 1, 1, 0] * 2, split=["train", "test"] * 4), partial(sequences_of, fold=0)
    ),
    "lists of files": (
        frame(k=[["imgs/0.jpg", "imgs/1.jpg"]] * 8),
        partial(read, x=dfgen.Image("k", size=(4, 4))),
    ),
    "missing paths": (frame(path=["imgs/0.jpg", None] * 4), images_of),
    "text of lists": (frame(k=["['a']", "['b', 'a']"] * 4), labels_of),
    "text of missing values": (frame(k=["a", "nan"] * 4), labels_of),
    "tags of missing values": (
        frame(k=[["a", "nan"], ["b"]] * 4), partial(read, y=dfgen.MultiLabel("k"))
    ),
    "infinite": (frame(k=[1.0, np.inf] * 4), labels_of),
    "index": (frame().set_index("id"), partial(read, id="id")),
    "blanks in names": (frame(k=TWO).rename(columns={"k": " k "}), labels_of),
    "file URLs": (
        frame(path=[Path(f"imgs/{row}.jpg").as_posix() for row in range(8)]), images_of
    ),
    "backslashes": (frame(path=[f"imgs\\{row}.jpg" for row in range(8)]), images_of),
    "blanks in paths": (frame(path=[f"imgs/{row}.jpg " for row in range(8)]), images_of),
    "other suffix": (frame(path=[f"imgs/{row}.png" for row in range(8)]), images_of),
    "no suffix": (frame(path=[f"imgs/{row}" for row in range(8)]), images_of),
    "intervals": (frame(k=pd.cut([5, 15, 105, 5] * 2, [0, 10, 100, 110])), labels_of),
    "missing class": (frame(k=pd.Categorical(["a", None] * 4)), labels_of),
    "unused class": (
        frame(k=pd.Categorical(TWO, ["a", "b", "c"])), partial(labels_of, label_mode="binary")
    ),
    "numbers as text": (
        frame(k=[f"{row}.5" for row in range(8)]), partial(read, x=dfgen.Number("k"))
    ),
    "missing numbers": (frame(k=[1.0, None] * 4), partial(read, x="k")),
    "missing text": (frame(k=["a", None] * 4), partial(read, x=dfgen.Text("k"))),
    "numbers for text": (frame(k=range(8)), partial(read, x=dfgen.Text("k"))),
    "MultiIndex": (
        frame().set_axis(pd.MultiIndex.from_product([["a"], ["id", "f", "path"]]), axis=1),
        partial(read, x="a_f", id="a_id"),
    ),
    "float categories": (
        frame(k=pd.Categorical([1.5, 2.5] * 4)), partial(dfgen.write_manifest, path="m.parquet")
    ),
    "float ids to write": (
        frame(id=np.arange(8.0)), partial(dfgen.write_manifest, path="m.parquet")
    ),
    "no ids to write": (
        frame().drop(columns="id"), partial(dfgen.write_manifest, path="m.parquet")
    ),
    "split names": (frame(split=["Training", "val"] * 4), sequences_of),
    "split categories": (frame(split=pd.Categorical(["Train", "val"] * 4)), sequences_of),
}  # fmt: skip
RESULTS = {
    "intervals": lambda df: list(df["k"].cat.categories) == ["(0, 10]", "(10, 100]", "(100, 110]"],
    "text of lists": lambda df: df["k"].tolist() == [["a"], ["b", "a"]] * 4,
    "tags of missing values": lambda df: df["k"].tolist() == [["a"], ["b"]] * 4,
    "lists of files": lambda df: len(df) == 16 and df["id"].is_unique,
    "fold and split": lambda df: df["fold"].tolist() == [0, 1, 0, 1],
    "split names": lambda df: df["split"].tolist() == ["train", "val"] * 4,
    "unused class": lambda df: list(df["k"].cat.categories) == ["a", "b"],
    "missing text": lambda df: df["k"].tolist() == ["a", ""] * 4,
    "problems": lambda df: df["id"].tolist() == [0, 2, 4, 6],
    "infinite": lambda df: df["k"].tolist() == [1.0] * 4,
}
"""Case -> whether the frame is right after the code."""


@pytest.mark.parametrize("case", CASES)
def test_the_code_of_a_message_cures_the_frame(case):
    df, call = CASES[case]
    if case == "file URLs":
        df["path"] = [Path(path).absolute().as_uri() for path in df["path"]]
    assert code_of(message_of(df, call) or "") is not None
    for _ in range(3):
        message = message_of(df, call)
        if message is None:
            break
        code = code_of(message)
        assert code is not None, message
        scope = {"df": df.copy(), "pd": pd, "np": np, "dfgen": dfgen}
        exec(code, scope)
        df = scope["df"]
    assert message_of(df, call) is None
    assert RESULTS.get(case, len)(df)


def test_at_most_forty_messages_print_code():
    count = 0
    for path in Path(dfgen.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.Constant)]
        shown = {(node.lineno, node.end_lineno): ast.unparse(node) for node in texts}
        count += sum(
            START.search(text) is not None and not text.startswith("'''") and ">>>" not in text
            for text in shown.values()
        )
    assert count <= 40
