"""Audio: sounds of one length, from every format; what is broken is named, and stderr stays empty.

Frame i of most sounds here holds i, as a 16-bit number: what is read tells where it was cut.
"""

import io
import struct
import sys
import wave
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soundfile
from messages import message_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError, MissingFileError
from dfgen.samples.features.audio import Audio
from dfgen.samples.pixels import sound_files

RATE = 8000
SECOND = Audio("path", RATE, 1)


def ramp(path, frames, channels=1, rate=RATE):
    """Write a WAV file whose frames count up, by Python's own `wave`."""
    numbers = np.repeat(np.arange(frames, dtype="<i2")[:, None], channels, 1)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(numbers.tobytes())
    return str(path)


def tones(channels=2, seconds=3.0, rate=RATE):
    t = np.arange(int(seconds * rate)) / rate
    parts = [np.sin(2 * np.pi * (200 + 60 * k * t) * t) * 0.4 for k in range(1, channels + 1)]
    return np.stack(parts, 1).astype(np.float32)


def encoded(format, subtype, rate=RATE, **options):
    file = io.BytesIO()
    soundfile.write(file, tones(rate=rate, **options), rate, format=format, subtype=subtype)
    return file.getvalue()


def written(folder, name, data):
    (folder / name).write_bytes(data)
    return str(folder / name)


def numbers(array):
    return np.round(array * 32768).astype(int)


FORMATS = {  # name -> format and subtype of libsndfile, the largest error of what it keeps
    "a.wav": ("WAV", "PCM_16", 2**-15),
    "float.wav": ("WAV", "FLOAT", 0),
    "24.wav": ("WAV", "PCM_24", 2**-23),
    "rf64.wav": ("RF64", "PCM_16", 2**-15),
    "a.flac": ("FLAC", "PCM_16", 2**-15),
    "vorbis.ogg": ("OGG", "VORBIS", 0.1),
    "a.opus": ("OGG", "OPUS", 0.1),
    "a.mp3": ("MP3", "MPEG_LAYER_III", 0.1),
    "a.aiff": ("AIFF", "PCM_16", 2**-15),
}


# What it gives


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("seconds", [0.5, 3])
def test_the_same_as_keras_makes_of_a_folder(tmp_path, channels, seconds):
    import keras

    (tmp_path / "cat").mkdir()
    noise = np.random.default_rng(0).integers(-(2**15), 2**15, (RATE, channels), np.int16)
    soundfile.write(tmp_path / "cat" / "a.wav", noise, RATE)
    dataset = keras.utils.audio_dataset_from_directory(
        tmp_path, output_sequence_length=int(RATE * seconds), batch_size=1, verbose=False
    )
    expected = next(iter(dataset))[0][0].numpy()
    found = Audio("path", RATE, seconds, channels)({"path": f"{tmp_path}/cat/a.wav"})
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_and_a_part_is_that_of_the_whole(tmp_path, name):
    format, subtype, error = FORMATS[name]
    path = written(tmp_path, name, encoded(format, subtype))
    whole = Audio("path", RATE, 3, 2)({"path": path})
    assert np.abs(whole - tones())[200:-200].max() <= error
    part = Audio("path", RATE, 1, 2, "center")({"path": path})
    np.testing.assert_allclose(part, whole[RATE : 2 * RATE], atol=1e-6)


@pytest.mark.parametrize(
    ("channels", "start", "expected"),
    [
        (1, "start", np.arange(8)[:, None]),
        (2, "start", np.arange(8)[:, None].repeat(2, 1)),
        (1, "center", np.arange(6, 14)[:, None]),
        (1, "random", np.arange(6, 14)[:, None]),
    ],
)
def test_where_a_longer_sound_is_cut(tmp_path, channels, start, expected):
    path = ramp(tmp_path / "a.wav", 20)
    audio = Audio("path", RATE, 8 / RATE, channels, start)
    np.testing.assert_array_equal(numbers(audio({"path": path})), expected)


