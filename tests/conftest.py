"""Real image files whose pixels encode the row number, and a model that logs the rows it sees."""

import gc
import os
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Torch's threads wait for each other where other processes of the tests have the CPUs.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # or it asks the network for a newer version

import cloudpickle
import cv2
import numpy as np
import pandas as pd
import pytest
import sized
from hypothesis import settings

ROWS = 120

# A shell's background jobs ignore Ctrl-C, and the processes of tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Albumentations does without it; it would import torch in each process of the tests.
sys.modules["albumentations.pytorch"] = None

# Each run tries the same examples, however slow the machine.
settings.register_profile("dfgen", deadline=None, derandomize=True)
settings.load_profile("dfgen")


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items):
    """Mark tests/public; pickle test functions by value, so that workers need not import Keras."""
    for item in items:
        if item.path.parent.name == "public":
            item.add_marker("public")
    for module in {item.module for item in items} | {sized}:
        cloudpickle.register_pickle_by_value(module)


def pytest_collection_finish():
    """No collection of garbage looks at what imports have made: a quarter of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Paths of PNG files of 4x4 pixels: red and green hold the number of the file."""
    folder = tmp_path_factory.mktemp("files")
    paths = []
    for row in range(ROWS):
        pixels = np.zeros((4, 4, 3), np.uint8)
        pixels[..., 2], pixels[..., 1] = row % 256, row // 256  # OpenCV writes BGR
        paths.append(f"{folder}/{row}.png")
        cv2.imwrite(paths[-1], pixels)
    return paths


@pytest.fixture
def frame(files):
    """Return a function: a manifest of n rows with a label of two classes."""

    def make(rows):
        labels = pd.Categorical([("even", "odd")[row % 2] for row in range(rows)])
        return pd.DataFrame({"id": range(rows), "path": files[:rows], "label": labels})

    return make


@pytest.fixture(scope="session")
def sized_folder(tmp_path_factory):
    """A folder of images of different sizes and their masks."""
    return sized.write_images(tmp_path_factory.mktemp("sized"))
