"""The exceptions of dfgen, the helpers that their messages share, and checks of arguments.

Each error is also the built-in that users would catch. A message says what was received, what was
expected and what to do, with the id and path of the row.
"""

import errno
import json
import re
import struct
import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from inspect import isroutine
from numbers import Integral
from typing import Any, Never, TypeVar


class DfgenError(Exception):
    """Base class of the errors of dfgen; `legible` shortens and escapes what a message quotes."""

    def __init__(self, message: object = "") -> None:
        super().__init__(legible(str(message)))

    def add_note(self, note: str) -> None:
        """Add a note, as messages are shown."""
        super().add_note(legible(note, 4_000))


class ArgumentError(DfgenError, ValueError):
    """An argument has a value that it cannot have."""


class UnknownArgumentError(DfgenError, TypeError):
    """An argument that does not exist; the message names the one that does."""


class MissingPackageError(DfgenError, ImportError):
    """A package of an extra is not installed; the message says how to."""


class ManifestError(DfgenError, ValueError):
    """A manifest, frame or label table cannot be used.

    `row` is the first wrong row, from 0, or None. Code that knows its id adds a note.
    """

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class WriteError(DfgenError, OSError):
    """A file cannot be written."""


class MissingFileError(DfgenError, FileNotFoundError):
    """A file is not there."""


class DecodeError(DfgenError, ValueError):
    """A file or a value is corrupt, or of another kind."""


class ReadError(DfgenError, OSError):
    """Memory, disk or network failed, not the file: `on_error="skip"` does not skip its row."""


class AccessError(ReadError):
    """A server refuses access, has no such bucket, or failed after all retries of its client."""


class ReadTimeoutError(DfgenError, TimeoutError):
    """A read took longer than the limit."""


class ProblemsError(DfgenError, RuntimeError):
    """More rows are bad than `limits.problems`, or all rows of a batch."""


class TransformError(DfgenError, RuntimeError):
    """A transform raised, or returned something else than it was given."""


class WorkerError(DfgenError, RuntimeError):
    """A worker process died again and again."""


class UnknownKerasError(DfgenError, RuntimeError):
    """The installed Keras reads its data in a way that this version of dfgen does not support."""


EXAMPLES = 10
"""Values that a message shows at most."""

_LONGEST = 2_000  # characters of a message
_SHORT = 100  # characters of a value that a message shows
_Error = TypeVar("_Error", bound=DfgenError)


def legible(text: str, longest: int = _LONGEST) -> str:
    """Escape characters that terminals do not show, and cut the middle of a long text.

    Example:
        >>> legible("column 'name' " + "is long " * 9 + "drop it", 40)
        "column 'name' i ... is long drop it"
    """
    text = without_secrets(text)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
    half = longest // 2 - 5
    return text if len(text) <= longest else f"{text[:half]} ... {text[-half:]}"


# a password with / in it too, where no port ends before that; normpath leaves one / of two
_PASSWORD = r"[^/?#@:\[\s'\"]*:(?:[0-9]*[^0-9/?#@\s'\"][^?#@\s'\"]*|[^/?#@\s'\"]*)@"
USERS = re.compile(
    rf"(https?://?)(?:[^/?#@\s'\"]*@|{_PASSWORD})"
    rf"|([a-z][a-z0-9+.-]*(?<!\bzip)(?<!\btar)(?<!\bfile)://?){_PASSWORD}",
    re.IGNORECASE,
)
"""The beginning of an address that has a password or a token in front of its server."""

