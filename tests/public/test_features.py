"""Columns, text, numbers, arrays, sounds and bytes become the arrays that NumPy would make."""

import decimal
import warnings

import h5py
import numpy as np
import pandas as pd
import pytest
import soundfile

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError
from public.first_batch import batch_of, equal, x_of

A, B, C, ROWS = "a", "b", "c", 5
IMAGE = dfgen.Image("path", size=(4, 4))


@pytest.fixture
def df(files, tmp_path):
    for row in range(ROWS):
        np.save(tmp_path / f"{row}.npy", np.arange(6).reshape(2, 3) + row)
        np.save(tmp_path / f"long{row}.npy", np.full((row + 1, 2), row + 1, np.float32))
        (tmp_path / f"{row}.bin").write_bytes(bytes([row, 0, 255]))
    return pd.DataFrame({
        "id": [f"r{row}" for row in range(ROWS)], "path": files[:ROWS],
        "text": [B, A, C, A, B], "cat": pd.Categorical([B, A, C, A, B], [C, B, "unused", A]),
        "flag": [True, False, True, True, False], "whole": [3, -1, 2**31 - 1, 0, 5],
        "real": [0.5, -1.25, 3, 1e30, 0], "money": [decimal.Decimal(n) / 4 for n in range(ROWS)],
        "tags": [["y", "x"], [], ["z"], ["x"], ["x", "x"]],
        "blob": [bytes([n]) for n in range(ROWS)],
        "array": [f"{tmp_path}/{n}.npy" for n in range(ROWS)],
        "long": [f"{tmp_path}/long{n}.npy" for n in range(ROWS)],
        "bin": [f"{tmp_path}/{n}.bin" for n in range(ROWS)],
        "words": ["x, y", " ", "z", "x ", "x,x"],
    })  # fmt: skip


REAL = np.array([0.5, -1.25, 3, 1e30, 0], np.float32)
WHOLE = np.array([3, -1, 2**31 - 1, 0, 5], np.int32)
TAGS = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 0]], np.float32)
TEXT, CAT = np.array([1, 0, 2, 0, 1], np.int32), np.array([1, 3, 0, 3, 1], np.int32)
FLAG = np.array([1, 0, 1, 1, 0], np.int32)
ARRAY = np.arange(6).reshape(2, 3) + np.arange(ROWS)[:, None, None]
LONG = np.repeat(np.tri(ROWS, dtype="f4") * np.arange(1, 6, dtype="f4")[:, None], 2).reshape(
    5, 5, 2
)
STRINGS = np.array([B, A, C, A, B], object)
BINARY = np.array([[row, 0, 255] for row in range(ROWS)], np.uint8)


def one_hot(numbers, classes):
    return np.eye(classes, dtype=np.float32)[numbers]


@pytest.mark.parametrize(
    ("y", "label_mode", "expected", "names"),
    [
        ("text", "int", TEXT, [A, B, C]), ("text", "categorical", one_hot(TEXT, 3), [A, B, C]),
        ("cat", "int", CAT, [C, B, "unused", A]), ("flag", "int", FLAG, [False, True]),
        ("cat", "categorical", one_hot(CAT, 4), [C, B, "unused", A]),
        ("flag", "binary", FLAG[:, None].astype("f4"), [False, True]), ("real", "int", REAL, None),
        ("whole", "int", WHOLE, None), ("money", "int", np.arange(5, dtype="f4") / 4, None),
        ("tags", "int", TAGS, ["x", "y", "z"]),
    ],
)  # fmt: skip
def test_the_dtype_of_a_column_chooses_the_feature(df, y, label_mode, expected, names):
    with dfgen.Sequence(df, "path", y, label_mode=label_mode, shuffle=False) as seq:
        equal(np.asarray(seq[0][1]), expected)
        assert seq.class_names == names and len(seq) == 1


