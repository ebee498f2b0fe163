"""Training stops where too many rows are bad, with a list of them, and where a batch has no row."""

import contextlib
import warnings

import cv2
import numpy as np
import pandas as pd
import pytest

from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.errors import ArgumentError, ProblemsError, TransformError
from dfgen.limits import Limits
from dfgen.loading.loader import Loader
from dfgen.loading.problems import most_problems
from dfgen.samples.features.array import Array

ROWS = 200


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imgs")
    for row in range(ROWS):
        cv2.imwrite(f"{folder}/{row}.png", np.full((2, 2, 3), row, np.uint8))
    return [f"{folder}/{row}.png" for row in range(ROWS)]


def loader_of(paths, bad=(), known=(), x="path", transform=None, **options):
    df = pd.DataFrame({"id": range(len(paths)), "path": paths})
    for row in bad:
        df.loc[row, "path"] = __file__
    if known:
        df["problem"] = ["known" if row in known else None for row in range(len(df))]
    options = {"batch_size": 8, "shuffle": False, "on_error": "skip", "workers": 2, **options}
    pictures = Options(image_size=(2, 2), label_mode=None) if x == "path" else None
    pictures = pictures or Options(label_mode=None)
    bound = bind(df, x, options=pictures, transform=transform, on_error="skip")
    return contextlib.closing(Loader(bound.reader, problems=bound.problems, **options))


def decoded(data):
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if pixels[0, 0, 0] % 50 == 7:
        raise ZeroDivisionError("of one row in fifty")
    return pixels[0, 0]


def passed(loader, epochs=1):
    return [row for epoch in range(epochs) for b in loader.batches(epoch) for row in b.rows]


def test_fault_43_a_function_that_raises_now_and_then_stops_training_above_the_limit(paths):
    x = Array("path", shape=(3,), dtype="uint8", decode=decoded)
    with loader_of(paths, x=x, limits=Limits(problems=4), workers=3) as loader:
        assert sorted(passed(loader, 2)) == sorted([*range(ROWS)] * 2)
        assert [*loader.problems] == [7, 57, 107, 157]
    with (
        loader_of(paths, x=x, limits=Limits(problems=0.015)) as loader,
        pytest.raises(ProblemsError) as caught,
    ):
        passed(loader)
    why = "Array('path'): decoded raised ZeroDivisionError: of one row in fifty"
    lines = str(caught.value).splitlines()
    assert lines[0] == ("4 of 200 rows turned out bad, more than limits.problems=0.015 allows (3):")
    for line, row in zip(lines[1:5], (7, 57, 107, 157), strict=True):
        assert line.startswith(f"  row id={row}, path={paths[row]!r}: {why}")
    assert lines[5:] == [
        "Mend or leave out these rows, or allow more: limits=dfgen.Limits(problems=0.5)"
    ]


def test_fault_43_a_transform_that_raises_stops_training_at_its_row(paths):
    """It is a mistake in a program, and no problem of a row."""

    def transform(sample, rng):
        if sample["image"][0, 0, 0] == 57:
            raise ZeroDivisionError("of one row")
        return sample

    with loader_of(paths, transform=transform) as loader, pytest.raises(TransformError) as caught:
        passed(loader)
    where = f"row id=57, path={paths[57]!r}"
    assert str(caught.value).startswith(f"{where}: the transform raised ZeroDivisionError: of one")
    assert not loader.problems


@pytest.mark.parametrize(
    ("limit", "rows", "most"),
    [(None, 40, 10), (None, 1000, 50), (0, 40, 0), (3, 40, 3), (0.1, 45, 4), (1.0, 45, 45)],
)
def test_how_many_rows_may_be_bad(limit, rows, most):
    assert most_problems(limit, rows) == most


@pytest.mark.parametrize("value", [-1, 1.5, -0.1, True, "5 %", float("nan")])
def test_a_limit_that_cannot_be_is_refused(value):
    with pytest.raises(ArgumentError) as caught:
        Limits(problems=value)
    assert str(caught.value) == (
        "problems must be a number of rows, or a share of them from 0.0 to 1.0, got "
        f"{value!r}: write problems=100 or problems=0.05"
    )


def test_by_default_ten_rows_of_few_may_be_bad_beside_those_that_the_manifest_knows(paths):
    bad, known = range(0, 99, 9), range(5, 40, 8)
    with loader_of(paths[:99], bad, known) as loader, pytest.raises(ProblemsError) as caught:
        passed(loader)
    said = str(caught.value)
    assert said.startswith(
        "11 of 99 rows turned out bad, more than limits.problems allows (10):\n  row id=0, path="
    )
    assert "\n  ... and 6 more\n" in said
    with loader_of(paths[:99], [*bad][:10], known) as loader:
        passed(loader, 2)
        found = [problem.stage for problem in loader.problems.values()]
        assert (found.count("known"), found.count("read") + found.count("decode")) == (5, 10)
        assert {p.epoch for p in loader.problems.values()} == {None, 0}


@pytest.mark.parametrize("known", [(), range(8, 16)])
def test_a_batch_without_a_good_row_stops_training_whatever_the_limit(paths, known):
    bad = [] if known else range(8, 16)
    limits = Limits(problems=1.0)
    with loader_of(paths, bad, known, limits=limits) as loader:
        loader.batch(0, 0)
        with pytest.raises(ProblemsError) as caught:
            loader.batch(0, 1)
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "none of the 8 rows of a batch can be read, and nothing is trained on that:"
    )
    assert lines[1].startswith("  row id=8, path=") and len(lines) == 8
    assert lines[-2:] == ["  ... and 3 more", "Mend these rows, or leave them out"]


def test_a_batch_of_one_row_may_be_bad(paths):
    """Or an epoch whose last batch has one would stop by chance."""
    with loader_of(paths[:9], [8]) as loader:
        assert passed(loader) == [*range(9)]
        assert [*loader.problems] == [8]


def test_the_end_of_an_epoch_names_rows_that_turned_out_bad_in_it_once(paths):
    with loader_of(paths, bad=(7, 90), known=(4,)) as loader:
        with pytest.warns(UserWarning, match="2 of 200 rows turned out bad, and weigh 0") as caught:
            passed(loader)
        [warning] = caught
        assert warning.filename == __file__ and "row id=7, path=" in str(warning.message)
        assert "id=4" not in str(warning.message)  # the manifest says so
        with warnings.catch_warnings(action="error"):
            passed(loader, 2)
