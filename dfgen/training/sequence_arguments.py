"""The arguments of `Sequence` by name, for functions that pass them on; a test compares them."""

import os
from collections.abc import Mapping
from typing import Any, TypedDict

from dfgen.binding.pixel_cache import Cache
from dfgen.limits import Amount, Limits
from dfgen.loading.batch_transforms import BatchTransform
from dfgen.samples.pixels.scaling import Scale
from dfgen.samples.transforms import Transform


class TrainArguments(TypedDict, total=False):
    """Those that may differ from split to split."""

    sample_weight: str | None
    class_weight: Mapping[Any, float] | str | None
    balance: str | None
    rows_per_epoch: int | None
    bucket_by: str | None
    batch_size: int
    seed: int | None
    drop_remainder: bool
    transform: Transform | None
    batch_transform: BatchTransform | None
    on_error: str
    workers: int | None
    use_multiprocessing: bool
    max_queue_size: int
    limits: Limits | None
    shard: tuple[int, int] | str | None
    window: Amount


class SequenceArguments(TrainArguments, total=False):
    """Those and the ones that say what a row is, which are the same for all splits."""

    id: str | None
    image_size: tuple[int, int] | None
    color_mode: str
    label_mode: str | None
    class_names: list[Any] | tuple[Any, ...] | None
    scale: Scale
    root: str | os.PathLike[str] | None
    storage_options: Mapping[str, Any] | None
    cache: Cache
