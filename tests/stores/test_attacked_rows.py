"""Attacks on what dfgen promises of rows: the same promises where their first tests do not look.

Packs, windows, buckets, weights, several inputs and labels by name and by place, bad rows beside
good ones, shards: each is a table and arguments of `Sequence`; the red of a row's image is 1 + row.
"""

import cv2
import keras
import numpy as np
import pandas as pd
import pytest
from packed import packed, write_images
from watching import EAGER, Watcher

import dfgen

ROWS, BAD = 40, (3, 6, 11)
CASES = {
    "pack": {"window": "3KB"},
    "frame of a pack, balanced": {"balance": "kind"},
    "buckets": {"image_size": None, "bucket_by": "shape"},
    "x and y by name": {"x": {"b": "path", "a": "number"}, "y": {"two": "kind", "one": "kind"}},
    "x and y by place": {"x": ["path", "number"], "y": ["kind", "parity"]},
    "bad rows": {"on_error": "skip"},
    "bad rows, x by name": {
        "on_error": "skip",
        "x": {"b": "path", "a": "number"},
        "balance": "kind",
    },
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A frame, the same as a pack, and with a file that is gone, one that is cut, one of text."""
    folder = tmp_path_factory.mktemp("attacked")
    frame = write_images(folder / "images", ROWS, (5, 5), first=1)
    more = {"number": np.arange(ROWS, dtype=np.float32), "weight": 1.0 + np.arange(ROWS)}
    frame = frame.assign(**more, parity=pd.Categorical(np.where(frame["id"] % 2, "odd", "even")))
    for row in range(0, ROWS, 3):  # of another shape
        cv2.imwrite(frame["path"][row], np.full((3, 7, 3), (0, 0, 1 + row), np.uint8))
    packed(frame, folder / "pack", image_size=(5, 5), shard_size=1500)
    bad = frame.copy()
    for row, content in zip(
        BAD, (None, (folder / "images/6.png").read_bytes()[:60], b"no"), strict=True
    ):
        bad.loc[row, "path"] = f"{folder}/bad-{row}.png"
        if content is not None:
            (folder / f"bad-{row}.png").write_bytes(content)
    return {"plain": frame, "pack": folder / "pack", "bad": bad}


def noise(sample, rng):
    """In blue and green what was drawn for a row."""
    name = "b" if "b" in sample else "image" if "image" in sample else "path"
    sample[name][..., 1:] = rng.integers(256, size=2)
    return sample


def sequence(tables, case, manifest=None, **options):
    if manifest is None:
        pack = dfgen.read_manifest(tables["pack"]) if "frame" in case else tables["pack"]
        manifest = tables["bad"] if "bad" in case else pack if "pack" in case else tables["plain"]
    given = {"y": "kind", "image_size": (4, 4), "batch_size": 8, "workers": 2, "seed": 3}
    return dfgen.Sequence(manifest, **{**given, **CASES[case], **options})


def image_of(x):
    return x["b"] if isinstance(x, dict) else x[0] if isinstance(x, (list, tuple)) else x


def rows_in(x):
    """The rows of a batch, by its pixels; -1 of one that could not be read."""
    return image_of(x)[:, 0, 0, 0].astype(int) - 1


class Nested(Watcher):
    """A `Watcher` of the image among several inputs, with outputs as the labels are nested."""

    def __init__(self, like):
        super().__init__(classes=4)
        self.like = like

    def call(self, x, training=False):
        pixel = keras.ops.cast(image_of(x)[:, :1, :1], "float32")
        found = super().call(keras.ops.tile(pixel, (1, 4, 4, 1)), training=training)
        if isinstance(self.like, dict):
            return dict.fromkeys(self.like, found)
        return [found] * len(self.like) if isinstance(self.like, list) else found


@pytest.mark.backend
@pytest.mark.parametrize("case", CASES)
def test_under_fit_each_row_comes_once_an_epoch_in_another_order_each(tables, case):
    like = CASES[case].get("y")
    model = Nested(like)
    loss = "sparse_categorical_crossentropy"
    losses = dict.fromkeys(like, loss) if isinstance(like, dict) else [loss] * len(like or ())
    model.compile("sgd", losses or loss, run_eagerly=EAGER)
    with sequence(tables, case, workers=3) as seq:
        model.fit(seq, epochs=2, verbose=0)
    first, second = np.reshape(model.seen(), (2, ROWS)) - 1
    due = [-1 if "bad" in case and row in BAD else row for row in range(ROWS)]
    assert sorted(first) == sorted(second) == sorted(due)
    assert (first != second).any()


def bytes_of(seq):
    with seq:
        return [
            [part.tobytes() for part in keras.tree.flatten(batch)]
            for _ in range(2)
            for batch in seq
        ]


@pytest.mark.parametrize("case", CASES)
def test_bytes_are_the_same_for_any_threads(tables, case):
    given = {"transform": noise, "sample_weight": "weight"}
    alone, many = (bytes_of(sequence(tables, case, workers=w, **given)) for w in (0, 7))
    assert alone == many


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_bytes_are_the_same_for_any_processes(tables, case):
    given = {"transform": noise, "sample_weight": "weight"}
    processes = sequence(tables, case, use_multiprocessing=True, **given)
    assert bytes_of(processes) == bytes_of(sequence(tables, case, workers=0, **given))


def drawn(*seqs):
    """By row, the noise of each of two epochs."""
    found = [{}, {}]
    for seq in seqs:
        with seq:
            for epoch in found:
                for x, *_ in seq:
                    pixels = image_of(x)[:, 0, 0].astype(int).tolist()
                    epoch.update({red: rest for red, *rest in pixels if red})
    assert found[0] != found[1]
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_transform_draws_the_same_for_a_row_whatever_is_beside_it(tables, case):
    alone = drawn(sequence(tables, "x and y by name", workers=0, batch_size=1, transform=noise))
    found = drawn(*(sequence(tables, case, transform=noise, shard=(i, 2)) for i in range(2)))
    expected = [{row: epoch[row] for row in found[0]} for epoch in alone]
    assert found == expected and len(found[0]) == ROWS - ("bad" in case) * len(BAD)


def test_a_transform_draws_the_same_for_a_row_of_any_other_frame_that_has_its_id(tables):
    whole = drawn(sequence(tables, "bad rows", tables["plain"], transform=noise))
    some = tables["plain"].iloc[::-3]
    found = drawn(sequence(tables, "bad rows", some, transform=noise, batch_size=5))
    assert found == [{row: epoch[row] for row in found[0]} for epoch in whole]
    assert len(found[0]) == len(some)


@pytest.mark.parametrize("case", CASES)
def test_label_and_weight_belong_to_the_pixels(tables, case):
    with sequence(tables, case, sample_weight="weight", batch_size=7) as seq:
        for x, y, weights in seq:
            rows = rows_in(x)
            good = rows >= 0
            for name, labels in enumerate(keras.tree.flatten(y)):
                by_place = isinstance(y, (list, tuple)) and name == 1
                due = rows % 2 if by_place else rows * 4 // ROWS
                assert labels[good].tolist() == due[good].tolist()
            if isinstance(x, (dict, list, tuple)):
                others = x["a"] if isinstance(x, dict) else x[1]
                assert others[good].tolist() == rows[good].tolist()
            share = len(rows) / max(1, good.sum())
            for own in keras.tree.flatten(weights):
                np.testing.assert_allclose(own, np.where(good, (1 + rows) * share, 0), rtol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_processes_that_share_batches_see_each_row_in_one_of_them(tables, case):
    given = {"batch_size": 12, "transform": noise}
    with sequence(tables, case, **given) as whole:
        *batches, rest = [image_of(x) for x, *_ in whole]
    hosts = []
    for index in range(3):
        with sequence(tables, case, **given, shard=(index, 3)) as seq:
            hosts.append([image_of(x) for x, *_ in seq])
            assert seq.receipt.left_out == len(rest) == 4
    for batch, parts in zip(batches, zip(*hosts, strict=True), strict=True):
        assert np.concatenate(parts).tobytes() == batch.tobytes()


def test_what_the_owner_does_to_cells_later_changes_nothing(tables):
    frame = tables["plain"].assign(
        tags=[["a", "b"][: 1 + row % 2] for row in range(ROWS)],
        vector=[np.full(2, row, np.float32) for row in range(ROWS)],
    )
    vector = dfgen.Column("vector", np.array, shape=(2,))
    given = {"x": {"b": "path", "v": vector}, "y": dfgen.MultiLabel("tags", class_names=["a", "b"])}
    given |= {"sample_weight": "weight", "batch_size": 8, "image_size": (4, 4), "shuffle": False}
    expected = bytes_of(dfgen.Sequence(frame, **given))
    seq = dfgen.Sequence(frame, **given)
    for row in range(ROWS):
        frame["tags"][row].append("c")
        frame["vector"][row][:] = -1
    frame.loc[:, "weight"] = 0.0
    frame["kind"].cat.categories.to_numpy()[:] = "other"
    told = seq.manifest
    told["path"] = "gone.png"
    frame.attrs["dfgen"] = {"root": "/gone"}
    assert bytes_of(seq) == expected
