"""Features used by hand, on one row."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dfgen.errors import DecodeError, MissingFileError


@contextmanager
def naming_path(row: Mapping[str, Any], column: str) -> Iterator[str]:
    """Give the path of a row; what is raised meanwhile about its file names it."""
    path = os.fspath(row[column])
    try:
        yield path
    except (DecodeError, MissingFileError) as error:
        raise type(error)(f"{column}={path!r}: {error}") from error
