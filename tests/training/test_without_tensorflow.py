"""dfgen where Keras has one backend or none: `make test-alone` makes environments of each kind."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
import pytest

REPOSITORY = Path(__file__).parents[2]
FRAMEWORKS = {"keras", "tensorflow", "jax", "torch"}


def check(said, missing):
    """Check that both errors say how to install a backend, or to choose another."""
    assert [kind for kind, _ in said] == ["MissingPackageError"] * 2
    for _, text in said:
        assert f'"keras-dfgen[{missing}]"' in text and "KERAS_BACKEND" in text


TELL = """
import json, sys
import dfgen
dfgen.build_manifest
said = []
for _ in range(2):  # as in a notebook, whose cell is run again
    try:
        dfgen.Sequence
    except dfgen.DfgenError as error:
        said.append([type(error).__name__, str(error)])
print(json.dumps(said))
"""
"""What dfgen says as it is about to import Keras, twice."""


@pytest.fixture
def run(tmp_path):
    """Return a function: the last line, as JSON, that a Python of an environment prints."""

    def run(venv, code, backend=None):
        python = sys.executable if venv is None else REPOSITORY / f".venv-{venv}/bin/python"
        if not Path(python).exists():
            pytest.skip(f"no .venv-{venv}: make test-alone makes it")
        variables = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
        variables |= {"KERAS_HOME": f"{tmp_path}/keras", "PYTHONPATH": str(REPOSITORY)}
        variables |= {} if backend is None else {"KERAS_BACKEND": backend}
        command = [python, "-W", "error::UserWarning", "-c", code]
        ended = subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=150
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout.splitlines()[-1])

    return run


@pytest.fixture
def pets(tmp_path):
    """Write forty photographs of two kinds."""
    generator = np.random.default_rng(0)
    for row in range(40):
        path = tmp_path / "pets" / ("cat", "dog")[row % 2] / f"{row}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), generator.integers(0, 256, (60, 80, 3), np.uint8))


def hidden(*names):
    """Return code that hides packages from imports."""
    return f"""
import sys
from importlib.machinery import PathFinder


class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, *where):
        return None if name in {names} else super().find_spec(name, *where)


sys.meta_path = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""


def loaded(code):
    """Return code that prints which frameworks other code has imported."""
    return f"{code}\nimport json, sys; print(json.dumps(sorted({FRAMEWORKS} & sys.modules.keys())))"


@pytest.mark.parametrize("backend", [None, "torch"])
def test_missing_backend_error_names_the_package(run, backend):
    said = run(None, hidden("tensorflow", "jax", "torch") + TELL, backend)
    check(said, backend or "tensorflow")


def test_backend_that_is_missing_beside_another(run):
    check(run(None, hidden("jax", "torch") + TELL, "jax"), "jax")


def test_other_import_errors_of_keras_pass_through(run):
    code = """
try:
    import dfgen.training
except ModuleNotFoundError as error:
    print('["' + type(error).__name__ + '", "' + error.name + '"]')
"""
    assert run(None, hidden("scipy") + code, "numpy") == ["ModuleNotFoundError", "scipy"]


