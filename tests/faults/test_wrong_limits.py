"""Limits that are none are refused by their field, and every kind of number is one."""

import math

import numpy as np
import pytest

import dfgen
from dfgen.loading.problems import Problem, Problems
from dfgen.samples.reader import SampleReader


@pytest.mark.parametrize(
    ("field", "given", "message"),
    [
        ("memory", ".", 'memory must be bytes or a text such as "2GB" or "512MiB", got \'.\''),
        ("memory", math.inf, 'memory must be bytes or a text such as "2GB" or "512MiB", got inf'),
        ("problems", np.float32(1.5),
         "problems must be a number of rows, or a share of them from 0.0 to 1.0, got "
         f"{np.float32(1.5)!r}: write problems=100 or problems=0.05"),
    ],
)  # fmt: skip
def test_invalid_limit_is_rejected_by_its_field(field, given, message):
    with pytest.raises(dfgen.errors.ArgumentError) as caught:
        dfgen.Limits(**{field: given})
    assert str(caught.value) == message


def test_limits_accept_numpy_numbers_like_python_numbers():
    limits = dfgen.Limits(memory=np.float64(3e16), problems=np.int64(3), decoded_bytes=np.int8(5))
    assert limits.depth(10**15, 40) == 30
    limits.check("decoded_bytes", 5, "x")
    with pytest.raises(dfgen.errors.DecodeError, match="x, more than limits"):
        limits.check("decoded_bytes", 6, "x")
    for many, most in ((np.int64(3), 3), (np.float32(0.5), 500)):
        problems = Problems(SampleReader(range(1000), ()), {}, many)
        problems.add(dict.fromkeys(range(most), Problem("decode", "broken")), 0)
        with pytest.raises(dfgen.errors.ProblemsError):
            problems.add({most: Problem("decode", "broken")}, 0)
