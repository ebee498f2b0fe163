"""Passes over the rows, as Keras sees a Sequence, and when one counts as an epoch.

Keras takes exactly `num_batches` items and on torch and JAX never asks for one more; it takes
batches to build a model, and makes iterators that it never uses. So an epoch counts when `fit`
says that its steps are done, and a pass learns which epoch it is when its first batch is asked for.
"""

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import keras

from dfgen.errors import ArgumentError, DfgenError, brief, did_you_mean
from dfgen.loading.loader import Loader
from dfgen.loading.metrics import Metrics
from dfgen.loading.order.plan import Plan
from dfgen.loading.receipts import Receipt
from dfgen.loading.state import OF_RANK, State
from dfgen.spec import IntArray
from dfgen.system import whole
from dfgen.training.backends import INFINITE, TorchBatches, tensorflow_dataset
from dfgen.training.checks.class_indices import check_trained, note_trained
from dfgen.training.checks.loss_axes import fit_to_losses
from dfgen.training.checks.losses import check_loss
from dfgen.training.checks.model_check import (
    check_arguments,
    check_model,
    check_variables,
    check_weighing,
    check_whole,
    warn_of_metrics,
)
from dfgen.training.checks.pairing import paired
from dfgen.training.checks.scale_check import warn_of_scaling_twice
from dfgen.training.checks.validation_check import (
    check_validation,
    validation_of,
    warn_of_same_rows,
)
from dfgen.training.device_division import (
    check_not_empty,
    check_ranks,
    connected,
    divide,
    mesh_division,
)
from dfgen.training.fit_pass import Pass, PlainPasses, Run
from dfgen.training.keras_calls import Call, call_by_keras, refuse_adapt
from dfgen.training.keras_private import DataAdapter, shorten
from dfgen.training.keras_probe import falls_back, lacks, refuse_if_unseen
from dfgen.training.layout import Layout, SequenceView
from dfgen.training.progress import Progress
from dfgen.training.ranks import alike, compare


