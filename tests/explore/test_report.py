"""`dfgen.explore.report`: a manifest as one HTML file."""

import base64
import re

import cv2
import numpy as np
import pandas as pd
import pytest
from public.test_explore import rows as rows

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingFileError, WriteError
from dfgen.explore import report


def page(manifest, path, **options):
    report(manifest, path, **options)
    return path.read_text("utf-8")


def sections(text):
    return re.findall("<h2>(.*?)</h2>", text)


def images(text):
    data = re.findall('src="data:image/png;base64,([^"]+)"', text)
    return [cv2.imdecode(np.frombuffer(base64.b64decode(one), np.uint8), 1) for one in data]


def test_page_has_figures_and_tables_of_everything(rows, tmp_path):
    full = rows.assign(width=4, height=4, bytes=90, problem=[None] * 9 + ["broken"])
    full = full.assign(digest=[*"aacdefghij"], phash=np.arange(10, dtype=np.uint64) * 2**40)
    predicted = rows[["id"]].assign(
        y_true=rows.label, y_pred=pd.Categorical(["even"] * 10, ["even", "odd"]),
        prob=[np.array([0.9, 0.1])] * 10, loss=1.0,
    )  # fmt: skip
    text = page(full, tmp_path / "a.html", predictions=predicted)
    assert [name.partition(":")[0] for name in sections(text)] == [
        "Columns", "Classes", "Sizes", "Problems", "Duplicates", "Leaks", "Scores", "Confusion",
        "Worst rows", "Likely mislabels", "Highest loss", "Rows",
    ]  # fmt: skip
    assert len(images(text)) == 9 and "broken" in text and "10 rows, 50.0% right" in text
    assert not re.search(r"https?:|<script|<link", text)


def test_file_and_predictions_of_a_file_are_taken(rows, tmp_path):
    dfgen.write_manifest(rows, tmp_path / "rows.parquet", root=rows.path[0].rpartition("/")[0])
    predicted = rows[["id"]].assign(y_pred=rows.label.astype(str), y_true=rows.label.astype(str))
    predicted.to_parquet(tmp_path / "p.parquet")
    text = page(tmp_path / "rows.parquet", tmp_path / "a.html", predictions=tmp_path / "p.parquet")
    assert "<h1>rows.parquet</h1>" in text and images(text)[-1].shape[1] > 1000


def test_unusual_frames_make_a_page(rows, tmp_path):
    more = {"digest": ["a"] * 2 + [*"bcdefghi"], "phash": np.arange(10, dtype=np.uint64) * 2**40}
    tagged = rows.assign(tag=["a"] + [["b", "c"]] * 9)
    odd = rows.drop(columns="id"), rows.assign(id=1), rows.set_axis([0] * 10), rows[["id", "path"]]
    for frame in (*odd, tagged):
        assert "Rows" in sections(page(frame.assign(**more), tmp_path / "a.html"))


def test_every_value_is_escaped(rows, tmp_path):
    evil = "<script>alert(1)</script>"
    rows = rows.assign(**{evil: evil, "label": evil, "problem": evil, "path": evil})
    text = page(rows.assign(**{"y_pred_<b>": pd.Categorical([evil] * 10)}), tmp_path / "a.html")
    assert "<script" not in text and "<b>" not in text and "&lt;script&gt;" in text


def test_page_stays_below_15_mb(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (160, 160, 3), np.uint8)  # 16 MB as PNG
    cv2.imwrite(f"{tmp_path}/a.png", noise)
    rows = pd.DataFrame({"id": range(180), "path": f"{tmp_path}/a.png", "x" * 500: "y" * 10_000})
    text = page(rows, tmp_path / "a.html", rows=180)
    assert 1e6 < len(text.encode()) <= 15e6 and sections(text)[-1] == "Rows"


def test_wrong_arguments_and_other_files_are_refused(rows, tmp_path):
    for name, count, message in (("a.pdf", 1, "html"), ("a.html", 0, "rows")):
        with pytest.raises(ArgumentError, match=message):
            report(rows, tmp_path / name, rows=count)
    with pytest.raises(ManifestError, match="predict"):
        report(rows, tmp_path / "a.html", predictions=rows)
    (tmp_path / "a.html").write_text("<h1>mine</h1>")
    with pytest.raises(WriteError, match="report"):
        report(rows, tmp_path / "a.html")
    for _ in range(2):
        report(rows[:1], tmp_path / "b.html")


@pytest.mark.parametrize("predictions", ["nope.parquet", "labels.csv"])
def test_predictions_that_cannot_be_read_raise(rows, tmp_path, monkeypatch, predictions):
    monkeypatch.chdir(tmp_path)
    rows.to_csv("labels.csv")
    with pytest.raises((ManifestError, MissingFileError), match="predictions="):
        report(rows, "a.html", predictions=predictions)


def test_dates_without_any_duplicate(rows, tmp_path):
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(rows)), unit="D")
    full = rows.assign(date=dates, digest=[*"abcdefghij"], split=["train", "val"] * 5)
    assert "Leaks" in page(full, tmp_path / "a.html")
