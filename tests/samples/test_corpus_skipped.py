"""Bad files of the corpus are skipped, and verify agrees."""

import numpy as np
import pandas as pd
import pytest
from public.corpus import HEIGHT, REJECTED, RGB, WIDTH
from public.first_batch import x_of
from public.test_corpus import SOUND as SOUND

import dfgen
from dfgen.errors import MissingFileError


def test_bad_files_are_skipped_and_listed(tmp_path):
    rows = {"good": SOUND, **REJECTED, "gone": b""}
    for name, data in rows.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "gone").unlink()
    paths = [str(tmp_path / name) for name in rows]
    frame = pd.DataFrame({"id": list(rows), "path": paths, "y": 1.5})
    with pytest.raises(MissingFileError, match=r"gone.*gone"):
        x_of(frame[-1:])
    options = {"limits": dfgen.Limits(problems=len(rows)), "image_size": (HEIGHT, WIDTH)}
    options |= {"batch_size": len(rows), "on_error": "skip", "shuffle": False, "workers": 0}
    with dfgen.Sequence(frame, "path", "y", **options) as seq:
        x, _, weights = map(np.asarray, seq[0])
        problems = seq.problems
    np.testing.assert_array_equal(x[0], RGB)
    assert not x[1:].any() and np.flatnonzero(weights).tolist() == [0]
    assert problems["id"].tolist() == list(rows)[1:] and problems["path"].tolist() == paths[1:]
