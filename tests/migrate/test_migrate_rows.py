"""Which rows, classes and arguments `dfgen.migrate` takes, warns of and refuses, beside Keras."""

import io
import os
import re
import subprocess
import sys

import beside_keras
import keras
import numpy as np
import pandas as pd
import pytest
from beside_keras import SIZE, assert_same, both, made
from PIL import Image

from dfgen.errors import DfgenError
from dfgen.migrate import ImageDataGenerator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("plain"))
    for row in range(6):
        beside_keras.picture(row).save(f"{folder}/{row}.png")
    return folder


@pytest.fixture
def frame(folder):
    return pd.DataFrame(
        {
            "filename": [f"{row}.png" for row in range(6)],
            "class": ["b", "a", "b", "c", "a", "b"],
            "weight": np.linspace(0, 1, 6),
        }
    )


def of_frame(frame, folder, of=None, **options):
    return both("flow_from_dataframe", frame, folder, of=of, **{**SIZE, **options})


def ours(frame, folder, of=None, **options):
    """What dfgen makes, and what it tells."""
    found, told, _ = made(
        ImageDataGenerator, "flow_from_dataframe", frame, folder, of=of, **{**SIZE, **options}
    )
    return found, [text for _, text in told]


@pytest.mark.parametrize(
    "index",
    [
        [5, 3, 1, 0, 2, 4], [0, 0, 0, 1, 1, 1], list("fedcba"),
        pd.MultiIndex.from_product([["x", "y"], [1, 2, 3]]), pd.date_range("2024-01-01", periods=6),
    ],
    ids=["ints", "twice", "text", "levels", "dates"],
)  # fmt: skip
@pytest.mark.parametrize("missing", [False, True])
def test_any_index(frame, folder, index, missing):
    if missing:
        frame.loc[[1, 4], "filename"] = ["gone.png", "0.txt"]
    assert_same(*of_frame(frame.set_index(pd.Index(index)), folder, weight_col="weight"))


