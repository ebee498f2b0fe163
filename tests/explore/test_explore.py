"""Looking at a frame: figures by what they contain, and the frames behind them."""

import datetime
import inspect
import shutil
import sys
from decimal import Decimal

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import each
from messages import message_of

import dfgen
import dfgen.explore
from dfgen.errors import ManifestError, MissingPackageError
from dfgen.explore import figures


def texts(axes):
    return [text.get_text() for text in axes.texts]


def captions(figure):
    """What stands below each picture; on the tile of a bad one, why."""
    return ["\n".join(texts(axes)) for axes in figure.axes]


def headings(figure):
    return [text.get_text() for text in figure.texts]


@pytest.fixture
def rows(frame):
    """Of ten rows every second is even; some are for validation."""
    return frame(10).assign(split=pd.Categorical(["train"] * 6 + ["val"] * 4))


def test_without_matplotlib_an_error_says_what_to_install(rows, monkeypatch):
    figures._figure_class.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError) as caught:
        rows.dfgen.show_balance()
    assert str(caught.value) == (
        "pictures need matplotlib, which is not installed. It is in the extra named explore: "
        'pip install "keras-dfgen[explore]"'
    )
    assert isinstance(caught.value, ImportError)
    assert rows.dfgen.classes()["rows"].tolist() == [5, 5]  # which needs none


def test_a_grid_has_a_picture_an_id_and_a_label_of_each_row(rows):
    figure = rows.dfgen.show()
    assert figure.get_suptitle() == "10 of 10 rows, drawn at random"
    assert captions(figure) == [f"{row}\n{('even', 'odd')[row % 2]}" for row in range(10)]
    red = [axes.images[0].get_array()[0, 0, 0] for axes in figure.axes]
    assert red == list(range(10))  # the pixels hold the number of the row
    assert figure.table["id"].tolist() == list(range(10))


def test_a_figure_is_a_picture_in_a_notebook_and_text_in_a_terminal(rows):
    figure = rows[["id", "path", "label"]].iloc[:2].dfgen.show()
    pixels = cv2.imdecode(np.frombuffer(figure._repr_png_(), np.uint8), cv2.IMREAD_COLOR)
    assert pixels.shape[1] == 500
    assert str(figure) == repr(figure)
    first, *lines, last = repr(figure).splitlines()
    assert (first, len(lines)) == ("2 of 2 rows, drawn at random", 3)
    assert last == "[a figure of matplotlib: .savefig(file), .table]"


def test_rows_are_drawn_by_a_seed_sorted_or_some_of_each_value(rows):
    drawn = rows.dfgen.show(3).table["id"].tolist()
    assert drawn == sorted(drawn) == rows.dfgen.show(3).table["id"].tolist()
    assert drawn != rows.dfgen.show(3, seed=1).table["id"].tolist()
    rows["age"] = [5, np.nan, 3, 9, 1, 7, 8, 2, 4, 6]
    assert rows.dfgen.show(3, sort="age").table["id"].tolist() == [4, 7, 2]
    assert rows.dfgen.show(2, sort="-age").table["id"].tolist() == [3, 6]
    assert rows.dfgen.show(10, sort="age").table["id"].tolist()[-1] == 1
    figure = rows.dfgen.show(4, by="label", sort="-age")
    assert headings(figure)[1:] == ["label = even (5 rows)", "label = odd (5 rows)"]
    assert figure.table["id"].tolist() == [6, 0, 3, 5]
    assert rows.dfgen.show(2, sort="label").table["label"].tolist() == ["even", "even"]
    rows["grade"] = pd.Categorical([None, *"babaabbab"])
    assert rows.dfgen.show(10, sort="grade").table["id"].tolist()[-1] == 0


