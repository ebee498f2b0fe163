"""Packs in the hands of users: packed again meanwhile, labels missing, columns of their own."""

import json
import shutil
import warnings

import numpy as np
import pytest
from packed import packed, write_images

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.errors import ManifestError, ProblemsError
from dfgen.loading.loader import Loader
from dfgen.packs.pack_index import sealed
from dfgen.samples.features.category import Category
from dfgen.samples.features.image import Image

ROWS, SIZE = 20, (6, 8)


@pytest.fixture
def frame(tmp_path):
    return write_images(tmp_path / "imgs", ROWS, SIZE)


def samples(bound, batch_size=7):
    """Return the first value of each image, by the id of its row."""
    with_rows = {}
    loader = Loader(bound.reader, batch_size=batch_size, workers=0, shuffle=False)
    for batch in loader.batches(0):
        pixels = batch.arrays["image"][:, 0, 0, 0].tolist()
        with_rows |= dict(zip(batch.ids, pixels, strict=True))
    loader.close()
    return with_rows


@pytest.mark.parametrize("format", ["pixels", "original"])
@pytest.mark.parametrize("given", ["folder", "frame"])
def test_a_pack_that_is_packed_again_under_a_sequence_is_never_mixed_with_the_old_one(
    frame, tmp_path, format, given
):
    out = tmp_path / "pack"
    packed(frame, out, format=format, shard_size=600)
    manifest = out if given == "folder" else dfgen.read_manifest(out)
    bound = bind(manifest, y=None, options=Options(image_size=SIZE, label_mode=None))
    shutil.rmtree(out)
    packed(frame, out, format=format, shard_size=600, seed=9)
    with pytest.raises(ManifestError) as error:
        samples(bound)
    rows = len(dfgen.read_manifest(out).query("shard == shard.iloc[0]"))
    assert str(error.value) == (
        f"{out}/shard-00000.arrow, which has the rows 0 to {rows - 1}, is now of another pack, "
        "which was written in its place since this one was opened: make the Sequence anew, from "
        f"the folder or from dfgen.read_manifest({str(out)!r})"
    )


@pytest.mark.parametrize("format", ["pixels", "original"])
def test_a_pack_that_is_packed_again_by_the_same_plan_of_other_files_is_noticed(
    frame, tmp_path, format
):
    out = tmp_path / "pack"
    plain = frame[["id", "path", "kind"]]
    packed(plain, out, format=format, shard_size=600)
    bound = bind(out, y=None, options=Options(image_size=SIZE, label_mode=None))
    plan = json.loads((out / "_manifest.json").read_bytes())["plan"]
    shutil.rmtree(out)
    write_images(tmp_path / "imgs", ROWS, SIZE, first=100)
    packed(plain, out, format=format, shard_size=600)
    assert json.loads((out / "_manifest.json").read_bytes())["plan"] == plan
    with pytest.raises(ManifestError, match="is now of another pack, which was written in its"):
        samples(bound)


def test_a_bad_file_in_a_pack_is_named_once(frame, tmp_path):
    path = frame["path"][3]
    with open(path, "rb") as file:
        data = file.read()[:60]
    with open(path, "wb") as file:
        file.write(data)
    packed(frame, tmp_path / "pack", format="original")
    options = Options(image_size=SIZE, label_mode=None)
    bound = bind(tmp_path / "pack", y=None, options=options, on_error="skip")
    limits = dfgen.Limits(problems=0)
    loader = Loader(bound.reader, batch_size=ROWS, workers=0, on_error="skip", limits=limits)
    with pytest.raises(ProblemsError) as error:
        loader.batch(0, 0)
    loader.close()
    lines = str(error.value).splitlines()
    assert lines[1].startswith(f"  row id=3, path='{path}' (60 bytes): broken png file: ")
    assert lines[1].count(path) == 1


@pytest.mark.parametrize("given", ["folder", "frame"])
def test_labels_may_be_missing_in_a_pack(frame, tmp_path, given):
    frame.loc[[3, 5], "kind"] = None
    packed(frame, tmp_path / "pack", shard_size=600)
    manifest = tmp_path / "pack"
    manifest = manifest if given == "folder" else dfgen.read_manifest(manifest)
    bound = bind(manifest, Image("path", size=SIZE), Category("kind", missing="ignore"))
    assert samples(bound) == dict(zip(frame["id"], range(ROWS), strict=True))


@pytest.mark.parametrize("shard", ["train-00000.tar", "a", "2024/x.arrow"])
def test_columns_shard_and_row_of_the_users_own_are_those_of_no_pack(frame, shard):
    own = frame.assign(shard=shard, row=np.arange(ROWS))
    bound = bind(own, y=None, options=Options(image_size=SIZE, label_mode=None))
    assert samples(bound) == dict(zip(frame["id"], range(ROWS), strict=True))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["shard", "row"], 'the frame has the columns "shard" and "row", as one of a pack has: '),
        (["path_pixels"], "the frame has a column 'path_pixels', as the files of a pack have for "),
        (["path_shape"], "the frame has a column 'path_shape', as the files of a pack have for "),
        (["path_bytes"], "the frame has a column 'path_bytes', as the files of a pack have for "),
    ],
)
def test_columns_named_as_those_of_a_pack_are_refused(frame, tmp_path, names, said):
    with pytest.raises(ManifestError, match=f"^{said}"):
        packed(frame.assign(**dict.fromkeys(names, 1)), tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


@pytest.mark.parametrize("root", ["s3://bucket/imgs", "zip://::/data/imgs.zip", "../imgs"])
def test_a_pack_names_its_files_as_its_frame_does(frame, tmp_path, root):
    out = tmp_path / "pack"
    packed(frame, out)
    index = json.loads((out / "_manifest.json").read_text())
    index["dfgen"]["root"] = root
    del index["checksum"]
    (out / "_manifest.json").write_bytes(sealed(index))
    bound = bind(out, y=None, options=Options(image_size=SIZE, label_mode=None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a root that is far away
        paths = dfgen.read_manifest(out).path
    assert [bound.reader.where(row) for row in (0, 7)] == [
        f"row id={bound.reader.id(row)}, path={paths[row]!r}" for row in (0, 7)
    ]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_the_files_of_an_archive_are_packed_as_those_of_a_folder(frame, tmp_path, kind):
    archive = shutil.make_archive(str(tmp_path / "photos"), kind, tmp_path / "imgs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a root in another folder
        dfgen.build_manifest(archive, pattern="{id:int}.png", out=tmp_path / "m.parquet")
        done = packed(tmp_path / "m.parquet", tmp_path / "pack")
    assert done.problems.empty
    bound = bind(tmp_path / "pack", y=None, options=Options(image_size=SIZE, label_mode=None))
    assert samples(bound) == {row: row for row in range(ROWS)}
