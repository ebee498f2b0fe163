"""Windows: rows of a few blocks shuffled together, each row once, any position at once."""

import itertools
import json
import pickle
import tracemalloc
from dataclasses import replace

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.binding.row_draws import Ordering, windowed
from dfgen.binding.rows_of_arrays import stored_rows
from dfgen.errors import ArgumentError
from dfgen.loading.loader import Loader
from dfgen.loading.order.draws import balance_of
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.row_order import BatchRows, RowOrder
from dfgen.loading.order.shuffle import permutation
from dfgen.loading.order.windows import Windows, fitting, windows_of
from dfgen.loading.state import Identity, Place, ids_digest
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.sources.file_source import FileSource
from dfgen.stores.stores import Stores

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=30)
PER_WINDOW = st.integers(2, 8)
GOLDEN = [11, 12, 5, 10, 9, 8, 13, 7, 14, 6, 16, 26, 20, 1, 2, 21, 22, 15, 27, 23, 0, 25, 19, 17,
          24, 4, 18, 29, 3, 28]  # fmt: skip

LANES = [35, 24, 49, 26, 23, 37, 27, 59, 36, 45, 52, 58, 42, 39, 54, 53, 34, 25, 30, 56, 41,
         44, 50, 31, 32, 22, 29, 51, 20, 33]  # fmt: skip


def of_sizes(sizes, per_window=3):
    return Windows(np.append(0, np.cumsum(sizes, dtype=np.int64)), per_window)


def epoch_of(windows, seed=0, epoch=0):
    return windows.at(np.arange(windows.starts[-1]), seed=seed, epoch=epoch)


