"""Manifests on disk: round trips, columns and rows, other readers, damage, whole writes."""

import json
import random
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dfgen
from dfgen.errors import ArgumentError, DfgenError
from public.trees import pets, plain, rows_of

ROWS = 24


def sample(folder, rows=ROWS):
    """Return a frame with a column of each type that a manifest can hold."""
    n = np.arange(rows)
    columns = {
        "id": [f"row {row}" for row in n],
        "path": [f"{folder}/imgs/{row % 2}/{row}.png" for row in n],
        "kind": pd.Categorical.from_codes(n % 4 - 1, ["dog", "cat", "bird"]),
        "stars": pd.Categorical(n % 5, categories=[4, 3, 2, 1, 0], ordered=True),
        "my note": ["`x`" if row == 9 else None if row % 3 else f"n{row}" for row in n],
        "score": np.where(n % 5, n / 2, np.nan),
        "low": n - 3,
        "seen": n % 2 == 0,
        "old": pd.array([(True, False, None)[row % 3] for row in n], "boolean"),
        "at": pd.Timestamp("2020-01-02 03:04:05") + pd.to_timedelta(n, "h"),
        "tags": [["a", "b"][: row % 3] for row in n],
        "boxes": [[[1.0, 2.0, float(row), 4.5]] * (row % 3) for row in n],
        "split": pd.Categorical(np.where(n < 8, "val", "train"), ["val", "train", "test"]),
        "bytes": n * 10**10,
        "width": pd.array([None if row % 6 == 5 else int(row) * 20 for row in n], "Int32"),
    }
    return pd.DataFrame(columns)


@pytest.fixture
def manifest(tmp_path):
    dfgen.write_manifest(sample(tmp_path), tmp_path / "m.parquet")
    return tmp_path / "m.parquet"


def assert_equal(found, expected):
    for frame in (found := found.copy(), expected := expected.copy()):
        for name in frame.columns.intersection(["tags", "boxes", "id", "path", "my note"]):
            frame[name] = frame[name].map(lambda value: json.dumps(plain(value)))
    pd.testing.assert_frame_equal(found, expected)


def test_written_frame_is_read_with_its_types(tmp_path, manifest):
    found = dfgen.read_manifest(manifest)
    assert_equal(found, sample(tmp_path))
    key = found.attrs["dfgen"]
    assert key["root"] == f"{tmp_path}/imgs" and key["recipe"] is None
    assert key["labels"]["kind"]["class_names"] == ["dog", "cat", "bird"]
    assert key["labels"]["stars"]["class_names"] == [4, 3, 2, 1, 0]
    assert not {"id", "path", "split", "bytes", "width"} & set(key["labels"])
    dfgen.write_manifest(found[found["kind"] == "cat"], tmp_path / "part.parquet")
    part = dfgen.read_manifest(tmp_path / "part.parquet")
    assert_equal(part, found[found["kind"] == "cat"].reset_index(drop=True))
    assert part["kind"].cat.codes.unique().tolist() == [1] and part.attrs == found.attrs


@pytest.mark.parametrize("reader", ["pandas", "polars", "duckdb"])
def test_other_libraries_read_and_give_manifests(tmp_path, manifest, reader):
    library = pytest.importorskip(reader)
    table = library.read_parquet(str(manifest))
    to_frame = {"pandas": pd.DataFrame, "duckdb": lambda table: table.to_df()}
    rows = to_frame.get(reader, lambda table: pd.DataFrame(table.to_dict(as_series=False)))(table)
    expected = sample(tmp_path).drop(columns="at")
    expected["path"] = [f"{row % 2}/{row}.png" for row in range(ROWS)]
    for name in expected:
        found = rows[name].astype(object).tolist()
        assert plain(found) == plain(expected[name].astype(object).tolist()), name
    dfgen.write_manifest(table, tmp_path / "again.parquet", root=tmp_path / "imgs")
    again = dfgen.read_manifest(tmp_path / "again.parquet", columns=["kind", "low", "boxes", "id"])
    for name in again:
        assert plain(again[name].astype(object).tolist()) == plain(
            rows[name].astype(object).tolist()
        )


def test_columns_are_read_in_the_order_asked(manifest):
    whole = dfgen.read_manifest(manifest)
    for names in (["kind", "id", "path"], ["path"], ["boxes", "split"]):
        assert_equal(dfgen.read_manifest(manifest, columns=names), whole[names])
    for wrong, word in ((["id", "kinds"], "kinds"), ("id", "columns")):
        with pytest.raises(DfgenError, match=word):
            dfgen.read_manifest(manifest, columns=wrong)


