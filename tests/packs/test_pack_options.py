"""Rare options of packs, and two writers at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image as Pillow
from public.leftovers import assert_same, passes, written
from public.leftovers import nothing_left as nothing_left
from public.test_packs import SMALL as SMALL
from public.test_packs import imgs as imgs
from public.test_packs import pack as pack
from public.test_packs import plain as plain
from public.test_packs import shards as shards

import dfgen
from dfgen.errors import WriteError


def test_jpegs_are_made_smaller_and_upright(tmp_path):
    pixels = np.arange(60 * 90 * 3).reshape(60, 90, 3).astype(np.uint8) // 2
    frame, exif = written(tmp_path / "imgs", [b""] * 4, ".jpg"), Pillow.Exif()
    exif[0x0112] = 6
    for row, part in enumerate([pixels, pixels, pixels[:31, :40], pixels[:31]]):
        Pillow.fromarray(part).save(frame.path[row], exif=exif if row == 1 else Pillow.Exif())
    files = {}
    for quality in (30, 92):
        out = tmp_path / str(quality)
        dfgen.pack(frame, out, format="jpeg", max_side=40, quality=quality)
        files[quality] = shards(out).sort_values("number").path_bytes.tolist()
    sizes = [cv2.imdecode(np.frombuffer(data, np.uint8), -1).shape for data in files[92]]
    assert sizes == [(27, 40, 3), (40, 27, 3), (31, 40, 3), (14, 40, 3)]
    smaller = [len(a) < len(b) for a, b in zip(*files.values(), strict=True)]
    assert smaller == [True, True, False, True]
    assert files[92][2] == Path(frame.path[2]).read_bytes()


def test_a_second_pack_into_one_folder_is_rejected(plain, tmp_path):
    class Tries(ThreadPoolExecutor):
        """Begins a second pack while the first one is being written."""

        def submit(self, *arguments, **more):
            with pytest.raises(WriteError, match="packed"):
                dfgen.pack(*paths, **options)
            return super().submit(*arguments, **more)

    expected = passes(plain)
    dfgen.write_manifest(plain, tmp_path / "m.parquet")
    (tmp_path / "imgs").rename(tmp_path / "moved")
    paths, options = (tmp_path / "m.parquet", tmp_path / "packed"), {"root": tmp_path / "moved"}
    with Tries(1) as executor:
        dfgen.pack(*paths, executor=executor, **options)
    assert_same(passes(tmp_path / "packed"), expected, ordered=False)
