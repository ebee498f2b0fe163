"""All that dfgen reaches for in Keras beyond its public API, each with what is lost without it.

Read from Keras 3.12, 3.15 and 3.16, `keras/src/trainers` and `keras/src/backend/*/trainer.py`. What
each gives, and the public way that was tried instead, stands in docs/about/keras-versions.md.
`keras_probe` tries them once: where a newer Keras differs, that one thing is lost.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras

LOWEST, TESTED = (3, 12), (3, 16)
"""The oldest Keras that there are tests for, and the newest."""
VERSION = tuple(map(int, keras.__version__.split(".")[:2]))

if VERSION < LOWEST:
    raise ImportError(
        f"dfgen needs Keras {LOWEST[0]}.{LOWEST[1]} or newer, found {keras.__version__}: "
        "pip install --upgrade keras"
    )


def _found(path: str) -> Any:
    module, _, name = f"keras.src.{path}".rpartition(".")
    try:
        return getattr(__import__(module, fromlist=[name]), name, None)
    except ImportError:
        return None


EpochIterator = _found("trainers.epoch_iterator.EpochIterator")
"""None where Keras has moved it."""
PartialBatchList = _found("trainers.data_adapters.data_adapter_utils.PartialBatchList")
"""None of Keras before 3.16, which asks for no steps in one batch."""
_LossFunctionWrapper = _found("losses.losses.LossFunctionWrapper")
_get_global = _found("backend.common.global_state.get_global_attribute")
_set_global = _found("backend.common.global_state.set_global_attribute")
_global_seed_generator = _found("random.seed_generator.global_seed_generator")
_SEED = "global_seed_generator"
_CHECKPOINT = "best", "_batches_seen_since_last_saving", "_last_batch_seen"
COUNTED_BY = {
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch", "best_weights"),
    "ModelCheckpoint": _CHECKPOINT,
    "OrbaxCheckpoint": (*_CHECKPOINT, "_total_batches_seen"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
    "TensorBoard": ("_global_train_batch", "_global_test_batch"),
}
"""The attributes in which each of Keras's callbacks counts what training depends on."""


class _NoDataAdapter:
    """Stands in where Keras has moved its own."""


DataAdapter: Any = _found("trainers.data_adapters.data_adapter.DataAdapter") or _NoDataAdapter


@dataclass
class Trial:
    """Findings of a `fit`, an `evaluate` and a `predict` of a model that learns nothing."""

    events: tuple[str, ...] = ("",)  # of the data of fit, of its validation, evaluate and predict
    steps: tuple[str, str] = ("", "none")  # then of a fit that was to begin after its last epoch
    arguments: bool = False  # whether callers show what they were given beside the data
    callbacks: bool = False  # whether fit shows a callback its data and its list of callbacks
    model: Any = None  # functional, compiled
    error: str | None = None


class Reach(NamedTuple):
    """One thing of Keras that is not in its public API, by its name there; without it one is lost.

    `is_there` probes for it.
    """

    name: str
    lost: str
    is_there: Callable[[Trial], object]


_EVENTS = (
    r"made fit\(2\), (begin fit, )?reset fit, begin fit, end fit",
    *[r"made evaluate\(None\), (begin evaluate, )?reset evaluate, begin evaluate, end evaluate"]
    * 2,
    r"made predict\(None\), begin predict, end predict",
)
_PLAIN = (
    "a Sequence runs as a plain PyDataset. Every row still comes once an epoch, in another order "
    "each epoch, but slower, and lost are: going on in the middle of an epoch, InputMonitor, "
    "BackupAndRestore, several processes or devices, steps_per_epoch but of repeat(), and the "
    "refusal of models that do not fit; evaluate and predict on a Sequence count as epochs of it, "
    "and disturb one that is under way"
)