def test_a_row_counts_for_each_of_its_tags(rows):
    tags = [["b", "a"], ["a", "a"], None, [], ["b"], ["c"], ["b"], [], ["b"], ["b", "a"]]
    arrow = pd.Series(tags, dtype=pd.ArrowDtype(pa.list_(pa.string())))
    for values in (tags, arrow):
        figure = rows.assign(tags=values).dfgen.show(9, by="tags")
        assert headings(figure)[1:] == [
            "tags = a (3 rows)", "tags = b (5 rows)", "tags = c (1 rows)"
        ]  # fmt: skip
        assert figure.get_suptitle() == "6 of 10 rows, drawn at random"
        assert {*figure.table["id"].iloc[:3]} == {0, 1, 9}
    assert captions(figure)[-1] == "5\nlabel odd\ntags c"


LONG = "a_recording_of_the_same_long_day_in_the_field_"


@pytest.mark.parametrize(
    ("columns", "how", "expected"),
    [
        ({}, {}, ["0\neven", "1\nodd"]),
        ({}, {"caption": "age"}, ["3.5", "none"]),
        ({}, {"caption": ["id", "bytes"]}, ["0\n2 MB", "1\n12 B"]),
        ({}, {"caption": ["when", "age"]},
         ["when 2026-01-02\nage 3.5", "when 2026-01-03\nage none"]),
        ({}, {"caption": "mtime_ns"}, ["2023-11-14 22:13", "1970-01-01 00:00"]),
        ({"id": [f"{LONG}{row}" for row in "xy"]}, {"caption": "id"},
         [f"a_recording_of_the_same_l\nong_day_in_the_field_{row}" for row in "xy"]),
        ({"id": None}, {}, ["0.png\neven", "1.png\nodd"]),
        ({"one": pd.Categorical(["x", "x"])}, {}, ["0\nlabel even\none x", "1\nlabel odd\none x"]),
        ({"mask": ["a.png", "b.png"], "depth": ["a.npy", "b.npy"]}, {}, ["0\neven", "1\nodd"]),
    ],
)  # fmt: skip
def test_captions_name_the_row_and_what_is_asked_for(rows, columns, how, expected):
    facts = {"bytes": [2_000_000, 12], "mtime_ns": [1_700_000_000_000_000_000, 0]}
    some = rows.iloc[:2].drop(columns="split").assign(**facts, **columns).dropna(axis="columns")
    if "caption" in how:
        some = some.assign(age=[3.5, np.nan], when=pd.to_datetime(["2026-01-02", "2026-01-03"]))
    assert captions(some.dfgen.show(masks=False, **how)) == expected


def test_files_are_no_classes(rows, tmp_path):
    named = rows.assign(
        mask=rows["path"], other=rows["path"], listed=[[one] for one in rows["path"]]
    )
    assert named.dfgen.classes().equals(rows.dfgen.classes())
    assert named.dfgen.classes("other")["rows"].tolist() == [1] * 10  # where one asks for it


def test_the_most_frequent_values_are_shown_where_there_are_many(rows):
    rows["site"] = ["a", "b", "b", "c", "c", "c", None, "d", "d", "d"]
    figure = rows.dfgen.show(2, by="site")
    assert headings(figure)[1:] == ["site = c (3 rows)", "site = d (3 rows)"]
    mixed = rows.assign(one=[10, "a", 2, "a", 10] * 2).dfgen.show(6, by="one")
    assert mixed.table["one"].tolist() == [2, 2, 10, 10, "a", "a"]


def test_what_is_broken_is_shown_as_such_and_text_stays_text(tmp_path):
    cv2.imwrite(f"{tmp_path}/deep.png", np.full((4, 4), 700, np.uint16))
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "path": [f"{tmp_path}/none.png", f"{tmp_path}/deep.png"],
            "label": [r"$\frac{<b>", "line\nline" * 9],
        }
    )
    figure = frame.dfgen.show()
    assert captions(figure) == [
        "the file does not exist\n1\n$\\frac{<b>",
        "2\nline lineline lineline\n" + 2 * "lineline lineline\n" + "lineline lineline line\n"
        "uint16, 700 to 700",
    ]
    assert figure._repr_png_()


