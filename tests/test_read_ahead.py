"""Far files are read ahead of decoding: the same batches, within bounds, whatever a server does."""

import http.client
import os
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dfgen.binding.bind import Options, bind
from dfgen.errors import MissingFileError
from dfgen.limits import Limits
from dfgen.loading.loader import Loader
from dfgen.samples.storage.store import Head, Store
from dfgen.samples.storage.stores import STORES

NONE = Limits(read_ahead=0)
_LOCAL = threading.local()


@dataclass(frozen=True)
class Far(Store):
    """Files behind HTTP: `far://host:port/path`."""

    @property
    def far(self):
        return True

    def read(self, path):
        return self.answer("GET", path)[0]

    def head(self, path):
        return Head(self.answer("HEAD", path)[1], None)

    def answer(self, method, path):
        host, _, name = path.removeprefix("far://").partition("/")
        connection = http.client.HTTPConnection(host, timeout=10)
        try:
            connection.request(method, f"/{name}")
            answer = connection.getresponse()
            if answer.status == 404:
                raise MissingFileError("the file does not exist")
            if answer.status >= 500:
                raise ConnectionError(f"the server answers {answer.status}")
            return answer.read(), int(answer.headers["Content-Length"])
        finally:
            connection.close()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        with server.lock:
            server.asked[self.path] += 1
            server.now += 1
            server.most = max(server.most, server.now)
        status = server.status(self.path)
        path = server.folder + self.path
        data = Path(path).read_bytes() if os.path.exists(path) else b""
        with server.lock:
            server.now -= 1
        self.send_response(status if status or data else 404)
        self.send_header("Content-Length", len(data))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, *arguments):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


@contextmanager
def serving(folder, status=lambda path: 200):
    server = Server(("127.0.0.1", 0), Handler)
    server.folder, server.status = str(folder), status
    server.lock, server.asked, server.now, server.most = threading.Lock(), Counter(), 0, 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def far(monkeypatch):
    monkeypatch.setitem(STORES, "far", Far)


def frame(server, files, rows=60):
    host = f"far://127.0.0.1:{server.server_address[1]}"
    paths = [f"{host}/{os.path.basename(path)}" for path in files[:rows]]
    return pd.DataFrame({"id": range(rows), "path": paths, "label": np.arange(rows) % 2})


def loader(frame, limits=None, **arguments):
    bound = bind(frame, y="label", options=Options(image_size=(4, 4)), limits=limits)
    return Loader(bound.reader, batch_size=8, seed=3, limits=limits, **arguments)


def seen(found):
    """The ids and arrays of an epoch."""
    return [
        (batch.ids, {name: array.tolist() for name, array in batch.arrays.items()})
        for batch in found.batches()
    ]


@pytest.mark.parametrize(
    "arguments",
    [{"workers": 2}, {"workers": 0}, {"workers": 2, "use_multiprocessing": True}],
    ids=str,
)
def test_batches_are_the_same_with_and_without(files, arguments):
    with serving(os.path.dirname(files[0])) as server:
        table = frame(server, files)
        with_it, without = loader(table, **arguments), loader(table, NONE, **arguments)
        batches = seen(with_it)
        shown = [image[0][0][0] for _, arrays in batches for image in arrays["image"]]
        assert shown == [row for ids, _ in batches for row in ids]
        assert with_it.metrics.ahead["reads"] > 30 and without.metrics.ahead == {}
        assert max(server.asked.values()) == 1, "each file was asked for once"
        assert batches == seen(without)
        with_it.close(), without.close()


def test_many_reads_are_under_way_at_once_for_one_who_decodes(files):
    together = threading.Barrier(24)

    def status(path):
        together.wait(20)
        return 200

    with serving(os.path.dirname(files[0]), status) as server:
        found = loader(frame(server, files, 48), workers=1)
        assert len(seen(found)) == 6
        assert server.most >= 24 and found.metrics.ahead["readers"] >= 24
        found.close()
