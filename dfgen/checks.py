"""Checks of arguments."""

from collections.abc import Iterable
from numbers import Integral

from dfgen.errors import ArgumentError, brief, did_you_mean


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
