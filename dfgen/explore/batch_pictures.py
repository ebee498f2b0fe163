"""The model's view: a batch as it is handed over, and one row under several draws of chance."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dfgen.binding.nested import leaves
from dfgen.errors import ArgumentError, brief
from dfgen.explore.figures import Captioned, PictureRow, in_rows, picture_figure
from dfgen.explore.plain_words import word
from dfgen.explore.predicted import caption_columns, caption_lines
from dfgen.explore.sketches import array_sketch, sound_sketch, text_sketch
from dfgen.explore.visible_pixels import Thumbnail, crossed, in_8_bits, visible
from dfgen.loading.metrics import Stopwatch
from dfgen.loading.workers.chunks import Chunk, ChunkMaker
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.reader import SampleReader
from dfgen.system import whole

if TYPE_CHECKING:
    from dfgen.training.layout import SequenceView

_FEW = 3  # numbers, or classes
_SIDE = 160  # pixels of a sketch


def label_text(class_names: Any, array: npt.NDArray[Any]) -> str:
    """Return what the array of one row says: classes by their names, their shares where mixed.

    Example:
        >>> label_text(["cat", "dog"], np.array([0.25, 0.75]))
        'dog 75%, cat 25%'
    """
    flat = np.asarray(array).reshape(-1)
    if class_names is None or (len(flat) != 1 and len(flat) != len(class_names)):
        return ", ".join(map(word, flat[:_FEW].tolist())) + ", …" * (len(flat) > _FEW)
    if len(flat) == 1:
        number = float(flat[0])
        if number.is_integer() and 0 <= number < len(class_names):
            return str(class_names[int(number)])
        return f"{class_names[-1]} {number:.0%}" if 0 < number < 1 else "none"
    most = [place for place in np.argsort(-flat, kind="stable").tolist() if flat[place] > 0.005]
    if not most:
        return "none"
    mixed = any(0 < flat[place] < 1 for place in most)
    shown = [str(class_names[p]) + (f" {flat[p]:.0%}" if mixed else "") for p in most[:_FEW]]
    return ", ".join(shown) + ", …" * (len(most) > _FEW)


_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
"""The range from black to white, the first that all pixels lie in; else their own."""

Arrays = Mapping[str, npt.NDArray[Any]]


def show_batch(
    sequence: Any,
    i: int = 0,
    *,
    n: int = 16,
    draws: int = 10,
    model: Any = None,
    caption: str | Iterable[str] | None = None,
) -> Any:
    """Show a batch as the model gets it: after decoding, resizing, transforms and scaling.

    Images are shown, sounds as waveform and spectrogram, arrays as images or curves, and texts.
    Pictures carry their ids, labels, weights, boxes, masks and key points. Above them stand dtype,
    shape, range and mean of the numbers, and what looks wrong about them. Where chance has a part
    in it, the first row follows in several draws: as it comes in this epoch and the next ones,
    without `batch_transform`.

    Args:
        sequence: a `dfgen.Sequence`.
        i: which batch of its current epoch.
        n: rows shown, the first of the batch.
        draws: of the first row; 0: none.
        model: the Keras model that it is for; where pixels of 0..255 reach its first layer with
            weights as they are, or are scaled twice, the figure says so.
        caption: the column of the manifest whose values stand below the pictures, or several, in
            place of the id and the labels that the model gets.

    Returns:
        A `matplotlib.figure.Figure`, whose `table` has the rows of the manifest that are shown.

    Raises:
        ArgumentError: it is no Sequence, or has nothing that can be shown.
        MissingPackageError: matplotlib is not installed.
        DfgenError: what making the batch raises.

    Example:
        >>> train.show(model=model)  # doctest: +SKIP
    """
    whole("n", n, least=1)
    whole("draws", draws)
    view = _view(sequence)
    loader, binding = view.loader, view.binding
    pictured = _pictured(binding)
    rows = sequence.rows(i)
    made = loader.batch(sequence.epoch, i % len(sequence))
    shown = min(n, len(rows))
    skipped = {place: loader.problems[int(rows[place])].reason for place in made.skipped}
    table = sequence.manifest.iloc[rows[:shown]]
    if caption is None:
        told = [[str(loader.reader.id(int(row)))] for row in rows[:shown]]
        told = [[*one, *_labels(binding, made, place)] for place, one in enumerate(told)]
    else:
        names = caption_columns(table, caption)
        told = [caption_lines(table.iloc[place], names) for place in range(shown)]
    captions = [(*one, *_weights(binding, made, place)) for place, one in enumerate(told)]
    lines = []
    for bound in pictured:
        tiles = _tiles(binding, bound, made.arrays, shown, skipped)
        pictures = [Captioned(*pair) for pair in zip(tiles, captions, strict=True)]
        lines += in_rows(pictures, _range_of(bound, made.arrays[bound.name]))
    if draws and loader.reader.is_random:
        lines += _drawn_rows(sequence, view, int(rows[0]), draws)
    images = [bound for bound in pictured if _is_image(bound)]
    faults = [fault for bound in images for fault in _faults(made.arrays[bound.name])]
    if model is not None:
        from dfgen.training.checks.scale_check import range_faults  # late: it loads Keras

        faults += range_faults(model, view)
    title = f"batch {i} of {len(sequence):,}, epoch {sequence.epoch}: {shown} of {len(rows)} rows"
    return picture_figure(lines, table, title, [f"Looks wrong: {fault}" for fault in faults])


def show_draws(sequence: Any, row: int = 0, n: int = 10) -> Any:
    """Show one row as it comes in the next epochs, each time as chance has it.

    Args:
        sequence: a `dfgen.Sequence`.
        row: which of its manifest, from 0.
        n: how often.

    Returns:
        A `matplotlib.figure.Figure`, whose `table` has the row.

    Raises:
        ArgumentError: it is no Sequence, has nothing that can be shown, or not so many rows.
        MissingPackageError: matplotlib is not installed.

    Example:
        >>> dfgen.explore.show_draws(train, row=3)  # doctest: +SKIP
    """
    whole("n", n, least=1)
    view = _view(sequence)
    loader = view.loader
    whole("row", row, most=len(loader.reader) - 1)
    lines = [*_drawn_rows(sequence, view, row, n)]
    said = "" if loader.reader.is_random else ", where chance has no part in it"
    return picture_figure(lines, sequence.manifest.iloc[[row]], f"row {row}{said}")


def _view(sequence: Any) -> "SequenceView":
    from dfgen.training.data_adapter import view_of  # late: it loads Keras
    from dfgen.training.sequence import Sequence

    if not isinstance(sequence, Sequence):
        raise ArgumentError(f"expected a dfgen.Sequence, got {brief(sequence)}")
    return view_of(sequence)


def _pictured(binding: Any) -> list[BoundFeature]:
    found = [one for one in binding.reader.features if _has_picture(one)]
    if not found:
        kinds = ", ".join(one.feature.kind for one in binding.reader.features)
        raise ArgumentError(
            f"the Sequence has no images, sounds, arrays or texts, but {kinds}: look at seq[0]"
        )
    return found


def _has_picture(one: BoundFeature) -> bool:
    """Whether a feature is shown by itself, neither on an image nor in the caption."""
    is_array = one.feature.kind in ("array", "column") and one.specs[one.name].shape != ()
    return _is_image(one) or is_array or one.feature.kind in ("audio", "text")


def _is_image(one: BoundFeature) -> bool:
    """Whether a feature is an image, or has several in each row."""
    return one.image is not None or one.feature.kind == "image"


def _is_bgr(one: BoundFeature) -> bool:
    return getattr(one.feature, "scale", None) == "caffe"


def _drawn_rows(sequence: Any, view: "SequenceView", row: int, n: int) -> Iterator[PictureRow]:
    """Yield a line of pictures of a row for each of its images, one picture an epoch."""
    loader, binding = view.loader, view.binding
    maker = ChunkMaker(loader.reader, sequence.seed, skip=False)
    epochs = range(sequence.epoch, sequence.epoch + n)
    made = [_one_row(maker, loader.reader, row, epoch) for epoch in epochs]
    for bound in _pictured(binding):
        tiles = [_tiles(binding, bound, arrays, 1, {})[0] for arrays in made]
        captions = ((f"epoch {epoch}",) for epoch in epochs)
        pictures = [Captioned(*pair) for pair in zip(tiles, captions, strict=True)]
        heading = f"{bound.name} of row id={loader.reader.id(row)!r}, in {n} draws"
        yield from in_rows(pictures, heading)


def _one_row(maker: ChunkMaker, reader: SampleReader, row: int, epoch: int) -> Arrays:
    rows = np.array([row])
    specs = reader.padding.specs(rows, reader.specs)
    arrays = {name: np.zeros((1, *spec.shape), spec.dtype) for name, spec in specs.items()}
    chunk = Chunk(epoch, rows, np.zeros(1, np.int64))
    maker.fill(chunk, arrays, Stopwatch(), lambda: False)
    return arrays


def _tiles(
    binding: Any, bound: BoundFeature, arrays: Arrays, n: int, skipped: Mapping[int, str]
) -> list[Thumbnail]:
    array = arrays[bound.name]
    if not _is_image(bound):
        return [_sketch(bound.feature, array, place, skipped) for place in range(n)]
    low, high = _black_and_white(array)
    on_it = [one for one in binding.reader.features if one.like == bound.name]
    found = []
    for place in range(n):
        if place in skipped:
            found.append(_skipped(array.shape[-3], skipped[place]))
            continue
        pixels = _first_item(array[place])[..., :: -1 if _is_bgr(bound) else 1]
        if pixels.dtype != np.uint8:
            pixels = in_8_bits(pixels, low, high)
        drawn: dict[str, Any] = {}
        for one in on_it:
            drawn |= _overlay(one, arrays, place, pixels.shape[:2])
        found.append(Thumbnail(visible(pixels)[0], **drawn))
    return found


def _skipped(side: int, why: str) -> Thumbnail:
    return Thumbnail(crossed(side), f"skipped: {why}")


def _sketch(
    feature: Any, array: npt.NDArray[Any], place: int, skipped: Mapping[int, str]
) -> Thumbnail:
    """Return the sound, text or array of a row of a batch as a picture."""
    if place in skipped:
        return _skipped(_SIDE, skipped[place])
    if feature.kind == "audio":
        return sound_sketch(array[place], feature.sample_rate, _SIDE)
    if feature.kind == "text":
        return text_sketch(str(array[place]), _SIDE)
    return array_sketch(array[place], _SIDE)


def _first_item(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an image, of several in a row the first."""
    return array if array.ndim == 3 else array[0]


