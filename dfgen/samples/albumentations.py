"""Albumentations pipelines as transforms. That library is never imported from here."""

import copy
import os
import pickle
import random
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dfgen.errors import ArgumentError, brief
from dfgen.samples.features.boxes import labels_of
from dfgen.samples.features.keypoints import forget_outside
from dfgen.samples.transforms import Sample, Transform
from dfgen.samples.user_functions import pickled_by_value
from dfgen.spec import Values

_KINDS = {
    "image": "image", "mask": "mask", "boxes": "bboxes", "images": "images", "masks": "masks",
    "keypoints": "keypoints",
}  # fmt: skip
"""dfgen's name of what a pipeline takes -> Albumentations's."""

_BOXES = {"xyxy": "pascal_voc", "xywh": "coco", "rel_xyxy": "albumentations"}

_MIDDLE = 0.5
"""The middle of a pixel, from which Albumentations counts as it flips and turns points."""


def albumentations(pipeline: Any) -> Transform:
    """Return an Albumentations pipeline as a `transform` of a Sequence.

    Use it for augmentation that Keras's layers do not have, and where masks and boxes must move
    with their image. All images, masks, boxes and key points of a row go through the pipeline
    together; all else is left alone. The same row draws the same in the same epoch, for any
    workers: each thread or process has a copy of the pipeline, which draws from the sample's `rng`,
    so a seed of the pipeline itself is not used.

    An image must come out as uint8, in the size of its `Image(size=...)`; what goes in is its
    `load_size`, if it has one. Boxes need `bbox_params=A.BboxParams(...)`, whose limits apply
    (`min_area`, ...); its format and label fields are set here. A box that is lost takes its label
    with it. Key points need `keypoint_params=A.KeypointParams(...)`; those that leave the image get
    visibility 0. Where a pipeline moves beyond an image, masks get its `fill_mask`, 0 unless told.

    Set NO_ALBUMENTATIONS_UPDATE=1 in the environment before you import Albumentations, or it asks
    the network for a newer version. Worker processes are told so anyhow.

    Args:
        pipeline: an `albumentations.Compose` (`pip install "keras-dfgen[albumentations]"`).

    Raises:
        ArgumentError: it is no such pipeline.

    Example:
        >>> pipeline = A.Compose([A.RandomCrop(224, 224), A.HorizontalFlip()])  # doctest: +SKIP
        >>> image = dfgen.Image(size=(224, 224), load_size=(256, 256))
        >>> dfgen.Sequence(df, x=image, transform=dfgen.albumentations(pipeline))
    """
    needed = ("__call__", "set_random_state", "add_targets")
    methods = all(callable(getattr(pipeline, name, None)) for name in needed)
    if isinstance(pipeline, type) or not methods:
        raise ArgumentError(
            "pipeline must be an albumentations.Compose([...]) of version 2.0.8 or later, got "
            f"{brief(pipeline)}: write dfgen.albumentations(A.Compose([...]))"
        )
    for name in {type(step).__name__ for step in _steps(pipeline)} & {"ToTensorV2", "ToTensor3D"}:
        raise ArgumentError(
            f"the Albumentations pipeline holds {name}, but images stay NumPy arrays of shape "
            "(height, width, channels), which each backend gets as it needs them: leave it out"
        )
    return Pipeline(pipeline)


def check_pixels(transform: Any) -> None:
    """Refuse a pipeline that makes floats of images of whole numbers."""
    steps = _steps(transform.pipeline) if isinstance(transform, Pipeline) else ()
    for step in steps:
        if type(step).__name__ in ("Normalize", "ToFloat"):
            scale = '"0..1"'
            if getattr(step, "normalization", "") == "standard":
                scale = f"({tuple(step.mean)}, {tuple(step.std)})"
            raise ArgumentError(
                f"the Albumentations pipeline holds {type(step).__name__}, but images stay whole "
                f"numbers until scale= makes floats of them: leave it out, and write scale={scale}"
            )


def _steps(pipeline: Any) -> Iterator[Any]:
    for step in getattr(pipeline, "transforms", ()):
        yield step
        yield from _steps(step)


class _Target(NamedTuple):
    """An array of the sample, and what it is to a pipeline."""

    name: str
    kind: str  # "image", "mask" or "bboxes"; "images" or "masks" of a list of them
    key: str  # its name in the pipeline, which wants one of each kind to have the kind's name
    format: str  # of boxes

    def given(self, sample: Sample) -> Any:
        """Return what the pipeline gets; behind its coordinates each box has its number."""
        value = sample[self.name]
        if self.kind == "bboxes":
            return np.column_stack([value, np.arange(len(value))])
        if self.kind == "keypoints":
            flat = value.reshape(-1, 3)
            return np.column_stack([flat[:, :2] - _MIDDLE, np.arange(len(flat))])
        return value[..., 0] if self.kind in ("mask", "masks") else value

    def put(self, made: Any, sample: Sample) -> None:
        """Put what the pipeline has made into the sample."""
        if self.kind == "bboxes":
            made = np.reshape(made, (-1, 5)) if len(made) else np.empty((0, 5))
            sample[self.name] = made[:, :4].astype(np.float32)
            labels = labels_of(self.name)
            sample[labels] = sample[labels][made[:, 4].astype(int)]
        elif self.kind == "keypoints":
            sample[self.name] = _followed(sample[self.name], made)
        else:
            axes = 4 if self.kind in ("images", "masks") else 3
            sample[self.name] = made if np.ndim(made) == axes else np.asarray(made)[..., None]


