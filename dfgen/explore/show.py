"""Rows of a frame, copies, and batches as pictures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ArgumentError, ManifestError, whole
from dfgen.explore.charts import caption_columns, captions, open_frame, with_predictions
from dfgen.explore.figures import in_lines, picture_figure
from dfgen.explore.tiles import Tile, batch_tiles, limits, read_row, require_column, row_tiles, word
from dfgen.manifest.duplicates import duplicates, leaks
from dfgen.manifest.io import Path
from dfgen.manifest.schema import part_column
from dfgen.samples.features.annotations import Boxes
from dfgen.samples.features.base import Feature
from dfgen.samples.features.masks import Mask
from dfgen.samples.reader import BoundFeature
from dfgen.spec import IntArray, leaves
from dfgen.table.any_table import Table

_VALUES = 12  # of `by`
_COPIES = 8  # pictures of a group of duplicates
_FEW = 3  # numbers or classes in a caption


def show(
    manifest: Path | Table, n: int = 16, *, by: str | None = None, sort: str | None = None,
    caption: str | Iterable[str] | None = None, boxes: str | Boxes | bool | None = None,
    masks: str | Mask | bool | None = None, predictions: Path | Table | None = None,
    image: str | Feature | None = None, seed: int = 0, root: Path | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Show some rows as pictures, with their labels, boxes and masks.

    Use it to look at a data set before training. Only the files of these rows are read. Sounds are
    drawn as spectrograms, arrays as images or curves, corrupt files as the reason.

    Args:
        manifest: a frame or another table, or the path of a manifest.
        n: int, number of rows. Defaults to 16.
        by: str, a column; some rows of each of its 12 most frequent values are shown. If it holds
            lists, a row counts for each of its values. Defaults to None.
        sort: str, a column whose lowest values are shown, or with `-` in front the highest, as in
            `"-loss"`. Defaults to None, a random sample.
        caption: str or list of str, columns shown below. Defaults to None, `id` and three labels.
        boxes: the column of boxes (xyxy in pixels, classes in `labels`), or a `dfgen.Boxes`; False:
            none. Defaults to None, `boxes`.
        masks: the column of mask files, or a `dfgen.Mask`; False: none. Defaults to None, `mask`.
        predictions: a frame of `dfgen.predict_frame`, or its files, shown below, wrong ones in
            red. Not needed if `manifest` has these columns. Defaults to None.
        image: the column of images, sounds, arrays, lists of numbers or texts, or a feature such as
            `dfgen.Array`. Defaults to None, the column `path`.
        seed: int, of the random sample. Defaults to 0.
        root: folder of relative paths. Defaults to None, the working folder.
        storage_options: dict, options to open URLs; see `dfgen.Sequence`. Defaults to None.

    Returns:
        A `matplotlib.figure.Figure` whose `table` is the frame of the rows shown.

    Raises:
        ManifestError: if a column does not exist, or the frame is empty.
        MissingPackageError: if matplotlib is not installed.

    Example:
        >>> import dfgen.explore  # doctest: +SKIP
        >>> df.dfgen.show(by="kind").savefig("pets.png")
    """
    whole("n", n, least=1)
    whole("seed", seed)
    frame = open_frame(manifest)
    if not len(frame):
        raise ManifestError("the frame has no rows to show")
    frame = frame if predictions is None else with_predictions(frame, predictions)
    groups = _chosen(frame, n, by, sort, seed)
    rows = frame.iloc[np.concatenate([places for _, places in groups])]
    if boxes is None or boxes is True:
        boxes = "boxes" if boxes or {"boxes", "labels"} <= {*frame} else False
    if masks is None or masks is True:
        masks = "mask" if masks or "mask" in frame else False
    names = caption_columns(rows, caption)
    if caption is None and isinstance(image, str):
        names = [name for name in names if name != image]
    pictures = _captioned(rows, row_tiles(rows, image, boxes, masks, root, storage_options), names)
    lines = [in_lines([*islice(pictures, len(places))], heading) for heading, places in groups]
    how = "random sample" if sort is None else f"sorted by {sort}"
    title = f"{len(rows):,} of {len(frame):,} rows, {how}"
    return picture_figure([*chain(*lines)], rows, title)


def _captioned(rows: pd.DataFrame, tiles: Sequence[Tile], names: list[str]) -> Iterator[Tile]:
    """Yield tiles with these columns and the predictions of their rows in the captions."""
    for place, tile in enumerate(tiles):
        lines, is_wrong = captions(rows.iloc[place], names)
        yield replace(tile, caption=[*lines, *tile.caption], is_wrong=is_wrong)


