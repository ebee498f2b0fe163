"""The user's functions: checks before and after they run, their tracebacks, and pickling.

Albumentations pipelines are transforms too; Albumentations itself is not imported.
"""

import copy
import functools
import inspect
import io
import os
import pickle
import random
import signal
import threading
import traceback
import types
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dfgen.errors import ArgumentError, DecodeError, DfgenError, TransformError, brief, is_outside
from dfgen.spec import Spec, Values

Sample = dict[str, Values]
Transform = Callable[[Sample, np.random.Generator], Sample]


def check_transform(name: str, function: object, of: str) -> None:
    """Raise if a `transform` or `batch_transform` cannot be called as `name(of, rng)`."""
    if function is not None:
        advice = f'write def {name}({of}, rng): {of}["image"] = ...; return {of}'
        check_call(name, function, 2, f"{name}({of}, rng)", advice)


def check_call(name: str, function: Any, count: int, call: str, advice: str) -> None:
    """Raise unless a function accepts `count` arguments, or its signature is unknown."""
    if not callable(function):
        raise ArgumentError(f"{name} must be a function {call}, got {brief(function)}: {advice}")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        raise ArgumentError(
            f"{name}={name_of(function)}{signature} cannot be called as {call}: {advice}"
        ) from None


def name_of(function: Any) -> str:
    """Return the name of a function's definition."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__name__)
    return str(name).rpartition("<locals>.")[2]


def run(who: str, error_type: type[DfgenError], function: Callable[..., Any], *args: Any) -> Any:
    """Call a user's function; its exceptions become `error_type`.

    The traceback is added as a note, because Keras and worker processes lose the exception chain.
    Ctrl+C, and memory and system errors of decoders, are raised unchanged.
    """
    process = os.getpid()
    try:
        return function(*args)
    except BaseException as cause:
        is_ctrl_c = (
            isinstance(cause, KeyboardInterrupt)
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        )
        if is_ctrl_c or (error_type is DecodeError and is_outside(cause)):
            raise
        error = error_type(f"{who} raised {type(cause).__name__}: {' '.join(str(cause).split())}")
        lines = cause.__traceback__
        while lines and lines.tb_frame.f_globals.get("__name__", "").startswith("dfgen."):
            lines = lines.tb_next
        if lines is not None:
            text = "".join(traceback.format_exception(type(cause), cause, lines))
            error.add_note(f"In your function:\n{text.rstrip()}")
        raise error from cause
    finally:
        if os.getpid() != process:  # a child that the function forked would make all rows again
            os._exit(0)


def pickled_by_value(value: object, **options: Any) -> bytes:
    """Pickle an object; functions of notebooks and scripts by value, with their file names.

    cloudpickle omits file names since 3.1.3, so tracebacks would show no source lines.
    """
    import cloudpickle

    make_code = cloudpickle.Pickler.dispatch_table[types.CodeType]

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar = ChainMap(
            {types.CodeType: lambda code: (_code_of, (code.co_filename, *make_code(code)))},
            cloudpickle.Pickler.dispatch_table,
        )

    with io.BytesIO() as file:
        Pickler(file, **options).dump(value)
        return file.getvalue()


def _code_of(filename: str, make: Callable[..., types.CodeType], args: Any) -> types.CodeType:
    return make(*args).replace(co_filename=filename)


def transformed(
    transform: Transform, sample: Sample, rng: Any, changed: Mapping[str, tuple[Any, ...]]
) -> Sample:
    """Run a transform and check the keys, shapes and dtypes of its result.

    `changed`: name -> expected shape, of arrays whose shape it may change.
    """
    expected = {
        name: Spec(changed.get(name, value.shape), value.dtype) for name, value in sample.items()
    }
    result = run("the transform", TransformError, transform, dict(sample), rng)
    check_keys("the transform", "sample", result, expected)
    try:
        arrays = {  # text and bytes stay objects, without a fixed length
            name: np.asarray(value, object if expected[name].dtype.hasobject else None)
            for name, value in result.items()
        }
    except Exception as error:  # for example a tensor on a GPU
        raise TransformError(f"the transform returned no array: {error}") from error
    for name, spec in expected.items():
        value = arrays[name]
        if not fits(value.shape, spec.shape) or value.dtype != spec.dtype:
            raise TransformError(
                f"the transform returned {name!r} as {value.dtype} of shape {value.shape}, "
                f'expected {spec.dtype} of shape {spec.shape}: .astype("{spec.dtype}") converts '
                "it; scale= is applied after the transform"
            )
    return arrays


def without_blanks(array: Values, blank: Any) -> Values:
    """Return an array without the blank rows at its end."""
    there = (array != blank).ravel().nonzero()[0]
    return array[: there[-1] * len(array) // array.size + 1] if len(there) else array[:0]


def check_keys(who: str, argument: str, result: object, expected: Mapping[str, Any]) -> None:
    """Raise unless the result is a dict with the expected keys."""
    if not isinstance(result, dict) or result.keys() != expected.keys():
        got = list(result) if isinstance(result, dict) else brief(result)
        raise TransformError(
            f"{who} returned {got}, expected a dict with the keys {list(expected)}: write "
            f'{argument}["{next(iter(expected))}"] = ..., then return {argument}'
        )


def fits(shape: tuple[int, ...], expected: tuple[Any, ...]) -> bool:
    """Return whether a shape matches; None in `expected` matches any length."""
    return len(shape) == len(expected) and all(
        wanted in (None, length) for length, wanted in zip(shape, expected, strict=True)
    )


_KINDS = {"image": "image", "mask": "mask", "boxes": "bboxes"}
"""Kind of a feature -> Albumentations' name of a target."""

