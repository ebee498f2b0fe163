"""Names that look alike and empty keys, wherever they enter, and the code that messages print."""

import json
import re
import shutil
import tempfile
import unicodedata
import warnings
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from PIL import Image

import dfgen
from dfgen.errors import DfgenError
from dfgen.explain.labels import _WARNED, folded
from dfgen.training.checks import check as module_of_checks

CHANGES = {
    "case": str.swapcase,
    "blank before": lambda name: f" {name}",
    "blank after": lambda name: f"{name} ",
    "no-break space": lambda name: f"{name}\u00a0",
    "zero width": lambda name: f"{name[:1]}\u200b{name[1:]}",
    "byte order mark": lambda name: f"\ufeff{name}",
    "decomposed": lambda name: unicodedata.normalize("NFD", name),
    "double blank": lambda name: name.replace(" ", "  "),
}
WORDS = st.text("abXYéßñ'\"\\ {}日", min_size=2, max_size=8).map(str.strip).filter(bool)
PROPERTY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
ROWS = 24


@pytest.fixture(autouse=True)
def forget():
    _WARNED.clear()


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Paths of images."""
    folder = tmp_path_factory.mktemp("images")
    for row in range(ROWS):
        Image.new("L", (3, 3), row).save(folder / f"{row}.png")
    return [str(folder / f"{row}.png") for row in range(ROWS)]


def told(call):
    """Return the messages about names that look alike."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except DfgenError as error:
            assert any(word in str(error) for word in ("class", "split", "fold")), error
    return [str(one.message) for one in caught if "look alike" in str(one.message)]


def corrected(df, message):
    """Return the frame after the code of a message."""
    code = message[message.index("df[") :]
    found = {"df": df.copy()}
    exec(code, found)
    return found["df"]


def sequence(df, **options):
    with dfgen.Sequence(df, "f", workers=0, **options) as seq:
        return seq[0]


def as_lists(values):
    return [[value, "other"] for value in values]


