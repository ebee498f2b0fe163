"""Packs that cannot be read as they are: which file, which rows, what to do; before training."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import run
from messages import message_of
from packed import packed, write_images
from test_pack_reading import NO_Y, batches, by_id, refused

import dfgen
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DecodeError, ManifestError, MissingFileError
from dfgen.loading.loader import Loader
from dfgen.packs import pack_shards
from dfgen.packs.pack_index import INDEX, TABLE
from dfgen.packs.packed_pixels import BAD_WHEN_PACKED
from dfgen.samples.features.image import Image

ROWS, SIZE = 40, (6, 8)


@pytest.fixture
def pack(tmp_path):
    packed(write_images(tmp_path / "imgs", ROWS, SIZE), tmp_path / "pack", shard_size=1500)
    return tmp_path / "pack"


def changed(path, place, byte=None):
    """Change one byte of a file, by itself or to another."""
    data = bytearray(path.read_bytes())
    data[place] = data[place] ^ 0xFF if byte is None else byte
    path.write_bytes(data)


@pytest.mark.parametrize("given", ["folder", "frame"])
def test_a_shard_cut_short_is_named_with_its_rows(pack, given):
    manifest = pack if given == "folder" else dfgen.read_manifest(pack)
    shard = pack / "shard-00002.arrow"
    size = shard.stat().st_size
    os.truncate(shard, size - 100)
    assert refused(ManifestError, manifest, y="kind") == (
        f"{shard}, which has the rows 20 to 29, has {size - 100:,} bytes, and {size:,} were "
        "written: take another copy of it, or pack again"
    )


def test_a_shard_that_is_missing_is_named_with_its_rows(pack):
    (pack / "shard-00001.arrow").unlink()
    assert refused(MissingFileError, pack, y="kind") == (
        f"{pack}/shard-00001.arrow, which has the rows 10 to 19, is missing: take another copy of "
        "it, or pack again"
    )
    df = dfgen.read_manifest(pack)
    others = df[df["shard"] != df["shard"][10]]
    assert len(batches(others, y="kind")) == 5  # of which no row lies there


def test_shards_that_changed_places_are_refused_to_read_and_to_go_on_from(pack, tmp_path):
    first, second = (pack / f"shard-0000{number}.arrow" for number in (0, 1))
    assert first.stat().st_size == second.stat().st_size
    first.rename(tmp_path / "other")
    second.rename(first)
    (tmp_path / "other").rename(second)
    assert refused(ManifestError, pack, y="kind") == (
        f"{first}, which has the rows 0 to 9, holds the rows of shard-00001.arrow: take another "
        "copy of it, or pack again"
    )
    (pack / INDEX).unlink()
    with pytest.raises(ManifestError) as caught:
        packed(write_images(tmp_path / "imgs", ROWS, SIZE), pack, shard_size=1500)
    assert str(caught.value) == (
        f"{first} does not hold the 10 rows that it should: delete it, and pack again"
    )


@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped", "touched", "removed"])
@pytest.mark.parametrize("format", ["pixels", "original"])
def test_fault_96_a_shard_that_is_written_to_in_use_is_named_and_ends_no_process(
    tmp_path, monkeypatch, format, damage
):
    """One that was cut short would be a bus error; of one that was removed all is mapped."""
    monkeypatch.setattr(pack_shards, "_PAUSE", 0)  # else it is looked at in a hundredth of the time
    frame = write_images(tmp_path / "imgs", ROWS, SIZE)
    packed(frame, tmp_path / "pack", shard_size="1MB", format=format)
    bound = bind(str(tmp_path / "pack"), options=NO_Y)
    shard = tmp_path / "pack" / "shard-00000.arrow"
    loader = Loader(bound.reader, batch_size=20, workers=1)
    first, size = loader.batch(0, 0), shard.stat().st_size
    begin = f"{shard}, which has the rows 0 to 39, "
    if damage in ("cut", "emptied"):
        left = 100 if damage == "cut" else 0
        os.truncate(shard, left)
        said = f"has {left:,} bytes, and {size:,} were written: "
    elif damage == "flipped":
        changed(shard, size // 2)
        said = "was written over while it was in use, and has other bytes than were packed, by "
        said += "their checksum: "
    else:
        shard.unlink() if damage == "removed" else os.utime(shard, (1, 1))
        np.testing.assert_array_equal(loader.batch(0, 0).arrays["image"], first.arrays["image"])
        said = None
    if said:
        with pytest.raises(ManifestError) as error:
            loader.batch(0, 0)
        assert f"{begin}{said}take another copy of it, or pack again" in str(error.value)
    loader.close()


def test_a_flipped_bit_of_pixels_is_found_by_the_command_that_the_promises_name(pack):
    """No row is compared while training; `dfgen verify PACK` may run beside it."""
    assert run("verify", pack).returncode == 0
    shard = pack / "shard-00001.arrow"
    pixels = re.search(rb"(?:[\x01-\x27]\0\0){20}", shard.read_bytes()).start()
    times = shard.stat().st_atime_ns, shard.stat().st_mtime_ns
    loader = Loader(bind(pack, options=NO_Y).reader, batch_size=ROWS, workers=0)
    before = loader.batch(0, 0).arrays["image"].copy()
    with open(shard, "r+b") as file:
        file.seek(pixels)
        file.write(b"\x80")
    os.utime(shard, ns=times)
    assert (loader.batch(0, 0).arrays["image"] != before).sum() == 1
    assert run("verify", pack).returncode == 1
    [(path, told)] = dfgen.verify(pack)[["path", "detail"]].to_numpy().tolist()
    assert path == str(shard) and "by their checksum: rows 10 to 19 of the pack" in told
    page = Path(__file__).parents[2] / "docs/about/promises.md"
    assert "`dfgen verify PACK`" in page.read_text("utf-8")


@pytest.mark.parametrize("place", [-7, -20, -200])
def test_a_shard_whose_structure_is_damaged_is_named_with_its_rows(pack, place):
    changed(pack / "shard-00003.arrow", place)
    message = refused(ManifestError, pack, y="kind")
    assert message.startswith(
        f"{pack}/shard-00003.arrow, which has the rows 30 to 39, cannot be read: "
    )
    assert message.endswith(". Take another copy of it, or pack again")


@pytest.mark.parametrize("read", [lambda pack: bind(pack, y="kind"), dfgen.read_manifest])
def test_fault_99_a_pack_with_another_table_or_that_was_not_finished_says_so(pack, tmp_path, read):
    packed(write_images(tmp_path / "imgs", ROWS, SIZE), tmp_path / "other", seed=1)
    shutil.copy(tmp_path / "other" / TABLE, pack / TABLE)
    assert message_of(ManifestError, read, pack) == (
        f"{pack}/{TABLE} is not the one that was written with {pack}/{INDEX}: it is damaged, or of "
        "another pack. Take another copy of the folder, or pack again"
    )
    (pack / INDEX).unlink()
    assert message_of(MissingFileError, read, pack) == (
        f"{pack} is a pack that was not finished: {INDEX}, which is written last, is missing. Run "
        "the command that packed it again"
    )


READ_AGAIN = "was it packed again since? Read it again, df = dfgen.read_manifest('{}')"


@pytest.mark.parametrize("number", [10, -1, 3.5, np.nan])
def test_a_row_that_a_shard_has_not_is_refused(pack, number):
    df = dfgen.read_manifest(pack).astype({"row": float})
    df.loc[7, "row"] = number
    assert refused(ManifestError, df, y="kind") == (
        f"column 'row' has {number:g} in row 7 of the frame, but {pack}/shard-00000.arrow has the "
        f"rows 0 to 9: {READ_AGAIN.format(pack)}"
    )


def test_a_shard_that_the_pack_has_not_is_refused(pack):
    df = dfgen.read_manifest(pack).astype({"shard": str})
    df.loc[7, "shard"] = f"{pack}/shard-00009.arrow"
    assert refused(ManifestError, df, y="kind") == (
        f"column 'shard' names {pack}/shard-00009.arrow, which is no file of the pack in {pack}: "
        f"{READ_AGAIN.format(pack)}"
    )
    df.loc[7, "shard"] = f"{pack}/elsewhere/shard-00000.arrow"
    assert refused(MissingFileError, df, y="kind") == (
        f"there is no folder {pack}/elsewhere: expected that of a pack"
    )


def test_a_frame_from_before_the_pack_was_made_anew_is_refused(pack):
    df = dfgen.read_manifest(pack)
    shutil.rmtree(pack)
    packed(write_images(pack.parent / "imgs", ROWS, SIZE), pack, shard_size=1500, seed=1)
    nameless = df.assign(id=pd.array([None] * ROWS, "Int64"))
    for old, name in ((df, df.id[0]), (nameless, None)):
        assert refused(ManifestError, old, y="kind") == (
            f"row 0 of the frame (id {name}, path {df.path[0]}) is another one in "
            f"the pack, row 0 of {pack}/shard-00000.arrow: was it packed again since, or were the "
            f"columns shard and row changed? Read it again, df = dfgen.read_manifest('{pack}')"
        )
    df[["shard", "row"]] = (
        dfgen.read_manifest(pack).set_index("id").loc[df.id].reset_index()[["shard", "row"]]
    )
    assert len(by_id(batches(df, y="kind"))) == ROWS


def test_rows_with_new_ids_are_known_by_their_paths(pack):
    df = dfgen.read_manifest(pack)
    named = df.assign(id=[f"train-{id}" for id in df["id"]])
    found = by_id(batches(named, y="kind"))
    assert {id: sample[0, 0, 0] for id, sample in found.items()} == {
        f"train-{row}": row for row in range(ROWS)
    }


@pytest.fixture
def with_problem(tmp_path):
    frame = write_images(tmp_path / "imgs", ROWS, SIZE)
    (tmp_path / "imgs/5.png").write_bytes(b"no image")
    return frame, tmp_path / "pack"


@pytest.mark.parametrize(
    "how", [{"image_size": SIZE}, {"image_size": "own"}, {"format": "original"}, {"format": "jpeg"}]
)
@pytest.mark.parametrize("given", ["folder", "frame"])
def test_rows_without_a_file_in_the_pack_are_problems(with_problem, how, given):
    frame, pack = with_problem
    facts = {"width": SIZE[1], "height": SIZE[0], "orientation": 1}
    packed(frame.assign(**facts), pack, **how, shard_size=1500)
    if how == {"format": "original"}:  # packed as it is: decoding finds it
        df = dfgen.read_manifest(pack)
        assert message_of(DecodeError, batches, df, y="kind").startswith("row id=5, path=")
        return
    manifest = pack if given == "folder" else dfgen.read_manifest(pack)
    message = refused(ManifestError, manifest, y="kind", options=WANTED)
    assert message.startswith(
        "1 of 40 rows have a problem, by the facts of the manifest:\n  row id"
    )
    found = by_id(batches(manifest, y="kind", on_error="skip", options=WANTED))
    assert not found.pop(5).any()
    assert all(np.abs(sample[..., 0] - float(id)).max() <= 3 for id, sample in found.items())
    df = dfgen.read_manifest(pack).drop(columns=["problem"])
    with pytest.raises(DecodeError) as error:
        batches(df, y="kind", options=WANTED)
    nothing = "the file is empty (0 bytes)" if "format" in how else BAD_WHEN_PACKED
    path = f"{pack.parent}/imgs/5.png"
    shown = f"{path!r} (0 bytes)" if "format" in how else repr(path)
    assert str(error.value) == f"row id=5, path={shown}: {nothing}"


WANTED = dfgen.binding.default_features.Options(image_size=SIZE)
COLOURS = "the images were packed with color_mode='rgb': write color_mode='rgb', or pack again"


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (Image(color_mode="grayscale"),
         f"Image(color_mode='grayscale') asks for color_mode='grayscale', but {COLOURS}"),
        (Image(dtype="uint16"),
         "Image(dtype='uint16') asks for dtype=\"uint16\", but packed pixels have 8 "
         'bits: leave it out, or pack with format="original"'),
        (Image(size=SIZE, resize="pad"),
         f"Image(size={SIZE}, resize='pad') asks for resize='pad', but the images were "
         "packed with resize='crop': write resize='crop', or pack again"),
    ],
)  # fmt: skip
def test_what_was_not_packed_cannot_be_asked_for(tmp_path, image, message):
    frame = write_images(tmp_path / "imgs", 4, (10, 10))
    packed(frame, tmp_path / "pack", image_size=SIZE, resize="crop")
    assert refused(ArgumentError, tmp_path / "pack", x=image, options=NO_Y) == message


def test_an_image_without_a_size_has_that_of_the_pack_and_how_it_was_resized(tmp_path):
    packed(write_images(tmp_path / "imgs", 4, (9, 9)), tmp_path / "p", image_size=(6, 8),
           resize="crop", antialias=False)  # fmt: skip
    for x in ("path", Image()):
        [image] = [
            bound.feature for bound in bind(tmp_path / "p", x=x, options=NO_Y).reader.features
        ]
        assert (image.size, image.resize, image.antialias) == ((6, 8), "crop", False)


def test_two_packs_and_loose_files_are_one_frame(tmp_path):
    frame = write_images(tmp_path / "imgs", ROWS, SIZE)
    parts = [frame[:15], frame[15:30], frame[30:]]
    for number, part in enumerate(parts[:2]):
        packed(part, tmp_path / f"pack{number}", image_size=SIZE)
    packs = [dfgen.read_manifest(tmp_path / f"pack{number}") for number in range(2)]
    mixed = pd.concat([*packs, parts[2].astype({"id": "int64"})], ignore_index=True)
    for workers, processes in ((0, False), (2, True)):
        found = by_id(batches(mixed, workers=workers, use_multiprocessing=processes, options=GIVEN))
        assert sorted(found) == [*range(ROWS)]
        assert all((sample[..., 0] == id).all() for id, sample in found.items())
    for number in range(2):
        shutil.rmtree(tmp_path / f"pack{number}")
        how = {"image_size": SIZE} if number else {"image_size": SIZE, "color_mode": "grayscale"}
        packed(parts[number], tmp_path / f"pack{number}", **how)
    both = pd.concat([dfgen.read_manifest(tmp_path / f"pack{n}") for n in range(2)])
    assert refused(ManifestError, both, options=NO_Y) == (
        f"rows lie in two packs of which one has color_mode='grayscale', {tmp_path}/pack0, and the "
        f"other color_mode='rgb', {tmp_path}/pack1: pack them alike, or train on one of them"
    )


GIVEN = dfgen.binding.default_features.Options(image_size=SIZE, label_mode=None)


def test_columns_of_these_names_that_tell_something_else_stay_what_they_are(tmp_path):
    frame = write_images(tmp_path / "imgs", 8, SIZE).assign(shard=1, row=range(8))
    found = batches(frame, x={"image": "path", "n": "row"}, y="kind", options=WANTED)
    assert sorted(by_id(found, "n").items()) == [(row, row) for row in range(8)]