def test_absolute_and_relative_paths_with_and_without_a_directory(frame, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert_same(*of_frame(frame, None))
    frame["filename"] = [f"{folder}/{name}" for name in frame.filename]
    assert_same(*of_frame(frame, None))
    assert_same(*of_frame(frame, "/elsewhere"))
    frame.loc[::2, "filename"] = [f"./{row}.png" for row in range(0, 6, 2)]
    assert_same(*of_frame(frame, f"{folder}/"))


def test_rows_without_a_file_are_left_out_and_named(frame, folder):
    frame["filename"] = ["0.png", "gone.png", "2.png", "3.txt", "4.PNG", "5.png"]
    of_frame(frame, folder)  # Keras's own words come first
    found, told = ours(frame, folder)
    assert found.filenames == ["0.png", "2.png", "5.png"]
    assert told == [
        'Found 3 invalid image filename(s) in x_col="filename". These filename(s) will be ignored. '
        "They are row 1 ('gone.png'), row 3 ('3.txt'), row 4 ('4.PNG'): no file is there, or it is "
        "none of png, jpg, jpeg, bmp, ppm, tif, tiff. dfgen.Sequence(df, x=dfgen.Image('filename')"
        ', on_error="skip") keeps such rows with weight 0, and lists them in seq.problems'
    ]


def test_rows_without_a_file_stay_where_names_are_not_validated(frame, folder):
    frame.loc[5, "filename"] = "gone.png"
    pair = of_frame(frame, folder, validate_filenames=False)
    for one in pair:
        assert one.samples == 6
        assert one[0][0].shape == (5, 16, 12, 3)
        with pytest.raises(FileNotFoundError):
            one[1]
    with pytest.raises(FileNotFoundError) as caught:
        pair[0][1]
    assert str(caught.value) == (f"row id=5, filename='{folder}/gone.png': the file does not exist")


def test_rows_of_other_classes_are_left_out_and_named(frame, folder):
    found, told = ours(frame, folder, classes=["a", "c"])
    assert found.class_indices == {"a": 0, "c": 1}
    assert found.filenames == ["1.png", "3.png", "4.png"]
    assert told == [
        "3 of 6 rows are left out, as in Keras, which does not say so: 'class' has none of "
        "the 2 classes in row 0 ('0.png'), row 2 ('2.png'), row 5 ('5.png'). To leave them out "
        "yourself: dfgen.Sequence(df[df['class'].isin(classes)], ...)"
    ]


def test_labels_of_lists_that_are_no_classes_are_told(frame, folder):
    frame["class"] = [["a"], ["a", "b"], ["b"], [], ("c", "a"), ["c", "c"]]
    found, told = ours(frame, folder, classes=["a", "c"])
    assert found.classes == [[0], [0], [1, 0], [1, 1]]
    assert [text.partition(":")[0] for text in told] == [
        "2 of 6 rows are left out, as in Keras, which does not say so",
        "1 rows keep some of their labels alone, those in classes=, as in Keras, which does not "
        "say so",
    ]


def test_lists_without_a_class_are_rows_of_zeros(frame, folder):
    frame["class"] = [["a"], [], ["b", "a"], ("c",), [], "b"]
    assert_same(*of_frame(frame, folder))


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([10, 9, 10, 2, 9, 2], [2, 9, 10]),
        (np.array([0.5, 1.5, 0.5, 1.5, 0.5, 1.5]), [0.5, 1.5]),
        ([True, False, True, True, False, True], [False, True]),
        (pd.Categorical([3, 1, 3, 1, 3, 1]), [1, 3]),
        (pd.to_datetime(["2024-01-01", "2023-01-01"] * 3), [*pd.to_datetime(["2023", "2024"])]),
    ],
    ids=["ints", "floats", "booleans", "categories", "dates"],
)
@pytest.mark.parametrize("class_mode", ["categorical", "sparse"])
def test_classes_that_are_no_text_are_taken_in_their_own_order(
    frame, folder, labels, names, class_mode
):
    frame["class"] = labels
    found, told = ours(frame, folder, class_mode=class_mode)
    assert found.class_indices == {name: number for number, name in enumerate(names)}
    assert [names[number] for number in found.classes] == frame["class"].tolist()
    (text,) = told
    assert re.match(
        rf'y_col="class" holds \w+, which Keras\'s own refuses with class_mode="{class_mode}": '
        r"taken as classes, in their own order, .*\. To have the order of text, in which "
        r'"10" stands before "2", write df\[\'class\'\]\.astype\(str\)\. In dfgen\.Sequence: '
        r"y=dfgen\.Category\(\'class\'\)$",
        text,
    )


def test_arrays_and_sets_of_classes_are_taken_as_lists(frame, folder):
    frame["class"] = [np.array(["b", "a"]), {"a"}, frozenset("bc"), ["a"], ("c",), np.array(["c"])]
    found, told = ours(frame, folder)
    assert found.classes == [[1, 0], [0], [1, 2], [0], [2], [2]]
    assert found[0][1].tolist()[:3] == [[1, 1, 0], [1, 0, 0], [0, 1, 1]]
    assert "frozenset, ndarray, set" in told[0]


WRONG = [
    ({}, {"class_mode": "sparce"}), ({}, {"class_mode": "multi_output"}),
    ({}, {"class_mode": "binary"}), ({}, {"class_mode": "binary", "classes": ["a"]}),
    ({}, {"class_mode": "binary", "classes": ["a", "b", "c"]}), ({}, {"color_mode": "bgr"}),
    ({}, {"subset": "test"}), ({}, {"weight_col": "class"}), ({"filename": 5}, {}),
    ({"filename": None}, {}), ({"class": None}, {}), ({"class": None}, {"class_mode": "sparse"}),
    ({"class": 7}, {}), ({"class": 7}, {"class_mode": "sparse"}),
    ({"class": ["a"]}, {"class_mode": "binary"}), ({}, {"y_col": "klass"}), ({}, {"x_col": "path"}),
    ({}, {"weight_col": "weights"}),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "options"), WRONG, ids=repr)
