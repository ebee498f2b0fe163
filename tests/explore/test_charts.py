"""Class counts, sizes and problems of a frame."""

import numpy as np
import pandas as pd
import pytest

import dfgen
import dfgen.explore
from dfgen.errors import ManifestError


@pytest.fixture
def rows(frame):
    return frame(10).assign(split=pd.Categorical(["train"] * 6 + ["val"] * 4))


def test_classes_of_frame_and_file_are_equal(rows, tmp_path):
    table = rows.dfgen.classes()
    dfgen.write_manifest(rows, tmp_path / "rows.parquet")
    assert dfgen.explore.classes(tmp_path / "rows.parquet").equals(table)
    columns = {"train": [3, 3], "val": [2, 2], "rows": [5, 5], "share": [0.5, 0.5]}
    assert table.to_dict("list") == columns and table.index.name == "label"
    assert [*rows.drop(columns="split").dfgen.classes()] == ["rows", "share"]
    rows.loc[0, "split"] = None
    assert rows.dfgen.classes()["(none)"].tolist() == [1, 0]


def test_lists_texts_and_small_numbers_are_classes(rows):
    rows = rows[["id", "path"]].assign(
        tags=[["a", "b"], [], ["b"], [], *[["a"]] * 6], stars=[1, 2] * 5, age=np.arange(10) / 3,
        note=[f"a note written by {n}" for n in range(10)], file=[f"{n}.png" for n in range(10)],
        vector=[[0.5]] * 10, boxes=[[[1, 2, 3, 4]]] * 10, day=pd.to_datetime(["2026-01-02"] * 10),
    )  # fmt: skip
    table = rows.dfgen.classes()
    assert table.loc["tags", "rows"].to_dict() == {"a": 7, "b": 2}
    assert table.loc["tags", "share"].to_dict() == {"a": 7 / 9, "b": 2 / 9}
    assert table.index.unique(0).tolist() == ["tags", "stars"]
    assert rows.dfgen.classes("note").rows.tolist() == [1] * 10
    with pytest.raises(ManifestError, match="label="):
        rows[["id", "path", "age"]].dfgen.classes()


@pytest.mark.parametrize("values", [[None] * 10, [1, "a"] * 5, [{}] * 10])
def test_named_column_without_classes_raises(rows, values):
    with pytest.raises(ManifestError, match="no classes"):
        rows.assign(one=values).dfgen.classes("one")


def test_two_columns_of_one_name_raise(rows):
    twice = pd.concat([rows, rows[["label"]]], axis=1)
    for function in (dfgen.explore.show_balance, dfgen.explore.classes, dfgen.explore.show):
        with pytest.raises(ManifestError, match="several columns 'label'"):
            function(twice)


def test_balance_has_a_bar_for_each_class_and_split(rows):
    figure = rows.assign(label=["$a"] * 8 + ["b"] * 2, tags=[["x"]] * 10).dfgen.show_balance()
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["$a", "b"]
    assert [bar.get_width() for bar in first.patches] == [1, 0, 0.5, 0.5]
    assert [text.get_text() for text in first.texts] == ["6", "0", "2", "2"]
    assert second.get_title("left") == "tags: 1 of 1 classes" and figure._repr_png_()


def test_balance_draws_the_most_frequent_classes(frame):
    figure = frame(100).assign(label=[f"{row % 60:02}" for row in range(100)]).dfgen.show_balance()
    assert len(figure.axes[0].patches) == 30 and len(figure.table) == 60


def test_sizes_are_upright_and_list_outliers():
    rows = pd.DataFrame({"id": range(40), "path": "a.png", "orientation": [5] + [1] * 38 + [6]})
    rows["width"] = [300] + [400] * 37 + [4000, 300]
    rows["height"] = [400] + [300] * 38 + [400]
    rows["bytes"] = pd.array([*range(9_000, 9_380, 10), None, 20], "Int64")
    figure = rows.dfgen.show_sizes()
    assert [*figure.table.why.items()] == [(39, "bytes"), (38, "width, aspect")]
    sizes, aspect, volume = figure.axes
    assert sizes.collections[0].get_offsets().tolist() == [[400, 300], [4000, 300]]
    assert aspect.get_title("left") == "aspect: 1.333 to 13.33"
    assert aspect.patches[0].get_data().values.sum() == 40 and volume.get_xlabel() == "bytes"


@pytest.mark.parametrize("odd", [0, -3, "a", np.inf])
def test_impossible_sizes_count_as_missing(rows, odd):
    with pytest.raises(ManifestError, match="facts"):
        rows.assign(width=odd, height=4, bytes=odd).dfgen.show_sizes()
    figure = rows.assign(width=odd, height=4, bytes=5).dfgen.show_sizes()
    assert [axes.get_xlabel() for axes in figure.axes] == ["bytes"] and not len(figure.table)


def test_problems_are_those_of_the_manifest(rows):
    found = rows.assign(problem=[None] * 9 + ["the file is empty"]).dfgen.problems()
    assert found.id.tolist() == [9] and [*found] == ["id", "path", "split", "problem"]
    with pytest.raises(ManifestError, match="verify"):
        rows.dfgen.problems()