def test_boxes_and_masks_are_drawn_where_there_are_some(tmp_path, rows):
    mask = f"{tmp_path}/mask.png"
    cv2.imwrite(mask, np.array([[0, 0, 0, 3]] * 4, np.uint8))
    rows = rows.iloc[:2].assign(
        boxes=[[[1, 1, 3, 2]], []], labels=[["cat"], []], mask=[mask, f"{tmp_path}/none.png"]
    )
    one, other = rows.dfgen.show().axes
    [box] = one.patches
    assert box.get_bbox().extents.tolist() == [0.5, 0.5, 2.5, 1.5]  # pixels' centres are whole
    assert texts(one) == ["cat", "0\neven"]
    assert one.images[1].get_array()[..., 3].tolist() == [[0, 0, 0, 255]] * 4
    assert (len(other.patches), len(other.images)) == (0, 1)
    assert texts(other) == ["1\nodd\nmask: the file does not\nexist"]
    plain = rows.dfgen.show(boxes=False, masks=False)
    assert [len(axes.patches) + len(axes.images) for axes in plain.axes] == [1, 1]


def test_what_a_model_says_stands_below_in_red_where_it_is_wrong(rows):
    said = pd.Categorical(["even"] * 10, categories=["even", "odd"])
    prob = [np.array([0.75, 0.25], np.float32)] * 10
    loss = np.arange(10, dtype=np.float32)
    made = pd.DataFrame(
        {"id": range(10), "y_true": rows["label"], "y_pred": said, "prob": prob, "loss": loss}
    ).iloc[::-1]
    figure = rows.iloc[:2].dfgen.show(predictions=made)
    assert captions(figure) == ["0\neven → even 75%\nloss 0", "1\nodd → even 75%\nloss 1"]
    assert [axes.texts[-1].get_color() for axes in figure.axes] == ["black", "firebrick"]
    assert rows.dfgen.show(2, sort="-loss", predictions=made).table["id"].tolist() == [9, 8]
    several = made.rename(columns={"y_true": "y_true_kind", "y_pred": "y_pred_kind"})
    several = several.assign(
        y_true_tags=[["a"]] * 10, y_pred_tags=[["a", "b"]] * 10, y_pred_age=1.25, row_weight_tags=1
    )
    figure = rows.iloc[:1].drop(columns="label").dfgen.show(predictions=several)
    assert captions(figure) == ["0\nkind even → even\ntags a → a, b\nage → 1.25\nloss 0"]
    assert message_of(ManifestError, rows.dfgen.show, predictions=rows) == (
        "predictions must be a frame of dfgen.predict_frame with the ids of the manifest, got one "
        "with the columns id, path, label, split"
    )


ODD = {"lists": [[[1]]] * 10, "nothing": None, "mixed": [1, "a"] * 5}


