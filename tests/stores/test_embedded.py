"""Files that a table holds itself: bytes, and structs of bytes and path."""

import io
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from messages import message_of
from PIL import Image as Pillow

from dfgen.binding.bind import Options, bind
from dfgen.errors import ArgumentError, DecodeError, ManifestError
from dfgen.samples.features.array import Array
from dfgen.samples.features.audio import Audio
from dfgen.samples.features.bytes import Bytes
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.features.number import Number
from dfgen.table.arrow_types import OR_IGNORE


def pixels(row, height=4, width=6):
    """Return an image whose pixels are the number of its row."""
    return np.full((height, width, 3), row, np.uint8)


def png(array):
    file = io.BytesIO()
    Pillow.fromarray(array).save(file, "PNG")
    return file.getvalue()


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def structs(rows):
    return [{"bytes": png(pixels(row)), "path": f"{row}.png"} for row in range(rows)]


def frame(images, **columns):
    return pd.DataFrame({"id": range(10, 10 + len(images)), "image": images, **columns})


def read(bound, row):
    """Return the arrays of one row, as a worker makes them."""
    reader = bound.reader
    out = {name: np.empty(spec.shape, spec.dtype) for name, spec in reader.specs.items()}
    reader.read(row, out, np.random.default_rng(0))
    return out


IMAGE = Image("image", size=(4, 6))


def in_pieces(table):
    return pa.concat_tables([table[:2], table[2:]])


def of_parquet(table, folder):
    pq.write_table(table, folder / "rows.parquet", row_group_size=2)
    return pq.read_table(folder / "rows.parquet")


MADE = {
    "pandas": lambda df, folder: df,
    "pandas in Arrow": lambda df, folder: pa.Table.from_pandas(df).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "Arrow": lambda df, folder: pa.Table.from_pandas(df),
    "Arrow in pieces": lambda df, folder: in_pieces(pa.Table.from_pandas(df)),
    "Parquet": lambda df, folder: of_parquet(pa.Table.from_pandas(df), folder),
    "Polars": lambda df, folder: pytest.importorskip("polars").DataFrame(
        {name: df[name].tolist() for name in df}
    ),
}


@pytest.fixture(params=MADE.values(), ids=MADE.keys())
def made(request, tmp_path):
    return lambda df: request.param(df, tmp_path)


@pytest.mark.parametrize("content", ["structs", "bytes"])
def test_images_are_read_from_a_column(made, content):
    images = structs(5) if content == "structs" else [png(pixels(row)) for row in range(5)]
    bound = bind(made(frame(images)), x=IMAGE)
    for row in range(5):
        np.testing.assert_array_equal(read(bound, row)["image"], pixels(row))
    twin = pickle.loads(pickle.dumps(bound.reader))
    assert twin.where(4) == bound.reader.where(4)


def test_a_struct_without_bytes_is_a_path_below_the_root(made, tmp_path):
    for row, name in ((1, "one"), (3, "three")):
        (tmp_path / f"{name}.png").write_bytes(png(pixels(row)))
    rows = structs(4)
    rows[1::2] = ({"bytes": None, "path": f"{name}.png"} for name in ("one", "three"))
    bound = bind(made(frame(rows)), x=IMAGE, root=tmp_path)
    for row in range(4):
        np.testing.assert_array_equal(read(bound, row)["image"], pixels(row))
    assert bound.reader.where(1) == f"row id=11, image='{tmp_path}/one.png'"
    absolute = [{"bytes": None, "path": str(tmp_path / "one.png")}]
    np.testing.assert_array_equal(read(bind(made(frame(absolute)), x=IMAGE), 0)["image"], pixels(1))


def test_masks_and_arrays_are_read_from_columns(made):
    masks = [png(np.full((4, 6), row + 1, np.uint8)) for row in range(3)]
    arrays = [npy(np.array([row, -row], np.int16)) for row in range(3)]
    bound = bind(
        made(frame(structs(3), mask=masks, array=arrays)),
        x=[IMAGE, Array("array", (2,))],
        y=Mask("mask"),
    )
    found = read(bound, 2)
    assert set(found) == {"image", "array", "mask"}
    assert (found["image"] == 2).all()
    assert (found["mask"] == 3).all()
    assert found["array"].tolist() == [2, -2]


