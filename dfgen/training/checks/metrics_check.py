"""Do metrics count rows that the loss does not?

Keras's `metrics=` ignore weights. That is asked for where weights only stress some rows, and
misleading where they leave out rows of which nothing is known.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dfgen.binding.nested import leaves
from dfgen.loading.loader import Loader
from dfgen.manifest.warn import warn
from dfgen.training.keras_private import unweighted_metrics


def warn_of_metrics(model: Any, loader: Loader, y: Any, padded: bool) -> None:
    """Warn of metrics that will count rows which hold blanks, or come a second time.

    Args:
        model: compiled, with `metrics=` or without.
        loader: makes the batches.
        y: names of the arrays of its targets.
        padded: whether its last batch is filled up with rows of weight 0.
    """
    metrics = unweighted_metrics(model)
    left_out = list(_left_out(metrics, loader, y, padded)) if metrics else []
    if left_out:
        warn(
            f"Keras's metrics= ignore weights, and so count rows of weight 0: "
            f"{'; '.join(left_out)}. For metrics of the other rows alone compile the model with "
            "weighted_metrics= instead of metrics="
        )


def _left_out(metrics: Any, loader: Loader, y: Any, padded: bool) -> Iterator[str]:
    asked = metrics.keys() if isinstance(metrics, Mapping) else None
    for name in leaves(y):
        there = loader.reader.present.get(name) if isinstance(name, str) else None
        if there is not None and not there.all() and (asked is None or name in asked):
            yield f"{np.count_nonzero(~there):,} without a label, as blanks in {name!r}"
    if loader.problems:
        yield f'{len(loader.problems):,} that cannot be read, as zeros (on_error="skip")'
    if padded:
        yield "those that fill up the last batch, which processes or devices share"
