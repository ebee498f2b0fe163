"""Rows of a frame as small pictures: real files of all depths, and those that cannot be shown."""

import io

import cv2
import numpy as np
import pandas as pd
import PIL.Image
import pytest
from odd_images import saved

import dfgen
from dfgen.explore.thumbnails import thumbnails

RED = np.full((300, 400, 3), (0, 0, 200), np.uint8)  # as OpenCV has it


def png(pixels):
    return cv2.imencode(".png", np.asarray(pixels))[1].tobytes()


def of_bytes(*files, **columns):
    return pd.DataFrame({"image": list(files), **columns})


def test_a_thumbnail_is_as_large_as_asked_for_and_never_larger_than_its_image(tmp_path):
    paths = [f"{tmp_path}/large.jpg", f"{tmp_path}/small.png", f"{tmp_path}/thin.png"]
    cv2.imwrite(paths[0], RED)
    cv2.imwrite(paths[1], RED[:8, :6])
    cv2.imwrite(paths[2], RED[:25])
    large, small, thin = thumbnails(pd.DataFrame({"path": paths}), side=64)
    assert (large.pixels.shape, large.size, large.note) == ((48, 64, 3), (300, 400), "")
    assert abs(large.pixels.astype(int) - (200, 0, 0)).max() < 3  # RGB, of JPEG
    assert (small.pixels.shape, small.size) == ((8, 6, 3), (8, 6))
    assert (small.pixels == (200, 0, 0)).all()
    assert (thin.pixels.shape, thin.size) == ((4, 64, 3), (25, 400))


def test_what_is_deeper_than_8_bits_is_stretched_and_says_so():
    depth = np.linspace(500, 600, 10_000).round().reshape(100, 100)
    tiff = io.BytesIO()
    PIL.Image.fromarray(depth.astype(np.float32)).save(tiff, "TIFF")
    one, other = thumbnails(of_bytes(png(depth.astype(np.uint16)), tiff.getvalue()))
    assert (one.note, other.note) == ("uint16, 501 to 599", "float32, 501 to 599")
    for shown in (one, other):
        assert (shown.pixels[0, 0] == 0).all()
        assert (shown.pixels[-1, -1] == 255).all()
        assert abs(shown.pixels[50].mean() - 128) < 3


def test_numbers_that_are_none_are_black():
    depth = np.full((4, 4), 3, np.float32)
    depth[0, 0], depth[1, 1] = np.nan, 5
    file = io.BytesIO()
    PIL.Image.fromarray(depth).save(file, "TIFF")
    nothing = io.BytesIO()
    PIL.Image.fromarray(depth * np.nan).save(nothing, "TIFF")
    one, none = thumbnails(of_bytes(file.getvalue(), nothing.getvalue()))
    assert (one.pixels[0, 0] == 0).all()
    assert (one.pixels[1, 1] == 255).all()
    assert (none.note, none.pixels.max()) == ("float32, no finite number", 0)


def test_the_first_8_bits_are_shown_of_what_no_decoder_gives_more_of():
    deep = np.linspace(0, 65535, 256).reshape(16, 16).astype(np.uint16)
    file = saved(PIL.Image.fromarray(deep), "JPEG2000")
    if not file:
        pytest.skip("this Pillow writes no deep JPEG 2000")
    [shown] = thumbnails(of_bytes(file))
    assert shown.problem is None
    assert shown.pixels.shape == (16, 16, 3)


def test_what_is_transparent_shows_a_chequered_ground():
    pixels = np.zeros((16, 16, 4), np.uint8)
    pixels[:, :8, 3] = 255
    [shown] = thumbnails(of_bytes(png(pixels)))
    assert (shown.pixels[:, :8] == 0).all()
    assert np.unique(shown.pixels[:, 8:]).tolist() == [205, 255]


