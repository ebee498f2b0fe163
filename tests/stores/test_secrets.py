"""No password, key or signature of an address is ever shown."""

import traceback
from functools import partial

import pytest
from public.leftovers import nothing_left as nothing_left
from public.leftovers import passes, sequence
from public.test_remote import IMGS as IMGS
from public.test_remote import ROWS as ROWS
from public.test_remote import assert_whole as assert_whole
from public.test_remote import fail as fail
from public.test_remote import frame as frame
from public.test_remote import local as local
from public.test_remote import running as running
from public.test_remote import server as server
from servers import SECRET

import dfgen
from dfgen.errors import DfgenError

pytest.importorskip("obstore")

TOKEN = "s3cr3t+of/tests"
S3 = pytest.mark.parametrize("running", ["s3"], indirect=True)


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


pytest.importorskip("obstore")

S3 = pytest.mark.parametrize("running", ["s3"], indirect=True)


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
