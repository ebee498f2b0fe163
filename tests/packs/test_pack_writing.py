"""Packs as they are written: their rows, pixels, order and shards; and what is refused."""

import io
import json
import os
import re
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import command
import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from messages import message_of
from packed import packed, photograph, table_of, write_images
from PIL import Image as Pillow
from public.first_batch import x_of

import dfgen
from dfgen.loading.order.shuffle import permutation
from dfgen.loading.state import ids_digest
from dfgen.locks import FileLock
from dfgen.packs.pack_index import open_arrow, read_index
from dfgen.packs.writing import pack as pack_module
from dfgen.packs.writing.pack_plan import make_plan, mixing
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.decoders import decode_image
from dfgen.samples.pixels.geometry import CHANNELS

ROWS = 40


@pytest.fixture
def frame(tmp_path):
    return write_images(tmp_path / "imgs", ROWS)


def red(table, size=(6, 8, 3)):
    pixels = table["path_pixels"].combine_chunks().storage.flatten().to_numpy()
    return pixels.reshape(-1, *size)[:, 0, 0, 0]


def test_rows_stand_in_the_permuted_order_with_all_columns_and_their_pixels(frame, tmp_path):
    frame["age"] = np.arange(ROWS) / 4
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    problems = dfgen.pack(tmp_path / "m.parquet", tmp_path / "out", shard_size=1500)
    assert len(problems) == 0
    index, table = read_index(tmp_path / "out"), table_of(tmp_path / "out")
    order = permutation(range(ROWS), ROWS, seed=0, epoch=0, tag="pack")
    assert table["id"].to_pylist() == order.tolist() == red(table).tolist()
    assert table["age"].to_pylist() == (order / 4).tolist()
    assert table["path"].to_pylist() == [f"{row}.png" for row in order]
    assert table.schema.field("path_pixels").type == pa.fixed_shape_tensor(pa.uint8(), (6, 8, 3))
    assert [shard.rows for shard in index.shards] == [10, 10, 10, 10]
    assert index.ids == ids_digest(order.tolist())
    assert index.order == {"tag": "pack", "seed": 0, "epoch": 0}
    assert index.dfgen["root"] == "../imgs"
    assert index.packed["path"] == {
        "format": "pixels", "image_size": None, "color_mode": "rgb", "resize": "stretch",
        "interpolation": "bilinear", "antialias": True, "max_side": None, "quality": None,
    }  # fmt: skip
    columns = open_arrow(index.path(index.table)).read_all()
    assert columns.equals(table.select(columns.column_names).combine_chunks())
    assert columns["kind"].chunk(0).dictionary.to_pylist() == [f"kind {k}" for k in range(4)]
    for shard in index.shards:  # one batch, whose pixels are one buffer
        with open_arrow(index.path(shard)) as file:
            assert file.num_record_batches == 1
            batch = file.get_batch(0)
        values = batch.column("path_pixels").storage.flatten()
        assert values.buffers()[1].size >= shard.rows * 6 * 8 * 3
    packed(frame, tmp_path / "other", seed=1)
    order = permutation(range(ROWS), ROWS, seed=1, epoch=0, tag="pack")
    assert table_of(tmp_path / "other")["id"].to_pylist() == order.tolist()


def test_pixels_are_those_that_a_feature_makes_of_the_file(tmp_path):
    paths = []
    for row, orientation in enumerate([None, 6, 3, 1]):
        paths.append(tmp_path / f"{row}.jpg")
        paths[-1].write_bytes(photograph((60 + row, 90), orientation))
    frame = pd.DataFrame({"id": range(4), "path": map(str, paths)})
    packed(frame, tmp_path / "out", image_size=(24, 32), resize="crop")
    table, image = table_of(tmp_path / "out"), Image(size=(24, 32), resize="crop")
    pixels = table["path_pixels"].combine_chunks().to_numpy_ndarray()
    expected = x_of(frame, image)
    for row_id, found in zip(table["id"].to_pylist(), pixels, strict=True):
        np.testing.assert_array_equal(found, expected[row_id])


