"""Files in a bucket and behind HTTP: real servers on a loopback port, and what goes wrong there."""

import os
import pickle
import signal
import ssl
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address

import numpy as np
import pytest
from cases import each
from contracts import StoreContract
from messages import message_of
from servers import MODIFIED, SECRET, Files, http_server, s3_server

pytest.importorskip("obstore")


from dfgen.errors import (
    AccessError,
    ArgumentError,
    DecodeError,
    MissingFileError,
    ReadError,
    RefusedError,
)
from dfgen.samples.stores.known_files import KnownFiles
from dfgen.samples.stores.remote.object_errors import error_of_object, looked_for
from dfgen.samples.stores.remote.objects import Objects
from dfgen.samples.stores.remote.ranges import fetch
from dfgen.samples.stores.remote.store_options import StorageOptions, travelling

ONCE = {"max_retries": 0}


@pytest.fixture(scope="module")
def s3():
    with s3_server({"bucket": {"taken/a.jpg": b"0123456789"}}) as server:
        yield server


@pytest.fixture(scope="module")
def http():
    with http_server({}) as server:
        yield server


@pytest.fixture(autouse=True)
def healed(request):
    yield
    for name in {"s3", "http"} & {*request.fixturenames}:
        request.getfixturevalue(name).clear()


def objects(server, **more):
    return Objects(options=StorageOptions({**server.options, **more}))


class FarContract(StoreContract):
    def test_survives_pickle(self, tmp_path):
        with travelling():
            super().test_survives_pickle(tmp_path)

    def test_a_range_is_one_request_and_ends_where_the_file_does(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": bytes(range(100))})
        self.server.ranges.clear()
        assert store.range(paths["a"], 10, 20) == bytes(range(10, 20))
        assert store.range(paths["a"], 90, 200) == bytes(range(90, 100))
        assert [asked[0] for asked in self.server.ranges] == ["GET", "GET"]

    def test_one_request_tells_head_and_begin(self, tmp_path):
        store, paths = self.make(
            tmp_path, {"a": bytes(range(256)) * 1000, "b": b"12", "empty": b""}
        )
        self.server.ranges.clear()
        looked = store.look(paths["a"])
        with looked.open(paths["a"]) as file:
            assert file.read(300) == (bytes(range(256)) * 2)[:300]
            assert (file.seek(32_000), file.read(2)) == (32_000, b"\0\1")
            assert (looked.head(paths["a"]).size, len(self.server.ranges)) == (256_000, 1)
            assert (file.seek(-3, 2), file.read()) == (255_997, b"\xfd\xfe\xff")
            assert len(self.server.ranges) == 2
        assert store.look(paths["b"]).open("").read() == b"12"
        assert store.look(paths["empty"]).head("").size == 0

    def test_a_changed_file_is_refused_by_its_own_answer(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"12345"})
        self.server.ranges.clear()
        told = []
        assert store.read_as(paths["a"], lambda *known: told.append(known)) == b"12345"
        head = store.head(paths["a"])
        assert told == [(head.size, head.mtime_ns)]
        assert [asked[0] for asked in self.server.ranges] == ["GET", "HEAD"]


class TestS3(FarContract):
    @pytest.fixture(autouse=True)
    def of(self, s3):
        self.server = s3

    def make(self, folder, contents):
        for name, data in contents.items():
            self.server.put("bucket", f"{folder.name}/{name}", data)
        paths = {name: f"s3://bucket/{folder.name}/{name}" for name in contents}
        return objects(self.server), paths

    def missing(self, folder):
        return "s3://bucket/missing"

    def test_lists_what_is_below_a_folder_with_size_and_time(self, tmp_path):
        contents = {"a.jpg": b"1", "b/c d.jpg": b"12", "b/\u00e4.jpg": b"123"}
        store, paths = self.make(tmp_path, contents)
        self.server.put("bucket", f"{tmp_path.name}-not/a.jpg", b"1")
        for slash in ("", "/"):
            found = dict(store.list(f"s3://bucket/{tmp_path.name}{slash}"))
            assert {path: head.size for path, head in found.items()} == {
                path: len(contents[name]) for name, path in paths.items()
            }
        assert found == {path: store.head(path) for path in found}

    def test_what_is_written_is_read(self, tmp_path):
        store, _ = self.make(tmp_path, {})
        store.write(f"s3://bucket/{tmp_path.name}/new", b"abc")
        store.write(f"s3://bucket/{tmp_path.name}/new", b"defg")
        assert store.read(f"s3://bucket/{tmp_path.name}/new") == b"defg"


