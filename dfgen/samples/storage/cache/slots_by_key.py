"""SlotsByKey: which slot of a cache has the pixels of a key."""

import numpy as np
import numpy.typing as npt

from dfgen.samples.features.spec import Indices

_MERGED = 1 << 16  # keys in a dict, of over 100 bytes each, before they go to those in arrays

SlotKey = tuple[int, int]
SlotKeys = npt.NDArray[np.uint64]
"""An array of shape (keys, 2)."""

NOWHERE = -1
"""Instead of the slot of a key that has none."""


class SlotsByKey:
    """Keys and their slots: most in sorted arrays, the latest in a dict. The latest one counts."""

    def __init__(self) -> None:
        self._keys: SlotKeys = np.empty((0, 2), np.uint64)
        self._places: Indices = np.empty(0, np.int64)
        self._latest: dict[SlotKey, int] = {}

    def __len__(self) -> int:
        return len(self._keys) + len(self._latest)

    def add(self, keys: SlotKeys, slots: Indices) -> None:
        """Add some keys."""
        if len(keys) + len(self._latest) < _MERGED:
            for (first, second), slot in zip(keys.tolist(), slots.tolist(), strict=True):
                self._latest[first, second] = slot
            return
        latest = np.array([*self._latest], np.uint64).reshape(-1, 2)
        keys = np.concatenate([self._keys, latest, keys])
        slots = np.concatenate([self._places, [*self._latest.values()], slots]).astype(np.int64)
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        keys = keys[order]
        last = np.append((keys[1:] != keys[:-1]).any(axis=1), True)
        self._keys, self._places = np.ascontiguousarray(keys[last]), slots[order][last]
        self._latest = {}

    def put(self, key: SlotKey, slot: int) -> None:
        """Add one key."""
        self._latest[key] = slot

    def slots(self, keys: SlotKeys) -> Indices:
        """Return the slots of some keys, NOWHERE where there is none."""
        found = np.full(len(keys), NOWHERE, np.int64)
        if len(self._keys):
            firsts = self._keys[:, 0]
            at = np.minimum(np.searchsorted(firsts, keys[:, 0]), len(firsts) - 1)
            same = (self._keys[at] == keys).all(axis=1)
            found[same] = self._places[at[same]]
        if self._latest:
            for place, (first, second) in enumerate(keys.tolist()):
                slot = self._latest.get((first, second))
                found[place] = found[place] if slot is None else slot
        return found
