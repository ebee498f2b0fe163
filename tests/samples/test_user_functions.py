"""Functions of the user's own: which are taken, and that their own lines show where they fail."""

import functools
import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import each
from messages import message_of

from dfgen import Array, Column
from dfgen.errors import ArgumentError, DfgenError, brief
from dfgen.samples.user_functions import (
    called,
    check_transform,
    is_ctrl_c,
    pickled_by_value,
    raised,
    with_own_lines,
)

SCRIPT = """
import sys
import cv2, keras, numpy as np, pandas as pd
import dfgen
from dfgen.samples.features.base import Feature
from dfgen.spec import Spec

paths = [f"{number}.png" for number in range(4)]
for path in paths:
    cv2.imwrite(path, np.full((8, 8, 3), 7, np.uint8))
df = pd.DataFrame({"id": range(4), "path": paths, "age": 0.5})

def brighten(image):
    return image + missing_name  # of brighten

def augment(sample, rng):
    sample["image"] = brighten(sample["image"])  # of augment
    return sample

def mixed(batch, rng):
    return brighten(0) if batch["image"].any() else batch  # of mixed

def decoded(data):
    return brighten(data)  # of decoded

def filled(age):
    return brighten(age)  # of filled

class Own(Feature):
    column = "path"
    kind = "image"
    of_files = True
    spec = Spec((8, 8, 3), np.dtype(np.uint8))

    def read(self, value, out, store, watch, given):
        brighten(store.read(value))  # of Own

FUNCTIONS = {
    "augment": {"transform": augment},
    "mixed": {"batch_transform": mixed},
    "decoded": {"x": dfgen.Array("path", (8, 8, 3), decode=decoded)},
    "filled": {"x": dfgen.Column("age", filled, shape=(8, 8, 3))},
    "Own": {"x": Own()},
}
WORKERS = {
    "threads": {"workers": 2},
    "none": {"workers": 0},
    "processes": {"workers": 1, "use_multiprocessing": True},
}

layers = [keras.layers.Rescaling(1.0), keras.layers.Flatten(), keras.layers.Dense(1)]
model = keras.Sequential(layers)
model.build((None, 8, 8, 3))
model.compile("sgd", "mse", run_eagerly=True)  # nothing is traced, which takes long

def train(name, workers):
    given = FUNCTIONS[name]
    size = {} if "x" in given else {"image_size": (8, 8)}
    options = {"y": "age", "batch_size": 2, "shuffle": False, **size, **given, **workers}
    with dfgen.Sequence(df, **options) as seq:
        model.fit(seq, verbose=0)

for case in sys.argv[1:]:
    name, kind = case.split()
    sys.stderr.write(f"<<< {case}\\n")
    try:
        train(name, WORKERS[kind])
    except Exception:
        sys.excepthook(*sys.exc_info())  # as where nobody catches it
"""
CASES = [f"{name} threads" for name in ("augment", "mixed", "decoded", "filled", "Own")]
CASES += ["augment none", "augment processes", "Own processes"]
SAID = {
    "augment": "row id=0, path='0.png': the transform raised NameError: name 'missing_name'",
    "mixed": "batch 0 of epoch 0: the batch_transform raised NameError: name 'missing_name'",
    "decoded": "row id=0, path='0.png': Array('path'): decoded raised NameError: name 'missing_",
    "filled": "row id=0: Column('age'): filled raised NameError: name 'missing_name'",
    "Own": "while reading row id=0, path='0.png'",
}


