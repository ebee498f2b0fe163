"""Which labels are likely wrong, by the probabilities that a model gives to all classes.

Source: Northcutt, Jiang, Chuang: Confident Learning: Estimating Uncertainty in Dataset Labels,
Journal of Artificial Intelligence Research 70 (2021), 1373-1411.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

ENOUGH = 5
"""Rows of a class, below which the mean probability of its rows says little."""


def suspected(
    labels: npt.NDArray[np.int64], prob: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the class that each row likely is of, -1 where its label is as good, and how.

    The threshold of a class is the mean probability that the rows of its label have for it. A row
    is counted into the likeliest class whose threshold it reaches; those that are counted into
    another class than their label says are the entries off the diagonal of the confident joint
    (section 3.1 of the paper; its method C in section 3.2). Classes of fewer than 5 rows have no
    threshold. Where fewer than two have one, a row is suspected of being of its likeliest class.

    Args:
        labels: class numbers (rows,).
        prob: of each class, (rows, classes), of a model that was not trained on these rows.

    Returns:
        Class numbers, and whether there were thresholds.

    Example:
        >>> prob = np.array([[0.9, 0.1]] * 6 + [[0.2, 0.8]] * 6)
        >>> suspected(np.array([0] * 5 + [1] * 7), prob)[0].tolist()
        [-1, -1, -1, -1, -1, 0, -1, -1, -1, -1, -1, -1]
    """
    rows = np.arange(len(labels))
    counts = np.bincount(labels, minlength=prob.shape[1])
    sums = np.bincount(labels, prob[rows, labels].astype(np.float64), minlength=prob.shape[1])
    enough = counts >= ENOUGH
    has_thresholds = int(enough.sum()) > 1
    if has_thresholds:
        thresholds = np.where(enough, sums / np.maximum(counts, 1), np.inf)
        reached = np.where(prob >= thresholds, prob, -1)
    else:
        reached = prob
    likeliest = reached.argmax(axis=1)
    is_other = (likeliest != labels) & (reached[rows, likeliest] >= 0)
    return np.where(is_other, likeliest, -1), has_thresholds
