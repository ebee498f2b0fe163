"""Names and classes of every language, whatever the locale says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest

import dfgen

TURKISH = ("I", "İ", "\u0131", "i")
NAMES = ("ä.PNG", "日本.GIF", "İ.gif", "I.GIF", "\u0131.Png")
CODE = """
import sys, dfgen
frame = dfgen.build_manifest(sys.argv[1], pattern="{kind}/{name}.{suffix}", out=sys.argv[2])
frame = dfgen.read_manifest(sys.argv[2])
print(*sorted(frame["kind"]), frame["problem"].isna().all(), dfgen.verify(sys.argv[2]).empty)
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.loading.loader import Loader
from dfgen.serving.preprocessing import preprocessing_of
bound = bind(SequenceArguments(frame, y="kind"))
loader = Loader(bound.reader, batch_size=len(frame), workers=0)
names = preprocessing_of(bound, "channels_last", None).class_names
print(sorted(loader.batch(0, 0).arrays["label"].tolist()), *names)
"""


def write(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    file = cv2.imencode(".png", np.zeros((4, 4, 3), np.uint8))[1]
    path.write_bytes(file.tobytes())  # the content tells the format, not the suffix


@pytest.mark.skipif(sys.platform != "linux", reason="locales of Linux")
def test_any_file_name_is_read_under_locale_c(tmp_path):
    for place, name in enumerate(NAMES):
        write(tmp_path / "imgs" / f"é{place}" / name)
    command = [sys.executable, "-c", CODE, tmp_path / "imgs", tmp_path / "m.parquet"]
    given = {**os.environ, "LC_ALL": "C"}
    given.pop("PYTHONUTF8", None)
    done = subprocess.run(command, capture_output=True, env=given, timeout=50)
    kinds = " ".join(f"é{place}" for place in range(len(NAMES)))
    assert done.stdout.decode().splitlines()[:2] == [
        f"{kinds} True True",
        f"{[*range(len(NAMES))]} {kinds}",
    ], done.stderr.decode()


def test_turkish_letters_stay_distinct_and_suffixes_are_ascii(tmp_path):
    for name in NAMES:
        write(tmp_path / "imgs" / name)
    write(tmp_path / "imgs" / "x.GİF")  # no suffix of an image in any language
    with pytest.warns(UserWarning, match=r"Left out: 1 path.*x\.GİF"):
        frame = dfgen.build_manifest(tmp_path / "imgs")
    assert sorted(Path(path).name for path in frame["path"]) == sorted(NAMES)
    paths = frame["path"].tolist()[:4]
    labels = {"İd": TURKISH, "ID": TURKISH, "\u0131d": TURKISH[::-1]}
    table = pd.DataFrame({"id": range(4), "path": paths, **labels}).astype({"İd": "category"})
    dfgen.write_manifest(table, tmp_path / "m.parquet")
    read = dfgen.read_manifest(tmp_path / "m.parquet")
    for name, values in labels.items():
        assert read[name].tolist() == [*values]
        with (
            pytest.warns(UserWarning, match="look alike"),  # of these, i and I are
            dfgen.Sequence(read, y=name, image_size=(4, 4), class_names=TURKISH) as sequence,
        ):
            assert sorted(sequence[0][1].tolist()) == [0, 1, 2, 3]


def test_letter_case_never_depends_on_the_locale():
    asks = re.compile(r"\b(?:import locale|setlocale|re\.L|re\.LOCALE|strcoll|strxfrm)\b")
    for path in Path(dfgen.__file__).parent.rglob("*.py"):
        assert not asks.search(path.read_text("utf-8")), path