class TestHttp(FarContract):
    @pytest.fixture(autouse=True)
    def of(self, http):
        self.server = http

    def make(self, folder, contents):
        self.server.held.update({f"{folder.name}/{name}": data for name, data in contents.items()})
        url = f"{self.server.url}/{folder.name}"
        paths = {name: f"{url}/{name.replace(' ', '%20')}" for name in contents}
        return Objects(), paths

    def missing(self, folder):
        return f"{self.server.url}/missing"

    def test_a_query_is_part_of_the_address(self, tmp_path):
        store, paths = self.make(tmp_path, {"a b": b"123"})
        assert store.read(f"{paths['a b']}?token=1") == b"123"
        assert self.server.ranges[-1][1] == f"/{tmp_path.name}/a b"

    @pytest.mark.slow
    @pytest.mark.skipif(
        not os.path.isdir("/proc/self/fd"), reason="counts files as Linux lists them"
    )
    def test_addresses_with_queries_do_not_keep_a_connection_each(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"123"})
        before = len(os.listdir("/proc/self/fd"))
        for number in range(200):
            store.read(f"{paths['a']}?token={number}")
        assert len(os.listdir("/proc/self/fd")) - before < 200  # of 400: both ends are here

    def test_cannot_be_listed(self):
        with pytest.raises(ArgumentError) as error:
            [*Objects().list("https://example.com/imgs")]
        assert str(error.value) == (
            "https://example.com/imgs: HTTP has no listing of files. Give a table of their "
            "addresses, labels= with path_column= (--labels TABLE --path-column COLUMN)"
        )


def test_times_of_http_are_those_of_its_header(http):
    http.held["a"] = b"1"
    assert Objects().head(f"{http.url}/a").mtime_ns == MODIFIED * 10**9


FAULTS = {
    "503 for ever": ({"status": 503}, "the server answers 503 Service Unavailable"),
    "too many requests": ({"status": 429}, "the server answers 429 Too Many Requests"),
    "reset": ({"reset": True}, "the server cannot be reached, or closes connections"),
    "hang": ({"hang": True}, "the server stopped answering"),
}


AS_SENT = (
    ". Have it send files as they lie on its disk, neither compressed nor in chunks, or copy them "
    "from it (curl --compressed)"
)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("chunked", "its server does not say how long the file is (no Content-Length)"),
        ("gzip", "its server sends it compressed (Content-Encoding: gzip)"),
    ],
)
def test_a_server_that_sends_files_otherwise_is_refused_at_once(http, form, message):
    http.held["a"], http.faults.form = b"0123456789", form
    for ask in (Objects().read, Objects().look):
        http.clear_counts()
        with pytest.raises(DecodeError) as error:
            ask(f"{http.url}/a")
        assert str(error.value) == f"the file cannot be read: {message}{AS_SENT}"
        assert http.asked["GET", "/a"] <= 2


ALONE = (
    "the permission or the file is missing, and stores that may not be listed answer the same to "
    "both"
)


def test_an_object_that_alone_is_refused_is_the_fault_of_its_row(s3):
    s3.put("bucket", "taken/b.jpg", b"1")
    s3.faults.status, s3.faults.only = 403, "b.jpg"
    store = objects(s3)
    assert message_of(AccessError, store.read, "s3://bucket/taken/b.jpg").endswith(
        f'. If these are right, {ALONE}. If other files can be read, on_error="skip" skips such a '
        "row"
    )
    assert store.read("s3://bucket/taken/a.jpg") == b"0123456789"
    for ask in (store.read, store.head, store.look):
        assert message_of(DecodeError, ask, "s3://bucket/taken/b.jpg") == (
            "the file cannot be read: s3://bucket refuses it (403 Forbidden), while others could "
            f"be read: {ALONE}"
        )
    with pytest.raises(AccessError):
        store.read("s3://other/b.jpg")
    s3.faults.status = 401  # keys that hold no longer are the fault of no row
    with pytest.raises(AccessError):
        store.read("s3://bucket/taken/b.jpg")


def test_an_address_with_a_query_that_is_refused_later_is_not_the_fault_of_its_row(http):
    http.held["a"], store = b"1", Objects()
    assert store.read(f"{http.url}/a?sig=1") == b"1"
    http.faults.status = 403
    with pytest.raises(AccessError, match="refuses it"):
        store.read(f"{http.url}/a?sig=1")


