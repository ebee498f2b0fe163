"""Files and packs behind HTTP and in a bucket: real servers, their faults, and secrets."""

import traceback
from functools import partial

import numpy as np
import pytest
from servers import SECRET, http_server, s3_server

import dfgen
from dfgen.errors import AccessError, DfgenError, MissingFileError
from public.leftovers import assert_same, passes, pictures, sequence, written
from public.leftovers import nothing_left as nothing_left

pytest.importorskip("obstore")
ROWS = 13
PIXELS, PNG = pictures(ROWS)
IMGS = {f"imgs/{row}.png": data for row, data in enumerate(PNG)}
TOKEN = "s3cr3t+of/tests"
S3 = pytest.mark.parametrize("running", ["s3"], indirect=True)


@pytest.fixture(scope="module", params=["http", "s3"])
def running(request):
    """A server, its URL `at`, and `options` for a Sequence."""
    with (
        http_server(dict(IMGS))
        if request.param == "http"
        else s3_server({"bucket": IMGS}) as server
    ):
        server.at = server.url if request.param == "http" else "s3://bucket"
        keys = {name: value for name, value in server.options.items() if name != "allow_http"}
        server.options = {"storage_options": keys | {"client_options": {"allow_http": True}}}
        if request.param == "http":
            server.put = lambda bucket, name, data: server.held.update({name: data})
        yield server


@pytest.fixture
def server(running):
    yield running
    running.clear()


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A manifest of files, and a pack of them in four shards."""
    top = tmp_path_factory.mktemp("remote")
    frame = written(top / "imgs", PNG)
    dfgen.pack(frame, top / "packed", shard_size=9 * 7 * 3 * 4)
    return frame, top


@pytest.fixture
def frame(server, local):
    return local[0].assign(path=[f"{server.at}/{name}" for name in IMGS])


def fail(server, **faults):
    for name, value in faults.items():
        setattr(server.faults, name, value)


def assert_whole(found):
    assert_same(found, [(PIXELS, [*range(ROWS)])] * 2, ordered=False)


@pytest.mark.parametrize("fault", [{"status": 503}, {"reset": True}, {"short": 60}])
def test_faults_of_a_server_are_retried(server, frame, fault):
    for processes in (False, True):
        fail(server, **fault, only="7.png", times=1)
        assert_whole(passes(frame, use_multiprocessing=processes, **server.options))
        assert server.faults.times < 0


def test_a_missing_object_is_a_bad_row(server, frame):
    frame.loc[6, "path"] += "x"
    with pytest.raises(MissingFileError, match="r6"):
        passes(frame, **server.options)
    options = {"shuffle": False, "batch_size": ROWS, **server.options}
    with sequence(frame, on_error="skip", **options) as seq:
        x, _, weights = seq[0]
        assert seq.problems.id.tolist() == ["r6"]
    assert np.flatnonzero(weights == 0).tolist() == [6]
    np.testing.assert_array_equal(np.delete(x, 6, 0), np.delete(PIXELS, 6, 0))


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_an_error(server, frame, status):
    fail(server, status=status)
    for on_error in ("raise", "skip"):
        with pytest.raises(AccessError, match="imgs"):
            passes(frame, on_error=on_error, **server.options)


@S3
def test_buckets_are_listed_kept_in_a_cache_and_packed(server, local, tmp_path):
    dfgen.write_manifest(local[0], tmp_path / "m.parquet")
    assert_whole(passes(tmp_path / "m.parquet", root=f"{server.at}/imgs", **server.options))
    frame = dfgen.build_manifest(f"{server.at}/imgs", pattern="{number:int}.png", **server.options)
    assert sorted(frame.path) == sorted(f"{server.at}/{name}" for name in IMGS)
    for _ in range(2):
        server.clear_counts()
        assert_whole(passes(frame, cache=tmp_path / "cache", **server.options))
    assert not [path for method, path in server.asked if method == "GET"]
    assert dfgen.pack(frame, tmp_path / "packed", **server.options).empty
    assert_whole(passes(tmp_path / "packed"))


@pytest.mark.parametrize("cache", [None, "cache"])
def test_a_pack_in_a_bucket_equals_its_folder(server, local, tmp_path, cache):
    for path in (local[1] / "packed").iterdir():
        server.put("bucket", f"packed/{path.name}", path.read_bytes())
    at, near = f"{server.at}/packed", passes(local[1] / "packed")
    for run, processes in enumerate((False, True)):
        options = {"use_multiprocessing": processes, "cache": cache and tmp_path / cache}
        server.clear_counts()
        assert_same(passes(at, **options, **server.options), near)
        asked = [path for method, path in server.asked if method == "GET" and "shard-" in path]
        assert len(asked) < 2 if run and cache else len(asked) == 4  # an opening may look at one
    assert dfgen.verify(at, **server.options).empty


def assert_hidden(secret, word, call):
    """Look at all that a user sees of an error."""
    with pytest.raises(DfgenError, match=word) as caught:
        call()
    error = caught.value
    assert secret not in "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))


@pytest.mark.parametrize("running", ["http"], indirect=True)
def test_signed_addresses_are_read_and_never_shown(server, local, tmp_path):
    frame = local[0].assign(path=[f"{server.at}/{name}?X-Amz-Signature={TOKEN}" for name in IMGS])
    assert_whole(passes(frame, **server.options))
    server.held["text/3.png"] = b"text"  # and there is no text/4.png
    for row in (3, 4):
        bad = frame.assign(path=frame.path.str.replace(f"imgs/{row}.png", f"text/{row}.png"))
        assert_hidden(TOKEN, f"r{row}", partial(passes, bad, **server.options))
        with sequence(bad, on_error="skip", batch_size=ROWS, **server.options) as seq:
            seq[0]
            assert TOKEN not in seq.problems.drop(columns="path").to_string() + repr(seq)
    assert_hidden(TOKEN, "path", lambda: dfgen.pack(frame, tmp_path / "packed", **server.options))
    at = server.at.replace("http://", f"http://me:{TOKEN}@")
    for one, root in ((f"{at}/imgs/0.png", None), ("imgs/0.png", at)):
        call = partial(passes, frame[:1].assign(path=one), root=root, **server.options)
        assert_hidden(TOKEN, "password", call)


@S3
def test_keys_in_storage_options_are_never_shown(server, frame, tmp_path, capsys):
    fail(server, status=403)
    assert_hidden(SECRET, "imgs", lambda: passes(frame, **server.options))
    assert_hidden(SECRET, "imgs", lambda: dfgen.pack(frame, tmp_path / "packed", **server.options))
    assert_hidden(
        SECRET, "imgs", lambda: dfgen.build_manifest(f"{server.at}/imgs", **server.options)
    )
    server.clear()
    with sequence(frame, **server.options) as seq:
        shown = repr(seq) + str(seq.state_dict()) + str(seq.manifest.attrs)
    dfgen.pack(frame, tmp_path / "packed", **server.options)
    files = b"".join(path.read_bytes() for path in (tmp_path / "packed").iterdir())
    assert SECRET not in shown + "".join(capsys.readouterr()) and SECRET.encode() not in files