def test_what_cannot_be_shown_is_a_tile_that_tells_why(tmp_path):
    whole = png(RED)
    (tmp_path / "note.txt").write_text("no image, but sixteen bytes")
    paths = pd.DataFrame({"path": [f"{tmp_path}/none.png", None, f"{tmp_path}/note.txt"]})
    missing, no_path, text = thumbnails(paths)
    assert (missing.problem, missing.size) == ("the file does not exist", None)
    assert missing.pixels.shape == (128, 128, 3)
    assert no_path.problem == "the row has no path"
    assert text.problem.startswith("not an image, array or sound that dfgen opens")
    good, cut, empty = thumbnails(of_bytes(whole, whole[: len(whole) // 2], b""))
    assert good.problem is None
    assert cut.problem.startswith("broken png file: ")
    assert empty.problem == "the file is empty (0 bytes)"


def test_an_image_beyond_the_limits_is_not_decoded():
    limits = dfgen.Limits(decoded_bytes=100_000)
    small, huge = thumbnails(of_bytes(png(RED[:10, :10]), png(RED)), limits=limits)
    assert small.problem is None
    assert "decoded_bytes" in huge.problem


def test_what_the_manifest_knows_of_a_problem_is_looked_at_anew():
    [shown] = thumbnails(of_bytes(png(RED), problem=["the file does not exist"], bytes=[3]))
    assert shown.problem is None


def test_boxes_and_masks_lie_where_the_thumbnail_has_them(tmp_path):
    mask = np.zeros((300, 400), np.uint8)
    mask[150:] = 7
    cv2.imwrite(f"{tmp_path}/mask.png", mask)
    frame = of_bytes(
        png(RED), boxes=[[[0, 150, 400, 300]]], labels=[["cat"]], mask=[f"{tmp_path}/mask.png"]
    )
    [shown] = thumbnails(frame, boxes="boxes", masks="mask", side=40)
    assert shown.boxes.tolist() == [[0, 15, 40, 30]]
    assert shown.labels == ("cat",)
    assert shown.mask.shape == (30, 40)
    assert (shown.mask[:15] == 0).all()
    assert (shown.mask[15:] == 7).all()


def test_boxes_and_masks_at_fault_leave_the_image(tmp_path):
    cv2.imwrite(f"{tmp_path}/mask.png", np.zeros((3, 3), np.uint8))
    good, bad = [[0, 0, 4, 4]], [[5, 5, 2, 2]]
    frame = of_bytes(
        *[png(RED[:8, :8])] * 3,
        boxes=[good, bad, []],
        labels=[[1], [1], []],
        mask=[f"{tmp_path}/none.png", f"{tmp_path}/mask.png", f"{tmp_path}/mask.png"],
    )
    one, two, three = thumbnails(frame, boxes="boxes")
    assert (one.note, one.labels, three.labels) == ("", ("1",), ())
    assert two.problem is None
    assert two.note.startswith("box 0 of row 0 in column 'boxes' is (5, 5, 2, 2) as xyxy")
    one, two, three = thumbnails(frame, masks="mask")
    assert one.note == "mask: the file does not exist"
    assert two.note.startswith("mask: the mask has 3 x 3 pixels (height x width), its image 8 x 8")
    assert (one.mask, one.problem) == (None, None)


def test_rows_of_arrays_lists_of_files_and_packs_are_shown(tmp_path):
    stack = np.stack([np.full((6, 5), row, np.uint8) for row in range(3)])
    np.save(f"{tmp_path}/stack.npy", stack)
    rows = pd.DataFrame({"path": f"{tmp_path}/stack.npy", "index": [2, 9]})
    one, other = thumbnails(rows)
    assert (one.pixels == 2).all()
    assert other.problem == "the array has 3 rows, there is no row 9"
    path = f"{tmp_path}/a.png"
    cv2.imwrite(path, RED)
    [several] = thumbnails(pd.DataFrame({"path": [[path, "none.png"]]}))
    assert several.size == (300, 400)
    frame = pd.DataFrame({"id": [0], "path": [path]})
    dfgen.pack(frame, tmp_path / "pack", image_size=(20, 20))
    packed = dfgen.read_manifest(tmp_path / "pack")
    (tmp_path / "a.png").unlink()
    [shown] = thumbnails(packed)
    assert (shown.pixels == (200, 0, 0)).all()


def test_a_row_that_was_bad_when_packed_is_not_shown_by_a_file_that_was_mended_since(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no image")
    cv2.imwrite(f"{tmp_path}/b.png", RED)
    frame = pd.DataFrame({"id": [0, 1], "path": [f"{tmp_path}/{name}.png" for name in "ab"]})
    with pytest.warns(UserWarning, match="1 of 2 rows have no file in the pack"):
        dfgen.pack(frame, tmp_path / "pack", image_size=(20, 20))
    cv2.imwrite(f"{tmp_path}/a.png", RED)
    bad, good = thumbnails(dfgen.read_manifest(tmp_path / "pack").sort_values("id"))
    assert bad.problem.startswith("its file could not be used when it was packed")
    assert (good.pixels == (200, 0, 0)).all()


def test_no_rows_are_no_thumbnails_and_a_wrong_column_is_an_error():
    assert thumbnails(of_bytes()) == []
    with pytest.raises(dfgen.DfgenError) as caught:
        thumbnails(of_bytes(png(RED)), masks="msk")
    assert str(caught.value) == 'masks="msk" is not a column of the manifest. Columns: image.'
    with pytest.raises(dfgen.DfgenError) as caught:
        thumbnails(of_bytes(png(RED)), side=0)
    assert str(caught.value) == "side=0 is not a whole number of 1 or more"