@pytest.fixture(params=["http", "s3"])
def served(request):
    """A server and the address of a file of ten bytes on it."""
    server = request.getfixturevalue(request.param)
    if request.param == "s3":
        return server, "s3://bucket/taken/a.jpg", "/bucket/taken/a.jpg"
    server.held["a.jpg"] = b"0123456789"
    return server, f"{server.url}/a.jpg", "/a.jpg"


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_35_a_server_at_fault_is_not_the_fault_of_the_file(served, fault):
    server, address, path = served
    change, message = FAULTS[fault]
    vars(server.faults).update(change)
    patience = "100ms" if fault == "hang" else "30s"
    store = objects(server, read_timeout=patience, retry_config={"max_retries": 1})
    for ask in (store.read, store.head):
        with pytest.raises(ReadError) as error:
            ask(address)
        assert str(error.value) == f"the file cannot be read: {message} after 2 tries"
    assert server.asked["GET", path] == 2


def test_fault_35_a_body_that_ends_early_is_read_on_or_told(served):
    server, address, _ = served
    server.faults.short, server.faults.times = 4, 1
    assert objects(server).read(address) == b"0123456789"
    server.faults.short, server.faults.times = 4, None
    with pytest.raises(ReadError) as error:
        objects(server, retry_config={"max_retries": 1}).read(address)
    assert str(error.value) == (
        "the file cannot be read: the connection was closed before the whole file had come"
    )


def test_fault_69_a_store_that_calls_half_a_file_whole_is_told_by_the_manifest(http):
    """Lengths that lie and end early are read on, see above; of one that fits nothing tells."""
    known = KnownFiles(np.array([10]), None).of(0, Objects())
    http.held["a.jpg"] = b"0123456789"
    assert known.read(f"{http.url}/a.jpg") == b"0123456789"
    http.held["a.jpg"] = b"01234"
    with pytest.raises(DecodeError, match="it was 10 bytes, and is 5 bytes"):
        known.read(f"{http.url}/a.jpg")


def test_fault_70_a_file_that_is_replaced_in_mid_read_is_never_joined_of_two(served, monkeypatch):
    """The bytes that have come are of the one, and the rest would be of the other."""
    server, address, path = served
    answer = server.RequestHandlerClass.answer

    def replacing(handler):
        answer(handler)
        if handler.command == "GET":
            server.RequestHandlerClass.answer = answer
            put(b"9876543210")

    put = partial(server.held.__setitem__, path[1:])
    if not path.startswith("/a"):
        put = partial(server.put, "bucket", "taken/a.jpg")
    monkeypatch.setattr(server.RequestHandlerClass, "answer", replacing)
    server.faults.short, server.faults.times = 4, 1
    store = objects(server, retry_config={"max_retries": 1})
    assert message_of(ReadError, store.read, address) == (
        "the file cannot be read: the connection was closed before the whole file had come"
    )
    assert store.read(address) == b"9876543210"  # as the worker does, who tries again
    put(b"0123456789")


@pytest.mark.parametrize("fault", [{"status": 503}, {"status": 429}, {"reset": True}], ids=str)
def test_fault_71_a_storm_that_passes_costs_no_file(served, fault):
    server, address, path = served
    for times in (1, 3):
        vars(server.faults).update({"times": times, **fault})
        assert objects(server).read(address) == b"0123456789"
    assert server.asked["GET", path] == 1 + 3 + 2


def test_the_clock_and_the_proxy_of_the_environment_are_obeyed(s3, monkeypatch):
    address = "s3://bucket/taken/a.jpg"
    monkeypatch.setenv("AWS_TIMEOUT", "1ns")
    with pytest.raises(ReadError, match="the server stopped answering"):
        objects(s3, retry_config=ONCE).read(address)
    assert objects(s3, timeout="9s").read(address) == b"0123456789"  # the user's own word counts
    monkeypatch.delenv("AWS_TIMEOUT")
    with http_server({}) as proxy:
        monkeypatch.setenv("AWS_PROXY_URL", proxy.url)
        with pytest.raises((ReadError, MissingFileError)):
            objects(s3, retry_config=ONCE).read(address)
        assert proxy.asked.total()


