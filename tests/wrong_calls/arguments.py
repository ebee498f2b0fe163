"""Arguments of Sequence that have another type or value."""

import dfgen
from dfgen.errors import ArgumentError
from wrong_calls import WrongCall

CALLS = [
    WrongCall(
        "a label_mode of Keras that dfgen lacks",
        lambda pets: dfgen.Sequence(pets.frame, y="kind", label_mode="sparse"),
        ArgumentError,
        "'sparse'",
        "'categorical'",
        "label_mode",
    ),
]
