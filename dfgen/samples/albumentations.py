"""Albumentations pipelines as transforms, without an import of Albumentations."""

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
from dfgen.samples.transforms import Sample, Transform, pickled_by_value

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
