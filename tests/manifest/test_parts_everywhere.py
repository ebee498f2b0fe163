"""Whatever takes a manifest takes one in parts, and does the same as with one file."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import PIL.Image
import pytest
from command import run

import dfgen
import dfgen.explore
from dfgen.errors import ManifestError
from dfgen.manifest import duplicates, parts_writer
from dfgen.manifest.parts import read_parts_index

ROWS = 24


def picture(path, number):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (20, 24, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for number in range(ROWS):
        picture(folder / "imgs" / ["cat", "dog"][number % 2] / f"{number:02d}.png", number)
    return folder


def made(photos, folder, ending):
    """Make a folder with images and with a manifest of them, and go there."""
    folder.mkdir()
    os.chdir(folder)
    shutil.copytree(photos / "imgs", "imgs")
    out = f"pets.{ending}"
    dfgen.build_manifest(
        "imgs", pattern="{label}/{id}.png", split={"train": 0.75, "val": 0.25}, seed=3, out=out
    )
    return out


@pytest.fixture
def do(photos, tmp_path, monkeypatch):
    """Do a thing with a manifest in one file and with one in parts of 5 rows; return both."""
    monkeypatch.setattr(parts_writer, "PART_ROWS", 5)
    monkeypatch.chdir(tmp_path)

    def both(action):
        found = []
        for ending in ("parquet", "manifest"):
            manifest = made(photos, tmp_path / ending, ending)
            found.append(action(manifest, ending))
            if ending == "manifest":
                assert len(read_parts_index(manifest).parts) > 1
        return found

    return both


def plain(frame):
    """Return what a frame says, without the paths of its folder."""
    text = json.dumps(frame.attrs, default=str, sort_keys=True) + frame.to_json(
        orient="split", default_handler=str
    )
    return re.sub(
        r'/(parquet|manifest)(?=[/"])|(?<=/pets)\.(parquet|manifest)', "", text.replace("\\/", "/")
    )


def rows_after(action):
    """Return an action after which the rows of the manifest are looked at."""

    def act(manifest, ending):
        action(manifest, ending)
        frame = dfgen.read_manifest(manifest)
        return plain(frame.drop(columns="mtime_ns"))

    return act


def grown(manifest, _):
    picture("imgs/cat/new.png", 99)
    dfgen.build_manifest(update=manifest, out=manifest)


def verified(manifest, _):
    os.unlink("imgs/cat/02.png")
    picture("imgs/dog/new.png", 98)
    return plain(dfgen.verify(manifest))


def verified_and_written(manifest, _):
    Path("imgs/cat/02.png").write_bytes(b"broken")
    dfgen.verify(manifest, write=True, decode=True)


def compared(manifest, ending):
    df = dfgen.read_manifest(manifest)
    df.loc[3, "label"] = "cat"
    dfgen.write_manifest(df.drop(index=5), f"new.{ending}")
    return plain(dfgen.diff(manifest, f"new.{ending}"))


def packed(manifest, _):
    dfgen.pack(manifest, "packed", image_size=(8, 8))
    return batches("packed", _), plain(dfgen.read_manifest("packed").drop(columns="mtime_ns"))


def batches(manifest, _):
    with dfgen.Sequence(manifest, "path", "label", image_size=(8, 8), batch_size=5) as sequence:
        return [(x.tobytes(), y.tobytes()) for x, y in (sequence[i] for i in range(len(sequence)))]


def commanded(*arguments):
    def act(manifest, ending):
        done = run(*(str(one).replace("M", manifest, 1) for one in arguments))
        assert done.returncode in (0, 1) and not done.stderr, done.stderr
        return done.stdout.replace(f".{ending}", "")

    return act


def found_leaks(manifest, _):
    shutil.copy("imgs/cat/02.png", "imgs/dog/copy.png")
    with pytest.warns(UserWarning, match="of its picture in an earlier split"):
        df = dfgen.build_manifest(
            "imgs", pattern="{label}/{id}.png", split={"a": 0.5, "b": 0.5}, facts="full"
        )
        dfgen.write_manifest(df, manifest)
    return plain(duplicates.duplicates(manifest)), plain(duplicates.leaks(manifest))


def split_batches(manifest, _):
    found = dfgen.sequences(manifest, y="label", image_size=(8, 8), batch_size=5)
    return {name: [(x.tobytes(), y.tobytes()) for x, y in one] for name, one in found.items()}


def relabelled(manifest, ending):
    Path("fix.csv").write_text("id,label\n02,dog\n")
    return commanded("update-labels", "M", "fix.csv")(manifest, ending)


ACTIONS = {
    "read": rows_after(lambda *_: None),
    "update": rows_after(grown),
    "verify": verified,
    "verify --write": rows_after(verified_and_written),
    "split": rows_after(lambda m, _: dfgen.split(m, {"a": 0.5, "b": 0.5}, out=m)),
    "update_labels": rows_after(
        lambda m, _: dfgen.update_labels(m, pd.DataFrame({"id": ["02"], "label": ["dog"]}))
    ),
    "diff": compared,
    "pack": packed,
    "Sequence": batches,
    "leaks": found_leaks,
    "classes": lambda m, _: plain(dfgen.explore.classes(m)),
    "show_sizes": lambda m, _: len(dfgen.explore.show_sizes(m).axes),
    "sequences": split_batches,
    "pack command": commanded("pack", "M", "--out", "packed", "--image-size", "8,8"),
    "update-labels command": relabelled,
    "verify command": commanded("verify", "M", "--decode"),
    "diff command": commanded("diff", "M", "M"),
    "report command": lambda m, _: (run("report", m, "--out", "pets.html").returncode, m[:4]),
    "bench command": lambda m, _: (
        run("bench", m, "--seconds", "0.1", "--image-size", "8,8").returncode
    ),
    "split command": commanded("split", "M", "--split", "train=0.5", "--split", "val=0.5"),
}


SLOW = {"bench command"}


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(act, id=name, marks=[pytest.mark.slow] * (name in SLOW))
        for name, act in ACTIONS.items()
    ],
)
def test_parts_do_what_one_file_does(do, action):
    one, parts = do(action)
    assert parts == one


def test_labels_of_a_frame_are_kept_beside_parts(do):
    def act(manifest, _):
        labels = pd.DataFrame({"path": ["imgs/cat/00.png", "imgs/dog/01.png"], "kind": ["c", "d"]})
        out = manifest.replace("pets", "labelled")
        dfgen.build_manifest(labels=labels, path_column="path", out=out)
        kept = pd.read_parquet("labelled.labels.parquet")
        dfgen.build_manifest(update=out, out=out)
        return kept.to_json(), plain(dfgen.read_manifest(out)[["id", "kind"]])

    one, parts = do(act)
    assert parts == one


def test_one_part_is_not_taken_for_the_manifest(photos, tmp_path):
    manifest = Path(made(photos, tmp_path / "one", "manifest")).absolute()
    part = manifest / "part-00000.parquet"
    with pytest.raises(ManifestError, match=f"{part} is a part of the manifest {manifest}: give"):
        dfgen.read_manifest(part)
