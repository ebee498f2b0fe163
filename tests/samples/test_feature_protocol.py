"""The protocol of features: new ones, made here in a class each, do all that dfgen's own do."""

from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np
import pandas as pd
import pytest
from PIL import Image as Pillow
from watching import EAGER

import dfgen
from dfgen.errors import DecodeError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.pixels.resizing import resize
from dfgen.spec import Spec
from dfgen.stores.array_files import decode_array


@dataclass(frozen=True)
class Spectrogram(Feature):
    """Frames of .npy files of any length, padded or cut to `frames`, and how many there are."""

    column: str = "path"
    frames: int = 8
    bins: int = 4
    jitter: bool = False
    kind: ClassVar[str] = "spectrogram"
    of_files: ClassVar[bool] = True

    @property
    def spec(self):
        frames = Spec((self.frames, self.bins), np.dtype("float32"), blank=-1)
        return frames, Spec((), np.dtype("int32"))

    def arrays(self, name):
        return {"frames": name, "length": f"{name}_length"}

    @property
    def is_random(self):
        return self.jitter

    def draw(self, rng):
        return rng.normal()

    def read(self, value, out, store, watch, given):
        watch("read")
        data = store.read(value)
        watch("decode", len(data))
        found = decode_array(data)[: self.frames] + (given or 0)
        frames, length = out
        frames[: len(found)], frames[len(found) :], length[...] = found, 0, len(found)


@dataclass(frozen=True)
class Depth(Feature):
    """How far away each pixel of an image is: .npy files, which follow its geometry."""

    column: str
    like: Any = None
    kind: ClassVar[str] = "depth"
    of_files: ClassVar[bool] = True
    follows: ClassVar[bool] = True
    pixel_kind: ClassVar[str] = "map"

    @property
    def spec(self):
        return Spec((*self.image.read_spec(False).shape[:2], 1), np.dtype("float32"), blank=-1)

    def read(self, value, out, store, watch, given):
        distances = decode_array(store.read(value))[..., None]
        resize(distances, given, out, "nearest", fill_value=-1)


LENGTHS = [3, 8, 12, 5, 8, 1]


@pytest.fixture
def sounds(tmp_path):
    """A manifest of files of so many frames, each of which holds the number of its row."""
    rows = []
    for row, length in enumerate(LENGTHS):
        path = str(tmp_path / f"{row}.npy")
        np.save(path, np.full((length, 4), row, "float32"))
        rows.append({"id": f"s{row}", "path": path, "loud": row % 2})
    return pd.DataFrame(rows)


def model():
    """A model of both arrays of a Spectrogram."""
    frames = keras.Input((8, 4), name="frames")
    length = keras.Input((), name="length")
    both = keras.layers.Concatenate()(
        [keras.layers.Flatten()(frames), keras.layers.Reshape((1,))(length)]
    )
    made = keras.Model(
        {"frames": frames, "length": length}, keras.layers.Dense(1, activation="sigmoid")(both)
    )
    made.compile("sgd", "binary_crossentropy", run_eagerly=EAGER)
    return made


@pytest.mark.backend
@pytest.mark.parametrize(
    "options", [{}, {"workers": 0}, {"workers": 1, "use_multiprocessing": True}]
)
def test_a_feature_from_outside_trains_a_model(sounds, options):
    given = {"batch_size": 2, "shuffle": False, "workers": 2, **options}
    with dfgen.Sequence(sounds, Spectrogram(), "loud", **given) as seq:
        batches = list(seq)
        found = {
            key: np.concatenate([np.asarray(x[key]) for x, _ in batches])
            for key in ("frames", "length")
        }
        np.testing.assert_array_equal(found["length"], np.minimum(LENGTHS, 8))
        for row, length in enumerate(found["length"]):
            np.testing.assert_array_equal(found["frames"][row, :length], row)
            np.testing.assert_array_equal(found["frames"][row, length:], 0)
        history = model().fit(seq, epochs=2, verbose=0).history["loss"]
    assert len(history) == 2
    assert np.isfinite(history).all()


def test_its_arrays_go_through_transforms_by_their_names(sounds):
    def louder(sample, rng):
        assert sample["spectrogram"].shape == (8, 4)
        return {**sample, "spectrogram": sample["spectrogram"] + 1}

    with dfgen.Sequence(
        sounds, Spectrogram(), "loud", batch_size=6, shuffle=False, transform=louder
    ) as seq:
        x, _ = seq[0]
    np.testing.assert_array_equal(x["frames"][:, 0, 0], np.arange(6) + 1)
    np.testing.assert_array_equal(x["length"], np.minimum(LENGTHS, 8))


def test_what_it_draws_is_the_same_for_the_same_seed_and_epoch(sounds):
    def frames(epochs, **options):
        x = Spectrogram(jitter=True)
        with dfgen.Sequence(sounds, x, "loud", batch_size=6, shuffle=False, **options) as seq:
            found = [np.asarray(x["frames"]) for _ in range(epochs) for x, _ in seq]
        return np.stack(found)

    once = frames(2, workers=0)
    np.testing.assert_array_equal(once, frames(2, workers=2))
    assert (once[0] != once[1]).any(axis=(1, 2)).all()


