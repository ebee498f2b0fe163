"""Arrays made by a Spec, with lengths of a row and the dtype of a file."""

import numpy as np
import pytest

from dfgen.errors import DecodeError
from dfgen.spec import LazyArray, Spec, empty


def test_unknown_lengths_come_from_the_row():
    made = empty(Spec((None, 4, None), np.int16), (5, 9, 6))
    assert made.shape == (5, 4, 6) and made.dtype == np.int16
    assert empty(Spec((2, 3), np.uint8), (7, 7)).shape == (2, 3)


def test_unknown_dtype_comes_from_the_file():
    place = empty(Spec((None, 2), None), (3, 2))
    assert isinstance(place, LazyArray) and place.shape == (3, 2)
    first = place.of(np.dtype("uint16"))
    assert first.shape == (3, 2) and first.dtype == np.uint16
    assert place.of(np.dtype("uint16")) is first and place.array is first
    with pytest.raises(DecodeError, match=r"uint8.*uint16"):
        place.of(np.dtype("uint8"))
