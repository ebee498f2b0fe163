"""Sequence by itself: what it makes of a frame, its own passes, and every wrong input."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from cases import each
from watching import order, orders

import dfgen
from dfgen.errors import ArgumentError
from dfgen.spec import leaves


def sequence(df, **options):
    return dfgen.Sequence(df, **{"batch_size": 4, "image_size": (4, 4), "workers": 2, **options})


def rows_of(batch):
    pixels = batch[0][:, 0, 0, :].astype(int)
    return (pixels[:, 0] + 256 * pixels[:, 1]).tolist()


# -- passes ------------------------------------------------------------------------------------


def test_only_finished_loops_count_an_epoch(frame):
    seq = sequence(frame(10))
    assert [row for batch in seq for row in rows_of(batch)] == order(10, 0)
    for _ in seq:
        break
    assert seq.epoch == 1
    assert [row for batch in seq for row in rows_of(batch)] == order(10, 1)
    assert seq.epoch == 2


def test_two_loops_at_once_see_the_same_epoch(frame):
    seq = sequence(frame(30))
    pairs = [(rows_of(a), rows_of(b)) for a, b in zip(seq, seq, strict=True)]
    assert [row for a, _ in pairs for row in a] == order(30, 0)
    assert all(a == b for a, b in pairs)


def test_late_ending_loop_does_not_reset_the_epoch(frame):
    seq = sequence(frame(10))
    first = iter(seq)
    next(first)
    for _ in range(2):
        list(seq)
    list(first)
    assert seq.epoch == 2


@pytest.mark.parametrize("options", [{}, {"drop_remainder": True}, {"shard": (1, 2)}])
def test_rows_and_ids_match_their_batch(frame, options):
    df = frame(10).assign(id=[f"r{row}" for row in range(10)])
    seq = sequence(df, **options)
    for _ in range(2):
        for index, batch in enumerate(seq):
            assert seq.rows(index).tolist() == rows_of(batch)
            assert seq.ids(index) == [f"r{row}" for row in rows_of(batch)]
    assert seq.row_counts().sum() == 10 - seq.left_out == (8 if options else 10)
    assert seq.ids(-1) == seq.ids(len(seq) - 1)
    assert seq.repeat().ids(len(seq)) == [f"r{row}" for row in rows_of(seq.repeat()[len(seq)])]
    with pytest.raises(IndexError, match=r"^batch 9 does not exist: an epoch has \d batches$"):
        seq.rows(9)


def test_any_batch_in_any_order_from_any_thread(frame):
    seq = sequence(frame(48), workers=3)
    indices = np.random.default_rng(0).permutation(np.repeat(np.arange(12), 20)).tolist()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda index: rows_of(seq[index]), indices))
    expected = order(48, 0)
    assert found == [expected[4 * index : 4 * index + 4] for index in indices]
    assert rows_of(seq[-1]) == expected[-4:]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"y": {"label": "label", "pixels": dfgen.Image(size=(4, 4))}, "sample_weight": "weight"},
        {"transform": lambda sample, rng: sample, "batch_transform": lambda batch, rng: batch},
        {"image_size": None, "bucket_by": "shape"},
        {"balance": "label"},
        {"workers": 1, "use_multiprocessing": True},
    ],
    ids=["plain", "several targets", "transforms", "own sizes", "balance", "processes"],
)
def test_unreferenced_batch_is_freed_at_once(frame, options):
    """Not when Python looks for garbage, until when memory would grow."""
    df = frame(24).assign(weight=1.0)
    with sequence(df, **{"y": "label", **options}) as seq:
        assert len(seq) == 6
        gc.disable()
        try:
            left = [[weakref.ref(a) for part in batch for a in leaves(part)] for batch in seq][:-1]
            assert all(reference() is None for batch in left for reference in batch)
        finally:
            gc.enable()


def test_index_past_the_epoch_raises_index_error(frame):
    with pytest.raises(IndexError, match=r"batch 3 does not exist: an epoch has 3 batches"):
        sequence(frame(12))[3]


def test_repeat_is_endless_and_advances_the_epoch(frame):
    seq = sequence(frame(10))
    endless = iter(seq.repeat())
    found = [row for _ in range(7) for row in rows_of(next(endless))]
    assert found == orders(10, range(3))[: 20 + 4]
    assert seq.epoch == 2


def test_look_ahead_is_used_by_the_next_epoch(frame):
    """Nothing is made twice: three loops of three batches start nine batches and the look-ahead."""
    seq = sequence(frame(12), max_queue_size=2)
    started, start = [], seq._loader.start
    seq._loader.start = lambda *position, **_: started.append(position[:2]) or start(*position)
    for _ in range(3):
        assert sum(len(rows_of(batch)) for batch in seq) == 12
    assert started == [(i // 3, i % 3) for i in range(9 + 2)]


def test_look_ahead_is_bounded(frame):
    seq = sequence(frame(120), max_queue_size=3)
    started, start = [], seq._loader.start
    seq._loader.start = lambda *position, **_: started.append(position[1]) or start(*position)
    batches = iter(seq)
    for taken in range(1, 9):
        next(batches)
        assert len(started) == taken + 3


def test_a_seed_of_none_is_drawn_and_shown(frame):
    a, b = sequence(frame(60), seed=None), sequence(frame(60), seed=None)
    assert a.seed != b.seed
    assert f"seed {a.seed}" in repr(a)
    assert [rows_of(batch) for batch in a] == [
        rows_of(batch) for batch in sequence(frame(60), seed=a.seed)
    ]


def test_batches_are_aligned_and_labels_release_pixels(frame):
    x, y = sequence(frame(8))[0]
    assert x.ctypes.data % 64 == 0 and y.ctypes.data % 64 == 0
    assert x.base is not y.base and y.base.nbytes < 200


def test_closed_sequence_raises_and_ends_its_threads(frame):
    before = set(threading.enumerate())
    with sequence(frame(40)) as seq:
        next(iter(seq))
        threads = set(threading.enumerate()) - before
    with pytest.raises(ValueError, match="this Sequence was closed: make a new one"):
        seq[0]
    assert len(threads) == 2
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()


def test_transform_draws_depend_on_epoch_but_not_workers(frame):
    def shift(sample, rng):
        return {**sample, "image": sample["image"] + rng.integers(100, dtype=np.uint8)}

    passes = []
    for workers in (0, 1, 2, 7):
        seq = sequence(frame(20), transform=shift, workers=workers, shuffle=False)
        passes.append([[x.tobytes() for x, _ in seq] for _ in range(2)])
    assert passes[0] == passes[1] == passes[2] == passes[3]
    assert passes[0][0] != passes[0][1]


# -- what a frame becomes --------------------------------------------------------------------


def test_plain_frame_needs_no_other_argument(frame):
    seq = dfgen.Sequence(frame(10))
    x, y = seq[0]
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((10, 256, 256, 3), "uint8", (10,), "int32")
    assert (len(seq), seq.class_names, seq.epoch) == (1, ["even", "odd"], 0)
    assert repr(seq) == (
        "<dfgen.Sequence: 10 rows, 1 batches of 32; image 256x256x3 uint8, label scalar int32; "
        "seed 0, epoch 0>"
    )


@pytest.mark.parametrize(
    ("label_mode", "shape", "dtype"),
    [("int", (4,), "int32"), ("categorical", (4, 2), "float32"), ("binary", (4, 1), "float32")],
)
def test_label_modes_match_keras_shapes_and_dtypes(frame, label_mode, shape, dtype):
    _, y = sequence(frame(8), label_mode=label_mode, shuffle=False)[0]
    assert (y.shape, y.dtype) == (shape, dtype)
    assert (y.argmax(1) if label_mode == "categorical" else y.ravel()).tolist() == [0, 1, 0, 1]


def test_without_labels_batches_hold_inputs_alone(frame):
    assert len(sequence(frame(8), label_mode=None)[0]) == 1
    assert len(sequence(frame(8).drop(columns="label"))[0]) == 1


def test_class_numbers_follow_categories_of_filtered_frame(frame):
    df = frame(8)
    odd = sequence(df[df.label == "odd"], shuffle=False)
    assert odd.class_names == ["even", "odd"]
    assert odd[0][1].tolist() == [1, 1, 1, 1]


def test_text_labels_are_sorted(frame, recwarn):
    df = frame(8).assign(label=["b", "a"] * 4)
    assert sequence(df).class_names == ["a", "b"]
    assert not recwarn.list
    assert sequence(df, class_names=["b", "a"], shuffle=False)[0][1].tolist() == [0, 1, 0, 1]


def test_numbers_are_targets_as_they_are(frame):
    df = frame(8).drop(columns="label")
    assert sequence(df.assign(age=np.arange(8)))[0][1].dtype == np.int32
    assert sequence(df.assign(age=np.arange(8) / 2))[0][1].dtype == np.float32


def test_later_changes_of_the_frame_do_nothing(frame):
    df = frame(8).assign(age=np.arange(8.0))
    seq = sequence(df, y="age", shuffle=False)
    df["age"] = 0.0
    df.loc[:, "path"] = "gone.png"
    del df["label"]
    assert seq[1][1].tolist() == [4, 5, 6, 7]
    assert seq.manifest["age"].tolist() == [*range(8)]


def test_any_index_path_objects_and_extra_columns_work(frame, tmp_path):
    from pathlib import Path

    df = frame(8).set_index(pd.Index([3, 3, 1, 9, 7, 0, 2, 5]))
    df["path"] = df["path"].map(Path)
    assert rows_of(sequence(df, shuffle=False)[1]) == [4, 5, 6, 7]


def test_relative_paths_begin_at_root(frame, files):
    df = frame(8)
    folder = files[0].rpartition("/")[0]
    df["path"] = df["path"].str.removeprefix(folder + "/")
    assert rows_of(sequence(df, root=folder, shuffle=False)[0]) == [0, 1, 2, 3]


def test_manifest_file_and_frame_give_equal_batches(frame, tmp_path):
    df = frame(20)
    dfgen.write_manifest(df, tmp_path / "m.parquet")
    by_path, by_frame = sequence(tmp_path / "m.parquet"), sequence(df)
    assert by_path.class_names == by_frame.class_names
    assert by_path.manifest["path"].tolist() == df["path"].tolist()
    for a, b in zip(by_path, by_frame, strict=True):
        assert a[0].tobytes() == b[0].tobytes() and a[1].tolist() == b[1].tolist()


def test_image_file_column_is_recognized_under_any_name(frame):
    df = frame(8).rename(columns={"path": "file"})
    assert rows_of(sequence(df, x="file", id="id", shuffle=False)[0]) == [0, 1, 2, 3]


def test_paths_serve_as_ids_where_there_are_none(frame):
    assert len(sequence(frame(8).drop(columns="id"))) == 2


def test_class_weight_accepts_names_and_multiplies_sample_weight(frame):
    df = frame(8).assign(weight=2.0)
    for class_weight in ({0: 1, 1: 5}, {"even": 1, "odd": 5}):
        seq = sequence(
            df, y="label", shuffle=False, sample_weight="weight", class_weight=class_weight
        )
        assert seq[0][2].tolist() == [2, 10, 2, 10]


@each(
    ("names", "class_weight", "expected"),
    [
        (["1", "2", "3"], {"1": 10, "2": 1, "3": 30}, [10, 1, 30]),
        (["0", "1", "2"], {0: 10, 1: 1, 2: 30}, [10, 1, 30]),
        (["a", "b", "c"], {0: 10, 1: 1, 2: 30}, [10, 1, 30]),
        (["a", "b", "c"], {"a": 0, "b": 1, "c": 1}, [0, 1, 1]),
        ([7, 8, 9], {7: 10, 8: 1, 9: 30}, [10, 1, 30]),
        (["1", "2", "3"], {1: 10, 2: 20}, "could be names or indices"),
        ([1, 2, 3], {0: 10, 1: 20, 2: 30}, [10, 20, 30]),
        (["a", "b", "c"], {"a": -1, "b": 1, "c": 1}, "weight -1"),
        (["a", "b", "c"], {"a": None, "b": 1, "c": 1}, "weight None"),
        (["a", "b", "c"], {"a": float("nan"), "b": 1, "c": 1}, "weight nan"),
        (["a", "b", "c"], "even", "even"),
    ],
)
def test_class_weight_keys_are_all_names_or_numbers(frame, names, class_weight, expected):
    df = frame(3).assign(label=pd.Categorical(names, categories=names))
    options = {"shuffle": False, "class_weight": class_weight}
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            sequence(df, **options)
    else:
        assert sequence(df, **options)[0][2].tolist() == expected


@pytest.mark.parametrize("class_weight", [{"a": 5, "b": 2.5}, {0: 5, 1: 2.5}])
def test_class_without_a_weight_warns_and_counts_one(frame, class_weight):
    names = ["a", "b", "c", "d"]
    df = frame(3).assign(label=pd.Categorical(names[:3], categories=names))
    with pytest.warns(UserWarning, match="class_weight has no weight for 'c'"):
        seq = sequence(df, shuffle=False, class_weight=class_weight)
    assert seq[0][2].tolist() == [5, 2.5, 1]


def test_a_class_without_rows_needs_no_weight(frame):
    df = frame(2).assign(label=pd.Categorical(["a", "b"], categories=["a", "b", "c"]))
    assert sequence(df, shuffle=False, class_weight={"a": 5, "b": 2})[0][2].tolist() == [5, 2]


def test_booleans_are_always_two_classes_without_a_warning(frame):
    seq = sequence(frame(4).assign(label=True))
    assert (seq.class_names, seq[0][1].tolist()) == ([False, True], [1, 1, 1, 1])


def test_the_manifest_of_a_sequence_is_a_copy(frame):
    seq = sequence(frame(4), shuffle=False)
    manifest = seq.manifest
    manifest["path"] = "gone.png"
    assert rows_of(seq[0]) == [0, 1, 2, 3]
    assert "gone.png" not in seq.manifest["path"].tolist()


def test_a_transform_that_fails_is_no_bad_row(frame):
    def fail(sample, rng):
        raise NameError("oops")

    with pytest.raises(RuntimeError, match="the transform raised NameError: oops"):
        list(sequence(frame(8), transform=fail, on_error="skip"))


def test_rows_with_known_problems_are_rejected_or_skipped(frame):
    df = frame(8).assign(problem=None)
    df.loc[[2, 3], "problem"] = "truncated"
    with pytest.raises(dfgen.DfgenError, match=r"row id=2, .*truncated\n  row id=3, .*truncated"):
        sequence(df, y="label")
    seq = sequence(df, y="label", on_error="skip", shuffle=False)
    x, y, weights = seq[0]
    assert (rows_of((x, y)), weights.tolist()) == ([0, 1, 0, 0], [2, 2, 0, 0])
    assert seq.problems["id"].tolist() == [2, 3]


# -- wrong input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"y": "lable"}, 'Did you mean "label"'),
        ({"x": "file"}, 'x="path"'),
        ({"sample_weight": "w"}, "sample_weight"),
        ({"sample_weight": [1.0]}, "sample_weight"),
        ({"id": ["id"]}, 'id="id"'),
        ({"id": pd.RangeIndex(8)}, "RangeIndex"),
        ({"y": "id, label"}, "'id', 'label'"),
        ({"x": "/data/0.png"}, 'x="path"'),
        ({"class_names": "ab"}, "class_names must be a list"),
        ({"class_names": {"odd": 0, "even": 1}}, "class_names must be a list"),
        ({"y": 3}, "column name"),
        ({"x": []}, "no input"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"workers": -1}, "workers=-1"),
        ({"max_queue_size": 0}, "max_queue_size=0"),
        ({"seed": -1}, "seed=-1"),
        ({"image_size": 4}, "image_size must be"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"drop_remainder": True, "batch_size": 9}, "no batch"),
        ({"y": "id", "label_mode": "categorical"}, "int64"),
        ({"y": "id", "class_names": ["even", "odd"]}, "int64"),
        ({"class_names": ["even", "uneven"]}, "'odd'"),
        ({"class_weight": {"odds": 2}}, "'odds'"),
        ({"class_weight": {0: 1, 2: 1}}, "unknown class 2"),
        ({"label_mode": None, "class_weight": {0: 2}}, "no y"),
        ({"x": dfgen.Image("path"), "scale": "0..1"}, "scale="),
        ({"y": dfgen.Category("label"), "label_mode": "binary"}, "label_mode"),
        ({"y": "label", "label_mode": None}, "label_mode=None"),
        ({"limits": "2GB"}, "dfgen.Limits"),
        ({"root": 5}, "root must be"),
        ({"x": {"image": "path"}, "y": {"image": "label"}}, "'image'"),
    ],
    ids=lambda value: str(list(value)) if isinstance(value, dict) else "",
)
def test_wrong_arguments_are_named(frame, options, word):
    with pytest.raises(dfgen.DfgenError, match=word):
        sequence(frame(8), **options)


def test_unknown_argument_is_a_type_error_with_hint(frame):
    with pytest.raises(TypeError, match=r"(?s)batchsize.*batch_size"):
        sequence(frame(8), batchsize=3)


@pytest.mark.parametrize("options", [{}, {"id": "object_id"}])
@pytest.mark.parametrize("name", ["object_id", "objectId", "ID", "uuid"])
def test_a_column_of_ids_is_no_label(frame, name, options):
    df = frame(8).drop(columns="id").rename_axis(None)
    df.insert(0, name, [f"x{row}" for row in range(8)])
    options = {"id": name} if options else {}
    assert sequence(df, **options).class_names == ["even", "odd"]
    assert len(sequence(df.drop(columns="label"), **options).element_spec) == 1


def test_class_number_column_may_have_any_name(frame):
    df = frame(8).drop(columns="label").assign(class_id=[0, 1] * 4)
    assert sequence(df)[0][1].dtype == np.int32
    assert sequence(df[:1])[0][1].tolist() == [0]  # one row tells nothing


def test_columns_of_ids_are_not_proposed_as_labels(frame):
    with pytest.raises(dfgen.DfgenError) as error:
        sequence(frame(8).assign(object_id=range(8), age=1))
    assert str(error.value) == (
        'y=None, and several columns could be the label: label, age. Name one, y="label", '
        "several, y=['label', 'age'], or none, label_mode=None"
    )


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda df: df[df.label == "none"], "no rows"),
        (lambda df: df.assign(id=[0, 1, 2, 3, 4, 5, 6, 6]), "rows 6, 7"),
        (lambda df: df.assign(id=[None, *"1234567"]), "no id in 1 rows"),
        (lambda df: df.assign(path=[None, *df.path[1:]]), "no path in 1 rows"),
        (lambda df: df.assign(path=1), "int64"),
        (lambda df: df.assign(label=df.label.where(df.index > 1)), "no class in 2 rows"),
        (lambda df: df.drop(columns="id").assign(path=df.path[0]), "no column 'id'"),
        (lambda df: df.assign(label=["a", 1] * 4), "int, str"),
        (lambda df: df.assign(label=[[1]] * 8), "MultiLabel"),
        (lambda df: pd.concat([df, df["label"]], axis=1), "several times"),
        (lambda df: df.drop(columns="path"), "build_manifest"),
    ],
)
def test_wrong_frames_are_named(frame, change, word):
    with pytest.raises(dfgen.DfgenError, match=word):
        sequence(change(frame(8)))


@pytest.mark.parametrize(
    ("name", "word"), [("a.npy", "dfgen.Array"), ("photo-1", "dfgen.Text"), ("a.wav", "Audio")]
)
def test_text_without_images_is_no_input(frame, name, word):
    with pytest.raises(ArgumentError, match=word):
        sequence(frame(8).assign(file=name), x="file", y="label")


@pytest.mark.parametrize(("name", "word"), [("a.npy", "dfgen.Array"), ("a.png", "dfgen.Mask")])
@pytest.mark.parametrize("y", ["file", None])
def test_file_names_are_no_classes(frame, name, word, y):
    with pytest.raises(ArgumentError, match=word):
        sequence(frame(8).drop(columns="label").assign(file=name), y=y)


def test_lists_are_no_manifest():
    with pytest.raises(dfgen.DfgenError, match=r"DataFrame.*\[1, 2\]"):
        dfgen.Sequence([1, 2])


def test_few_rows_make_one_batch(frame):
    assert sequence(frame(1))[0][0].shape == (1, 4, 4, 3)
    assert sequence(frame(3), batch_size=64)[0][0].shape == (3, 4, 4, 3)