@pytest.mark.parametrize("content", ["structs", "bytes"])
def test_a_mask_that_is_missing_may_be_ignored(made, content):
    masks = [None, png(np.ones((4, 6), np.uint8)), None]
    if content == "structs":
        masks = [{"bytes": data, "path": data and "a.png"} for data in masks]
    bound = bind(made(frame(structs(3), mask=masks)), x=IMAGE, y=Mask("mask", missing="ignore"))
    assert bound["mask"].present.tolist() == [False, True, False]
    assert (read(bound, 1)["mask"] == 1).all()


def test_the_bytes_themselves_are_those_of_structs_too(made):
    bound = bind(made(frame(structs(3))), x=Bytes("image"))
    assert read(bound, 1)["bytes"].item() == structs(3)[1]["bytes"]


def test_a_bare_name_is_an_image(made):
    bound = bind(made(frame(structs(2))), x="image", options=Options(image_size=(4, 6)))
    assert (read(bound, 1)["image"] == 1).all()


def test_sizes_are_those_that_the_bytes_tell(made):
    images = [png(pixels(row, 3 + row, 5)) for row in range(3)]
    bound = bind(made(frame(images)), x=Image("image", size=None))
    assert bound.reader.sizes["image"].tolist() == [[3, 5], [4, 5], [5, 5]]


def test_one_row_by_hand_is_read_from_bytes():
    for content in (png(pixels(7)), structs(8)[7]):
        for row in ({"image": content}, pd.Series({"image": content})):
            np.testing.assert_array_equal(IMAGE(row), pixels(7))
            assert Image("image", size=None)(row).shape == (4, 6, 3)
    with pytest.raises(DecodeError) as error:
        IMAGE({"image": {"bytes": b"no image", "path": "a.png"}})
    assert str(error.value).startswith(
        "image='a.png' (8 bytes): not an image, array or sound that dfgen"
    )


def test_the_paths_of_structs_are_ids_where_each_row_has_another():
    bound = bind(frame(structs(3)).drop(columns="id"), x=IMAGE, root="/imgs")
    assert [bound.reader.id(row) for row in range(3)] == ["0.png", "1.png", "2.png"]


@pytest.mark.parametrize(
    "images",
    [
        [{**one, "path": "a.png"} for one in structs(2)],
        [{**one, "path": None} for one in structs(2)],
        [one["bytes"] for one in structs(2)],
    ],
    ids=["repeated", "missing", "bytes alone"],
)
def test_without_ids_of_any_kind_they_are_asked_for(images):
    assert message_of(ManifestError, bind, frame(images).drop(columns="id"), x=IMAGE) == (
        "the manifest has no column 'id' (columns: image). Name the column that tells the rows "
        'apart: id="object_id", or number them, df["id"] = range(len(df))'
    )


def test_python_objects_become_arrow_once(monkeypatch):
    made = []
    import dfgen.binding.frame_columns as module

    def counting(values, *more):
        made.append(values.name)
        return of(values, *more)

    of = module.arrow_column
    monkeypatch.setattr(module, "arrow_column", counting)
    bind(frame(structs(3)), x="image")
    assert made.count("image") == 1


