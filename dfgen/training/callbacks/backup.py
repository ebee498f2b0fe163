"""BackupAndRestore: a training that was stopped continues at the next step."""

import copy
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Never

import keras

from dfgen.errors import ArgumentError
from dfgen.training.callbacks.backup_files import (
    Generations,
    NamedArrays,
    check_optimizers,
    restore,
    set_states,
    snapshot,
    states_of,
)
from dfgen.training.keras_data import view_of
from dfgen.training.keras_loop import Fit, running_fit
from dfgen.training.passes import Progress
from dfgen.training.processes import by_rank, connected, gathered, mesh_division
from dfgen.training.sequence import Sequence


class BackupAndRestore(keras.callbacks.Callback):
    """Saves backups of a training, and continues after the newest one.

    Run the same program again after a crash or a kill: `fit` continues in the middle of its epoch
    and trains once on each row that is left; later epochs are whole. On a CPU the final weights are
    those of an uninterrupted training, bit for bit, unless the batch size or the number of
    processes has changed, as it may for `Sequence.load_state_dict`.

    A backup holds all variables, seed generators, torch's generators, the position in the data, and
    the state of Keras's callbacks, and of yours with `get_state()`, which returns a value for JSON,
    and `set_state(state)`. It lacks generators of Python, NumPy, and `keras.random` without a seed.
    Optimizers must be attributes of the model, and built unless `compile` was given them.

    Backups are written whole, checked when they are read, and deleted when `fit` returns. Two are
    kept: if the newest is damaged, the one before it is used. In the epoch that is continued,
    callbacks count batches from 0. Several processes need one folder that all of them share.

    Args:
        backup_dir: a folder for these backups only; created if it does not exist.
        sequence: the `dfgen.Sequence` that `fit` trains on, directly or as `repeat()`.
        save_freq: `"epoch"` saves at the end of each epoch, a number after so many steps. A backup
            that is due with the last step of an epoch is saved at the end of that epoch.
        on_sigterm: on SIGTERM save when the next step begins or the epoch ends, call the program's
            own handler, and exit with status 143. Several processes save and exit together when the
            next backup is due: give `save_freq` a number. A second SIGTERM ends the process at
            once. Without effect if `fit` runs outside of the main thread.

    Raises:
        ArgumentError: `fit` trains on other data, the backup is of another model or Sequence, or
            an optimizer is not built.
        WriteError: a backup cannot be written, or a live process saves in the folder.

    Example:
        >>> backup = dfgen.BackupAndRestore("backup", seq, save_freq=100)  # doctest: +SKIP
        >>> model.fit(seq, epochs=10, callbacks=[backup])  # doctest: +SKIP
    """

    def __init__(
        self,
        backup_dir: str | os.PathLike[str],
        sequence: Sequence,
        save_freq: str | int = "epoch",
        on_sigterm: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(sequence, Sequence):
            raise ArgumentError(f"sequence must be a dfgen.Sequence, not {type(sequence).__name__}")
        if save_freq != "epoch" and (type(save_freq) is not int or save_freq < 1):
            raise ArgumentError(f'save_freq={save_freq!r} must be "epoch" or a number from 1 on')
        self._folder, self._sequence = backup_dir, sequence
        self._save_freq, self._on_sigterm = save_freq, on_sigterm

    def __deepcopy__(self, memo: dict[int, Any]) -> "BackupAndRestore":
        """Return a copy with the same Sequence: KerasTuner makes one for each trial."""
        return copy.copy(self)

    def on_train_begin(self, logs: Any = None) -> None:
        """Move this callback behind all others; when they have begun, resume."""
        progress = self._sequence.progress
        if (fit := _fit_on(progress)) is None:
            raise ArgumentError(
                "fit trains on other data than the Sequence of BackupAndRestore: pass the same "
                "dfgen.Sequence to both"
            )
        callbacks = fit.callbacks.callbacks
        if callbacks[-1] is not self and callbacks.count(self) == 1:
            callbacks.append(self)  # so Keras calls this method again
            return
        self._others = [callback for callback in callbacks if callback is not self]
        fit.callbacks.callbacks = [*self._others, self]
        index, count = self._sequence.shard
        shared = count > 1 or mesh_division() is not None
        self._rank, self._ranks = (connected() if shared else None) or (0, 1)
        self._gathered = gathered if self._ranks > 1 else lambda value: [value]
        self._saves = (index if self._ranks == 1 else self._rank) == 0
        self._steps = self._unsaved = 0  # of this epoch in this fit; since the last backup
        self._captured: Any = None  # facts and arrays of the next backup
        self._restored: Any = None  # those of the backup that was loaded
        check_optimizers(self.model)
        self._backups = Generations(self._folder)
        if self._saves:
            self._backups.lock.acquire()
        backup = self._backups.load()
        place = f"{os.path.basename(backup[0])}, {_place(backup[1])}" if backup else "no backup"
        if len({*(places := self._gathered(place))}) > 1:
            raise ArgumentError(
                f"the processes that train together see other backups in {self._backups.folder}: "
                f"{by_rank(places)}. Give a backup_dir that all of them share"
            )
        if backup is not None:
            self._resume(fit.data, *backup)
        self._sigterm = _Sigterm(lambda: _fit_on(progress) is not None)
        if self._on_sigterm:
            self._sigterm.watch()

    def _resume(self, data: Any, path: str, facts: dict[str, Any], arrays: NamedArrays) -> None:
        print(f"dfgen: resuming in {_place(facts)}, from {path}", flush=True)
        sequence, steps = self._sequence, self.params["steps"]
        state = _state_of_rank(facts["states"], self._rank, self._ranks)
        sequence.load_state_dict(state)
        step = min(facts["step"] * state["batch_size"] // sequence.batch_size, steps - 1)
        is_next = sequence.epoch > state["epoch"]
        if facts["step"] and is_next and data is sequence and steps == len(sequence):
            facts["epoch"], step = facts["epoch"] + 1, 0  # the rows that are left fill no batch
        facts["step"] = sequence.progress.done = step
        # TensorFlow creates variables of metrics, and of unbuilt models, in the first step
        view = view_of(sequence, self.model, "fit")
        self.model._symbolic_build(data_batch=view.layout.element_spec(view.loader.specs))
        self.model._initial_epoch = facts["epoch"]  # as Keras's own BackupAndRestore does
        self._restored = facts, arrays
        self._restore(facts, arrays)

    def _restore(self, facts: dict[str, Any], arrays: NamedArrays) -> None:
        restore(self.model, arrays)
        set_states(self._others, facts["callbacks"], arrays)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Undo what callbacks did as an epoch began that had begun before."""
        self.model._initial_epoch = None
        self._epoch, self._steps, self._before = epoch, 0, 0
        if self._restored is not None and (step := self._restored[0]["step"]):
            self._before = step
            self._restore(*self._restored)
        self._restored = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Write the backup that is due: only now is the epoch known to continue.

        A backup between the last step of an epoch and its end would lose the validation.
        """
        if self._captured is not None:
            self._write(*self._captured)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count the steps, and capture what a backup that is due will hold."""
        self._unsaved += batch + 1 - self._steps
        self._steps = batch + 1
        if self._is_due():
            self._captured = self._snapshot(self._epoch, self._before + self._steps)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Save if a backup is due."""
        self._captured = None
        if self._save_freq == "epoch" or self._is_due():
            following = self.params["epochs"] if self.model.stop_training else epoch + 1
            self._write(*self._snapshot(following))

    def on_train_end(self, logs: Any = None) -> None:
        """Delete the backups; after SIGTERM save and exit."""
        self.model._initial_epoch = None
        self._sigterm.unwatch()
        self._sigterm.noticed = any(self._gathered(self._sigterm.noticed))
        if self._sigterm.noticed:
            self._write(*self._snapshot(self.params["epochs"]))
        if self._saves:
            self._backups.delete()

    def _is_due(self) -> bool:
        """Return whether to save; several processes do not look at SIGTERM, and so agree."""
        is_due = isinstance(self._save_freq, int) and self._unsaved >= self._save_freq
        return is_due or (self._ranks == 1 and self._sigterm.noticed)

    def _snapshot(self, epoch: int, step: int = 0) -> tuple[dict[str, Any], NamedArrays]:
        states, arrays = states_of(self._others)
        facts = {"epoch": epoch, "step": step, "callbacks": states}
        return facts, arrays | snapshot(self.model)

    def _write(self, facts: dict[str, Any], arrays: NamedArrays) -> None:
        self._captured, self._unsaved = None, 0
        ranks = self._gathered([self._sequence.state_dict(), self._sigterm.noticed])
        if self._saves:
            self._backups.save({**facts, "states": [state for state, _ in ranks]}, arrays)
        if any(noticed for _, noticed in ranks):
            self._gathered(None)  # wait until the first process has saved
            self._backups.lock.release()
            print(f"\ndfgen: SIGTERM; saved to {self._backups.folder}", flush=True)
            self._sigterm.exit()


def _fit_on(progress: Progress) -> Fit | None:
    fit = running_fit()
    return fit if fit and getattr(fit.data, "progress", None) is progress else None


def _place(facts: dict[str, Any]) -> str:
    return f"epoch {facts['epoch'] + 1} after {facts['step']} steps"


def _state_of_rank(states: list[dict[str, Any]], rank: int, ranks: int) -> dict[str, Any]:
    """Return the state of a process; of another number of processes the first has all receipts."""
    if len(states) == ranks:
        return states[rank]
    summed = states if rank == 0 else []
    digest = sum(int(state["receipt"], 16) for state in summed) % 2**128
    skipped = sum(state["skipped"] for state in summed)
    return {**states[0], "receipt": f"{digest:032x}", "skipped": skipped, "processes": ranks}


class _Sigterm:
    """Notes SIGTERM of a scheduler while `fit` runs in the main thread, by `is_running`.

    A second SIGTERM has the effect that the program has set, as has any SIGTERM in a forked process
    and after a `fit` that failed.
    """

    def __init__(self, is_running: Callable[[], bool]) -> None:
        self._is_running, self._process = is_running, os.getpid()
        self._previous: Any = None
        self.noticed = False

    def watch(self) -> None:
        """Replace the handler; without effect outside of the main thread."""
        with suppress(ValueError):
            self._previous = signal.signal(signal.SIGTERM, self._note) or signal.SIG_DFL

    def unwatch(self) -> None:
        """Put the previous handler back."""
        if signal.getsignal(signal.SIGTERM) == self._note:
            signal.signal(signal.SIGTERM, self._previous)

    def exit(self) -> Never:
        """Call the handler that the program has set, if any, and exit with status 143."""
        previous = self._previous
        while isinstance(other := getattr(previous, "__self__", None), _Sigterm):
            previous = other._previous  # of a fit that failed, or that runs around this one
        signal.signal(signal.SIGTERM, previous)
        if callable(previous):
            previous(signal.SIGTERM, None)
        raise SystemExit(128 + signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.noticed and os.getpid() == self._process and self._is_running():
            self.noticed = True
        else:
            signal.signal(number, self._previous)
            signal.raise_signal(number)
