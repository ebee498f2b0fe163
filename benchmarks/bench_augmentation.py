"""What do RandAugment, CutMix and MixUp cost in the workers, and as layers of the model?

The network behind them is one dense layer. On a GPU, layers take no time from the workers.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pandas as pd
import PIL.Image
from corpus import shrunk_photographs
from in_memory import rest
from measure import THREADS, Findings, Verdict, alternate, finish
from PIL import ImageEnhance, ImageOps

import dfgen

SIZE, BATCH, CLASSES = 128, 32, 10
Batch = dict[str, npt.NDArray[Any]]
STEPS: list[Callable[[Any, float], Any]] = [
    lambda image, strength: ImageOps.autocontrast(image),
    lambda image, strength: ImageOps.equalize(image),
    lambda image, strength: image.rotate(30 * strength),
    lambda image, strength: ImageEnhance.Color(image).enhance(1 + strength / 2),
    lambda image, strength: ImageEnhance.Contrast(image).enhance(1 + strength / 2),
]


def main() -> Findings:
    files = [str(file) for file in shrunk_photographs()]
    kinds = pd.Categorical([f"{number % CLASSES}" for number in range(len(files))])
    frame = pd.DataFrame({"id": range(len(files)), "path": files, "kind": kinds})
    layers = keras.layers
    rates = alternate(
        {
            "none": fitted(frame),
            "transform, RandAugment": fitted(frame, transform=rand_augment),
            "batch_transform, CutMix": fitted(frame, batch_transform=cut_mix),
            "batch_transform, MixUp": fitted(frame, batch_transform=mix_up),
            "layer, MixUp": fitted(frame, layers.MixUp()),
            "layer, CutMix": fitted(frame, layers.CutMix()),
            "layer, RandAugment": fitted(frame, layers.RandAugment()),
        },
        rounds=4,
    )
    print(f"\nfit, JPEG 256x256 -> {SIZE}, {keras.backend.backend()}, {THREADS} CPUs", end="")
    rates.show("images", "none")
    targets = {"batch_transform, CutMix": 0.8, "batch_transform, MixUp": 0.7, "layer, MixUp": 0.7}
    verdicts = [
        Verdict(name, rates.ratio(name, "none"), least, "x no augmentation")
        for name, least in targets.items()
    ]
    return finish(verdicts, {f"Augmentation, JPEG 256x256 to {SIZE}x{SIZE}": rates})


def fitted(frame: pd.DataFrame, layer: Any = None, **functions: Any) -> Callable[[], int]:
    """Train an epoch; nothing is made ahead while others are timed."""
    image = dfgen.Image(size=(SIZE, SIZE))
    label = dfgen.Category("kind", label_mode="categorical")
    x: Any = image if layer is None else {"images": image, "labels": label}
    train = dfgen.Sequence(frame, x, label, batch_size=BATCH, workers=THREADS, **functions)
    model = network(layer)

    def once() -> int:
        model.fit(train, verbose=0)
        rest(train._loader)
        return len(frame)

    return once


def network(layer: Any) -> Any:
    layers = keras.layers
    shapes = {"images": (SIZE, SIZE, 3), "labels": (CLASSES,)}
    inputs = {name: keras.Input(shape, name=name) for name, shape in shapes.items()}
    mixed = inputs if layer is None else layer(inputs)
    pooled = layers.GlobalAveragePooling2D()(layers.Rescaling(1 / 255)(mixed["images"]))
    found = layers.Dense(CLASSES, activation="softmax")(pooled)
    if layer is None:
        model = keras.Model(inputs["images"], found)
        model.compile("sgd", "categorical_crossentropy")
    else:
        model = keras.Model(inputs, MixedLoss()(found, mixed["labels"]))
        model.compile("sgd")
    return model


class MixedLoss(keras.layers.Layer):  # type: ignore[misc]
    def call(self, found: Any, labels: Any) -> Any:
        self.add_loss(keras.losses.CategoricalCrossentropy()(labels, found))
        return found


def rand_augment(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    image = PIL.Image.fromarray(sample["image"])
    for step in rng.choice(len(STEPS), 2, replace=False):
        image = STEPS[step](image, rng.uniform(-1, 1))
    return {**sample, "image": np.asarray(image)}


def cut_mix(batch: Batch, rng: np.random.Generator) -> Batch:
    images, labels = batch["image"], batch["label"]
    length = int(SIZE * rng.uniform() ** 0.5)
    top, left = rng.integers(SIZE - length + 1, size=2)
    cut = np.s_[:, top : top + length, left : left + length]
    pasted = images.copy()
    pasted[cut] = images[::-1][cut]
    share = (length / SIZE) ** 2
    return {**batch, "image": pasted, "label": (1 - share) * labels + share * labels[::-1]}


def mix_up(batch: Batch, rng: np.random.Generator) -> Batch:
    share, images, labels = rng.beta(0.2, 0.2), batch["image"].astype("float32"), batch["label"]
    mixed = share * images + (1 - share) * images[::-1]
    return {**batch, "image": mixed, "label": share * labels + (1 - share) * labels[::-1]}


if __name__ == "__main__":
    main()