def test_wrong_calls_are_refused_in_the_words_of_keras(frame, folder, cells, options):
    for column, value in cells.items():
        frame[column] = [value, *frame[column][1:]]
    ours, theirs = of_frame(frame, folder, **options)
    assert isinstance(ours, DfgenError)
    assert isinstance(ours, type(theirs))
    if isinstance(theirs, KeyError):  # which says the name alone
        assert repr(theirs.args[0]) in str(ours)
    else:
        their = re.sub(r"\{.*\}", "", str(theirs))  # a set, in any order
        assert re.sub(r"\{.*\}", "", str(ours)).startswith(their)


@pytest.mark.parametrize(
    ("flow", "of", "options"),
    [
        ("flow_from_dataframe", {}, {"has_ext": True}),
        ("flow_from_dataframe", {}, {"has_ext": False, "drop_duplicates": True, "sort": True}),
        ("flow_from_dataframe", {}, {"class_mode": "other", "y_col": "weight"}),
        ("flow_from_dataframe", {}, {"classes": ["a"], "class_mode": "raw", "y_col": "weight"}),
        ("flow_from_dataframe", {}, {"classes": ["a"], "class_mode": None}),
        ("flow_from_dataframe", {"validation_split": 1.0}, {}),
        ("flow_from_dataframe", {"validation_split": -0.1}, {}),
        ("flow_from_dataframe", {"data_format": "channels"}, {}),
        ("flow_from_dataframe", {"data_format": "channels_first"}, {"class_mode": "input"}),
        ("flow_from_dataframe", {"rescale": 0}, {}),
        ("flow_from_dataframe", {"preprocessing_function": np.negative}, {}),
        ("flow_from_dataframe", {"samplewise_std_normalization": True}, {}),
    ],
    ids=repr,
)
def test_odd_arguments_do_what_they_do_in_keras(frame, folder, flow, of, options):
    ours, theirs = of_frame(frame, folder, of=of, **options)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs))
        assert str(ours).startswith(str(theirs))
    else:
        assert_same(ours, theirs, atol=1e-5)


def test_an_interpolation_that_is_none_is_refused_at_once(frame, folder):
    theirs = of_frame(frame, folder, interpolation="nearest")[1]
    theirs.interpolation = "cubic"
    with pytest.raises(ValueError) as caught:
        theirs[0]
    found, _ = ours(frame, folder, interpolation="cubic")
    assert (type(found).__mro__[2], str(found)) == (ValueError, str(caught.value))


def test_an_argument_that_is_none_is_named(frame, folder):
    found, told = ours(frame, folder, shufle=False, keep_aspect_ratio=True)
    assert found.samples == 6
    assert told == [
        "flow_from_dataframe has no argument 'shufle': left out, as in Keras, which does not "
        'say so. Did you mean "shuffle"?',
        "flow_from_dataframe has no argument 'keep_aspect_ratio': left out, as in Keras, which "
        "does not say so.",
    ]


def test_workers_of_a_pydataset_are_told_to_do_nothing(frame, folder):
    found, _ = ours(frame, folder)
    with pytest.warns(UserWarning) as caught:
        found.workers = 8
    assert [str(one.message) for one in caught] == [
        "workers=8 does nothing here: batches are made ahead by a thread for each CPU. "
        "dfgen.Sequence(df, workers=8) takes it"
    ]
    assert found.workers == found._loader.workers


def test_an_iterator_without_classes_has_no_class_indices(frame, folder):
    found, _ = ours(frame, folder, class_mode=None)
    with pytest.raises(AttributeError) as caught:
        found.class_indices  # noqa: B018
    assert str(caught.value) == (
        "'DataFrameIterator' object has no attribute 'class_indices': class_mode=None has no "
        "classes"
    )


