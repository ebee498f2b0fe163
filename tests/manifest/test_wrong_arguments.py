"""Wrong corrections of labels."""

import pandas as pd
import pytest
from public.test_splits import HALVES as HALVES
from public.test_splits import table as table
from public.test_updates import out as out

import dfgen
from dfgen.errors import ArgumentError, ManifestError


@pytest.mark.parametrize(
    ("fixes", "word"),
    [
        ({"id": ["002", "002"], "kind": ["cat", "dog"]}, "002"),
        ({"id": ["002", "999"], "kind": "cat"}, "999"), ({"key": ["002"], "kind": "cat"}, "id"),
        ({"id": ["002", None], "kind": ["cat", "dog"]}, "id"), ({"id": ["002"], "knd": "a"}, "knd"),
        ({"id": ["002"], "kind": ["owl"]}, "owl"), ({"id": ["002"], "kind": [None]}, "kind"),
    ],
)  # fmt: skip
def test_wrong_corrections_are_named(out, fixes, word):
    with pytest.raises(ManifestError, match=word):
        dfgen.update_labels(out, pd.DataFrame(fixes), out=out.with_name("n.parquet"))
    assert not out.with_name("n.parquet").exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"shares": {"a": 0.5, "b": 0.6}}, "1.1"), ({"shares": {"a": 1.5, "b": -0.5}}, "-0.5"),
        ({"shares": {}}, "split"), ({}, "folds"), ({"shares": HALVES, "folds": 3}, "folds"),
        ({"folds": 1}, "folds"), ({"shares": HALVES, "stratify": "knd"}, "knd"),
        ({"shares": HALVES, "group": "knd"}, "knd"), ({"shares": HALVES, "group": "gap"}, "gap"),
        ({"shares": HALVES, "stratify": "real"}, "real"), ({"shares": HALVES, "seed": "x"}, "seed"),
        ({"shares": HALVES, "group_duplicates": True}, "full"),
    ],
)  # fmt: skip
def test_wrong_split_arguments_are_named(options, word):
    frame = table(4, kind=[*"aabb"], gap=["x", None, "y", "z"], real=[0.5, 1.5, 0.25, 7])
    with pytest.raises((ArgumentError, ManifestError), match=word):
        dfgen.split(frame, **options)