@pytest.mark.backend
@pytest.mark.slow
def test_python_shows_the_users_own_lines_of_an_error_under_fit(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    run = subprocess.run(
        [sys.executable, script, *CASES], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    lines = SCRIPT.splitlines()
    for case, shown in zip(CASES, run.stderr.split("<<< ")[1:], strict=True):
        name = case.split()[0]
        assert SAID[name] in shown, case
        for inner in ("brighten", name):
            line = next(n for n, text in enumerate(lines, 1) if text.endswith(f"# of {inner}"))
            function = "read" if inner == "Own" else inner
            assert (
                f'File "{script}", line {line}, in {function}\n    {lines[line - 1].strip()}'
                in (shown)
            ), case


class Augment:
    def __call__(self, sample, rng):
        return sample

    def method(self, sample, rng):
        return sample

    @staticmethod
    def static(sample, rng):
        return sample

    @classmethod
    def of_class(cls, sample, rng):
        return sample


def decorated(function):
    @functools.wraps(function)
    def wrapper(sample, rng):
        return sample | {"image": function(sample["image"])}

    return wrapper


@decorated
def of_image(image):
    return image


class Kept(dict):
    def __init__(self, sample, rng):
        super().__init__(sample)


@each(
    "function",
    [
        None, lambda sample, rng: sample, lambda *args: args[0], lambda s, rng=None, *, k=3: s,
        functools.partial(lambda strength, sample, rng: sample, 3),
        functools.partial(lambda sample, rng, strength: sample, strength=3),
        Augment(), Augment().method, Augment.static, Augment.of_class, of_image, Kept,
        max, np.add, functools.lru_cache(lambda sample, rng: sample),
    ],
)  # fmt: skip
def test_whatever_takes_two_arguments_is_a_transform(function):
    check_transform("transform", function, "sample")
    check_transform("batch_transform", function, "batch")


WRITE = 'write def transform(sample, rng): sample["image"] = ...; return sample'
EXPECTED = "expected transform(sample, rng) -> sample: "


class Resize:
    """As one of torchvision."""

    __module__ = "torchvision.transforms.v2"

    def __call__(self, image):
        return image


@each(
    ("function", "said"),
    [
        (5, f"5 is no function, {EXPECTED}{WRITE}"),
        (functools.partial(functools.partial(pow, 1), 2),
         f"pow(mod=None) cannot be called as transform(sample, rng): {WRITE}"),
        (Resize(), "a torchvision.Resize is of torchvision, expected a function "
         "transform(sample, rng) of a dict of NumPy arrays: it works on torch tensors and PIL "
         'images: write x=dfgen.Image("path", flip="horizontal", crop="random_resized"), or '
         "dfgen.albumentations(A.Compose([...]))"),
        (functools.partial(Resize()), "is of torchvision, expected a function "),
        (Resize, "the class torchvision.Resize is of torchvision, "),
    ],
)  # fmt: skip
def test_what_is_no_transform_is_told_what_to_write(function, said):
    found = message_of(ArgumentError, check_transform, "transform", function, "sample")
    assert said in found and found.startswith("transform=")
    assert not said.endswith(WRITE) or found == f"transform={said}"


def test_the_users_own_lines_are_shown_and_none_of_dfgen():
    def own(sample):
        return sample["none"]

    error = DfgenError("told")
    try:
        called(own, {})
    except KeyError as cause:
        assert with_own_lines(error, cause) is error
    [note] = error.__notes__
    assert note.startswith("In your function:\nTraceback (most recent call last):\n")
    assert note.endswith("KeyError: 'none'") and 'return sample["none"]' in note
    assert with_own_lines(DfgenError("told"), KeyError("never raised")).args == ("told",)
    assert raised(ValueError("two\n  lines")) == "raised ValueError: two lines"


def test_only_the_main_thread_is_interrupted_by_the_user(monkeypatch):
    assert is_ctrl_c(KeyboardInterrupt()) and not is_ctrl_c(ValueError())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(is_ctrl_c, KeyboardInterrupt()).result() is False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert not is_ctrl_c(KeyboardInterrupt())
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_function_that_is_pickled_by_value_knows_the_file_of_its_lines():
    function = pickle.loads(pickled_by_value(lambda sample: sample["none"], protocol=5))
    assert function({"none": 3}) == 3
    assert function.__code__.co_filename == __file__


@each(
    ("names", "function"),
    [
        ("age", float), ("age", abs), ("age", np.sqrt), ("age", str), ("age", lambda *ages: 0),
        ("age", functools.partial(pow, 2)), ("age", lambda age, base=2: age**base),
        (["age"], len), (["a", "b"], max), (["a", "b"], np.hypot), (["a", "b"], complex),
        (["a", "b"], lambda *values: sum(values)),
    ],
)  # fmt: skip
def test_whatever_takes_the_values_of_its_columns_makes_a_column(names, function):
    assert Column(names, function).columns == tuple([names] if isinstance(names, str) else names)


@pytest.mark.parametrize("decode", [len, np.frombuffer, functools.partial(np.frombuffer, offset=4)])
def test_whatever_takes_the_bytes_of_a_file_decodes_it(decode):
    assert Array("path", (4,), decode=decode).decode is decode


@each(
    ("value", "expected"),
    [
        ("flip", "'flip'"), (1.5, "1.5"), ((1, 2), "(1, 2)"), (np.int64(3), repr(np.int64(3))),
        (np.ones(2), "array([1., 1.])"), (np.ones((2, 2)), "a numpy.ndarray of shape (2, 2)"),
        (list(range(60)), "a list of 60"), ({"a": "b" * 200}, "a dict of 1"),
        (Augment, "the class test_user_functions.Augment"), (dict, "the class dict"),
        (of_image, "the function of_image"), (len, "the function len"), (Augment.static,
        "the function Augment.static"), (Augment(), "a test_user_functions.Augment"),
    ],
)  # fmt: skip
def test_messages_call_a_value_as_it_is_written_where_that_is_short(value, expected):
    assert brief(value) == expected
