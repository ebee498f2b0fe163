"""A data set in a bucket: listed, built, verified, trained on, and no key of it kept anywhere."""

import copy
import io
import json
import pickle
import traceback

import numpy as np
import pandas as pd
import pytest
from contracts import png
from messages import message_of
from servers import KEY, SECRET, http_server, s3_server

pytest.importorskip("obstore")

import dfgen
from dfgen.errors import AccessError, ArgumentError, ManifestError, MissingFileError, ReadError

ROWS = 12
X = dfgen.Image("path", size=(6, 8), color_mode="grayscale")


def contents():
    """The images of a data set by key; their value is their number."""
    return {f"imgs/{'ab'[row % 2]}/{row:02}.png": png(row) for row in range(ROWS)}


@pytest.fixture(scope="module")
def server():
    with s3_server({}) as server:
        yield server


@pytest.fixture
def s3(server, request, monkeypatch):
    """A server with a bucket of its own for each test, `s3.bucket`; options alone open it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    server.bucket = f"b{abs(hash(request.node.name)):x}"
    server.make(server.bucket)
    for key, data in contents().items():
        server.put(server.bucket, key, data)
    server.url_of = f"s3://{server.bucket}"
    server.clear()
    yield server
    server.clear()


def build(s3, below="imgs", **more):
    return dfgen.build_manifest(
        f"{s3.url_of}/{below}", pattern="{kind}/{id:int}.png", storage_options=s3.options, **more
    )


def values_of(batch):
    """The number of each image."""
    return np.asarray(batch[0])[:, 0, 0, 0].astype(int).tolist()


def train(manifest, s3, x=X, **more):
    options = {"shuffle": False, "batch_size": 4, "label_mode": None, "workers": 2} | more
    with dfgen.Sequence(manifest, x, storage_options=s3.options, **options) as sequence:
        return [value for step in range(len(sequence)) for value in values_of(sequence[step])]


def test_a_bucket_is_listed_and_each_header_is_one_request(s3, tmp_path):
    s3.put(s3.bucket, "imgs/a/notes.txt", b"text")
    s3.put(s3.bucket, "imgs/.hidden/01.png", png(1))
    s3.put(s3.bucket, "imgs/odd.png", png(1))
    s3.put(s3.bucket, "imgs2/a/77.png", png(1))
    s3.clear()
    with pytest.warns(UserWarning, match="hidden") as told:
        frame = build(s3, out=tmp_path / "m.parquet")
    for left_out in (".txt: a/notes.txt", "not of the pattern: odd.png"):
        assert left_out in str(told[0].message)
    assert frame["path"].tolist() == sorted(f"{s3.url_of}/{key}" for key in contents())
    assert sorted(frame["id"]) == list(range(ROWS))
    assert frame["kind"].tolist() == ["a"] * 6 + ["b"] * 6
    assert (frame[["width", "height", "channels"]] == [8, 6, 1]).all(axis=None)
    assert frame["bytes"].tolist() == [len(png(row)) for row in frame["id"]]
    assert (frame["mtime_ns"] > 10**18).all() and frame["problem"].isna().all()
    assert s3.asked.total() == 1 + ROWS and {method for method, _ in s3.asked} == {"GET"}
    assert all(range_ == "bytes=0-32767" for *_, range_ in s3.ranges[1:])


@pytest.mark.parametrize("name", ["ENDPOINT_URL", "ENDPOINT", "ENDPOINT_URL_S3"])
def test_the_environment_alone_opens_a_bucket(s3, monkeypatch, name):
    given = {"ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "REGION": "us-east-1"}
    for key, value in {**given, name: s3.url}.items():
        monkeypatch.setenv(f"AWS_{key}", value)
    frame = dfgen.build_manifest(f"{s3.url_of}/imgs", pattern="{kind}/{id:int}.png")
    with dfgen.Sequence(frame, X, label_mode=None, shuffle=False, batch_size=ROWS) as sequence:
        assert values_of(sequence[0]) == frame["id"].tolist()


def test_without_facts_of_headers_those_of_the_listing_are_free(s3):
    frame = build(s3, facts="none")
    assert frame["bytes"].tolist() == [len(png(row)) for row in frame["id"]]
    assert s3.asked.total() == 1


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_it_trains_from_a_local_manifest_with_a_far_root(s3, tmp_path, processes):
    build(s3, out=tmp_path / "m.parquet")
    frame = dfgen.read_manifest(tmp_path / "m.parquet")
    assert frame.attrs["dfgen"]["root"] == f"{s3.url_of}/imgs"
    for manifest in (frame, tmp_path / "m.parquet"):
        s3.clear()
        assert train(manifest, s3, use_multiprocessing=processes) == frame["id"].tolist()
        assert s3.asked.total() == ROWS


def test_relative_paths_begin_at_a_far_root(s3):
    paths = [key.removeprefix("imgs/") for key in contents()]
    frame = pd.DataFrame({"id": range(ROWS), "path": paths})
    for slash in ("", "/"):
        assert train(frame, s3, root=f"{s3.url_of}/imgs{slash}") == list(range(ROWS))


def test_rows_of_an_array_are_images_by_its_first_row_opened_as_the_user_says(s3):
    file = io.BytesIO()
    np.save(file, np.arange(ROWS, dtype=np.uint8)[:, None, None, None] * np.ones((6, 8, 1), "u1"))
    s3.put(s3.bucket, "x.npy", file.getvalue())
    frame = pd.DataFrame({"id": range(ROWS), "path": f"{s3.url_of}/x.npy", "index": range(ROWS)})
    assert train(frame, s3, "path", color_mode="grayscale") == list(range(ROWS))


def test_a_table_that_names_files_begins_at_a_far_root(s3, tmp_path):
    paths = [key.removeprefix("imgs/") for key in contents()]
    pd.DataFrame({"id": range(ROWS), "file": paths}).to_csv(tmp_path / "t.csv", index=False)
    frame = dfgen.build_manifest(
        labels=tmp_path / "t.csv", path_column="file", root=f"{s3.url_of}/imgs",
        storage_options=s3.options, out=tmp_path / "m.parquet",
    )  # fmt: skip
    assert frame["problem"].isna().all()
    stored = pd.read_parquet(tmp_path / "m.parquet")["path"].tolist()
    assert stored == paths
    assert dfgen.read_manifest(tmp_path / "m.parquet")["path"].tolist() == frame["path"].tolist()


def test_a_manifest_moves_from_disk_to_bucket_and_back_by_root(s3, tmp_path):
    for key, data in contents().items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(data)
    dfgen.build_manifest(tmp_path / "imgs", facts="none", out=tmp_path / "m.parquet")
    far = dfgen.read_manifest(tmp_path / "m.parquet", root=f"{s3.url_of}/imgs")
    assert sorted(train(far, s3)) == list(range(ROWS))
    dfgen.write_manifest(far, tmp_path / "far.parquet")
    again = dfgen.read_manifest(tmp_path / "far.parquet")
    assert again["path"].tolist() == far["path"].tolist()
    near = dfgen.read_manifest(tmp_path / "far.parquet", root=tmp_path / "imgs")
    assert sorted(train(near, s3)) == list(range(ROWS))
    with pytest.raises(ManifestError) as error:
        dfgen.write_manifest(far, tmp_path / "x.parquet", root=f"{s3.url_of}/other")
    assert f'the path is not in root="{s3.url_of}/other"' in str(error.value)


def test_an_update_lists_again_and_opens_only_what_changed(s3, tmp_path):
    build(s3, out=tmp_path / "m.parquet")
    s3.put(s3.bucket, "imgs/a/98.png", png(98))
    s3.put(s3.bucket, "imgs/a/00.png", png(0, size=(90, 90)))
    s3.clear()
    frame = dfgen.build_manifest(update=tmp_path / "m.parquet", storage_options=s3.options)
    assert frame.set_index("id")["height"].to_dict() == {0: 90} | dict.fromkeys(
        [*range(1, 12), 98], 6
    )
    opened = sorted(path for _, path in s3.asked if path.endswith(".png"))
    assert opened == [f"/{s3.bucket}/imgs/a/{name}.png" for name in ("00", "98")]


def test_verify_tells_what_is_missing_changed_broken_and_new(s3, tmp_path):
    build(s3, out=tmp_path / "m.parquet")
    assert dfgen.verify(tmp_path / "m.parquet", storage_options=s3.options).empty
    s3.delete(s3.bucket, "imgs/b/03.png")
    s3.put(s3.bucket, "imgs/a/04.png", png(4, size=(7, 80)))
    s3.put(s3.bucket, "imgs/b/05.png", b"text")
    s3.put(s3.bucket, "imgs/b/55.png", png(5))
    for decode in (False, True):
        found = dfgen.verify(tmp_path / "m.parquet", storage_options=s3.options, decode=decode)
        changes = found.set_index("id")["change"].astype(str).to_dict()
        assert changes == {3: "missing", 5: "broken", 4: "changed"}


def test_a_missing_object_names_its_row_and_path(s3):
    frame = build(s3)
    s3.delete(s3.bucket, "imgs/b/03.png")
    with pytest.raises(MissingFileError) as error:
        train(frame, s3)
    message = f"row id=3, path='{s3.url_of}/imgs/b/03.png': the file does not exist"
    assert str(error.value) == message
    with dfgen.Sequence(
        frame, X, storage_options=s3.options, on_error="skip", shuffle=False, batch_size=ROWS,
        label_mode=None,
    ) as sequence:  # fmt: skip
        sequence[0]
        assert sequence.problems["id"].tolist() == [3]


def test_one_changed_since_names_its_row(s3):
    frame = build(s3)
    s3.put(s3.bucket, "imgs/b/03.png", png(3, size=(60, 80)))
    with pytest.raises(dfgen.DfgenError, match=r"^row id=3, .* the file has changed since"):
        train(frame, s3)


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_refused_access_ends_training_at_once_and_skips_no_row(s3, processes):
    frame = build(s3)
    s3.faults.status = 403
    s3.clear_counts()
    with pytest.raises(AccessError, match=r"^row id=\d+, path='s3://.*png': .*refuses it \(403"):
        train(frame, s3, on_error="skip", use_multiprocessing=processes)
    assert s3.asked.total() <= 5 * ROWS  # ahead, for rows, and to see whether others can be read


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_one_refused_object_among_others_is_a_row_to_skip(s3, processes):
    frame = build(s3)
    options = {"storage_options": s3.options, "shuffle": False, "batch_size": 4, "workers": 1}
    options |= {"label_mode": None, "use_multiprocessing": processes}
    s3.faults.status, s3.faults.only = 403, "05.png"
    with dfgen.Sequence(frame, X, on_error="skip", **options) as sequence:
        values = [value for step in range(3) for value in values_of(sequence[step])]
        assert values == [id if id != 5 else 0 for id in frame["id"]]
        assert sequence.problems["id"].tolist() == [5]
        assert (
            "refuses it (403 Forbidden), while others could be read"
            in (sequence.problems["reason"][0])
        )


def test_a_server_that_fails_for_ever_is_no_fault_of_the_row(s3, monkeypatch):
    monkeypatch.setattr("dfgen.loading.workers.retries.WAITS", (0.01,))
    frame = build(s3)
    s3.faults.status, s3.faults.only = 503, "03.png"
    options = s3.options | {"retry_config": {"max_retries": 0}}
    with (
        dfgen.Sequence(frame, X, storage_options=options, on_error="skip", shuffle=False) as seq,
        pytest.raises(ReadError) as error,
    ):
        seq[0]
    assert str(error.value).startswith(
        f"row id=3, path='{s3.url_of}/imgs/b/03.png': the file cannot be read: the server answers "
        "503 Service Unavailable; tried 2 times in "
    )


def test_a_build_ends_where_the_server_fails_and_says_that_no_file_is_at_fault(s3):
    s3.faults.status, s3.faults.only = 503, "03.png"
    s3.options = s3.options | {"retry_config": {"max_retries": 0}}
    try:
        with pytest.raises(ReadError) as error:
            build(s3)
    finally:
        del s3.options["retry_config"]
    assert str(error.value) == (
        f"{s3.url_of}/imgs/b/03.png cannot be read, and the file is not at fault: the file cannot "
        "be read: the server answers 503 Service Unavailable"
    )


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz"])
def test_an_archive_in_a_bucket_is_refused(s3, name):
    s3.put(s3.bucket, name, b"PK\3\4")
    with pytest.raises(ManifestError) as error:
        dfgen.build_manifest(f"{s3.url_of}/{name}", storage_options=s3.options)
    assert str(error.value) == (
        f"{s3.url_of}/{name} is an archive, and archives are read from disks alone: copy it to "
        "one, or unpack it in the store"
    )


@pytest.mark.parametrize("name", ["labels", "coco", "voc", "yolo"])
def test_tables_and_annotations_that_are_far_are_refused(name):
    place, more = "s3://bucket/t.csv", {"labels": {"path_column": "path"}}
    with pytest.raises(ArgumentError) as error:
        dfgen.build_manifest(**{name: place}, **more.get(name, {}))
    frame = f'; in Python, give a frame: labels=pandas.read_csv("{place}")'
    assert str(error.value) == (
        f'{name}="{place}" is far away, and only images are read there: copy it to a disk'
        f"{frame if name == 'labels' else ''}"
    )


def test_a_bucket_or_prefix_that_is_not_there_is_told(s3):
    with pytest.raises(MissingFileError) as error:
        dfgen.build_manifest("s3://nowhere/imgs", storage_options=s3.options)
    assert str(error.value) == "there is no bucket 'nowhere' (404 Not Found, NoSuchBucket)"
    assert message_of(ManifestError, build, s3, below="nothing").startswith(
        f'no file in "{s3.url_of}/nothing" can be opened as an image, array or sound. Left out: '
        "nothing, the folder is empty. "
    )


def test_a_listing_that_is_refused_says_where_credentials_come_from(s3):
    s3.faults.status = 403
    assert message_of(AccessError, build, s3).startswith(
        f"{s3.url_of}/imgs cannot be listed: s3://{s3.bucket} refuses it (403 Forbidden). "
        "Credentials come from storage_options= (access_key_id, "
    )


def test_a_manifest_itself_lies_in_the_bucket(s3):
    frame = build(s3)
    path = f"{s3.url_of}/manifests/pets.parquet"
    dfgen.write_manifest(frame, path, storage_options=s3.options)
    again = dfgen.read_manifest(path, storage_options=s3.options)
    pd.testing.assert_frame_equal(again, frame)
    assert again.attrs == frame.attrs
    assert train(path, s3) == frame["id"].tolist()
    with dfgen.Sequence(path, X, storage_options=s3.options, batch_size=4) as sequence:
        pd.testing.assert_frame_equal(sequence.manifest, frame)
    few = dfgen.read_manifest(path, where="id in [2, 5]", storage_options=s3.options)
    assert few["path"].tolist() == frame[frame["id"].isin([2, 5])]["path"].tolist()
    with pytest.raises(MissingFileError) as error:
        dfgen.read_manifest(f"{s3.url_of}/no.parquet", storage_options=s3.options)
    assert str(error.value) == f"there is no manifest {s3.url_of}/no.parquet"
    s3.faults.status = 503
    with pytest.raises(ReadError, match="the server answers 503 Service Unavailable"):
        dfgen.read_manifest(path, storage_options=s3.options | {"retry_config": {"max_retries": 0}})


def test_files_behind_http_are_named_by_a_table(tmp_path):
    with http_server(contents()) as server:
        urls = [f"{server.url}/{key}" for key in contents()]
        pd.DataFrame({"id": range(ROWS), "url": urls}).to_csv(tmp_path / "t.csv", index=False)
        table = {"labels": tmp_path / "t.csv", "path_column": "url"}
        frame = dfgen.build_manifest(**table, out=tmp_path / "m.parquet")
        assert (frame["width"] == 8).all() and (frame["mtime_ns"] == 17 * 10**17).all()
        server.options = None
        assert train(frame, server) == list(range(ROWS))
        assert dfgen.verify(tmp_path / "m.parquet").empty
        rooted = dfgen.build_manifest(**table, root=server.url, out=tmp_path / "m.parquet")
        assert rooted.attrs["dfgen"]["root"] == server.url
        assert pd.read_parquet(tmp_path / "m.parquet")["path"].tolist() == list(contents())


def test_no_key_is_in_anything_that_is_written_shown_or_raised(s3, tmp_path, capfd, caplog):
    caplog.set_level(0)
    shown = []
    frame = build(s3, out=tmp_path / "m.parquet")
    dfgen.write_manifest(frame, f"{s3.url_of}/m.parquet", storage_options=s3.options)
    shown += [repr(frame.attrs), dfgen.verify(frame, storage_options=s3.options).to_csv()]
    with dfgen.Sequence(
        tmp_path / "m.parquet", X, y="kind", storage_options=s3.options, batch_size=4
    ) as sequence:
        sequence[0]
        shown += [repr(sequence), json.dumps(sequence.state_dict()), str(vars(sequence))]
        shown += [str(vars(sequence._binding)), repr(sequence._binding.reader)]
        shown += [pickle.dumps(sequence._binding.reader.store).decode("latin-1")]
        shown += [repr(copy.deepcopy(sequence._binding.reader.store))]
        (tmp_path / "p.json").write_text(sequence.preprocessing().to_json())
    calls = [
        lambda: dfgen.Sequence(frame, X, storage_options=s3.options, bach_size=3),
        lambda: dfgen.Sequence(frame, X, storage_options=[KEY, SECRET]),
        lambda: dfgen.build_manifest(s3.url_of, storage_options=s3.options, foldr=3),
        lambda: dfgen.verify(frame, storage_options=s3.options, foldr=3),
        lambda: build(s3, below="nothing"),
        lambda: train(frame.assign(path=f"{s3.url_of}/no.png"), s3),
        lambda: train(frame.assign(path="s3://nowhere/no.png"), s3),
    ]
    s3.options = s3.options | {"session_token": SECRET}
    for call in calls:
        with pytest.raises(Exception) as caught:
            call()
        shown += traceback.format_exception(caught.value)
    s3.faults.status = 403
    with pytest.raises(AccessError) as caught:
        train(frame, s3)
    s3.faults.clear()
    shown += traceback.format_exception(caught.value)
    shown += [*capfd.readouterr(), caplog.text]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    shown += [path.read_bytes().decode("latin-1") for path in written]
    shown += [s3.get(s3.bucket, "m.parquet").decode("latin-1")]
    assert len(written) > 1
    for secret in (KEY, SECRET):
        assert [text for text in shown if secret in text] == []
