"""Rows of a frame as pictures, and charts of its classes and sizes."""

import sys
from pathlib import Path
from subprocess import run

import cv2
import h5py
import numpy as np
import pandas as pd
import pytest
import soundfile
from public.test_explore import captions as captions
from public.test_explore import copies as copies
from public.test_explore import rows as rows

import dfgen
import dfgen.explore
from dfgen.errors import DfgenError, ManifestError

RATE = 8000


def pixels(axes):
    return np.asarray(axes.images[0].get_array())


def headings(figure):
    return [text.get_text() for text in figure.texts if text.get_text()]


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Three rows with a tone, an array, a curve and a text each."""
    folder = tmp_path_factory.mktemp("sounds")
    times = np.arange(RATE) / RATE
    for row in range(3):
        soundfile.write(folder / f"{row}.wav", np.sin(2 * np.pi * 500 * 2**row * times), RATE)
        np.save(folder / f"{row}.npy", np.full((4, 6), row, np.float32))
    names = {"path": "wav", "spectrum": "npy"}
    files = {name: [f"{folder}/{row}.{end}" for row in range(3)] for name, end in names.items()}
    pulse = [np.arange(9.0) * row for row in range(3)]
    return pd.DataFrame({"id": range(3), **files, "pulse": pulse, "said": ["yes", "no", "yes"]})


def test_figure_is_png_and_text(rows):
    figure = rows.dfgen.show()
    png = cv2.imdecode(np.frombuffer(figure._repr_png_(), np.uint8), cv2.IMREAD_COLOR)
    assert png.shape[1] == figure.get_size_inches()[0] * 100
    assert str(figure).startswith("10 of 10 rows, random sample\n") and "odd" in repr(figure)


def test_missing_matplotlib_names_the_extra():
    code = """if True:
        import sys, pandas as pd, dfgen.explore
        sys.modules["matplotlib.figure"] = None
        pd.DataFrame({"id": [1], "path": ["a.png"], "kind": ["a"]}).dfgen.show_balance()"""
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "keras-dfgen[explore]"' in done.stderr.splitlines()[-1]


def test_sort_takes_any_ordered_column(rows):
    grades = rows.assign(one=pd.Categorical([None, *"babaabbab"]))
    assert grades.dfgen.show(10, sort="one").table.one.iloc[[0, -1]].tolist() == ["a", np.nan]
    numbers = rows.assign(one=np.arange(10) + 2**60)  # floats could not order them
    assert numbers.dfgen.show(2, sort="-one").table.id.tolist() == [9, 8]


def test_by_counts_each_value_of_a_list_once(rows):
    tags = [["b", "a"], ["a", "a"], None, [], ["b"], ["c"], ["b"], [], ["b"], ["b", "a"]]
    figure = rows.assign(tags=tags).dfgen.show(9, by="tags")
    assert headings(figure)[1:] == ["tags = b (5 rows)", "tags = a (3 rows)", "tags = c (1 rows)"]
    assert figure.get_suptitle() == "7 of 10 rows, random sample"
    assert captions(figure)[-1] == "5\nlabel odd\ntags c"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "lable"}, 'Did you mean "label"'), ({"sort": "-lable"}, 'sort="lable"'),
        ({"caption": "lable"}, "caption"), ({"image": "lable"}, "image"), ({"n": 0}, "n=0"),
        ({"boxes": True}, "boxes"), ({"sort": 3}, "sort=3"), ({"by": "nothing"}, "missing"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(rows, options, message):
    with pytest.raises(DfgenError, match=message):
        rows.assign(nothing=None).dfgen.show(**options)
    with pytest.raises(DfgenError, match="no rows"):
        rows[:0].dfgen.show()


@pytest.mark.parametrize(
    ("caption", "below"),
    [
        (None, "1\nodd"), ("age", "none"), (["id", "when"], "1\n2026-01-03"),
        (["when", "age"], "when 2026-01-03\nage none"), ("tags", "a, b"),
    ],
)  # fmt: skip
def test_captions_are_id_and_labels_or_named_columns(rows, caption, below):
    rows = rows[:2].assign(vector=[[0.5]] * 2, boxes=[[[1, 1, 3, 2]]] * 2, labels=[["cat"]] * 2)
    more = {"age": [3.5, None], "when": pd.to_datetime(["2026-01-02", "2026-01-03"])}
    rows = rows.assign(**more, tags=[["a", "b"]] * 2) if caption else rows
    assert captions(rows.dfgen.show(caption=caption, boxes=False))[1] == below


def test_predictions_stand_below_wrong_ones_in_red(rows):
    said = pd.Categorical(["even"] * 10, ["even", "odd"])
    made = pd.DataFrame({"id": range(10), "y_true": rows["label"], "y_pred": said})
    made = made.assign(prob=[np.array([0.75, 0.25])] * 10, loss=np.arange(10.0))[::-1]
    figure = rows[:2].dfgen.show(predictions=made)
    assert captions(figure) == ["0\neven → even 75%\nloss 0", "1\nodd → even 75%\nloss 1"]
    assert [axes.texts[-1].get_color() for axes in figure.axes] == ["black", "firebrick"]
    assert rows.dfgen.show(2, sort="-loss", predictions=made).table.id.tolist() == [9, 8]
    several = made.rename(columns={"y_true": "y_true_kind", "y_pred": "y_pred_kind"})
    tags = {"y_true_tags": [["a"]] * 10, "y_pred_tags": [["a", "b"]] * 10, "y_pred_age": 1.25}
    figure = rows[:1].dfgen.show(predictions=several.assign(**tags))
    assert captions(figure) == ["0\nkind even → even\ntags a → a, b\nage → 1.25\nloss 0"]


@pytest.mark.parametrize("ids", [None, [0] * 10, range(90, 100)])
def test_predictions_of_other_rows_raise(rows, ids):
    predicted = rows if ids is None else rows.assign(y_pred=rows.label, id=ids)
    with pytest.raises(DfgenError, match=r"predict.*predict the rows again"):
        rows.dfgen.show(predictions=predicted)


def test_image_keeps_proportions_depth_and_text_of_labels(tmp_path):
    cv2.imwrite(f"{tmp_path}/deep.png", np.array([[600, 700]], np.uint16))
    cv2.imwrite(f"{tmp_path}/wide.png", np.full((100, 400, 4), 90, np.uint8))
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno")
    names = ["deep", "wide", "broken", "none"]
    paths = [*(f"{name}.png" for name in names), None]
    rows = pd.DataFrame({"id": range(5), "path": paths, "label": r"$\frac{<b>"})
    figure = rows.dfgen.show(root=tmp_path)
    deep, wide, *_ = figure.axes
    assert pixels(deep).tolist() == [[[0] * 3, [255] * 3]]
    assert pixels(wide).shape == (40, 160, 3) and (pixels(wide) == 90).all()
    below = captions(figure)
    assert below[0] == "0\n$\\frac{<b>\nuint16, 600 to 700"
    assert "png" in below[2] and "not exist" in below[3] and "no path" in below[4]
    assert figure._repr_png_()


def test_masks_and_boxes_are_features_columns_or_off(rows, tmp_path):
    cv2.imwrite(f"{tmp_path}/m.png", np.array([[0, 0, 0, 200]] * 4, np.uint8))
    rows = rows[:1].assign(area=[[[0, 0, 2, 2]]], kinds=[["cat"]], mask=f"{tmp_path}/m.png")
    boxes = dfgen.Boxes("area", labels="kinds", source_format="xywh")
    [axes] = rows.dfgen.show(boxes=boxes, masks=dfgen.Mask("mask", palette={200: 1, 0: 0})).axes
    assert axes.patches[0].get_bbox().extents.tolist() == [-0.5, -0.5, 1.5, 1.5]
    assert axes.images[1].get_array()[..., 3].astype(bool).tolist() == [[False] * 3 + [True]] * 4
    [plain] = rows.assign(boxes=[[1]], labels=[[1]]).dfgen.show(masks=False, boxes=False).axes
    assert len(plain.images) + len(plain.patches) == 1


def test_sounds_are_spectrograms(sounds):
    figure = sounds.dfgen.show(caption="said")
    assert [pixels(axes).mean(axis=1).argmax() for axes in figure.axes] == [
        500 * 2**row * 512 // RATE for row in range(3)
    ]
    assert captions(figure)[1] == "no\n1 s, 8,000 Hz"
    given = sounds.dfgen.show(image=dfgen.Audio("path", RATE, 0.5))
    assert pixels(given.axes[0]).mean(axis=1).argmax() == 500 * 512 // RATE


def test_long_and_short_sounds_are_shown(tmp_path):
    for name, frames in (("long", 9000), ("short", 0)):
        soundfile.write(tmp_path / f"{name}.wav", np.zeros(frames), 100)
    figure = pd.DataFrame({"path": ["long.wav", "short.wav"]}).dfgen.show(root=tmp_path)
    assert "the first 20 of 90 s, 100" in captions(figure)[0].replace("\n", " ")
    assert "0 s" in captions(figure)[1] and figure._repr_png_()


def test_arrays_numbers_and_texts_are_shown(sounds):
    images = sounds.dfgen.show(image="spectrum")
    assert pixels(images.axes[2]).shape == (4, 6, 3)
    assert "float32 4 x 6, 2 to 2" in captions(images)[2]
    curves = sounds.dfgen.show(image="pulse")
    assert curves.axes[2].lines[0].get_ydata().tolist() == list(range(0, 18, 2))
    texts = sounds.dfgen.show(image="said")
    assert captions(texts)[:2] == ["yes\n0", "no\n1"]
    ragged = sounds.assign(pulse=[[1.0, None], [[1.0], [2.0, 3.0]], None]).dfgen.show(image="pulse")
    assert len(ragged.axes[0].lines) == 1 and "sequence" in captions(ragged)[1]


def test_arrays_of_many_axes_show_their_middle(tmp_path):
    for name, shape in {"a": (7, 4, 6), "b": (2, 5, 9, 3), "c": (3, 0, 7)}.items():
        np.save(tmp_path / f"{name}.npy", np.ones(shape))
    figure = pd.DataFrame({"path": ["a.npy", "b.npy", "c.npy"]}).dfgen.show(root=tmp_path)
    assert [pixels(axes).shape for axes in figure.axes[:2]] == [(7, 6, 3), (5, 9, 3)]
    assert "no numbers" in captions(figure)[2].replace("\n", " ")


def test_rows_of_array_files_and_bytes_are_images(files, tmp_path):
    stack = np.arange(3, dtype=np.uint8).repeat(30).reshape(3, 6, 5)
    np.save(tmp_path / "a.npy", stack)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = stack
    rows = pd.DataFrame({"id": range(4), "path": ["a.npy"] * 3 + ["a.h5"], "index": [2, 0, 9, 1]})
    one, other, none, last = rows.dfgen.show(root=tmp_path).axes
    assert (pixels(one) == 2).all() and (pixels(other) == 0).all() and (pixels(last) == 1).all()
    assert "no row 9" in none.texts[0].get_text().replace("\n", " ")
    data = pd.DataFrame({"id": [5], "image": [Path(files[5]).read_bytes()]})
    [axes] = data.dfgen.show(image="image").axes
    assert pixels(axes)[0, 0].tolist() == [5, 0, 0]


def test_pack_and_transformed_features_are_shown(rows, tmp_path):
    dfgen.pack(rows, tmp_path / "pack", image_size=(8, 8), color_mode="grayscale")
    figure = dfgen.explore.show(tmp_path / "pack")
    assert pixels(figure.axes[0]).shape == (8, 8, 3) and len(figure.axes) == 10
    image = dfgen.Image("path", (2, 3), scale="0..1")
    assert pixels(rows.dfgen.show(1, image=image).axes[0]).shape == (2, 3, 3)


def test_show_calls_no_python_per_row(files):
    count = 10**7
    rows = pd.DataFrame({"id": np.arange(count), "path": pd.Categorical([files[3]]).repeat(count)})
    rows = rows.assign(age=np.arange(count) % 90, weight=0.5)
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(event))
    try:
        figure = rows.dfgen.show(2)
    finally:
        sys.setprofile(None)
    assert len(figure.table) == 2 and len(calls) < 10**6


def test_duplicates_and_leaks_keep_the_index(copies):
    copies = copies.set_axis([*"abcdef"])
    figure = copies.dfgen.show_duplicates(1)
    assert headings(figure) == ["2 groups of duplicates, 4 rows", "0: exact, 2 rows"]
    assert captions(figure) == ["1\ntrain", "4\nval"]
    assert figure.table.index.tolist() == [*"becf"]
    leaks = copies.dfgen.show_leaks()
    assert captions(leaks) == ["4\nval", "1\ntrain", "5\nval", "2\ntrain"]
    assert leaks.table.index.tolist() == [*"ef"] and not len(copies[:4].dfgen.show_leaks().axes)


def test_leaks_need_no_unique_ids(copies):
    for frame in (copies.drop(columns="id"), copies.assign(id=1)):
        assert len(frame.dfgen.show_leaks().axes) == 4
    with pytest.raises(DfgenError, match="full"):
        copies.drop(columns="phash").dfgen.show_leaks()


def test_classes_of_frame_and_file_are_equal(rows, tmp_path):
    table = rows.dfgen.classes()
    dfgen.write_manifest(rows, tmp_path / "rows.parquet")
    assert dfgen.explore.classes(tmp_path / "rows.parquet").equals(table)
    columns = {"train": [3, 3], "val": [2, 2], "rows": [5, 5], "share": [0.5, 0.5]}
    assert table.to_dict("list") == columns and table.index.name == "label"
    assert [*rows.drop(columns="split").dfgen.classes()] == ["rows", "share"]
    assert rows.assign(split=None).dfgen.classes()["(none)"].tolist() == [5, 5]


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


def test_named_column_without_classes_raises(rows):
    for values in ([None] * 10, [1, "a"] * 5, [{}] * 10):
        with pytest.raises(ManifestError, match="no classes"):
            rows.assign(one=values).dfgen.classes("one")
    with pytest.raises(ManifestError, match="verify"):
        rows.dfgen.problems()


def test_two_columns_of_one_name_raise(rows):
    twice = pd.concat([rows, rows[["label"]]], axis=1)
    for function in (dfgen.explore.show_balance, dfgen.explore.classes, dfgen.explore.show):
        with pytest.raises(ManifestError, match="several columns 'label'"):
            function(twice)


def test_balance_has_bars_per_class_and_split(rows):
    figure = rows.assign(label=["$a"] * 8 + ["b"] * 2, tags=[["x"]] * 10).dfgen.show_balance()
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["$a", "b"]
    assert [bar.get_width() for bar in first.patches] == [1, 0, 0.5, 0.5]
    assert second.get_title("left") == "tags: 1 of 1 classes" and figure._repr_png_()


def test_sizes_are_upright_and_list_outliers():
    rows = pd.DataFrame({"id": range(40), "path": "a.png", "orientation": [5] + [1] * 38 + [6]})
    rows["width"] = [300] + [400] * 37 + [4000, 300]
    rows["height"] = [400] + [300] * 38 + [400]
    rows["bytes"] = pd.array([*range(9_000, 9_380, 10), None, 20], "Int64")
    figure = rows.dfgen.show_sizes()
    assert [*figure.table.why.items()] == [(39, "bytes"), (38, "width, aspect")]
    sizes, aspect, volume = figure.axes
    assert sizes.collections[0].get_offsets().tolist() == [[400, 300], [4000, 300]]
    assert aspect.patches[0].get_data().values.sum() == 40 and volume.get_xlabel() == "bytes"


@pytest.mark.parametrize("odd", [0, "a", np.inf])
def test_impossible_sizes_count_as_missing(rows, odd):
    with pytest.raises(ManifestError, match="facts"):
        rows.assign(width=odd, height=4, bytes=odd).dfgen.show_sizes()
    assert len(rows.assign(width=odd, height=4, bytes=5).dfgen.show_sizes().axes) == 1