def test_an_index_beyond_the_end_is_refused_as_by_keras(frame, folder):
    messages = []
    for one in of_frame(frame, folder):
        with pytest.raises(ValueError, match="Asked to retrieve element 2") as caught:
            one[2]
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_images_of_other_suffixes_in_folders_are_left_out_and_named(tmp_path):
    for name in ("a/1.png", "a/deep/2.jpg", "b/3.webp", "b/4.txt", "b/5.tiff", "b/6.gif"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        if name.endswith("txt"):
            (tmp_path / name).write_text("no image")
        else:
            Image.new("RGB", (20, 20), (name.encode()[2], 0, 0)).save(tmp_path / name)
    found, told, _ = made(ImageDataGenerator, "flow_from_directory", str(tmp_path), **SIZE)
    assert found.filenames == ["a/1.png", "a/deep/2.jpg", "b/5.tiff"]
    assert [text for _, text in told] == [
        'Using ".tiff" files with multiple bands will cause distortion. Please verify your output.',
        "2 images are left out, as in Keras, which does not say so: it takes png, jpg, jpeg, "
        "bmp, ppm, tif, tiff alone, not 'b/3.webp', 'b/6.gif'. dfgen.build_manifest(directory, "
        'pattern="{kind}/{id}.{ext}") takes them',
    ]


@pytest.mark.parametrize("follow_links", [False, True])
def test_folders_that_are_links(tmp_path, folder, follow_links):
    (tmp_path / "kinds" / "a").mkdir(parents=True)
    os.symlink(folder, tmp_path / "kinds" / "b")
    os.symlink(folder, tmp_path / "kinds" / "a" / "inner")
    options = {**SIZE, "follow_links": follow_links}
    assert_same(*both("flow_from_directory", str(tmp_path / "kinds"), **options))


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("even", [False, True])
def test_batches_are_saved_as_keras_saves_them(frame, folder, tmp_path, data_format, even):
    saved = []
    if even:  # of one colour, so that nothing is to be stretched
        folder = str(tmp_path)
        for row in range(6):
            Image.new("RGB", (7, 5), (9, 9, 9)).save(f"{folder}/{row}.png")
    for which in ("ours", "theirs"):
        (tmp_path / which).mkdir()
        options = {"save_to_dir": str(tmp_path / which), "save_prefix": "seen", "class_mode": None}
        pair = of_frame(frame, folder, of={"data_format": data_format}, **options)
        pair[which == "theirs"][1]
        files = sorted((tmp_path / which).iterdir())
        saved.append([np.asarray(Image.open(file)) for file in files])
        assert [re.fullmatch(r"seen_5_\d+\.png", file.name) is not None for file in files] == [True]
    np.testing.assert_array_equal(*saved)


def test_images_that_are_their_own_targets_stay_when_x_is_changed(frame, folder):
    found, _ = ours(frame, folder, class_mode="input")
    x, y = found[0]
    kept = y.copy()
    x += 1
    np.testing.assert_array_equal(y, kept)


def test_what_worker_processes_load_has_no_keras():
    code = (
        "import sys, dfgen.migrate.keras_pixels, dfgen.migrate.flow_arguments\n"
        "print({'keras', 'tensorflow', 'pandas'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


@pytest.mark.parametrize(
    "names", [[0, 1, 2], pd.MultiIndex.from_product([["a"], [0, "y", "w"]])], ids=["ints", "levels"]
)
@pytest.mark.parametrize("mode", ["categorical", "raw", "input"])
def test_columns_whose_names_are_no_text(frame, folder, names, mode):
    frame.columns = names
    x, y, weight = frame.columns
    options = {"x_col": x, "y_col": weight if mode == "raw" else y, "class_mode": mode}
    assert_same(*of_frame(frame, folder, weight_col=weight, **options))


@pytest.mark.parametrize(
    "columns, told",
    [
        ({"x_col": "weight"},
         "x_col='weight': the frame has 2 columns 'weight', expected one: "
         "df = df.loc[:, ~df.columns.duplicated()]"),
        ({"y_col": ["class"]},
         'If class_mode="categorical", y_col must be the name of one column, got '
         '[\'class\']: several are for class_mode="raw" or "multi_output"'),
    ],
)  # fmt: skip
def test_a_name_of_other_than_one_column_is_refused(frame, folder, columns, told):
    twice = pd.concat([frame, frame[["weight"]]], axis=1)
    found, theirs = of_frame(twice, folder, **columns)
    assert isinstance(theirs, TypeError) and isinstance(found, TypeError)
    assert str(found) == told


def test_a_preprocessing_function_may_make_tensors(frame, folder):
    def function(x):
        return keras.ops.convert_to_tensor(x) * 2.0

    of = {"preprocessing_function": function, "rescale": 0.5}
    assert_same(*of_frame(frame, folder, of=of))


def test_a_preprocessing_function_that_returns_nothing_is_told(frame, folder):
    found, _ = ours(frame, folder, of={"preprocessing_function": lambda x: None})
    with pytest.raises(DfgenError) as caught:
        next(found)
    told = "preprocessing_function must return an array of numbers, got None"
    assert told in str(caught.value)


def test_what_batches_are_made_by_cannot_be_changed_later(frame, folder):
    found, _ = ours(frame, folder, shuffle=True)
    for name, value in {"shuffle": False, "batch_size": 1, "class_mode": None}.items():
        with pytest.raises(DfgenError) as caught:
            setattr(found, name, value)
        assert str(caught.value) == (
            f"{name} of an iterator cannot be changed to {value}: make another one, as by "
            "flow_from_dataframe(..., shuffle=False, batch_size=1)"
        )
    found.shuffle = True


def test_a_damaged_jpeg_that_pillow_decodes_is_fed_as_by_keras_and_told_once(tmp_path):
    whole = io.BytesIO()
    beside_keras.picture(0).resize((64, 64)).save(whole, "JPEG", quality=95)
    data = bytearray(whole.getvalue())
    at = data.find(b"\xff\xda") + 300
    data[at : at + 2] = b"\xff\xd9"  # the end, in the midst of the pixels
    for name in "ab":
        (tmp_path / f"{name}.jpg").write_bytes(data)
    frame = pd.DataFrame({"filename": ["a.jpg", "b.jpg"], "class": ["x", "y"]})
    found, theirs = of_frame(frame, str(tmp_path))
    with pytest.warns(UserWarning) as caught:
        pixels = found[0][0]
    np.testing.assert_array_equal(pixels, theirs[0][0])
    (told,) = caught
    broken = re.escape(str(tmp_path)) + "/[ab].jpg: Corrupt JPEG data: premature end of data"
    assert re.match(broken, str(told.message))
    assert str(told.message).endswith(
        ". Keras trains on the pixels that Pillow reads from such a file, and so does this. "
        "dfgen reports no further ones. dfgen.verify(df, decode=True) finds them all, and "
        "dfgen.Sequence(df) refuses them by name"
    )


@pytest.mark.parametrize("content", [b"", b"no image", b"\xff\xd8\xff\xe0 and nothing more"])
def test_a_file_that_is_no_image_is_named(tmp_path, content):
    (tmp_path / "a.jpg").write_bytes(content)
    frame = pd.DataFrame({"filename": ["a.jpg"], "class": ["x"]})
    found, theirs = of_frame(frame, str(tmp_path))
    with pytest.raises(Exception, match=r"."):
        theirs[0]
    with pytest.raises(DfgenError) as caught:
        found[0]
    assert str(caught.value).startswith(f"row id=0, filename='{tmp_path}/a.jpg': ")
