"""Keypoints: they follow their image, and every bad column."""

import albumentations as A
import annotated
import cv2
import numpy as np
import pandas as pd
import pytest
from messages import message_of

import dfgen
from dfgen.errors import ArgumentError, DecodeError, ManifestError, TransformError

SIZE = (30, 40)  # height, width
POINTS = [8.5, 6.5, 2, 30.5, 20.5, 1, 0, 0, 0]


@pytest.fixture
def path(tmp_path):
    annotated.image(tmp_path / "a.png")
    return str(tmp_path / "a.png")


def points(path, keypoints, rng=None, size=SIZE, image=(), **options):
    like = dfgen.Image(size=size, **dict(image))
    feature = dfgen.Keypoints(like=like, **{"count": 3, "max_items": 2, **options})
    return feature({"path": path, "keypoints": keypoints}, rng)


def test_points_of_each_object_and_no_object(path):
    found = points(path, [POINTS])
    assert found.dtype == np.float32
    assert found.tolist() == [np.reshape(POINTS, (3, 3)).tolist(), [[-1] * 3] * 3]
    assert (points(path, [[], POINTS])[0] == 0).all()  # an object of which no point is known


@pytest.mark.parametrize("keypoints", [[POINTS], POINTS])
def test_one_object_in_each_row(path, keypoints):
    assert points(path, keypoints, max_items=None).tolist() == np.reshape(POINTS, (3, 3)).tolist()


def test_what_lies_outside_of_the_crop_has_visibility_0(path):
    found = points(path, [POINTS], size=(10, 20), image={"load_size": SIZE, "crop": "center"})
    assert found[0].tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 0]]
    found = points(path, [POINTS], size=(28, 24), image={"load_size": SIZE, "crop": "center"})
    assert found[0].tolist() == [[0.5, 5.5, 2], [22.5, 19.5, 1], [0, 0, 0]]
    corners = [8, 1, 2, 32, 29, 2, 32.5, 29, 2]  # two of the crop, and one beside it
    found = points(path, [corners], size=(28, 24), image={"load_size": SIZE, "crop": "center"})
    assert found[0].tolist() == [[0, 0, 2], [24, 28, 2], [0, 0, 0]]


def test_an_object_with_all_its_points_outside_of_the_file_s_image_is_refused(path):
    twice = [0, 0, 0, 80.5, 20.5, 2, 61, 41, 1]
    with pytest.raises(DecodeError) as error:
        points(path, [POINTS, twice])
    assert str(error.value) == (
        f"path={path!r}: all 2 points of object 1 of column 'keypoints' lie outside of the image, "
        "which is 40 x 30 pixels (width x height, upright), the first at (80.5, 20.5): they are of "
        "another image, or of this one in another size"
    )
    arm = [8.5, 6.5, 2, 40.5, 20.5, 1, 0, 0, 0]
    assert points(path, [arm])[0].tolist() == [[8.5, 6.5, 2], [0, 0, 0], [0, 0, 0]]


class Always:
    """Draws that flip."""

    def random(self, count=None):
        return 0.0 if count is None else np.zeros(count)


@pytest.mark.parametrize(
    ("flip", "expected"),
    [
        ("horizontal", [[9.5, 20.5, 1], [31.5, 6.5, 2], [0, 0, 0]]),
        ("vertical", [[30.5, 9.5, 1], [8.5, 23.5, 2], [0, 0, 0]]),
        ("horizontal_and_vertical", [[31.5, 23.5, 2], [9.5, 9.5, 1], [0, 0, 0]]),
    ],
)
def test_left_and_right_change_places_where_the_image_is_mirrored(path, flip, expected):
    found = points(path, [POINTS], Always(), image={"flip": flip}, flip_pairs=[(0, 1)])
    assert found[0].tolist() == expected


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_a_point_stays_on_the_pixel_that_it_marks(tmp_path, resize):
    pixels = np.zeros((60, 80, 3), np.uint8)
    pixels[20:28, 32:40] = 255
    cv2.imwrite(f"{tmp_path}/a.png", pixels)
    image = dfgen.Image(
        size=(44, 48), load_size=(50, 56), resize=resize, crop="random", antialias=False,
        flip="horizontal_and_vertical",
    )  # fmt: skip
    feature = dfgen.Keypoints(like=image, count=1)
    row = {"path": f"{tmp_path}/a.png", "keypoints": [36, 24, 2]}
    seen = 0
    for seed in range(20):
        bright = image(row, np.random.default_rng(seed))[..., 0] > 128
        x, y, visibility = feature(row, np.random.default_rng(seed))[0]
        if visibility and bright.sum() > 15:
            seen += 1
            ys, xs = np.nonzero(bright)
            assert x == pytest.approx(xs.mean() + 0.5, abs=1)
            assert y == pytest.approx(ys.mean() + 0.5, abs=1)
    assert seen > 5