def test_class_names_stay_through_filters_and_arguments(df):
    equal(batch_of(df[:1], IMAGE, "cat")[1], CAT[:1])
    equal(batch_of(df, IMAGE, "text", class_names=[C, B, A])[1], 2 - TEXT)
    equal(batch_of(df, IMAGE, "cat", class_names=[A, "unused", B, C])[1], 3 - CAT)


def test_the_first_valid_value_chooses_the_feature(df):
    equal(batch_of(df[1:], IMAGE, "tags")[1], TAGS[1:, [0, 2]])
    with pytest.raises(ManifestError, match="tags"):
        batch_of(df.assign(tags=[None, *df["tags"][1:]]), IMAGE, "tags")


def test_categorical_file_names_are_images(df):
    df = df.assign(photo=df["path"].astype("category"))
    assert x_of(df, "photo", image_size=(4, 4))[..., 0].max((1, 2)).tolist() == [0, 1, 2, 3, 4]


def test_a_text_label_warns_of_nothing(df):
    with warnings.catch_warnings(action="error"):
        batch_of(df, IMAGE, "text")


FEATURES = {
    "category": (dfgen.Category("text"), TEXT),
    "hot": (dfgen.Category("text", "categorical"), one_hot(TEXT, 3)),
    "named": (dfgen.Category("text", class_names=[C, A, "d", B]), np.array([3, 1, 0, 1, 3], "i4")),
    "binary": (dfgen.Category("flag", "binary", [True, False]), 1 - FLAG[:, None].astype("f4")),
    "numbers": (dfgen.Category("whole"), np.array([2, 0, 4, 1, 3], np.int32)),
    "number": (dfgen.Number("whole"), WHOLE),
    "number float": (dfgen.Number("whole", "float64"), WHOLE.astype(np.float64)),
    "number bool": (dfgen.Number("flag"), FLAG),
    "vector": (dfgen.Number(["flag", "real"]), np.stack([FLAG, REAL], 1).astype(np.float32)),
    "vector int": (dfgen.Number(["flag", "whole"]), np.stack([FLAG, WHOLE], 1)),
    "tags": (dfgen.MultiLabel("tags"), TAGS),
    "tags named": (dfgen.MultiLabel("tags", [*"zvxy"]), np.insert(TAGS[:, [2, 0, 1]], 1, 0, 1)),
    "tags in text": (dfgen.MultiLabel("words", [*"xyz"], sep=","), TAGS),
    "text": (dfgen.Text("text"), STRINGS), "text of categories": (dfgen.Text("cat"), STRINGS),
    "bytes": (dfgen.Bytes("bin"), np.array([bytes(row) for row in BINARY], object)),
    "blob": (dfgen.Bytes("blob"), np.array([bytes([row]) for row in range(ROWS)], object)),
    "array": (dfgen.Array("array", (2, 3)), ARRAY.astype(np.float32)),
    "array int": (dfgen.Array("array", (2, 3), "int64"), ARRAY),
    "array long": (dfgen.Array("long", (None, 2)), LONG),
    "decoded": (dfgen.Array("bin", (3,), "u1", decode=lambda b: np.frombuffer(b, "u1")), BINARY),
    "column": (dfgen.Column("whole", lambda n: n % 4), (WHOLE % 4).astype(np.float32)),
    "columns": (dfgen.Column(["text", "flag"], lambda a, b: [ord(a), b], (2,), "int32"),
                np.stack([TEXT + 97, FLAG], 1)),
    "column long": (dfgen.Column("tags", lambda tags: [ord(t) for t in tags], (None,), "int16"),
                    np.array([[121, 120], [0, 0], [122, 0], [120, 0], [120, 120]], np.int16)),
}  # fmt: skip


@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_alone_in_x(df, name):
    feature, expected = FEATURES[name]
    equal(x_of(df, feature), expected)


def test_features_of_all_kinds_in_one_batch(df):
    x, expected = ({name: one[n] for name, one in FEATURES.items()} for n in (0, 1))
    equal(x_of(df, x, use_multiprocessing=True, workers=1), expected)


