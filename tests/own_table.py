"""A folder of photographs in mixed formats, and a European table of them with every mess in it."""

from pathlib import Path

import cv2
import numpy as np
import PIL.Image

KINDS = ("coffee", "tea", "cocoa")
COLOURS = ((90, 60, 40), (180, 150, 60), (120, 40, 90))
MODERN = (
    "avif" if ".avif" in PIL.Image.registered_extensions() else "webp"
)  # the lowest Pillow writes none
SUFFIXES = (*["jpg"] * 12, "JPG", "jpeg", "png", "webp", "tif", "bmp", "gif", MODERN)

MISSPELT = {100: "Tea", 101: "cocoa ", 102: "coffe", 103: "Tea"}
UNLABELLED, NO_ROW, EMPTY, CUT, DEEP, NO_PICTURE, CMYK = 104, 130, 5, 17, 34, 63, 61
WRONG = (200, 211, 222, 233, 244, 255)
"""Rows whose label is that of another kind: what predictions are to find."""


def write(folder: Path, number: int = 2000, size: tuple[int, int] = (24, 32)) -> None:
    """Write `fotos/2024-MM/NNNNN.EXT` and `liste.csv`; a photograph has the colour of its kind."""
    generator = np.random.default_rng(0)
    lines = ["Nummer;Art;Gewicht;Aufnahme;Bemerkung"]
    for row in range(number):
        path = folder / "fotos" / f"2024-{row % 12 + 1:02}" / f"{row:05}.{SUFFIXES[row % 20]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = generator.integers(-40, 40, (*size, 1)) + generator.integers(-15, 15, 3)
        pixels = np.clip(np.array(COLOURS[row % 3]) + noise, 0, 255).astype(np.uint8)
        _save(path, pixels, row)
        kind = KINDS[(row + (row in WRONG)) % 3]
        kind = MISSPELT.get(row, "" if row == UNLABELLED else kind)
        day = f"{row % 28 + 1:02}.{row % 12 + 1:02}.2024"
        if row != NO_ROW:
            lines.append(f"{row:05};{kind};{row / 8:.2f};{day};schön".replace(".", ",", 1))
    lines += ["99999;tea;3,50;01.01.2024;ohne Foto", "00007;tea;1,00;01.01.2024;doppelt"]
    (folder / "liste.csv").write_bytes("\r\n".join(lines).encode("cp1252"))


def _save(path: Path, pixels: np.ndarray, row: int) -> None:
    picture = PIL.Image.fromarray(pixels)
    if row == EMPTY:
        path.touch()
    elif row == NO_PICTURE:
        path.write_text("<html>404</html>")
    elif row == DEEP:
        cv2.imwrite(str(path), pixels[..., ::-1].astype(np.uint16) * 257)
    else:
        picture.convert("CMYK" if row == CMYK else "RGB").save(path)
    if row == CUT:
        path.write_bytes(path.read_bytes()[:500])