def test_client_options_of_the_user_override_others(s3):
    address, hurried = "s3://bucket/taken/a.jpg", {"client_options": {"timeout": "1ns"}}
    with pytest.raises(ReadError, match="the server stopped answering"):
        objects(s3, timeout="9s", retry_config=ONCE, **hurried).read(address)
    assert objects(s3, client_options={"user_agent": "a"}).read(address) == b"0123456789"


def test_options_are_equal_by_their_values():
    one = StorageOptions({"region": "a", "key": "b"})
    assert one == StorageOptions({"key": "b", "region": "a"}) != StorageOptions({"region": "a"})
    assert one != {"region": "a", "key": "b"} and StorageOptions() == StorageOptions(None)
    assert hash(one) == hash(StorageOptions({"key": "b", "region": "a"}))
    assert [repr(one), repr(StorageOptions())] == ["StorageOptions(...)", "StorageOptions()"]


NOT_READ = "the file cannot be read: "
ELSEWHERE = 'the bucket is elsewhere: give its region as storage_options={"region": ...}'
UNENCRYPTED = (
    'http:// is not encrypted: if you want that, give storage_options={"allow_http": True}'
)
NO_PATH = (
    "its address has an empty part, . or .. for one, or a control character, which no store takes"
)


@each(
    "kind, text, raised, said",
    [
        ("PermissionDeniedError", "", AccessError, "gs://b refuses it (PermissionDeniedError). "
         "Credentials come from storage_options= (service_account), "),
        ("UnauthenticatedError", "", AccessError, "gs://b refuses it (UnauthenticatedError). "),
        ("GenericError", "status code: 401 Unauthorized", AccessError,
         "gs://b refuses it (401 Unauthorized). "),
        ("GenericError", "status code: 403", RefusedError, "gs://b refuses it (403). "),
        ("GenericError", "status code: 404 Not Found <Code>ContainerNotFound</Code>", AccessError,
         "there is no bucket 'b' (404 Not Found, ContainerNotFound)"),
        ("GenericError", "error: Missing credentials", AccessError,
         "no credentials for gs://b were found. Looked for in storage_options= (service_account)"),
        ("InvalidPathError", "", DecodeError, NO_PATH),
        ("ValueError", "", DecodeError, NO_PATH),
        *(("GenericError", f"status code: {code} Moved", ReadError, ELSEWHERE)
          for code in (301, 307, 308)),
        ("GenericError", "Received redirect without LOCATION", ReadError, ELSEWHERE),
        ("GenericError", "BadScheme", ReadError, UNENCRYPTED),
        ("GenericError", "builder error", ReadError, UNENCRYPTED),
        ("GenericError", "status code: 302 Found, BadScheme after 0 retries", ReadError,
         "the server answers 302 Found after 1 tries"),
        ("GenericError", "Timeout after 5 retries", ReadError,
         "the server stopped answering after 6 tries"),
        ("GenericError", "TimedOut", ReadError, "the server stopped answering"),
        ("GenericError", "body error", ReadError,
         "the connection was closed before the whole file had come"),
        ("GenericError", "IncompleteBody", ReadError,
         "the connection was closed before the whole file had come"),
        ("GenericError", "dns error after 10 retries", ReadError,
         "the name of its server is not known after 11 tries"),
        ("GenericError", "error sending request", ReadError,
         "the server cannot be reached, or closes connections"),
        ("GenericError", "EOF after 1 retries", ReadError,
         "the server's answer makes no sense after 2 tries"),
    ],
)  # fmt: skip
def test_what_a_client_raises_is_told_in_words(kind, text, raised, said):
    found = error_of_object(type(kind, (Exception,), {})(text), "gs", "b")
    assert type(found) is raised
    assert str(found).startswith(NOT_READ + said)
    assert raised is not ReadError or str(found) == NOT_READ + said


def test_credentials_are_looked_for_by_scheme():
    for schemes, place in (
        (("s3", "s3a"), "AWS_ACCESS_KEY_ID"),
        (("gs", "gcs"), "GOOGLE_APPLICATION_CREDENTIALS"),
        (("az", "abfs", "abfss"), "AZURE_STORAGE_ACCOUNT_NAME"),
        (("http", "https"), '"default_headers"'),
    ):
        for scheme in schemes:
            assert place in looked_for(scheme)


def test_a_bucket_that_is_not_there_is_named(s3):
    assert message_of(AccessError, objects(s3).read, "s3://nowhere/a.jpg") == (
        "the file cannot be read: there is no bucket 'nowhere' (404 Not Found, NoSuchBucket)"
    )


