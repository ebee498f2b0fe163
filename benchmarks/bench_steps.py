"""What does `steps_per_execution` gain on JAX, where rows are small and steps short?

PNG of 32x32 in a column of the table, so that no disk counts; then files whose pixels are kept by
`cache="memory"`, so that no decoding does. A model of one layer.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from corpus import small_images
from in_memory import rest
from measure import THREADS, Findings, Rates, Verdict, alternate, finish, in_new_process

ROWS, BATCH, SIZE = 8192, 32, 32
COUNTS = (1, 8, 32)
DRAINED = "batches alone, no model"


def main() -> Findings:
    if find_spec("jax") is None:
        print("left out: jax (to have it: pip install jax)")
        return finish([])
    verdicts = []
    for what, cache in (("PNG 32x32 from memory", None), ("PNG 32x32, cached", "memory")):
        keras, rates = in_new_process(measured, cache, backend="jax")
        print(f"\n{what}, batch {BATCH}, JAX, Keras {keras}, {THREADS} CPUs", end="")
        rates.show("images", steps(1))
        limit = f"batches alone, without a model: {rates.ratio(DRAINED, steps(1)):.2f} x"
        gained = rates.ratio(steps(32), steps(1))
        name = f"{what}, JAX, {steps(32)}"
        verdicts.append(Verdict(name, gained, 1, f"x {steps(1)}", aim=2, limit=limit))
    return finish(verdicts)


def steps(count: int) -> str:
    return f"steps_per_execution={count}"


def measured(cache: str | None) -> tuple[str, Rates]:
    """Return Keras's version, and the images per second of each number of steps."""
    import keras
    import pyarrow as pa

    import dfgen

    paths = small_images()[:ROWS]
    files = [str(path) if cache else path.read_bytes() for path in paths]
    labels = [row % 10 for row in range(ROWS)]
    table = pa.table({"id": range(ROWS), "image": files, "label": labels})
    image = dfgen.Image("image", size=(SIZE, SIZE))

    def passes(model: Any) -> Callable[[], int]:
        """Pass after pass; nothing is made ahead while others are timed."""
        options = {"batch_size": BATCH, "workers": THREADS, "cache": cache}
        made = dfgen.Sequence(table, x=image, y="label", **options)

        def once() -> int:
            if model is None:
                for _ in made:
                    pass
            else:
                model.fit(made, verbose=0)
            rest(made._loader)
            return ROWS

        return once

    candidates = {DRAINED: passes(None)}
    candidates |= {steps(count): passes(classifier(count)) for count in COUNTS}
    return keras.__version__, alternate(candidates, rounds=7)


def classifier(count: int) -> Any:
    import keras

    layers = keras.layers
    model = keras.Sequential([layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, steps_per_execution=count)
    return model


if __name__ == "__main__":
    main()