PREDICT_ONLY = """
import json
import keras
import numpy as np
import pandas as pd
import dfgen

frame = pd.DataFrame({"id": range(10), "number": np.arange(10.0), "twice": 2 * np.arange(10.0)})
numbers = dfgen.Sequence(frame, x="number", y="twice", batch_size=4, shuffle=False)
twice = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(2), use_bias=False)
model = keras.Sequential([keras.layers.Reshape((1,)), twice])
model.compile("sgd", "mse")
shuffled = dfgen.Sequence(frame, x="number", y="twice", batch_size=4)
said = []
for method, data in ((model.predict, shuffled), (model.fit, numbers)):
    try:
        method(data, verbose=0)
    except (dfgen.DfgenError, NotImplementedError) as error:
        said.append(str(error))
assert [type(array) for array in numbers[0]] == [np.ndarray] * 2
predicted = model.predict(numbers, verbose=0).ravel().tolist(), model.evaluate(numbers, verbose=0)
print(json.dumps([*predicted, dfgen.predict_frame(model, numbers)["y_pred"].tolist(), *said]))
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("jax") is None, reason="Keras's NumPy backend needs JAX")
def test_backend_that_only_predicts_gets_numpy(run):
    """Keras trains nothing on NumPy and OpenVINO, and says so; the rest is as elsewhere."""
    predicted, loss, rows, shuffled, fit = run(None, PREDICT_ONLY, "numpy")
    assert predicted == rows == [2.0 * row for row in range(10)]
    assert loss == 0
    assert "shuffle=False" in shuffled
    assert fit == "fit not implemented for NumPy backend."


@pytest.mark.alone
def test_environment_without_a_backend(run):
    check(run("none", TELL), "tensorflow")


@pytest.mark.alone
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_default_backend_of_keras_is_missing(run, backend):
    """As whoever installs a backend and does not tell Keras; then the same process goes on."""
    check(run(backend, TELL), "tensorflow")
    choose = f"import os; os.environ['KERAS_BACKEND'] = '{backend}'; dfgen.Sequence"
    assert run(backend, loaded(TELL + choose)) == sorted({"keras", backend})


@pytest.mark.alone
@pytest.mark.parametrize("venv", ["none", "jax", "torch"])
def test_manifests_packs_and_reports_import_no_framework(run, venv, pets, tmp_path):
    code = """
from dfgen.cli import app

for line in (
    "build-manifest pets --pattern {kind}/{id}.jpg --out m.parquet",
    "split m.parquet --split train=0.8 --split val=0.2 --stratify kind",
    "verify m.parquet --decode",
    "report m.parquet --out m.html",
    "pack m.parquet --out packed --image-size 16,16",
    "verify packed",
):
    assert app(line.split(), standalone_mode=False) in (None, 0), line
"""
    assert run(venv, loaded(code)) == []
    assert b"<html" in (tmp_path / "m.html").read_bytes()


README = (REPOSITORY / "README.md").read_text("utf-8")
FIRST_LINES = re.findall(r"```python\n(.*?)```", README, re.S)[0]

TRAIN = f"""
import keras

layers = keras.layers
image = keras.Input((None, None, 3))
pooled = layers.GlobalAveragePooling2D()(layers.Rescaling(1 / 255)(image))
model = keras.Model(image, layers.Dense(2)(pooled))
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
{FIRST_LINES}
train = data["train"]
assert keras.backend.backend() == BACKEND
rows = (df.split == "train").sum()
assert (train.epoch, train.receipt.rows, train.receipt.missing) == (10, rows, 0)
backup = dfgen.BackupAndRestore("backup", train)
model.fit(train, epochs=2, verbose=0, callbacks=[backup])
train.preprocessing().save("pets.keras.json")
model.save("pets.keras")
df.assign(id=range(len(df))).pipe(dfgen.write_manifest, "pets.parquet")
"""

PREDICT = """
import keras
import dfgen

df = dfgen.read_manifest("pets.parquet")
val = dfgen.Sequence(df[df.split == "val"], y="label", image_size=(224, 224), shuffle=False)
rows = dfgen.predict_frame(keras.saving.load_model("pets.keras"), val)
assert rows["id"].tolist() == df["id"][df.split == "val"].tolist()
assert rows["y_pred"].isin(["cat", "dog"]).all() and rows["loss"].notna().all()
"""


@pytest.mark.alone
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_training_and_predicting_with_one_backend_alone(run, backend, pets, tmp_path):
    """The README's lines; then another process predicts with the model that was saved."""
    paths = sorted(tmp_path.glob("pets/*/*.jpg"))
    lines = ["path,label", *(f"{path},{path.parent.name}" for path in paths)]
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    train = TRAIN.replace("BACKEND", repr(backend))
    assert run(backend, loaded(train), backend) == sorted({"keras", backend})
    assert run(backend, loaded(PREDICT), backend) == sorted({"keras", backend})