def test_refused_credentials_are_told_by_where_they_come_from_and_never_shown(s3):
    s3.faults.status = 403
    with pytest.raises(AccessError) as error:
        objects(s3).read("s3://bucket/taken/a.jpg")
    assert str(error.value).startswith(
        "the file cannot be read: s3://bucket refuses it (403 Forbidden). Credentials come from "
        "storage_options= (access_key_id, secret_access_key), the environment (AWS_ACCESS_KEY_ID, "
    )
    assert SECRET not in repr(error.value)
    assert error.value.__cause__ is None


def test_missing_credentials_are_told_by_where_they_were_looked_for(s3, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    s3.faults.status = 404
    options = {"endpoint": s3.url, "metadata_endpoint": s3.url, "retry_config": ONCE}
    with pytest.raises(AccessError) as error:
        Objects(options=StorageOptions(options)).read("s3://bucket/taken/a.jpg")
    assert str(error.value).startswith(
        "the file cannot be read: no credentials for s3://bucket were found. Looked for in "
        "storage_options= (access_key_id, secret_access_key), the environment (AWS_ACCESS_KEY_ID, "
    )


@pytest.mark.parametrize("address", ["gs://b/a", "az://b/a", "http://b/a"])
def test_options_of_other_stores_are_looked_up_on_their_own_page(address):
    page = {"g": "gcs", "a": "azure", "h": "http"}[address[0]]
    with pytest.raises(ArgumentError) as error:
        Objects(options=StorageOptions({"secret": SECRET})).read(address)
    assert str(error.value).endswith(
        f"of that scheme, https://developmentseed.org/obstore/latest/api/store/{page}/"
    )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"secret": SECRET}, "'secret' is none of its options. Given: secret. "),
        ({"timeout": SECRET}, "a value is invalid. Given: timeout. "),
    ],
)
def test_options_that_cannot_be_are_told_by_name(s3, options, fault):
    with pytest.raises(ArgumentError) as error:
        Objects(options=StorageOptions(options)).read("s3://bucket/a")
    assert str(error.value) == (
        f"storage_options cannot open s3://: {fault}They are those of obstore's store of that "
        "scheme, https://developmentseed.org/obstore/latest/api/store/aws/"
    )


def test_options_are_a_dict():
    assert message_of(ArgumentError, StorageOptions, "key=secret") == (
        "storage_options is of type str, expected a dict of what opens the store, as "
        '{"region": "eu-central-1"}'
    )


@pytest.mark.parametrize("key", ["a//b.jpg", "../a.jpg", "a\tb.jpg"])
def test_a_key_that_no_store_takes_is_the_fault_of_the_row(s3, key):
    assert message_of(DecodeError, objects(s3).read, f"s3://bucket/{key}") == (
        "the file cannot be read: its address has an empty part, . or .. for one, or a control "
        "character, which no store takes"
    )


def test_a_key_that_no_store_takes_is_named_by_a_listing(s3):
    for key in ("odd/cat/a.jpg", "odd//b.jpg"):
        s3.put("bucket", key, b"1")
    with pytest.raises(DecodeError) as error:
        [*objects(s3).list("s3://bucket/odd")]
    assert str(error.value) == (
        "the object 'odd//b.jpg' has an empty part in its key, . or .. for one, or a control "
        "character, which no store takes: rename it, or give a table of the others, labels= with "
        "path_column="
    )


