"""Packs as they are read: the same samples as of loose files, whatever the frame and the format."""

import ctypes
import mmap
import os
import pickle
import shutil

import cv2
import numpy as np
import pandas as pd
import PIL.Image
import PIL.ImageOps
import pytest
from packed import packed, photograph, write_images

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.binding.row_draws import Ordering
from dfgen.loading.loader import Loader
from dfgen.loading.state import ids_digest
from dfgen.packs import named_packs, pack_shards
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask

ROWS, SIZE = 40, (6, 8)
NO_Y = Options(label_mode=None)


@pytest.fixture
def frame(tmp_path):
    return write_images(tmp_path / "imgs", ROWS, SIZE)


@pytest.fixture
def pack(frame, tmp_path):
    packed(frame, tmp_path / "pack", shard_size=1500)
    shutil.rmtree(tmp_path / "imgs")  # nothing is read from the files any more
    return tmp_path / "pack"


def batches(manifest, epochs=1, workers=0, use_multiprocessing=False, **options):
    """The batches of a manifest, by what a Sequence is made of."""
    bound = bind(manifest, **options)
    loader = Loader(
        bound.reader, batch_size=7, seed=3, drawing=bound.drawing, workers=workers,
        use_multiprocessing=use_multiprocessing, problems=bound.problems,
        on_error=options.get("on_error", "raise"),
    )  # fmt: skip
    made = [batch for epoch in range(epochs) for batch in loader.batches(epoch)]
    loader.close()
    return made


def by_id(made, name="image"):
    return {
        id: sample
        for batch in made
        for id, sample in zip(batch.ids, batch.arrays[name], strict=True)
    }


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for id, sample in found.items():
        np.testing.assert_array_equal(sample, expected[id], err_msg=str(id))


def refused(kind, manifest, **options):
    with pytest.raises(kind) as error:
        bind(manifest, **options)
    return str(error.value)


