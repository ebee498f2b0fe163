"""What the pages on other loaders say of these is so: their arguments, labels, order and pixels."""

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

import dfgen
from dfgen.migrate import ImageDataGenerator

GUIDES = Path(dfgen.__file__).parents[1] / "docs/guides"
FOLDER = keras.utils.image_dataset_from_directory


def said(page):
    """Return the words in code style on a page, outside of blocks."""
    text = re.sub(r"^```.*?^```", "", (GUIDES / page).read_text("utf-8"), flags=re.M | re.S)
    return {word for code in re.findall("`[^`]*`", text) for word in re.findall(r"\w+", code)}


@pytest.mark.parametrize(
    ("page", "calls"),
    [
        ("migrate-image-dataset-from-directory.md", [FOLDER]),
        ("migrate-augmentation.md", [ImageDataGenerator.__init__]),
        ("migrate-flow-from-dataframe.md",
         [ImageDataGenerator.flow_from_dataframe, ImageDataGenerator.flow_from_directory]),
    ],
)  # fmt: skip
def test_a_page_has_every_argument(page, calls):
    named = {name for call in calls for name in inspect.signature(call).parameters}
    assert named - said(page) <= {"self", "kwargs"}


def test_the_page_of_torch_has_every_argument_of_a_loader():
    torch = importlib.util.find_spec("torch")  # to import it takes seconds
    if torch is None:
        pytest.skip("torch is not installed")
    source = Path(torch.origin).parent / "utils/data/dataloader.py"
    [loader] = [
        node for node in ast.parse(source.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "DataLoader"
    ]  # fmt: skip
    [init] = [node for node in loader.body if getattr(node, "name", "") == "__init__"]
    named = {one.arg for one in (*init.args.args, *init.args.kwonlyargs)} - {"self"}
    assert "collate_fn" in named
    assert named <= said("migrate-torch.md")


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
