"""Text files of annotations: with a size limit, in UTF-8 or UTF-16, with or without a mark."""

import codecs
import json
import mmap
import re
from typing import Any, TypeVar

import msgspec

from dfgen.errors import ManifestError
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import read_bytes, reading

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NO_JSON = re.compile(rb"NaN|Infinity")
_Decoded = TypeVar("_Decoded")


def read_text(
    path: str,
    form: str = "",
    limits: Limits = DEFAULT,
    bound: str = "header_bytes",
    advice: str = "",
) -> str:
    """Return the text of a file of at most as many bytes as a bound of the limits."""
    with reading(path, form, advice=advice, limits=limits, bound=bound) as nbytes:
        return decoded_text(read_bytes(path, nbytes))


def decoded_text(data: bytes) -> str:
    """Return UTF-8 or UTF-16 as text without byte order mark."""
    return data.decode(encoding_of(data))


def encoding_of(start: bytes) -> str:
    """Return the encoding of a file by its first bytes, which may be a byte order mark."""
    return "utf-16" if start[:2] in _UTF16 else "utf-8-sig"


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, stripped, with their numbers."""
    lines = enumerate(re.split(r"\r\n|\r|\n", text), 1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def read_json(path: str, kind: type[_Decoded], expected: str, limits: Limits) -> _Decoded:
    """Return the JSON of a file in a type of msgspec; `expected` describes the type.

    NaN and Infinity are read as null: they are not JSON, but many programs write them.
    """
    note = ""
    with reading(path, limits=limits, bound="file_bytes") as nbytes, open(path, "rb") as file:
        data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if nbytes else b""
        try:
            if encoding_of(data) == "utf-16":
                data = decoded_text(data[:]).encode()
            data = memoryview(data)[len(codecs.BOM_UTF8) * (data[:3] == codecs.BOM_UTF8) :]
            try:
                return msgspec.json.decode(data, type=kind)
            except msgspec.DecodeError as error:
                if isinstance(error, msgspec.ValidationError) or not _NO_JSON.search(data):
                    raise
            note = " (NaN and Infinity are read as null)"
            content = json.loads(bytes(data), parse_constant=lambda name: None)
            return msgspec.json.decode(json.dumps(content), type=kind)
        except msgspec.ValidationError as error:
            raise ManifestError(f"{path} is JSON, but not {expected}: {error}{note}") from None
        except (msgspec.DecodeError, ValueError) as error:
            raise ManifestError(
                f"{path} is broken JSON, {error}. Write the file again, or take another copy"
            ) from None
