"""Servers on a loopback port: Python's own HTTP server with ranges, and moto's S3; with faults.

    with http_server({"a.jpg": data}) as server:      # server.url + "/a.jpg"
        server.faults.status = 503                    # from now on; `server.faults.clear()` ends it
    with s3_server({"bucket": {"a.jpg": data}}) as server:
        dfgen.Sequence("...", storage_options=server.options)

As a process of its own, with as many files of a folder as it holds, until its input ends:
`python tests/servers.py http FOLDER` or `... s3 FOLDER` prints its URL; files are then in the
bucket `bucket`. `SECONDS` as a third argument is the delay of each answer.
"""

import gzip
import io
import os
import socket
import struct
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

KEY, SECRET = "AKIAOFTHETESTS", "very/secret+of=the+tests"
MODIFIED = 1_700_000_000  # seconds; HTTP has no finer times


@dataclass
class Faults:
    """What a server does wrong; all may be changed while it runs.

    Args:
        delay: seconds before each answer.
        status: of each answer, instead of what it would be.
        reset: whether connections are reset instead of answered.
        short: bytes of a body after which the connection is closed; None: all.
        form: "chunked": bodies come without Content-Length and ranges; "gzip": compressed.
        hang: whether no answer comes, until the server ends or `clear`.
        only: part of the paths that are meant; "": all.
        times: how often from now on; None: for ever.
    """

    delay: float = 0
    status: int | None = None
    reset: bool = False
    short: int | None = None
    form: str = ""
    hang: bool = False
    only: str = ""
    times: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _released: threading.Event = field(default_factory=threading.Event, repr=False)

    def clear(self):
        """Let all answers be right again, and end those that hang."""
        for each in fields(self):
            if not each.name.startswith("_"):
                setattr(self, each.name, each.default)
        self._released.set()
        self._released = threading.Event()

    def strike(self, path):
        """Return whether an answer is to be wrong; it counts down `times`."""
        if self.only not in unquote(path):
            return False
        with self._lock:
            if self.times is not None:
                self.times -= 1
                return self.times >= 0
        return True


class Short:
    """A file that takes so many bytes of a body, after the header, and drops the rest."""

    def __init__(self, file, left):
        self.file, self.left, self.in_body, self.seen = file, left, False, b""

    def write(self, data):
        if not self.in_body:
            self.seen += data
            header, end, body = self.seen.partition(b"\r\n\r\n")
            if not end:
                return len(data)
            self.in_body = True
            self.file.write(header + end)
            self.write(body)
        else:
            self.file.write(data[: self.left])
            self.left -= min(self.left, len(data))
        return len(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


class Faulty(BaseHTTPRequestHandler):
    """A handler that has the faults of its server, and counts what it is asked for."""

    protocol_version = "HTTP/1.1"
    form = ""
    wbufsize = -1  # a header and its body leave together
    disable_nagle_algorithm = True

    def answer(self):
        raise NotImplementedError

    def faulty(self):
        """Answer, or do what is wrong."""
        faults, asked = self.server.faults, (self.command, unquote(urlsplit(self.path).path))
        with faults._lock:
            self.server.asked[asked] += 1
            self.server.ranges.append((*asked, self.headers.get("Range")))
        if faults == Faults() or not faults.strike(self.path):
            return self.answer()
        if faults.delay:
            time.sleep(faults.delay)
        if faults.hang:
            faults._released.wait()
            self.close_connection = True
        elif faults.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        elif faults.status:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(faults.status)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif faults.short is not None:
            self.wfile = Short(self.wfile, faults.short)
            self.answer()
            self.close_connection = True
        else:
            self.form = faults.form
            self.answer()

    def log_message(self, *arguments):
        pass

    def log_request(self, *arguments):
        pass


class Files(Faulty):
    """Answers with the contents of its server."""

    def answer(self):
        data = self.server.held.get(unquote(urlsplit(self.path).path).lstrip("/"))
        if data is None:
            self.send_response(HTTPStatus.NOT_FOUND)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if self.form == "gzip":
            data = gzip.compress(data)
        asked, whole = self.headers.get("Range") if not self.form else None, len(data)
        start, stop = 0, whole
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, whole - int(last))
            stop = min(whole, int(last) + 1) if first and last else whole
            if start >= whole:
                self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
                self.send_header("Content-Range", f"bytes */{whole}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
        self.send_response(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{whole}")
        if self.form == "gzip":
            self.send_header("Content-Encoding", "gzip")
        if self.form == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(stop - start))
        self.send_header("Last-Modified", formatdate(MODIFIED, usegmt=True))
        self.send_header("ETag", f'"{hash(data):x}"')
        self.end_headers()
        if self.command == "GET" and self.form == "chunked":
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))
        elif self.command == "GET":
            self.wfile.write(data[start:stop])

    do_GET = do_HEAD = Faulty.faulty


