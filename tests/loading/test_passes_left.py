"""Passes that are left, and many Sequences one after another."""

import pytest
from public.leftovers import nothing_left as nothing_left
from public.leftovers import of_pass, passes, resources, sequence
from public.permutation import epoch_rows
from public.test_shutdown import ROWS as ROWS
from public.test_shutdown import imgs as imgs
from public.test_shutdown import kinds as kinds


@kinds
@pytest.mark.parametrize("kept", [False, True])
def test_a_pass_that_is_left_begins_again(imgs, processes, kept):
    with sequence(imgs, use_multiprocessing=processes) as seq:
        left = []
        for _ in range(2):
            batches = iter(seq)
            assert next(batches)[1].tolist() == epoch_rows(ROWS, 0)[:4]
            left.append(batches if kept else None)
            assert seq.epoch == 0
        assert [of_pass(seq)[1] for _ in range(2)] == [epoch_rows(ROWS, e) for e in (0, 1)]
        batches = iter(seq)
        assert len(list(batches)) == 6 and next(batches, None) is next(batches, None) is None


@kinds
def test_many_sequences_one_after_another_leave_nothing(imgs, processes):
    passes(imgs, use_multiprocessing=processes)
    before = resources()
    for _ in range(5 if processes else 20):
        with sequence(imgs, use_multiprocessing=processes) as one, sequence(imgs) as other:
            next(iter(one)), other[0]
    after = resources()
    assert after["children"] == before["children"]
    assert len(after["files"]) == len(before["files"])