class Passes(keras.utils.PyDataset, DataAdapter):
    """A PyDataset that is its own DataAdapter, so that Keras's worker pool is never used.

    Where Keras is not as dfgen knows it, it serves as a plain PyDataset: see `PlainPasses`.
    Of an endless one a pass goes on into the next epoch.
    """

    _arguments: tuple[str, ...] = ()
    """Names of the arguments of `Sequence`, which are told as it is defined."""

    def __init__(
        self,
        loader: Loader,
        progress: Progress,
        layout: Layout,
        shuffle: bool,
        endless: bool,
        state: Callable[[], State] | None = None,
    ) -> None:
        super().__init__()
        self._loader = loader
        self._progress = progress
        self._layout = layout
        self._shuffle = shuffle
        self._endless = endless
        self._part: tuple[range, int] | None = None
        """As of a Run."""
        self._runs: weakref.WeakKeyDictionary[Any, Run] = weakref.WeakKeyDictionary()
        self._plain = PlainPasses(loader, progress, endless)
        self._state = state  # of the Sequence that this is a view of

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that failed: say how
                return object.__getattribute__(self, name)
            fault = f"{type(self).__name__!r} object has no attribute {name!r}"
            if "_loader" not in vars(self):
                fault += (
                    ", as __init__ of dfgen.Sequence has not run: a subclass calls "
                    "super().__init__(df, ...). Batches of your own making are a "
                    "keras.utils.PyDataset"
                )
            raise AttributeError(fault, name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set what is private, or what a class that a user derives has of its own."""
        kinds = type(self).__mro__
        owner = next((kind for kind in kinds if name in vars(kind)), None)
        is_argument = name in self._arguments and owner is None and "_loader" in vars(self)
        module = (owner or kinds[0]).__module__.partition(".")[0]
        if name.startswith("_") or not (is_argument or module in ("dfgen", "keras", "builtins")):
            object.__setattr__(self, name, value)
            return
        advice = f": make a new one, dfgen.Sequence(df, ..., {name}={brief(value)})"
        if name not in self._arguments:
            near = did_you_mean(name, self._arguments) if owner is None else ""
            advice = f".{near} Its arguments are given as it is made: dfgen.Sequence(df, ...)"
        fault = f"{name} = {brief(value)} would change nothing in a Sequence that is made already"
        raise AttributeError(fault + advice, name=name, obj=self)

    @property
    def progress(self) -> Progress:
        """How far training has come: one for a Sequence and its `repeat()`."""
        return self._progress

    @property
    def workers(self) -> int:
        """Threads or processes that make batches; 0 = the calling thread."""
        return 1 if falls_back() else self._loader.workers  # for one, Keras starts no pool

    @property
    def use_multiprocessing(self) -> bool:
        """Whether the workers are processes."""
        return not falls_back() and self._loader.use_multiprocessing

    @property
    def max_queue_size(self) -> int:
        """Batches ready or in the making, as many as were asked for."""
        return self._loader.max_queue_size

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels: not what Keras does with it here. Workers start where it lands."""
        return {**vars(self), "_runs": None, "_plain": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _runs=weakref.WeakKeyDictionary())
        self._plain = PlainPasses(self._loader, self._progress, self._endless)

    @property
    def num_batches(self) -> int | None:
        """Batches of a pass; None where passes have no end."""
        call, plan = call_by_keras(self), self._loader.plan
        if falls_back():
            self._plain.check(self)
        elif call is not None:
            if call.makes_iterator:
                refuse_if_unseen()
                self._check_with_others(call)
            plan = self._run(call).plan
        return None if self._endless else len(plan if self._part is None else self._part[0])

    def _check_with_others(self, call: Call) -> None:
        """Check a call; where processes train together all check it, and compare themselves."""
        if call.purpose != "fit" or connected() is None or not self._is_shared:
            self._check(call)
            return
        refusal: DfgenError | None = None
        try:
            self._check(call)
        except DfgenError as error:
            refusal = error
        compare(self._told(call), None if refusal is None else str(refusal))
        if refusal is not None:
            raise refusal

    @property
    def _is_shared(self) -> bool:
        return self.shard[1] > 1 or mesh_division() is not None

    def _told(self, call: Call) -> dict[str, Any]:
        """Return what processes that train together must have alike, and their parts."""
        state = getattr(self, "state_dict", self._state)
        order = {} if state is None else {k: v for k, v in state().items() if k not in OF_RANK}
        shard = self.shard if mesh_division() is None else None
        return {"shard": shard, **order, **alike(call.model, self._loader)}

    def _check(self, call: Call) -> None:
        check_arguments(call, self._shuffle, self._endless)
        if call.purpose == "predict":
            check_whole(self._loader.given)
        if call.purpose is None:
            return
        check_variables(call.model)
        view = view_of(self, call.model, call.purpose)
        check_model(call, view)
        check_loss(call, view)
        if call.purpose in ("fit", "evaluate") and self._layout.y is not None:
            padded = self._divided(call)[0].tail == "pad"
            warn_of_metrics(call.model, view, padded)
            check_weighing(view, padded)
        if (other := validation_of(call, Passes)) is not None:
            validated = replace(call, purpose="evaluate")
            tested = view_of(other, call.model, "evaluate")
            check_validation(call, view, tested)
            check_model(validated, tested, "validation_data: ")
            check_loss(validated, tested, "validation_data: ")
            warn_of_same_rows(view, tested)
        if call.purpose == "fit":
            warn_of_scaling_twice(call.model, view)
            check_ranks(call.model, self._loader.given)
            self._divided(call)
        if call.purpose != "predict":
            check_trained(call.model, view, call.purpose)

    def _divided(self, call: Call) -> tuple[Plan, Layout]:
        """Return how batches are divided over processes and devices, and nested, for Keras."""
        if call.purpose is None:
            return self._loader.plan, self._layout
        weighable = self._layout.y is not None
        plan, divided = divide(self._loader.given, call, weighable, self._endless)
        weighted = self._layout.weighted or (divided and weighable)
        layout = view_of(self, call.model, call.purpose).layout
        return plan, replace(layout, weighted=weighted)

    @property
    def epoch(self) -> int:
        """Passes completed since the start of training; `evaluate` and `predict` do not count."""
        return self._progress.place.epoch

    @property
    def shard(self) -> tuple[int, int]:
        """(index, count) of this process among those that share each batch."""
        return self._loader.plan.shard

    @property
    def left_out(self) -> int:
        """Rows that `fit` leaves out at the end of each epoch, other ones each time.

        0, unless `drop_remainder` asks for it or processes or devices share each batch. Devices are
        known once `fit` has begun.
        """
        return self._loader.plan.left_out

    @property
    def receipt(self) -> Receipt | None:
        """Which rows were taken in the last epoch that was completed; None before."""
        return self._progress.receipt

    def row_counts(self, epoch: int | None = None) -> IntArray:
        """Return how often each row of `manifest` comes in an epoch, None for that of now.

        Other than 1 where rows are drawn by classes or weights, and 0 for rows that are left out.
        It is what the order holds; that the model took them so is for `receipt` to say.
        """
        epoch = self.epoch if epoch is None else whole("epoch", epoch)
        plan = self._progress.plan().of(epoch)
        return self._loader.row_order.counts(epoch, plan.rows - plan.left_out)

    @property
    def metrics(self) -> Metrics:
        """What the workers have done since the Sequence was made: seconds by stage, counts."""
        return self._loader.metrics

    @property
    def element_spec(self) -> Any:
        """Shape and dtype of every array of a batch, known without reading a file.

        A `keras.KerasTensor` for each, nested as the batches are: (x,), (x, y) or (x, y, weights);
        the batch axis is None, text and bytes are `string`. Called with them, a model is built, or
        tells that they do not fit.

        Example:
            >>> model(seq.element_spec[0]).shape  # doctest: +SKIP
            (None, 10)
        """
        return self._layout.element_spec(self._loader.specs)

    @property
    def batch_size(self) -> int:
        """Rows of a batch."""
        return self._loader.batch_size

    def __getitem__(self, index: int) -> Any:
        """Return batch `index` of the current epoch; any index, any order, any thread."""
        self._check_index(index)
        refuse_adapt(self._layout.x)
        return self._layout.batch(self._plain.batch(index))

    def rows(self, index: int) -> IntArray:
        """Return which rows of the manifest batch `index` of the current epoch holds, in order.

        No batch is made for it.

        Example:
            >>> seq.manifest.iloc[seq.rows(0)]  # doctest: +SKIP
        """
        self._check_index(index)
        epochs, step = divmod(index, len(self._loader))
        epoch = self.epoch + epochs * self._endless
        return self._loader.rows(epoch, step, self._progress.plan()).copy()

    def ids(self, index: int) -> list[object]:
        """Return the ids of the rows of batch `index` of the current epoch, in order.

        Example:
            >>> dict(zip(seq.ids(3), model.predict_on_batch(seq[3][0])))  # doctest: +SKIP
        """
        return self._loader.order.ids_at(self.rows(index))

    def _check_index(self, index: int) -> None:
        check_not_empty(self._loader.plan)
        length = len(self._loader)
        if not hasattr(index, "__index__"):
            advice = "write seq[0]"
            if isinstance(index, slice):
                steps = range(*index.indices(length))
                advice = f"write [seq[i] for i in {steps}]"
            elif isinstance(index, str):
                advice = f'a column is seq.manifest["{index}"]'
            raise TypeError(
                f"seq[{brief(index)}] is no batch, expected a whole number below {length}: {advice}"
            )
        if not self._endless and not -length <= index < length:
            raise IndexError(f"batch {index} does not exist: an epoch has {length} batches")

    def __iter__(self) -> Iterator[Any]:
        refuse_adapt(self._layout.x)
        return self.new_pass(self._run(None))

    def new_pass(self, run: Run, at_once: int | None = None) -> Iterator[Any]:
        """Return a pass of NumPy arrays for one run, maybe of so many steps at once."""
        if run.plain:
            return map(self.__getitem__, self._plain.indices())
        check_not_empty(run.plan)
        return Pass(self._loader, self._progress, run, self._endless, at_once)

    def get_numpy_iterator(self) -> Iterator[Any]:
        """Return a pass of NumPy arrays."""
        return self.new_pass(self._run(call_by_keras(self)))

    def get_jax_iterator(self, super_batch: int | None = None) -> Iterator[Any]:
        """Return a pass of NumPy arrays, which JAX reads in place, maybe of several steps each."""
        return self.new_pass(self._run(call_by_keras(self)), super_batch)

    def get_torch_dataloader(self) -> TorchBatches:
        """Return an iterable of passes of torch tensors."""
        return TorchBatches(partial(self.new_pass, self._run(call_by_keras(self))))

    def get_tf_dataset(self) -> Any:
        """Return a tf.data.Dataset of passes, of known length but after `load_state_dict`."""
        run = self._run(call_by_keras(self))
        length = None
        if run.keras_iterator is None and not run.plain:
            place = self._progress.place
            run.exact = not (self._endless or (self._progress.resumed and place.under_way))
            length = INFINITE if self._endless else len(run.plan) if run.exact else None
        return self._dataset(run, length)

    def _dataset(self, run: Run, length: int | None) -> Any:
        return tensorflow_dataset(self, run.layout.specs(self._loader.specs), run, length)

    def _run(self, call: Call | None) -> Run:
        """Return the run of the EpochIterator that calls; its first call settles the division."""
        if falls_back():
            return Run(self._loader.plan, self._layout, plain=True)
        if call is None:
            return Run(self._loader.plan, self._layout)
        if call.iterator not in self._runs:
            divided, reference = self._divided(call), weakref.ref(call.iterator)
            run = Run(*divided, reference, call.steps, call.steps_per_execution, part=self._part)
            run.driver = "build" if call.purpose in ("fit", "evaluate") else None
            if call.purpose == "fit":
                self._loader.plan = run.plan
            self._runs[call.iterator] = run
        return self._runs[call.iterator]

    def on_epoch_begin(self) -> None:
        """Keras begins a pass."""
        call = call_by_keras(self)
        if falls_back():
            self._plain.begin()
        elif call is not None:
            run = self._run(call)
            builds = call.purpose in ("fit", "evaluate") and not run.is_reset
            run.driver = "build" if builds else call.purpose
            if run.driver == "fit":
                self._progress.begin_epoch(self._first_steps(run, call))

    def _first_steps(self, run: Run, call: Call) -> int:
        progress, length = self._progress, len(self._loader)
        done, progress.steps_done = progress.steps_done, 0
        left = length
        if progress.resumed and not self._endless:
            left = len(progress.plan().of(progress.place.epoch)) - progress.place.step
        if not lacks("EpochIterator._num_batches"):
            if done or left < length:
                run.undo = shorten(call.iterator, left, done)
        elif done and run.steps is not None:
            raise ArgumentError(
                f"with Keras {keras.__version__} training cannot go on after {done} of the "
                f"{run.steps} steps of steps_per_epoch=: leave that out, or go on in a loop of "
                "your own"
            )
        return left if run.steps is None else run.steps - done

    def on_epoch_end(self) -> None:
        """Keras has ended a pass, or is about to begin its first."""
        call = call_by_keras(self)
        if falls_back():
            self._plain.end()
        elif call is not None:
            self._end(self._run(call), call)

    def _end(self, run: Run, call: Call) -> None:
        several = keras.backend.backend() == "torch" and run.steps_per_execution > 1
        if several and run.driver == "fit" and self._progress.fit.waiting:
            return  # the last batches were fetched, no step was taken with them: Keras calls again
        ended, run.driver = run.driver, None  # Keras may call twice
        failure, run.failure = run.failure, None
        if call.is_reset:
            run.is_reset = True
            if call.purpose == "fit":
                self._progress.begin_fit(self._endless)
        elif failure is not None:
            raise failure
        elif ended == "fit":
            self._progress.end_epoch(self._endless)
            note_trained(call.model, SequenceView(self._loader, run.layout))
            if run.undo is not None:
                run.undo(call.iterator, self._progress.place.step == 0)


def view_of(passes: Passes, model: Any = None, purpose: str | None = None) -> SequenceView:
    """Return the parts of a Sequence, nested for what a model is to do, if one is given."""
    loader, layout = passes._loader, passes._layout
    if model is not None:
        layout = paired(layout, loader.reader.features, model, purpose)
    if purpose in ("fit", "evaluate"):
        layout = fit_to_losses(layout, loader.reader.features, model, purpose)
    return SequenceView(loader, layout, passes._endless, vars(passes).get("_binding"))
