"""Buckets that resume, and weights that multiply."""

import numpy as np
import pytest
from public.numbered import table
from public.permutation import epoch_rows
from public.test_draws import bucketed as bucketed
from public.test_draws import classes_table as classes_table
from public.test_draws import picture_rows as picture_rows
from public.test_draws import pictures as pictures

import dfgen


def test_buckets_resume_mid_epoch_and_across_processes(pictures):
    whole, first, seq = (bucketed(pictures) for _ in range(3))
    parts = [bucketed(pictures, shard=(index, 2)) for index in range(2)]
    for step in range(7):
        batch = np.concatenate([part[step][0] for part in parts])
        np.testing.assert_array_equal(batch, whole[step][0])
    rows = [picture_rows(batch) for _ in range(2) for batch in whole]
    for _ in zip(range(3), first, strict=False):
        pass
    seq.load_state_dict(first.state_dict())
    assert [picture_rows(batch) for _ in range(2) for batch in seq] == rows[3:]
    assert seq.receipt == whole.receipt
    with pytest.raises(dfgen.DfgenError):
        bucketed(pictures, bucket_by=None).load_state_dict(first.state_dict())
    for wrong in ({"bucket_by": "size"}, {"shuffle": False}):
        with pytest.raises(dfgen.DfgenError, match="bucket_by"):
            bucketed(pictures, **wrong)


def test_buckets_by_length_pad_lists_to_their_batch():
    lengths = [1 + row * 7 % 13 for row in range(27)]
    df = table(27, tokens=[[row + 1] * length for row, length in enumerate(lengths)])
    tokens, order = dfgen.Column("tokens", np.array, (None,), "int32"), []
    for x, _ in dfgen.Sequence(df, tokens, "label", bucket_by="length", batch_size=4, workers=2):
        rows = x[:, 0] - 1
        expected = np.zeros((len(rows), max(lengths[row] for row in rows)), "int32")
        for place, row in enumerate(rows):
            expected[place, : lengths[row]] = row + 1
        np.testing.assert_array_equal(x, expected)
        order += rows.tolist()
    assert sorted(order) == [*range(27)]
    assert order != epoch_rows(27, 0)