def _chosen(
    frame: pd.DataFrame, n: int, by: str | None, sort: str | None, seed: int
) -> list[tuple[str, IntArray]]:
    """Return headings, and the positions of the rows below each of them."""
    if sort is not None:
        name = sort[1:] if str(sort).startswith("-") and sort not in frame else sort
        require_column("sort", name, frame)
        keys = frame[name].reset_index(drop=True)

    def some(positions: IntArray, number: int) -> IntArray:
        if sort is None:
            number, random = min(number, len(positions)), np.random.default_rng(seed)
            return positions[np.sort(random.choice(len(positions), number, False, shuffle=False))]
        try:
            order = keys.iloc[positions].sort_values(ascending=name == sort, kind="stable")
        except (TypeError, ValueError) as error:
            raise ManifestError(f"sort={sort!r}: the values have no order: {error}") from error
        return order.index[:number].to_numpy(np.int64)

    if by is None:
        return [("", some(np.arange(len(frame)), n))]
    require_column("by", by, frame)
    values = frame[by].reset_index(drop=True).explode().dropna()  # scalars stay as they are
    counts = values.value_counts()
    most = counts.index[counts > 0][: min(n, _VALUES)]
    if not len(most):
        raise ManifestError(f"by={by!r}: all values are missing, name another column")
    groups = {value: values.index[values == value].unique().to_numpy() for value in most}
    return [
        (f"{by} = {word(value)} ({len(rows):,} rows)", some(rows, max(1, n // len(most))))
        for value, rows in groups.items()
    ]


def show_duplicates(
    manifest: Path | Table, n: int = 8, *, image: str | None = None, root: Path | None = None
) -> Any:
    """Show groups of duplicate files, and of near-duplicate images, one group per line.

    Use it before `dfgen.split(group_duplicates=True)`, or before you drop duplicates.

    Args:
        manifest: a frame with the columns `digest` and `phash` of
            `dfgen.build_manifest(facts="full")`.
        n: int, number of groups; up to eight pictures of each are shown. Defaults to 8.
        image: str, the column of images. Defaults to None, the column `path`.
        root: folder of relative paths. Defaults to None, the working folder.

    Returns:
        A `matplotlib.figure.Figure` whose `table` has all duplicates, with `group` and `kind`.

    Raises:
        ManifestError: if the frame has no digests and hashes.

    Example:
        >>> copies = df.dfgen.show_duplicates().table  # doctest: +SKIP
        >>> df = df.drop(copies.index[copies.duplicated("group")])
    """
    whole("n", n, least=1)
    frame = open_frame(manifest)
    table = duplicates(frame.reset_index(drop=True))
    groups = table[table["group"] < n].groupby("group")
    lines = [
        (f"{number}: {group['kind'].iloc[0]}, {len(group)} rows", group.index[:_COPIES].tolist())
        for number, group in groups
    ]
    title = f"{table['group'].nunique():,} groups of duplicates, {len(table):,} rows"
    return _copies_figure(frame, lines, table, title, image, root)


def show_leaks(
    manifest: Path | Table, n: int = 8, *, image: str | None = None, root: Path | None = None
) -> Any:
    """Show images of one split next to their duplicates in an earlier split.

    A model can memorise such images, so its validation metrics are too good. Use it after a split.

    Args:
        manifest: a frame as of `show_duplicates`, with a column `split` or `fold`.
        n: int, number of pairs. Defaults to 8.
        image: str, as of `show_duplicates`.
        root: as of `show_duplicates`.

    Returns:
        A `matplotlib.figure.Figure` whose `table` has all pairs, as in `id` and `other_id`.

    Raises:
        ManifestError: if the frame has no digests and hashes, or no splits.

    Example:
        >>> df = df.drop(df.dfgen.show_leaks().table.index)  # doctest: +SKIP
    """
    whole("n", n, least=1)
    frame = open_frame(manifest)
    table = leaks(frame.reset_index(drop=True))
    key = "id" if "id" in frame else "path"
    shown = table.head(n)
    places = pd.Series(np.arange(len(frame)), frame[key])
    places = places[~places.index.duplicated()]
    pairs = zip(shown.index, shown[f"other_{key}"].map(places), strict=True)
    lines = [(kind, [*pair]) for kind, pair in zip(shown["kind"], pairs, strict=True)]
    title = f"{len(table):,} rows have a duplicate in an earlier split"
    return _copies_figure(frame, lines, table, title, image, root)


def _copies_figure(
    frame: pd.DataFrame, lines: list[tuple[str, list[int]]], table: pd.DataFrame, title: str,
    image: Any, root: Any
) -> Any:  # fmt: skip
    rows = frame.iloc[np.array([row for _, places in lines for row in places], np.int64)]
    part = part_column(frame)
    names = dict.fromkeys([*caption_columns(rows), *filter(None, [part])])
    pictures = _captioned(rows, row_tiles(rows, image, root=root) if len(rows) else [], [*names])
    drawn = [(heading, [*islice(pictures, len(places))]) for heading, places in lines]
    return picture_figure(drawn, table.set_axis(frame.index[table.index]), title)


def show_batch(
    sequence: Any, i: int = 0, *, n: int = 16, draws: int = 10, model: Any = None,
    caption: str | Iterable[str] | None = None,
) -> Any:  # fmt: skip
    """Show a batch as the model gets it; see `dfgen.Sequence.show`."""
    from dfgen.training.keras_data import view_of  # late: it loads Keras

    whole("n", n, least=1)
    whole("draws", draws)
    view = view_of(sequence)
    loader, binding = view.loader, view.binding
    pictured = [bound for bound in loader.reader.features if _has_tile(bound)]
    if not pictured:
        kinds = ", ".join(bound.feature.kind for bound in loader.reader.features)
        raise ArgumentError(f"expected images, sounds, arrays or texts, got {kinds}: see seq[0]")
    rows = sequence.rows(i)
    batch = loader.batch(sequence.epoch, i % len(sequence))
    shown = min(n, len(rows))
    skipped = {place: loader.problems[int(rows[place])].reason for place in batch.skipped}
    table = sequence.manifest.iloc[rows[:shown]]
    names = None if caption is None else caption_columns(table, caption)
    texts = []
    for place in range(shown):
        if names is None:
            lines = [str(loader.reader.id(int(rows[place]))), *_labels(binding, batch, place)]
        else:
            lines, _ = captions(table.iloc[place], names)
        weights = {float(batch.weights_of(name)[place]) for name in leaves(binding.y)}
        weights = {0.0} if place in skipped else weights - {1.0}
        texts.append([*lines, *(f"weight {weight:.3g}" for weight in sorted(weights))])
    drawn, faults = [], []
    for bound in pictured:
        array, heading = batch.arrays[bound.name], bound.name
        if array.dtype != object:
            low, high = limits(array)
            shape = " x ".join(map(str, array.shape[1:]))
            heading += f": {array.dtype} {shape}, {word(low)} to {word(high)}"
        drawn += in_lines(batch_tiles(binding, bound, batch.arrays, texts, skipped), heading)
        if bound.feature.kind == "image":
            faults += ["pixels are NaN or infinite"] * (not np.isfinite(array).all())
            faults += [f"all pixels of the batch are {low:g}"] * (len(rows) > 1 and low == high)
    if draws and loader.reader.is_random:
        row, epochs = int(rows[0]), range(sequence.epoch, sequence.epoch + draws)
        read = {epoch: read_row(loader.reader, row, sequence.seed, epoch) for epoch in epochs}
        for bound in pictured:  # before `batch_transform`
            tiles = []
            for epoch, (arrays, bad) in read.items():
                tiles += batch_tiles(binding, bound, arrays, [[f"epoch {epoch}"]], bad)
            name = f"{bound.name} of row id={loader.reader.id(row)!r}, in {draws} draws"
            drawn += in_lines(tiles, name)
    if model is not None:
        from dfgen.training.checks.check import range_faults  # late: it loads Keras

        faults += range_faults(model, view)
    title = f"batch {i} of {len(sequence):,}, epoch {sequence.epoch}: {shown} of {len(rows)} rows"
    return picture_figure(drawn, table, title, [f"Looks wrong: {fault}" for fault in faults])


def _has_tile(bound: BoundFeature) -> bool:
    is_array = bound.feature.kind in ("array", "column") and bound.specs[bound.name].shape != ()
    return is_array or bound.feature.kind in ("image", "audio", "text")


def _labels(binding: Any, batch: Any, place: int) -> Iterator[str]:
    """Yield the labels of a row: numbers, or class names with shares if they are mixed."""
    for name in [*leaves(binding.y), *leaves(binding.x)] * (place not in batch.skipped):
        bound = binding[name]
        if _has_tile(bound) or bound.like is not None:
            continue
        names = bound.feature.class_names
        flat = batch.arrays[next(iter(bound.arrays.values()))][place].reshape(-1)
        texts = [word(number) for number in flat[: _FEW + 1].tolist()]
        if names is not None and len(flat) == 1 and flat[0] in range(len(names)):
            texts = [str(names[int(flat[0])])]
        elif names is not None and len(flat) == len(names):
            most = [at for at in np.argsort(-flat, kind="stable").tolist() if flat[at] > 0.005]
            shares = ["" if flat[at] == 1 else f" {flat[at]:.0%}" for at in most]
            texts = [f"{names[at]}{share}" for at, share in zip(most, shares, strict=True)]
        yield ", ".join(texts[:_FEW] + ["…"] * (len(texts) > _FEW)) or "none"
