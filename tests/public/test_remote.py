"""Files and packs behind HTTP and in a bucket: real servers, their faults, and secrets."""

import numpy as np
import pytest
from servers import http_server, s3_server

import dfgen
from dfgen.errors import AccessError, MissingFileError, ReadError
from public.leftovers import assert_same, passes, pictures, sequence, written
from public.leftovers import nothing_left as nothing_left

pytest.importorskip("obstore")
ROWS = 13
PIXELS, PNG = pictures(ROWS)
IMGS = {f"imgs/{row}.png": data for row, data in enumerate(PNG)}


ALLOWED = {"client_options": {"allow_http": True}}


@pytest.fixture(scope="module", params=["http", "s3"])
def running(request):
    """A server, its URL `at`, and `options` for a Sequence."""
    with (
        http_server(dict(IMGS))
        if request.param == "http"
        else s3_server({"bucket": IMGS}) as server
    ):
        server.at = server.url if request.param == "http" else "s3://bucket"
        server.options = {"storage_options": server.options or ALLOWED}
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


def test_reads_that_failed_after_retries_are_not_repeated(server, frame):
    fail(server, status=503, only="7.png")
    options = {**server.options["storage_options"], "retry_config": {"max_retries": 0}}
    with pytest.raises(ReadError, match=r"7\.png"):
        passes(frame, storage_options=options, max_queue_size=1)
    assert sum(count for (_, path), count in server.asked.items() if path.endswith("/7.png")) <= 2


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