class TestOrder:
    @given(SIZES, PER_WINDOW, st.integers(0, 3), st.randoms())
    def test_every_row_once_an_epoch_and_each_window_its_own_blocks(
        self, sizes, per_window, epoch, random
    ):
        blocks = np.repeat(np.arange(len(sizes)), sizes)
        random.shuffle(blocks)
        windows = windows_of(blocks, per_window)
        rows = epoch_of(windows, epoch=epoch)
        assert sorted(rows) == list(range(len(blocks)))
        start, seen = 0, []
        for window in range(len(sizes)):
            own = windows.blocks_of(window, seed=0, epoch=epoch)
            stop = start + sum(sizes[block] for block in own)
            assert {*blocks[rows[start:stop]]} == {*own.tolist()}
            assert len(own) == 0 or len(own) > 1 or len(sizes) == 1
            assert all(
                windows.window(position, seed=0, epoch=epoch) == window
                for position in range(start, stop)
            )
            start, seen = stop, [*seen, *own.tolist()]
        assert sorted(seen) == list(range(len(sizes)))

    @given(SIZES, PER_WINDOW, st.data())
    def test_any_positions_can_be_asked_for_alone(self, sizes, per_window, data):
        positions = data.draw(st.lists(st.integers(0, sum(sizes) - 1)))
        windows = of_sizes(sizes, per_window)
        alone = windows.at(np.array(positions, np.int64), seed=2, epoch=1)
        assert alone.tolist() == epoch_of(windows, 2, 1)[positions].tolist()

    @pytest.mark.slow
    @given(SIZES, PER_WINDOW, st.integers(1, 4), st.sampled_from([1, 2, 3]), st.data())
    def test_resumed_at_any_step_on_any_hosts_it_is_the_same(
        self, sizes, per_window, size, count, data
    ):
        order = RowOrder(sum(sizes), 5, windows=of_sizes(sizes, per_window))
        whole = Plan(sum(sizes), size * count)
        rows = order.at(1, np.arange(sum(sizes)))[0]
        step = data.draw(st.integers(0, len(whole) - 1))
        fresh = pickle.loads(pickle.dumps(order))
        for later in range(step, len(whole)):
            parts = [
                BatchRows(fresh, plan).batch(1, later, plan)[0]
                for index in range(count)
                for plan in [Plan(sum(sizes), size * count, (index, count))]
            ]
            here = whole.positions(later)
            assert np.concatenate(parts).tolist() == rows[here].tolist()

    @given(SIZES, PER_WINDOW, st.sampled_from([2, 4, 6, 24, 64]), st.integers(0, 2), st.data())
    def test_lanes_give_every_row_once_in_its_window_at_any_position(
        self, sizes, per_window, batch, epoch, data
    ):
        lanes = replace(of_sizes([50 * size for size in sizes], per_window), batch=batch)
        plain = replace(lanes, batch=None)
        rows, rest = (epoch_of(windows, epoch=epoch) for windows in (lanes, plain))
        for start, stop in itertools.pairwise(lanes._epoch(0, epoch).windows.tolist()):
            assert sorted(rows[start:stop]) == sorted(rest[start:stop])
        positions = data.draw(st.lists(st.integers(0, len(rows) - 1)))
        copy = pickle.loads(pickle.dumps(lanes))
        alone = copy.at(np.array(positions, np.int64), seed=0, epoch=epoch)
        assert alone.tolist() == rows[positions].tolist()

    def test_a_host_needs_a_stretch_of_each_block_and_no_row_of_another_host(self):
        rows, blocks = 40_000, 10
        windows = replace(of_sizes([rows // blocks] * blocks, 5), batch=96)
        for hosts in (2, 3, 4):
            plans = [Plan(rows, 96, (host, hosts), "drop") for host in range(hosts)]
            own = [windows.rows_of(0, plan, seed=1, epoch=0) for plan in plans]
            assert len(np.unique(np.concatenate(own))) == sum(map(len, own)) >= 20_000 - 96
            for part in own:
                assert np.count_nonzero(np.diff(part) > 9) < 5

    def test_lanes_mix_classes_as_a_full_shuffle_does(self):
        classes = np.random.default_rng(0).permutation(np.repeat(np.arange(100), 1000))
        windows = replace(of_sizes([1000] * 100, 4), batch=256)
        shuffled = permutation(np.arange(10**5), 10**5, seed=0, epoch=0)
        full = classes_per_batch(shuffled, classes)
        assert abs(classes_per_batch(epoch_of(windows), classes) / full - 1) < 0.01
        meets = []  # how many rows of a batch meet others of it in a batch of the next epochs
        for order in (windows, replace(windows, batch=None)):
            batch_of = np.empty((9, 10**5), np.int64)
            for epoch in range(9):
                batch_of[epoch, epoch_of(order, epoch=epoch)] = np.arange(10**5) // 256
            first = batch_of[1:, batch_of[0] == 0]
            meets.append(sum(256 - len(np.unique(batches)) for batches in first) / 8)
        assert abs(meets[0] / meets[1] - 1) < 0.05

    def test_golden_order_of_lanes(self):
        """As above."""
        windows = replace(of_sizes([20, 12, 28, 20, 40], 2), batch=4)
        assert epoch_of(windows, seed=7, epoch=3)[:30].tolist() == LANES
        assert windows.digest == "fbe2e5c61ad1b6bf"

    def test_golden_order(self):
        """A change here changes the order of everybody's training: it needs a new version."""
        windows = of_sizes([5, 3, 7, 5, 10], 2)
        assert epoch_of(windows, seed=7, epoch=3).tolist() == GOLDEN
        assert windows.digest == "534f5154499af860"
        assert windows_of(np.array([1, 0, 1]), 2).digest != of_sizes([1, 2], 2).digest

    def test_rows_of_blocks_that_lie_anywhere_keep_their_order_within_each(self):
        blocks = np.random.default_rng(0).integers(0, 3, 200)
        for lying in (blocks, np.sort(blocks)):
            windows = windows_of(lying, 2)
            for block in range(3):
                own = np.flatnonzero(lying == block).tolist()
                assert windows.block_rows(block).tolist() == own
        assert windows.blocks_of(1, seed=0, epoch=0).dtype == np.int64  # of none: it is an index

    def test_blocks_of_a_byte_or_of_none_fill_a_window(self):
        assert [fitting(10, block) for block in (0, 1, 3, 10)] == [10, 10, 3, 2]

    def test_is_the_order_as_written_down(self):
        """Blocks by the tag "shard", the rows of a window by "window/{w}"."""
        sizes, expected = [4, 9, 2, 6, 1, 8], []
        starts = np.append(0, np.cumsum(sizes))
        blocks = permutation(range(6), 6, seed=1, epoch=2, tag="shard")
        for window, own in enumerate(blocks.reshape(3, 2)):
            rows = np.concatenate([np.arange(starts[b], starts[b + 1]) for b in own])
            tag = f"window/{window}"
            expected += rows[
                permutation(range(len(rows)), len(rows), seed=1, epoch=2, tag=tag)
            ].tolist()
        assert epoch_of(of_sizes(sizes, 2), 1, 2).tolist() == expected

    def test_another_epoch_has_other_windows(self):
        windows = of_sizes([10] * 40, 4)
        own = [{*windows.blocks_of(0, seed=0, epoch=epoch).tolist()} for epoch in range(4)]
        assert all(len(blocks) == 4 for blocks in own)
        assert len({*map(frozenset, own)}) == 4

    def test_opens_far_into_a_huge_epoch_in_the_memory_of_its_blocks(self):
        """10**8 rows in 10**4 shards, as a pack of 15 TB has."""
        windows = of_sizes(np.full(10**4, 10**4), 4)
        order = RowOrder(10**8, 0, windows=windows)
        order.at(0, np.arange(10))
        tracemalloc.start()
        found = order.at(3, np.arange(9 * 10**7, 9 * 10**7 + 8192))[0]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len({*found.tolist()}) == 8192
        assert len({*(found // 10**4).tolist()}) in (4, 8)
        assert peak < 3 * 2**20


def classes_per_batch(rows, classes, batch=256):
    labels = classes[rows][: len(rows) // batch * batch].reshape(-1, batch)
    return np.mean([len(np.unique(one)) for one in labels[::4]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocks", "in_label_order", "permuted"),
    [(1, 1.2, 92.3), (2, 2.2, 92.4), (16, 14.9, 92.4), (64, 46.8, 92.3)],
)
def test_classes_meet_as_in_a_full_shuffle_where_rows_were_permuted_when_packed(
    blocks, in_label_order, permuted
):
    """1000 shards of 1000 rows, 100 classes, batches of 256; a full shuffle gives 92.4."""
    n = 10**6
    rows = epoch_of(of_sizes([1000] * 1000, blocks))
    labels = np.arange(n) // 10**4
    packed = labels[permutation(np.arange(n), n, seed=0, epoch=0, tag="pack")]
    assert classes_per_batch(rows, labels) == pytest.approx(in_label_order, rel=0.12)
    assert classes_per_batch(rows, packed) == pytest.approx(permuted, abs=0.3)


@pytest.fixture
def arrays(tmp_path):
    """Two array files of rows of 12 bytes that tell their number, as the frame of them all."""
    values = np.arange(600, dtype=np.uint16).reshape(600, 1).repeat(6, 1)
    np.save(tmp_path / "a.npy", values[:350])
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("x", data=values[350:], chunks=(4, 3), compression="gzip")
    files = [(f"{tmp_path}/a.npy", row) for row in range(350)]
    files += [(f"{tmp_path}/b.h5", row) for row in range(250)]
    return pd.DataFrame(files, columns=["path", "index"]).reset_index(names="id")


X = dfgen.Array("path", shape=(6,), dtype="uint16", index="index")


def rows_of(loader, epoch=0):
    return np.concatenate([loader.batch(epoch, step).rows for step in range(len(loader))])


def bound(frame, **options):
    return bind(frame, X, options=Options(label_mode=None), order=Ordering(**options))


def loader_of(frame, window=None, **options):
    found = bound(frame, window=window)
    return Loader(found.reader, drawing=found.drawing, **{"workers": 0, **options})


def test_rows_of_array_files_come_once_an_epoch_in_windows_of_their_blocks(arrays):
    """A window of 3000 bytes is 83 blocks of 3 rows."""
    frame = pd.concat([arrays[:1], arrays[1:].sample(frac=1, random_state=0)])
    found = bound(frame, window=3000)
    loader = Loader(found.reader, drawing=found.drawing, batch_size=50, workers=0)
    batches = [loader.batch(0, step) for step in range(len(loader))]
    ids = np.concatenate([frame["id"].to_numpy()[batch.rows] for batch in batches])
    values = np.concatenate([batch.arrays["array"] for batch in batches])
    assert (values == ids[:, None]).all()
    assert sorted(ids) == list(range(600))
    own = found.drawing.windows.blocks_of(0, seed=0, epoch=0)
    assert len(own) == 83
    first = {*ids[: np.diff(found.drawing.windows.starts)[own].sum()].tolist()}
    place = arrays.groupby("path").cumcount() // 3
    whole = arrays.groupby([arrays["path"], place])["id"].agg(set)
    assert all(block <= first or not block & first for block in whole)


@pytest.mark.parametrize(("window", "blocks", "rows"), [(None, 64, 1_302_083), ("24KB", 64, 31)])
def test_a_window_is_of_64_blocks_of_consecutive_rows(arrays, window, blocks, rows):
    found = bound(arrays[:350], window=window).drawing.windows
    assert (found.blocks, np.diff(found.starts)[0]) == (blocks, min(350, rows))


def test_blocks_are_whole_chunks_and_a_window_two_of_them_at_least(arrays):
    found = bound(arrays[350:], window=100).drawing.windows
    assert found.blocks == 2
    assert np.diff(found.starts).tolist() == [*[4] * 62, 2]


def test_a_state_is_refused_with_another_window_or_blocks(arrays):
    def identity(frame=arrays, **options):
        return Identity(
            0, 32, 600, ids_digest(range(600)), window=bound(frame, **options).drawn_by["window"]
        )

    state = json.loads(json.dumps(identity().state(Place(1, 2))))
    assert state["window"] == "1000000000 180df60ad5ff277e"
    assert identity().place(state) == Place(1, 2)
    for other in (identity(window="2KB"), identity(arrays[::-1])):
        with pytest.raises(ArgumentError) as caught:
            other.place(state)
        assert str(caught.value) == (
            f"the state was saved with window={state['window']!r}, this training has window="
            f"{other.window!r}: rows would be repeated and missed. Go on with window="
            f"{state['window']!r}, or start anew without the state"
        )


def test_where_a_window_cannot_be_it_is_refused_and_by_default_none(arrays):
    frame = arrays.assign(kind=arrays["id"] % 2)
    assert bound(frame, balance="kind").drawing.windows is None
    images = pd.DataFrame({"path": ["a.jpg"], "id": [0]})
    plain = bind(images, options=Options(label_mode=None), on_error="skip")
    assert (plain.drawing.windows, plain.drawn_by["window"]) == (None, None)
    for call, message in (
        (lambda: RowOrder(600, 0, balance_of(frame["kind"]), windows=of_sizes([600])),
         "window= shuffles the rows of a few blocks at a time, balance= takes them from all: leave "
         "out one of them"),
        (lambda: bind(images, options=Options(label_mode=None), order=Ordering(window="2GB")),
         "window='2GB' is for rows of large files, and x and y name none: leave it out, or read "
         'rows of arrays, dfgen.Array("path", shape=..., index="index")'),
        (lambda: bound(arrays, window="much"),
         'window must be bytes or a text such as "2GB" or "512MiB", got \'much\''),
        (lambda: bound(arrays, window=0), "window must be above 0, got 0"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError) as caught:
            call()
        assert str(caught.value) == message


@pytest.mark.parametrize("last", [1, 10**6])
def test_blocks_of_many_large_files_have_numbers_of_their_own(last):
    files, rows = np.repeat(np.arange(5000, dtype=np.int32), 2), np.tile([0, last], 5000)
    paths = pa.array([f"{file}.npy" for file in range(5000)])
    values = pa.StructArray.from_arrays(
        [paths.take(pa.array(files)), pa.array(rows)], ["path", "index"]
    )
    bound, sources = BoundFeature("array", X, values), {"array": FileSource(X, values)}
    found = windowed(stored_rows([bound], sources, Stores(), 1), None, 12 * 64, False, 32)[0]
    assert (np.diff(found.starts) == 1).all()
    assert len(found.starts) == 10_001


def test_without_shuffle_rows_keep_their_order(arrays):
    assert rows_of(loader_of(arrays, 3000, shuffle=False)).tolist() == list(range(600))


def test_balance_beside_a_window_is_refused_only_where_both_are_given(arrays):
    found = bound(arrays.assign(kind=arrays["id"] % 2), balance="kind", window="1MB")
    with pytest.raises(ArgumentError, match="leave out one of them"):
        Loader(found.reader, drawing=found.drawing, workers=0)