def test_a_broken_file_is_told_with_its_row_and_path(sounds):
    path = sounds["path"][4]
    with open(path, "wb") as file:
        file.write(b"RIFF....WAVE")
    expected = (
        f"row id='s4', path={path!r}: the file begins with b'RIFF....', so it is no .npy file: "
        "read images with dfgen.Image, other files with dfgen.Array(..., decode=function)"
    )
    with (
        dfgen.Sequence(sounds, Spectrogram(), "loud", shuffle=False) as seq,
        pytest.raises(DecodeError) as error,
    ):
        seq[0]
    assert str(error.value) == expected
    with dfgen.Sequence(sounds, Spectrogram(), "loud", shuffle=False, on_error="skip") as seq:
        x, _, weights = seq[0]
        [problem] = seq.problems.to_dict("records")
        assert (
            f"row id={problem['id']!r}, path={problem['path']!r}: {problem['reason']}" == expected
        )
    assert (x["frames"][4] == -1).all()
    assert x["length"][4] == weights[4] == 0


def test_by_hand_it_returns_its_arrays(sounds):
    found = Spectrogram()(sounds.iloc[0])
    assert found["frames"].shape == (8, 4)
    assert found["length"] == 3
    sounds.loc[0, "path"] = "gone.npy"
    with pytest.raises(dfgen.DfgenError) as error:
        Spectrogram()(sounds.iloc[0])
    assert str(error.value) == "path='gone.npy': the file does not exist"


def test_it_is_named_by_its_kind_or_its_key(sounds):
    specs = {}
    for x in (Spectrogram(), {"sound": Spectrogram()}, [Spectrogram(), Spectrogram()]):
        with dfgen.Sequence(sounds, x, "loud") as seq:
            specs[str(type(x).__name__)] = list(seq._loader.specs)
    assert specs == {
        "Spectrogram": ["spectrogram", "spectrogram_length", "number"],
        "dict": ["sound", "sound_length", "number"],
        "list": [
            "spectrogram_0", "spectrogram_0_length", "spectrogram_1", "spectrogram_1_length",
            "number",
        ],
    }  # fmt: skip


@pytest.fixture
def scenes(tmp_path):
    """A manifest of images of different sizes, masks and depths, which show the same."""
    rows = []
    for row, (height, width) in enumerate([(20, 30), (24, 18), (20, 30), (16, 16)]):
        depth = np.add.outer(np.arange(height), np.arange(width)).astype(np.uint8)
        path, mask, npy = (str(tmp_path / f"{row}{end}") for end in (".png", "m.png", ".npy"))
        Pillow.fromarray(np.stack([depth] * 3, axis=2)).save(path)
        Pillow.fromarray(depth).save(mask)
        np.save(npy, depth.astype("float32"))
        rows.append({"id": row, "path": path, "mask": mask, "depth": npy})
    return pd.DataFrame(rows)


IMAGES = {
    "random crop and flip": Image(
        size=(12, 12), load_size=(16, 16), crop="random", flip="horizontal"
    ),
    "pad": Image(size=(20, 20), resize="pad"),
    "own sizes": Image(size=None),
}


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES.keys())
@pytest.mark.parametrize("options", [{}, {"use_multiprocessing": True, "workers": 1}])
def test_a_feature_from_outside_follows_an_image(scenes, image, options):
    y = {"depth": Depth("depth"), "mask": Mask("mask", fill_value=255)}
    with dfgen.Sequence(scenes, {"image": image}, y, batch_size=4, **options) as seq:
        x, y = seq[0]
    shown = np.asarray(y["mask"]).astype("float32")
    np.testing.assert_array_equal(np.asarray(y["depth"]), np.where(shown == 255, -1, shown))
    assert y["depth"].shape == (*np.shape(x["image"])[:3], 1)


def test_what_follows_an_image_needs_one(scenes):
    with pytest.raises(dfgen.DfgenError) as error:
        dfgen.Sequence(scenes, Depth("depth"), label_mode=None)
    assert str(error.value) == (
        "Depth('depth') lies on an image, but x and y have none: give x=dfgen.Image(...) as well"
    )


def test_by_hand_it_follows_its_image(scenes):
    row = scenes.iloc[0]
    for image, shape in (("random crop and flip", (12, 12, 1)), ("own sizes", (20, 30, 1))):
        depth = Depth("depth", like=IMAGES[image])(row, np.random.default_rng(5))
        mask = Mask("mask", like=IMAGES[image])(row, np.random.default_rng(5))
        assert depth.shape == shape
        np.testing.assert_array_equal(depth, mask.astype("float32"))


@pytest.mark.backend
def test_what_has_channels_follows_the_image_data_format(scenes):
    keras.config.set_image_data_format("channels_first")
    try:
        x = {"image": Image(size=(8, 10)), "depth": Depth("depth")}
        with dfgen.Sequence(scenes, x, label_mode=None, batch_size=4) as seq:
            (x,) = seq[0]
    finally:
        keras.config.set_image_data_format("channels_last")
    assert x["depth"].shape == (4, 1, 8, 10)
