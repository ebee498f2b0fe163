"""Sounds, arrays, numbers and text as pictures: in grids, batches and reports."""

import base64
import json
import re

import cv2
import numpy as np
import pandas as pd
import pytest
import soundfile
from cases import each

import dfgen
import dfgen.explore
from dfgen.errors import ArgumentError, ManifestError
from dfgen.explore.chosen_rows import kind_of
from dfgen.explore.sketches import array_sketch, curve, sound_sketch, spectrogram, text_sketch
from dfgen.explore.thumbnails import thumbnails
from dfgen.explore.visible_pixels import mask_layer

RATE = 8000
WHITE = (255, 255, 255)


def tone(hertz, seconds=1.0):
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(RATE * seconds)) / RATE)


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Three rows, each of a tone, twice as high as the one before, an array, a curve and a text."""
    folder = tmp_path_factory.mktemp("sounds")
    for row in range(3):
        soundfile.write(folder / f"{row}.wav", tone(500 * 2**row), RATE)
        np.save(folder / f"{row}.npy", np.full((4, 6), row, np.float32))
    return pd.DataFrame(
        {
            "id": range(3),
            "path": [f"{folder}/{row}.wav" for row in range(3)],
            "word": pd.Categorical(["yes", "no", "yes"]),
            "spectrum": [f"{folder}/{row}.npy" for row in range(3)],
            "pulse": [np.arange(9.0) * row for row in range(3)],
            "spoken": [f"somebody said the word number {row}" for row in range(3)],
        }
    )


def loudest(pixels):
    """Return the frequency of the brightest line of a spectrogram, in Hz."""
    bright = pixels.astype(int).sum(axis=(1, 2))
    return (len(bright) - bright.argmax() - 0.5) / len(bright) * RATE / 2


@pytest.mark.parametrize("hertz", [500, 1000, 2000, 3500])
def test_a_spectrogram_has_high_tones_above_low_ones(hertz):
    assert loudest(spectrogram(tone(hertz), 80, 120)) == pytest.approx(hertz, abs=50)


def test_a_waveform_is_as_high_as_the_sound_is_loud_above_its_spectrogram():
    frames = np.concatenate([tone(500), 0.1 * tone(500)])[:, None]
    found = sound_sketch(np.repeat(frames, 2, axis=1), RATE, 160)
    assert (found.pixels.shape, found.note) == ((100, 160, 3), "2 s, 8,000 Hz")
    wave = (found.pixels[:38] != WHITE).any(axis=2).sum(axis=0)
    assert wave[:78].min() >= 36
    assert wave[82:].max() <= 5


@pytest.mark.parametrize("frames", [0, 1, 3, 100_000])
def test_any_number_of_frames_is_a_sound(frames):
    assert sound_sketch(np.zeros((frames, 1), np.float32), RATE, 32).pixels.shape == (20, 32, 3)


def test_a_curve_holds_every_number_and_rises_as_they_do():
    rising = curve(np.arange(50), 20, 50)
    tops = (rising[..., 0] < 255).argmax(axis=0)
    assert (tops[0], tops[-1]) == (19, 0)
    assert (np.diff(tops) <= 0).all()
    spike = np.zeros(100_000)
    spike[70_000] = 1
    found = curve(spike, 20, 50)
    assert (found[:19, 35] < 255).any()
    assert (found[0] == 255).all(axis=1).sum() == 49
    odd = np.array([np.nan, np.inf, 1, 2])
    for values in (odd, odd[:1], np.array([5]), np.array([1 + 2j]), np.zeros(0)):
        assert curve(values, 4, 8).shape == (4, 8, 3) if len(values) else True


@each(
    ("array", "shape", "note"),
    [
        (np.ones((4, 6), np.uint8), (4, 6), "uint8, 4 x 6"),
        (np.ones((4, 6, 3), np.uint8), (4, 6), "uint8, 4 x 6 x 3"),
        (np.ones((80, 40, 4), np.uint8), (32, 16), "uint8, 80 x 40 x 4"),
        (np.eye(4, dtype=bool), (4, 4), "bool, 4 x 4"),
        (np.arange(24.0).reshape(4, 6), (4, 6), "float64, 4 x 6; float64, 0.23 to 22.8"),
        (np.ones((7, 4, 6), np.uint8), (7, 6), "uint8, 7 x 4 x 6, slice 2 of 4"),
        (np.ones((2, 5, 9, 3), np.uint8), (5, 9), "uint8, 2 x 5 x 9 x 3, slice 1 of 2"),
        (np.arange(3000), (20, 32), "3000 numbers, 0 to 2,999"),
        (np.float32(2.5), (20, 32), "1 number, 2.5 to 2.5"),
        (np.array([np.nan, np.inf]), (20, 32), "2 numbers, none of them finite"),
        (np.zeros((0, 3)), (2, 2), "float64, 0 x 3: no numbers to draw"),
        (np.array(["a"]), (2, 2), "<U1, 1: no numbers to draw"),
    ],
)
def test_an_array_is_an_image_or_a_curve(array, shape, note):
    found = array_sketch(np.asarray(array), 32)
    assert (found.pixels.shape[:2], found.note) == (shape, note)


def test_the_tile_of_a_text_grows_with_it():
    short, long = text_sketch("a cat", 100), text_sketch("a cat " * 100, 100)
    assert (short.text, short.pixels.shape, long.pixels.shape) == (
        "a cat", (30, 100, 3), (140, 100, 3)
    )  # fmt: skip


@each(
    ("values", "kind"),
    [
        (["a.png", None, "b.JPG"], "image"), (["a.wav"], "sound"), (["a.npy"], "array"),
        ([["a.png", "b.png"]], "image"), (["notes.txt"], "file"), ([b"RIFF1234WAVE"], "sound"),
        ([b"odd"], "file"), ([b"odd", b"RIFF1234WAVE"], "sound"), (["a.png", "b.wav"], "file"),
        ([{"bytes": None, "path": "a.flac"}], "sound"),
        (["http://h/a.png?key=1"], "image"), (["cat", "dog"], None), (["a.png", "cat"], None),
        (["five little words of text"], "text"), ([[1.0, 2.0]], "numbers"), ([[]], "numbers"),
        ([np.zeros((2, 2))], "numbers"), ([["cat"]], None), ([[True]], None), ([1, 2], None),
        ([None], None), ([], None), (pd.Categorical(["a.png"]), "image"),
    ],
)  # fmt: skip
def test_what_a_column_holds_is_known_by_its_first_values(values, kind):
    assert kind_of(pd.Series(values)) == kind


def test_rows_are_shown_by_their_files_else_their_numbers_else_their_text(sounds):
    figure = sounds.dfgen.show()
    heights = [axes.images[0].get_array().shape for axes in figure.axes]
    assert heights == [(100, 160, 3)] * 3
    found = [loudest(axes.images[0].get_array()[38:]) for axes in figure.axes]
    assert found == pytest.approx([500, 1000, 2000], abs=60)
    texts = [axes.texts[-1].get_text() for axes in figure.axes]
    assert texts[0] == "0\nword yes\nspoken somebody said the\nword number 0\n1 s, 8,000 Hz"
    rows = sounds.drop(columns="path")
    assert rows.dfgen.show().axes[2].images[0].get_array().shape == (4, 6, 3)
    rows = rows.drop(columns="spectrum")
    assert rows.dfgen.show().axes[0].texts[-1].get_text().endswith("9 numbers, 0 to 0")
    [said, below] = rows.drop(columns="pulse").dfgen.show(1).axes[0].texts
    assert said.get_text().replace("\n", " ").startswith("somebody said the word number")
    assert below.get_text().split("\n")[1] in ("yes", "no")  # and not the text again


def test_features_say_how_rows_are_read(sounds, tmp_path):
    stack = np.stack([np.full((6, 5), 40 * row, np.uint8) for row in range(3)])
    np.save(tmp_path / "stack.npy", stack)
    rows = sounds.assign(stack=f"{tmp_path}/stack.npy", at=[2, 0, 9])
    one, other, none = thumbnails(rows, dfgen.Array("stack", (6, 5), "uint8", index="at"))
    assert (one.pixels == 80).all()
    assert (other.pixels == 0).all()
    assert none.problem == "the array has 3 rows, there is no row 9"
    read = dfgen.Array("path", (1,), decode=lambda data: np.full((2, 3), data[0], np.uint8))
    assert [one.pixels.shape for one in thumbnails(rows, read)] == [(2, 3, 3)] * 3
    assert thumbnails(rows, dfgen.Audio("path", RATE, 1))[0].note == "1 s, 8,000 Hz"
    assert thumbnails(rows, dfgen.Text("word"))[1].text == "no"
    with pytest.raises(ArgumentError) as caught:
        thumbnails(rows, dfgen.Number("id"))
    assert str(caught.value) == (
        "image=Number(column='id'): expected a column, dfgen.Image, Audio, Array or Text"
    )


def test_a_sound_or_array_that_cannot_be_read_is_a_tile_that_tells_why(sounds, tmp_path):
    (tmp_path / "cut.wav").write_bytes(b"RIFF\0\0\0\0WAVEfmt ")
    (tmp_path / "none.npy").write_bytes(b"\x93NUMPY")
    rows = sounds.assign(path=[None, f"{tmp_path}/cut.wav", f"{tmp_path}/none.wav"])
    assert [one.problem for one in thumbnails(rows)] == [
        "the row has no path",
        "broken wav file: Error in WAV file. No 'data' chunk marker",
        "the file does not exist",
    ]
    rows = sounds.assign(spectrum=[f"{tmp_path}/none.npy", f"{tmp_path}/b.npy", None])
    broken, missing, null = (one.problem for one in thumbnails(rows, "spectrum"))
    assert broken.startswith("broken .npy header")
    assert (missing, null) == ("the file does not exist", "the row has no spectrum")


def test_numbers_may_lack_some_and_a_row_that_holds_no_array_says_why(tmp_path):
    rows = pd.DataFrame({"id": [1, 2, 3], "vector": [[1.0, None, 3.0], [[1.0], [2.0, 3.0]], None]})
    some, ragged, none = thumbnails(rows)
    assert some.note == "3 numbers, 1 to 3"
    assert ragged.problem.startswith("setting an array element with a sequence")
    assert none.problem == "the row has no vector"
    with pytest.raises(ManifestError) as caught:
        thumbnails(rows[["id"]])
    assert str(caught.value) == (
        "no column holds images, sounds, arrays or text (columns: id): name one that does, as in "
        'image="scan"'
    )


def test_of_a_long_sound_the_first_seconds_are_shown(tmp_path):
    soundfile.write(tmp_path / "long.wav", np.zeros(100 * 90), 100)
    [found] = thumbnails(pd.DataFrame({"path": [f"{tmp_path}/long.wav"]}))
    assert found.note == "the first 20 of 90 s, 100 Hz"


def test_a_batch_shows_sounds_arrays_and_texts_as_the_model_gets_them(sounds):
    x = {
        "sound": dfgen.Audio("path", RATE, 0.5), "spectrum": dfgen.Array("spectrum", (4, 6)),
        "pulse": dfgen.Column("pulse", np.array, shape=(9,)), "text": dfgen.Text("spoken"),
    }  # fmt: skip
    with dfgen.Sequence(sounds, x=x, y="word", shuffle=False) as seq:
        figure = seq.show()
    heads = [text.get_text().partition(":")[0] for text in figure.texts]
    assert heads[1:] == ["sound", "spectrum", "pulse", "text"]
    assert [axes.images[0].get_array().shape[0] for axes in figure.axes[::3]] == [100, 4, 100, 48]
    assert figure.axes[0].texts[-1].get_text() == "0\nyes"
    assert loudest(figure.axes[2].images[0].get_array()[38:]) == pytest.approx(2000, abs=60)


def data_of(frame, path, **arguments):
    dfgen.explore.report(frame, path, **arguments)
    text = path.read_text("utf-8")
    return json.loads(re.search('id="data">(.*?)</script>', text)[1])


def pixels_of(row):
    webp = np.frombuffer(base64.b64decode(row["picture"]), np.uint8)
    return cv2.imdecode(webp, cv2.IMREAD_COLOR)[..., ::-1]


def test_a_report_shows_sounds_texts_and_its_own_captions(sounds, tmp_path):
    data = data_of(sounds, tmp_path / "a.html", caption="spoken")
    assert pixels_of(data["rows"]["0"]).shape == (140, 224, 3)
    assert [data["columns"][at]["name"] for at in data["caption"]] == ["spoken"]
    data = data_of(sounds[["id", "word", "spoken"]], tmp_path / "b.html")
    assert data["rows"]["1"]["text"] == "somebody said the word number 1"


def test_a_mask_is_a_tint_with_edges_that_leaves_the_picture_visible(tmp_path):
    mask = np.zeros((9, 9), np.uint8)
    mask[2:7, 2:7] = 3
    layer = mask_layer(mask)
    assert np.unique(layer[..., 3]).tolist() == [0, 102, 255]
    assert (layer[3:6, 3:6, 3] == 102).all()
    assert (layer[2, 2:7, 3] == 255).all()
    assert layer[4, 4, :3].tolist() == [214, 39, 40]


def test_a_report_draws_masks_on_their_pictures(tmp_path):
    mask = np.zeros((9, 9), np.uint8)
    mask[2:7, 2:7] = 3
    cv2.imwrite(f"{tmp_path}/m.png", mask)
    cv2.imwrite(f"{tmp_path}/a.png", np.full((9, 9, 3), 100, np.uint8))
    frame = pd.DataFrame({"id": [0], "path": f"{tmp_path}/a.png", "mask": f"{tmp_path}/m.png"})
    shown = pixels_of(data_of(frame, tmp_path / "a.html")["rows"]["0"])
    assert shown[0, 0].tolist() == [100, 100, 100]
    assert shown[4, 4].tolist() == [146, 76, 76]  # 0.6 of the photograph, 0.4 of the tint
    assert shown[2, 2].tolist() == [214, 39, 40]
