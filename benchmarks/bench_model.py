"""Does a MobileNet that trains on the CPU ever wait for its input?"""

import numpy as np
import pandas as pd
from corpus import photographs
from headroom import Headroom, headroom
from measure import Findings, Verdict, finish

import dfgen
from dfgen.bench.stages import application

SIZE, CLASSES = 224, 1000


def main() -> Findings:
    result = trained("MobileNet", batch=32, size=SIZE, rounds=3)
    show(result)
    return finish(
        [Verdict("MobileNet on the CPU, input_wait", result.input_wait, 0.01, "of the step",
                 at_most=True)]
    )  # fmt: skip


def trained(name: str, batch: int, size: int, rounds: int) -> Headroom:
    """Train a model on the photographs, and on batches of them that stay in memory, in turn."""
    paths = [str(path) for path in photographs()]
    rows = np.arange(len(paths))
    frame = pd.DataFrame({"id": rows, "path": paths, "label": rows % CLASSES})

    def sequence() -> dfgen.Sequence:
        return dfgen.Sequence(frame, y="label", image_size=(size, size), batch_size=batch)

    model = application(name, (size, size, 3))
    return headroom(name, model, sequence, rounds)


def show(result: Headroom) -> None:
    """Print what a model made of loose files, and of batches from memory."""
    print(f"\n{result.model}, {result.steps} steps{'images/s':>30} {'lowest .. highest':>21}")
    for what, rates in (("dfgen", result.fed), ("batches in memory", result.perfect)):
        print(f"{what:<44}{np.median(rates):>10,.1f} {min(rates):>12,.1f} .. {max(rates):,.1f}")
    print(f"input_wait {result.input_wait:.2%}")


if __name__ == "__main__":
    main()
