"""BackupAndRestore: a training that was stopped goes on at the next step."""

import copy
import os
from collections.abc import Mapping
from typing import Any

import keras

from dfgen.errors import ArgumentError
from dfgen.loading.state import CHECKSUM, OF_RANK
from dfgen.training.callbacks.backup_files import (
    Generations,
    NamedArrays,
    build,
    optimizer_name,
    restore,
    snapshot,
    trained,
)
from dfgen.training.callbacks.callback_counts import (
    COUNTS,
    check_callbacks,
    counts,
    put_back,
)
from dfgen.training.callbacks.sigterm import Sigterm
from dfgen.training.device_division import connected, mesh_division
from dfgen.training.keras_calls import of_fit, validation_logs
from dfgen.training.keras_data import KerasData, view_of
from dfgen.training.keras_private import begin_at
from dfgen.training.keras_probe import lacks, refuse_if_plain
from dfgen.training.progress import Progress
from dfgen.training.ranks import by_rank, gathered
from dfgen.training.sequence import Sequence

_DRAWS = "input/weights/"


class BackupAndRestore(keras.callbacks.Callback):
    """Backs up a training, and lets it go on at the next step after whatever has stopped it.

    Run the same program again: `fit` goes on in the middle of its epoch, trains on every other row
    of it once, and ends with the weights, bit for bit on a CPU, that it would have had. Later
    epochs have their full length. One line says where it goes on.

    A backup holds weights, optimizers, running metrics, seed generators, torch's generators, where
    the Sequence stands, the weights that it draws rows by, and what the other callbacks count:
    those of Keras, and yours that have `get_state()`, which returns what JSON can hold, and
    `set_state(state)`. One of yours without them that seems to count something is named by a
    warning when training begins, or when what it holds has changed. A backup appears whole or not
    at all, and is checked when it is read; the one before is kept, and used where the newer is
    damaged. It is deleted when `fit` returns.

    Not in it: what the generators of Python and NumPy would draw. `History` and the progress bar
    begin with the epoch where it goes on, and callbacks count its batches from 0.

    The batch size and the number of processes may be others, with a warning: the epoch goes on with
    the rows that are left of it, each once. Its steps are then told as if all of them had been of
    the new size, and of `steps_per_epoch` as many count as done as the rows that were taken fill.

    If several processes train together (`shard`), the first one saves, and all go on from what it
    saved, so they must see the same folder, which is checked. On SIGTERM to any of them all leave
    together when the next backup is due: give a number of steps as `save_freq`. On torch, in the
    epoch in which training goes on, metrics of the others are of the first one's rows until there.

    A second run that would save in the folder is refused as long as the first one lives; one that
    was killed or failed keeps nobody out. Where the file system has no locks a warning says so; on
    Windows nothing does.

    Args:
        backup_dir: a folder for these backups alone; made if it is not there.
        sequence: the `dfgen.Sequence` that `fit` trains on, itself or as `repeat()`.
        save_freq: `"epoch"` saves after each epoch and what callbacks do at its end; a number saves
            after so many steps, and where an epoch's last step is due, with the end of the epoch.
        on_sigterm: on SIGTERM, with which schedulers announce the end of a job, save after the step
            that is running, and leave the program by `SystemExit(143)`, after a handler that the
            program has set. A second SIGTERM ends the process at once. Needs `fit` to run in the
            main thread.
        delete_checkpoint: False keeps the last backup of a run that has ended; it is not resumed.

    Raises:
        ArgumentError: `fit` is given something else than `sequence`, or a backup is of another
            model, another Sequence or a newer dfgen; or two callbacks of `fit` save in the same
            folder.
        WriteError: a backup cannot be written; those before stay. Or another run saves there.

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
        delete_checkpoint: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(sequence, Sequence):
            raise ArgumentError(
                f"sequence must be the dfgen.Sequence itself, got {type(sequence).__name__}: write "
                'dfgen.BackupAndRestore("backup", train)'
            )
        if save_freq != "epoch" and (type(save_freq) is not int or save_freq < 1):
            raise ArgumentError(
                f'save_freq={save_freq!r} must be "epoch" or a number of steps, 1 or more'
            )
        if not backup_dir:
            raise ArgumentError("backup_dir is empty: name a folder")
        self._sequence, self._backups = sequence, Generations(backup_dir)
        self._save_freq, self._delete = save_freq, delete_checkpoint
        self._on_sigterm = on_sigterm
        progress = sequence.progress  # not self: a circle, otherwise
        self._sigterm = Sigterm(lambda frame: _is_input(of_fit("x", frame), progress))

    def __deepcopy__(self, memo: dict[int, Any]) -> "BackupAndRestore":
        """Return a copy for another run on the same Sequence: KerasTuner makes one a trial."""
        copied = memo[id(self)] = type(self).__new__(type(self))
        memo[id(self._sequence)] = self._sequence
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def on_train_begin(self, logs: Any = None) -> None:
        """Go on from the newest backup, if there is one."""
        refuse_if_plain("BackupAndRestore")
        found, self._progress = of_fit("x"), self._sequence.progress
        if not _is_input(found, self._progress):
            raise ArgumentError(
                "BackupAndRestore was made for another Sequence than the one that fit was given "
                f"({found!r})"
            )
        self._epoch = self._step = self._steps = self._unsaved = 0
        self._due = self._begun = False
        self._logs: Mapping[str, Any] = {}
        self._found: tuple[Mapping[str, Any], NamedArrays, NamedArrays] | None = None
        shared = self._sequence.shard[1] > 1 or mesh_division() is not None
        self._index, self._count = (connected() if shared else None) or (0, 1)
        if self._saves:
            self._refuse_two()
            self._backups.lock()
        callbacks = of_fit("callbacks").callbacks
        callbacks[:] = [each for each in callbacks if getattr(each, "tells", None) is not self]
        callbacks.append(self._last())  # all others have had their turn then
        if self._on_sigterm:
            self._sigterm.watch()

    def _last(self) -> keras.callbacks.Callback:
        last = keras.callbacks.LambdaCallback(
            on_train_begin=lambda logs: self._all_begun(),
            on_epoch_begin=lambda epoch, logs: self._all_begun_epoch(),
            on_train_batch_end=lambda batch, logs: self._all_ended_batch(),
            on_epoch_end=lambda epoch, logs: self._all_ended_epoch(),
            on_train_end=lambda logs: self._all_ended(),
        )
        last.tells = self
        return last

    def _all_begun(self) -> None:
        check_callbacks(of_fit("callbacks").callbacks)
        backup = self._backups.load()
        self._compare(backup)
        if backup is not None:
            try:
                self._go_on(*backup)
            except ArgumentError as error:
                raise ArgumentError(
                    f"{error}. That is {backup[0]}. {self._backups.way_out}"
                ) from error

    def _compare(self, backup: tuple[str, Mapping[str, Any], NamedArrays] | None) -> None:
        """Refuse a folder that the processes which train together do not share."""
        if self._count == 1:
            return
        told = "none"
        if backup is not None:
            path, facts, _ = backup
            place = f"epoch {facts['epoch'] + 1} after {facts['step']} steps"
            told = f"{place} ({os.path.basename(path)}, checksum {facts['digest'][:8]})"
        found = gathered(told)
        if len({*found}) > 1:
            raise ArgumentError(
                f"the processes that train together see other backups in {self._backups.folder}: "
                f"{by_rank(found)}. The first one saves for all: name a folder that all of them "
                "share, or copy its backups to each of them before they begin"
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note the epoch."""
        begin_at(self.model, None)
        self._step, self._steps = 0, self.params["steps"]
        if self._found is not None:
            self._step, self._steps = (self._found[0][name] for name in ("step", "steps"))
        self._epoch, self._before = epoch, self._step

    def _all_begun_epoch(self) -> None:
        """Undo what callbacks have done at the begin of an epoch that had begun before."""
        if self._found is not None:
            facts, arrays, lists = self._found
            restore(self.model, arrays)
            put_back(of_fit("callbacks").callbacks, facts["callbacks"], lists)
            self._found = None
        self._begun = True
        if self._leaves_alone:
            self._save()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count the step."""
        step = min(self._before + batch + 1, self._steps)
        self._unsaved += step - self._step
        self._step = step
        self._due |= self._save_freq != "epoch" and self._unsaved >= int(self._save_freq)
        self._logs = logs or {}

    def _all_ended_batch(self) -> None:
        goes_on = self._step < self._steps and not self.model.stop_training
        if self._leaves_alone or (self._due and goes_on):
            self._save()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Do not wait for the end of a validation if the process is to end."""
        if self._leaves_alone:
            self._save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Have it saved as soon as all callbacks have ended the epoch."""
        self._epoch, self._step, self._begun = epoch + 1, 0, False
        self._due |= self._save_freq == "epoch"

    def _all_ended_epoch(self) -> None:
        goes_on = self._epoch < self.params["epochs"] and not self.model.stop_training
        if goes_on and (self._due or self._leaves_alone):
            self._save()

    def _all_ended(self) -> None:
        self._sigterm.unwatch()
        begin_at(self.model, None)
        if self._count > 1:
            self._sigterm.noticed = any(gathered(self._sigterm.noticed))
        if self._sigterm.noticed:
            self._save()
        elif not self._delete:
            self._save(ended=True)
            self._backups.unlock()
        elif self._saves:
            self._backups.delete()

    def _refuse_two(self) -> None:
        folder = self._backups.folder
        folders = [one for one in map(_folder_of, of_fit("callbacks").callbacks) if one]
        if [*map(os.path.realpath, folders)].count(os.path.realpath(folder)) > 1:
            raise ArgumentError(
                f"two BackupAndRestore of callbacks=[...] save in {folder}: they would delete and "
                "restore each other's backups. Leave one out, or give each its own backup_dir"
            )

    @property
    def _leaves_alone(self) -> bool:
        """Whether to leave now; processes that train together leave when a backup is due."""
        return self._sigterm.noticed and self._count == 1

    @property
    def _saves(self) -> bool:
        return (self._sequence.shard[0] if self._count == 1 else self._index) == 0

    def _save(self, ended: bool = False) -> None:
        counted, lists = counts(of_fit("callbacks").callbacks)
        facts: dict[str, Any] = {
            "epoch": self._epoch,
            "step": self._step,
            "steps": self._steps,
            "begun": self._begun,
            "stopped": bool(self.model.stop_training),
            "logs": {name: v for name, v in self._logs.items() if isinstance(v, int | float)},
            "ended": ended,
            "optimizer": optimizer_name(self.model),
            "trained": trained(self.model),
            "callbacks": counted,
            "input": self._sequence.state_dict(),
        }
        if self._count > 1:
            mine = [facts["input"][name] for name in OF_RANK]
            parts = gathered([mine, self._sigterm.noticed])
            facts["of_ranks"] = [part for part, _ in parts]
            self._sigterm.noticed = any(noticed for _, noticed in parts)
        arrays = snapshot(self.model) | lists
        if self._saves:
            self._backups.save(facts, arrays)
        self._due, self._unsaved = False, 0
        if self._sigterm.noticed:
            folder = self._backups.folder
            self._backups.unlock()
            if self._count > 1:
                gathered(None)  # the first process has saved
            print(f"\ndfgen: SIGTERM; saved to {folder}, to go on from there", flush=True)
            self._sigterm.end()

    def _go_on(self, path: str, facts: Mapping[str, Any], arrays: NamedArrays) -> None:
        if facts["ended"]:
            print(f"dfgen: {path} is of a run that has ended: this one begins anew", flush=True)
            return
        epoch, step, steps = facts["epoch"], facts["step"], self.params["steps"]
        facts = {"begun": step > 0, "stopped": False, "logs": {}, "callbacks": {}, **facts}
        lists = {name: arrays.pop(name) for name in [*arrays] if name.startswith(COUNTS)}
        state = state_of_rank(facts, self._index, self._count)
        self._sequence.load_state_dict(state)
        specs = view_of(self._sequence, self.model, "fit").element_spec
        build(self.model, specs, facts.get("trained"))
        restore(self.model, arrays, facts.get("optimizer"))
        # A pass ends the epoch of fit, however many steps that was to have.
        passed = isinstance(of_fit("x"), Sequence) and state.get("ended") is True
        ended = bool(facts["begun"] and step and (passed or step >= facts.get("steps", steps)))
        if step and not ended:
            step, steps, ended = self._counted(facts)
        after = f" after {step} of {steps} steps" if step else ""
        print(f"dfgen: going on in epoch {epoch + 1}{after}, from {path}", flush=True)
        facts = {**facts, "step": step, "steps": steps}
        callbacks = of_fit("callbacks")
        for told in put_back(callbacks.callbacks, facts["callbacks"], lists):
            print(f"dfgen: {told}", flush=True)
        self._found = (facts, arrays, lists) if facts["begun"] else None
        if facts["begun"] and (ended or facts["stopped"]):
            # what was cut off after the last step: its validation, and its end
            self._logs = facts["logs"]
            callbacks.on_epoch_begin(epoch)
            logs = validation_logs(self.model, epoch)
            callbacks.on_epoch_end(epoch, {**self._logs, **logs})
            epoch, step, steps = epoch + 1, 0, self.params["steps"]
        if facts["stopped"] or self.model.stop_training:
            epoch = self.params["epochs"]
        self._step, self._progress.done = step, self.params["steps"] - (steps - step)
        if not lacks("Model._initial_epoch"):
            begin_at(self.model, epoch)
        elif of_fit("initial_epoch") != epoch:
            raise ArgumentError(
                f"with Keras {keras.__version__} nobody but fit can say at which epoch it begins, "
                f"and the backup is of epoch {epoch}: call fit(..., initial_epoch={epoch})"
            )

    def _counted(self, facts: Mapping[str, Any]) -> tuple[int, int, bool]:
        """Return the steps done of an epoch and all of it, in batches of now, and if it ended."""
        steps, size = self.params["steps"], self._sequence.batch_size
        if isinstance(of_fit("x"), Sequence) and steps == len(self._sequence):
            place = self._progress.place
            if not place.under_way:  # the rows that are left fill no batch
                return facts["step"], facts["step"], True
            return place.step, len(self._progress.plan().of(place.epoch)), False
        step = facts["step"] * facts["input"]["batch_size"] // size
        return step, steps, step >= steps


def state_of_rank(facts: Mapping[str, Any], index: int, count: int) -> dict[str, Any]:
    """Return the state of the Sequence with the receipt of one of so many processes.

    With another number of processes the first one has what all of them had.
    """
    state = dict(facts["input"])
    ranks = facts.get("of_ranks") or [[state.get(each) for each in OF_RANK]]
    if len(ranks) == count:
        return {**state, **dict(zip(OF_RANK, ranks[index], strict=True))}
    receipts = [int(receipt, 16) for receipt, _, _ in ranks] if index == 0 else []
    skipped = sum(skipped for _, skipped, _ in ranks) if index == 0 else 0
    receipt = f"{sum(receipts) % 2**128:032x}"
    return {**state, "receipt": receipt, "skipped": skipped, CHECKSUM: None}


def _folder_of(callback: Any) -> Any:
    if isinstance(callback, BackupAndRestore):
        return callback._backups.folder
    of_keras = isinstance(callback, keras.callbacks.BackupAndRestore)
    return callback.backup_dir if of_keras else None


def _is_input(found: Any, progress: Progress) -> bool:
    return isinstance(found, KerasData) and found.progress is progress