def numbered(tmp_path, rows=4):
    """Write COCO's JSON of images whose gray level is their number, as is x of a point."""
    for n in range(rows):
        cv2.imwrite(f"{tmp_path}/{n}.png", np.full(SIZE, n, np.uint8))
    persons = [
        annotated.box(n, 1, 0, 0, 9, 9, keypoints=[n + 1, 5, 2, 30, 6, 1], num_keypoints=2)
        for n in range(rows)
    ]
    names = {n: f"{n}.png" for n in range(rows)}
    return annotated.coco(f"{tmp_path}/c.json", names, persons, {1: "person"}, SIZE[::-1])


@pytest.mark.parametrize("processes", [False, True])
def test_points_of_coco_go_with_the_image_of_their_row(tmp_path, processes):
    frame = dfgen.build_manifest(coco=numbered(tmp_path))
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    target = dfgen.Keypoints(count=2, max_items=2)
    with dfgen.Sequence(
        dfgen.read_manifest(tmp_path / "m.parquet"), dfgen.Image(size=SIZE), target, batch_size=2,
        use_multiprocessing=processes, workers=1,
    ) as sequence:  # fmt: skip
        seen = [
            (int(image[0, 0, 0]), point[0].tolist(), point[1, 0].tolist())
            for batch in sequence
            for image, point in zip(*map(np.asarray, batch), strict=True)
        ]
    assert sorted(seen) == [(n, [[n + 1.5, 5.5, 2], [30.5, 6.5, 1]], [-1] * 3) for n in range(4)]


def test_a_point_that_a_pack_cropped_away_is_not_seen_in_what_pads_its_image(tmp_path):
    frame = dfgen.build_manifest(coco=numbered(tmp_path))
    dfgen.pack(frame, tmp_path / "pack", image_size=(20, 20), resize="crop")  # columns 5 to 35
    points = dfgen.Keypoints(count=2, max_items=1)
    image = dfgen.Image(size=(10, 20), resize="pad")
    made = dfgen.Sequence(tmp_path / "pack", image, points, shuffle=False)
    away, left = [0, 0, 0], [5 + (30.5 - 5) * 10 / 30, 6.5 / 3, 1]
    np.testing.assert_allclose(made[0][1][:, 0], [[away, left]] * 4, atol=1e-5)