def test_padding_mask_tells_lengths(df):
    found = x_of(df, dfgen.Array("long", (None, 2), padding_mask=True))
    equal(found, {"array": LONG, "padding_mask": np.tri(ROWS, dtype=bool)})


def test_nested_x_and_y_keep_their_structure(df):
    x, y = {"image": "path", "more": dfgen.Number("whole")}, [dfgen.Number("real"), "flag"]
    with dfgen.Sequence(df, x, y, image_size=(4, 5), batch_size=2, shuffle=False) as seq:
        (images, targets), spec = seq[1], seq.element_spec
        assert [len(seq[i][1][0]) for i in range(len(seq))] == [2, 2, 1]
        assert [*seq.class_names.values()] == [[False, True]]
    np.testing.assert_array_equal(images["image"][:, 0, 0, 0], [2, 3])
    equal(
        [np.asarray(one) for one in (images["more"], *targets)], [WHOLE[2:4], REAL[2:4], FLAG[2:4]]
    )
    assert tuple(spec[0]["image"].shape)[1:] == (4, 5, 3) and "uint8" in str(spec[0]["image"])
    assert tuple(spec[1][0].shape)[1:] == () and "float32" in str(spec[1][0])


def test_y_none_takes_the_one_remaining_column(df):
    frame = df[["id", "path", "cat"]].assign(split="train", width=4, height=4, problem=None)
    equal(batch_of(frame, "path", None, label_mode="int")[1], CAT)
    with pytest.raises(ArgumentError, match="y="):
        batch_of(df, "path", None, label_mode="int")
    assert len(batch_of(df, "path", None, label_mode=None)) == 1


@pytest.mark.parametrize(
    ("feature", "values", "word"),
    [
        (dfgen.Category("c", class_names=[A, B]), [A, "z", B], "z"),
        (dfgen.Category("c"), [A, None, B], "[1v]"), (dfgen.Number("c"), [1.5, None, 2], "[1v]"),
        (dfgen.Category("c", "binary"), [A, B, C], "binary"),
        (dfgen.Category("c"), [[A], [B], [C]], "MultiLabel"),
        (dfgen.Category("c", class_names=[1, 2]), [1, 2, 3], "3"),
        (dfgen.MultiLabel("c", class_names=[A]), [[A], [], [B]], B),
        (dfgen.MultiLabel("c", class_names=[A]), [[A], None, []], "c"),
        (dfgen.MultiLabel("c", class_names=[A]), [A, B, C], "sep"),
        (dfgen.Number("c"), [*"123"], "c"), (dfgen.Number("c", "int32"), [1.5, 2, 3], "int32"),
        (dfgen.Number("c"), [1, 2**31, 3], "int64"), (dfgen.Number("c", "uint8"), [1, -1, 3], "c"),
        (dfgen.Number("c", "uint8"), [1, 256, 3], "c"), (dfgen.Text("c"), [1, 2, 3], "Text"),
        (dfgen.Text("c"), [A, None, B], "c"), ("nothing", [1, 2, 3], "nothing"),
    ],
)  # fmt: skip
def test_values_that_a_feature_cannot_take_are_errors(files, feature, values, word):
    frame = pd.DataFrame({"id": [*"uvw"], "path": files[:3], "c": values})
    with pytest.raises(DfgenError, match=word):
        batch_of(frame, "path", feature)