REACHES = (
    Reach("DataAdapter", _PLAIN,
          lambda trial: DataAdapter is not _NoDataAdapter and trial.events[0]),
    Reach("EpochIterator", _PLAIN,
          lambda trial: all(map(re.fullmatch, _EVENTS, trial.events)) and trial.callbacks),
    Reach("arguments of fit",
          "fit, evaluate and predict are refused, for class_weight= could be dropped in silence",
          lambda trial: trial.arguments),
    Reach("EpochIterator._num_batches",
          "an epoch that goes on in its middle ends, before Keras 3.16, with its warning that "
          "data ran out; with steps_per_epoch= it is refused",
          lambda trial: trial.steps[0] == "train, test, test, predict, predict"),
    Reach("EpochIterator._interrupted_warning",
          "Keras warns that the input ran out of data, before the error of the row",
          lambda trial: hasattr(EpochIterator, "_interrupted_warning")),
    Reach("Model._initial_epoch",
          "BackupAndRestore goes on in a later epoch only where fit is given its initial_epoch=",
          lambda trial: trial.steps[1] == ""),
    Reach("Model._symbolic_build",
          "BackupAndRestore goes on only with a model that was evaluated once before fit",
          lambda trial: hasattr(keras.Model, "_symbolic_build")),
    Reach("Optimizer._trainable_variables",
          "BackupAndRestore of several optimizers needs them built before fit",
          lambda trial: trained_by(trial.model.optimizer) == trial.model.trainable_variables),
    Reach("global_seed_generator",
          "what keras.random draws without a seed begins anew after a resume",
          lambda trial: _seed_is_where_it_was()),
    Reach("Model._jax_state",
          "on JAX the model must be made anew after an error in evaluate, predict or the first "
          "step of fit, and says so",
          lambda trial: not _on("jax") or hasattr(keras.Model, "jax_state_sync")),
    Reach("DeviceMesh.backend_mesh",
          "keras.distribution on JAX is refused",
          lambda trial: not _on("jax") or _mesh_is_as_it_was()),
    Reach("Model.ddp_model",
          "on torch all processes must call predict_frame, and on a model that can be trained",
          lambda trial: (
              not _on("torch") or VERSION < (3, 16) or hasattr(trial.model, "ddp_model"))),
    Reach("PartialBatchList",
          "with steps_per_execution on JAX batches must be of one shape: drop_remainder=True",
          lambda trial: PartialBatchList is not None or not takes_super_batches()),
    Reach("KerasTensor._keras_history",
          "an activation that cannot go with its loss is not refused",
          lambda trial: operation_of(trial.model.outputs[0]) is trial.model.layers[-1]),
    Reach("Model._compile_loss",
          "targets that do not fit a subclassed model are not refused, and the loss of several "
          "outputs in predict_frame takes all as equally heavy",
          lambda trial: loss_weights(trial.model) == [2.0] and _losses_can_be_watched(trial)),
    Reach("Model._compile_metrics",
          "metrics= that count rows of weight 0 are not named",
          lambda trial: unweighted_metrics(trial.model) == ["mae"]),
    Reach("Loss._fn_kwargs",
          "losses are not compared with heads and labels, and predict_frame has no loss of a "
          "loss given as a function",
          lambda trial: _LossFunctionWrapper is not None
          and arguments_of_loss(keras.losses.BinaryCrossentropy(from_logits=True))["from_logits"]),
    Reach("what callbacks count",
          "the callback of Keras that counts otherwise begins anew after a resume",
          lambda trial: all(map(_is_counted, COUNTED_BY))),
)  # fmt: skip
"""In the order in which they are tried; without one of the first two all is lost that they say."""
PLAIN = frozenset(reach.name for reach in REACHES if reach.lost is _PLAIN)


def takes_super_batches() -> bool:
    """Whether this Keras asks for the batches of several steps at once, on JAX."""
    asked = getattr(DataAdapter, "get_jax_iterator", lambda: None)
    return "super_batch" in inspect.signature(asked).parameters


def _on(backend: str) -> bool:
    return str(keras.backend.backend()) == backend


def _losses_can_be_watched(trial: Trial) -> bool:
    losses, names = trial.model._compile_loss, ("built", "build", "_y_pred_build_structure")
    return all(hasattr(losses, name) for name in names)


def _is_counted(callback: str) -> bool:
    """Whether a callback of Keras uses all the attributes in which it is known to count."""
    classes = getattr(getattr(keras.callbacks, callback, None), "__mro__", ())
    members = (one for owner in classes for one in vars(owner).values())
    functions = filter(inspect.isfunction, members)
    names = {name for function in functions for name in function.__code__.co_names}
    return not classes or names.issuperset(COUNTED_BY[callback])


