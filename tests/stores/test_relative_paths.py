"""Relative paths start where a Sequence was made."""

import os
import shutil

import cv2
import numpy as np
import pytest
from public.leftovers import nothing_left as nothing_left
from public.leftovers import of_pass, sequence, written
from public.test_places import PIXELS, ROWS
from public.test_places import frame as frame

RELATIVE = {
    "file": "imgs/{}.bmp",
    "root": "{}.bmp",
    "zip": "zip://{}.bmp::a.zip",
    "cache": "imgs/{}.bmp",
}
LATER = [pytest.mark.xfail(strict=True, reason="packs and stores")]
RELATIVE_PLACES = [
    "file",
    "root",
    *(pytest.param(place, marks=LATER) for place in ("zip", "cache")),
]


@pytest.mark.parametrize("place", RELATIVE_PLACES)
def test_relative_paths_start_where_a_sequence_was_made(frame, tmp_path, monkeypatch, place):
    options = {"root": {"root": "imgs"}, "cache": {"cache": tmp_path / "cache"}}.get(place, {})
    contents = [cv2.imencode(".bmp", each[..., ::-1])[1].tobytes() for each in PIXELS]
    for folder, part in (("here", contents), ("there", contents[::-1])):
        for path in written(tmp_path / folder / "imgs", part, ".bmp").path:
            os.utime(path, (10**9, 10**9))  # otherwise a cache sees that they differ
        shutil.make_archive(tmp_path / folder / "a", "zip", tmp_path / folder / "imgs")

    def found(made, processes):
        monkeypatch.chdir(tmp_path / made)
        paths = [RELATIVE[place].format(row) for row in range(ROWS)]
        with sequence(frame.assign(path=paths), use_multiprocessing=processes, **options) as seq:
            monkeypatch.chdir(tmp_path / "there")
            return of_pass(seq)

    for made, processes in (("here", True), ("there", False), ("here", False)):
        pixels, rows = found(made, processes)
        np.testing.assert_array_equal(pixels, (PIXELS if made == "here" else PIXELS[::-1])[rows])
