"""Sequence: a DataFrame as batches for `model.fit`."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from secrets import randbits
from typing import Any, Never

import keras
import pandas as pd

from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.binding.nested import Tree
from dfgen.binding.ordering import Balance, Ordering
from dfgen.binding.pixel_cache import Cache
from dfgen.binding.preprocessing import Preprocessing
from dfgen.binding.row_problems import look_for_files
from dfgen.binding.row_weights import ClassWeight, SampleWeight
from dfgen.checks import whole
from dfgen.errors import ArgumentError, brief
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.loading.batch_transforms import BatchTransform
from dfgen.loading.loader import Loader
from dfgen.loading.receipts import digest_before
from dfgen.loading.state import Identity, Place, State, ids_digest
from dfgen.samples.features.image_checks import DEFAULT_SIZE
from dfgen.samples.pixels.scaling import Scale
from dfgen.samples.transforms import Transform
from dfgen.table.any_table import Table
from dfgen.training.keras_data import KerasData
from dfgen.training.layout import layout_of, problems_frame, summary
from dfgen.training.processes import resolve_shard
from dfgen.training.progress import Progress


class Sequence(KerasData):
    """Feeds batches made from a manifest to `model.fit`, `evaluate` and `predict`.

    Every row comes once an epoch, in another order each epoch, the same for the same seed on every
    backend and for any number of workers. Batches are made ahead of time by threads.

    Args:
        manifest: a DataFrame (copied: later changes do nothing), or another table, which stays in
            Arrow memory: of Polars, Arrow, DuckDB, whatever has `__arrow_c_stream__`; or the path
            of a manifest.
        x: the inputs: a column name, a feature, or a list or dict of those. The column `path`, and
            a text column of names of image files, or lists of them, becomes an `Image`; classes a
            `Category`; numbers a `Number`; lists of text a `MultiLabel`.
        y: the targets, likewise. None takes the one column that is not id, path, split or a fact;
            with none left, batches hold inputs alone.
        id: the column that tells rows apart. None takes `id`, else the paths where unique.
        sample_weight: a column of what each row counts in the loss, 0 or more. Batches hold weights
            of shape (batch,), with axes of 1 for a loss that has more, as (batch, 1, 1) for masks,
            nested as y where targets differ in that, or `missing="ignore"` weighs them. For several
            targets: one column for all, or one for each, nested as y, `{"kind": "w"}` or
            `["w", None]`; targets without one weigh 1.
        class_weight: class number or name -> weight; `"balanced"`: rows / (classes that occur *
            rows of the class), as scikit-learn has it. For several targets that of each, nested as
            y: `{"kind": "balanced"}`. It multiplies `sample_weight`.
        balance: column of classes (text, whole numbers or booleans), or a dict of one column and
            the shares of its values, which sum to 1, as `{"source": {"ours": 0.7, "theirs":
            0.3}}`. Each class comes equally often, or has its share. Some rows then come several
            times in an epoch, each time with another random crop, flip and transform, and others
            not at all: see `row_counts`. It needs `shuffle=True`; evaluate without it.
        sampling_weight: column of numbers of 0 or more. Rows are drawn in proportion, to less than
            two, as by torch's `WeightedRandomSampler`.
        bucket_by: `"shape"` puts images of similar sizes into the same batch, where they keep their
            own (`image_size=None`), within 64 batches of the shuffled order; `"length"` sounds,
            arrays and lists of similar lengths. It needs
            `shuffle=True`.
        batch_size: rows of a batch; with `shard`, of all processes together.
        image_size: (height, width) of images in pixels. None: every image keeps its own size, and
            is padded with zeros to the largest of its batch; see `Image(size=None)`.
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        label_mode: `"int"` (int32), `"categorical"` (one-hot float32), `"binary"` (float32 of shape
            (batch, 1)), or None: no targets.
        class_names: the classes in the order of their numbers; None takes the column's categories.
        scale: None leaves images uint8 0..255; `"0..1"`, `"-1..1"`, `"standardize"` (each image),
            `"tf"`, `"torch"`, `"caffe"`, a pair (scale, offset) or a mean and deviation of each
            channel gives float32: see `Image`.
        shuffle: another order each epoch.
        seed: of the order and of the transform's generators; None draws one.
        drop_remainder: leave out a short last batch.
        transform: `transform(sample, rng) -> sample`, in the workers, after resizing and before
            scaling. `sample` is a dict of arrays: by its key in a dict x or y, else `image`,
            `mask`, `array`, `audio`, `number`, `label`, `text`, `bytes`, `column`, numbered
            (`image_0`) where there are several; boxes are `boxes` and `labels`, or `key` and
            `key_labels`.
        batch_transform: `batch_transform(batch, rng) -> batch`, in the worker thread that finishes
            a batch, never in another process: mixup, and whatever else needs several samples.
            `batch` is a dict of arrays (batch, ...) by the names that `transform` sees, of what the
            model would get, without weights. dtypes and the shape of a sample may change: that is
            learned by one trial, before training, on blank images. `rng` depends on the seed, the
            epoch, the step and the process of `shard`.
        on_error: `"raise"`, or `"skip"`: a bad row keeps its place with zeros and weight 0, is
            listed in `problems` and named by a warning as the epoch ends, and the real rows of its
            batch (with `shard`, of this process's part of it) weigh batch / real. Keras's
            `metrics=` ignore weights: use `weighted_metrics=`. More bad rows than
            `limits.problems`, or a batch of them alone, stop training; so does a read that fails
            for no fault of the file, such as of a disk.
        workers: threads; None = the CPUs this process may use, or fewer, or processes, where rows
            are small and that turns out to be faster (`metrics`); 0 = the calling thread.
        use_multiprocessing: a process for each worker, for transforms that hold the GIL, and for
            files of a few kB.
        max_queue_size: batches ready or in the making.
        limits: `dfgen.Limits`: bytes of batches in flight, seconds for one read, bad rows, what one
            file may ask for.
        root: folder where relative paths of a frame begin, or the URL of one, as
            `"s3://bucket/imgs"`; None = the working folder.
        storage_options: what opens paths that are URLs, such as `{"region": "eu-central-1"}`:
            arguments of obstore's store of `s3://`, `gs://`, `az://` and `http(s)://`, of fsspec's
            file system for others, which also find keys and tokens by themselves. It is kept
            nowhere, and shown by nothing.
        shard: (index, count): this is process `index` of `count` that train together, and makes
            `batch_size / count` rows of every batch. `"auto"` asks `keras.distribution`,
            `torch.distributed`, JAX, and the variables RANK and WORLD_SIZE. `fit` first compares
            connected processes. Batches that processes or devices share are always full and
            weighted: `fit` leaves out the last rows of an epoch that fill no batch (`left_out`),
            `evaluate` fills up with rows of weight 0.
        cache: a folder in which the decoded pixels of images are kept, for all later epochs, runs,
            processes and Sequences with the same settings, or `"memory"`, for this one. It needs a
            size. Pixels are those after resizing and before what chance decides; of
            `crop="random"` from a `load_size`, all of that. `limits.cache` bounds it, nothing is
            evicted, and a file with another size or time is decoded anew. A folder that cannot be
            used warns. `metrics` counts hits. Remote packs keep what was fetched there.
        pack: a folder or URL of `dfgen.pack` that has the files of the rows, which are found by id
            and path. A manifest that is a pack needs none.
        where: which rows of a manifest that is given by its path, as of `dfgen.read_manifest`:
            `"split == 'train' and width > 200"`. None: all.

    Raises:
        ManifestError: the manifest cannot be used: a column, an id, a path, a label.
        MissingFileError: of a handful of files that are looked for some are not there; with
            `on_error="skip"`, all of them.
        ArgumentError: an argument that cannot be.
        UnknownArgumentError: an argument that is not there, such as one of Keras's older API.

    Example:
        >>> df = dfgen.read_manifest("manifests/pets.parquet")  # doctest: +SKIP
        >>> train = dfgen.Sequence(df[df.split == "train"], y="kind", batch_size=64)
        >>> val = dfgen.Sequence(df[df.split == "val"], y="kind", batch_size=64, shuffle=False)
        >>> model.fit(train, validation_data=val, epochs=10)
    """

    def __init__(
        self,
        manifest: Table | str | os.PathLike[str] = None,
        x: Tree = "path",
        y: Tree = None,
        *,
        id: str | None = None,
        sample_weight: SampleWeight = None,
        class_weight: ClassWeight = None,
        balance: Balance = None,
        sampling_weight: str | None = None,
        bucket_by: str | None = None,
        batch_size: int = 32,
        image_size: tuple[int, int] | None = DEFAULT_SIZE,
        color_mode: str = "rgb",
        label_mode: str | None = "int",
        class_names: list[Any] | tuple[Any, ...] | None = None,
        scale: Scale = None,
        shuffle: bool = True,
        seed: int | None = 0,
        drop_remainder: bool = False,
        transform: Transform | None = None,
        batch_transform: BatchTransform | None = None,
        on_error: str = "raise",
        workers: int | None = None,
        use_multiprocessing: bool = False,
        max_queue_size: int = 10,
        limits: Limits | None = None,
        root: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        shard: tuple[int, int] | str | None = None,
        cache: Cache = None,
        pack: str | os.PathLike[str] | None = None,
        where: Any = None,
        **unknown: Never,
    ) -> None:
        refuse_unknown(Sequence, unknown)
        limits = limits_given(limits)
        self._seed_was_drawn = seed is None
        seed = randbits(32) if seed is None else seed
        self._seed = whole("seed", seed, advice="write seed=0, or seed=None to draw")
        advice = "write batch_size=32, rows of a batch"
        batch_size = whole("batch_size", batch_size, least=1, advice=advice)
        bound = self._binding = bind(
            manifest, x, y, options=Options(image_size, color_mode, scale, label_mode, class_names),
            id=id, sample_weight=sample_weight, class_weight=class_weight,
            ordering=Ordering(balance, sampling_weight, bucket_by, shuffle, batch_size),
            cache=cache, transform=transform, on_error=on_error, root=root,
            storage_options=storage_options, limits=limits, where=where, pack=pack,
        )  # fmt: skip
        look_for_files(bound.columns, bound.reader, bound.problems, skips=on_error == "skip")
        loader = Loader(
            bound.reader, batch_size=batch_size, order=bound.order, seed=self.seed,
            drop_remainder=drop_remainder, shard=resolve_shard(shard),
            weights=bound.weights, own_weights=bound.own_weights,
            batch_transform=batch_transform, on_error=on_error,
            problems=bound.problems, workers=workers, use_multiprocessing=use_multiprocessing,
            max_queue_size=max_queue_size, limits=limits,
        )  # fmt: skip
        weighted = bound.weighted or on_error == "skip" or loader.plan.shard[1] > 1
        layout = layout_of(bound, weighted)
        super().__init__(loader, Progress(loader), layout, endless=False)

    def __len__(self) -> int:
        return len(self._loader)

    @property
    def seed(self) -> int:
        """The seed of the order, and of what transforms draw."""
        return self._seed

    @property
    def class_names(self) -> Any:
        """The class names of y in the order of their numbers; by name where y has several."""
        return self._binding.class_names

    @property
    def manifest(self) -> pd.DataFrame:
        """The rows, in their own order: a copy."""
        return self._binding.columns.frame()

    @property
    def problems(self) -> pd.DataFrame:
        """The rows that are skipped, as a frame in the order of the manifest.

        - `id`, and `path` of the first file that the row is read from.
        - `stage`: what failed: `"read"`, `"decode"`, `"resize"`, `"transform"`, where a function of
          yours makes a column, `"timeout"`, `"worker"`, whose process died of it; or `"known"`, as
          the manifest names a problem.
        - `reason`: in words.
        - `epoch` in which it was first found, from 0; missing where it is known.

        With `on_error="raise"` it is empty.
        """
        return problems_frame(self._loader.problems)

    def repeat(self) -> KerasData:
        """Return an endless view, for `fit(steps_per_epoch=...)`: passes follow one another.

        Training continues where the last `fit` on a view stopped, also in the middle of a pass.

        Example:
            >>> model.fit(seq.repeat(), steps_per_epoch=1000, epochs=90)  # doctest: +SKIP
        """
        return KerasData(self._loader, self.progress, self._layout, True, self.state_dict)

    def preprocessing(self, transform: Transform | None = None) -> Preprocessing:
        """Return what this Sequence does to a row, as a function of one: for serving.

        It takes a path, bytes, an array of pixels or a row, and returns x as the model had it, a
        batch of one, without chance; it turns predictions into class names; it can be saved. The
        Sequence's own `transform` and `batch_transform` have no part in it.

        Args:
            transform: what of `transform` belongs to it, `transform(sample, rng) -> sample`: it
                gets the arrays of x alone, and None for the generator.

        Raises:
            ArgumentError: x needs what only training has.

        Example:
            >>> preprocessing = val.preprocessing()  # doctest: +SKIP
            >>> preprocessing.decode(model.predict(preprocessing("cat.jpg")))
            ['cat']
        """
        if transform is not None and not callable(transform):
            raise ArgumentError(
                f"preprocessing was given {brief(transform)}, expected nothing, or a function: it "
                "returns what takes a picture: write seq.preprocessing()(picture)"
            )
        return self._binding.preprocessing(keras.config.image_data_format(), transform)

    def state_dict(self) -> State:
        """Return the state of training, as a dict for JSON of less than 1 kB.

        In `fit` it counts the steps that the model has taken, so it is exact in any callback. In a
        loop of the user it counts the batches that the loop has received.

        Example:
            >>> json.dumps(seq.state_dict())  # doctest: +SKIP
        """
        return self._identity.state(self.progress.ledger.place)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state: the next pass has the rest of its epoch, later ones are whole.

        The number of processes may differ, which warns; likewise the batch size if the rows taken
        are whole batches of it. With `bucket_by` and packs, the batch size is part of the order. A
        Sequence made with `seed=None` takes the seed of the state. Changed labels warn.

        Args:
            state: as returned by `state_dict`, also after JSON.

        Raises:
            ArgumentError: it is the state of other rows, another seed or order, or it was edited.
        """
        identity = self._identity
        if self._seed_was_drawn and isinstance(state, Mapping):
            identity = replace(identity, seed=whole("seed of the state", state.get("seed", 0)))
        place = identity.place(state)
        self._check_receipt(place, identity.seed, state["processes"])
        if identity.seed != self.seed:
            self._loader.reseed(identity.seed)
            self._seed = identity.seed
        self.progress.load(place)

    def _check_receipt(self, place: Place, seed: int, processes: int) -> None:
        """Raise if the receipt of a place is not that of the rows before it.

        A process counts its own rows alone, and nobody knows which rows were skipped.
        """
        if place.skipped or processes > 1:
            return
        order = self._loader.order.reseeded(seed)
        taken = min(place.step * self.batch_size, order.places)
        if digest_before(order, self._loader.reader.ids, place.epoch, taken) != place.digest:
            raise ArgumentError(
                f"receipt={place.digest:032x} of the state is not that of step {place.step} of "
                f"epoch {place.epoch}: the state was edited or damaged, and rows would be repeated "
                "and missed. Use an older state, or train from the start"
            )

    @property
    def _identity(self) -> Identity:
        """The training to which states belong."""
        order = self._loader.order
        batches = f" in batches of {order.batch_size}" if order.batch_size else ""
        return Identity(
            f"{order.digest}{batches}", self.seed, len(self._binding.columns), self._ids_digest,
            self._binding.labels_digest, self.batch_size, self.shard[1],
        )  # fmt: skip

    @cached_property
    def _ids_digest(self) -> str:
        return self._binding.columns.ids_digest() or ids_digest(self._loader.reader.ids)

    def show(
        self,
        i: int = 0,
        *,
        n: int = 16,
        draws: int = 10,
        model: Any = None,
        caption: str | Iterable[str] | None = None,
    ) -> Any:
        """Show a batch as the model gets it: after decoding, resizing, transforms and scaling.

        Use it before training. Ids, labels, weights, boxes, masks and key points are drawn, and
        faults such as NaN are listed. If augmentation is random, the first row follows as it is
        drawn in this epoch and the next ones.

        Args:
            i: int, index of the batch in the current epoch. Defaults to 0.
            n: int, number of rows shown. Defaults to 16.
            draws: int, number of draws of the first row. Defaults to 10.
            model: the Keras model; the figure warns if pixels of 0..255 reach its first layer, or
                if they are scaled twice. Defaults to None.
            caption: str or list of str, columns of the manifest shown below the pictures. Defaults
                to None, the id and the labels.

        Returns:
            A `matplotlib.figure.Figure` whose `table` has the rows that are shown.

        Raises:
            ArgumentError: if there are no images, sounds, arrays or texts.
            MissingPackageError: if matplotlib is not installed.

        Example:
            >>> train.show(model=model)  # doctest: +SKIP
        """
        from dfgen.explore.show import show_batch  # the one door to a room above

        return show_batch(self, i, n=n, draws=draws, model=model, caption=caption)

    def close(self) -> None:
        """End the threads; the Sequence cannot be used any more."""
        self._loader.close()

    def __enter__(self) -> "Sequence":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return summary(self._loader, self.progress, len(self._binding.columns), self.seed)
