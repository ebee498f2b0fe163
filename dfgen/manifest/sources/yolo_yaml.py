"""YAML of which nothing is run, and whose faults have a line."""

import io
from typing import Any

import yaml

from dfgen.errors import ManifestError
from dfgen.limits import Limits

_OPENS = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSES = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML's, which tells no place of a date or number that cannot be."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the value of a node."""
        try:
            return super().construct_object(node, deep)
        except (yaml.YAMLError, RecursionError, MemoryError):
            raise
        except Exception as error:
            what = f"{node.tag.rpartition(':')[2]} that cannot be: {error}"
            raise yaml.constructor.ConstructorError(None, None, what, node.start_mark) from error


def load_yaml(text: str, path: str, limits: Limits) -> Any:
    """Return what YAML says, in Python's plain types.

    Raises:
        ManifestError: it has more aliases, or is nested deeper, than the limits allow.
        yaml.YAMLError: it is no YAML, or asks for more than plain types.
        RecursionError: it is nested too deep.
    """
    _refuse_unfolding(text, path, limits)
    stream = io.StringIO(text)
    stream.name = path  # which errors tell
    return yaml.load(stream, _Loader)


def _refuse_unfolding(text: str, path: str, limits: Limits) -> None:
    """Refuse aliases that may unfold without end, and what is nested too deep."""
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
