"""Serving of several inputs, and values that are none."""

import numpy as np
import pytest
from public.first_batch import equal
from public.test_serving import IMAGES as IMAGES
from public.test_serving import df as df
from public.test_serving import served as served

import dfgen
from dfgen.errors import DfgenError, MissingFileError


def test_inputs_of_several_kinds_are_served_from_rows(df):
    x = {
        "image": IMAGES["stretch"], "mask": dfgen.Mask("mask"), "age": dfgen.Number("age"),
        "kind": dfgen.Category("kind", "categorical"), "tags": dfgen.MultiLabel("tags", ("x", "y")),
    }  # fmt: skip
    expected, preprocessing = served(df, x, "tame")
    equal(preprocessing(df), expected)
    equal(
        preprocessing(df[2:].to_dict("records")), {name: one[2:] for name, one in expected.items()}
    )
    found = preprocessing({**df.iloc[1], "age": 2})
    assert (found["age"].dtype, found["age"].tolist()) == (np.float32, [2])
    with pytest.raises(DfgenError, match="age"):
        preprocessing(df.drop(columns="age"))


def test_files_that_are_none_are_errors(df, tmp_path):
    _, preprocessing = served(df, IMAGES["crop"])
    (tmp_path / "p.json").write_text('{"format": 77}')
    for path in (tmp_path / "p.json", tmp_path / "gone.json"):
        with pytest.raises(DfgenError, match=r"p\.json|gone\.json"):
            dfgen.load_preprocessing(path)
    with pytest.raises(MissingFileError, match=r"gone\.png"):
        preprocessing(tmp_path / "gone.png")
    for wrong in (3, None, [], [3], {"image": 1}):
        with pytest.raises(DfgenError):
            preprocessing(wrong)