def test_albumentations_moves_points_with_their_image(tmp_path):
    frame = dfgen.build_manifest(coco=numbered(tmp_path))
    pipeline = A.Compose(
        [A.Crop(2, 0, 40, 30), A.PadIfNeeded(30, 40, position="top_left")],
        keypoint_params=A.KeypointParams("xy"),
    )
    target = dfgen.Keypoints(count=2, max_items=2)
    given = (frame, dfgen.Image(size=SIZE), target)
    made = dfgen.Sequence(*given, shuffle=False, transform=dfgen.albumentations(pipeline))
    found = np.asarray(made[0][1])
    assert found[0, 0].tolist() == [[0, 0, 0], [28.5, 6.5, 1]]
    assert found[3, 0].tolist() == [[2.5, 5.5, 2], [28.5, 6.5, 1]]
    assert (found[:, 1] == -1).all()
    mirror = A.Compose([A.HorizontalFlip(p=1)], keypoint_params=A.KeypointParams("xy"))
    made = dfgen.Sequence(*given, shuffle=False, transform=dfgen.albumentations(mirror))
    assert np.asarray(made[0][1])[3, 0].tolist() == [[35.5, 5.5, 2], [9.5, 6.5, 1]]  # of 40 columns
    of_any_size = (frame[:1], dfgen.Image(size=None), target)
    made = dfgen.Sequence(*of_any_size, transform=dfgen.albumentations(pipeline))
    np.testing.assert_array_equal(made[0][1], found[:1])
    without = dfgen.albumentations(A.Compose([A.HorizontalFlip()]))
    assert message_of(ArgumentError, lambda: dfgen.Sequence(*given, transform=without)) == (
        "'keypoints' are key points, which the Albumentations pipeline does not take: write "
        'A.Compose([...], keypoint_params=A.KeypointParams("xy"))'
    )


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([[POINTS], [POINTS[:6]]], {"max_items": 2},
         "object 0 of row 1 in column 'keypoints' has 6 numbers, expected 9, of count=3 points (1 "
         "such objects): write dfgen.Keypoints('keypoints', count=2), or correct it"),
        ([[POINTS], [POINTS[:7]]], {"max_items": 2},
         "object 0 of row 1 in column 'keypoints' has 7 numbers, expected 9, of count=3 points (1 "
         "such objects): x, y and visibility of each point are three numbers"),
        ([[POINTS], [POINTS] * 3], {"max_items": 2},
         "row 1 has 3 objects in column 'keypoints', expected at most max_items=2 (1 such rows): "
         "write dfgen.Keypoints('keypoints', max_items=3)"),
        ([[POINTS], [POINTS] * 3], {},
         "row 1 has 3 objects in column 'keypoints', expected one in each row (1 such rows): write "
         "dfgen.Keypoints('keypoints', max_items=3)"),
        ([[POINTS], [[None, *POINTS[1:]]]], {},
         "object 0 of row 1 in column 'keypoints' has an x or y that is missing or infinite (1 "
         "such objects): write 0, 0, 0 for a point that is not annotated"),
        ([[POINTS], [[*POINTS[:7], np.inf, 1]]], {},
         "object 0 of row 1 in column 'keypoints' has an x or y that is missing or infinite (1 "),
        ([[POINTS], [[*POINTS[:8], np.nan]]], {},
         "object 0 of row 1 in column 'keypoints' has the visibility nan, expected 0, 1 or 2 (1 "
         "such objects): write 0, 0, 0 for a point that is not annotated"),
        ([POINTS, [*POINTS[:8], -1]], {},
         "object 0 of row 1 in column 'keypoints' has the visibility -1, expected 0, 1 or 2 (1 "
         "such objects): "),
        ([["a"], ["b"]], {},
         "column 'keypoints' holds lists of string, expected lists of objects, [[x, y, visibility, "
         "x, y, visibility, ...], ...]"),
    ],
)  # fmt: skip
def test_a_column_that_does_not_fit_names_the_row(path, values, options, message):
    frame = pd.DataFrame({"id": ["a", "b"], "path": path, "keypoints": values})
    target = dfgen.Keypoints(count=3, **options)
    call = lambda: dfgen.Sequence(frame, dfgen.Image(size=SIZE), target)  # noqa: E731
    assert message in message_of(ManifestError, call)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count=0 is not a whole number of 1 or more"),
        *(
            ({"flip_pairs": pairs}, "flip_pairs must be pairs of different points, numbered 0 to "
             f"16, as ((1, 2), (3, 4)), got {pairs}")
            for pairs in ([(1, 17)], [(1, 1)], [(1, 2), (2, 3)], [(0.7, 1)], ["01"], [1, 2])
        ),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_are_refused(options, message):
    assert message_of(ArgumentError, lambda: dfgen.Keypoints(**options)) == message


def test_a_transform_gives_back_as_many_points():
    points = dfgen.Keypoints(count=1, like=dfgen.Image(size=(4, 4)))
    assert message_of(TransformError, points.finish, np.zeros((2, 3)), np.zeros((1, 3))) == (
        "the transform returned points of shape (2, 3), expected (1, 3)"
    )
