"""Sequence: a DataFrame as batches for `model.fit`."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from secrets import randbits
from typing import Any, Never

import keras
import pandas as pd

from dfgen.binding.arguments import Balance, Cache, ClassWeight, SampleWeight, SequenceArguments
from dfgen.binding.bind import bind
from dfgen.binding.row_problems import look_for_files
from dfgen.errors import ArgumentError, brief, whole
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits
from dfgen.loading.batch_transforms import BatchTransform
from dfgen.loading.loader import Loader
from dfgen.loading.receipts import Identity, Place, State, digest_before
from dfgen.samples.features.image import DEFAULT_SIZE
from dfgen.samples.pixels.scaling import Scale
from dfgen.samples.transforms import Transform
from dfgen.serving.preprocessing import Preprocessing, preprocessing_of
from dfgen.spec import Tree
from dfgen.table.any_table import Table
from dfgen.training.keras_data import KerasData
from dfgen.training.passes import Progress, layout_of, problems_frame, summary
from dfgen.training.processes import resolve_shard


class Sequence(KerasData):
    """Feeds batches of decoded rows of a manifest to `model.fit`, `evaluate` and `predict`.

    Each row is used exactly once per epoch. The order depends on the seed and the epoch, not on the
    backend or the number of workers. Worker threads prepare batches ahead of time.

    Args:
        manifest: a DataFrame (copied, so later changes have no effect), another table with
            `__arrow_c_stream__` (Polars, Arrow, DuckDB; it stays in Arrow memory), or the path of a
            manifest.
        x: the inputs: a column name, a feature, or a list or dict of these. The column `path` and
            columns of image file names become an `Image`, classes a `Category`, numbers a `Number`,
            lists of text a `MultiLabel`.
        y: the targets, as x. None takes the only column that is not an id, a path, a split or a
            fact; if there is none, batches have no targets.
        id: column that identifies rows. None takes `id`, else the paths if they are unique.
        sample_weight: column of weights of rows in the loss, 0 or more. Batches then have weights
            of shape (batch,), with axes of 1 for losses of more axes, such as (batch, 1, 1) for
            masks; nested as y if targets differ in that or have `missing="ignore"`. For several
            targets: one column for all, or one per target, nested as y, `{"kind": "w"}` or
            `["w", None]`; targets without one weigh 1.
        class_weight: class index or name -> weight, or `"balanced"`: rows / (classes that occur *
            rows of the class), as in scikit-learn. For several targets one of these per target,
            nested as y: `{"kind": "balanced"}`. It multiplies `sample_weight`.
        balance: column of classes (text, whole numbers or booleans), which are then drawn equally
            often, or a dict of one column and the shares of its values, which sum to 1:
            `{"source": {"ours": 0.7, "theirs": 0.3}}`. Some rows are then used several times per
            epoch, each time with other random crops, flips and transforms, others not at all: see
            `row_counts`. Needs `shuffle=True`; do not use it to evaluate.
        sampling_weight: column of numbers of 0 or more. Rows are drawn in proportion to them, as by
            torch's `WeightedRandomSampler`; the number of draws is off by less than two.
        bucket_by: `"shape"` puts images of similar sizes into the same batch if they keep their own
            size (`image_size=None`), within 64 batches of the shuffled order; `"length"` does so
            for sounds, arrays and lists of similar lengths. Needs `shuffle=True`.
        batch_size: rows of a batch; with `shard`, of all processes together.
        image_size: (height, width) of images in pixels. None keeps the size of each image and pads
            it with zeros to the largest of its batch; see `Image(size=None)`.
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        label_mode: `"int"` (int32), `"categorical"` (one-hot float32), `"binary"` (float32 of shape
            (batch, 1)), or None for no targets.
        class_names: the classes in the order of their indices; None takes the column's categories,
            else its sorted values.
        scale: None leaves images uint8 0..255; `"0..1"`, `"-1..1"`, `"standardize"` (per image),
            `"tf"`, `"torch"`, `"caffe"`, a pair (scale, offset), or mean and deviation per channel
            give float32: see `Image`.
        shuffle: whether each epoch has another order.
        seed: of the order and of random transforms; None draws one.
        drop_remainder: whether to leave out a short last batch.
        transform: `transform(sample, rng) -> sample`, called by workers after resizing and before
            scaling. `sample` is a dict of arrays, by its key in a dict x or y, else `image`,
            `mask`, `array`, `audio`, `number`, `label`, `text`, `bytes`, `column`, numbered
            (`image_0`) if there are several; boxes are `boxes` and `labels`, or `key` and
            `key_labels`.
        batch_transform: `batch_transform(batch, rng) -> batch`, such as mixup, called by the worker
            thread that finishes a batch, never in another process. `batch` is a dict of arrays
            (batch, ...) as the model gets them, without weights, by the names that `transform`
            sees. It may change dtypes and the shape of a sample; one trial on blank images before
            training tells which. `rng` depends on the seed, the epoch, the step and the process of
            `shard`.
        on_error: `"raise"`, or `"skip"`: a bad row is replaced by zeros of weight 0 and listed in
            `problems` and in a warning at the end of the epoch; the other rows of its batch (with
            `shard`, of this process's part of it) weigh batch / rows that are left. Metrics in
            `metrics=` ignore weights: use `weighted_metrics=`. More bad rows than
            `limits.problems`, or a batch of only bad rows, stop training; so does a read that fails
            although the file is not at fault, for example because of a disk.
        workers: number of threads; None takes the CPUs of this process, or fewer, or processes, if
            rows are small and that is measured to be faster (`metrics`); 0 is the calling thread.
        use_multiprocessing: whether each worker is a process, for transforms that hold the GIL and
            files of a few kB.
        max_queue_size: batches that are ready or in progress at most.
        limits: `dfgen.Limits`: memory of prefetched batches, timeout of a read, number of bad rows,
            size of a decoded file.
        root: folder where relative paths start, or its URL, such as `"s3://bucket/imgs"`; None is
            the working folder.
        storage_options: options that open URLs, such as `{"region": "eu-central-1"}`: arguments of
            obstore's store for `s3://`, `gs://`, `az://` and `http(s)://`, of fsspec's file system
            for other schemes. Both also find keys and tokens in the environment. Options are never
            saved or shown.
        shard: (index, count): this is process `index` of `count` that train together; it makes
            `batch_size / count` rows of each batch. `"auto"` asks `keras.distribution`,
            `torch.distributed`, JAX, and the variables RANK and WORLD_SIZE. `fit` first compares
            connected processes. Batches that processes or devices share are always full and
            weighted: `fit` leaves out the last rows of an epoch that fill no batch (`left_out`),
            `evaluate` adds rows of weight 0.
        cache: folder for decoded pixels of images, which later epochs, runs, processes and
            Sequences with the same settings reuse, or `"memory"` for this Sequence only. It needs
            an `image_size`. Pixels are cached after resizing and before random steps; of
            `crop="random"` from a `load_size`, all pixels are. `limits.cache` is its size; nothing
            is evicted, and a file whose size or time changes is decoded again. A folder that cannot
            be used causes a warning. `metrics` counts hits. Remote packs are cached there too.
        pack: folder or URL of `dfgen.pack` that has the files of the rows, found by id and path.
            Not needed if the manifest is a pack.
        where: condition on the rows, if the manifest is a path, as in
            `dfgen.read_manifest`: `"split == 'train' and width > 200"`. None takes all rows.

    Raises:
        ManifestError: a column, an id, a path or a label of the manifest cannot be used.
        MissingFileError: some of a few sampled files are missing; with `on_error="skip"`, all are.
        ArgumentError: an argument is wrong.
        UnknownArgumentError: an argument does not exist, for example one of Keras's older API.

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
        if unknown:
            refuse_unknown(Sequence, unknown)
        self._seed_was_drawn = seed is None
        seed = randbits(32) if seed is None else seed
        self._seed = whole("seed", seed, advice="write seed=0, or seed=None to draw")
        advice = "write batch_size=32, rows of a batch"
        batch_size = whole("batch_size", batch_size, least=1, advice=advice)
        arguments = SequenceArguments(
            manifest, x, y, id=id, sample_weight=sample_weight, class_weight=class_weight,
            balance=balance, sampling_weight=sampling_weight, bucket_by=bucket_by,
            batch_size=batch_size, image_size=image_size, color_mode=color_mode,
            label_mode=label_mode, class_names=class_names, scale=scale, shuffle=shuffle,
            transform=transform, on_error=on_error, limits=limits, root=root,
            storage_options=storage_options, cache=cache, pack=pack, where=where,
        )  # fmt: skip
        bound = self._binding = bind(arguments)
        look_for_files(bound.columns, bound.reader, bound.problems, skips=on_error == "skip")
        loader = Loader(
            bound.reader, batch_size=batch_size, order=bound.order, seed=self._seed,
            drop_remainder=drop_remainder, shard=(0, 1) if shard is None else resolve_shard(shard),
            weights=bound.weights, own_weights=bound.own_weights,
            batch_transform=batch_transform, on_error=on_error,
            problems=bound.problems, workers=workers, use_multiprocessing=use_multiprocessing,
            max_queue_size=max_queue_size, limits=arguments.limits,
        )  # fmt: skip
        weighted = bound.weighted or on_error == "skip" or loader.plan.shard[1] > 1
        layout = layout_of(bound, weighted)
        super().__init__(loader, Progress(loader), layout, endless=False)

    def __len__(self) -> int:
        return len(self._loader)

    @property
    def seed(self) -> int:
        """The seed of the order and of random transforms."""
        return self._seed

    @property
    def class_names(self) -> Any:
        """The class names of y in the order of their indices; by name if y has several."""
        return self._binding.class_names

    @property
    def manifest(self) -> pd.DataFrame:
        """A copy of the rows, in the order of the manifest."""
        return self._binding.columns.frame()

    @property
    def problems(self) -> pd.DataFrame:
        """The skipped rows as a frame, in the order of the manifest.

        - `id`, and `path` of the first file of the row.
        - `stage` that failed: `"read"`, `"decode"`, `"resize"`, `"transform"` (also of a function
          that makes a column), `"timeout"`, `"worker"` if its process died, or `"known"` if the
          manifest has a problem.
        - `reason` in words.
        - `epoch` of the first failure, from 0; missing for known problems.

        Empty with `on_error="raise"`.
        """
        return problems_frame(self._loader.problems)

    def repeat(self) -> KerasData:
        """Return an endless view, for `fit(steps_per_epoch=...)`.

        Training continues where the last `fit` on a view stopped, also in the middle of an epoch.

        Example:
            >>> model.fit(seq.repeat(), steps_per_epoch=1000, epochs=90)  # doctest: +SKIP
        """
        return KerasData(self._loader, self.progress, self._layout, True, self.state_dict)

    def preprocessing(self, transform: Transform | None = None) -> Preprocessing:
        """Return the preprocessing of a row as a function, for serving.

        It takes a path, bytes, an array of pixels, a row, a frame, or a list of these, and returns
        x as the model got it, without randomness. It also turns predictions into class names, and
        can be saved. It does not include the Sequence's `transform` and `batch_transform`.

        Args:
            transform: `transform(sample, rng) -> sample` to include. It gets only the arrays of x,
                and None as `rng`.

        Raises:
            ArgumentError: a feature of x follows an image of y.

        Example:
            >>> preprocessing = val.preprocessing()  # doctest: +SKIP
            >>> preprocessing.decode(model.predict(preprocessing("cat.jpg")))
            ['cat']
        """
        if transform is not None and not callable(transform):
            raise ArgumentError(
                f"preprocessing(transform={brief(transform)}): expected a function or nothing. To "
                "preprocess a picture, write seq.preprocessing()(picture)"
            )
        return preprocessing_of(self._binding, keras.config.image_data_format(), transform)

    def state_dict(self) -> State:
        """Return the state of training as a dict for JSON of less than 1 kB.

        In `fit` it counts steps of the model, so it is exact in any callback. In a loop of the user
        it counts batches that the loop has received.

        Example:
            >>> json.dumps(seq.state_dict())  # doctest: +SKIP
        """
        return self._identity.state(self.progress.ledger.place)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state: the next epoch has the remaining rows of the state's epoch.

        Another number of processes is allowed, with a warning, and another batch size if the rows
        taken are whole batches of it; with `bucket_by` and packs the batch size is part of the
        order. A Sequence with `seed=None` takes the seed of the state. Changed labels cause a
        warning.

        Args:
            state: of `state_dict`, also after JSON.

        Raises:
            ArgumentError: the state has other rows, another seed or order, or was edited.
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
        """Raise if the receipt of a state does not match the rows before its step.

        Not checked for several processes, which count only their own rows, and for skipped rows.
        """
        if place.skipped or processes > 1:
            return
        order = self._loader.order.reseeded(seed)
        taken = min(place.step * self.batch_size, order.places)
        if digest_before(order, self._loader.reader.ids, place.epoch, taken) != place.digest:
            raise ArgumentError(
                f"the receipt of the state, {place.digest:032x}, does not match step {place.step} "
                f"of epoch {place.epoch}: the state was edited or damaged. Use an older state, or "
                "train from the start"
            )

    @property
    def _identity(self) -> Identity:
        """What a state must have in common with this Sequence."""
        order = self._loader.order
        batches = f" in batches of {order.batch_size}" if order.batch_size else ""
        return Identity(
            f"{order.digest}{batches}", self.seed, len(self._binding.columns), self._ids_digest,
            self._binding.labels_digest, self.batch_size, self.shard[1],
        )  # fmt: skip

    @cached_property
    def _ids_digest(self) -> str:
        return self._binding.ids_digest

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
        from dfgen.explore.show import show_batch

        return show_batch(self, i, n=n, draws=draws, model=model, caption=caption)

    def close(self) -> None:
        """End the workers; the Sequence cannot be used afterwards."""
        self._loader.close()

    def __enter__(self) -> "Sequence":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return summary(self._loader, self.progress, len(self._binding.columns), self.seed)
