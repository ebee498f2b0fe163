"""The weight of each row of a batch in the loss, also of a short last batch and of rows lost."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from dfgen.loading.order.plan import Plan

Weights = npt.NDArray[np.float32]


def batch_weights(
    plan: Plan, step: int, given: Weights | None = None, lost: Collection[int] = ()
) -> Weights:
    """Return what each row of a batch counts in the loss, of which Keras takes the mean.

    If batches are padded, real rows all weigh batches * G / rows and the padding 0, so that the
    mean over all places of all batches is the mean over the rows. With G / real in the last batch
    alone, a row of a last batch of few would count more than others. Likewise rows that could not
    be read, at the places `lost`, weigh 0, and the other real ones of this host's batch real /
    left. `given` is what its rows weigh by themselves; None, each 1.

    Example:
        >>> batch_weights(Plan(4, 3, tail="pad"), 1).tolist()
        [1.5, 0.0, 0.0]
        >>> batch_weights(Plan(4, 4), 0, lost=[2]).round(2).tolist()
        [1.3300000429153442, 1.3300000429153442, 0.0, 1.3300000429153442]
    """
    real = plan.real(step)
    if plan.tail == "pad":
        weights = np.zeros(plan.size, np.float32)
        weights[:real] = len(plan) * plan.batch_size / plan.rows
    else:
        weights = np.ones(real, np.float32)
    if given is not None:
        weights *= given
    if lost:
        weights[list(lost)] = 0
        weights *= np.float32(real / max(1, real - sum(place < real for place in lost)))
    return weights