def has_lost_variables(model: Any) -> bool:
    """Whether Keras has left a model without values of its variables, as it may on JAX."""
    names = "_value", "_initializer"
    return _on("jax") and any(
        all(getattr(v, name, v) is None for name in names) for v in model.variables
    )


def unweighted_metrics(model: Any) -> Any:
    """Return what a model was compiled with as `metrics=`, None if nothing."""
    return getattr(getattr(model, "_compile_metrics", None), "_user_metrics", None)


def shorten(iterator: Any, batches: int, done: int) -> Callable[[Any, bool], None]:
    """Let the EpochIterator of a `fit` that goes on do only what is left of its first epoch.

    Of a pass that has an end so many batches are left, of `steps_per_epoch` so many steps are done.
    What it returns undoes it when that epoch has ended; it must not hold the iterator.
    """
    steps, full = iterator.steps_per_epoch, iterator._num_batches
    if full is not None:
        iterator._num_batches = batches
    if steps is not None:
        iterator.steps_per_epoch = steps - done

    def undo(iterator: Any, pass_has_ended: bool) -> None:
        iterator.steps_per_epoch = steps
        if pass_has_ended:
            iterator._num_batches = full

    return undo


def on_interruption(iterator: Any, act: Callable[[], None]) -> None:
    """Have an EpochIterator that runs out of data do something else than warn."""
    iterator._interrupted_warning = act


def begin_at(model: keras.Model, epoch: int | None) -> None:
    """Have `fit` begin at an epoch; None: at the one that it was given."""
    model._initial_epoch = epoch


def symbolic_build(model: keras.Model, batch: Any) -> None:
    """Make the variables of a model, its loss and its metrics, given the specs of a batch."""
    model._symbolic_build(data_batch=batch)


def trained_by(optimizer: Any) -> list[Any]:
    """Return the variables that an optimizer was built for."""
    return list(optimizer._trainable_variables)


def seed_state() -> Any:
    """Return the variable of Keras's global seed generator; None if there is no generator yet."""
    generator = _get_global(_SEED)
    return None if generator is None else generator.state


def set_seed_state(state: Any) -> None:
    """Put Keras's global seed generator into a state."""
    _global_seed_generator().state.assign(state)


def random_seed() -> Any:
    """Return what `keras.utils.set_random_seed` was given; None if it was not called."""
    return None if _get_global is None else _get_global("global_random_seed")


def _seed_is_where_it_was() -> bool:
    before, other = _get_global(_SEED), object()
    _set_global(_SEED, other)
    try:
        return _global_seed_generator() is other
    finally:
        _set_global(_SEED, before)


def _mesh_is_as_it_was() -> bool:
    names = keras.distribution.list_devices()[:1]
    devices = mesh_devices(keras.distribution.DeviceMesh((1,), ["batch"], names))
    return [type(device.process_index) for device in devices.flat] == [int]


def mesh_devices(mesh: Any) -> Any:
    """Return the devices of a `keras.distribution.DeviceMesh` on JAX, an array of them."""
    return mesh.backend_mesh.devices


def operation_of(tensor: Any) -> Any:
    """Return the layer, model or operation that made a KerasTensor; None where it is not known."""
    history = getattr(tensor, "_keras_history", None)
    return getattr(history, "operation", None)


def arguments_of_loss(loss: Any) -> Any:
    """Return what a loss class of Keras tells its function; None where it is not known."""
    return getattr(loss, "_fn_kwargs", None)


def as_loss(given: Any) -> Any:
    """Return a loss as `compile` takes it as the `keras.Loss` that Keras makes of it; or None."""
    found = keras.losses.get(given)
    if found is None or isinstance(found, keras.losses.Loss):
        return found
    return None if _LossFunctionWrapper is None else _LossFunctionWrapper(found)


def loss_weights(model: Any) -> Any:
    """Return what a model was compiled with as `loss_weights=`, None if nothing."""
    return getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)


def built_outputs(model: Any) -> Any:
    """Return symbols of the outputs that losses were built for, nested; None if not, or of one."""
    return getattr(getattr(model, "_compile_loss", None), "_y_pred_build_structure", None)
