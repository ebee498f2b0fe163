"""Nothing of somebody else's files is unpickled, imported or executed."""

import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DecodeError, DfgenError, ManifestError
from dfgen.samples.features.arrays import Array
from dfgen.serving.preprocessing_json import digest_of, from_text
from dfgen.stores.array_files import decode_array
from dfgen.stores.stores import Stores
from dfgen.training.callbacks.backup_files import Generations


class Bomb:
    """What would touch a file if it were unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (self.mark, "w")


@pytest.fixture
def mark(tmp_path):
    """Return a path that is not there afterwards."""
    yield str(tmp_path / "executed")
    assert not (tmp_path / "executed").exists()


def test_object_arrays_in_npy_files_stay_pickled(tmp_path, mark):
    np.save(tmp_path / "x.npy", np.array([Bomb(mark)] * 3, object), allow_pickle=True)
    path = str(tmp_path / "x.npy")
    for read in (
        lambda: decode_array((tmp_path / "x.npy").read_bytes()),
        lambda: Stores().row(path, 0),
    ):
        with pytest.raises(DecodeError) as caught:
            read()
        assert str(caught.value) == "the .npy file holds Python objects, and dfgen never unpickles"
    frame = pd.DataFrame({"id": [1], "path": [path]})
    assert "dfgen never unpickles" in dfgen.verify(frame, decode=True)["detail"].item()
    with pytest.warns(UserWarning, match="1 problem"):
        [problem] = dfgen.build_manifest(tmp_path)["problem"]
    assert problem == "the .npy file holds Python objects, and dfgen never unpickles"
    reader = bind(SequenceArguments(frame, x=Array("path", (2,)), y=None)).reader
    with pytest.raises(DecodeError) as caught:
        reader.read(0, {"array": np.empty(2, np.float32)}, None)
    assert str(caught.value) == f"row id=1, path={path!r}: {problem}"


def test_tables_of_objects_are_rejected(tmp_path, mark):
    held = pd.DataFrame({"path": ["a.png"], "kind": [Bomb(mark)]})
    with pytest.raises(ManifestError, match="column 'kind' of the label table has Bomb"):
        dfgen.build_manifest(labels=held, path_column="path")
    held.to_pickle(tmp_path / "l.pkl")
    with pytest.raises(DfgenError, match=r"l\.pkl is not a label table"):
        dfgen.build_manifest(labels=tmp_path / "l.pkl", path_column="path")


def test_pickles_in_manifest_columns_and_metadata_stay_bytes(tmp_path, mark):
    bomb = pickle.dumps(Bomb(mark))
    frame = pd.DataFrame({"id": [1], "path": [str(tmp_path / "a.png")], "label": [bomb]})
    dfgen.write_manifest(frame, tmp_path / "m.parquet")
    table = pq.read_table(tmp_path / "m.parquet")
    schema = table.schema.metadata
    pickled = pa.field("label", pa.binary(), metadata={b"ARROW:extension:name": b"pickle"})
    table = table.cast(pa.schema([table.schema.field(0), table.schema.field(1), pickled]))
    pq.write_table(table.replace_schema_metadata({**schema, b"x": bomb}), tmp_path / "m.parquet")
    assert dfgen.read_manifest(tmp_path / "m.parquet")["label"].tolist() == [bomb]


def test_tags_of_yaml_make_no_objects(tmp_path, mark):
    text = f"names: !!python/object/apply:builtins.open [{mark}, w]\ntrain: images\n"
    (tmp_path / "data.yaml").write_text(text)
    with pytest.raises(ManifestError, match="could not determine a constructor for the tag"):
        dfgen.build_manifest(yolo=tmp_path / "data.yaml")


def test_object_arrays_of_backups_stay_pickled(tmp_path, mark):
    np.savez(tmp_path / "backup-00000000.npz", x=np.array([Bomb(mark)], object))
    with (
        pytest.warns(UserWarning, match="allow_pickle=False"),
        pytest.raises(ArgumentError, match="can be read"),
    ):
        Generations(tmp_path).load()


def test_features_that_name_code_are_not_imported(tmp_path, mark):
    for name in ("builtins:open", "os:system", "antigravity:x"):
        feature = {"feature": name, "fields": {"column": mark}}
        data = {"format": 1, "inputs": {"items": [["x", feature]]}}
        with pytest.raises(ArgumentError, match="allow_functions"):
            from_text(json.dumps({**data, "digest": digest_of(data)}), ["inputs"], False)
