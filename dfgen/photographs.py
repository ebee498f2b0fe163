"""The photographs and sounds that `dfgen demo --keep` leaves, for tutorials to start from.

They are cut from seven photographs in `data/photographs`, whose licences are there. Parts of a
photograph do not overlap, so a split by `part` keeps what a model has seen out of its validation.
Each run writes equal files.
"""

import json
import shutil
import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from PIL import Image, ImageDraw

from dfgen.errors import WriteError

Wave = npt.NDArray[np.float64]
Polygon = npt.NDArray[np.float64]
"""The corners (x, y) of an outline in pixels, (n, 2)."""

Photographs = dict[str, Image.Image]

FOLDER = Path(__file__).with_name("data") / "photographs"
THINGS = ("cat", "coffee", "flower", "galaxies", "rocket", "temple")
SIDES = 3  # parts of a photograph along each side
CUTS = 11  # cuts of a part
SHEETS = 240
WINDOWS = 12  # windows around each coin
COIN_SIZE = 128  # pixels of each side of a window
TRAIN_ENDS = 258.0  # column of the photograph between coins of "train" and of "val"
MM_PER_PIXEL = 0.4  # of the photograph of coins, by a coin of 18 mm
RATE = 8000  # samples a second
SOUNDS = 60  # of each kind
ABOUT = """\
# Photographs to begin with

| files | labels | made of |
|---|---|---|
| photos/ | labels.csv; messy.csv holds faults on purpose | cuts of six photographs |
| folders/train/, folders/val/ | the folders cat/ to temple/ | 120 of the photos |
| sheets/ | sheets.csv | four cuts each; their things are tags |
| coins/, masks/ | coins.csv, coins.json (COCO) | windows of one photograph of 24 coins |
| sounds/ | sounds.csv | computed: bells, drums and flutes |

No two parts of a photograph overlap. messy.csv spells things in several ways, gives one row twice,
names two photos that are missing, leaves out two that exist, and calls six by the wrong thing.
`mm_per_pixel` assumes that a pixel of the photograph of coins is 0.4 mm.

"""


def write_photographs(folder: Path) -> None:
    """Write photographs, sounds and their tables into a folder, unless it has them."""
    about = ABOUT + (FOLDER / "README.md").read_text(encoding="utf-8")
    readme = folder / "README.md"
    if readme.exists() and readme.read_text(encoding="utf-8") == about:
        return
    if folder.exists() and any(folder.iterdir()):
        raise WriteError(
            f"{folder} holds other files: expected an empty folder or none, for the photographs of "
            "the demo. Remove it, or name another folder"
        )
    chance = np.random.default_rng(0)
    photographs = {thing: Image.open(FOLDER / f"{thing}.jpg").convert("RGB") for thing in THINGS}
    cuts = _write_cuts(folder, photographs, chance)
    _copy_to_folders(folder, cuts[:120])
    _write_messy_table(folder, cuts, chance)
    _write_sheets(folder, photographs, chance)
    _write_coins(folder, chance)
    _write_sounds(folder, chance)
    readme.write_text(about, encoding="utf-8")


def _save(image: Image.Image, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, quality=88)


def _cut(image: Image.Image, part: int, chance: np.random.Generator) -> Image.Image:
    """Return a random cut of a part of a photograph, 80 to 100 pixels a side."""
    row, column = divmod(part, SIDES)
    height, width = image.height // SIDES, image.width // SIDES
    wide, high = chance.integers(80, 101, 2).clip(max=(width, height))
    x = column * width + chance.integers(width - wide + 1)
    y = row * height + chance.integers(height - high + 1)
    return image.crop((x, y, x + wide, y + high))


def _write_cuts(
    folder: Path, photographs: Photographs, chance: np.random.Generator
) -> pd.DataFrame:
    parts = [(thing, part) for thing in THINGS for part in range(SIDES**2)] * CUTS
    rows = []
    for number, (thing, part) in zip(chance.permutation(len(parts)), parts, strict=True):
        name = f"p{number:04}"
        _save(_cut(photographs[thing], part, chance), folder / f"photos/{number % 10}/{name}.jpg")
        rows.append((name, thing, f"{thing}-{part}"))
    table = pd.DataFrame(rows, columns=["photo", "thing", "part"]).sort_values("photo")
    table.to_csv(folder / "labels.csv", index=False)
    return table.reset_index(drop=True)


