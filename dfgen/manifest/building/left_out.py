"""Files that a build left out, where rows of labels lack theirs: how they miss the pattern."""

import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.schema import quote
from dfgen.manifest.sources.file_tree import NO_FIT
from dfgen.manifest.sources.path_pattern import FROM_PATH, Pattern, parse_pattern

PATHS_SHOWN = 3
_OWN = "build these on their own with such a pattern and pandas.concat, or move them"


def lines_of_left_out(
    skipped: Mapping[str, list[str]], pattern: Pattern | None, field: str, wanted: pa.ChunkedArray
) -> list[str]:
    """Return lines on the files left out, and how many of them rows of labels ask for.

    Args:
        skipped: reason -> paths below the folder.
        pattern: the pattern that left them out, if there is one.
        field: what of a path is its key.
        wanted: keys of the rows without a file.
    """
    lines = []
    if pattern is not None and skipped.get(NO_FIT) and len(wanted):
        paths = pa.array(skipped[NO_FIT])
        lines.append(f"The pattern {quote(pattern.text)} left out {len(paths):,} files:")
        for what, regex, advice in _near_misses(pattern):
            fields = pc.extract_regex(paths, regex)
            near = fields.is_valid()
            if not pc.any(near).as_py():
                continue
            named = [each.name for each in fields.type]
            keys = pc.struct_field(fields, field) if field in named else None
            lines.append(_line(what, paths.filter(near), field, wanted, advice, keys))
            paths = paths.filter(pc.invert(near))
        if len(paths):
            what = "otherwise unlike it" if len(lines) > 1 else "unlike it"
            lines.append(_line(what, paths, field, wanted, ""))
    for reason, names in sorted(skipped.items()):
        found = pa.array(names, pa.string())
        number = 0 if reason == NO_FIT else _asked_for(found, field, wanted)
        if number:
            lines.append(
                f"{number:,} of the {len(names):,} paths left out as {reason} have such a name: "
                f"{_some(found)}"
            )
    return lines


def _line(
    what: str,
    paths: pa.Array,
    field: str,
    wanted: pa.ChunkedArray,
    advice: str,
    keys: pa.Array | None = None,
) -> str:
    number = _asked_for(paths, field, wanted)
    if keys is not None:
        number = max(number, pc.sum(pc.is_in(keys, value_set=wanted)).as_py() or 0)
    asked = f", of which {number:,} are those of rows without a file" if number else ""
    return f"  {len(paths):,} {what}: {_some(paths)}{asked}{advice and '; ' + advice}"


def _some(paths: pa.Array) -> str:
    return ", ".join(map(quote, paths[:PATHS_SHOWN].to_pylist())) + (
        ", ..." * (len(paths) > PATHS_SHOWN)
    )


def _asked_for(paths: pa.Array, field: str, wanted: pa.ChunkedArray) -> int:
    """Count the paths that rows ask for by stem, or by the key itself."""
    cuts = {FROM_PATH["stem"], FROM_PATH.get(field, FROM_PATH["name"])}
    found = [pc.is_in(pc.replace_substring_regex(paths, cut, ""), value_set=wanted) for cut in cuts]
    return pc.sum(pc.or_(found[0], found[-1])).as_py() or 0


def _near_misses(pattern: Pattern) -> Iterator[tuple[str, str, str]]:
    """Yield what paths near a pattern have otherwise, a regex for these, and what to do."""
    text, regex = pattern.text, pattern.regex
    widened = re.sub(r"\.[A-Za-z0-9]+$", ".{_}", text)
    if widened != text:
        advice = f"pattern={quote(widened)} takes any"
        yield "with another extension", parse_pattern(widened).regex, advice
    yield "in another case", f"(?i){regex}", "write the pattern as they are, or rename them"
    separators = re.sub(r"(\(\?P<\w+>|\[[^]]*\])|_|\\-|\\ ", lambda m: m[1] or "[-_ ]", regex)
    yield "with another separator", separators, "rename them to one form"
    if pattern.integers:
        free = regex.replace("[0-9]+", "[^/]+")
        yield "with more than digits", free, "write the field without :int to take them as text"
    deeper = regex.replace(r"\A", r"\A(?:[^/]+/)+", 1)
    yield "in folders further below", deeper, f"pattern={quote('{_}/' + text)} is for these: {_OWN}"
    upper = text.partition("/")[2]
    if re.search(r"{[A-Za-z]", upper):
        above = parse_pattern(upper).regex
        yield "one folder above", above, f"pattern={quote(upper)} is for these: {_OWN}"