def test_a_shard_of_several_pieces_is_whole(tmp_path):
    frame = write_images(tmp_path / "imgs", 5)
    packed(frame, tmp_path / "out", image_size=(2000, 1500), interpolation="nearest")
    table = table_of(tmp_path / "out")
    assert table.nbytes > 2**25
    pixels = table["path_pixels"].combine_chunks().to_numpy_ndarray()
    for row, image in zip(table["id"].to_pylist(), pixels, strict=True):
        assert (image[..., 0] == row).all() and not image[..., 1:].any()
    assert len(dfgen.verify(tmp_path / "out")) == 0


def test_images_keep_their_sizes_where_that_is_asked_for(tmp_path):
    sizes = [(5, 7), (9, 4), (6, 6)]
    paths = [tmp_path / f"{row}.png" for row in range(3)]
    for path, size in zip(paths, sizes, strict=True):
        cv2.imwrite(str(path), np.full((*size, 3), size[0], np.uint8))
    paths.append(tmp_path / "3.jpg")
    paths[-1].write_bytes(photograph((20, 30), orientation=6))
    frame = pd.DataFrame({"id": range(4), "path": map(str, paths)})
    assert message_of(dfgen.DfgenError, packed, frame, tmp_path / "out") == (
        "images have different sizes: 5 x 7 pixels (height x width) in the row id=0, 9 x 4 in "
        "id=1. Give the size to resize them to, image_size=(224, 224) (--image-size 224,224), or "
        'image_size="own" (--image-size own) to keep the size of each'
    )
    assert not (tmp_path / "out").exists()
    for mode, channels in CHANNELS.items():
        packed(frame, tmp_path / mode, image_size="own", color_mode=mode)
        table = table_of(tmp_path / mode)
        for row in table.to_pylist():
            pixels = np.frombuffer(row["path_pixels"], np.uint8).reshape(row["path_shape"])
            np.testing.assert_array_equal(
                pixels, decode_image(paths[row["id"]].read_bytes(), mode)[0]
            )
        turned = table["path_shape"].to_pylist()[table["id"].to_pylist().index(3)]
        assert turned == [30, 20, channels]


def test_original_files_are_packed_byte_for_byte(frame, tmp_path):
    packed(frame, tmp_path / "out", format="original", shard_size=1000)
    for row in table_of(tmp_path / "out").to_pylist():
        with open(frame["path"][row["id"]], "rb") as file:
            assert row["path_bytes"] == file.read()
    assert len(read_index(tmp_path / "out").shards) > 2


def test_jpegs_become_smaller_and_upright_and_small_ones_stay_as_they_are(tmp_path):
    files = {
        "large": photograph((90, 150)), "turned": photograph((60, 40), 6),
        "small": photograph((40, 75)), "png": photograph((40, 60), format="PNG"),
        "large turned": photograph((90, 150), 8),
    }  # fmt: skip
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    frame = pd.DataFrame({"id": [*files], "path": [str(tmp_path / name) for name in files]})
    packed(frame, tmp_path / "out", format="jpeg", max_side=75)
    rows = {row["id"]: row["path_bytes"] for row in table_of(tmp_path / "out").to_pylist()}
    assert rows["small"] == files["small"]
    sizes = {name: decode_image(data)[1] for name, data in rows.items()}
    assert sizes == {
        "large": (45, 75), "turned": (40, 60), "small": (40, 75), "png": (40, 60),
        "large turned": (75, 45),
    }  # fmt: skip
    for name, data in rows.items():
        upright = decode_image(files[name])[0]
        whole = cv2.resize(upright, sizes[name][::-1], interpolation=cv2.INTER_AREA)
        assert np.abs(decode_image(data)[0].astype(int) - whole).mean() < 2, name
        assert data[:3] == b"\xff\xd8\xff"
        assert b"Exif" not in data or name == "small"
    packed(frame, tmp_path / "gray", format="jpeg", max_side=75, color_mode="grayscale")
    for row in table_of(tmp_path / "gray").to_pylist():
        assert Pillow.open(io.BytesIO(row["path_bytes"])).mode == "L"


