"""Each reach into Keras taken away in turn: that alone is lost, and is named; the rest holds."""

import inspect
import re
import sys
import textwrap
from pathlib import Path

import keras
import numpy as np
import pytest
from keras_changes import BASE, EPOCHS, TRAINER, rename
from watching import EAGER, KERAS, orders, watcher

import dfgen
from dfgen.training import keras_private
from dfgen.training.keras_private import REACHES
from dfgen.training.keras_probe import missing

pytestmark = pytest.mark.backend
JAX = keras.backend.backend() == "jax"
LOST = {reach.name: reach.lost for reach in REACHES}
CLASSES = [
    owner
    for owner in keras.Model.__mro__
    if owner.__module__.startswith("keras.") and owner not in (BASE, TRAINER)
]
OPTIMIZERS = [c for c in keras.optimizers.SGD.__mro__ if c.__module__.startswith("keras.")]


def move(patch, name, *owners):
    """Call an attribute or method something else in all that some classes do, and nowhere else."""
    for owner in owners:
        rename(patch, owner, name, f"{name}_moved")
        if name in vars(owner):
            patch.delattr(owner, name)


def hide_arguments(patch):
    """Keras hands on what it was given by other names."""
    source = textwrap.dedent(inspect.getsource(EPOCHS.__init__))
    head, body = source.split("):\n", 1)
    names = [name.split("=")[0].strip() for name in head.split("(")[1].split(",")]
    names = [name for name in names if name not in ("", "self", "x")]
    rest = "".join(f"    {name} = rest.get({name!r})\n" for name in names)
    rest += "    steps_per_execution = steps_per_execution or 1\n"
    body = re.sub(r"\bx=x\b", "x=rest['x']", body)
    known = {**EPOCHS.__init__.__globals__}
    exec(f"def __init__(self, **rest):\n{rest}{body}", known)
    patch.setattr(EPOCHS, "__init__", known["__init__"])
    rename(patch, TRAINER, "class_weight", "weights_of_classes", ["fit"])


def move_state_of_jax(patch):
    """Also where callbacks ask for their model."""
    move(patch, "jax_state_sync", TRAINER)

    def model(self):
        if self._model is not None:
            self._model.jax_state_sync_moved()
        return self._model

    patch.setattr(keras.callbacks.Callback, "model", property(model))


def nowhere(patch, name, instead):
    """What dfgen imports from a private module of Keras is not there."""
    for module in [one for key, one in sys.modules.items() if key.startswith("dfgen.training")]:
        if hasattr(module, name):
            patch.setattr(module, name, instead)


AWAY = {
    "arguments of fit": hide_arguments,
    "EpochIterator._num_batches": lambda p: rename(p, EPOCHS, "_num_batches", "_count"),
    "EpochIterator._interrupted_warning": lambda p: move(p, "_interrupted_warning", EPOCHS),
    "Model._initial_epoch": lambda p: move(p, "_initial_epoch", TRAINER, BASE),
    "Model._symbolic_build": lambda p: move(p, "_symbolic_build", TRAINER, BASE),
    "Optimizer._trainable_variables": lambda p: move(p, "_trainable_variables", *OPTIMIZERS),
    "global_seed_generator": lambda p: nowhere(p, "_global_seed_generator", None),
    "KerasTensor._keras_history": lambda p: nowhere(p, "operation_of", lambda tensor: None),
    "Model._compile_loss": lambda p: move(p, "_compile_loss", TRAINER, BASE, *CLASSES),
    "Model._compile_metrics": lambda p: move(p, "_compile_metrics", TRAINER, BASE, *CLASSES),
    "Loss._fn_kwargs": lambda p: move(p, "_fn_kwargs", keras_private._LossFunctionWrapper),
    "what callbacks count": lambda p: move(p, "wait", keras.callbacks.EarlyStopping),
}
if JAX:
    MESH = keras.distribution.DeviceMesh
    AWAY["Model._jax_state"] = move_state_of_jax
    AWAY["DeviceMesh.backend_mesh"] = lambda p: move(p, "backend_mesh", MESH)
if JAX and KERAS >= (3, 16):
    AWAY["PartialBatchList"] = lambda p: nowhere(p, "PartialBatchList", None)
if keras.backend.backend() == "torch" and KERAS >= (3, 16):
    AWAY["Model.ddp_model"] = lambda p: move(p, "ddp_model", TRAINER)
PLAIN = {"DataAdapter", "EpochIterator"}  # tests/test_plain_passes.py takes these away


def sequence(frame, rows=46, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 2, "y": "label", **options}
    return dfgen.Sequence(frame(rows), **options)


@pytest.fixture(params=AWAY)
def taken(request, monkeypatch):
    """Take one reach away; its name. It is warned of once, and of nothing else."""
    missing.cache_clear()
    with monkeypatch.context() as patch:
        AWAY[request.param](patch)
        with pytest.warns(UserWarning) as warned:
            assert missing() == {request.param}
        yield request.param
    missing.cache_clear()
    told = [str(each.message) for each in warned if "__array__" not in str(each.message)]
    assert told == [
        f"Keras {keras.__version__} is not as dfgen knows it: without {request.param}, "
        f"{LOST[request.param]}. Is there a newer dfgen?"
    ]


def test_each_reach_is_taken_away():
    others = {
        "Model._jax_state",
        "DeviceMesh.backend_mesh",
        "Model.ddp_model",
        "PartialBatchList",
    }
    assert {*AWAY, *PLAIN, *others} == set(LOST)


