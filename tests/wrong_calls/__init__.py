"""Tables of wrong calls, a file a subject: what beginners write, and what must answer them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd


@dataclass(frozen=True)
class Pets:
    """What each call is tried on, made anew for it: the working folder, which it may damage.

    `frame` has the columns id, path (absolute), kind (text: cat, dog, owl), age and legs of twelve
    real JPEG files `imgs/{kind}/{id}.jpg` of 24x32 pixels; `labels.csv` has object_id, kind, age.
    """

    folder: Path
    frame: pd.DataFrame


@dataclass(frozen=True)
class WrongCall:
    """One wrong call: the message of what it raises, or warns of, must hold three words.

    Args:
        what: the mistake in a few words, which names the case.
        call: makes it.
        raises: the exception, or the category of the warning.
        received: of the message: what came.
        expected: what should have come.
        advice: what to do.
    """

    what: str
    call: Callable[[Pets], object]
    raises: type[BaseException]
    received: str
    expected: str
    advice: str