def test_rows_without_a_good_file_stay_with_null_and_why(frame, tmp_path):
    os.unlink(frame["path"][3])
    with open(frame["path"][5], "wb") as file:
        file.write(b"no image")
    frame["problem"] = [None] * 8 + ["known before"] + [None] * (ROWS - 9)
    for arguments in ({"image_size": (6, 8)}, {"image_size": "own"}, {"format": "jpeg"}):
        out = tmp_path / str(arguments)
        done = packed(frame, out, shard_size=1500, **arguments)
        table = table_of(out)
        name = "path_bytes" if arguments == {"format": "jpeg"} else "path_pixels"
        bad = {row["id"]: row["problem"] for row in table.to_pylist() if row["problem"]}
        assert bad.keys() == {3, 5, 8}
        assert bad[8] == "known before"
        assert bad[3] == "the file does not exist"
        assert bad[5].startswith("not an image, array or sound that dfgen opens")
        missing = table.filter(table[name].is_null())
        assert sorted(missing["id"].to_pylist()) == [3, 5, 8]
        assert sorted(done.problems["id"]) == [3, 5, 8]
        assert len(table) == ROWS
    with pytest.warns(UserWarning, match=r"^3 of 40 rows have no file in the pack, but null: "):
        dfgen.pack(frame, tmp_path / "again", image_size=(6, 8))


def test_the_same_pack_comes_of_any_number_of_workers_and_any_executor(frame, tmp_path):
    def files(name, **options):
        dfgen.pack(frame, tmp_path / name, shard_size=1500, **options)
        found = sorted((tmp_path / name).iterdir())
        return {file.name: file.read_bytes() for file in found if file.suffix == ".arrow"}

    expected = files("one", workers=1)
    assert len(expected) == 5
    assert files("three", workers=3) == expected
    with ThreadPoolExecutor(2) as executor:
        assert files("threads", executor=executor) == expected
    with ProcessPoolExecutor(2, get_context("forkserver")) as executor:
        assert files("processes", executor=executor) == expected


def test_a_batch_of_ordered_rows_has_few_classes():
    ordered = pa.table({"id": range(6400), "kind": [f"{row // 64}" for row in range(6400)]})
    starts = np.arange(0, 6401, 64)
    found = mixing(ordered, starts, np.full(100, 10**9))
    assert (found.classes, round(found.packed, 2), round(found.shuffled, 1)) == (100, 2.0, 27.5)
    found = mixing(ordered[:192], starts[:4], np.full(3, 10**9))
    assert found.packed == found.shuffled  # a third shard is no window of its own


def test_a_pack_opens_in_pandas_polars_and_duckdb(frame, tmp_path):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    packed(frame, tmp_path / "out", shard_size=1500)
    path = str(tmp_path / "out" / "manifest.arrow")
    shard = str(tmp_path / "out" / "shard-00000.arrow")
    expected = pd.read_feather(path)
    assert sorted(expected["id"]) == list(range(ROWS))
    opened = pd.read_feather(shard)
    assert np.array_equal(opened["path_pixels"][0][::3][:48], [opened["id"][0]] * 48)
    assert polars.read_ipc(path)["kind"].to_list() == expected["kind"].tolist()
    assert polars.read_ipc(shard, columns=["id"])["id"].to_list() == opened["id"].tolist()
    duckdb.register("columns", open_arrow(path).read_all())
    duckdb.register("shard", open_arrow(shard).read_all())
    counts = duckdb.sql("select kind, count(*) from columns group by kind order by kind")
    assert counts.fetchall() == [(f"kind {k}", 10) for k in range(4)]
    rows = duckdb.sql("select id, path_pixels[1] from shard").fetchall()
    assert rows == [(row, row) for row in opened["id"]]


# -- going on, and refusals ----------------------------------------------------------------------


def test_a_whole_pack_is_left_as_it_is(frame, tmp_path):
    packed(frame, tmp_path / "out")
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()}
    packed(frame, tmp_path / "out")
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "out").iterdir()} == times