def _copy_to_folders(folder: Path, cuts: pd.DataFrame) -> None:
    for photo, thing, part in cuts.itertuples(index=False):
        split = "val" if part.endswith(("0", "4", "8")) else "train"
        copy = folder / f"folders/{split}/{thing}/{photo}.jpg"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / f"photos/{int(photo[1:]) % 10}/{photo}.jpg", copy)


def _write_messy_table(folder: Path, cuts: pd.DataFrame, chance: np.random.Generator) -> None:
    messy = cuts.drop(columns="part")
    rows = chance.permutation(len(messy))
    wrong, unlisted, spelled = rows[:6], rows[6:8], rows[8:20]
    others = {thing: THINGS[number - 1] for number, thing in enumerate(THINGS)}
    messy.loc[wrong, "thing"] = messy.loc[wrong, "thing"].map(others)
    messy.loc[spelled[::2], "thing"] = messy.loc[spelled[::2], "thing"].str.upper()
    messy.loc[spelled[1::2], "thing"] += " "
    missing = pd.DataFrame({"photo": ["p9001", "p9002"], "thing": ["cat", "rocket"]})
    twice = messy.loc[rows[20:21]]
    messy = pd.concat([messy[~messy.index.isin(unlisted)], twice, missing])
    messy.to_csv(folder / "messy.csv", index=False)


def _write_sheets(folder: Path, photographs: Photographs, chance: np.random.Generator) -> None:
    rows = []
    for number in range(SHEETS):
        part = int(chance.integers(SIDES**2))
        things = chance.choice(THINGS, chance.integers(1, 4), replace=False)
        sheet = Image.new("RGB", (160, 160))
        for place, thing in enumerate(
            chance.permutation([*things, *chance.choice(things, 4 - len(things))])
        ):
            cut = _cut(photographs[thing], part, chance).resize((80, 80))
            sheet.paste(cut, (place % 2 * 80, place // 2 * 80))
        _save(sheet, folder / f"sheets/s{number:04}.jpg")
        rows.append((f"s{number:04}", "|".join(sorted(things)), part))
    pd.DataFrame(rows, columns=["sheet", "things", "part"]).to_csv(
        folder / "sheets.csv", index=False
    )


def _clip(polygon: Polygon, box: tuple[float, float, float, float]) -> Polygon:
    """Return a convex polygon inside (left, top, right, bottom), by Sutherland and Hodgman."""
    for axis, bound, sign in ((0, box[0], 1), (1, box[1], 1), (0, box[2], -1), (1, box[3], -1)):
        inside = sign * (polygon[:, axis] - bound)
        kept: list[Polygon] = []
        for here, there, near, far in zip(
            polygon, np.roll(polygon, -1, 0), inside, np.roll(inside, -1), strict=True
        ):
            kept += [here] if near >= 0 else []
            kept += [here + (there - here) * near / (near - far)] if near * far < 0 else []
        polygon = np.array(kept).reshape(-1, 2)
        if not len(polygon):
            break
    return polygon


def _area(polygon: Polygon) -> float:
    x, y = polygon.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def _write_coins(folder: Path, chance: np.random.Generator) -> None:
    photograph = Image.open(FOLDER / "coins.jpg")
    coins = [np.array(coin) for coin in json.loads((FOLDER / "coins.json").read_bytes())]
    images: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    rows = []
    for number in range(WINDOWS * len(coins)):
        coin = coins[number % len(coins)]
        middle, size = (coin.min(0) + coin.max(0)) / 2, float(np.ptp(coin, axis=0).mean())
        train = middle[0] < TRAIN_ENDS
        low = np.array([0.0 if train else TRAIN_ENDS, 0.0])
        high = np.array([TRAIN_ENDS if train else photograph.width, photograph.height])
        side = chance.uniform(72, 116)
        corner = (middle - side * chance.uniform(0.35, 0.65, 2)).clip(low, high - side)
        left, top = map(float, corner)
        box = (left, top, left + side, top + side)
        scale = COIN_SIZE / side
        name = f"c{number:04}"
        window = photograph.resize((COIN_SIZE, COIN_SIZE), Image.Resampling.BILINEAR, box)
        _save(window, folder / f"coins/{name}.jpg")
        seen = [_clip(other, box) for other in coins]
        seen = [
            (part - corner) * scale
            for part, other in zip(seen, coins, strict=True)
            if len(part) > 2 and _area(part) > 0.15 * _area(other)
        ]
        mask = Image.new("L", (COIN_SIZE, COIN_SIZE))
        for part in seen:
            ImageDraw.Draw(mask).polygon([tuple(corner) for corner in part], fill=1)
            annotations.append(_annotation(part, number, len(annotations)))
        _save(mask, folder / f"masks/{name}.png")
        images.append(
            {"id": number, "file_name": f"{name}.jpg", "width": COIN_SIZE, "height": COIN_SIZE}
        )
        split, mm = "train" if train else "val", round(MM_PER_PIXEL / scale, 4)
        rows.append((name, split, len(seen), mm, round(size * MM_PER_PIXEL, 1)))
    columns = ["coin", "split", "coins", "mm_per_pixel", "diameter_mm"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "coins.csv", index=False)
    coco = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "coin"}]}
    (folder / "coins.json").write_text(json.dumps(coco), encoding="utf-8")


