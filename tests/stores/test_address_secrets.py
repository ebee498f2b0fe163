"""Addresses with passwords are refused, and signed ones are shown without what they open with."""

import io
import traceback

import numpy as np
import pandas as pd
import pytest
from cases import each
from messages import message_of
from PIL import Image
from servers import http_server

pytest.importorskip("obstore")

import dfgen
from dfgen.cli import app
from dfgen.errors import ArgumentError, DecodeError, ManifestError, without_secrets

SECRET = "s3cr3t+of/tests"
SIGNED = f"X-Amz-Date=1&X-Amz-Signature={SECRET}"
X = dfgen.Image("path", size=(4, 4))
ROWS = 6


def png(value):
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (value,) * 3).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def server():
    with http_server({f"{row}.png": png(row) for row in range(ROWS)}) as server:
        yield server


@pytest.fixture
def signed(server):
    """A frame whose addresses are signed; row 3 is no image, and row 4 is not there."""
    server.clear()
    server.held |= {"3.png": b"text"}
    server.held.pop("4.png", None)
    paths = [f"{server.url}/{row}.png?{SIGNED}" for row in range(ROWS)]
    return pd.DataFrame({"id": range(ROWS), "path": paths})


@each(
    ("text", "shown"),
    [
        ("https://me:key@host/a.jpg?sig=1: not found", "https://...@host/a.jpg?...: not found"),
        ("'https://h/a b.jpg?x=1&b=2', 'b.png'", "'https://h/a b.jpg?...', 'b.png'"),
        ("path=\"https://h/it's.jpg?sig=1\"", 'path="https://h/it\'s.jpg?..."'),
        ("s3://user:pa/ss@bucket/x", "s3://...@bucket/x"),
        ("az://c/a.jpg?sv=1&sig=2, and so on", "az://c/a.jpg?..., and so on"),
        ("https://token@host/a (https://h/b?c=d).", "https://...@host/a (https://h/b?...)."),
        *[(text, text) for text in (
            "https://h/a?...: once", "http://h:8080/a@2x.jpg", "http://[::1]:80/a@2x.jpg",
            "zip://a@2x.jpg::/d/p.zip", "s3://b/what?.jpg", "abfss://c@acc.dfs.core.net/p",
            "sftp://me@host/a", "https://x.org/faq? Yes",
        )],
    ],
)  # fmt: skip
def test_messages_show_addresses_without_users_and_queries(text, shown):
    assert without_secrets(text) == str(DecodeError(text)) == shown


@pytest.mark.parametrize(
    "address",
    [
        f"https://me:{SECRET}@host/0.png", "https://t0k3n@host/0.png", f"s3://me:{SECRET}@b/0.png",
        f"sftp://me:{SECRET}@host/0.png", "http://me:12345678@host/0.png",
        f"svn+ssh://me:{SECRET}@host/0.png",
    ],
)  # fmt: skip
def test_a_password_in_an_address_is_refused_and_not_shown(address, tmp_path):
    frame = pd.DataFrame({"id": [1, 2], "path": ["http://host:80/a@2x.png", address]})
    headers = '{"default_headers": {"Authorization": ...}}' if address[:4] == "http" else ""
    message = (
        f"the address {address.partition(':')[0]}://... has a password or token in it, which a "
        "manifest would keep and messages would show: leave it out, and give what opens it as "
        f"storage_options={headers}"
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = {"labels": tmp_path / "t.csv", "path_column": "path", "facts": "none"}
    calls = [
        lambda: dfgen.Sequence(frame, X, label_mode=None),
        lambda: dfgen.Sequence(frame.assign(path="0.png"), X, label_mode=None, root=address),
        lambda: dfgen.write_manifest(frame, tmp_path / "m.parquet"),
        lambda: dfgen.build_manifest(**table),
    ]
    if not address.startswith("svn"):  # from which no manifest is read
        calls.append(lambda: dfgen.read_manifest(address.replace(".png", ".parquet")))
    for call in calls:
        assert message_of(ArgumentError, call) == message
    assert not (tmp_path / "m.parquet").exists()


def test_signed_addresses_train_and_nothing_that_is_shown_has_their_query(signed, capfd, caplog):
    caplog.set_level(0)
    options = {"label_mode": None, "shuffle": False, "batch_size": ROWS}
    shown = []
    with dfgen.Sequence(signed, X, on_error="skip", **options) as sequence:
        values = np.asarray(sequence[0][0])[:, 0, 0, 0].astype(int).tolist()
        assert values == [0, 1, 2, 0, 0, 5]
        problems = sequence.problems
        shown += [problems.to_csv(), repr(sequence), str(sequence.receipt)]
        shown += [str(sequence.state_dict())]
    address = signed["path"][3].partition("?")[0]
    assert problems["path"][0] == f"{address}?..."
    assert problems["reason"].tolist()[1] == "the file does not exist"
    shown.append(dfgen.verify(signed).to_csv())
    with_ids = signed.drop(columns="id")
    calls = [
        lambda: dfgen.Sequence(signed, X, **options)[0],
        lambda: dfgen.Sequence(with_ids, X, **options)[0],
        lambda: dfgen.Sequence(signed, X, transform=lambda image: 1 / 0, **options)[0],
        lambda: dfgen.Sequence(signed.assign(path=f"gopher://h/?{SIGNED}"), X, **options)[0],
        lambda: dfgen.Sequence(signed, dfgen.Array("path", shape=(2,)), **options)[0],
    ]
    for call in calls:
        with pytest.raises(Exception) as caught:
            call()
        shown += traceback.format_exception(caught.value)
        shown += [*getattr(caught.value, "__notes__", ())]
    shown += [*capfd.readouterr(), caplog.text]
    assert len([text for text in shown if "?..." in text]) >= 5
    for text in shown:
        assert SECRET not in text, text


def test_a_manifest_and_a_pack_keep_no_signature(signed, tmp_path):
    signed.to_csv(tmp_path / "t.csv", index=False)
    table = {"labels": tmp_path / "t.csv", "path_column": "path"}
    calls = [
        lambda: dfgen.write_manifest(signed, tmp_path / "m.parquet"),
        lambda: dfgen.build_manifest(**table, out=tmp_path / "m.parquet"),
        lambda: dfgen.pack(signed, tmp_path / "pack", image_size=(4, 4)),
    ]
    for call in calls:
        message = message_of(ManifestError, call)
        assert "storage_options=" in message and SECRET not in message
    assert not (tmp_path / "m.parquet").exists()
    plain = signed.assign(path=signed["path"].str.replace(SIGNED, "width=100"))
    dfgen.write_manifest(plain, tmp_path / "m.parquet")


def test_the_command_line_shows_no_signature(signed, tmp_path):
    from typer.testing import CliRunner

    signed.to_csv(tmp_path / "t.csv", index=False)
    out = str(tmp_path / "m.parquet")
    table = ["--labels", str(tmp_path / "t.csv"), "--path-column", "path"]
    result = CliRunner().invoke(app, ["build-manifest", *table, "--out", out])
    assert result.exit_code
    shown = result.output + "".join(traceback.format_exception(result.exception))
    assert "?..." in shown and SECRET not in shown
