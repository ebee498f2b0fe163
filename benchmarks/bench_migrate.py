"""Is `dfgen.migrate` ahead of Keras's own generator, plain and with rotation and shifts?"""

import contextlib
import io
from typing import Any

import pandas as pd
from corpus import photographs
from keras.src.legacy.preprocessing.image import ImageDataGenerator as KerasGenerator
from measure import THREADS, Findings, Rates, Verdict, alternate, finish
from models import idle_model
from peers import Drain

from dfgen.migrate import ImageDataGenerator

OURS, KERAS = "dfgen.migrate", "Keras"
FILES, SIZE, BATCH = 300, (224, 224), 32
CASES: dict[str, tuple[dict[str, Any], float]] = {
    "no augmentation": ({"rescale": 1 / 255}, 3.0),
    "rotation and shifts": (
        {
            "rescale": 1 / 255,
            "rotation_range": 20,
            "width_shift_range": 0.1,
            "height_shift_range": 0.1,
        },
        5.0,
    ),
}


def main() -> Findings:
    verdicts, charts = [], {}
    for case, (arguments, target) in CASES.items():
        rates = charts[f"JPEG 500x375 to 224x224, {case}, images/s"] = compared(arguments)
        best = rates.best(KERAS)
        print(f"\nJPEG 500x375 to 224x224, {case}", end="")
        rates.show("images", best)
        verdicts.append(Verdict(case, rates.ratio(OURS, best), target, f"x {best}"))
    return finish(verdicts, charts)


def compared(arguments: dict[str, Any]) -> Rates:
    """Drain the same flow of both generators; Keras's by each of its pools."""
    return alternate(
        {
            OURS: drained(ImageDataGenerator(**arguments)),
            f"{KERAS}, 1 worker": drained(KerasGenerator(**arguments), workers=1),
            f"{KERAS}, {THREADS} threads": drained(KerasGenerator(**arguments), workers=THREADS),
            f"{KERAS}, {THREADS} processes": drained(
                KerasGenerator(**arguments), workers=THREADS, use_multiprocessing=True
            ),
        }
    )


def drained(generator: Any, **pool: Any) -> Drain:
    """Return what drains a flow once, by a `fit` that does nothing."""
    frame = pd.DataFrame({"filename": [str(path) for path in photographs()[:FILES]]})
    with contextlib.redirect_stdout(io.StringIO()):
        flow = generator.flow_from_dataframe(
            frame, class_mode=None, target_size=SIZE, batch_size=BATCH, validate_filenames=False
        )
    for name, value in pool.items():
        setattr(flow, name, value)
    model = idle_model()

    def drain() -> int:
        model.fit(flow, verbose=0)
        return FILES

    return drain


if __name__ == "__main__":
    main()