@pytest.mark.parametrize("whole", [True, False])
def test_another_pack_in_the_folder_is_refused(frame, tmp_path, whole):
    out = tmp_path / "out"
    packed(frame, out, shard_size=1500)
    if not whole:
        for name in ("_manifest.json", "manifest.arrow", "shard-00002.arrow"):
            (out / name).unlink()
    advice = "Pack into another folder, or delete this one"
    with pytest.raises(dfgen.DfgenError) as caught:
        packed(frame, out, shard_size=1500, seed=1)
    assert str(caught.value) == (
        f"{out} holds another pack, whole or in part: seed was 0, and is 1. {advice}"
    )
    kinds = frame["kind"].cat
    for other in (kinds.rename_categories({"kind 0": "other"}), kinds.add_categories(["kind 9"])):
        with pytest.raises(dfgen.DfgenError) as caught:
            packed(frame.assign(kind=other), out, shard_size=1500)
        assert str(caught.value) == (
            f"{out} holds another pack, whole or in part: its manifest has other rows, labels or "
            f"facts of files. {advice}"
        )
    packed(frame, out, shard_size=1500)
    assert sorted(table_of(out)["id"].to_pylist()) == list(range(ROWS))


def test_other_files_in_the_folder_are_refused_also_while_headers_are_read(
    frame, tmp_path, monkeypatch
):
    def planned(*arguments):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "notes.txt").touch()
        return make_plan(*arguments)

    monkeypatch.setattr(pack_module, "make_plan", planned)
    for _ in range(2):  # the second time it is there from the start
        assert message_of(dfgen.DfgenError, packed, frame, tmp_path / "out") == (
            f"{tmp_path}/out is not empty: it holds 'notes.txt'. A pack has a folder of its own: "
            "name one that is not there yet"
        )
        assert os.listdir(tmp_path / "out") == ["notes.txt"]
        monkeypatch.undo()
    with pytest.raises(dfgen.DfgenError) as caught:
        packed(frame, tmp_path / "out" / "notes.txt" / "deeper")
    assert str(caught.value) == (
        f"{tmp_path}/out/notes.txt/deeper cannot be packed into: Not a directory. Name a folder "
        "that is empty or not there yet"
    )


