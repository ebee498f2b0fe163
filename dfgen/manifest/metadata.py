"""The `dfgen` key in the schema metadata of a manifest, as JSON.

It may come from another program, so it is checked when it is read. Unknown entries are ignored.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from dfgen import __version__
from dfgen.errors import ManifestError
from dfgen.manifest.schema import Label

KEY: bytes = b"dfgen"
MANIFEST_FORMAT = 1
KEY_LIMIT = 1 << 24
"""Bytes of a key; Parquet readers reject a file with 100 MB of them."""


class Metadata(msgspec.Struct, kw_only=True):
    """The entries of the key."""

    format: int = MANIFEST_FORMAT
    root: str | None  # where relative paths start; None: every path is absolute
    labels: dict[str, Label]
    recipe: dict[str, Any] | None  # the arguments that built the manifest; None: made by hand
    created_by: str = f"dfgen {__version__}"
    fingerprint: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]

    def __post_init__(self) -> None:
        for name, label in self.labels.items():
            if "kind" not in label:
                raise ValueError(f"the label {name!r} has no kind")

    @property
    def attributes(self) -> dict[str, Any]:
        """What `df.attrs["dfgen"]` holds: plain JSON types, because pandas compares attrs."""
        return {"root": self.root, "labels": self.labels, "recipe": self.recipe}


class _Versioned(msgspec.Struct):
    format: int


def decode_metadata(schema_metadata: Mapping[bytes, bytes] | None, path: str) -> Metadata:
    """Return the checked key of a Parquet file."""
    text = (schema_metadata or {}).get(KEY)
    if text is None:
        raise ManifestError(
            f'{path} is a Parquet file but not a manifest: its schema metadata has no "dfgen" key. '
            "Read it with pandas.read_parquet and save it with dfgen.write_manifest, root= the "
            "folder where its paths start"
        )
    try:
        version = msgspec.json.decode(text, type=_Versioned).format
        if version == MANIFEST_FORMAT:
            return msgspec.json.decode(text, type=Metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ManifestError(
            f'{path}: the "dfgen" key of its schema metadata is damaged: {error}. Take another '
            "copy of the file, or build it again"
        ) from None
    raise ManifestError(
        f"{path} has manifest format {version}; this dfgen reads format {MANIFEST_FORMAT}. "
        "Upgrade dfgen, or build the manifest again with this version"
    )


def metadata_of(content: object, where: str) -> Metadata:
    """Return checked metadata of plain values, such as those in the index of a pack."""
    try:
        return msgspec.convert(content, Metadata)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where} is not valid: {error}") from None


def encode_metadata(metadata: Metadata, path: str) -> bytes:
    """Return the key as JSON."""
    text = msgspec.json.encode(metadata)
    if len(text) > KEY_LIMIT:
        names = {name: label.get("class_names", ()) for name, label in metadata.labels.items()}
        most = max(names, key=lambda name: len(names[name]), default="")
        raise ManifestError(
            f'the "dfgen" key of {path} would have {len(text):,} bytes, expected at most '
            f"{KEY_LIMIT:,}. Column {most!r} has {len(names.get(most, ())):,} class names: "
            f'write it as text, df["{most}"] = df["{most}"].astype(object)'
        )
    return text