_BOXES = {"xyxy": "pascal_voc", "xywh": "coco", "rel_xyxy": "albumentations"}


def albumentations(pipeline: Any) -> Transform:
    """Return an Albumentations pipeline as a `transform` of a Sequence.

    All images, masks and boxes of a row are transformed together. The pipeline draws from the
    sample's `rng`, so a row draws the same in the same epoch; its own seed is not used.

    Images go in with their `load_size`, if any, and must come out as uint8 in the size of
    `Image(size=...)`. `scale=` is applied afterwards, so omit Normalize and ToTensorV2. Boxes need
    `bbox_params=A.BboxParams(...)` for its limits (`min_area`, ...); format and label fields are
    set here. The label of a dropped box is dropped too.

    Args:
        pipeline: an `albumentations.Compose` (`pip install "keras-dfgen[albumentations]"`).

    Raises:
        ArgumentError: not a pipeline.

    Example:
        >>> pipeline = A.Compose([A.RandomCrop(224, 224), A.HorizontalFlip()])  # doctest: +SKIP
        >>> image = dfgen.Image(size=(224, 224), load_size=(256, 256))
        >>> dfgen.Sequence(df, x=image, transform=dfgen.albumentations(pipeline))
    """
    if isinstance(pipeline, type) or not hasattr(pipeline, "add_targets"):
        raise ArgumentError(
            "pipeline must be A.Compose([...]) of Albumentations 2.0.8 or later, got "
            f"{brief(pipeline)}"
        )
    return Pipeline(pipeline)


class _Target(NamedTuple):
    name: str  # name of the array in the sample
    kind: str  # "image", "mask" or "bboxes"
    key: str  # name in the pipeline; the first of a kind has the name of the kind
    labels: str  # name of the array of labels of boxes


class Pipeline:
    """A pipeline as a transform of `targets`, which a Sequence sets by `of`."""

    def __init__(self, pipeline: Any, targets: tuple[_Target, ...] = ()) -> None:
        self.pipeline = pipeline
        self._targets = targets
        self._local = threading.local()

    def of(self, arrays: Iterable[tuple[str, str, str, str]]) -> "Pipeline":
        """Return a Pipeline for samples of arrays (name, kind, box format, name of the labels)."""
        targets, formats, pipeline = list[_Target](), set[str](), copy.deepcopy(self.pipeline)
        for name, kind, box_format, labels in arrays:
            if kind in ("keypoints", "masks"):
                raise ArgumentError(
                    f"dfgen.albumentations cannot transform {kind}, {name!r} would not follow the "
                    "image: write your own transform(sample, rng)"
                )
            if target := _KINDS.get(kind):
                is_first = all(other.kind != target for other in targets)
                targets.append(_Target(name, target, target if is_first else name, labels))
                formats |= {box_format} if target == "bboxes" else set()
        boxes = pipeline.processors.get("bboxes")
        if all(target.kind != "image" for target in targets) or len(formats) > 1:
            raise ArgumentError("dfgen.albumentations needs an image, and one format of boxes")
        if formats and boxes is None:
            raise ArgumentError('boxes need A.Compose([...], bbox_params=A.BboxParams("coco"))')
        if boxes is not None:
            boxes.params.label_fields = None
            boxes.params.format = _BOXES[next(iter(formats), "xyxy")]
        with warnings.catch_warnings():  # a OneOf of colour changes warns about boxes
            warnings.simplefilter("ignore", UserWarning)
            pipeline.add_targets({one.key: one.kind for one in targets if one.key != one.kind})
        return Pipeline(pipeline, tuple(targets))

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Run the pipeline on one sample."""
        if not self._targets:
            raise ArgumentError("write Sequence(..., transform=dfgen.albumentations(pipeline))")
        if not hasattr(self._local, "pipeline"):
            self._local.pipeline = copy.deepcopy(self.pipeline)
        # generators, not seeds: with a seed, all transforms of the pipeline draw the same numbers
        self._local.pipeline.set_random_state(rng, random.Random(int(rng.integers(2**63))))
        inputs = {target.key: sample[target.name] for target in self._targets}
        for _, kind, key, _ in self._targets:
            if kind == "bboxes":  # append the index of each box
                inputs[key] = np.column_stack([inputs[key], np.arange(len(inputs[key]))])
            elif kind == "mask":
                inputs[key] = inputs[key][..., 0]
        outputs = self._local.pipeline(**inputs)
        for name, kind, key, labels in self._targets:
            value = np.asarray(outputs[key])
            if kind == "bboxes":
                value = value.reshape(-1, 5)
                sample[labels] = sample[labels][value[:, 4].astype(int)]
                sample[name] = value[:, :4].astype(np.float32)
            else:
                sample[name] = value[..., None] if value.ndim == 2 else value
        return sample

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (pickled_by_value(self.pipeline), self._targets)

    def __repr__(self) -> str:
        return f"dfgen.albumentations({self.pipeline!r})"


def _restored(pipeline: bytes, targets: tuple[_Target, ...]) -> Pipeline:
    """Unpickle without Albumentations' check for updates over the network."""
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    return Pipeline(pickle.loads(pipeline), targets)
