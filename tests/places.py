"""Rows of images whose pixels are their numbers, in every place where dfgen reads files."""

import contextlib
import io
import re
import tarfile
import zipfile
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import pandas as pd
from packed import packed

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.loading.loader import Loader
from dfgen.samples.features.array import Array
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask

PLACES = ["cache", "memory", "zip", "tar", "table", "list", "mask", "pack", "rows"]
SIZE = (4, 4)


def png(number, size=SIZE):
    return cv2.imencode(".png", np.full(size, number, np.uint8))[1].tobytes()


def cut(number):
    """A PNG of which the end is missing."""
    return png(number, (40, 40))[:-30]


@dataclass
class Held:
    """Rows in a place, and what reads them."""

    manifest: Any
    x: Any = field(default_factory=lambda: Image("path", size=SIZE))
    more: dict = field(default_factory=dict)
    name: str = "image"

    @contextlib.contextmanager
    def loader(self, on_error="raise", limits=None, transform=None, **options):
        """A Loader of them, closed at the end."""
        bound = bind(
            self.manifest, self.x, options=Options(label_mode=None), on_error=on_error,
            limits=limits, transform=transform, **self.more,
        )  # fmt: skip
        options = {"batch_size": 4, "shuffle": False, "workers": 2, **options}
        loader = Loader(
            bound.reader, problems=bound.problems, on_error=on_error, limits=limits, **options
        )
        with contextlib.closing(loader):
            yield loader

    def batches(self, epochs=1, **options):
        """Return the batches of some epochs, and number -> why of rows that are problems."""
        with self.loader(**options) as loader:
            found = [
                {name: np.array(array) for name, array in batch.arrays.items()}
                for epoch in range(epochs)
                for batch in loader.batches(epoch)
            ]
            ids = loader.reader.ids
            told = {re.sub(r"\D", "", str(ids[row])): str(w) for row, w in loader.problems.items()}
            return found, told

    def rows(self, **options):
        """Return the numbers that the pixels show, and the problems."""
        found, problems = self.batches(**options)
        arrays = [batch[self.name] for batch in found]
        return [
            int(a.reshape(len(a), -1)[i].max()) for a in arrays for i in range(len(a))
        ], problems


def write_all(folder, contents):
    folder.mkdir(exist_ok=True)
    for row, data in enumerate(contents):
        (folder / f"{row}.png").write_bytes(data)
    return [str(folder / f"{row}.png") for row in range(len(contents))]


def archive(path, contents):
    """Write a zip or tar, whose members have the same times whenever it is written."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as file:
            for row, data in enumerate(contents):
                file.writestr(zipfile.ZipInfo(f"{row}.png"), data)
    else:
        with tarfile.open(path, "w") as file:
            for row, data in enumerate(contents):
                info = tarfile.TarInfo(f"{row}.png")
                info.size = len(data)
                file.addfile(info, io.BytesIO(data))
    return [f"{path.suffix[1:]}://{row}.png::{path}" for row in range(len(contents))]


def held(place, folder, contents):
    """Rows whose files have these contents."""
    frame = pd.DataFrame({"id": range(len(contents))})
    if place in ("zip", "tar"):
        return Held(frame.assign(path=archive(folder / f"a.{place}", contents)))
    if place == "table":
        return Held(frame.assign(path=contents))
    if place == "rows":
        np.save(folder / "a.npy", np.stack([np.full((*SIZE, 3), n, np.uint8) for n in contents]))
        frame = frame.assign(path=str(folder / "a.npy"), index=range(len(contents)))
        return Held(
            frame, Array("path", index="index", shape=(*SIZE, 3), dtype="uint8"), name="array"
        )
    paths = write_all(folder / "imgs", contents)
    frame["path"] = paths
    if place == "list":
        frame["path"] = [[paths[0], path] for path in paths]
        return Held(frame, Image("path", size=SIZE, max_items=3))
    if place == "mask":
        write_all(folder / "good", [png(0)] * len(contents))
        frame["mask"] = frame["path"]
        frame["path"] = [path.replace("/imgs/", "/good/") for path in paths]
        x = {"image": Image("path", size=SIZE), "mask": Mask("mask", like="image")}
        return Held(frame, x, name="mask")
    if place == "pack":
        packed(frame, folder / "pack", format="original")
        order = dfgen.read_manifest(folder / "pack").sort_values("id", ignore_index=True)
        return Held(order, Image("path", size=SIZE))
    return Held(frame, more={"cache": "memory" if place == "memory" else folder / "cache"})
