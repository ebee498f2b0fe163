"""Training on packs: receipts, resume and predictions are those of any Sequence."""

import keras
import numpy as np
import pytest
from packed import packed, write_images
from watching import EAGER

import dfgen

pytestmark = pytest.mark.backend

ROWS, SIZE = 40, (6, 8)


@pytest.fixture
def pack(tmp_path):
    packed(write_images(tmp_path / "imgs", ROWS, SIZE), tmp_path / "pack", shard_size=1500)
    return tmp_path / "pack"


def model():
    made = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(),
                             keras.layers.Dense(4)])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(loss=loss, run_eagerly=EAGER)
    return made


def sequence(manifest, **options):
    return dfgen.Sequence(manifest, y="kind", batch_size=8, window="3KB", **options)


def test_every_row_is_taken_once_an_epoch_and_its_receipt_is_that_of_the_frame(pack):
    receipts = []
    for manifest in (pack, dfgen.read_manifest(pack)):
        with sequence(manifest) as seq:
            for _ in range(2):
                model().fit(seq, verbose=0, callbacks=[dfgen.InputMonitor()])
                receipts.append(seq.receipt)
    assert receipts[:2] == receipts[2:]
    assert receipts[0].digest != receipts[1].digest
    assert [(one.rows, one.missing, one.repeated) for one in receipts] == [(ROWS, 0, 0)] * 4


def test_a_training_on_the_folder_goes_on_with_the_frame_and_the_other_way_round(pack):
    frame = dfgen.read_manifest(pack)
    whole = [ids for seq in [sequence(pack)] for ids in epoch_of(seq)]
    for first, second in ((pack, frame), (frame, pack)):
        with sequence(first) as seq:
            batches = iter(seq.get_numpy_iterator())
            for _ in range(2):
                next(batches)
            state = seq.state_dict()
        with sequence(second) as seq:
            seq.load_state_dict(state)
            assert seq.state_dict() == state
            assert epoch_of(seq) == whole[2:]
    with sequence(frame.sort_values("id")) as seq, pytest.raises(dfgen.errors.ArgumentError):
        seq.load_state_dict(state)


def epoch_of(seq):
    return [images[:, 0, 0, 0].tolist() for images, _ in seq.get_numpy_iterator()]


def test_the_rows_of_a_folder_are_a_frame_that_trains_like_it(pack):
    with sequence(pack) as seq:
        frame = seq.manifest
        assert frame.equals(dfgen.read_manifest(pack))
        image = seq.preprocessing()(str(pack.parent / "imgs" / "7.png"))
        assert np.asarray(image)[0, 0, 0, 0] == 7
    for some, options in ((frame[frame["id"] < 10], {}), (pack, {"where": "id < 10"})):
        with sequence(some, **options) as seq:
            assert sorted(row for batch in epoch_of(seq) for row in batch) == [*range(10)]
