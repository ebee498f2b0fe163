"""Receipts: which rows an epoch was trained on, equal for equal rows at equal positions."""

from functools import reduce
from operator import add

import pytest

import dfgen
from public.numbered import PROCESSES, flat, sequence, table, take
from public.permutation import epoch_rows
from public.watching import built_watcher

FACTS = ("epoch", "rows", "repeated", "missing", "skipped", "left_out")


def facts(receipt):
    return {name: getattr(receipt, name) for name in FACTS}


def counts(epoch, rows, skipped=0, left_out=0):
    return dict(zip(FACTS, (epoch, rows, 0, 0, skipped, left_out), strict=True))


def after(rows, epochs=1, **options):
    """Return the receipt of the last of some epochs."""
    with sequence(rows, **options) as seq:
        for _ in range(epochs):
            flat(seq)
        return seq.receipt


def test_receipt_counts_whole_epochs_only():
    seq = sequence(11)
    take(seq, 2)
    assert seq.receipt is None
    flat(seq)
    first = seq.receipt
    assert facts(first) == counts(0, 11)
    take(seq, 2)
    assert seq.receipt == first
    flat(seq)
    assert facts(seq.receipt) == counts(1, 11)


@pytest.mark.parametrize("options", [{"workers": 3}, PROCESSES, {"batch_size": 5}], ids=str)
def test_equal_rows_at_equal_positions_have_equal_digests(options):
    assert after(11, **options) == after(11)
    assert after(11, epochs=3, **options) == after(11, epochs=3)


def test_other_rows_seeds_and_epochs_change_the_digest():
    rows = [12, 10, table(11)[::-1], table(11).assign(id=[*range(1, 11), 0])]
    options = [{"seed": 1}, {"shuffle": False}, {"balance": "label"}, {"drop_remainder": True}]
    options += [{}, {"epochs": 2}, {"shard": (0, 2)}, {"shard": (1, 2)}]
    receipts = [*map(after, rows), *(after(11, **other) for other in options)]
    assert len({receipt.digest for receipt in receipts}) == 12


@pytest.mark.parametrize(("rows", "size", "count"), [(12, 4, 2), (11, 4, 2), (29, 6, 3), (9, 4, 4)])
def test_receipts_of_processes_add_up_to_the_whole(rows, size, count):
    for epochs in (1, 2):
        whole = after(rows, epochs, batch_size=size, drop_remainder=True)
        assert facts(whole) == counts(epochs - 1, rows - rows % size, left_out=rows % size)
        options = [{"batch_size": size, "shard": (index, count)} for index in range(count)]
        parts = [after(rows, epochs, **shard) for shard in options]
        taken = (rows - rows % size) // count
        for part in parts:
            assert facts(part) == counts(epochs - 1, taken, left_out=rows % size)
        assert reduce(add, parts) == whole
        with pytest.raises(dfgen.DfgenError, match="epoch"):
            whole + after(rows, epochs + 1, batch_size=size, drop_remainder=True)


def test_skipped_rows_are_counted_and_shift_nothing(frame, tmp_path):
    def make(df, **options):
        options = {"batch_size": 4, "image_size": (4, 4), "workers": 0, **options}
        return dfgen.Sequence(df, y="label", on_error="skip", **options)

    def run(*arguments, **options):
        seq = make(*arguments, **options)
        return len([*seq]) and seq.receipt

    df, order = frame(30), epoch_rows(30, 0)
    (tmp_path / "text.png").write_text("no image")
    df.loc[[order[2], order[21]], "path"] = str(tmp_path / "text.png")
    receipt = run(df)
    assert facts(receipt) == counts(0, 28, skipped=2)
    assert receipt.digest != run(frame(30)).digest
    assert run(df, workers=2, batch_size=6) == receipt
    assert facts(run(df, drop_remainder=True)) == counts(0, 26, skipped=2, left_out=2)
    parts = [run(df, shard=(index, 2)) for index in range(2)]
    assert reduce(add, parts) == run(df, drop_remainder=True)
    first, seq = make(df), make(df)
    for _ in zip(range(5), first, strict=False):
        pass
    seq.load_state_dict(first.state_dict())
    rows = [row for x, *_ in seq for row in x[:, 0, 0, 0]]
    assert rows == [order[20], 0, *order[22:]]
    assert seq.receipt == receipt


@pytest.mark.backend
def test_receipt_of_fit_is_that_of_a_loop(frame):
    options = {"y": "label", "batch_size": 4, "image_size": (4, 4), "workers": 2}
    loop, seq = (dfgen.Sequence(frame(11), **options) for _ in range(2))
    model = built_watcher()
    for epochs in (1, 2):
        for _ in range(epochs):
            assert len([*loop]) == 3
        model.fit(seq, epochs=epochs, verbose=0)
        model.evaluate(seq, verbose=0)
        assert seq.receipt == loop.receipt
        assert facts(seq.receipt) == counts(seq.epoch - 1, 11)
    model.fit(seq.repeat(), steps_per_epoch=4, verbose=0)
    assert facts(seq.receipt) == counts(3, 11)