@pytest.mark.parametrize("given", ["folder", "frame", "sorted", "parquet", "text"])
def test_pixels_are_read_from_the_pack_by_its_folder_and_by_any_frame_of_it(pack, given):
    made = {
        "folder": lambda: pack,
        "frame": lambda: dfgen.read_manifest(pack),
        "sorted": lambda: dfgen.read_manifest(pack).sort_values("id").iloc[::2],
        "parquet": lambda: pack.parent / "m.parquet",
        "text": lambda: dfgen.read_manifest(pack).astype({"shard": str}),
    }
    dfgen.write_manifest(dfgen.read_manifest(pack), pack.parent / "m.parquet")
    found = batches(made[given](), y="kind")
    for batch in found:
        assert batch.arrays["image"].shape[1:] == (*SIZE, 3)
        assert batch.arrays["image"][:, 0, 0, 0].tolist() == [*batch.ids]
        assert batch.arrays["label"].tolist() == [id * 4 // ROWS for id in batch.ids]
    ids = [id for batch in found for id in batch.ids]
    assert sorted(ids) == [*range(0, ROWS)] if given != "sorted" else len(ids) == ROWS // 2


@pytest.mark.parametrize("use_multiprocessing", [False, True])
def test_workers_make_the_same_batches_with_rows_and_ids_in_order(pack, use_multiprocessing):
    alone = batches(pack, epochs=2)
    shared = batches(pack, epochs=2, workers=2, use_multiprocessing=use_multiprocessing)
    for one, other in zip(alone, shared, strict=True):
        assert one.ids == other.ids
        np.testing.assert_array_equal(one.arrays["image"], other.arrays["image"])


def test_a_frame_of_a_pack_has_absolute_paths_and_tells_where_each_row_lies(pack):
    df = dfgen.read_manifest(pack)
    assert df["shard"].dtype == "category"
    assert df["shard"].cat.categories.tolist() == [f"{pack}/shard-{n:05}.arrow" for n in range(4)]
    assert df["row"].tolist() == [*range(10)] * 4
    assert df["path"].tolist() == [f"{pack.parent}/imgs/{id}.png" for id in df["id"]]
    assert ids_digest(df["id"].tolist()) == bind(pack).columns.ids_digest()


@pytest.mark.parametrize("order", [{}, {"keep_order": True}])
def test_windows_of_a_frame_are_those_of_its_pack(frame, tmp_path, order):
    packed(frame, tmp_path / "pack", shard_size=1500, **order)
    both = [tmp_path / "pack", dfgen.read_manifest(tmp_path / "pack")]
    window = Ordering(window="3KB")
    folder, rows = ([b.ids for b in batches(m, y="kind", order=window)] for m in both)
    assert folder == rows


def test_paths_in_messages_of_a_folder_are_those_of_its_frame(pack):
    df, row = dfgen.read_manifest(pack), 5
    where = f"row id={df.id[row]}, path={df.path[row]!r}"
    assert bind(pack).reader.where(row) == bind(df).reader.where(row) == where
    assert pickle.loads(pickle.dumps(bind(pack).reader)).where(row) == where
    assert [*bind(pack).reader.paths(row)] == []


MAKERS = {
    "pixels": {"format": "pixels", "image_size": (48, 64)},
    "own": {"format": "pixels", "image_size": "own"},
    "original": {"format": "original"},
    "jpeg": {"format": "jpeg", "max_side": 64},
}


@pytest.fixture
def photographs(tmp_path):
    """Photographs of several sizes, one of which lies on its side, with masks and boxes."""
    rows = []
    for row in range(8):
        height, width = size = (90 + 10 * row, 120 + 6 * row)
        path, mask = tmp_path / f"{row}.jpg", tmp_path / f"mask{row}.png"
        path.write_bytes(photograph(size, 6 if row == 3 else None))
        height, width = (width, height) if row == 3 else size
        down, right = np.indices((height, width))
        cv2.imwrite(str(mask), (right * 8 // width + 8 * (down * 8 // height)).astype(np.uint8))
        box = [width / 4, height / 4, width / 2, height * 3 / 4]
        facts = {"width": size[1], "height": size[0], "orientation": 6 if row == 3 else 1}
        rows.append(
            {"id": row, "path": str(path), "mask": str(mask), "boxes": [box], "kinds": ["a"]}
            | facts
        )
    return pd.DataFrame(rows).astype({"width": "Int64", "height": "Int64", "orientation": "Int64"})


@pytest.mark.filterwarnings("ignore:the images of 'path' were packed:UserWarning")
@pytest.mark.parametrize("kind", [*MAKERS])
@pytest.mark.parametrize(
    "image",
    [
        Image(size=(48, 64)), Image(size=(48, 64), scale="0..1", flip="horizontal"),
        Image(size=(40, 40), load_size=(48, 64), crop="random", flip="horizontal"),
        Image(size=(24, 24), crop="random_resized"), Image(size=(100, 90)),
    ],
)  # fmt: skip
def test_each_format_makes_nearly_the_pixels_of_the_files(photographs, tmp_path, kind, image):
    packed(photographs.drop(columns=["boxes", "kinds"]), tmp_path / "pack", **MAKERS[kind])
    expected = by_id(batches(photographs, x=image, options=NO_Y))
    found = by_id(batches(tmp_path / "pack", x=image, options=NO_Y))
    exact = kind == "original" or (kind == "pixels" and image.size == (48, 64))
    for id, sample in found.items():
        scale = 255 if image.scale else 1
        far = np.abs(sample.astype(float) - expected[id].astype(float)) * scale
        drawn = image.crop == "random_resized" and kind == "pixels"  # of another aspect ratio
        assert far.max() == 0 if exact else far.mean() < (60 if drawn else 6), (id, far.mean())


@pytest.mark.parametrize("kind", [*MAKERS])
def test_images_keep_their_sizes_as_far_as_they_were_packed(photographs, tmp_path, kind):
    packed(photographs.drop(columns=["boxes", "kinds"]), tmp_path / "pack", **MAKERS[kind])
    for manifest in (tmp_path / "pack", dfgen.read_manifest(tmp_path / "pack")):
        bound = bind(manifest, x=Image(size=None), options=NO_Y)
        sizes = dict(zip(bound.reader.ids[:], bound.reader.sizes["image"].tolist(), strict=True))
        for id, size in sizes.items():
            id = int(str(id))
            upright = (120 + 6 * id, 90 + 10 * id) if id == 3 else (90 + 10 * id, 120 + 6 * id)
            smaller = tuple(round(side * 64 / max(upright)) for side in upright)
            assert tuple(size) == {"pixels": (48, 64), "jpeg": smaller}.get(kind, upright)
        assert len(batches(manifest, x=Image(size=None), options=NO_Y)) == 2


@pytest.mark.parametrize("kind", [*MAKERS])
def test_loose_rows_beside_a_pack_keep_the_sizes_of_their_files(photographs, tmp_path, kind):
    loose = photographs.drop(columns=["boxes", "kinds"])
    packed(loose[:5], tmp_path / "pack", **MAKERS[kind])
    both = pd.concat([dfgen.read_manifest(tmp_path / "pack"), loose[5:]], ignore_index=True)
    found = by_id(batches(both, x=Image(size=None), options=NO_Y))
    files = by_id(batches(loose[5:], x=Image(size=None), options=NO_Y))
    bound = bind(both, x=Image(size=None), options=NO_Y)
    for place in range(5, 8):
        height, width = bound.reader.sizes["image"][place]
        assert (height, width) == (90 + 10 * place, 120 + 6 * place)
        whole = np.s_[:height, :width]
        np.testing.assert_array_equal(found[place][whole], files[place][whole])


@pytest.mark.parametrize("kind", [*MAKERS])
def test_an_image_that_follows_a_packed_one_shows_the_same(photographs, tmp_path, kind):
    packed(photographs.drop(columns=["boxes", "kinds"]), tmp_path / "pack", **MAKERS[kind])
    df = dfgen.read_manifest(tmp_path / "pack")
    for row, path in enumerate(df["path"]):
        upright = PIL.ImageOps.exif_transpose(PIL.Image.open(path))
        upright.save(tmp_path / f"copy{df['id'][row]}.png")
    df["copy"] = [str(tmp_path / f"copy{id}.png") for id in df["id"]]
    for lead, column in [
        (Image(size=None), "copy"),
        (Image(size=(30, 40), flip="horizontal"), "path"),
    ]:
        for batch in batches(
            df, x={"image": lead, "other": Image(column, like="image")}, options=NO_Y
        ):
            image, other = batch.arrays["image"].astype(float), batch.arrays["other"]
            assert other.shape == image.shape
            assert np.abs(other - image).mean() < 2


@pytest.mark.parametrize("kind", [*MAKERS])
@pytest.mark.parametrize("chance", [{}, {"crop": "random", "flip": "horizontal"}])
def test_boxes_and_masks_lie_where_the_packed_image_does(photographs, tmp_path, kind, chance):
    labels = {"boxes": {"kind": "list", "box_format": "xyxy"}}
    photographs.attrs = {"dfgen": {"root": None, "labels": labels, "recipe": None}}
    packed(photographs, tmp_path / "pack", **MAKERS[kind])
    df = dfgen.read_manifest(tmp_path / "pack")
    size = (40, 40) if chance else (48, 64)
    image = Image(size=size, load_size=(48, 64), **({"crop": "center"} | chance))
    y = [
        Mask("mask", like="image"),
        Boxes("boxes", labels="kinds", class_names=["a"], max_items=1, like="image"),
    ]
    frames = {"loose": df.drop(columns=["shard", "row"]), "packed": df}
    made = {name: batches(one, x=image, y=y) for name, one in frames.items()}
    for name, tolerance in (("mask", 0.1), ("boxes", 1.5)):
        loose, found = (by_id(made[one], name) for one in ("loose", "packed"))
        for id, sample in found.items():
            if name == "mask":
                assert (sample != loose[id]).mean() < tolerance
            else:
                assert np.abs(sample - loose[id]).max() < tolerance


def test_the_shards_of_a_pack_are_listed_once_for_a_frame_and_not_for_each_of_them(
    pack, monkeypatch
):
    listed, files = [], named_packs._files
    monkeypatch.setattr(named_packs, "_files", lambda index: listed.append(index) or files(index))
    assert len(bind(dfgen.read_manifest(pack)).reader.sources["image"].stored.shards) == 4
    assert len(listed) == 1


def pages_in_cache(path):
    """How many bytes of a file the system has in its cache."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        pages = np.empty(-(-len(view) // mmap.PAGESIZE), np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        address, into = (ctypes.c_void_p(array.ctypes.data) for array in (view, pages))
        assert libc.mincore(address, ctypes.c_size_t(len(view)), into) == 0
        del view
        return int((pages & 1).sum()) * mmap.PAGESIZE


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system reads nothing ahead")
@pytest.mark.parametrize("how", [{"image_size": (250, 300)}, {"format": "original"}])
def test_whole_shards_are_read_ahead(frame, tmp_path, how):
    noise = np.random.default_rng(0).integers(0, 256, (250, 300, 3), np.uint8)
    for path in frame["path"]:
        cv2.imwrite(path, noise)
    packed(frame, tmp_path / "pack", **how, shard_size="5MB")
    reader = bind(tmp_path / "pack", y="kind").reader
    shards = sorted((tmp_path / "pack").glob("shard-*.arrow"))
    sizes = [shard.stat().st_size for shard in shards]
    for shard in shards:
        with shard.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if pages_in_cache(shards[0]) > sizes[0] / 2:
        pytest.skip("this file system keeps all of its pages")
    [*reader.ahead(np.arange(2))]  # of the first one
    assert any(
        pages_in_cache(shards[0]) >= sizes[0] for _ in range(1_000_000)
    )  # as the disk is at it
    assert pages_in_cache(shards[1]) < sizes[1] / 2


def test_each_shard_of_some_rows_is_read_ahead_once_and_no_other(pack, monkeypatch):
    asked = []
    monkeypatch.setattr(pack_shards, "read_ahead", lambda *given: asked.append(given))
    frame = dfgen.read_manifest(pack)
    frame.loc[:4, ["shard", "row"]] = None  # rows in no pack
    [*bind(frame, y="kind").reader.ahead(np.array([39, 0, 35, 12, 3, 11]))]
    shards = [f"{pack}/shard-{number:05}.arrow" for number in (1, 3)]
    assert asked == [(path, [(0, os.path.getsize(path))]) for path in shards]


def test_images_that_are_larger_than_they_were_packed_are_enlarged_with_a_warning(pack):
    height, width = SIZE
    with pytest.warns(UserWarning) as warned:
        bind(pack, x=dfgen.Image(size=(height, width + 1)), y="kind")
    assert [str(one.message) for one in warned] == [
        f"the images of 'path' were packed with image_size={SIZE} and are enlarged to "
        f"{height, width + 1}: for more detail, pack them in this size"
    ]
