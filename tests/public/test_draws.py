"""Rows drawn by class, share or weight; batches of similar sizes; class weights."""

import cv2
import numpy as np
import pandas as pd
import pytest

import dfgen
from public.numbered import PROCESSES, drawing, flat, joined, sequence, state_after, table
from public.permutation import epoch_rows


def classes_table(sizes, names="abcd", **columns):
    """Return a table whose classes have so many rows, interleaved."""
    kinds = np.repeat([*names[: len(sizes)]], sizes)
    kinds = kinds[epoch_rows(len(kinds), 0, seed=9)]
    kinds = pd.Categorical(kinds, [*names]) if names == "abcd" else kinds
    return table(len(kinds)).assign(kind=kinds, **columns)


def drawn_epochs(df, **options):
    """Return how often each row comes in each of three epochs."""
    seq, orders, counts = sequence(df, seed=2, **options), [], []
    for epoch in range(3):
        announced = seq.row_counts()
        orders.append(flat(seq))
        counts.append(np.bincount(orders[-1], minlength=len(df)))
        assert announced.tolist() == seq.row_counts(epoch).tolist() == counts[-1].tolist()
        assert (seq.receipt.rows, seq.receipt.repeated, seq.receipt.missing) == (len(df), 0, 0)
    assert flat(sequence(df, seed=2, **options)) == orders[0]
    parts = [sequence(df, seed=2, shard=(index, 2), **options) for index in range(2)]
    joint = [parts[index].rows(step) for step in range(len(parts[0])) for index in range(2)]
    assert joined(joint) == orders[0][: len(df) // 4 * 4]
    orders.append(flat(sequence(df, seed=3, **options)))
    assert len({*map(tuple, orders)}) == 4 or len(df) < 8
    return counts


SKEWED = [(sizes, "abcd") for sizes in ([9, 3], [1, 1, 30], [7], [1], [2, 97, 1, 5], [50, 50])]
SKEWED += [([40, 5, 1], [3, -5, 700]), ([8, 3], [True, False]), ([6, 2, 3], ["x", "y", "z"])]


@pytest.mark.parametrize(("sizes", "names"), SKEWED, ids=str)
def test_balanced_classes_and_their_rows_are_equally_often(sizes, names):
    df = classes_table(sizes, names)
    epochs = drawn_epochs(df, balance="kind")
    assert len({*map(tuple, epochs)}) > 1 or max(sizes) * len(sizes) <= len(df)
    for counts in epochs:
        by_class = [counts[df["kind"] == kind] for kind in names[: len(sizes)]]
        assert np.ptp([part.sum() for part in by_class]) <= 1
        assert max(np.ptp(part) for part in by_class) <= 1


SHARES = (10, 0.7, 0.3), (41, 0.7, 0.3), (200, 0.05, 0.95), (200, 0.2, 0.5, 0.3)


@pytest.mark.parametrize("within", [6, 2])
def test_mixtures_have_their_shares(within):
    for rows, *shares in SHARES:
        df = classes_table([rows - 2 - len(shares) * 2, *[4] * (len(shares) - 2), 6])
        shares = dict(zip("abc", shares, strict=False))
        for counts in drawn_epochs(df, balance={"kind": shares}):
            for kind, share in shares.items():
                of_kind = counts[df["kind"] == kind]
                assert abs(of_kind.sum() - share * len(df)) < within
                assert np.abs(of_kind - share * len(df) / len(of_kind)).max() < 2


def test_shares_may_have_numpy_keys():
    df = classes_table([30, 10], [1, 2])
    shares = dict.fromkeys(df["kind"].unique(), 0.5)
    assert sequence(df, balance={"kind": shares}).row_counts()[df["kind"] == 2].sum() == 20


WEIGHTS = [1.0, 0, 4, 0.5, 0.5], [1.0] * 50 + [9.5] * 7 + [0] * 3, [0.1] * 33


@pytest.mark.parametrize("weights", WEIGHTS, ids=len)
def test_sampling_weight_draws_rows_in_proportion(weights):
    weights, rows = np.array(weights), len(weights)
    for counts in drawn_epochs(table(rows, weight=weights), sampling_weight="weight"):
        assert np.abs(counts - rows * weights / weights.sum()).max() < 2
        assert not counts[weights == 0].any()
        assert np.ptp(weights) or (counts == 1).all()


@pytest.mark.parametrize("values", [[1.0, -1, 1], [1, np.nan, 1], [1, np.inf, 1], [0.0] * 3])
def test_impossible_sampling_weights_are_rejected(values):
    with pytest.raises(dfgen.DfgenError, match="heavy"):
        sequence(table(3, heavy=values), sampling_weight="heavy")


WRONG = [("kidn", "kidn"), ("holes", "holes"), ("born", "born"), ({"kidn": {"a": 1.0}}, "kidn")]
WRONG += [({"kind": {"a": 0.5, "b": 0.3, "z": 0.2}}, "z"), ({"kind": {"a": 1.0}}, "b")]
WRONG += [("floats", "floats")]
WRONG += [({"kind": {"a": a, "b": b}}, "balance") for a, b in ((0.5, 0.4), (1.5, -0.5))]


@pytest.mark.parametrize(("balance", "word"), WRONG)
def test_impossible_draws_are_rejected(balance, word):
    born = np.array(["2024-01-01"] * 8, "datetime64[ms]")
    holes, floats = [*"ab", None] * 2 + [*"ab"], [0.0, 1.0] * 4
    df = classes_table([5, 3], holes=holes, born=born, floats=floats)
    with pytest.raises(dfgen.DfgenError, match=word):
        sequence(df, balance=balance)
    with pytest.raises(dfgen.DfgenError, match="balance"):
        sequence(df, balance="kind", shuffle=False)


def batches(df, **options):
    with drawing(df, **{"balance": "kind", **options}) as seq:
        return [np.stack([x["row"], x["drawn"]], axis=1) for _ in range(2) for x, *_ in seq]


@pytest.mark.parametrize("options", [{"workers": 3}, PROCESSES, {"batch_size": 8}], ids=str)
def test_draws_are_the_same_for_any_workers(options):
    df = classes_table([36, 4])
    pairs, others = np.concatenate(batches(df)), np.concatenate(batches(df, **options))
    np.testing.assert_array_equal(pairs, others)
    assert len({row for row, _ in pairs[:40]}) < 30
    for balance in ("kind", {"kind": {"a": 0.3, "b": 0.7}}):
        pairs = np.concatenate(batches(df, balance=balance))
        assert len({number for _, number in pairs}) == 80  # other ones for each repetition


DRAWS = {"balance": "kind"}, {"balance": {"kind": {"a": 0.25, "b": 0.75}}}
DRAWS = *DRAWS, {"sampling_weight": "weight"}


@pytest.mark.parametrize("options", DRAWS, ids=str)
def test_drawn_epochs_go_on_in_mid_epoch(options):
    df = classes_table([40, 6], weight=np.linspace(0.5, 3, 46))
    whole, taken = sequence(df, **options), {1: 4, 7: 28, 12: 46}
    rows = flat(whole) + flat(whole)
    for steps in taken:
        seq = sequence(df, **options)
        seq.load_state_dict(state_after(df, steps, **options))
        assert joined(flat(seq) for _ in range(1 + (steps < 12))) == rows[taken[steps] :]
        assert seq.receipt == whole.receipt
    with pytest.raises(dfgen.DfgenError):
        sequence(df).load_state_dict(state_after(df, 3, **options))


SIZES = [(3 + row % 5, 4 + row % 7) for row in range(29)]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A frame of images of different sizes: red is the row number plus 1."""
    folder = tmp_path_factory.mktemp("pictures")
    paths = [f"{folder}/{row}.png" for row in range(len(SIZES))]
    for row, path in enumerate(paths):
        pixels = np.zeros((*SIZES[row], 3), np.uint8)
        pixels[..., 2] = row + 1
        cv2.imwrite(path, pixels)
    return table(len(SIZES)).assign(path=paths)


def bucketed(df, **options):
    options = {"batch_size": 4, "workers": 0, "bucket_by": "shape", **options}
    return dfgen.Sequence(df, y="label", image_size=None, **options)


def picture_rows(batch):
    return [int(row) - 1 for row in batch[0][:, 0, 0, 0]]


BUCKETS = [{}, {"workers": 2}, PROCESSES, {"drop_remainder": True}, {"seed": 3}]


@pytest.mark.parametrize("options", BUCKETS, ids=str)
def test_buckets_have_each_row_once_with_padding(pictures, options):
    plain = epoch_rows(29, 0, seed=options.get("seed", 0))
    expected = plain[:28] if options.get("drop_remainder") else plain
    with bucketed(pictures, **options) as seq:
        epochs = []
        for _ in range(2):
            order = [picture_rows(seq[step]) for step in range(len(seq))]
            assert order == [seq.rows(step).tolist() for step in range(len(seq))]
            for rows, (x, *_) in zip(order, seq, strict=True):
                sizes = np.array([SIZES[row] for row in rows])
                assert x.shape == (len(rows), *sizes.max(axis=0), 3)
                for pixels, row, (height, width) in zip(x, rows, sizes, strict=True):
                    assert (pixels[:height, :width, 0] == row + 1).all()
                    assert pixels.sum() == (row + 1) * height * width
            epochs.append(joined(order))
        assert sorted(epochs[0]) == sorted(expected)
        assert epochs[0] != epochs[1] and epochs[0] != expected


def test_buckets_never_mix_shapes_and_save_padding(pictures):
    df = pictures.iloc[[0, 1] * 24].assign(id=range(48), number=[1, 2] * 24)
    for seed in range(3):
        shapes = [x.shape for x, _ in bucketed(df, seed=seed)]
        assert sorted(shapes) == [(4, *SIZES[0], 3)] * 6 + [(4, *SIZES[1], 3)] * 6
        assert shapes != sorted(shapes) and shapes != sorted(shapes)[::-1]
    sizes = [sum(x.size for x, _ in bucketed(pictures, bucket_by=by)) for by in ("shape", None)]
    needed = 3 * sum(height * width for height, width in SIZES)
    assert sizes[0] - needed < 0.6 * (sizes[1] - needed)


@pytest.mark.parametrize("keys", ["balanced", "abcd", range(4)], ids=str)
def test_class_weights_multiply_sample_weights(keys):
    """Balanced as scikit-learn's compute_class_weight; classes without rows do not count."""
    df = classes_table([1, 8, 2], weight=np.arange(1, 12) / 8)
    weights = [11 / 3, 11 / 24, 11 / 6] if keys == "balanced" else [0.5, 3.0, 0.0, 1.0]
    class_weight = keys if keys == "balanced" else dict(zip(keys, weights, strict=True))
    codes = df["kind"].cat.codes
    for column, factors in ((None, 1), ("weight", df["weight"].to_numpy())):
        options = {"class_weight": class_weight, "sample_weight": column, "batch_size": 3}
        expected = np.array(weights)[codes] * factors
        for x, y, weight in dfgen.Sequence(df, "number", "kind", workers=0, **options):
            rows = x.astype(int)
            assert y.tolist() == codes[rows].tolist()
            np.testing.assert_allclose(weight, expected[rows], rtol=1e-6)
