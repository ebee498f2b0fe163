"""How many batches are predicted at once: so many that it costs nothing, few enough to hold."""

FIRST_STEPS = 16
"""Batches of the first part: what an error of the last layer costs."""

_SECONDS = 5.0
_BYTES = 1 << 24
_GROWTH = 8.0


def next_steps(steps: int, seconds: float, nbytes: int) -> int:
    """Return the batches of the next part, by what the last one took.

    A part aims at 5 seconds, so that little is lost of a run that is killed, and the progress bar
    moves, and holds no more than 16 MiB of outputs and targets.

    Args:
        steps: batches of the last part.
        seconds: that it took.
        nbytes: of its outputs and targets.

    Example:
        >>> next_steps(8, 0.1, 1000), next_steps(100, 10.0, 1000), next_steps(8, 0.1, 1 << 27)
        (64, 50, 1)
    """
    growth = min(_GROWTH, _SECONDS / max(seconds, 1e-9), _BYTES / max(nbytes, 1))
    return max(1, int(steps * growth))
