"""What Keras, and a loop of the user, read of a Sequence."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Never

import keras
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from dfgen.errors import ArgumentError, DfgenError, brief, whole
from dfgen.loading.loader import Loader
from dfgen.loading.metrics import Metrics
from dfgen.loading.order.epochs import Plan
from dfgen.loading.receipts import OF_RANK, Receipt, State
from dfgen.spec import IntArray
from dfgen.training.backends import tensorflow_dataset
from dfgen.training.checks.check import check
from dfgen.training.checks.model_outputs import nested
from dfgen.training.keras_loop import (
    Loop,
    Run,
    called_by_keras,
    is_training,
    loop_of,
    unknown_keras,
)
from dfgen.training.passes import Layout, Pass, Progress, SequenceView, UserLoop
from dfgen.training.processes import (
    alike,
    check_not_empty,
    check_ranks,
    compare,
    connected,
    divide,
    mesh_division,
)


class KerasData(keras.utils.PyDataset, DataAdapter):
    """Batches for Keras and for loops of the user: a Sequence, or its endless `repeat()`.

    It is its own DataAdapter, so Keras never starts its worker pool. For each loop of Keras a
    `Run` replaces it: see `keras_loop`.
    """

    def __init__(
        self,
        loader: Loader,
        progress: Progress,
        layout: Layout,
        endless: bool,
        state: Callable[[], State] | None = None,
    ) -> None:
        super().__init__()
        self._loader, self._layout = loader, layout
        self._state = state  # of the Sequence that this is a view of
        self.progress, self.endless = progress, endless

    @property
    def workers(self) -> int:
        """Threads or processes that make batches; 0 = the calling thread."""
        return self._loader.workers

    @property
    def use_multiprocessing(self) -> bool:
        """Whether the workers are processes."""
        return self._loader.use_multiprocessing

    @property
    def max_queue_size(self) -> int:
        """Batches that are ready or in progress at most."""
        return self._loader.max_queue_size

    @property
    def num_batches(self) -> int | None:
        """Batches of a pass; None for `repeat()`."""
        if (loop := loop_of(self)) is None:
            return None if self.endless else len(self._loader.plan)
        if loop.purpose == "fit" and is_training(self.progress):
            raise ArgumentError(
                "fit is running on this Sequence, and a second fit would repeat and miss rows: "
                "make another dfgen.Sequence for it"
            )
        plan, layout = self._checked(loop)
        if loop.purpose == "fit":
            self._loader.plan = plan
        loop.iterator.data_adapter = run = Run(self, loop, self._loader, plan, layout)
        return run.num_batches

    def get_numpy_iterator(self) -> Iterator[Any]:
        """Return an iterator over batches. Keras calls this method of a Run instead."""
        if called_by_keras():
            self.get_jax_iterator()
        return iter(self)

    def get_jax_iterator(self, *_: Any) -> Never:
        """Raise: Keras calls this method of a Run."""
        raise unknown_keras("it reads the Sequence itself")

    get_torch_dataloader = get_jax_iterator

    def _checked(self, loop: Loop) -> tuple[Plan, Layout]:
        """Check a loop, and compare processes that train together; return how batches are divided.

        All of these processes compare themselves, also if one of them raises.
        """
        shared = self.shard[1] > 1 or mesh_division() is not None
        if loop.purpose != "fit" or connected() is None or not shared:
            return self._check(loop)
        checked: tuple[Plan, Layout] | DfgenError
        try:
            checked = self._check(loop)
        except DfgenError as error:
            checked = error
        state = self._state or self.state_dict
        order = {name: value for name, value in state().items() if name not in OF_RANK}
        shard = self.shard if mesh_division() is None else None
        set_up = {"shard": shard, **order, **alike(loop.model, self._loader)}
        compare(set_up, str(checked) if isinstance(checked, DfgenError) else None)
        if isinstance(checked, DfgenError):
            raise checked
        return checked

    def _check(self, loop: Loop) -> tuple[Plan, Layout]:
        """Check a loop; return how batches are divided over processes and devices, and nested."""
        view, val = view_of(self, loop.model, loop.purpose), loop.validation
        val = view_of(val, loop.model, "evaluate") if isinstance(val, KerasData) else None
        weighable = self._layout.y is not None
        plan, divided = divide(self._loader.given, loop, weighable, self.endless)
        check(loop, view, val, plan.tail == "pad")
        if loop.purpose == "fit":
            check_ranks(loop.model, self._loader.given)
        weighted = self._layout.weighted or (divided and weighable)
        return plan, replace(view.layout, weighted=weighted)

    @property
    def epoch(self) -> int:
        """Passes completed since the start of training; `evaluate` and `predict` do not count."""
        return self.progress.start.epoch

    @property
    def shard(self) -> tuple[int, int]:
        """(index, count) of this process among those that share each batch."""
        return self._loader.plan.shard

    @property
    def left_out(self) -> int:
        """Rows that `fit` leaves out at the end of each epoch, other rows each time.

        0, unless `drop_remainder` is set or processes or devices share each batch. The number of
        devices is known once `fit` has begun.
        """
        return self._loader.plan.left_out

    @property
    def receipt(self) -> Receipt | None:
        """The rows that were taken in the last epoch that has ended; None before."""
        return self.progress.receipt

    def row_counts(self, epoch: int | None = None) -> IntArray:
        """Return how often each row of `manifest` is drawn in an epoch.

        The count is 1 unless rows are drawn by class or weight, and 0 for rows that are left
        out. `receipt` records which rows the model has taken.

        Args:
            epoch: the epoch. Default: the current one.
        """
        epoch = self.epoch if epoch is None else whole("epoch", epoch)
        return self._loader.epochs().counts(epoch, len(self._loader.reader))

    @property
    def metrics(self) -> Metrics:
        """The work of the workers since the Sequence was made: seconds per stage, counts."""
        return self._loader.metrics

    @property
    def element_spec(self) -> Any:
        """Shape and dtype of the arrays of a batch, known without reading a file.

        A `keras.KerasTensor` for each array, nested as the batches are: (x,), (x, y) or
        (x, y, weights). The batch axis is None; text and bytes are `string`. Call a model with
        them to build it.

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
        return self._layout.batch(self._loader.batch(*self._position(index)))

    def rows(self, index: int) -> IntArray:
        """Return the rows of the manifest in batch `index` of the current epoch, in order.

        The batch is not made.

        Example:
            >>> seq.manifest.iloc[seq.rows(0)]  # doctest: +SKIP
        """
        return self._loader.epochs().batch(*self._position(index)).rows.copy()

    def ids(self, index: int) -> list[object]:
        """Return the ids of the rows of batch `index` of the current epoch, in order.

        Example:
            >>> dict(zip(seq.ids(3), model.predict_on_batch(seq[3][0])))  # doctest: +SKIP
        """
        return self._loader.ids_at(self.rows(index))

    def _position(self, index: int) -> tuple[int, int]:
        """Return the epoch and step of batch `index`."""
        check_not_empty(self._loader.plan)
        length = len(self._loader)
        if not hasattr(index, "__index__"):
            raise TypeError(
                f"seq[{brief(index)}] is no batch, expected a whole number below {length}: a "
                "column is seq.manifest[name], several batches are [seq[i] for i in range(3)]"
            )
        if not self.endless and not -length <= index < length:
            raise IndexError(f"batch {index} does not exist: an epoch has {length} batches")
        epochs, step = divmod(index, length)
        return self.epoch + epochs * self.endless, step

    def __iter__(self) -> Iterator[Any]:
        progress = self.progress
        consumer = UserLoop(progress, self.endless, lambda: not is_training(progress))
        check_not_empty(self._loader.plan)
        return Pass(self._loader, self._loader.plan, self._layout, consumer)

    def get_tf_dataset(self) -> Any:
        """Return a tf.data.Dataset of passes; its length is known unless a state was loaded."""
        if called_by_keras():
            self.get_jax_iterator()
        progress, plan = self.progress, self._loader.plan
        length: int | None = -1 if self.endless else len(plan)  # -1: infinite
        if progress.resumed and progress.start.step:
            length = None
        return tensorflow_dataset(self, iter, self._layout.specs(self._loader.specs), length)


def view_of(data: KerasData, model: Any = None, purpose: str | None = None) -> SequenceView:
    """Return the parts of a Sequence, nested for what a model is to do if one is passed."""
    loader, layout = data._loader, data._layout
    if model is not None:
        layout = nested(layout, loader, model, purpose or "predict")
    return SequenceView(loader, layout, data.endless, vars(data).get("_binding"))
