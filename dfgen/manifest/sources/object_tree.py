"""Source `files`: every file below a folder, or a prefix of a bucket, that a decoder opens."""

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from dfgen.errors import ManifestError, MissingFileError, ReadError
from dfgen.manifest.path_roots import absolute_place
from dfgen.manifest.schema import EXAMPLES
from dfgen.manifest.sources.file_tree import (
    FILES_A_GROUP,
    NO_FIT,
    fit,
    nothing_found,
    opened_files,
    read_files,
)
from dfgen.manifest.sources.path_pattern import Pattern
from dfgen.manifest.sources.source import TEXT, Argument, RowGroup, Source
from dfgen.samples.stores.archives.archive_paths import ARCHIVES, is_named_archive
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import has_store, scheme_of, store_at
from dfgen.samples.stores.store import Head

_SCHEMA = pa.schema({"path": pa.string(), "bytes": pa.int64(), "mtime_ns": pa.int64()})


def read_tree(
    folder: str, pattern: Pattern | None = None, options: StorageOptions | None = None
) -> Iterator[RowGroup]:
    """Yield the files below a folder, or below the URL of one."""
    scheme = scheme_of(folder)
    if has_store(scheme) and scheme not in ARCHIVES:
        return read_prefix(folder, pattern, options)
    return read_files(folder, pattern)


def read_prefix(
    url: str, pattern: Pattern | None = None, options: StorageOptions | None = None
) -> Iterator[RowGroup]:
    """Yield the objects below a URL, a few ten thousand at a time, with the fields of the pattern.

    They come in the order of the listing, which S3, Google and Azure sort by key, with the sizes
    and times that it has: nothing is asked for one by one. What is left out is what `read_files`
    leaves out of a folder.
    """
    url = absolute_place(url)
    found, misfits, group = False, list[str](), RowGroup(_SCHEMA.empty_table())
    listed = store_at(url, options=options).list(url)
    try:
        while page := list(islice(listed, FILES_A_GROUP)):
            group = _group(url, page, pattern)
            found |= len(group.rows) > 0
            misfits += group.skipped.get(NO_FIT, [])[: EXAMPLES - len(misfits)]
            yield group
    except ReadError as error:
        if "there is no bucket" in str(error):
            raise MissingFileError(str(error).partition(": ")[2]) from None
        raise type(error)(f"{url} cannot be listed: {str(error).partition(': ')[2]}") from None
    if not found and is_named_archive(url):
        raise ManifestError(
            f"{url} is an archive, and archives are read from disks alone: copy it to one, or "
            "unpack it in the store"
        )
    if not found:
        raise ManifestError(nothing_found(url, pattern, misfits, group.skipped))


def _group(url: str, page: list[tuple[str, Head]], pattern: Pattern | None) -> RowGroup:
    begin = len(url) + 1
    rows = [(path[begin:], head.size, head.mtime_ns) for path, head in page]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    files, skipped = opened_files(pa.table(arrays, schema=_SCHEMA))
    found = fit(files, skipped, pattern)
    return RowGroup(found.rows, found.skipped, folder=url, facts=("bytes", "mtime_ns"))


FILES = Source(
    read_tree,
    Argument(
        TEXT,
        "Folder of images, or s3://BUCKET/FOLDER; every one becomes a row. Or a recipe, a .toml.",
        "[FOLDER | RECIPE.toml]",
        is_path=True,
    ),
    shared=("pattern", "options"),
    folder="source",
)