@pytest.mark.parametrize("start", ["start", "center", "random"])
def test_a_shorter_sound_has_zeros_after_it(tmp_path, start):
    path = ramp(tmp_path / "a.wav", 5)
    audio = Audio("path", RATE, 8 / RATE, start=start)
    found = audio(pd.Series({"path": path}), np.random.default_rng(0))
    assert numbers(found).ravel().tolist() == [0, 1, 2, 3, 4, 0, 0, 0]


def test_two_channels_become_their_mean(tmp_path):
    frames = np.array([[0.5, 0.25], [-0.5, 0.5]])
    soundfile.write(tmp_path / "a.wav", frames, RATE, "FLOAT")
    found = Audio("path", RATE, 3 / RATE)({"path": f"{tmp_path}/a.wav"})
    assert found.tolist() == [[0.375], [0.0], [0.0]]


def test_as_many_channels_as_every_file_has(tmp_path):
    path = ramp(tmp_path / "a.wav", 5, channels=4)
    assert Audio("path", RATE, 1, 4)({"path": path}).shape == (RATE, 4)


def test_random_places_are_all_that_fit_from_the_first_to_the_last(tmp_path):
    path = ramp(tmp_path / "a.wav", 12)
    audio, rng = Audio("path", RATE, 8 / RATE, start="random"), np.random.default_rng(0)
    firsts = [int(numbers(audio({"path": path}, rng))[0, 0]) for _ in range(200)]
    assert set(firsts) == {0, 1, 2, 3, 4}


def test_a_large_file_is_read_by_its_path_a_small_one_as_a_whole(tmp_path, monkeypatch):
    from dfgen.samples.features import audio as module

    path = ramp(tmp_path / "a.wav", 30_000)
    cut = Audio("path", RATE, 1, 2, "center")
    small = cut({"path": path})
    sources = []
    source = sound_files.sound_source
    monkeypatch.setattr(
        module, "sound_source", lambda *given: sources.append(source(*given)) or sources[-1]
    )
    np.testing.assert_array_equal(cut({"path": path}), small)
    monkeypatch.setattr(module, "_SMALL", 1000)
    np.testing.assert_array_equal(cut({"path": path}), small)
    assert [type(one).__name__ for one in sources] == ["_Held", "str"]
    assert sources[1] == path


