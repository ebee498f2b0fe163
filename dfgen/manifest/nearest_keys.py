"""The nearest of many keys: by the fewest characters that are added, left out or changed."""

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MOST = 5
"""Changes beyond which a key is another one, as are those of more than a third of it."""
TOGETHER = 20_000  # keys whose distances are found at once
COMPARED = {np.uint64: 400_000, object: 1_000}  # keys compared with one, of short and long ones
CHARACTERS = 0x110000

_Counts = npt.NDArray[np.int32]


def nearest_keys(keys: list[str], known: pa.ChunkedArray) -> dict[str, str | None]:
    """Return the nearest of the known keys for each of a few keys, None where all are far.

    Distances are Levenshtein's; of several at one distance, the first that is as long as the key.
    The characters that two keys do not share bound their distance from below, so few are compared
    in full; with a key beyond 64 characters at most 1,000, those that share most.

    Example:
        >>> nearest_keys(["pets_1"], pa.chunked_array([["pet_10", "pet_1", "dog_1"]]))
        {'pets_1': 'pet_1'}
    """
    known = known.drop_null()
    lengths = _numbers(pc.utf8_length(known))
    counts = cache(lambda char: _numbers(pc.count_substring(known, char)))
    nearest: dict[str, str | None] = {}
    for key in keys:
        missing = np.zeros(len(known), np.int32)
        for char, number in Counter(key).items():
            missing += np.maximum(number - counts(char), 0)
        bounds = np.maximum(missing, lengths - len(key) + missing)
        nearest[key] = _nearest(key, known, bounds) if key else None
    return nearest


def _numbers(column: pa.ChunkedArray) -> _Counts:
    return column.to_numpy().astype(np.int32)  # type: ignore[no-any-return]


def _nearest(key: str, known: pa.ChunkedArray, bounds: _Counts) -> str | None:
    """Return the nearest key by the lower bounds of the distances, nearest bound first."""
    furthest = min(len(key) // 3, MOST)
    best, nearest = 2 * furthest + 2, None  # twice the distance, and 1 where lengths differ
    left = COMPARED[_word(key)]
    for bound in range(furthest + 1):
        if 2 * bound >= best:
            break
        places = np.flatnonzero(bounds == bound)[:left]
        left -= len(places)
        for start in range(0, len(places), TOGETHER):
            names = known.take(pa.array(places[start : start + TOGETHER])).to_pylist()
            ranks = 2 * _distances(key, names) + [len(name) != len(key) for name in names]
            if ranks.min() < best:
                best, nearest = int(ranks.min()), names[int(ranks.argmin())]
    return nearest


def _word(key: str) -> Any:
    return np.uint64 if len(key) <= 64 else object


def _distances(key: str, names: list[str]) -> _Counts:
    """Return Levenshtein's distance of each name from the key, by one bit a character of the key.

    Source: Myers, A Fast Bit-Vector Algorithm for Approximate String Matching, 1999; as of
    Hyyrö, A Bit-Vector Algorithm for Computing Levenshtein and Damerau Edit Distances, 2003.
    """
    letters = np.array(names, f"U{max(map(len, names), default=0) or 1}")
    codes = letters.view(np.uint32).reshape(len(names), -1)
    lengths = np.array([len(name) for name in names])
    word, full, last = _word(key), (1 << len(key)) - 1, 1 << (len(key) - 1)
    masks = np.zeros(CHARACTERS, word)
    for char in set(key):
        masks[ord(char)] = sum(1 << place for place, other in enumerate(key) if other == char)
    up, down = np.full(len(names), full, word), np.zeros(len(names), word)
    distances = np.full(len(names), len(key), np.int32)
    for column in range(codes.shape[1]):
        same = masks[codes[:, column]]
        diagonal = ((((same & up) + up) ^ up) | same | down) & full
        right, left = down | (full ^ (diagonal | up)), diagonal & up
        steps = (right & last != 0).astype(np.int32) - (left & last != 0)
        distances += np.where(column < lengths, steps, 0)
        right = ((right << 1) | 1) & full
        up, down = ((left << 1) & full) | (full ^ (diagonal | right)), right & diagonal
    return distances