def _overlay(
    one: BoundFeature, arrays: Arrays, place: int, size: tuple[int, ...]
) -> dict[str, Any]:
    names = list(one.arrays.values())
    if one.feature.kind == "mask":
        return {"mask": _first_item(arrays[names[0]][place])[..., 0]}
    if one.feature.kind == "masks":  # of objects: each its number
        masks = arrays[names[0]][place][..., 0] > 0
        return {"mask": (masks * np.arange(1, len(masks) + 1)[:, None, None]).max(axis=0)}
    if one.feature.kind == "keypoints":
        points = arrays[names[0]][place].reshape(-1, 3)
        return {"points": points[points[:, 2] > 0, :2]}
    if one.feature.kind != "boxes":
        return {}
    labels = arrays[names[1]][place]
    there = labels >= 0
    boxes = arrays[names[0]][place][there].astype(np.float32)
    if one.feature.format == "rel_xyxy":  # type: ignore[attr-defined]
        boxes = boxes * np.array([size[1], size[0]] * 2, np.float32)
    elif one.feature.format == "xywh":  # type: ignore[attr-defined]
        boxes = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    classes = one.feature.class_names
    words = (str(label if classes is None else classes[label]) for label in labels[there].tolist())
    return {"boxes": boxes, "labels": tuple(words)}