# In a Sequence


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    paths = [ramp(folder / f"{row}.wav", 100 + row) for row in range(12)]
    return pd.DataFrame({"id": range(12), "path": paths, "kind": ["cat", "dog"] * 6}).astype(
        {"kind": "category"}
    )


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 1, "use_multiprocessing": True}])
def test_starts_are_drawn_by_the_row_whoever_reads_it(frame, options):
    audio = Audio("path", RATE, 50 / RATE, start="random")

    def epochs(**options):
        with dfgen.Sequence(frame, audio, "kind", batch_size=5, **options) as seq:
            return [np.concatenate([np.asarray(x) for x, _ in seq]) for _ in range(2)]

    one, other = epochs(workers=0)
    assert (one[:, 1:] > one[:, :-1]).all() and one.shape == (12, 50, 1)
    assert len({*numbers(one[:, 0, 0])}) > 4
    assert (one != other).any()
    for expected, found in zip((one, other), epochs(**options), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_column_of_bytes_holds_sounds_too(frame):
    read = frame["path"].map(lambda path: Path(path).read_bytes())
    audio = Audio("sound", RATE, 10 / RATE, start="center")
    with dfgen.Sequence(frame, Audio("path", RATE, 10 / RATE, 1, "center"), "kind") as seq:
        expected = np.asarray(seq[0][0])
    for sounds_ in (list(read), [{"bytes": one, "path": "a.wav"} for one in read]):
        with dfgen.Sequence(frame.assign(sound=sounds_), audio, "kind") as seq:
            np.testing.assert_array_equal(np.asarray(seq[0][0]), expected)
    bad = frame.assign(sound=[*read[:-1], b"no sound"])
    with pytest.raises(DecodeError) as caught, dfgen.Sequence(bad, audio, "kind") as seq:
        list(seq)
    assert str(caught.value).startswith("row id=11, ")


def test_a_bare_column_of_sounds_says_what_to_write(frame):
    for column in ("path", "sound"):
        with pytest.raises(ArgumentError) as caught:
            dfgen.Sequence(frame.rename(columns={"path": column}), column, "kind", id="id")
        assert str(caught.value) == (
            f'x="{column}" names .wav files: write '
            f'x=dfgen.Audio("{column}", sample_rate=..., seconds=...)'
        )


# Bad input


def refused(path, audio=SECOND):
    with pytest.raises((DecodeError, MissingFileError)) as caught:
        audio({"path": path})
    return str(caught.value).removeprefix(f"path={path!r}: ")


def wav(rate=RATE, channels=1, promised=200):
    """Return a WAV file of 200 bytes of sound."""
    kind = struct.pack("<HHIIHH", 1, channels, rate, 2 * rate, 2, 16)
    sound = struct.pack("<4sI", b"data", promised) + b"\1\0" * 100
    body = b"WAVEfmt " + struct.pack("<I", 16) + kind + sound
    return b"RIFF" + struct.pack("<I", len(body)) + body


BAD = {
    "empty.wav": (b"", "the file is empty (0 bytes)"),
    "text.wav": (b"hello world", "not an image, array or sound that dfgen opens: the file begins "
                                 "with b'hello wo'. Formats: "),
    "rate.wav": (wav(rate=0), "broken wav file: its header says a sample rate of 0"),
    "channels.wav": (wav(channels=0), "broken wav file: Channel count is zero"),
    "none.wav": (wav(promised=0), "the sound is empty (0 frames)"),
    "cut.wav": (wav(promised=300), "truncated: 300 bytes of sound are promised, 200 are there"),
    "head.wav": (wav()[:30], "broken wav file: Error in WAV file. No 'data' chunk marker"),
    "image.wav": (b"\x89PNG\r\n\x1a\n" + bytes(20), "this is a .png image, not a sound: "
                                                   "use dfgen.Image for this column"),
    "other.wav": (wav(rate=44100), "the sound has 44,100 frames a second, expected "
                                   "sample_rate=8,000: nothing is resampled here, do it "
                                   "beforehand"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named(tmp_path, name, capfd):
    data, message = BAD[name]
    assert refused(written(tmp_path, name, data)).startswith(message)
    assert capfd.readouterr().err == ""


def test_other_channels_are_named(tmp_path):
    path = ramp(tmp_path / "a.wav", 5, channels=4)
    assert refused(path) == (
        "the sound has 4 channels, expected channels=1: only one and two are made into each other"
    )


def test_a_sound_whose_writer_could_not_know_its_length_is_read(tmp_path):
    path = written(tmp_path, "pipe.wav", wav(promised=2**32 - 1))
    assert np.count_nonzero(SECOND({"path": path})) == 100
    data = bytearray(encoded("FLAC", "PCM_16", channels=1))
    data[21] &= 0xF0
    data[22:26] = bytes(4)  # of its STREAMINFO, the total samples
    assert refused(written(tmp_path, "pipe.flac", bytes(data))) == (
        "the header of the flac file does not say how long the sound is: encode it anew, into a "
        "file rather than a pipe"
    )


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("share", [0.999, 0.6, 0.1])
def test_a_sound_that_is_cut_short_is_named_wherever_it_is_cut(tmp_path, name, share, capfd):
    format, subtype, _ = FORMATS[name]
    data = encoded(format, subtype)
    path = written(tmp_path, name, data[: int(len(data) * share)])
    found = refused(path, Audio("path", RATE, 3, 2))
    assert found.startswith(("truncated: ", "broken "))
    if not name.endswith("flac"):  # of which only its frames tell
        [problem] = dfgen.build_manifest(tmp_path)["problem"]
        assert problem == found
    assert capfd.readouterr().err == ""


# MP3


ID3 = b"ID3\3\0\0\0\0\0\x14" + b"TPE1\0\0\0\5\0\0\x77abcd" + bytes(5)
MP3_AROUND = {
    "tags": (ID3, b"TAG" + bytes(125)),
    "zeros": (bytes(3000), bytes(500)),
    "junk before": (b"\xff\xfb junk " * 50, b""),
}


@pytest.fixture(scope="module")
def mp3():
    return encoded("MP3", "MPEG_LAYER_III", seconds=1)


@pytest.mark.parametrize("around", MP3_AROUND)
def test_what_stands_around_an_mp3_changes_nothing_and_writes_nothing(tmp_path, mp3, around, capfd):
    before, after = MP3_AROUND[around]
    audio = Audio("path", RATE, 1, 2)
    plain = audio({"path": written(tmp_path, "a.mp3", mp3)})
    data = before + mp3 + after
    if around == "tags":  # or its first bytes do not tell that it is an MP3
        np.testing.assert_array_equal(audio({"path": written(tmp_path, "b.mp3", data)}), plain)
    with sound_files.open_sound(sound_files.sound_source(io.BytesIO(data), "mp3"), "mp3") as sound:
        np.testing.assert_array_equal(sound.read(dtype="float32"), plain)
    assert capfd.readouterr().err == ""


def test_an_mp3_with_a_hole_is_named(tmp_path, mp3, capfd):
    half = len(mp3) // 2
    for tags in (b"", ID3):
        message = refused(
            written(tmp_path, "a.mp3", tags + mp3[:half] + b"hole" * 100 + mp3[half:])
        )
        assert message.startswith("broken mp3 file: there is no frame at byte ")
    assert capfd.readouterr().err == ""


def test_frames_within_a_tag_are_no_sound(tmp_path, mp3):
    """As a preview in an ID3 tag, whose size has seven bits a byte."""
    tag = b"ID3\3\0\0" + bytes([0, 0, 2000 >> 7, 2000 & 127]) + mp3[:2000]
    plain, tagged = (
        Audio("path", RATE, 1, 2)({"path": written(tmp_path, f"{len(before)}.mp3", before + mp3)})
        for before in (b"", tag)
    )
    np.testing.assert_array_equal(tagged, plain)


def test_mp3_files_that_were_joined_are_read_as_one(tmp_path, mp3, capfd):
    found = Audio("path", RATE, 3, 2)({"path": written(tmp_path, "a.mp3", mp3 + mp3)})
    loud = np.abs(found).reshape(30, -1).max(1) > 0.3
    assert loud[2:10].all() and loud[13:21].all() and not loud[23:].any()


@pytest.mark.parametrize("mode", ["CONSTANT", "VARIABLE"])
@pytest.mark.parametrize("rate", [22050, 44100])
def test_an_mp3_without_a_header_has_the_frames_that_are_there(tmp_path, rate, mode, capfd):
    file = io.BytesIO()
    with soundfile.SoundFile(
        file, "w", rate, 1, "MPEG_LAYER_III", format="MP3", bitrate_mode=mode, compression_level=0.9
    ) as sound:
        sound.write(tones(1, 4, rate))
    data = file.getvalue()
    if b"Xing" in data[:60] or b"Info" in data[:60]:
        data = data[data.index(data[:2], 60) :]
    path = written(tmp_path, "a.mp3", data)
    [frames] = dfgen.build_manifest(tmp_path)["frames"]
    whole = Audio("path", rate, frames / rate)({"path": path})
    assert np.abs(whole[-2500:-2000]).max() > 0.3
    part = Audio("path", rate, 1, start="center")({"path": path})
    start = (frames - rate + 1) // 2
    np.testing.assert_array_equal(part, whole[start : start + rate])
    assert capfd.readouterr().err == ""
    assert capfd.readouterr().err == ""


# Facts


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_facts_of_sounds_are_in_the_manifest(tmp_path):
    ramp(tmp_path / "a.wav", 100, channels=2, rate=16000)
    written(tmp_path, "b.flac", encoded("FLAC", "PCM_16", seconds=1))
    written(tmp_path, "c.mp3", ID3 + encoded("MP3", "MPEG_LAYER_III", seconds=1))
    written(tmp_path, "d.wav", b"no sound")
    written(tmp_path, "e.wav", wav(rate=0))
    rows = dfgen.build_manifest(tmp_path, out=tmp_path / "m.parquet")
    facts = rows[["format", "channels", "frames", "sample_rate"]].astype(object)
    assert facts.iloc[:3].to_numpy().tolist() == [
        ["wav", 2, 100, 16000], ["flac", 2, 8000, 8000], ["mp3", 2, 8000, 8000]
    ]  # fmt: skip
    assert facts.iloc[3:].isna().all(axis=None)
    assert rows["problem"].isna().tolist() == [True] * 3 + [False] * 2
    assert rows["problem"][4] == "broken wav file: its header says a sample rate of 0"
    again = dfgen.read_manifest(tmp_path / "m.parquet")
    assert again["sample_rate"].dtype == "Int32" and again["frames"].dtype == "Int64"
    found = dfgen.verify(tmp_path / "m.parquet")
    assert found[["change", "id"]].to_numpy().tolist() == [["broken", "d.wav"], ["broken", "e.wav"]]


def test_without_soundfile_rows_keep_what_else_is_known(tmp_path, monkeypatch):
    ramp(tmp_path / "a.wav", 100)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    [row] = dfgen.build_manifest(tmp_path).to_dict("records")
    assert row["format"] == "wav" and row["bytes"] == 244
    assert pd.isna(row["frames"]) and pd.isna(row["problem"])
    assert message_of(ArgumentError, Audio, "path", RATE, 1) == (
        'dfgen.Audio needs the package soundfile: pip install "keras-dfgen[audio]"'
    )


@pytest.mark.parametrize("size", [(256, 256), None])
def test_a_sound_under_an_image_says_what_to_write(tmp_path, size):
    path, image = ramp(tmp_path / "a.wav", 9), dfgen.Image("path", size=size)
    for read in (image, lambda row: image.geometry(row, None)):
        assert message_of(DecodeError, read, {"path": path}).endswith(
            "this is a .wav sound, not an image: use dfgen.Audio for this column"
        )


def test_a_wav_file_of_the_other_order_of_bytes(tmp_path):
    file = io.BytesIO()
    soundfile.write(file, tones(), RATE, format="WAV", subtype="PCM_16", endian="BIG")
    data = file.getvalue()
    assert data.startswith(b"RIFX")
    expected, _ = soundfile.read(io.BytesIO(data), dtype="float32", frames=RATE)
    read = Audio("path", RATE, 1, channels=2)({"path": written(tmp_path, "a.wav", data)})
    np.testing.assert_array_equal(read, expected)
    assert refused(written(tmp_path, "cut.wav", data[:-10])) == (
        "truncated: 96,000 bytes of sound are promised, 95,990 are there"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_rate": 0}, "sample_rate=0 is not a whole number of 1 or more"),
        ({"sample_rate": 44.1}, "sample_rate=44.1 is not a whole number of 1 or more"),
        ({"channels": 0}, "channels=0 is not a whole number of 1 or more"),
        ({"seconds": 0}, "seconds must be a number above 0, of one frame or more, got 0"),
        ({"seconds": "2"}, "seconds must be a number above 0, of one frame or more, got '2'"),
        ({"seconds": float("nan")},
         "seconds must be a number above 0, of one frame or more, got nan"),
        ({"start": "end"}, "start must be one of ('start', 'center', 'random'), got 'end'"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, message):
    with pytest.raises(ArgumentError) as caught:
        Audio(**{"column": "path", "sample_rate": RATE, "seconds": 1, **arguments})
    assert str(caught.value) == message