_QUERIES = re.compile(
    r"(https?://?[^?\"\n]{0,2000}\?|[a-z][a-z0-9+.-]*://?[^?\"\n]{0,2000}\?(?=[^\s'\"]*=))"
    r"(?!\.\.\.)[^\s'\"]+?(?=[:,.;)\]]*(?:[\s'\"]|$))",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Return a text whose addresses show no user, no password, and no value of a query.

    Example:
        >>> without_secrets("https://me:key@host/a.jpg?sig=1: not found")
        'https://...@host/a.jpg?...: not found'
    """
    if ":/" not in text:
        return text
    return _QUERIES.sub(r"\1...", USERS.sub(r"\1\2...@", text))


def unreadable(error: Exception) -> DfgenError:
    """Return the error to raise for an error of reading a file."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingFileError("the file does not exist")
    if is_outside(error):
        name = errno.errorcode.get(getattr(error, "errno", None) or 0, type(error).__name__)
        return ReadError(f"the file cannot be read: {reason(error)} ({name})")
    return DecodeError(f"the file cannot be read: {reason(error)}")


_OUTSIDE = frozenset(
    getattr(errno, name)
    for name in (
        "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EAGAIN", "EBUSY", "ENOLCK", "EIO", "ESTALE",
        "ENODEV", "ENXIO", "EREMOTEIO", "ENOLINK", "ENOTCONN", "ENETDOWN", "ENETUNREACH",
        "EHOSTDOWN", "EHOSTUNREACH", "ESHUTDOWN", "ENOMEDIUM",
    )
    if hasattr(errno, name)
)  # fmt: skip
_NO_MEMORY = re.compile(r"insufficient memory|out of memory|failed to allocate", re.IGNORECASE)
"""How libjpeg, libavif, Pillow and OpenCV say it."""


def is_outside(error: BaseException) -> bool:
    """Whether memory, disk or network caused an error of a read, not the file."""
    if isinstance(error, DfgenError):
        return isinstance(error, ReadError)
    outside = isinstance(error, MemoryError | ConnectionError | TimeoutError)
    outside |= isinstance(error, OSError) and error.errno in _OUTSIDE
    return outside or _NO_MEMORY.search(str(error)) is not None


def raise_broken(what: str, error: Exception) -> Never:
    """Raise the error of a decoder, as a DecodeError if the file caused it."""
    if isinstance(error, DecodeError) or is_outside(error):
        raise error
    cut_short = isinstance(error, struct.error | IndexError)
    why = "cut short, or in another format" if cut_short else reason(error)
    raise DecodeError(f"broken {what}: {why}") from error


def located(error: _Error, where: str) -> _Error:
    """Return a copy of an error, its notes included, with its row in front."""
    found = type(error)(f"{where}: {error}")
    for note in getattr(error, "__notes__", ()):
        found.add_note(note)
    return found


def reason(error: Exception) -> str:
    """Return the message of an exception of another library, or its name if it has none."""
    said = getattr(error, "strerror", None) or getattr(error, "err", None) or error  # of OpenCV
    if isinstance(error, KeyError) or (error.args and isinstance(error.args[0], KeyError)):
        said = f"there is no {error}"  # Pillow passes those of its tables on
    return " ".join(str(said).split()) or type(error).__name__


def column_list(columns: Iterable[str]) -> str:
    """Return the names of at most twenty columns."""
    names = list(columns)
    more = f", ... ({len(names):,} in all)" if len(names) > 20 else ""
    return (", ".join(map(str, names[:20])) or "none") + more


def listed(values: Iterable[object]) -> str:
    """Return the first ten values, and their number if there are more."""
    texts = [repr(value) for value in values]
    return ", ".join(texts[:10]) + (f", ... ({len(texts):,} in all)" if len(texts) > 10 else "")


def first(values: Any) -> list[Any]:
    """Return the first values of an Arrow array."""
    return values[:EXAMPLES].to_pylist()  # type: ignore[no-any-return]


KAGGLE_RUNS = re.compile(r"\s*[0-9]+\s+[0-9]+(\s+[0-9]+\s+[0-9]+)*\s*")
"""Run lengths as Kaggle writes them: start and length of each run."""


KAGGLE_ADVICE = (
    "Kaggle's run lengths are masks: dfgen.Column({!r}, mask_of, shape=(height, width, 1), "
    'dtype="uint8") draws them, with mask_of of docs/guides/own-formats.md'
)
"""How to read them; it is formatted with the name of the column."""


def quote(value: object) -> str:
    """Return a value for a message; text in quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def count(number: int, noun: str) -> str:
    """Return `1 row`, `2 rows`, `2 classes`."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{plural}"


def brief(value: Any) -> str:
    """Return a short value as it is written, otherwise its type."""
    kind = value if isinstance(value, type) else type(value)
    package = kind.__module__.partition(".")[0]
    name = kind.__qualname__ if package == "builtins" else f"{package}.{kind.__name__}"
    if kind is value:
        return f"the class {name}"
    if isroutine(value):
        return f"the function {value.__qualname__.rpartition('<locals>.')[2]}"
    size = len(value) if isinstance(value, list | tuple | dict | bytes) else 0
    text = repr(value) if size <= _SHORT else ""  # of millions of values it takes seconds
    if text and len(text) <= _SHORT and "\n" not in text and " at 0x" not in text:
        return text
    of = f" of {size:,}" if size else ""
    of = f" of shape {value.shape}" if isinstance(getattr(value, "shape", None), tuple) else of
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}{of}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `' Did you mean "label"?'` for the nearest known word, or "". Ignores case."""
    by_plain = {name.strip().casefold(): name for name in reversed(list(known))}
    plain = word.strip().casefold()
    near = get_close_matches(plain, by_plain, n=1, cutoff=0.6 if len(plain) > 2 else 0.75)
    return f' Did you mean "{by_plain[near[0]]}"?' if near else ""


def warn(message: str) -> None:
    """Warn with the line of the user's code, however deep in dfgen this is called."""
    # no stacklevel is right for every x and y, and skip_file_prefixes came with Python 3.12
    depth, frame, ours = 2, sys._getframe(1), ("dfgen", "functools")  # which calls what is cached
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).split(".")[0] in ours:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(legible(message, 1_000), stacklevel=depth)


def whole(
    name: str, value: object, *, least: int = 0, most: int | None = None, advice: str = ""
) -> int:
    """Return the value as an int, or raise an ArgumentError that says what was expected."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if least <= number and (most is None or number <= most):
            return number
    limits = f"of {least} or more" if most is None else f"from {least} to {most}"
    advice = advice and f": {advice}"
    raise ArgumentError(f"{name}={brief(value)} is not a whole number {limits}{advice}")


def flag(name: str, value: object) -> bool:
    """Return True or False for a bool, of NumPy too, or 0 or 1; or raise an ArgumentError."""
    if not isinstance(value, str) and str(value) in ("True", "False", "1", "0"):
        return bool(value)
    raise ArgumentError(
        f"{name} must be True or False, got {brief(value)}: write {name}=True or {name}=False"
    )


def one_of(name: str, value: object, allowed: Iterable[object]) -> None:
    """Raise an ArgumentError if the value of an argument is not among the allowed ones."""
    allowed = tuple(allowed)
    if (value is None or isinstance(value, str)) and value in allowed:
        return
    hint = did_you_mean(str(value).lower(), [one for one in allowed if isinstance(one, str)])
    raise ArgumentError(f"{name} must be one of {allowed}, got {brief(value)}{hint and f'.{hint}'}")