class GetAlone(Files):
    """Refuses HEAD, as who signed an address for GET, and sends one address to itself."""

    def do_HEAD(self):
        self.send_response(self.server.refusal)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        if self.path != "/circle":
            return self.answer()
        self.send_response(302)
        self.send_header("Location", self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.parametrize("refusal", [403, 405, 501])
def test_where_head_is_refused_size_and_time_come_from_get(refusal):
    with http_server({"a.jpg": b"0123"}) as server:
        server.RequestHandlerClass, server.refusal = GetAlone, refusal
        store = Objects(options=StorageOptions({"retry_config": ONCE}))
        head = store.head(f"{server.url}/a.jpg")
        assert (head.size, head.mtime_ns) == (4, MODIFIED * 10**9)
        with pytest.raises(MissingFileError):
            store.head(f"{server.url}/b.jpg")
        with pytest.raises(ReadError) as error:
            store.read(f"{server.url}/circle")
    assert str(error.value) == (
        "the file cannot be read: the server sends to other addresses in a circle, or more than "
        "10 times"
    )


class WithoutRanges(Files):
    """Sends all of a file, whatever is asked for."""

    def answer(self):
        del self.headers["Range"]
        super().answer()


@pytest.mark.parametrize("extent", [(0, 4), (3, 7), (8, 20)])
def test_of_a_server_without_ranges_a_range_is_cut_out_of_the_whole_file(extent):
    with http_server({"a.jpg": b"0123456789"}) as server:
        server.RequestHandlerClass = WithoutRanges
        assert Objects().range(f"{server.url}/a.jpg", *extent) == b"0123456789"[slice(*extent)]


def test_a_part_that_comes_short_is_no_part(http):
    http.held["a"] = b"0123456789"
    into = np.zeros(12, np.uint8)
    assert message_of(ReadError, fetch, Objects(), f"{http.url}/a", [(4, 12)], into) == (
        "the file cannot be read: 6 bytes have come from 4 on, and 8 were asked for"
    )
    assert not into.any()


@pytest.mark.parametrize("server", ["", f"user:{SECRET}@127.0.0.1:8000", "127.0.0.1:99999"])
def test_an_address_of_no_server_is_told(server):
    for options in (None, {"retry_config": ONCE}):
        with pytest.raises(DecodeError) as error:
            Objects(options=StorageOptions(options)).read(f"http://{server}/a.jpg")
        assert str(error.value) == (
            "the file cannot be read: its address names no server: expected http://HOST/NAME or "
            "http://HOST:PORT/NAME"
        )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_from_one_that_has_read_is_refused_and_does_not_hang(s3):
    store = objects(s3)
    store.read("s3://bucket/taken/a.jpg")
    child = os.fork()
    if not child:
        signal.alarm(30)
        for asked in (store, objects(s3)):
            try:
                asked.read("s3://bucket/taken/a.jpg")
            except AccessError as error:
                told = str(error)
        os._exit(0 if told.startswith("the file cannot be read: this process was forked") else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.read("s3://bucket/taken/a.jpg") == b"0123456789"


def test_a_server_without_encryption_or_name_is_told(http):
    store = Objects(options=StorageOptions({"retry_config": ONCE}))
    assert message_of(AccessError, store.read, f"{http.url.replace('http:', 'https:')}/a.jpg") == (
        "the file cannot be read: the server answers https:// without encryption: its address or "
        "its endpoint begins with http://, or has another port"
    )
    with pytest.raises(ReadError) as error:
        store.read("http://nowhere.invalid/a.jpg")
    assert str(error.value) == "the file cannot be read: the name of its server is not known"


def self_signed(folder):
    """Return a certificate of 127.0.0.1 that nobody else has signed, and its key, as PEM."""
    pytest.importorskip("cryptography", reason="comes with the client libraries, for moto")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    server = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = made.add_extension(server, critical=False).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


def test_a_certificate_that_is_not_trusted_is_told_and_may_be_given(tmp_path):
    cert, key = self_signed(tmp_path)
    with http_server({"a.jpg": b"123"}) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        address = server.url.replace("http:", "https:")
        with pytest.raises(AccessError) as error:
            Objects(options=StorageOptions({"retry_config": ONCE})).read(f"{address}/a.jpg")
        assert str(error.value) == (
            f"the file cannot be read: the certificate of {address} is not trusted "
            "(UnknownIssuer). Give the one that it is signed by as storage_options="
            '{"root_certificate": Path("ca.pem").read_bytes()}, or, where nobody can listen, '
            '{"allow_invalid_certificates": True}'
        )
        for option in (
            {"root_certificate": cert.read_bytes()},
            {"allow_invalid_certificates": True},
        ):
            assert Objects(options=StorageOptions(option)).read(f"{address}/a.jpg") == b"123"


def test_options_are_in_no_repr_and_no_pickle_but_that_for_workers(s3):
    store = objects(s3)
    store.read("s3://bucket/taken/a.jpg")
    assert SECRET not in repr(store) + repr(store.options)
    kept = pickle.dumps(store)
    assert SECRET.encode() not in kept
    assert message_of(AccessError, pickle.loads(kept).read, "s3://bucket/taken/a.jpg") == (
        "the file cannot be read: a pickle holds no storage_options, so no key is written to a "
        "disk: give them again, or let the store find them, as in the environment of the process"
    )
    with travelling():
        sent = pickle.dumps(store)
    assert pickle.loads(sent).read("s3://bucket/taken/a.jpg") == b"0123456789"