PLACES = {
    "split": ("split", list, lambda df: dfgen.sequences(df, "f", workers=0)),
    "group": ("who", list, lambda df: dfgen.split(df, {"train": 0.5, "val": 0.5}, group="who")),
    "fold": ("fold", list, lambda df: dfgen.sequences(df, "f", workers=0, fold=0)),
    "stratify": (
        "kind", list, lambda df: dfgen.split(df, {"train": 0.5, "val": 0.5}, stratify="kind")
    ),
    "stratified categories": (
        "kind", pd.Categorical,
        lambda df: dfgen.split(df, {"train": 0.5, "val": 0.5}, stratify="kind"),
    ),
    "balance": ("source", list, partial(sequence, balance="source", y=None)),
    "text": ("kind", list, partial(sequence, y="kind")),
    "categories": ("kind", pd.Categorical, partial(sequence, y="kind")),
    "lists": ("tags", as_lists, lambda df: sequence(df, y=dfgen.MultiLabel("tags"))),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@PROPERTY
@given(word=WORDS, change=st.sampled_from([*CHANGES]))
def test_lookalikes_of_frames_are_corrected_by_the_code(place, word, change):
    _WARNED.clear()
    word = "train" if place == "split" else word
    other = CHANGES[change](word)
    assume(other != word and folded(other) == folded(word) and word != "zz")
    column, made, call = PLACES[place]
    values = [word, other, "zz"] * (ROWS // 3)
    df = pd.DataFrame({"id": range(ROWS), "f": np.arange(ROWS, dtype=float), "path": "a"})
    df["path"] = [f"{row}.png" for row in range(ROWS)]
    df[column] = made(values)
    messages = told(lambda: call(df))
    assert len(messages) == 1 and f"column {column!r}" in messages[0]
    assert repr(word) in messages[0] or ascii(word) in messages[0]
    fixed = corrected(df, messages[0])
    _WARNED.clear()
    assert told(lambda: call(fixed)) == []
    flat = [name for value in fixed[column] for name in (value if made is as_lists else [value])]
    assert len({*flat} - {"zz", "other"}) == 1
    assert fixed[column].dtype == df[column].dtype or made is pd.Categorical


@PROPERTY
@given(word=WORDS, change=st.sampled_from([*CHANGES]), source=st.sampled_from(["frame", "csv"]))
def test_lookalikes_are_seen_in_builds(images, tmp_path, word, change, source):
    _WARNED.clear()
    other = CHANGES[change](word)
    assume(other != word and folded(other) == folded(word))
    labels = pd.DataFrame({"path": images, "kind": [word, other] * (ROWS // 2)})
    if source == "csv":
        labels.to_csv(tmp_path / "labels.csv", index=False)
        labels = tmp_path / "labels.csv"
    build = partial(dfgen.build_manifest, labels=labels, path_column="path", facts="none")
    messages = told(build)
    assert len(messages) == 1 and "column 'kind'" in messages[0] and "df[" not in messages[0]


def test_class_names_and_annotations_are_checked():
    df = pd.DataFrame({"f": [0.0, 1.0], "kind": ["dog", "cat"], "id": [0, 1]})
    kinds = dfgen.Category("kind", class_names=["cat", "dog", "Dog"])
    [message] = told(lambda: sequence(df, y=kinds))
    assert "'dog', 'Dog'" in message and "df[" not in message


def test_many_names_are_one_warning_of_some_length():
    names = [f"class {number}" for number in range(50)]
    df = pd.DataFrame({"f": 0.0, "kind": [*names, *map(str.upper, names)], "id": range(100)})
    [message] = told(lambda: sequence(df, y="kind"))
    assert "and 47 more groups" in message and len(message) < 1_000
    assert told(lambda: sequence(df, y="kind")) == []  # once per process


def test_ordered_categories_keep_their_order():
    sizes = pd.Categorical(["big", "small", "Big", None], ["small", "big", "Big"], ordered=True)
    df = pd.DataFrame({"f": 0.0, "size": sizes, "id": range(4)}).dropna()
    [message] = told(lambda: sequence(df, y="size"))
    fixed = corrected(df, message)
    assert fixed["size"].dtype == pd.CategoricalDtype(["small", "big"], ordered=True)
    assert fixed["size"].tolist() == ["big", "small", "big"]


@pytest.mark.parametrize("empty", ["", "nan"])
@pytest.mark.parametrize("place", ["split", "group", "id"])
def test_suggested_code_drops_rows_with_empty_keys(place, empty):
    key = {"group": "who"}.get(place, place)
    df = pd.DataFrame({"id": [f"r{row}" for row in range(8)], "f": 0.0, "path": [*"abcdefgh"]})
    df["split"], df["who"] = ["train", "val"] * 4, [*"aabbccdd"]
    df.loc[3, key] = empty
    call = {
        "split": lambda df: dfgen.sequences(df, "f", workers=0),
        "group": lambda df: dfgen.split(df, {"train": 0.5, "val": 0.5}, group="who"),
        "id": lambda df: dfgen.Sequence(df, "f", label_mode=None, workers=0).close(),
    }[place]
    with pytest.raises(DfgenError, match="row") as caught:
        call(df)
    code = re.search(r"df = df\[.*\]", str(caught.value))
    if code is not None:
        found = {"df": df}
        exec(code[0], found)
        assert len(found["df"]) == 7
        call(found["df"])


UNSEEN = {
    "one class": (["a", "b", "a", "c"], "kind"),
    "lists": ([["a"], ["b", "a"], ["b"], ["c", "a"]], dfgen.MultiLabel("kind")),
}


@pytest.mark.parametrize("case", UNSEEN)
def test_classes_without_training_rows_are_named(case):
    keras = pytest.importorskip("keras")
    kinds, y = UNSEEN[case]
    df = pd.DataFrame({"id": range(4), "f": 0.0, "kind": kinds, "other": 1.0})
    df["split"] = ["train", "train", "val", "val"]
    module_of_checks._warn_once.cache_clear()
    with pytest.warns(UserWarning, match=r"split 'val' has the class 'c' in column 'kind', but no"):
        seqs = dfgen.sequences(df, "f", y, workers=0)
    lists = case == "lists"
    last = keras.layers.Dense(3, activation="sigmoid" if lists else "softmax")
    model = keras.Sequential([keras.Input(()), keras.layers.Reshape((1,)), last])
    model.compile("sgd", "binary_crossentropy" if lists else "sparse_categorical_crossentropy")
    with pytest.warns(UserWarning, match="validation_data has the class 'c'"):
        model.fit(seqs["train"], validation_data=seqs["val"], verbose=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dfgen.sequences(df, "f", y, workers=0)  # once per process
    assert not [one for one in caught if "no training row" in str(one.message)]


def test_apple_images_and_kaggle_masks_are_named(tmp_path):
    data = b"\x89PNG\r\n\x1a\n\0\0\0\4CgBIP\0 \2" + bytes(40)
    (tmp_path / "icon.png").write_bytes(data)
    with pytest.warns(UserWarning, match="problem"):
        df = dfgen.build_manifest(tmp_path)
    assert "Apple's CgBI" in df["problem"].item()
    Image.new("L", (9, 9)).save(tmp_path / "0.png")
    masks = pd.DataFrame({"path": [str(tmp_path / "0.png")], "runs": [["1 3 10 5"]], "id": 0})
    masks["kinds"] = [["salt"]]
    regions = dfgen.Segmentation("runs", labels="kinds")
    with (
        dfgen.Sequence(masks, dfgen.Image("path"), regions, workers=0) as seq,
        pytest.raises(DfgenError, match="Kaggle's run lengths"),
    ):
        seq[0]


@PROPERTY
@given(codes=st.lists(st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3})?", fullmatch=True), min_size=2))
def test_category_numbers_keep_their_table_text(images, tmp_path, codes):
    codes = (codes * ROWS)[:ROWS]
    labels = pd.DataFrame({"path": images, "code": codes})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    arguments = {"labels": tmp_path / "labels.csv", "path_column": "path", "facts": "none"}
    built = dfgen.build_manifest(**arguments, category="code")
    order = dict(zip(built["path"], built["code"], strict=True))
    assert [order[path] for path in images] == codes


def test_versions_that_are_equal_numbers_name_category(images, tmp_path):
    labels = pd.DataFrame({"path": images, "version": ["1.1", "1.10", "1.2"] * (ROWS // 3)})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    with pytest.warns(UserWarning, match=r'"1\.10" equals another .* category='):
        dfgen.build_manifest(labels=tmp_path / "labels.csv", path_column="path", facts="none")


def test_class_numbers_with_missing_values_become_categories(images):
    labels = pd.DataFrame({"path": images, "kind": [1.0, 10.0, None] * (ROWS // 3)})
    built = dfgen.build_manifest(labels=labels, path_column="path", facts="none", category="kind")
    assert list(built["kind"].cat.categories) == ["1", "10"] and built["kind"].isna().sum() == 8
    labels["kind"] += 0.5
    with pytest.raises(DfgenError, match="dtype=str"):
        dfgen.build_manifest(labels=labels, path_column="path", facts="none", category="kind")


def test_run_lengths_as_classes_name_the_documented_line():
    df = pd.DataFrame({"f": 0.0, "masks": ["1 3 10 5", "20 2", None], "id": range(3)})
    line = r"dfgen\.Column\('masks', mask_of, shape=\(height, width, 1\), dtype=\"uint8\"\)"
    with pytest.raises(DfgenError, match=line):
        sequence(df, y="masks")


def coco(folder, names):
    images = [{"id": n, "file_name": f"{n}.png", "width": 3, "height": 3} for n in range(3)]
    boxes = [
        {"id": n, "image_id": n, "category_id": n, "bbox": [0, 0, 2, 2], "area": 4, "iscrowd": 0}
        for n in range(3)
    ]
    categories = [{"id": n, "name": name} for n, name in enumerate(names)]
    table = {"images": images, "annotations": boxes, "categories": categories}
    (folder / "coco.json").write_text(json.dumps(table))
    return {"coco": folder / "coco.json", "images": folder}


def voc(folder, names):
    for number, name in enumerate(names):
        box = "".join(f"<{side}>1</{side}>" for side in ("xmin", "ymin", "xmax", "ymax"))
        (folder / f"{number}.xml").write_text(
            f"<annotation><filename>{number}.png</filename><size><width>3</width><height>3"
            f"</height></size><object><name>{escape(name)}</name><bndbox>{box}</bndbox></object>"
            "</annotation>"
        )
    return {"voc": folder, "images": folder}


def yolo(folder, names):
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"{number} 0.5 0.5 0.5 0.5\n")
    data = {"path": str(folder), "train": ".", "names": names}
    (folder / "data.yaml").write_text(json.dumps(data), "utf-8")
    return {"yolo": folder / "data.yaml"}


def tags(folder, names):
    lines = [json.dumps({"file": f"{n}.png", "tags": [name]}) for n, name in enumerate(names)]
    (folder / "tags.jsonl").write_text("\n".join(lines))
    return {"labels": folder / "tags.jsonl", "path_column": "file", "root": folder}


@pytest.mark.parametrize("source", [coco, voc, yolo, tags])
@PROPERTY
@given(word=WORDS, change=st.sampled_from([*CHANGES]))
def test_lookalikes_of_annotations_are_seen_in_builds(images, source, word, change):
    _WARNED.clear()
    other = CHANGES[change](word)
    assume(other != word and folded(other) == folded(word))
    assume(source is not voc or other.strip() != word)  # its reader strips names
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(3):
            shutil.copy(images[number], folder / f"{number}.png")
        messages = told(partial(dfgen.build_manifest, **source(folder, [word, other, "zz"])))
    assert messages and all("df[" not in message for message in messages)
    assert len({message.split("'")[1] for message in messages}) == len(messages)