def rows_of(title):
    """The rows of the table under a title of the page on versions of Keras, without marks."""
    page = Path(__file__).parents[2] / "docs/about/keras-versions.md"
    under = page.read_text("utf-8").split(f"## {title}\n")[1].split("## ")[0]
    lines = [line for line in under.splitlines() if line.startswith("| ")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_the_page_on_versions_says_what_the_table_of_reaches_says():
    told = rows_of("Private parts that dfgen uses")
    plain = "all that the fall-back lacks, below"
    assert [[name, lost] for name, *_, lost in told] == [
        [each.name, plain if each.name in PLAIN else each.lost] for each in REACHES
    ]
    assert all(all(row) and len(row) == 4 for row in told)


def test_this_version_has_what_the_page_says_that_it_has():
    versions = ["3.12", "3.15", "3.16"]
    column = 1 + versions.index(".".join(map(str, KERAS)))
    told = {row[0]: row[column] for row in rows_of("Support by version") if row[0] in LOST}
    assert set(told) == set(LOST)
    missing.cache_clear()
    assert missing() == {name for name, has in told.items() if has not in ("yes", "not asked for")}
    asked = "not asked for" if not keras_private.takes_super_batches() else "yes"
    assert told["PartialBatchList"] == asked


def test_the_rest_holds(frame, taken):
    """Exact passes, receipts, figures, refusals and predictions."""
    model, seq = watcher(run_eagerly=EAGER), sequence(frame, 14)
    monitor = dfgen.InputMonitor()
    if taken == "arguments of fit":
        with pytest.raises(dfgen.DfgenError, match="does not show what fit"):
            model.fit(seq, verbose=0)
        return
    history = model.fit(
        seq, validation_data=sequence(frame, 6), epochs=2, callbacks=[monitor], verbose=0
    ).history
    assert model.seen() == orders(14, range(2))
    assert (seq.receipt.epoch, seq.receipt.rows, seq.receipt.counted) == (1, 14, "taken")
    assert len(history["input_wait"]) == 2
    with pytest.raises(dfgen.DfgenError, match=r"does not reach a dfgen\.Sequence"):
        model.fit(seq, class_weight={0: 1.0}, verbose=0)
    with pytest.raises(dfgen.DfgenError, match="predict on a Sequence that shuffles"):
        model.predict(seq, verbose=0)
    x = keras.Input((4, 4, 3))
    narrow = keras.Model(x, keras.layers.Dense(1)(keras.layers.Flatten()(x)))
    narrow.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(dfgen.DfgenError, match=r"1 unit|2 classes"):
        narrow.fit(seq, verbose=0)


class Stop(Exception):
    pass


def weights_after(frame, tmp_path, stop, epochs=3):
    """Train, in two runs where one stops at a step; return the weights and what went on."""
    if stop is not None:
        seen = []

        def leave(batch, logs):
            seen.append(batch)
            if len(seen) == stop:
                raise Stop

        keras.utils.set_random_seed(3)
        model, seq = watcher(built=True), sequence(frame)
        model.evaluate(sequence(frame, 4), verbose=0)
        backup = dfgen.BackupAndRestore(tmp_path / "backup", seq, save_freq=1, on_sigterm=False)
        last = keras.callbacks.LambdaCallback(on_train_batch_end=leave)
        with pytest.raises(Stop):
            model.fit(seq, epochs=epochs, callbacks=[backup, last], verbose=0)
    keras.utils.set_random_seed(3)
    model, seq = watcher(built=True), sequence(frame)
    model.evaluate(sequence(frame, 4), verbose=0)
    backup = dfgen.BackupAndRestore(tmp_path / "backup", seq, save_freq=1, on_sigterm=False)
    first = 1 if stop is not None and stop > 12 else 0
    begin = {"initial_epoch": first} if "Model._initial_epoch" in missing() else {}
    model.fit(seq, epochs=epochs, callbacks=[backup], verbose=0, **begin)
    return [np.asarray(keras.ops.convert_to_numpy(v)) for v in model.dense.variables]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # before 3.16, as the loss says
@pytest.mark.parametrize("stop", [5, 17])
def test_a_training_goes_on_in_the_middle_of_its_epoch(frame, tmp_path, taken, stop):
    if taken == "arguments of fit":
        return
    whole = weights_after(frame, tmp_path / "whole", None)
    cut = weights_after(frame, tmp_path / "cut", stop)
    assert all(map(np.array_equal, whole, cut))


def test_a_later_epoch_needs_the_argument_of_fit_where_nobody_else_can_say_it(
    frame, tmp_path, monkeypatch
):
    missing.cache_clear()
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="initial_epoch="):
        AWAY["Model._initial_epoch"](patch)
        with pytest.raises(dfgen.DfgenError, match=r"call fit\(\.\.\., initial_epoch=1\)"):
            patch.setitem(globals(), "missing", frozenset)
            weights_after(frame, tmp_path, 17)
    missing.cache_clear()


def test_a_keras_newer_than_any_that_was_tested_says_so_once(frame, monkeypatch):
    missing.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(keras_private, "TESTED", (3, 11))
        with pytest.warns(
            UserWarning, match=r"newer than those .* tested with, up to 3\.11"
        ) as told:
            for _ in range(2):
                watcher().fit(sequence(frame, 8), verbose=0)
    missing.cache_clear()
    assert sum("newer than those" in str(each.message) for each in told) == 1


def test_a_keras_older_than_the_lowest_is_refused_in_words():
    source = Path(keras_private.__file__).read_text("utf-8")
    old = source.replace("LOWEST, TESTED = (3, 12)", "LOWEST, TESTED = (9, 1)")
    assert old != source
    with pytest.raises(ImportError, match=r"dfgen needs Keras 9\.1 or newer, found"):
        exec(compile(old, "keras_private.py", "exec"), {"__name__": "keras_private"})