def test_bytes_in_pieces_are_not_copied():
    table = in_pieces(pa.Table.from_pandas(frame(structs(4))))
    found = bind(table, x=IMAGE)["image"].values
    assert found.num_chunks == 2
    for one, other in zip(table["image"].chunks, found.chunks, strict=True):
        assert one.field(0).buffers()[2].address == other.field(0).buffers()[2].address


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"GIF, or so they say", "row id=11, image=(19 bytes): not an image, array or sound"),
        ({"bytes": b"\xff\xd8\xff", "path": "b.jpg"},
         "row id=11, image='b.jpg' (3 bytes): broken jpeg"),
        (png(pixels(1))[:50], "row id=11, image=(50 bytes): "),
        ({"bytes": b"", "path": "b.jpg"},
         "row id=11, image='b.jpg' (0 bytes): the file is empty (0 bytes)"),
        ({"bytes": None, "path": "gone.jpg"},
         "row id=11, image='gone.jpg': the file does not exist"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_image_name_their_row(content, message):
    first = structs(1)[0] if isinstance(content, dict) else structs(1)[0]["bytes"]
    bound = bind(frame([first, content]), x=IMAGE)
    assert message_of((DecodeError, FileNotFoundError), read, bound, 1).startswith(message)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([*structs(1), {"bytes": None, "path": None}, None],
         "column 'image' has neither bytes nor a path in 2 rows, the first is row 1 (id 11): drop "
         "them, " + OR_IGNORE),
        ([b"", None],
         "column 'image' has no bytes in 1 rows, the first is row 1: drop them, "
         "df = df[df['image'].notna()], " + OR_IGNORE),
        ([b"", "a.png"],
         "column 'image' mixes bytes, str: give it one type, as with "
         "df['image'] = df['image'].astype(str)"),
        (["a.png", b""],
         "column 'image' mixes bytes, str: give it one type, as with "
         "df['image'] = df['image'].astype(str)"),
    ],
)  # fmt: skip
def test_columns_of_files_that_cannot_be(images, message):
    assert message_of(ManifestError, bind, frame(images), x=IMAGE) == message


def test_headers_that_cannot_be_read_are_problems_of_their_rows():
    images = [png(pixels(1)), b"no image"]
    with pytest.raises(ManifestError, match=r"1 of 2 rows have a problem, by the headers of their"):
        bind(frame(images), x=Image("image", size=None))
    bound = bind(frame(images), x=Image("image", size=None), on_error="skip")
    assert list(bound.problems) == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": "sound"},
         "x=\"sound\" holds bytes that begin with b'RIFF____', which is no image. For sound write "
         'dfgen.Audio("sound", ...), for numbers dfgen.Array("sound", shape=...), for the bytes as '
         'they are dfgen.Bytes("sound")'),
        ({"x": "array"},
         "x=\"array\" holds bytes that begin with b'\\x93NUMPY\\x01\\x00', which is no image. For "
         'sound write dfgen.Audio("array", ...), for numbers dfgen.Array("array", shape=...), for '
         'the bytes as they are dfgen.Bytes("array")'),
        ({"x": "id", "y": "sound"},
         "y=\"sound\" holds bytes that begin with b'RIFF____', which is no image. For sound write "
         'dfgen.Audio("sound", ...), for numbers dfgen.Array("sound", shape=...), for the bytes as '
         'they are dfgen.Bytes("sound")'),
        ({"x": "id", "y": "image"},
         'y="image" holds image files. For masks write y=dfgen.Mask("image"), for images '
         'y=dfgen.Image("image")'),
        ({"x": Array("array", (2,), index="id"), "y": None},
         "index='id' is for rows of array files, but column 'array' holds the bytes of a file in "
         "each row: leave it out"),
    ],
)  # fmt: skip
def test_uses_of_bytes_that_cannot_be(arguments, message):
    df = frame(structs(1), sound=[b"RIFF____WAVE"], array=[npy(np.arange(2))])
    with pytest.raises(ArgumentError) as error:
        bind(df, **arguments, options=Options(label_mode="int" if arguments.get("y") else None))
    assert str(error.value) == message


def test_a_row_of_numbers_alone_needs_no_store_of_bytes():
    assert repr(bind(frame(structs(1)), x=Number("id"), y=Number("id")).reader.store) == "Files()"


def test_sounds_are_read_from_a_column(made):
    sounds = pytest.importorskip("soundfile")
    rows = []
    for row in range(3):
        file = io.BytesIO()
        sounds.write(file, np.full(160, row / 4, np.float32), 16000, "FLOAT", format="WAV")
        rows.append({"bytes": file.getvalue(), "path": f"{row}.wav"})
    audio = Audio("image", sample_rate=16000, seconds=0.01)
    bound = bind(made(frame(rows)), x=audio)
    assert (read(bound, 2)["audio"] == 0.5).all()


def test_facts_of_the_first_column_of_files_tell_bits(made):
    manifest = made(frame(structs(2), bits=[8, 16], format=["png", "png"]))
    with pytest.warns(UserWarning, match="1 of 2 rows have images of more bits"):
        bound = bind(manifest, x=IMAGE, y=None, on_error="skip")
    assert list(bound.problems) == [1]
