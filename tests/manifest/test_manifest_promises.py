"""Promises of docs/about/guarantees.md on manifests, with odd tables and files."""

import random
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loaders import batches_of
from test_duplicates import in_pairs
from test_manifest_io import FRAME

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import DfgenError
from dfgen.loading.loader import Loader
from dfgen.manifest.building.splitting import Splitting
from dfgen.manifest.duplicates import leaks


@pytest.mark.parametrize("held", ["files in the table", "the index of a pack"])
def test_flipped_bit_in_table_or_pack_is_found(files, tmp_path, held):
    frame = pd.DataFrame({"id": range(6), "path": files[:6], "kind": pd.Categorical([*"ababab"])})
    place, path = tmp_path / "pack", tmp_path / "pack"
    if held == "files in the table":
        place = path = tmp_path / "m.parquet"
        data = [Path(name).read_bytes() for name in files[:6]]
        dfgen.write_manifest(frame.drop(columns="path").assign(image=data), path)
    else:
        dfgen.pack(frame, place, format="original")
        path = place / "_manifest.json"
    root = None if path == place else Path(files[0]).parent
    whole, data = dfgen.read_manifest(place, root), path.read_bytes()
    draw = random.Random(0)
    for bit in draw.sample(range(8 * len(data)), 60):
        path.write_bytes(
            data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]
        )
        try:
            pd.testing.assert_frame_equal(dfgen.read_manifest(place, root), whole)
        except DfgenError as error:
            assert str(place) in str(error)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_class_numbers_survive_corrections_and_growth(tmp_path, seed):
    """Text and numbers, classes that lose all their rows, and new ones, several times over."""
    draw, out, rows = random.Random(seed), tmp_path / "m.parquet", 4
    labels = pd.DataFrame({"id": range(12), "file": [f"{n}.png" for n in range(12)]})
    labels["kind"], labels["grade"] = [*"bacb" * 3], [3, 1, 2] * 4
    how = {"path_column": "file", "category": ["grade", "kind"], "facts": "none", "out": out}
    frame = dfgen.build_manifest(labels=labels[:rows], **how)
    numbers, corrected = {"kind": [], "grade": []}, {"kind": {}, "grade": {}}
    for _ in range(4):
        ids = draw.sample(range(rows), draw.randint(1, rows))
        fix = pd.DataFrame({"id": ids, "kind": draw.choices("abc", k=len(ids))})
        fix["grade"] = draw.choices("123", k=len(ids))
        for name, wanted in corrected.items():
            known = frame[name].cat.categories.tolist()
            assert known[: len(numbers[name])] == numbers[name]
            numbers[name] = known
            before = frame.set_index("id")[name]
            if wanted or (before[ids].to_numpy() != fix[name].to_numpy()).any():
                corrected[name] = {**before, **dict(zip(ids, fix[name], strict=True))}
        dfgen.update_labels(out, fix)
        rows = min(12, rows + draw.randint(0, 4))
        frame = dfgen.build_manifest(labels=labels[:rows], update=out, **how)
        for name, wanted in corrected.items():
            found = frame.set_index("id")[name].to_dict()
            assert {id: found[id] for id in wanted} == wanted