def _followed(points: Values, made: Any) -> Values:
    """Return points, (..., 3), where a pipeline has moved them; lost ones, and no objects, stay."""
    flat, left = points.reshape(-1, 3).copy(), np.reshape(made, (-1, 3))
    rows = left[:, 2].astype(int)
    seen = flat[rows, 2] > 0
    flat[rows[seen], :2] = left[seen, :2] + _MIDDLE
    return flat.reshape(points.shape)


class Pipeline:
    """A pipeline as a transform; each thread runs a copy of it.

    `targets` are the arrays that go through it; by their names where it is not told.
    """

    def __init__(self, pipeline: Any, targets: tuple[_Target, ...] = ()) -> None:
        self.pipeline = pipeline
        self._targets = targets
        self._local = threading.local()

    def of(self, arrays: Iterable[tuple[str, str, str]]) -> "Pipeline":
        """Return the same for samples of arrays: names, kinds (maybe numbered), formats."""
        targets: list[_Target] = []
        for name, kind, format in arrays:
            kind = _KINDS.get(kind.rstrip("0123456789").rstrip("_"), "")
            if kind:
                is_first = all(target.kind != kind for target in targets)
                targets.append(_Target(name, kind, kind if is_first else name, format))
        return Pipeline(_prepared(self.pipeline, targets), tuple(targets))

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Run the pipeline on one sample."""
        own = self._local
        if not self._targets:  # a transform of the user's own calls it
            if not hasattr(own, "told"):
                own.told = self.of((name, name, "xyxy") for name in sample)
            return own.told(sample, rng)  # type: ignore[no-any-return]
        if not hasattr(own, "pipeline"):
            own.pipeline = copy.deepcopy(self.pipeline)
        # one stream for all: seeds would have each transform of the pipeline draw the same
        own.pipeline.set_random_state(rng, random.Random(int(rng.integers(2**63))))
        made = own.pipeline(**{target.key: target.given(sample) for target in self._targets})
        for target in self._targets:
            target.put(made[target.key], sample)
        image = next(sample[t.name] for t in self._targets if t.kind in ("image", "images"))
        for target in self._targets:
            if target.kind == "keypoints":
                forget_outside(sample[target.name], image.shape[-3:-1])
        return sample

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (pickled_by_value(self.pipeline), self._targets)

    def __repr__(self) -> str:
        return f"dfgen.albumentations({self.pipeline!r})"


def _restored(pipeline: bytes, targets: tuple[_Target, ...]) -> Pipeline:
    """Unpickle, which imports Albumentations, without having it ask the network for its version."""
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    return Pipeline(pickle.loads(pipeline), targets)


def _prepared(pipeline: Any, targets: list[_Target]) -> Any:
    if not any(target.kind in ("image", "images") for target in targets):
        raise ArgumentError(
            "dfgen.albumentations(...) needs an image among x and y; called from another "
            "transform, one that is named image, image_0, ..."
        )
    pipeline = copy.deepcopy(pipeline)
    boxes = {target.name: target.format for target in targets if target.kind == "bboxes"}
    if len(set(boxes.values())) > 1:
        raise ArgumentError(f"dfgen.albumentations(...) needs all boxes in one format, got {boxes}")
    told = 'bbox_params=A.BboxParams("pascal_voc")'
    if (params := _params(pipeline, targets, "bboxes", "boxes", told)) is not None:
        params.format = _BOXES[next(iter(boxes.values()), "xyxy")]
    told = 'keypoint_params=A.KeypointParams("xy")'
    if (params := _params(pipeline, targets, "keypoints", "key points", told)) is not None:
        params.format, params.remove_invisible = "xy", False
    with warnings.catch_warnings():  # within a OneOf of pixels alone, that it moves no boxes
        warnings.simplefilter("ignore", UserWarning)
        pipeline.add_targets({t.key: t.kind for t in targets if t.key != t.kind})
    return pipeline


def _params(pipeline: Any, targets: list[_Target], kind: str, what: str, argument: str) -> Any:
    """Return how a pipeline takes targets of a kind, without labels; None where there are none."""
    processor = pipeline.processors.get(kind)
    name = next((target.name for target in targets if target.kind == kind), None)
    if processor is None and name is not None:
        raise ArgumentError(
            f"{name!r} are {what}, which the Albumentations pipeline does not take: "
            f"write A.Compose([...], {argument})"
        )
    if processor is None:
        return None
    processor.params.label_fields = None
    return processor.params
