"""Audio: sounds of one length, from every format; files that are cut short are named.

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
from public.first_batch import x_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features import audio as module

RATE = 8000


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


def encoded(format, subtype, rate=RATE, channels=2, seconds=3.0, **options):
    file, made = io.BytesIO(), tones(channels, seconds, rate)
    soundfile.write(file, made, rate, format=format, subtype=subtype, **options)
    return file.getvalue()


def written(folder, name, data):
    (folder / name).write_bytes(data)
    return str(folder / name)


def read(path, seconds=1, channels=1, start="start", **options):
    """Return the array of one file."""
    given = path if isinstance(path, list) else [path]
    frame = pd.DataFrame({"id": range(len(given)), "path": given})
    return x_of(frame, dfgen.Audio("path", RATE, seconds, channels, start), **options)[0]


def numbers(array):
    return np.round(array * 32768).astype(int).ravel().tolist()


FORMATS = {  # name -> format and subtype of libsndfile, the largest error of what it keeps
    "a.wav": ("WAV", "PCM_16", 2**-15), "float.wav": ("WAV", "FLOAT", 0),
    "24.wav": ("WAV", "PCM_24", 2**-23), "rf64.wav": ("RF64", "PCM_16", 2**-15),
    "a.flac": ("FLAC", "PCM_16", 2**-15), "vorbis.ogg": ("OGG", "VORBIS", 0.1),
    "a.opus": ("OGG", "OPUS", 0.1), "a.mp3": ("MP3", "MPEG_LAYER_III", 0.1),
    "a.aiff": ("AIFF", "PCM_16", 2**-15),
}  # fmt: skip


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
    found = read(f"{tmp_path}/cat/a.wav", seconds, channels)
    np.testing.assert_array_equal(found, next(iter(dataset))[0][0].numpy(), strict=True)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_whole_and_in_parts(tmp_path, name):
    format, subtype, error = FORMATS[name]
    path = written(tmp_path, name, encoded(format, subtype))
    whole = read(path, 3, 2)
    assert np.abs(whole - tones())[200:-200].max() <= error
    np.testing.assert_allclose(read(path, 1, 2, "center"), whole[RATE : 2 * RATE], atol=1e-6)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("share", [0.999, 0.6, 0.1])
def test_truncated_sound_is_named_at_any_cut(tmp_path, name, share):
    data = encoded(*FORMATS[name][:2])
    path = written(tmp_path, name, data[: int(len(data) * share)])
    with pytest.raises(DecodeError, match=r"truncated|broken|cut short"):
        read(path, 3, 2)
    if not name.endswith("flac"):  # of which only its frames tell
        with pytest.warns(UserWarning, match="1 problem"):
            assert dfgen.build_manifest(tmp_path)["problem"].notna().all()
    assert len(dfgen.verify(pd.DataFrame({"id": [0], "path": path}), decode=True)) == 1


@pytest.mark.parametrize(
    ("channels", "start", "expected"),
    [(1, "start", range(8)), (2, "start", np.arange(8).repeat(2)), (1, "center", range(6, 14))],
)
def test_where_a_longer_sound_is_cut(tmp_path, channels, start, expected):
    path = ramp(tmp_path / "a.wav", 20)
    assert numbers(read(path, 8 / RATE, channels, start)) == list(expected)
    short = ramp(tmp_path / "b.wav", 5)
    padded = [*range(5), 0, 0, 0]
    assert numbers(read(short, 8 / RATE, 1, start)) == padded


def test_channels_become_their_mean_or_stay(tmp_path):
    frames = np.array([[0.5, 0.25], [-0.5, 0.5]])
    soundfile.write(tmp_path / "a.wav", frames, RATE, "FLOAT")
    assert read(f"{tmp_path}/a.wav", 3 / RATE).tolist() == [[0.375], [0.0], [0.0]]
    path = ramp(tmp_path / "b.wav", 5, channels=4)
    assert read(path, 1, 4).shape == (RATE, 4)
    with pytest.raises(DecodeError, match="4 channels"):
        read(path)


def test_random_places_all_fit_and_follow_the_row(tmp_path):
    frame = pd.DataFrame({"id": range(200), "path": ramp(tmp_path / "a.wav", 12)})
    audio = dfgen.Audio("path", RATE, 8 / RATE, start="random")
    firsts = x_of(frame, audio, seed=1)
    assert {*numbers(firsts[:, 0])} == {0, 1, 2, 3, 4}
    np.testing.assert_array_equal(x_of(frame, audio, seed=1, workers=2), firsts)
    assert (x_of(frame, audio, seed=2) != firsts).any()


def test_reading_by_path_equals_reading_from_memory(tmp_path, monkeypatch):
    path = ramp(tmp_path / "a.wav", 30_000)
    small = read(path, 1, 2, "center")
    monkeypatch.setattr(module, "_SMALL", 1000)
    np.testing.assert_array_equal(read(path, 1, 2, "center"), small)


def test_columns_of_bytes_hold_sounds_too(tmp_path):
    path = ramp(tmp_path / "a.wav", 100)
    data = Path(path).read_bytes()
    for content in (data, {"bytes": data, "path": "a.wav"}):
        np.testing.assert_array_equal(read([content]), read(path))
    with pytest.raises(DecodeError, match="1"):
        read([data, b"no sound"])


def wav(rate=RATE, channels=1, promised=200):
    """Return a WAV file of 200 bytes of sound."""
    kind = struct.pack("<HHIIHH", 1, channels, rate, 2 * rate, 2, 16)
    sound = struct.pack("<4sI", b"data", promised) + b"\1\0" * 100
    body = b"WAVEfmt " + struct.pack("<I", 16) + kind + sound
    return b"RIFF" + struct.pack("<I", len(body)) + body


BAD = {
    "empty.wav": (b"", "0 bytes"), "text.wav": (b"hello world", "not an image"),
    "rate.wav": (wav(rate=0), "broken wav"), "channels.wav": (wav(channels=0), "broken wav"),
    "none.wav": (wav(promised=0), "0 frames"), "cut.wav": (wav(promised=300), "truncated"),
    "head.wav": (wav()[:30], "broken wav"),
    "image.wav": (b"\x89PNG\r\n\x1a\n" + bytes(20), "dfgen.Image"),
    "other.wav": (wav(rate=44100), "sample_rate"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named(tmp_path, name):
    data, message = BAD[name]
    with pytest.raises(DecodeError, match=message):
        read(written(tmp_path, name, data))


def test_sound_of_unknown_length_is_read_or_rejected(tmp_path):
    path = written(tmp_path, "pipe.wav", wav(promised=2**32 - 1))
    assert np.count_nonzero(read(path)) == 100
    data = bytearray(encoded("FLAC", "PCM_16", channels=1))
    data[21] &= 0xF0
    data[22:26] = bytes(4)  # of its STREAMINFO, the total samples
    with pytest.raises(DecodeError, match="how long"):
        read(written(tmp_path, "pipe.flac", bytes(data)))


def test_big_endian_wav_file_is_read(tmp_path):
    file = io.BytesIO()
    soundfile.write(file, tones(), RATE, format="WAV", subtype="PCM_16", endian="BIG")
    data = file.getvalue()
    expected, _ = soundfile.read(io.BytesIO(data), dtype="float32", frames=RATE)
    np.testing.assert_array_equal(read(written(tmp_path, "a.wav", data), 1, 2), expected)
    with pytest.raises(DecodeError, match="truncated"):
        read(written(tmp_path, "cut.wav", data[:-10]))


ID3 = b"ID3\3\0\0\0\0\0\x14" + b"TPE1\0\0\0\5\0\0\x77abcd" + bytes(5)


def test_tags_around_an_mp3_change_nothing(tmp_path):
    mp3 = encoded("MP3", "MPEG_LAYER_III", seconds=1)
    plain = read(written(tmp_path, "a.mp3", mp3), 1, 2)
    preview = b"ID3\3\0\0" + bytes([0, 0, 2000 >> 7, 2000 & 127]) + mp3[:2000]
    for before in (ID3, preview):
        tagged = written(tmp_path, "b.mp3", before + mp3 + b"TAG" + bytes(125))
        np.testing.assert_array_equal(read(tagged, 1, 2), plain)


def test_constant_rate_mp3_without_header_is_read_whole(tmp_path):
    options = {"bitrate_mode": "CONSTANT", "compression_level": 0.5}
    data = encoded("MP3", "MPEG_LAYER_III", 44100, 1, 4.0, **options)
    path = written(tmp_path, "a.mp3", data[data.index(data[:2], 60) :])
    sound = x_of(pd.DataFrame({"id": [0], "path": path}), dfgen.Audio("path", 44100, 4))
    assert np.abs(sound[0][-6000:-5000]).max() > 0.3


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_facts_of_sounds_are_in_the_manifest(tmp_path):
    ramp(tmp_path / "a.wav", 100, channels=2, rate=16000)
    written(tmp_path, "b.flac", encoded("FLAC", "PCM_16", seconds=1))
    written(tmp_path, "c.mp3", ID3 + encoded("MP3", "MPEG_LAYER_III", seconds=1))
    written(tmp_path, "d.wav", b"no sound")
    frame = dfgen.build_manifest(tmp_path)
    facts = frame[["format", "channels", "frames", "sample_rate"]][:3].to_numpy().tolist()
    assert facts == [["wav", 2, 100, 16000], ["flac", 2, 8000, 8000], ["mp3", 2, 8000, 8000]]
    assert frame["problem"].isna().tolist() == [True, True, True, False]


@pytest.mark.filterwarnings("ignore:[0-9]+ problem")
def test_without_soundfile_rows_keep_what_else_is_known(tmp_path, monkeypatch):
    ramp(tmp_path / "a.wav", 100)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    [row] = dfgen.build_manifest(tmp_path).to_dict("records")
    assert row["format"] == "wav" and pd.isna(row["frames"]) and pd.isna(row["problem"])
    with pytest.raises(ArgumentError, match="pip install"):
        dfgen.Audio("path", RATE, 1)


@pytest.mark.parametrize(
    "arguments",
    [{"sample_rate": 0}, {"sample_rate": 44.1}, {"channels": 0}, {"seconds": 0}, {"seconds": "2"},
     {"seconds": float("nan")}, {"start": "end"}],
)  # fmt: skip
def test_bad_arguments(arguments):
    with pytest.raises(ArgumentError, match=next(iter(arguments))):
        dfgen.Audio(**{"column": "path", "sample_rate": RATE, "seconds": 1, **arguments})
