"""Tables and annotations that strangers wrote, looked at before they are read."""

import os
from collections.abc import Iterator
from typing import IO, AnyStr

import yaml

from dfgen.errors import ManifestError
from dfgen.limits import Limits

_OPENS = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSES = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


def read_short(file: IO[AnyStr], path: str, limits: Limits) -> AnyStr:
    """Return all of a file that describes others: an annotation of one image, a recipe.

    Raises:
        ManifestError: it has more than `limits.header_bytes`.
    """
    most = limits.most["header_bytes"]
    text = file.read(-1 if limits.header_bytes is None else int(most) + 1)
    if len(text) > most:
        what = f"{path} has more than {int(most):,} bytes"
        raise ManifestError(limits.refusal("header_bytes", 2 * int(most), what))
    return text


def refuse_size(path: str, limits: Limits) -> None:
    """Refuse a file that has more than `limits.file_bytes`.

    Raises:
        ManifestError: it has.
        OSError: it cannot be looked at.
    """
    nbytes = os.stat(path).st_size
    if not limits.allows("file_bytes", nbytes):
        raise ManifestError(limits.refusal("file_bytes", nbytes, f"{path} has {nbytes:,} bytes"))


def short_lines(file: IO[str], path: str, limits: Limits) -> Iterator[str]:
    """Yield the lines of a text, none longer than `limits.chunk_bytes`."""
    most, number = limits.most["chunk_bytes"], 0
    at_once = -1 if limits.chunk_bytes is None else int(most) + 1
    while line := file.readline(at_once):
        number += 1
        if len(line) > most:
            what = f"{path}, line {number} is longer than {int(most):,} characters"
            raise ManifestError(limits.refusal("chunk_bytes", 2 * int(most), what))
        yield line


def refuse_unfolding(text: str, path: str, limits: Limits) -> None:
    """Refuse YAML whose aliases may unfold without end, or that is nested too deep.

    Raises:
        ManifestError: it is.
        yaml.YAMLError: it is no YAML.
    """
    aliases = depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        aliases += isinstance(event, yaml.AliasEvent)
        depth += isinstance(event, _OPENS) - isinstance(event, _CLOSES)
        for name, found, what in (
            ("aliases", aliases, "refers to parts of itself"),
            ("nesting", depth, "has lists or mappings in each other"),
        ):
            if not limits.allows(name, found):
                told = f"{path} {what} {found:,} times or more"
                raise ManifestError(limits.refusal(name, 10 * found, told))
