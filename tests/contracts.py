"""What every source must do: a test class to inherit."""

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest

from dfgen.errors import DecodeError, DfgenError
from dfgen.manifest.sources.source import RowGroup


class SourceContract:
    """Inherit, and say how to make the source and what it must yield.

    `make` fills `folder` and returns the arguments of `source`; `expected` are the rows;
    `missing` are arguments that point at nothing.
    """

    expected: list[dict]

    def source(self, *arguments) -> Iterator[RowGroup]:
        raise NotImplementedError

    def make(self, folder) -> tuple:
        raise NotImplementedError

    def missing(self, folder) -> tuple:
        raise NotImplementedError

    def rows(self, folder) -> pa.Table:
        return pa.concat_tables(chunk.rows for chunk in self.source(*self.make(folder)))

    def test_yields_every_row_once_in_order(self, tmp_path):
        assert self.rows(tmp_path).to_pylist() == self.expected

    def test_twice_gives_the_same(self, tmp_path):
        arguments = self.make(tmp_path)
        first, second = (
            [(chunk.rows.to_pylist(), chunk.skipped) for chunk in self.source(*arguments)]
            for _ in range(2)
        )
        assert first == second

    def test_all_chunks_have_the_same_columns_without_foreign_metadata(self, tmp_path):
        schemas = [chunk.rows.schema for chunk in self.source(*self.make(tmp_path))]
        assert all(schema.equals(schemas[0], check_metadata=True) for schema in schemas)
        assert schemas[0].metadata is None

    def test_what_is_missing_is_refused_by_name(self, tmp_path):
        arguments = self.missing(tmp_path)
        with pytest.raises(DfgenError) as caught:
            list(self.source(*arguments))
        assert str(arguments[0]) in str(caught.value)


class StoreContract:
    """What every store must do. Give `make` (a store that holds these contents, and the path of
    each by name) and `missing` (a path that it does not hold).
    """

    def make(self, folder, contents: dict[str, bytes]) -> tuple:
        raise NotImplementedError

    def missing(self, folder) -> str:
        raise NotImplementedError

    def test_gives_back_the_bytes(self, tmp_path):
        contents = {"a": b"1", "b": bytes(range(256)) * 5000, "\u00e4 \u4e2d.bin": b"\0"}
        store, paths = self.make(tmp_path, contents)
        for _ in range(2):
            assert {name: store.read(path) for name, path in paths.items()} == contents

    def test_survives_pickle(self, tmp_path):
        store, paths = self.make(tmp_path, {"a": b"1"})
        assert pickle.loads(pickle.dumps(store)).read(paths["a"]) == b"1"

    def test_missing_bytes_are_refused(self, tmp_path):
        store, _ = self.make(tmp_path, {"a": b"1"})
        with pytest.raises(FileNotFoundError) as caught:
            store.read(self.missing(tmp_path))
        assert isinstance(caught.value, DfgenError)
        assert str(caught.value) == "the file does not exist"

    def test_no_bytes_are_refused(self, tmp_path):
        store, paths = self.make(tmp_path, {"empty": b""})
        with pytest.raises(DecodeError) as caught:
            store.read(paths["empty"])
        assert str(caught.value) == "the file is empty (0 bytes)"