def test_two_packs_into_one_folder_are_refused(frame, tmp_path):
    (tmp_path / "out").mkdir()
    lock = FileLock(str(tmp_path / "out" / ".pack.dfgen-lock"), "it", "wait")
    with lock, pytest.raises(OSError) as caught:
        packed(frame, tmp_path / "out")
    assert re.fullmatch(
        rf"{tmp_path}/out is being written by process {os.getpid()} on .*: wait until that has "
        "ended, or choose another place",
        str(caught.value),
    )
    packed(frame, tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"format": "jpg"},
         "format must be one of ('pixels', 'original', 'jpeg'), got 'jpg'. Did you mean "
         '"jpeg"?'),
        ({"format": "jpeg", "image_size": (4, 4)},
         'image_size=(4, 4) is for format="pixels", and format="jpeg": leave one of them out'),
        ({"quality": 80},
         'quality=80 is for format="jpeg", and format="pixels": leave one of them out'),
        ({"format": "jpeg", "color_mode": "rgba"},
         'color_mode="rgba" needs an alpha channel, which JPEG lacks: pack with format="pixels"'),
        ({"shard_size": "big"},
         'shard_size must be bytes or a text such as "2GB" or "512MiB", got \'big\''),
        ({"image_size": "own", "resize": "crop"},
         'image_size="own" leaves images as large as they are, so there is no use for '
         "resize='crop': leave it out, or give a size"),
        ({"executor": 4},
         "executor must be a concurrent.futures.Executor, got 4: leave it out, or give a "
         "ProcessPoolExecutor()"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_are_refused(frame, tmp_path, arguments, said):
    assert message_of(dfgen.DfgenError, dfgen.pack, frame, tmp_path / "out", **arguments) == said
    assert not (tmp_path / "out").exists()


def test_manifests_that_cannot_be_packed_are_refused(frame, tmp_path):
    boxes = frame.assign(boxes=[[[1.0, 2, 3, 4]]] * ROWS)
    boxes.attrs = {"dfgen": {"labels": {"boxes": {"kind": "list", "box_format": "xyxy"}}}}
    held = frame.drop(columns="path").assign(image=[b"GIF8"] * ROWS)
    packed(frame, tmp_path / "pack")
    for given, said in (
        (
            boxes,
            "column 'boxes' holds boxes, in pixels of the files, and format=\"pixels\" makes "
            "images of other sizes: build the manifest with the facts of files, as it lacks width, "
            'height, orientation, or pack with format="original"',
        ),
        (
            held,
            "the manifest holds the files themselves, in the column 'image': they are read in "
            "large pieces already. To pack them, write them to files first",
        ),
        (
            tmp_path / "pack",
            f"{tmp_path}/pack is a pack already: pack the manifest that it was made from, because "
            "its files have all their pixels",
        ),
        (frame[:0], "the manifest has no rows: there is nothing to pack"),
    ):
        assert message_of(dfgen.DfgenError, packed, given, tmp_path / "out") == said
    gone = frame.assign(path=[f"{tmp_path}/gone/{row}.png" for row in range(ROWS)])
    with pytest.raises(dfgen.DfgenError, match=r"^6 of 6 sampled files are missing"):
        packed(gone, tmp_path / "out", image_size=(4, 4))
    assert not (tmp_path / "out").exists()


# -- checking, and the command -------------------------------------------------------------------


def test_verify_names_the_damaged_file_and_its_rows(frame, tmp_path):
    out = tmp_path / "out"
    packed(frame, out, shard_size=1500)
    assert len(dfgen.verify(out)) == 0
    flipped = bytearray((out / "shard-00001.arrow").read_bytes())
    flipped[700] ^= 4
    (out / "shard-00001.arrow").write_bytes(flipped)
    os.truncate(out / "shard-00002.arrow", 1000)
    (out / "shard-00003.arrow").unlink()
    found = dfgen.verify(out)
    assert found["change"].tolist() == ["broken", "broken", "missing"]
    assert found["path"].tolist() == [f"{out}/shard-0000{k}.arrow" for k in (1, 2, 3)]
    size = read_index(out).shards[2].bytes
    assert found["detail"].tolist() == [
        "its bytes are not those that were written, by their checksum: rows 10 to 19 of the pack "
        "are in it",
        f"it has 1,000 bytes, and was written with {size:,}: rows 20 to 29 of the pack are in it",
        "the file does not exist: rows 30 to 39 of the pack are in it",
    ]
    done = command.run("verify", out)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "2 broken, 1 missing"
    assert "leave out" in message_of(dfgen.DfgenError, dfgen.verify, out, write=True)


def test_verify_lists_rows_that_have_no_file_and_damage_of_the_columns(frame, tmp_path):
    os.unlink(frame["path"][3])
    packed(frame, tmp_path / "out", image_size=(6, 8))
    found = dfgen.verify(tmp_path / "out")
    assert found.values.tolist() == [["broken", 3, "3.png", "the file does not exist"]]
    os.truncate(tmp_path / "out" / "manifest.arrow", 10)
    found = dfgen.verify(tmp_path / "out")
    assert found["detail"].tolist()[0].endswith(": the columns of all rows are in it")


def test_the_command_packs_and_lists_rows_with_problems(frame, tmp_path):
    os.unlink(frame["path"][3])
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    arguments = ("pack", tmp_path / "m.parquet", "--out", tmp_path / "out", "--image-size", "4,4")
    done = command.run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3.png" in done.stdout and "the file does not exist" in done.stdout
    assert f"Wrote {tmp_path}/out: 40 rows" in done.stdout
    done = command.run(*arguments, "--json")
    assert json.loads(done.stdout)["problems"] == [
        {"id": 3, "path": "3.png", "problem": "the file does not exist"}
    ]
    done = command.run(*arguments[:-1], "4")
    assert done.stderr == "dfgen: --image-size 4: expected H,W, as in --image-size 224,224\n"
