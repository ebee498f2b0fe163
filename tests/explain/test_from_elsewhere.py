"""What the pages on other loaders say of these is so: their arguments, labels, order and pixels."""

from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

import dfgen

FOLDER = keras.utils.image_dataset_from_directory


@pytest.mark.parametrize("label_mode", ["int", "categorical", "binary"])
def test_labels_order_and_pixels_are_those_of_image_dataset_from_directory(tmp_path, label_mode):
    for row in range(14):  # of several sizes; names that sort as text, not as numbers
        path = tmp_path / ("B", "a c")[row % 2] / f"{row}.png"
        path.parent.mkdir(exist_ok=True)
        noise = np.random.default_rng(row).integers(0, 256, (40 + row, 55, 3), np.uint8)
        Image.fromarray(noise).save(path)
    data = FOLDER(
        tmp_path, label_mode=label_mode, image_size=(24, 16), batch_size=4, shuffle=False,
        verbose=False,
    )  # fmt: skip
    df = dfgen.build_manifest(tmp_path, pattern="{kind}/{id}.{_}")
    image = dfgen.Image(size=(24, 16), antialias=False)
    options = {"label_mode": label_mode, "batch_size": 4, "shuffle": False}
    with dfgen.Sequence(df, image, "kind", **options) as seq:
        assert seq.class_names == data.class_names
        assert seq.manifest["path"].tolist() == data.file_paths
        for (x, y), (images, labels) in zip(seq, data, strict=True):
            labels = labels.numpy()
            assert (y.dtype, y.shape) == (labels.dtype, labels.shape)
            np.testing.assert_array_equal(y, labels)
            assert np.abs(x - images.numpy()).max() <= 1


def test_their_shuffle_takes_a_row_no_more_than_8_batches_early(files):
    data = FOLDER(
        Path(files[0]).parent, labels=None, batch_size=1, image_size=(4, 4), seed=1, verbose=False
    )
    paths = [files[int(x[0, 0, 0, 0])] for x in data]
    assert sorted(paths) == sorted(files)
    assert min(place - data.file_paths.index(path) for place, path in enumerate(paths)) == -7
