"""Made formats_1/, which every later version must read. Run once per format version."""

import json
import tempfile
from pathlib import Path

import cv2
import numpy as np
import pandas as pd

import dfgen

FOLDER = Path(__file__).parent / "formats_1"
KINDS = ["cat", "dog", "cat", "dog", "cat", "dog"]
CLASSES = ["dog", "cat", "bird"]
IDS = [10, 11, 12, 13, 14, 15]


def pixels_of(row):
    """The image of a row: its number in red, and where each pixel is."""
    return np.stack(np.broadcast_arrays(row, *np.ogrid[:4, :4]), axis=-1).astype(np.uint8)


def frame(scratch):
    """Write six images, and return the frame of them."""
    for row in range(len(IDS)):
        cv2.imwrite(f"{scratch}/{row}.png", pixels_of(row)[..., ::-1])
    df = pd.DataFrame({"id": IDS, "path": [f"{scratch}/{row}.png" for row in range(len(IDS))]})
    df["kind"] = pd.Categorical(KINDS, categories=CLASSES)
    return df


def main():
    """Write all formats but that of a manifest in one file, which is older."""
    with tempfile.TemporaryDirectory() as scratch:
        df = frame(scratch)
        dfgen.write_manifest(df, FOLDER / "pets.manifest", root=scratch)
        dfgen.pack(df, FOLDER / "pixels", image_size=(4, 4))
        dfgen.pack(df, FOLDER / "original", format="original")
        with dfgen.Sequence(df, y="kind", image_size=(4, 4), batch_size=2, seed=3) as seq:
            batches = iter(seq)
            next(batches), next(batches)
            (FOLDER / "state.json").write_text(json.dumps(seq.state_dict()), "utf-8")
            (FOLDER / "preprocessing.json").write_text(seq.preprocessing().to_json(), "utf-8")


if __name__ == "__main__":
    main()
