"""generator_from_df gives what the generator that users wrote gave, and ends its threads."""

import gc
import threading
import types

import keras
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from watching import trained_watcher

from dfgen.errors import ArgumentError, DecodeError, ManifestError, MissingFileError
from dfgen.migrate import generator_from_df


def by_hand(df, batch_size, target_size):
    """Yield what users wrote, but for its order."""
    for start in range(0, len(df) - batch_size + 1, batch_size):
        rows = df[start : start + batch_size]
        images = [keras.utils.load_img(path, target_size=target_size) for path in rows.imgpath]
        x = np.array([keras.utils.img_to_array(image) for image in images])
        yield 2 * (x / 255.0 - 0.5), rows.target.to_numpy()


@pytest.fixture
def df(tmp_path):
    """Photographs of several sizes and formats; the target is the number of the row."""
    paths = []
    for row, suffix in enumerate(("jpg", "png", "bmp", "jpg", "png", "jpg", "png")):
        noise = np.random.default_rng(row).integers(0, 256, (20 + 7 * row, 31, 3), np.uint8)
        paths.append(f"{tmp_path}/{row}.{suffix}")
        Image.fromarray(noise).save(paths[-1])
    return pd.DataFrame({"imgpath": paths, "target": range(7)}, index=[*"gfedcba"])


@pytest.fixture
def threads():
    before = {*threading.enumerate()}
    return lambda: [one for one in threading.enumerate() if one not in before and one.is_alive()]


def test_pixels_and_targets_are_those_of_the_generator_written_by_hand(df):
    [expected] = by_hand(df, 7, (24, 17))
    with_all = generator_from_df(df, 7, (24, 17))
    assert isinstance(with_all, types.GeneratorType)
    x, y = next(with_all)
    order = np.argsort(y)
    assert (x.dtype, x.shape) == (np.float32, (7, 24, 17, 3))
    np.testing.assert_array_equal(y[order], expected[1])
    np.testing.assert_allclose(x[order], expected[0], atol=2.01 / 255)
    assert np.mean(np.abs(x[order] - expected[0]) > 1e-6) < 0.1
    with_all.close()


def test_each_epoch_has_another_order_and_whole_batches_alone(df):
    batches = generator_from_df(df, 2, (4, 4))
    epochs = [np.concatenate([next(batches)[1] for _ in range(3)]).tolist() for _ in range(8)]
    assert all(len(set(epoch)) == 6 for epoch in epochs)
    assert len({*map(tuple, epochs)}) == 8
    assert {*np.ravel(epochs)} == {*range(7)}
    batches.close()


@pytest.mark.backend
def test_fit_takes_as_many_steps_as_it_is_told(df, threads):
    model, df = trained_watcher(), df.assign(path=df["imgpath"], target=df["target"] % 2)
    batches = generator_from_df(df.drop(columns="imgpath"), 3, (4, 4))
    model.fit(batches, steps_per_epoch=2, epochs=3, shuffle=False, verbose=0)
    assert len(model.seen()) == 18
    batches.close()
    assert not [one for one in threads() if one.name.startswith("dfgen-")]


@pytest.mark.parametrize("end", ["closed", "dropped", "never begun"])
def test_its_threads_end_with_it(df, threads, end):
    batches = generator_from_df(df, 2, (4, 4))
    if end != "never begun":
        next(batches)
        assert threads()
    if end == "closed":
        batches.close()
    del batches
    gc.collect()
    assert not threads()


def test_text_as_targets_becomes_numbers_and_that_is_said(df):
    with pytest.warns(UserWarning, match="target"):
        batches = generator_from_df(df.assign(target=[*"abcabca"]), 7, (4, 4))
    assert sorted(next(batches)[1]) == [0, 0, 0, 1, 1, 2, 2]
    batches.close()


def test_a_file_may_stand_in_several_rows(df):
    batches = generator_from_df(pd.concat([df, df]), 14, (4, 4))
    assert sorted(next(batches)[1]) == sorted([*range(7)] * 2)
    batches.close()


def test_what_cannot_be_is_told(df):
    with pytest.raises(ManifestError) as caught:
        generator_from_df(df.rename(columns={"imgpath": "file"}), 2, (4, 4))
    assert str(caught.value) == (
        'the frame has no column "imgpath". Columns: file, target. Rename the one that has it, or '
        'give the columns by name: dfgen.Sequence(df, x="path", y="kind")'
    )
    with pytest.raises(ManifestError, match='no column "target"'):
        generator_from_df(df.rename(columns={"target": "targets"}), 2, (4, 4))
    with pytest.raises(ArgumentError, match="batch_size"):
        generator_from_df(df, 8, (4, 4))
    lost = df.replace({df["imgpath"]["f"]: "gone.png"})
    with pytest.raises(MissingFileError, match=r"Row id=1, path='gone\.png': there is no file"):
        generator_from_df(lost, 7, (4, 4))


def test_a_file_that_cannot_be_read_ends_it_and_is_named(df, threads):
    with open(df["imgpath"]["f"], "wb") as file:
        file.write(b"no picture")
    batches = generator_from_df(df, 7, (4, 4))
    with pytest.raises(DecodeError, match=r"^row id=1, path='.*/1\.png': not an image"):
        next(batches)
    gc.collect()
    assert not threads()
