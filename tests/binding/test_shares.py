"""Manifests mixed in shares of an epoch, each with a root of its own, in memory and in a file."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from messages import message_of
from PIL import Image

import dfgen
from dfgen.errors import ArgumentError, ManifestError

SHARES = {"source": {"ours": 0.7, "theirs": 0.3}}
COUNTS = {"ours": 30, "theirs": 9}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Two manifests with roots of their own, read and joined; the red of an image is its source."""
    frames = []
    for number, (source, count) in enumerate(COUNTS.items()):
        folder = tmp_path_factory.mktemp(source)
        for row in range(count):
            Image.new("RGB", (4, 4), (number, row, 0)).save(folder / f"{row}.png")
        built = dfgen.build_manifest(folder, pattern="{row:int}.png")
        built["id"] = source + "/" + built["row"].astype(str)
        dfgen.write_manifest(built, folder / "rows.parquet", root=folder)
        frames.append(dfgen.read_manifest(folder / "rows.parquet").assign(source=source))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(params=["frame", "file"])
def manifest(request, both, tmp_path):
    if request.param == "frame":
        return both
    dfgen.write_manifest(both, tmp_path / "both.parquet")
    return tmp_path / "both.parquet"


def sequence(manifest, balance=SHARES, **options):
    options = {"rows_per_epoch": 100, "batch_size": 10, "image_size": (4, 4), **options}
    return dfgen.Sequence(manifest, y="row", balance=balance, **options)


def test_an_epoch_has_the_shares_whatever_the_sizes_and_goes_on_where_it_was(manifest):
    with sequence(manifest) as seq, sequence(manifest) as later:
        batches = list(seq)
        red = np.concatenate([x[:, 0, 0, 0] for x, _ in batches])
        assert np.bincount(red).tolist() == [70, 30]
        counts = seq.row_counts()
        assert np.ptp(counts[:30]) <= 2 and np.ptp(counts[30:]) <= 2
        state = seq.state_dict()
        later.load_state_dict(state)
        assert later.epoch == seq.epoch == 1
        assert all((a[0] == b[0]).all() for a, b in zip(seq, later, strict=True))
        assert seq.receipt == later.receipt


@pytest.mark.parametrize("dtype", ["str", "category"])
def test_rows_whose_share_is_0_never_come(both, dtype):
    with sequence(both.astype({"source": dtype}), {"source": {"ours": 1, "theirs": 0}}) as seq:
        assert not seq.row_counts()[30:].any()


def test_a_training_with_other_shares_is_refused_by_the_state(both):
    other = {"source": {"ours": 0.6, "theirs": 0.4}}
    with sequence(both) as seq, sequence(both, other) as later:
        list(seq)
        assert "weights" in message_of(ArgumentError, later.load_state_dict, seq.state_dict())


def test_shares_that_cannot_be_are_refused(both):
    def said(kind, **shares):
        return message_of(kind, sequence, both, {"source": shares})

    assert said(ArgumentError, ours=0.7, theirs=0.2) == (
        "the shares of balance={'source': ...} sum to 0.9, expected 1: in the same proportion they "
        "are {'ours': 0.7778, 'theirs': 0.2222}"
    )
    assert said(ArgumentError, ours=0, theirs=0) == (
        "the shares of balance={'source': ...} sum to 0, expected 1"
    )
    assert said(ArgumentError, ours=-1, theirs=2) == (
        "shares must be numbers from 0 to 1, got balance={'source': {'ours': -1, 'theirs': 2}}"
    )
    assert said(ManifestError, ours=1) == (
        "balance={'source': ...}: the column holds 'theirs', without a share: expected a share of "
        "each value in it, 0 of those that are not to be drawn, and of no others"
    )
    assert "does not hold 'others', which has one" in said(
        ManifestError, ours=0.5, theirs=0.25, others=0.25
    )
    assert message_of(ArgumentError, sequence, both, {"a": {}, "b": {}}).startswith(
        "balance must be a column, or shares of what one holds, got "
    )


@pytest.mark.parametrize(
    ("values", "shares", "kind"),
    [
        ([[1], [2]], {"a": 1.0}, "list<"),
        ([0, 1], {False: 0.5, True: 0.5}, "int64"),
        ([False, True], {0: 0.5, 1: 0.5}, "bool"),
    ],
)
def test_shares_of_another_type_than_the_column_are_refused_by_its_type(values, shares, kind):
    table = pa.table({"id": [0, 1], "path": ["a", "b"], "of": values})
    said = message_of(
        ManifestError,
        dfgen.Sequence,
        table,
        y=None,
        label_mode=None,
        balance={"of": shares},
        rows_per_epoch=2,
    )
    assert said.startswith(f"balance={{'of': ...}}: the column is of {kind}")
    assert said.endswith(
        f", and its shares are of {', '.join(map(repr, shares))}: expected a column of text, "
        "numbers or booleans, and a share of each of its values, written as it is there"
    )
