"""Each row exactly once per epoch, in the order of the reference permutation."""

import numpy as np
import pandas as pd
import pytest

import dfgen
from public.numbered import batches_of, drawing, epoch_batches, flat, rows_of, sequence, table, take
from public.permutation import epoch_rows, epochs_rows
from public.watching import built_watcher

WORKERS = [{"workers": 1}, {"workers": 2}, {"workers": 2, "use_multiprocessing": True}]
ROWS = (1, 2, 3, 4, 5, 11, 48, 45, 97)
SHARDS = {1: [(0, 1)], 3: [(0, 1), (2, 3)], 4: [(0, 1), (0, 2), (1, 2), (3, 4)], 50: [(0, 1)]}
SHARDS |= {6: [(0, 1), (1, 3), (2, 3)], 12: [(0, 2), (5, 6)]}
GRID = [(size, shard, drop) for size in SHARDS for shard in SHARDS[size] for drop in (False, True)]


@pytest.mark.parametrize(("workers", "queue"), [(0, 10), (1, 30), (2, 1), (2, 10)])
@pytest.mark.parametrize("rows", ROWS)
def test_each_row_once_per_epoch_in_reference_order(rows, workers, queue):
    frame = table(rows)
    for size, shard, drop in GRID:
        whole = drop or shard[1] > 1
        if whole and size > rows:
            continue
        options = {"workers": workers, "max_queue_size": queue, "seed": rows, "shard": shard}
        with sequence(frame, batch_size=size, drop_remainder=drop, **options) as seq:
            assert seq.left_out == (rows % size if whole else 0)
            for epoch in range(2):
                expected = epoch_batches(rows, size, epoch, seed=rows, shard=shard, drop=drop)
                assert len(seq) == seq.num_batches == len(expected)
                assert [seq.rows(step).tolist() for step in range(len(seq))] == expected
                assert [rows_of(batch) for batch in seq] == expected
                assert seq.epoch == epoch + 1


@pytest.mark.parametrize("options", [{"workers": 0}, *WORKERS, {"shard": (1, 2)}], ids=str)
def test_pixels_labels_and_weights_stay_together(frame, options):
    weights = np.arange(1, 31) / 4
    df = frame(30).assign(number=range(30), weight=weights)
    y = {"number": "number", "kind": "label"}
    settings = {"sample_weight": "weight", "batch_size": 8, "image_size": (4, 4), **options}
    with dfgen.Sequence(df, y=y, **settings) as seq:
        for epoch in range(2):
            batches = epoch_batches(30, 8, epoch, shard=options.get("shard", (0, 1)))
            for rows, (x, targets, weight) in zip(batches, seq, strict=True):
                expected = np.zeros((len(rows), 4, 4, 3), "uint8")
                expected[..., 0] = np.reshape(rows, (-1, 1, 1))
                np.testing.assert_array_equal(x, expected, strict=True)
                np.testing.assert_array_equal(targets["number"], rows)
                np.testing.assert_array_equal(targets["kind"], np.array(rows) % 2)
                np.testing.assert_array_equal(weight, weights[rows])


@pytest.mark.parametrize("rows", [*range(1, 40), 8191, 20_011])
def test_batches_by_index_equal_the_reference(rows):
    """Also where the rows of an epoch are worked out in several blocks."""
    seq, expected = sequence(rows, batch_size=60, seed=3), epoch_batches(rows, 60, 0, seed=3)
    assert len(seq) == len(expected)
    for step in {len(seq) - 1, *(0, 136, 137, 135, 272, 273, 274, 1)} & {*range(len(seq))}:
        assert rows_of(seq[step]) == seq.rows(step).tolist() == expected[step]


GOLDEN = [(0, [9, 10, 7, 3, 1, 6, 4, 8, 5, 0, 2]), (1, [2, 5, 1, 7, 10, 3, 0, 4, 8, 6, 9])]
GOLDEN += [(2**40, [1, 2, 3, 0, 4])]


@pytest.mark.parametrize(("seed", "order"), GOLDEN)
def test_golden_orders(seed, order):
    assert flat(sequence(len(order), seed=seed)) == order


def test_epochs_and_seeds_are_independent():
    rows, orders = 20_000, []
    for seed in (0, 1):
        seq = sequence(rows, batch_size=rows, seed=seed)
        for _ in range(2):
            orders.append(seq.rows(0))
            flat(seq)
    orders.append(np.roll(orders[0], 1))
    for order in orders:
        assert (np.bincount(order, minlength=rows) == 1).all()
    correlations = np.corrcoef([*orders, np.arange(rows)])
    assert np.abs(correlations - np.eye(6)).max() < 0.03


@pytest.mark.parametrize("shard", [(0, 1), (0, 2), (1, 2)])
def test_unshuffled_rows_keep_the_order_of_the_frame(shard):
    seq = sequence(11, shuffle=False, shard=shard)
    for _ in range(2):
        assert [rows_of(batch) for batch in seq] == batches_of([*range(11)], 4, shard=shard)


