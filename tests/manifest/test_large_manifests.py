"""A large manifest is opened by its path."""

import numpy as np
import pandas as pd
from public.trees import images, rows_of

import dfgen


def test_large_manifest_is_opened_by_path(tmp_path):
    images(tmp_path / "imgs", [f"{row}.png" for row in range(12)], [(4, 3)])
    rows = 120_000

    def parts():
        for first in range(0, rows, 30_000):
            ids = np.arange(first, first + 30_000)
            yield pd.DataFrame(
                {
                    "id": ids,
                    "path": [f"{tmp_path}/imgs/{row % 12}.png" for row in ids],
                    "kind": pd.Categorical.from_codes(ids % 3, ["a", "b", "c"]),
                    "split": np.where(ids % 12 < 2, "val", "train"),
                }
            )

    dfgen.write_manifest(parts(), tmp_path / "m.parquet", root=tmp_path)
    options = {"image_size": (3, 4), "batch_size": 512, "where": "split == 'val'"}
    with dfgen.Sequence(tmp_path / "m.parquet", "path", "kind", **options) as seq:
        assert len(seq) == -(-rows // 6 // 512) and seq.num_batches == len(seq)
        expected = [row for row in range(rows) if row % 12 < 2]
        ids = np.concatenate([seq.ids(step) for step in range(len(seq))])
        assert sorted(ids.tolist()) == expected
        for step in (0, len(seq) - 1):
            pixels, labels = seq[step]
            ids = np.asarray(seq.ids(step))
            assert rows_of(pixels) == (ids % 12).tolist()
            np.testing.assert_array_equal(labels, ids % 3)
