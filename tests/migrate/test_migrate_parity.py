"""`dfgen.migrate` beside Keras's own `ImageDataGenerator`, on the same files, batch by batch."""

import beside_keras
import numpy as np
import PIL.Image
import pytest
from beside_keras import BOTH, SIZE, assert_same, both, made

PILLOW = int(PIL.__version__.partition(".")[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="module")
def frame(folder):
    """Rows in another order than their index has."""
    return beside_keras.write_folder(folder).sample(frac=1, random_state=3)


def of_frame(frame, folder, of=None, **options):
    return both("flow_from_dataframe", frame, folder, of=of, **{**SIZE, **options})


@pytest.mark.parametrize("color_mode", ["rgb", "rgba", "grayscale"])
@pytest.mark.parametrize(
    "interpolation", ["nearest", "bilinear", "bicubic", "hamming", "box", "lanczos"]
)
def test_pixels_of_every_kind_of_file(folder, frame, color_mode, interpolation):
    if color_mode == "grayscale" and interpolation != "nearest" and PILLOW < 11:
        frame = frame[~frame["number"].isin([13, 14])]  # 16 bits, which it does not resize
    pair = of_frame(frame, folder, color_mode=color_mode, interpolation=interpolation)
    assert_same(*pair)


@pytest.mark.parametrize(
    ("class_mode", "options"),
    [
        ("categorical", {}), ("categorical", {"y_col": "tags"}),
        ("categorical", {"y_col": "tags", "classes": ["owl", "cat"]}),
        ("categorical", {"classes": ("dog", "owl", "dog")}), ("sparse", {"weight_col": "share"}),
        ("sparse", {"classes": ["owl", "dog", "cat"], "weight_col": "number"}),
        ("binary", {"classes": ["owl", "dog"]}), ("raw", {"y_col": "number"}),
        ("raw", {"y_col": "class"}), ("raw", {"y_col": ["number", "share"], "weight_col": "share"}),
        ("raw", {"y_col": ["number", "class"]}), ("other", {"y_col": "share"}),
        ("multi_output", {"y_col": ["number", "share"]}),
        ("multi_output", {"y_col": ["tags"], "weight_col": "share"}),
        ("input", {"weight_col": "number"}), (None, {}),
        (None, {"weight_col": "share", "y_col": "no such column"}),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("dtype", [None, "uint8"])
def test_targets_and_weights_of_every_class_mode(folder, frame, class_mode, options, dtype):
    options = {**SIZE, **options}
    ours, theirs = (
        made(one, "flow_from_dataframe", frame, folder, of={"dtype": dtype}, class_mode=class_mode,
             **options)[0]
        for one in BOTH  # dfgen tells more than Keras does: of rows that it leaves out
    )  # fmt: skip
    assert_same(ours, theirs)


@pytest.mark.parametrize("subset", ["training", "validation", None])
@pytest.mark.parametrize("validation_split", [0.3, 0.01, 0.0])
@pytest.mark.parametrize("flow", ["flow_from_dataframe", "flow_from_directory"])
def test_subsets_are_the_same_rows(folder, frame, flow, subset, validation_split):
    data = (frame, folder) if flow == "flow_from_dataframe" else (folder,)
    of = {"validation_split": validation_split, "rescale": 1 / 255}
    ours, theirs = both(flow, *data, of=of, subset=subset, **SIZE)
    assert_same(ours, theirs)


@pytest.mark.parametrize("class_mode", ["categorical", "sparse", "binary", "input", None])
@pytest.mark.parametrize("options", [{}, {"classes": ["owl", "cat", "none"]}, {"save_prefix": "a"},
                                     {"keep_aspect_ratio": True, "interpolation": "bilinear"},
                                     {"keep_aspect_ratio": True}], ids=repr)  # fmt: skip
def test_folders_are_classes(folder, frame, class_mode, options):
    assert_same(*both("flow_from_directory", folder, class_mode=class_mode, **{**SIZE, **options}))


def test_the_nearest_pixels_of_a_part_are_those_of_pillow(tmp_path):
    (tmp_path / "kind").mkdir()
    for row, size in enumerate([(32, 39), (37, 16), (26, 25), (29, 31)]):
        places = np.arange(size[0] * size[1], dtype=np.uint16).reshape(size[::-1])
        pixels = np.stack([places & 255, places >> 8, places * 0], -1).astype(np.uint8)
        PIL.Image.fromarray(pixels).save(tmp_path / "kind" / f"{row}.png")
    for size in [(21, 22), (229, 115), (142, 286), (7, 64)]:
        options = {**SIZE, "target_size": size, "keep_aspect_ratio": True}
        assert_same(*both("flow_from_directory", str(tmp_path), **options))