def test_missing_labels_are_blank_and_weigh_nothing(df):
    for column in ("text", "real", "tags", "array"):
        df[column] = [None if row in (1, 3) else one for row, one in enumerate(df[column])]
    df["after"] = df["path"].where(df["text"].notna(), None)
    ignore = {"missing": "ignore"}
    y = {
        "whole": dfgen.Number("whole"), "real": dfgen.Number("real", **ignore),
        "text": dfgen.Category("text", **ignore), "tags": dfgen.MultiLabel("tags", **ignore),
        "hot": dfgen.Category("text", "categorical", **ignore),
        "array": dfgen.Array("array", (2, 3), **ignore),
        "after": dfgen.Image("after", size=(4, 4), **ignore),
    }  # fmt: skip
    _, found, weights = batch_of(df, IMAGE, y)
    for name in y:
        there = np.isin(range(ROWS), [0, 2, 4]) if name != "whole" else np.ones(ROWS)
        np.testing.assert_array_equal(np.max(np.reshape(weights[name], (ROWS, -1)), 1), there)
        assert name == "whole" or (found[name][2].any() and not found[name][[1, 3]].any())
    equal([found["whole"], found["tags"][[0, 2, 4]]], [WHOLE, TAGS[[0, 2, 4]]])


def test_row_without_one_of_two_columns_weighs_nothing(df):
    frame = df.assign(boxes=[[[0, 0, 2, 2]]] * 4 + [None], tags=[["x"], None] + [["y"]] * 3)
    *_, weights = batch_of(frame, IMAGE, dfgen.Boxes("boxes", "tags", missing="ignore"))
    assert np.ravel(weights).tolist() == [1, 0, 1, 1, 0]


RATE = 8_000


@pytest.fixture
def sounds(tmp_path):
    """A frame of sounds of 100, 200, ... frames and two channels, and their numbers."""
    waves, paths = [], []
    for row, extension in enumerate(("wav", "flac", "aiff", "wav")):
        frames = np.arange(100 * (row + 1), dtype="float32")
        waves.append(np.stack([frames / 512, -frames / 1024], 1))
        paths.append(f"{tmp_path}/{row}.{extension}")
        soundfile.write(paths[-1], waves[-1], RATE, subtype="PCM_16")
    return pd.DataFrame({"id": [*"abcd"], "path": paths}), waves


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("seconds", [None, 250 / RATE, 1 / RATE, 0.1])
@pytest.mark.parametrize("start", ["start", "center"])
def test_sounds_are_cut_and_padded(sounds, channels, seconds, start):
    frame, waves = sounds
    found = x_of(frame, dfgen.Audio("path", RATE, seconds, channels, start=start))
    frames = 400 if seconds is None else round(seconds * RATE)
    assert (found.shape, found.dtype) == ((4, frames, channels), np.float32)
    for one, wave in zip(found, waves, strict=True):
        wave = wave.mean(1, keepdims=True) if channels == 1 else wave
        first = 0 if start == "start" else max(0, (len(wave) - frames + 1) // 2)
        wave = wave[first : first + frames]
        np.testing.assert_allclose(one[: len(wave)], wave, rtol=0, atol=1e-6)
        assert not one[len(wave) :].any()


def test_rows_of_array_files(df, tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (7, 3, 4, 3), np.uint8)
    np.save(tmp_path / "all.npy", rows)
    np.save(tmp_path / "f.npy", np.asfortranarray(rows))
    with h5py.File(tmp_path / "all.h5", "w") as file:
        file["a/images"], file["b"] = rows, rows[:2]
    index = [6, 0, 3, 3, 1]
    frame = df.assign(index=index, **{name: f"{tmp_path}/all.{name}" for name in ("npy", "h5")})
    frame["fortran"] = f"{tmp_path}/f.npy"
    h5 = {"column": "h5", "dataset": "a/images"}
    for options in ({"column": "npy"}, {"column": "fortran"}, h5):
        array = dfgen.Array(shape=(3, 4, 3), dtype="uint8", index="index", **options)
        equal(x_of(frame, array), rows[index])
        equal(x_of(frame, dfgen.Image(size=(3, 4), index="index", **options)), rows[index])
        for wrong in (7, -1):
            with pytest.raises(DfgenError, match=r"r2|index"):
                x_of(frame.assign(index=[6, 0, wrong, 3, 1]), array)