def test_readers_beside_several_writers_see_whole_manifests_alone(tmp_path):
    out, faults, ended = tmp_path / "m.parquet", [], threading.Event()
    link = tmp_path / "link.parquet"
    link.symlink_to(out)
    frames = [
        pd.DataFrame({"id": range(n), "path": f"{tmp_path}/a.png", "n": n}) for n in (3, 500, 4000)
    ]
    dfgen.write_manifest(frames[0], out)

    def write(frame):
        for _ in range(5):
            dfgen.write_manifest(frame, link)

    def read():
        while not ended.is_set():
            try:
                found = dfgen.read_manifest(out)
                assert (found["n"] == len(found)).all()
            except BaseException as error:
                faults.append(error)

    threads = [threading.Thread(target=write, args=(frame,)) for frame in frames]
    reader = threading.Thread(target=read)
    for thread in (reader, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    reader.join()
    assert faults == []
    assert link.is_symlink() and {path.name for path in tmp_path.iterdir()} == {link.name, out.name}


@pytest.mark.parametrize(
    "how",
    [{"compression": "zstd", "row_group_size": 1}, {"use_dictionary": False, "version": "1.0"}],
)
def test_manifests_that_another_program_wrote_again_are_read(tmp_path, how):
    dfgen.write_manifest(FRAME, tmp_path / "whole.parquet")
    table = pq.read_table(tmp_path / "whole.parquet")
    extra = table.append_column("problem_of_mine", pa.nulls(len(table), pa.string()))
    pq.write_table(extra.select(extra.column_names[::-1]), tmp_path / "m.parquet", **how)
    with warnings.catch_warnings(action="ignore"):  # of the column that is new
        again = dfgen.read_manifest(tmp_path / "m.parquet", root=Path(__file__).parent)
    whole = dfgen.read_manifest(tmp_path / "whole.parquet", root=Path(__file__).parent)
    known = whole.columns.drop("split")  # whose names are in no key
    pd.testing.assert_frame_equal(again[known], whole[known])
    assert again["split"].tolist() == whole["split"].tolist()
    assert again["grade"].cat.ordered and again["kind"].tolist() == FRAME["kind"].tolist()


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    links=st.lists(st.tuples(st.integers(0, 59), st.integers(0, 59)), max_size=30),
    bits=st.lists(st.integers(0, 63), min_size=4, max_size=4, unique=True),
    how=st.sampled_from([{"split": {"train": 0.6, "val": 0.4}}, {"folds": 3}]),
    stratify=st.sampled_from([None, "kind"]),
    group=st.sampled_from([None, "scene"]),
    old=st.integers(0, 60),
)
def test_chains_of_copies_stay_in_one_split(links, bits, how, stratify, group, old):
    """Chains of files, bytes and hashes, with groups and classes, anew and beside kept rows."""
    frame = in_pairs(60).assign(scene=np.arange(60) // 4)
    hashes, digests, paths = (frame[name].tolist() for name in ("phash", "digest", "path"))
    for number, (row, other) in enumerate(links):
        if number % 3 == 0:
            hashes[row] = hashes[other] ^ 1 << bits[number % 4]
        elif number % 3 == 1:
            digests[row] = digests[other]
        else:
            paths[row] = paths[other]
    frame = frame.assign(phash=pd.array(hashes, "UInt64"), digest=digests, path=paths)
    splitting = Splitting(**how, stratify=stratify, group=group, group_duplicates=True)
    parts = splitting.parts(frame)
    assert leaks(frame.assign(**{splitting.column: parts})).empty
    kept = pd.Series(parts, frame.index).astype(object).where(frame.index < old, None)
    grown = splitting.parts(frame, kept if how.get("split") else kept.astype("Int8"))
    assert list(grown[:old]) == list(parts[:old])
    assert leaks(frame.assign(**{splitting.column: grown})).empty


@pytest.mark.filterwarnings("ignore:column 'kind' has values that look alike")
@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.sampled_from([*"abcz", "A", " a"]), min_size=1, max_size=8),
    names=st.lists(st.sampled_from([*"abcz", "A"]), min_size=1, max_size=5, unique=True),
    kind=st.sampled_from(["object", "category", "string", "several", "number", "input"]),
)
def test_class_outside_the_names_is_always_an_error(values, names, kind):
    frame = pd.DataFrame({"id": range(len(values)), "x": 1.0})
    column = pd.Series(values)
    if kind == "number":
        order = [*"abczA", " a"]
        column, names = column.map(order.index), [order.index(name) for name in names]
    frame["kind"] = column.astype(kind if kind in ("category", "string") else object)
    if kind == "number":
        frame["kind"] = column
    if kind == "several":
        frame["kind"] = [[value] for value in values]
    feature = (dfgen.MultiLabel if kind == "several" else dfgen.Category)("kind", class_names=names)
    inside = set(column) <= {*names}
    x, y = ({"kind": feature}, "x") if kind == "input" else ("x", {"kind": feature})
    try:
        reader = bind(SequenceArguments(frame, x=x, y=y)).reader
        loader = Loader(reader, batch_size=8, workers=0)
        (batch,) = batches_of(loader)
        loader.close()
    except DfgenError as error:
        assert not inside, error
        assert "kind" in str(error)
        return
    assert inside
    found = batch.arrays["kind"]
    codes = found.argmax(-1) if kind == "several" else found
    assert [names[code] for code in codes.reshape(-1)] == column.tolist()
