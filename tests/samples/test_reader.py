"""SampleReader: rows to samples, errors that name them, and the contract of a transform."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image as Pillow

from dfgen.errors import DecodeError, MissingFileError, TransformError
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.array import Array
from dfgen.samples.features.category import Category
from dfgen.samples.features.image import Image
from dfgen.samples.features.number import Number
from dfgen.samples.reader import SampleReader
from dfgen.samples.transforms import fits, without_blanks
from dfgen.stores.store import Store

SHAPE = (4, 5, 3)
CATEGORY = Category("kind", "categorical", ("cat", "dog"))


def brighten(sample, rng):
    return sample | {"image": sample["image"] + np.uint8(1), "number": np.float32(rng.integers(9))}


@pytest.fixture
def parts(tmp_path):
    images, arrays = [], []
    for row in range(3):
        images.append(f"{tmp_path}/{row}.png")
        arrays.append(f"{tmp_path}/{row}.npy")
        Pillow.fromarray(np.full(SHAPE, 10 * row, np.uint8)).save(images[-1])
        np.save(arrays[-1], np.full(2, row))
    return (
        BoundFeature("image", Image(size=SHAPE[:2], scale="0..1"), pa.array(images)),
        BoundFeature("raw", Image("raw", size=SHAPE[:2]), pa.array(images)),
        BoundFeature("array", Array("array", (2,)), pa.array(arrays)),
        BoundFeature("number", Number("age"), np.array([0, 1, 2], np.float32)),
        BoundFeature("label", CATEGORY, np.array([0, 1, 0], np.int32)),
    )


def reader(parts, transform=None, ids=None):
    return SampleReader(np.array(["a", "b", "c"]) if ids is None else ids, parts, transform)


def sample_of(reader, row, rng=None):
    batch = {name: np.full((1, *spec.shape), 99, spec.dtype) for name, spec in reader.specs.items()}
    reader.gather(np.array([row]), batch)
    out = {name: array[0, ...] for name, array in batch.items()}
    reader.read(row, out, rng)
    return {name: array[0] for name, array in batch.items()}


def refused(kind, reader, row=1):
    with pytest.raises(kind) as error:
        sample_of(reader, row, np.random.default_rng(0))
    return str(error.value)


def where(parts, row, name="b"):
    paths = {part.feature.column: part.values[row].as_py() for part in parts[:3]}
    return f"row id={name!r}, " + ", ".join(f"{key}={path!r}" for key, path in paths.items())


def test_specs_tell_shape_and_dtype(parts):
    specs = reader(parts).specs.items()
    assert [(name, spec.shape, spec.dtype.name) for name, spec in specs] == [
        ("image", SHAPE, "float32"), ("raw", SHAPE, "uint8"), ("array", (2,), "float32"),
        ("number", (), "float32"), ("label", (2,), "float32"),
    ]  # fmt: skip
    assert BoundFeature("label", CATEGORY, np.array([], np.int32)).specs["label"].shape == (2,)


@pytest.mark.parametrize("row", [0, 1, 2])
@pytest.mark.parametrize("transform", [None, lambda sample, rng: sample])
def test_a_sample_is_its_row(parts, row, transform):
    sample = sample_of(reader(parts, transform), row)
    np.testing.assert_allclose(sample["image"], np.full(SHAPE, 10 * row / 255), rtol=1e-6)
    np.testing.assert_array_equal(sample["raw"], np.full(SHAPE, 10 * row))
    np.testing.assert_array_equal(sample["array"], [row, row])
    assert sample["number"] == row
    np.testing.assert_array_equal(sample["label"], [1 - row % 2, row % 2])


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (np.array([7, 8]), 8),
        (np.array(["x", "y"]), "y"),
        (np.array(["x", "y"], object), "y"),
        (pa.array([7, 8]), 8),
        (pa.chunked_array([["x"], ["y"]]), "y"),
    ],
)
def test_ids_are_plain(ids, expected):
    found = SampleReader(ids, ())
    assert (found.id(1), type(found.id(1)), len(found)) == (expected, type(expected), 2)


def test_the_transform_sees_pixels_before_scale_and_everything_by_name(parts):
    seen = {}

    def transform(sample, rng):
        seen.update({name: (value.shape, value.dtype.name) for name, value in sample.items()})
        seen["draw"] = rng.integers(1000)
        return {"image": sample["image"] + np.uint8(100), "raw": sample["raw"],
                "array": sample["array"] * 2, "number": sample["number"] + np.float32(5),
                "label": np.array([0.5, 0.5], np.float32)}  # fmt: skip

    sample = sample_of(reader(parts, transform), 2, np.random.default_rng(3))
    assert seen == {
        "image": (SHAPE, "uint8"), "raw": (SHAPE, "uint8"), "array": ((2,), "float32"),
        "number": ((), "float32"), "label": ((2,), "float32"),
        "draw": np.random.default_rng(3).integers(1000),
    }  # fmt: skip
    np.testing.assert_allclose(sample["image"], np.full(SHAPE, 120 / 255), rtol=1e-6)
    assert (sample["array"].tolist(), sample["number"]) == ([4, 4], 7)
    assert sample["label"].tolist() == [0.5, 0.5]


def test_a_transform_may_change_arrays_in_place_and_keep_its_dict(parts):
    kept = []

    def transform(sample, rng):
        sample["image"][...] = 255
        sample["number"][...] = 8
        kept.append(sample)
        return sample

    sample = sample_of(reader(parts, transform), 1)
    assert (sample["image"] == 1).all() and sample["number"] == 8
    assert kept[0]["image"].dtype == np.uint8


def raises(sample, rng):
    raise KeyError("flip")


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (raises, "the transform raised KeyError: 'flip'"),
        (lambda sample, rng: None,
         "the transform returned None, expected a dict with the keys ['image', 'raw', 'array', "
         "'number', 'label']: write sample[\"image\"] = ..., then return sample"),
        (lambda sample, rng: (sample["image"], 3),
         "the transform returned a tuple of 2, expected a dict with the keys ['image', 'raw', "
         "'array', 'number', 'label']: write sample[\"image\"] = ..., then return sample"),
        (lambda sample, rng: {"img": 1},
         "the transform returned ['img'], expected a dict with the keys ['image', 'raw', 'array', "
         "'number', 'label']: write sample[\"image\"] = ..., then return sample"),
        (lambda sample, rng: sample | {"image": sample["image"] / 255},
         "the transform returned 'image' as float64 of shape (4, 5, 3), "
         "expected uint8 of shape (4, 5, 3): write sample[\"image\"] = np.clip(image, 0, 255)"
         ".astype(np.uint8), scale= comes afterwards"),
        (lambda sample, rng: sample | {"number": sample["number"].astype(np.float64)},
         "the transform returned 'number' as float64 of shape (), expected float32 of shape (): "
         "write sample[\"number\"] = number.astype(np.float32)"),
        (lambda sample, rng: sample | {"image": sample["image"].transpose(2, 0, 1)},
         "the transform returned 'image' as uint8 of shape (3, 4, 5), expected uint8 of shape "
         "(4, 5, 3): its channels come last, sample[\"image\"] = image.transpose(1, 2, 0)"),
        (lambda sample, rng: sample | {"image": sample["image"][:2]},
         "the transform returned 'image' as uint8 of shape (2, 5, 3), expected uint8 of shape "
         "(4, 5, 3). A transform may crop with dfgen.Image(size=..., load_size=...)"),
        (lambda sample, rng: sample | {"image": None},
         "the transform returned 'image' as object of shape (), "
         "expected uint8 of shape (4, 5, 3)"),
    ],
)  # fmt: skip
def test_a_transform_that_breaks_its_contract(parts, transform, message):
    assert refused(TransformError, reader(parts, transform)) == f"{where(parts, 1)}: {message}"


def test_a_transform_that_returns_ragged_lists(parts):
    message = refused(TransformError, reader(parts, lambda s, rng: s | {"image": [[1], [1, 2]]}))
    assert message.startswith(f"{where(parts, 1)}: the transform returned no array: ")


def test_errors_name_the_row_and_its_paths(parts, tmp_path):
    (tmp_path / "1.png").write_bytes(b"hello world")
    message = refused(DecodeError, reader(parts))
    assert message.startswith(
        f"{where(parts, 1)}: not an image, array or sound that dfgen opens: the file begins with "
        "b'hello wo'. Formats: jpeg, png, "
    )
    (tmp_path / "1.png").unlink()
    assert refused(MissingFileError, reader(parts)) == f"{where(parts, 1)}: the file does not exist"
    np.save(tmp_path / "2.npy", np.zeros(3))
    assert refused(DecodeError, reader(parts), 2) == (
        f"{where(parts, 2, 'c')}: the array has shape (3,), expected (2,)"
    )


@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), MemoryError()])
def test_what_no_decoder_raises_is_raised_as_it_is_and_names_the_row(parts, monkeypatch, error):
    def read(self, path, out, store, watch, *draw):
        raise error

    monkeypatch.setattr(Image, "read", read)
    with pytest.raises(type(error)) as caught:
        sample_of(reader(parts), 1)
    assert caught.value is error
    assert error.__notes__ == [f"while reading {where(parts, 1)}"]


class Far(Store):
    far = True


class Source:
    """Where rows come from, which notes what is read ahead, lent and borrowed."""

    def __init__(self, name, far):
        self.name, self.asked = name, []
        self.far_packs = ((self, self),) if far else ()

    def ahead(self, rows):
        self.asked.append(("ahead", rows))
        yield

    def of(self, rows):
        return self.name, rows

    def lent(self, name, rows):
        return f"{name}{rows}"

    def borrow(self, lent):
        self.asked.append(("borrow", lent))


def test_packs_in_a_store_are_read_ahead_if_asked_for_lent_and_borrowed(parts):
    sources = {name: Source(name, name != "image") for name in ("image", "raw", "array")}
    near, *far = sources.values()
    found = SampleReader(np.arange(3), parts, sources=sources)
    [*found.ahead(5, far=False)]
    assert (near.asked, [one.asked for one in far]) == ([("ahead", 5)], [[], []])
    [*found.ahead(6)]
    assert [one.asked[-1] for one in sources.values()] == [("ahead", 6)] * 3
    assert found.lent(7) == ["raw7", "array7"]
    found.borrow(found.lent(7))
    assert [one.asked[-1] for one in far] == [("borrow", "raw7"), ("borrow", "array7")]
    assert near.asked == [("ahead", 5), ("ahead", 6)]


def test_functions_of_the_user_are_known_by_what_they_are_given_to(parts):
    own = BoundFeature("own", Array("array", (2,), decode=len), parts[2].values)
    assert reader((own,), brighten).functions == {
        "transform": brighten,
        "decode of Array('array')": len,
    }
    assert reader(parts).functions == {"transform": None}


def test_rows_at_the_end_that_are_blank_are_taken_away_and_no_others():
    boxes = np.array([[1, 2], [-1, -1], [-1, 3], [-1, -1], [-1, -1]])
    assert without_blanks(boxes, -1).tolist() == boxes[:3].tolist()
    assert without_blanks(boxes[3:], -1).shape == (0, 2)
    assert without_blanks(boxes[:1], -1).tolist() == [[1, 2]]
    assert without_blanks(np.array([0, 5, 0]), 0).tolist() == [0, 5]
    assert fits((3, 4), (None, 4)) and fits((), ())
    assert not fits((3, 4), (None, 5)) and not fits((3, 4), (3,))


def test_a_reader_survives_pickle(parts):
    first = reader(parts, brighten)
    second = pickle.loads(pickle.dumps(first))
    for row in range(3):
        one, two = (sample_of(r, row, np.random.default_rng(row)) for r in (first, second))
        assert one.keys() == two.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])