low, seen, width, split = map(pc.field, ("low", "seen", "width", "split"))
CONDITIONS = [
    ("low > 4", lambda f: f.low > 4), ("low >= 4 and low < 9", lambda f: f.low.isin(range(4, 9))),
    ("4 < low <= 9", lambda f: f.low.isin(range(5, 10))),
    ("not (low == -3 or low != low)", lambda f: f.low != -3),
    ("low == 1 or low == 2", lambda f: f.low.isin([1, 2])),  # where a row group ends
    ("seen and width > 200", lambda f: f.seen & (f.width.fillna(0) > 200)),
    ("kind != 'dog' and seen", lambda f: (f.kind != "dog") & f.seen),
    ("kind in ['dog', 'bird']", lambda f: f.kind.isin(["dog", "bird"])),
    ("id not in ['row 3', 'row 23']", lambda f: ~f.id.isin(["row 3", "row 23"])),
    ("`my note` == 'n6'", lambda f: f["my note"] == "n6"),
    ("score > low", lambda f: f.score > f.low), ("split == 'nothing'", lambda f: f.low > 99),
    ("seen and not (low >= 17)", lambda f: f.seen & (f.low < 17)), (low == 7, lambda f: f.low == 7),
    ((split == "val") & ~seen, lambda f: (f.split == "val") & ~f.seen),
    (width > 200, lambda f: f.width.fillna(0) > 200),
    ("width.isna() or kind.isna()", lambda f: f.width.isna() | f.kind.isna()),
    ("score.notna()", lambda f: f.score.notna()), ("kind.isin(['cat'])", lambda f: f.kind == "cat"),
    ("low.between(3, 8)", lambda f: f.low.between(3, 8)),
    ("id.str.endswith('2')", lambda f: f.id.str.endswith("2")),
    ("`my note` == '`x`'", lambda f: f["my note"] == "`x`"),
]  # fmt: skip


@pytest.mark.parametrize("group", [ROWS, 5])
@pytest.mark.parametrize(("where", "keeps"), CONDITIONS)
def test_condition_keeps_the_rows_that_pandas_keeps(manifest, where, keeps, group):
    pq.write_table(pq.read_table(manifest), manifest, row_group_size=group)
    whole = dfgen.read_manifest(manifest)
    expected = whole[keeps(whole).fillna(False).astype(bool)].reset_index(drop=True)
    found = dfgen.read_manifest(manifest, where=where)
    assert_equal(found, expected)
    assert found.attrs == whole.attrs
    names = ["split", "id"]
    assert_equal(dfgen.read_manifest(manifest, where=where, columns=names), expected[names])


@pytest.mark.parametrize(
    "where",
    [
        "lowe == 3", "low = 3", "low >", "low > @x", "index > 3", "low > low.mean()", "low", 3,
        "__import__('os').remove('x')", pc.field("lowe") > 3,
        "low in [1, 'a']",
    ],
)  # fmt: skip
def test_forbidden_condition_is_an_argument_error(manifest, where):
    with pytest.raises(ArgumentError, match=r"where|lowe"):
        dfgen.read_manifest(manifest, where=where)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("where", [None, "id > '003' and kind == 'dog'"])
