"""What `_manifest.json` of a pack says, and what is refused in its place."""

import json

import pytest

import dfgen
from dfgen.packs.pack_index import PackFile, PackIndex, is_pack, is_shard, read_index

SHARDS = tuple(PackFile(f"shard-{k:05}.arrow", 3 - k, 100, "0" * 8) for k in range(3))


def index(folder, **changed):
    known = {
        "folder": str(folder), "rows": 6, "shards": SHARDS, "order": "kept", "ids": "0" * 32,
        "packed": {"path": {"format": "original"}}, "dfgen": {"format": 1}, "created_by": "dfgen",
        "table": PackFile("manifest.arrow", 6, 10, "0" * 8), "plan": {},
    }  # fmt: skip
    return PackIndex(**known | changed)


def test_an_index_reads_back_and_knows_where_shards_begin(tmp_path):
    assert not is_pack(tmp_path)
    (tmp_path / "_manifest.json").write_bytes(index(tmp_path).to_json())
    assert is_pack(tmp_path)
    assert read_index(tmp_path) == index(tmp_path)
    assert read_index(tmp_path).starts.tolist() == [0, 3, 5, 6]
    assert is_shard("pack/shard-00000.arrow") and is_shard("pack/shard-100000.arrow")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kind": "cache"}, 'is not that of a pack, which has "kind": "pack"'),
        ({"format": 2},
         "has pack format 2; this dfgen reads format 1. Upgrade dfgen, or pack again with this "
         "version"),
        ({"rows": None, "ids": 3},
         "is damaged: rows, ids is missing or invalid. Take another copy of it, "
         "or pack again"),
        ({"rows": 7},
         "is damaged: the rows of its shards are not those of the pack. Take another copy of "
         "it, or pack again"),
        ({"table": {"file": "../m.arrow", "rows": 6, "bytes": 1, "checksum": ""}},
         "is damaged: a file of it is not in its folder. Take another copy of it, or pack again"),
    ],
)  # fmt: skip
def test_an_index_that_is_none_is_refused(tmp_path, changed, said):
    path = tmp_path / "_manifest.json"
    path.write_text(json.dumps(json.loads(index(tmp_path).to_json()) | changed))
    with pytest.raises(dfgen.DfgenError) as caught:
        read_index(tmp_path)
    assert str(caught.value) == f"{path} {said}"


def test_an_index_that_was_damaged_anywhere_is_refused(tmp_path):
    """As by `dfgen verify`: sizes, class names and paths of a pack are read of nothing else."""
    path, written = tmp_path / "_manifest.json", index(tmp_path).to_json()
    for place in range(len(written) - 1):  # the last byte is the end of a line
        for bit in (0, 2, 5):
            damaged = bytearray(written)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(dfgen.DfgenError):
                read_index(tmp_path)
    path.write_bytes(written.replace(b'"kept"', b'"mixed"'))
    with pytest.raises(dfgen.DfgenError) as caught:
        read_index(tmp_path)
    assert str(caught.value) == (
        f"{path} was edited or damaged: its checksum is not the one that was written. Take another "
        "copy of it, or pack again"
    )