@pytest.mark.parametrize("workers", [0, 2])
def test_any_batch_at_any_time(workers):
    with sequence(45, workers=workers) as seq:
        flat(seq)
        expected = epoch_batches(45, 4, 1)
        iterator, taken = iter(seq), []
        for step in (11, 3, 0, -1, 7, -12, 3, np.int64(5)):
            assert rows_of(seq[step]) == seq.rows(step).tolist() == expected[step]
            assert seq.ids(step) == [1000 + row for row in expected[step]]
            taken.append(rows_of(next(iterator)))
        assert taken == expected[:8]
        for step in (12, -13):
            for method in (seq.__getitem__, seq.rows, seq.ids):
                with pytest.raises(IndexError, match=str(step)):
                    method(step)
        assert seq.epoch == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_abandoned_loops_restart_and_repeat_continues(workers):
    with sequence(10, workers=workers) as seq:
        assert take(seq, 2) == epoch_rows(10, 0)[:8]
        assert (seq.epoch, flat(seq)) == (0, epoch_rows(10, 0))
        endless = seq.repeat()
        assert endless.num_batches is None
        assert take(endless, 7) == epochs_rows(10, range(1, 4))[:24]
        assert seq.epoch == 3
        assert take(endless, 3) == epochs_rows(10, range(3, 5))[4:14]
        assert (seq.epoch, seq.receipt.epoch) == (4, 3)


@pytest.mark.parametrize("index", [range(11, 0, -1), [*"kbcdefghija"], [7] * 11], ids=str)
def test_order_ignores_the_index_and_later_changes(index):
    df = table(33).query("label == 'b'").set_axis(pd.Index(index), axis=0)
    seq = sequence(df)
    df.loc[:, "number"] = -1.0
    assert flat(seq) == [3 * row + 1 for row in epoch_rows(11, 0)]
    assert seq.manifest["number"].tolist() == [*range(1, 33, 3)]


def test_row_counts_are_one_except_rows_left_out():
    seq = sequence(11, drop_remainder=True)
    for epoch in range(2):
        expected = [int(row not in epoch_rows(11, epoch)[8:]) for row in range(11)]
        assert seq.row_counts().tolist() == seq.row_counts(epoch).tolist() == expected
        flat(seq)


@pytest.mark.parametrize("shard", [(2, 2), (-1, 2), (0, 0), (0, 3)])
def test_impossible_shards_are_rejected(shard):
    with pytest.raises(dfgen.DfgenError, match="batch_size" if shard == (0, 3) else "shard"):
        sequence(11, shard=shard)


def test_shard_auto_reads_rank_and_world_size(monkeypatch):
    assert sequence(9, shard="auto").shard == (0, 1)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    seq = sequence(9, shard="auto")
    assert seq.shard == (1, 2)
    assert [rows_of(batch) for batch in seq] == epoch_batches(9, 4, 0, shard=(1, 2))


def draws(seq):
    """Return the random number of each (epoch, row) of two epochs."""
    return {
        (epoch, int(row)): float(number)
        for epoch in range(2)
        for x, *_ in seq
        for row, number in zip(x["row"], x["drawn"], strict=True)
    }


def draw_batch(batch, rng):
    return {**batch, "drawn": batch["drawn"] * 0 + np.float32(rng.random())}


TWELVE, BATCH_TRANSFORM = table(12), {"transform": None, "batch_transform": draw_batch}


@pytest.mark.parametrize("options", WORKERS, ids=str)
@pytest.mark.parametrize(("transforms", "numbers"), [({}, 24), (BATCH_TRANSFORM, 6)])
def test_random_numbers_do_not_depend_on_workers(transforms, numbers, options):
    expected = draws(drawing(TWELVE, **transforms))
    assert (len(expected), len({*expected.values()})) == (24, numbers)
    with drawing(TWELVE, **transforms, **options) as seq:
        assert draws(seq) == expected


def test_random_numbers_depend_on_seed_epoch_and_id():
    expected = draws(drawing(TWELVE, seed=1))
    for options in ({"batch_size": 5}, {"shuffle": False}):
        assert draws(drawing(TWELVE, seed=1, **options)) == expected
    backwards = draws(drawing(TWELVE.iloc[::-1], seed=1))
    assert backwards == {(n, 11 - row): number for (n, row), number in expected.items()}
    for other in (drawing(TWELVE, seed=0), drawing(TWELVE.assign(id=range(12)), seed=1)):
        assert not {*expected.values()} & {*draws(other).values()}
    parts = [draws(drawing(TWELVE, seed=1, shard=(index, 2))) for index in range(2)]
    assert parts[0] | parts[1] == expected


@pytest.mark.backend
@pytest.mark.parametrize("rows", [8, 11, 3])
def test_mean_loss_of_processes_equals_that_of_one(frame, rows):
    """The last batch is padded with rows of weight 0."""
    model = built_watcher()

    def loss(**options):
        options = {"batch_size": 4, "image_size": (4, 4), "workers": 0, **options}
        seq = dfgen.Sequence(frame(rows), y="label", shuffle=False, **options)
        return model.evaluate(seq, verbose=0)

    for weights in ({}, {"class_weight": {"even": 1.0, "odd": 3.0}}):
        whole = loss(**weights)
        model.forget()
        parts = [loss(shard=(index, 2), **weights) for index in range(2)]
        np.testing.assert_allclose(np.mean(parts), whole, rtol=1e-5)
        assert len(model.seen("tested")) == -(-rows // 4) * 4
        assert {*model.seen("tested")} == {*range(rows)}