def _labels(binding: Any, made: Any, place: int) -> Iterator[str]:
    """Yield the labels of a row in words; none of a row that was skipped: its arrays are blank."""
    for name in [*leaves(binding.y), *leaves(binding.x)]:
        bound = binding[name]
        if _has_picture(bound) or bound.like is not None or place in made.skipped:
            continue
        array = made.arrays[next(iter(bound.arrays.values()))][place]
        yield label_text(bound.feature.class_names, array)


def _weights(binding: Any, made: Any, place: int) -> list[str]:
    """Return the weights of a row that are not 1."""
    if place in made.skipped:
        return ["weight 0"]
    weights = {float(made.weights_of(name)[place]) for name in leaves(binding.y)}
    return [f"weight {weight:.3g}" for weight in sorted(weights) if weight != 1]


def _range_of(bound: BoundFeature, array: npt.NDArray[Any]) -> str:
    if array.dtype == object:
        return bound.name
    shape = " x ".join(map(str, array.shape[1:]))
    numbers = array[np.isfinite(array)]
    held = "no finite number"
    if numbers.size:
        ends = [word(float(number)) for number in (numbers.min(), numbers.max())]
        held = f"{' to '.join(ends)}, mean {word(float(numbers.mean(dtype=float)))}"
    channels = ", BGR" if _is_bgr(bound) else ""
    return f"{bound.name}: {array.dtype} {shape}{channels}, {held}"


def _black_and_white(array: npt.NDArray[Any]) -> tuple[float, float]:
    numbers = array[np.isfinite(array)]
    low, high = float(numbers.min(initial=0)), float(numbers.max(initial=0))
    fitting = (pair for pair in _RANGES if pair[0] <= low and high <= pair[1])
    return next(fitting, (low, high))


def _faults(array: npt.NDArray[Any]) -> Iterator[str]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        yield "pixels are NaN or infinite"
    elif len(array) > 1 and array.size and array.min() == array.max():
        yield f"all pixels of the batch are {array.flat[0]}"