@each(
    ("how", "message"),
    [
        ({"by": "lable"}, 'by="lable" is not a column of the manifest. Columns: id, path, label, '
         'split, lists, nothing, mixed. Did you mean "label"?'),
        ({"sort": "-lable"}, 'sort="lable" is not a column of the manifest. Columns: id, path, '),
        ({"boxes": True}, 'boxes="boxes" is not a column of the manifest. Columns: id, path, '),
        ({"caption": "lable"}, 'caption="lable" is not a column of the manifest. Columns: id, '),
        ({"caption": 3}, "caption=3 is not a column of the manifest, expected the name of one"),
        ({"n": 0}, "n=0 is not a whole number of 1 or more"),
        ({"by": ["label"]}, "by=['label'] is not a column of the manifest, expected the name of"),
        ({"sort": 3}, "sort=3 is not a column of the manifest, expected the name of one"),
        ({"by": "lists"}, "by='lists': the column holds no values to tell rows by: unhashable"),
        ({"by": "nothing"}, "by='nothing': no row has a value"),
        ({"sort": "lists"}, "sort='lists': the column holds lists, which have no order"),
        ({"sort": "mixed"}, "sort='mixed': the column has no order: "),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told(rows, how, message):
    with pytest.raises(dfgen.DfgenError) as caught:
        rows.assign(**ODD).dfgen.show(**how)
    assert str(caught.value).startswith(message)


def test_a_frame_without_rows_is_told(rows):
    with pytest.raises(ManifestError, match="there are no rows to show"):
        rows.iloc[:0].dfgen.show()


@pytest.mark.parametrize(
    "values",
    [
        [None] * 10, pd.array([True, None] * 5, "boolean"), pd.to_datetime(["2026-01-02"] * 10),
        np.arange(10, dtype=np.float16), np.arange(10, dtype=np.uint64), [b"a"] * 10,
        [datetime.date(2026, 1, 1 + row) for row in range(10)], [Decimal(row) for row in range(10)],
        [f"{row}" for row in range(10)], pd.Series([f"{row}" for row in range(10)], dtype=object),
    ],
)  # fmt: skip
def test_rows_are_sorted_by_whatever_has_an_order(rows, values):
    for sort in ("one", "-one"):
        assert len(rows.assign(one=values).dfgen.show(2, sort=sort).table) == 2


@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64", "int64[pyarrow]"])
@pytest.mark.parametrize("least", [2**60, 0])
def test_whole_numbers_that_no_float_tells_apart_are_sorted_as_they_are(rows, dtype, least):
    numbers = rows.assign(one=pd.Series(range(least, least + 10), dtype=dtype))
    assert numbers.dfgen.show(2, sort="-one").table["id"].tolist() == [9, 8]
    assert numbers.dfgen.show(2, sort="one").table["id"].tolist() == [0, 1]


def test_lists_of_arrow_are_no_captions(rows):
    lists = pd.Series([[1.0, 2.0]] * 10, dtype=pd.ArrowDtype(pa.list_(pa.float64())))
    assert captions(rows.assign(one=lists).dfgen.show())[:2] == ["0\neven", "1\nodd"]


def test_a_column_asked_for_that_holds_no_classes_is_named(rows):
    for values in ([None] * 10, [1, "a"] * 5):
        with pytest.raises(ManifestError) as caught:
            rows.assign(one=values).dfgen.classes("one")
        assert str(caught.value) == (
            'the column "one" holds no classes: it has no values, or some that cannot be sorted '
            "together, such as numbers and text"
        )


def test_classes_are_counted_in_each_split(rows, tmp_path):
    table = rows.dfgen.classes()
    dfgen.write_manifest(rows, tmp_path / "rows.parquet")
    assert dfgen.explore.classes(tmp_path / "rows.parquet").equals(table)
    assert table.index.name == "label"
    assert table.to_dict("list") == {
        "train": [3, 3], "val": [2, 2], "rows": [5, 5], "share": [0.5, 0.5]
    }  # fmt: skip
    rows["label"] = rows["label"].cat.add_categories(["none"]).where(rows["id"] > 0)
    assert rows.dfgen.classes()["rows"].to_dict() == {
        "even": 4, "odd": 5, "none": 0, "(missing)": 1
    }  # fmt: skip
    assert list(rows.drop(columns="split").dfgen.classes()) == ["rows", "share"]


def test_lists_of_classes_text_and_small_numbers_are_counted(rows):
    rows = rows[["id", "path"]].assign(
        tags=[["a", "b"], [], ["b"], [], *[["a"]] * 6],
        stars=[1, 2] * 5,
        age=np.arange(10) / 3,
        note=[f"written by {row}" for row in range(10)],
        numbers=range(10, 20),
    )
    rows["caption"] = rows["note"] + " and more"
    found = rows.drop(columns="note").dfgen.classes()
    assert found.loc["tags", "rows"].to_dict() == {"a": 7, "b": 2}
    assert found.loc["tags", "share"].to_dict() == {"a": 7 / 9, "b": 2 / 9}  # of labels
    assert found.loc["stars", "rows"].to_dict() == {1: 5, 2: 5}
    assert found.index.unique(0).tolist() == ["tags", "stars", "numbers"]
    assert rows.dfgen.classes("note")["rows"].tolist() == [1] * 10
    assert len(pd.DataFrame({"id": range(50), "number": range(50)}).dfgen.classes()) == 50
    with pytest.raises(ManifestError) as caught:
        rows[["id", "path", "age"]].dfgen.classes()
    assert str(caught.value) == (
        "no column holds classes (columns: id, path, age): name one, as in label=..."
    )


def test_balance_draws_a_bar_for_each_class_and_split(rows):
    rows["label"] = pd.Categorical(["$a"] * 8 + ["b"] * 2)
    figure = rows.dfgen.show_balance()
    [axes] = figure.axes
    assert axes.get_title("left") == "label: 2 classes, $a 4 times as often as b"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$a", "b"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["train", "val"]
    assert [bar.get_width() for bar in axes.patches] == [1, 0, 0.5, 0.5]
    assert [text.get_text() for text in axes.texts] == ["6", "0", "2", "2"]
    assert figure.table.equals(rows.dfgen.classes())
    assert figure._repr_png_()
    rows["label"] = rows["label"].cat.add_categories("c")
    title = rows.dfgen.show_balance().axes[0].get_title("left")
    assert title == "label: 3 classes, c without any row"


def test_of_many_classes_the_most_frequent_are_drawn(frame):
    rows = frame(100).assign(label=[f"{row % 60:02}" for row in range(100)])
    figure = rows.dfgen.show_balance()
    assert len(figure.axes[0].patches) == 30
    assert len(figure.table) == 60


def test_sizes_show_what_is_far_from_the_others():
    rows = pd.DataFrame(
        {
            "id": range(40), "path": "a.png",
            "width": [300] + [400] * 37 + [4000, 300], "height": [400] + [300] * 38 + [400],
            "orientation": [5] + [1] * 38 + [6],
            "bytes": pd.array([*range(9_000, 9_380, 10), None, 20], "Int64"),
        }
    )  # fmt: skip
    figure = rows.dfgen.show_sizes()
    assert figure.get_suptitle() == "2 of 40 rows are far from the others"
    assert [*figure.table["why"].items()] == [
        (39, "bytes 20 B, of others 9.1 kB to 9.3 kB"),
        (38, "width 4,000, of others 400 to 400; aspect 13.3, of others 1.33 to 1.33"),
    ]
    sizes, aspect, volume = figure.axes
    upright = [[400, 300], [4000, 300]]
    assert sizes.collections[0].get_offsets().tolist() == upright
    assert aspect.get_title("left") == "aspect: 1.33 to 13.3"
    assert aspect.patches[0].get_data().values.sum() == 40
    assert volume.get_xlabel() == "bytes"


def test_sizes_of_rows_that_lack_facts(rows):
    infinite = pd.DataFrame({"width": [5, np.inf, 6], "height": [5, 5, 5], "bytes": [1, 2, 3]})
    assert "aspect: 1 to 1.2" in infinite.dfgen.show_sizes().axes[1].get_title(loc="left")
    assert message_of(ManifestError, rows.dfgen.show_sizes) == (
        "the frame does not say how large its files are (columns: id, path, label, split): "
        'dfgen.build_manifest(..., facts="header") reads width, height and bytes'
    )
    for odd in (0, -3, "a"):
        with pytest.raises(ManifestError):
            rows.assign(width=odd, height=4, bytes=odd).dfgen.show_sizes()
    rows["bytes"] = pd.array([5] * 9 + [None], "Int64")
    figure = rows.dfgen.show_sizes()
    assert [axes.get_xlabel() for axes in figure.axes] == ["bytes"]
    assert len(figure.table) == 0


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Six photographs; 1 and 4 are of the same bytes, 5 is 2, saved anew and smaller."""
    folder, rng = tmp_path_factory.mktemp("copies"), np.random.default_rng(0)
    for row in range(4):
        coarse = rng.integers(0, 256, (6, 8, 3), np.uint8)
        photo = cv2.resize(coarse, (120, 90), interpolation=cv2.INTER_CUBIC)
        cv2.imwrite(f"{folder}/{row}.png", photo)
    shutil.copy(f"{folder}/1.png", f"{folder}/4.png")
    cv2.imwrite(f"{folder}/5.jpg", cv2.resize(cv2.imread(f"{folder}/2.png"), (100, 75)))
    frame = dfgen.build_manifest(folder, pattern="{id:int}.{kind}", facts="full")
    split = ["train"] * 4 + ["val"] * 2
    return frame.drop(columns="kind").assign(split=split).set_axis(list("abcdef"))


def test_copies_are_rows_of_pictures(copies):
    figure = copies.dfgen.show_duplicates()
    assert headings(figure) == [
        "2 groups of copies, 4 rows", "0: exact, 2 rows", "1: near, 2 rows"
    ]  # fmt: skip
    assert captions(figure) == ["1\ntrain", "4\nval", "2\ntrain", "5\nval"]
    first, same, near, smaller = (axes.images[0].get_array() for axes in figure.axes)
    assert (first == same).all()
    assert (near.shape, smaller.shape) == ((90, 120, 3), (75, 100, 3))
    assert figure.table.index.tolist() == ["b", "e", "c", "f"]
    assert figure.table["kind"].tolist() == ["exact", "exact", "near", "near"]
    assert headings(copies.dfgen.show_duplicates(1)) == [
        "2 groups of copies, 4 rows; 1 shown", "0: exact, 2 rows"
    ]  # fmt: skip
    none = copies.iloc[:4].dfgen.show_duplicates()
    assert (headings(none), len(none.axes), len(none.table)) == (["no copies"], 0, 0)


def test_leaks_are_pairs_of_pictures(copies):
    figure = copies.dfgen.show_leaks()
    assert headings(figure) == ["2 rows have a copy in an earlier split", "exact", "near"]
    assert captions(figure) == ["4\nval", "1\ntrain", "5\nval", "2\ntrain"]
    assert figure.table.index.tolist() == ["e", "f"]
    assert figure.table["other_id"].tolist() == [1, 2]
    none = copies.iloc[:4].dfgen.show_leaks()
    assert (headings(none), len(none.table)) == (["nothing leaks"], 0)


def test_copies_of_a_frame_that_does_not_know_them_are_an_error(rows):
    assert 'facts="full"' in message_of(ManifestError, rows.dfgen.show_duplicates)


def test_problems_are_those_that_the_manifest_knows(rows):
    rows["problem"] = [None] * 9 + ["the file is empty (0 bytes)"]
    assert rows.dfgen.problems().to_dict("list") == {
        "id": [9], "path": [rows["path"][9]], "split": ["val"],
        "problem": ["the file is empty (0 bytes)"],
    }  # fmt: skip
    with pytest.raises(ManifestError) as caught:
        rows.drop(columns="problem").dfgen.problems()
    assert str(caught.value) == (
        "the frame does not say which files cannot be used (columns: id, path, label, split): "
        "dfgen.verify(df) looks at them, and dfgen.build_manifest adds the column problem"
    )


OF_FRAMES = ("show", "show_balance", "show_sizes", "show_duplicates", "show_leaks")


def test_what_shows_returns_a_figure_with_its_frame_and_what_counts_a_frame(copies):
    frame = copies.assign(kind="a")
    for name in OF_FRAMES:
        assert isinstance(getattr(frame.dfgen, name)().table, pd.DataFrame)
    for name in ("classes", "problems"):
        assert isinstance(getattr(frame.dfgen, name)(), pd.DataFrame)


@pytest.mark.parametrize("word", [*OF_FRAMES, "classes", "problems"])
def test_a_word_of_the_accessor_takes_what_its_function_takes(word):
    of_frame = inspect.signature(getattr(dfgen.explore.FrameAccessor, word)).parameters
    plain = inspect.signature(getattr(dfgen.explore, word)).parameters
    assert [*of_frame.values()][1:] == [*plain.values()][1:]
