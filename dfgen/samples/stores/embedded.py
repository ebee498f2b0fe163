"""The content of a row that names a file: its path, its bytes, or both."""

from collections.abc import Mapping
from typing import Any

from dfgen.errors import without_secrets

Content = Any
"""The file of a row: its path, its bytes, or a mapping of `bytes` and `path`."""


def content_parts(content: Any) -> tuple[bytes | None, Any]:
    """Return the bytes and the path of what a row holds, of which one may be missing."""
    if isinstance(content, bytes):
        return content, None
    if isinstance(content, Mapping) and "bytes" in content:
        return content["bytes"], content["path"]
    return None, content


def content_shown(content: Any) -> str:
    """Return how messages call what a row holds for a file.

    Example:
        >>> content_shown("a.png"), content_shown({"bytes": b"12", "path": "a.png"})
        ("'a.png'", "'a.png' (2 bytes)")
    """
    if isinstance(content, list):
        more = f", ... {len(content)} files" if len(content) > 1 else ""
        return f"[{', '.join(map(content_shown, content[:1]))}{more}]"
    data, path = content_parts(content)
    path = without_secrets(path) if isinstance(path, str) else path
    if data is None:
        return repr(content if path is None else path)
    return (f"{path!r} " if path else "") + f"({len(data):,} bytes)"
