"""Albumentations pipelines as transforms. That library is never imported from here."""

import copy
import os
import pickle
import random
import threading
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from dfgen.errors import ArgumentError, brief
from dfgen.samples.transforms import Sample, Transform
from dfgen.samples.user_functions import pickled_by_value

_KINDS = {"image": "image", "mask": "mask", "boxes": "bboxes"}
"""The kind of a feature -> Albumentations's name of what a pipeline takes."""

_BOXES = {"xyxy": "pascal_voc", "xywh": "coco", "rel_xyxy": "albumentations"}


def albumentations(pipeline: Any) -> Transform:
    """Return an Albumentations pipeline as a `transform` of a Sequence.

    All images, masks and boxes of a row go through the pipeline together. It draws from the
    sample's `rng`: the same row draws the same in the same epoch, and its own seed is not used.

    An image must come out as uint8, in the size of its `Image(size=...)`; what goes in is its
    `load_size`, if it has one; scale= comes afterwards, so leave Normalize and ToTensorV2 out.
    Boxes need `bbox_params=A.BboxParams(...)`, whose limits apply (`min_area`, ...); its format and
    label fields are set here. A box that is lost takes its label with it.

    Args:
        pipeline: an `albumentations.Compose` (`pip install "keras-dfgen[albumentations]"`).

    Raises:
        ArgumentError: it is no such pipeline.

    Example:
        >>> pipeline = A.Compose([A.RandomCrop(224, 224), A.HorizontalFlip()])  # doctest: +SKIP
        >>> image = dfgen.Image(size=(224, 224), load_size=(256, 256))
        >>> dfgen.Sequence(df, x=image, transform=dfgen.albumentations(pipeline))
    """
    if isinstance(pipeline, type) or not hasattr(pipeline, "add_targets"):
        raise ArgumentError(
            "pipeline must be an albumentations.Compose([...]) of version 2.0.8 or later, got "
            f"{brief(pipeline)}: write dfgen.albumentations(A.Compose([...]))"
        )
    return Pipeline(pipeline)


class _Target(NamedTuple):
    name: str  # of an array of the sample
    kind: str  # "image", "mask" or "bboxes"
    key: str  # its name in the pipeline, which wants one of each kind to have the kind's name
    labels: str  # the array of the labels of boxes


class Pipeline:
    """A pipeline as a transform of the `targets`, arrays that a Sequence chooses by `of`."""

    def __init__(self, pipeline: Any, targets: tuple[_Target, ...] = ()) -> None:
        self.pipeline = pipeline
        self._targets = targets
        self._local = threading.local()

    def of(self, arrays: Iterable[tuple[str, str, str, str]]) -> "Pipeline":
        """Return the same for samples of arrays: (name, kind, box format, name of the labels)."""
        targets, formats, pipeline = list[_Target](), set[str](), copy.deepcopy(self.pipeline)
        for name, kind, box_format, labels in arrays:
            if kind in ("keypoints", "masks"):
                raise ArgumentError(
                    f"dfgen.albumentations(...) moves images, masks and boxes, but no {kind}, and "
                    f"{name!r} would stay where it is: write a transform(sample, rng) of your own"
                )
            if target := _KINDS.get(kind):
                is_first = all(one.kind != target for one in targets)
                targets.append(_Target(name, target, target if is_first else name, labels))
                formats |= {box_format} if target == "bboxes" else set()
        boxes = pipeline.processors.get("bboxes")
        if "image" not in {target.kind for target in targets} or len(formats) > 1:
            raise ArgumentError(
                "dfgen.albumentations(...) needs an image among x and y, and all boxes in one "
                f"format, got {[target.name for target in targets]} with {sorted(formats)}"
            )
        if formats and boxes is None:
            raise ArgumentError(
                "y has boxes, which the Albumentations pipeline does not take: write "
                'A.Compose([...], bbox_params=A.BboxParams("pascal_voc"))'
            )
        if boxes is not None:
            boxes.params.label_fields = None
            boxes.params.format = _BOXES[next(iter(formats), "xyxy")]
        with warnings.catch_warnings():  # within a OneOf of pixels alone, that it moves no boxes
            warnings.simplefilter("ignore", UserWarning)
            pipeline.add_targets({one.key: one.kind for one in targets if one.key != one.kind})
        return Pipeline(pipeline, tuple(targets))

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Run the pipeline on one sample."""
        if not self._targets:
            raise ArgumentError("write Sequence(..., transform=dfgen.albumentations(pipeline))")
        if not hasattr(self._local, "pipeline"):
            self._local.pipeline = copy.deepcopy(self.pipeline)
        # one stream for all: seeds would have each transform of the pipeline draw the same
        seeds = rng, random.Random(int(rng.integers(2**63)))
        self._local.pipeline.set_random_state(*seeds)
        given = {key: sample[name] for name, _, key, _ in self._targets}
        for _, kind, key, _ in self._targets:
            if kind == "bboxes":  # behind its coordinates each box has its number
                given[key] = np.column_stack([given[key], np.arange(len(given[key]))])
            elif kind == "mask":
                given[key] = given[key][..., 0]
        made = self._local.pipeline(**given)
        for name, kind, key, labels in self._targets:
            value = np.asarray(made[key])
            if kind == "bboxes":
                value = value.reshape(-1, 5)
                sample[labels] = sample[labels][value[:, 4].astype(int)]
                value = value[:, :4].astype(np.float32)
            sample[name] = value[..., None] if kind != "bboxes" and value.ndim == 2 else value
        return sample

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (pickled_by_value(self.pipeline), self._targets)

    def __repr__(self) -> str:
        return f"dfgen.albumentations({self.pipeline!r})"


def _restored(pipeline: bytes, targets: tuple[_Target, ...]) -> Pipeline:
    """Unpickle, which imports Albumentations, without having it ask the network for its version."""
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    return Pipeline(pickle.loads(pipeline), targets)