def _annotation(polygon: Polygon, image: int, number: int) -> dict[str, object]:
    corners = polygon.round(2)
    left, top = corners.min(0)
    width, height = np.ptp(corners, axis=0).round(2)
    return {
        "id": number + 1,
        "image_id": image,
        "category_id": 1,
        "bbox": [left, top, width, height],
        "area": round(_area(corners), 2),
        "iscrowd": 0,
        "segmentation": [corners.ravel().tolist()],
    }


def _bell(time: Wave, pitch: float, chance: np.random.Generator) -> Wave:
    tone = np.zeros_like(time)
    for partial, loud in ((1, 1.0), (2.76, 0.6), (5.4, 0.3)):
        tone += loud * np.sin(2 * np.pi * pitch * partial * time)
    return tone * np.exp(-4 * time)


def _drum(time: Wave, pitch: float, chance: np.random.Generator) -> Wave:
    beat = np.sin(2 * np.pi * pitch / 4 * time) + 0.5 * chance.normal(size=time.size)
    return beat * np.exp(-12 * time)


def _flute(time: Wave, pitch: float, chance: np.random.Generator) -> Wave:
    vibrato = 0.001 * np.sin(2 * np.pi * 5 * time)
    tone = np.sin(2 * np.pi * pitch * (time + vibrato)) + 0.1 * chance.normal(size=time.size)
    return tone * np.minimum(time * 10, 1)


VOICES = {"bell": _bell, "drum": _drum, "flute": _flute}


def _write_sounds(folder: Path, chance: np.random.Generator) -> None:
    (folder / "sounds").mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, str]] = []
    for number in chance.permutation(SOUNDS * len(VOICES)):
        kind = list(VOICES)[len(rows) % len(VOICES)]
        time = np.arange(int(RATE * chance.uniform(0.4, 1.2))) / RATE
        sound = VOICES[kind](time, float(chance.uniform(300, 900)), chance)
        noisy = sound / np.abs(sound).max() + 0.05 * chance.normal(size=time.size)
        with wave.open(str(folder / f"sounds/w{number:03}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes((noisy.clip(-1, 1) * 32767).astype("<i2").tobytes())
        rows.append((f"w{number:03}", kind))
    table = pd.DataFrame(rows, columns=["sound", "kind"]).sort_values("sound")
    table.to_csv(folder / "sounds.csv", index=False)