class Server(ThreadingHTTPServer):
    """An HTTP server: `url`, `faults`, `asked` (how often of each method and path), `ranges`.

    Args:
        held: contents by path, without the first slash; may be changed.
        handler: makes answers.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, held, handler=Files):
        super().__init__(("127.0.0.1", 0), handler)
        self.held, self.faults = held, Faults()
        self.asked, self.ranges, self.options = Counter(), [], {}
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def clear(self):
        """Forget what was asked for, and all faults."""
        self.faults.clear()
        self.clear_counts()

    def clear_counts(self):
        """Forget what was asked for."""
        self.asked.clear()
        self.ranges.clear()

    def fetched(self):
        """Return the extents of shards that were asked for."""
        asked = [one for method, path, one in self.ranges if "shard-" in path and method == "GET"]
        extents = [one.removeprefix("bytes=").split("-") for one in asked]
        return [(int(first), int(last) + 1) for first, last in extents]

    def handle_error(self, request, address):
        pass  # connections that clients close, or that were reset


@contextmanager
def http_server(held):
    """A server of contents by path, with ranges; it runs in threads of this process."""
    with _running(Server(held)) as server:
        yield server


class Wsgi(Faulty):
    """Answers with what a WSGI application does, each time as a whole."""

    def answer(self):
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        environ = {
            "REQUEST_METHOD": self.command,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote(url.path, "latin-1"),
            "RAW_URI": self.path,
            "QUERY_STRING": url.query,
            "CONTENT_TYPE": self.headers.get("Content-Type") or "",
            "CONTENT_LENGTH": str(len(body)),
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": str(self.server.server_address[1]),
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for name, value in self.headers.items():
            environ["HTTP_" + name.upper().replace("-", "_")] = value
        parts = self.server.app(environ, self.begin)
        data = b"".join(parts)
        if self.command != "HEAD" and "content-length" not in self.sent:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def begin(self, status, headers, error=None):
        self.send_response(int(status.split()[0]))
        self.sent = {name.lower() for name, _ in headers}
        for name, value in headers:
            self.send_header(name, value)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = Faulty.faulty


@contextmanager
def s3_server(buckets):
    """moto's S3, with its buckets: name -> contents by key; it runs in threads of this process.

    `server.options` is the `storage_options=` for it; `server.make(bucket)`,
    `put(bucket, key, data)`, `get(bucket, key)` and `delete(bucket, key)` do what they say.
    Contents are gone when it ends.
    """
    pytest.importorskip("moto.moto_server.werkzeug_app")  # `make test-clients` has it: 31 MB
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import s3_backends

    server = Server({}, Wsgi)
    server.app = DomainDispatcherApplication(create_backend_app)
    server.options = {
        "endpoint": server.url,
        "access_key_id": KEY,
        "secret_access_key": SECRET,
        "region": "us-east-1",
        "client_options": {"allow_http": True},
    }
    server.put = lambda bucket, key, data: _ask(server, "PUT", f"/{bucket}/{key}", data)
    server.delete = lambda bucket, key: _ask(server, "DELETE", f"/{bucket}/{key}")
    server.get = lambda bucket, key: _ask(server, "GET", f"/{bucket}/{key}")
    server.make = lambda bucket: _ask(server, "PUT", f"/{bucket}")
    with _running(server):
        try:
            for name, contents in buckets.items():
                server.make(name)
                for key, data in contents.items():
                    server.put(name, key, data)
            server.clear()
            yield server
        finally:
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].reset()


def _ask(server, method, path, data=b""):
    """Ask a server as any client may; moto looks at no signature."""
    from http.client import HTTPConnection
    from urllib.parse import quote

    connection = HTTPConnection("127.0.0.1", server.server_address[1])
    region = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request"
    }
    connection.request(method, quote(path), data, region)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    if answer.status >= 300:
        raise OSError(f"{method} {path}: {answer.status}")
    return data


@contextmanager
def _running(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.faults.clear()
        server.shutdown()
        thread.join()
        server.server_close()


def main(kind, folder, delay="0"):
    """Serve the files of a folder until standard input ends."""
    held = {}
    for above, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(above, name)
            with open(path, "rb") as file:
                held[os.path.relpath(path, folder)] = file.read()
    with http_server(held) if kind == "http" else s3_server({"bucket": held}) as server:
        server.faults.delay = float(delay)
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