def test_sequences_of_file_and_frame_have_equal_rows(tmp_path, where, shuffle):
    pets(tmp_path, 11, out=tmp_path / "m.parquet")
    frame = dfgen.read_manifest(tmp_path / "m.parquet", where=where)
    assert len(frame) == (3 if where else 11)
    options = {"image_size": (3, 4), "batch_size": 2, "seed": 4, "shuffle": shuffle}
    of_frame = dfgen.Sequence(frame, "path", "kind", **options)
    of_file = dfgen.Sequence(tmp_path / "m.parquet", "path", "kind", where=where, **options)
    with of_frame, of_file:
        assert len(of_file) == len(of_frame) == -(-len(frame) // 2)
        assert of_file.class_names == of_frame.class_names == ["cat", "dog"]
        for step in range(len(of_file)):
            rows = [int(key) for key in of_file.ids(step)]
            assert rows == [int(key) for key in of_frame.ids(step)]
            for images, kinds in (of_file[step], of_frame[step]):
                assert rows_of(images) == rows
                assert np.asarray(kinds).tolist() == [row % 2 for row in rows]


def fingerprint(path):
    return json.loads(pq.read_schema(path).metadata[b"dfgen"])["fingerprint"]


def test_fingerprint_is_of_ids_order_paths_and_labels(tmp_path):
    def of(changed):
        dfgen.write_manifest(changed, tmp_path / "x.parquet", root=tmp_path)
        return fingerprint(tmp_path / "x.parquet")

    frame = sample(tmp_path)
    first = of(frame)
    assert first == of(frame.copy()) == of(frame.assign(bytes=1, mtime_ns=5, split="a"))
    assert first == of(iter([frame[:7], frame[7:]]))  # parts of one table
    assert_equal(dfgen.read_manifest(tmp_path / "x.parquet"), frame)
    last = {"id": "z", "path": f"{tmp_path}/z.png", "low": 0}
    others = [frame.assign(**{name: [*frame[name][:-1], x]}) for name, x in last.items()]
    others += [frame[::-1], frame[:-1], frame.drop(columns="seen"), frame.assign(tags=[[]] * ROWS)]
    others += [
        frame.assign(**{name: frame[name].fillna(x)})
        for name, x in {"score": 0, "kind": "cat"}.items()
    ]
    others.append(frame.rename(columns={"seen": "Seen"}))
    assert len({first, *map(of, others)}) == 1 + len(others)


def test_damaged_file_is_never_read_as_other_content(manifest):
    data, draw, refused = manifest.read_bytes(), random.Random(0), 0
    whole = dfgen.read_manifest(manifest)
    damaged = [b"", b"PAR1", b"id,path\n1,a.png\n"]
    for _ in range(90):
        place, copy = draw.randrange(8 * len(data)), bytearray(data)
        copy[place // 8] ^= 1 << place % 8
        damaged += [bytes(copy), data[: draw.randrange(len(data))]][: 1 + (place % 3 == 0)]
    for content in damaged:
        manifest.write_bytes(content)
        with warnings.catch_warnings(record=True, action="always") as caught:
            try:
                found = dfgen.read_manifest(manifest)
            except DfgenError as error:
                assert str(manifest) in str(error)
                refused += 1
                continue
        if not caught:
            assert_equal(found, whole)
    assert refused > 60


WRITER = """
import os, resource, signal, sys
import numpy as np, pandas as pd
import dfgen
import dfgen.errors

path, root = sys.argv[1:]

def parts(fault):
    for part in range(4):
        ids = np.arange(part * 70_000, part * 70_000 + 70_000)
        yield pd.DataFrame({"id": ids, "path": [f"{root}/{row}.png" for row in ids]})
        if part == 2:
            fault()

def fail():
    raise KeyError("mine")

limit = resource.getrlimit(resource.RLIMIT_FSIZE)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for size, fault, error in (limit[0], fail, KeyError), (100_000, int, dfgen.errors.WriteError):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        dfgen.write_manifest(parts(fault), path, root=root)
    except error:
        print(error.__name__, *os.listdir(root))
resource.setrlimit(resource.RLIMIT_FSIZE, limit)
sys.stdout.flush()
dfgen.write_manifest(parts(lambda: os.kill(os.getpid(), signal.SIGKILL)), path, root=root)
"""


def test_failed_or_killed_write_leaves_the_old_file(manifest, tmp_path):
    before = manifest.read_bytes()
    command = [sys.executable, "-c", WRITER, str(manifest), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert done.stdout.splitlines() == ["KeyError m.parquet", "WriteError m.parquet"]
    assert manifest.read_bytes() == before
    dfgen.write_manifest(sample(tmp_path, 3), manifest)
    assert len(dfgen.read_manifest(manifest)) == 3


def test_recipe_equals_the_call_with_its_arguments(tmp_path, monkeypatch):
    pets(tmp_path, 9)
    pd.DataFrame({"key": range(9), "age": range(9), "x": 1}).to_csv(tmp_path / "t.csv", index=False)
    path, text = tmp_path / "recipes/pets.toml", 'pattern = "{kind}/{id:int}.png"\non = "id=key"\n'
    text += (
        'source = "../imgs"\nlabels = "../t.csv"\nlabel = ["age"]\nseed = 3\nstratify = "kind"\n'
    )
    path.parent.mkdir()
    path.write_text(f"{text}split = {{a = 0.6, b = 0.4}}\n")
    monkeypatch.chdir("/")
    arguments = {"source": tmp_path / "imgs", "labels": tmp_path / "t.csv", "on": "id=key"}
    arguments |= {"pattern": "{kind}/{id:int}.png", "label": "age", "stratify": "kind"}
    for seed, options in ((3, {}), (4, {"seed": 4})):
        called = dfgen.build_manifest(**arguments, split={"a": 0.6, "b": 0.4}, seed=seed)
        pd.testing.assert_frame_equal(dfgen.build_manifest(path, **options), called)
    path.write_text(f"{text}sede = 3\n")
    with pytest.raises(ArgumentError, match="sede"):
        dfgen.build_manifest(path)
