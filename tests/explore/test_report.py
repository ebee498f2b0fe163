"""`dfgen report`: the file itself. What a browser makes of it is in test_report_browser.py."""

import base64
import json
import os
import re
import shutil
from html.parser import HTMLParser

import command
import cv2
import numpy as np
import pandas as pd
import pytest
from PIL import Image

import dfgen
from dfgen.explore import report
from dfgen.explore.frame_sections import _NOT_LOOKED_FOR
from dfgen.explore.page_section import element, json_block, source_hash
from dfgen.explore.report_file import LARGEST, as_webp

NASTY = [
    "<script>alert(1)</script>", "</script><!--", "a\u2028b", "\"'><img src=x onerror=alert(1)>",
]  # fmt: skip


class Page(HTMLParser):
    """The tags of a page, the text of its scripts, and the text that is seen."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.styles, self.seen = [], [], [], []
        self._into = self.seen
        self.feed(text)
        self.data = json.loads(self.scripts[0])
        self.boxes = {
            told["aria-label"].removesuffix(". Arrow keys move, Enter opens"): (
                json.loads(told["data-rows"]),
                json.loads(told.get("data-notes", "[]")),
            )
            for _, told in self.tags
            if "data-rows" in told
        }
        self.text = text

    def cells(self, class_):
        """Return the texts of a table."""
        table = re.search(f'<table class="{class_}">(.*?)</table>', self.text)[1]
        return re.findall("<t[hd][^>]*>([^<]+)</t[hd]>", table)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._into = {"script": self.scripts, "style": self.styles}.get(tag, self.seen)

    def handle_endtag(self, tag):
        self._into = self.seen

    def handle_data(self, data):
        self._into.append(data)


def page_of(manifest, tmp_path, **arguments):
    report(manifest, tmp_path / "page.html", **arguments)
    return Page((tmp_path / "page.html").read_text("utf-8"))


@pytest.mark.parametrize("text", NASTY)
def test_a_block_of_json_holds_any_text(text):
    block = json_block({text: [text]})
    assert not re.search("[<>&\u2028\u2029]", block)
    assert json.loads(block) == {text: [text]}
    assert Page(f"<script>{block}</script>").data == {text: [text]}


def test_what_is_no_markup_is_escaped():
    assert (
        element("a", "<", element("b"), href='"', class_=None) == '<a href="&quot;">&lt;<b></b></a>'
    )


def test_only_the_scripts_of_the_page_may_run_and_nothing_may_be_loaded(frame, tmp_path):
    page = page_of(frame(3), tmp_path)
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv"))
    assert policy == (
        "default-src 'none'; img-src data:; "
        f"style-src '{source_hash(page.styles[0])}'; script-src '{source_hash(page.scripts[1])}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_the_page_holds_the_pictures_and_facts_of_its_rows(frame, tmp_path):
    df = frame(5)
    df["box"] = [[row, 0.5] for row in range(5)]
    df["when"] = pd.Timestamp("2026-01-02")
    df["none"] = [None, np.nan, pd.NA, pd.NaT, 2**60]
    data = page_of(df, tmp_path).data
    assert [one["name"] for one in data["columns"]] == [
        "id", "path", "label", "box", "when", "none",
    ]  # fmt: skip
    assert data["rows"]["4"]["values"][3:] == ["4, 0.5", "2026-01-02", str(2**60)]
    assert [data["rows"][str(row)]["values"][5] for row in range(4)] == [None] * 4
    webp = np.frombuffer(base64.b64decode(data["rows"]["3"]["picture"]), np.uint8)
    assert cv2.imdecode(webp, cv2.IMREAD_COLOR)[0, 0].tolist() == [0, 0, 3]  # row 3, as BGR


def test_times_are_dates_and_no_classes(frame, tmp_path):
    when = pd.Series(pd.to_datetime(["2026-01-02", None, "2026-03-04", "2026-02-03"]))
    for times in (when, when.dt.tz_localize("UTC"), when.astype("datetime64[s]")):
        page = page_of(frame(4).assign(when=times), tmp_path)
        assert "2026-01-02 to 2026-03-04" in page.seen
        assert not re.search("17[67][0-9]{6}", " ".join(page.seen))  # seconds since 1970
        assert page.data["caption"] == [2]  # the label, and no date
    facts = frame(2).assign(bytes=[2_500_000, 7], year=2026)
    columns = page_of(facts, tmp_path).data["columns"]
    assert [one["name"] for one in columns if one["counts"]] == ["bytes"]


def test_a_file_that_is_missing_broken_or_huge_is_a_tile_that_tells_why(frame, files, tmp_path):
    df = frame(4)
    df.loc[1, "path"] = f"{tmp_path}/none.png"
    (tmp_path / "cut.jpg").write_bytes(b"\xff\xd8\xff\xe0 and no more")
    df.loc[2, "path"] = f"{tmp_path}/cut.jpg"
    Image.new("1", (3000, 3000)).save(tmp_path / "huge.png")
    df.loc[3, "path"] = f"{tmp_path}/huge.png"
    rows = page_of(df, tmp_path, limits=dfgen.Limits(decoded_bytes=1_000_000)).data["rows"]
    assert [("picture" in one, one.get("reason", "")[:28]) for one in rows.values()] == [
        (True, ""), (False, "the file does not exist"), (False, "broken jpeg header: it ends "),
        (False, "the image is 3000 x 3000, 36"),
    ]  # fmt: skip


def test_boxes_are_drawn_with_the_names_of_their_classes(frame, tmp_path):
    boxes = [[[0, 1, 2, 3], [1, 1, 4, 4]], []]
    df = frame(2).assign(boxes=boxes, labels=[["cat", NASTY[0]], []])
    one, other = page_of(df, tmp_path).data["rows"].values()
    assert (one["boxes"], one["labels"]) == ([[0, 1, 2, 3], [1, 1, 4, 4]], ["cat", NASTY[0]])
    assert "boxes" not in other


def test_text_of_users_is_text_wherever_it_stands_and_asks_for_nothing(frame, files, tmp_path):
    """In labels, names of columns, paths, ids, boxes and predictions, in files that are pages."""
    df, named = frame(8), tmp_path / NASTY[3]
    shutil.copy(files[0], f"{named}.png")
    named.with_suffix(".svg").write_text(f"<svg onload='alert(1)'>{NASTY[0]}</svg>")
    df["id"] = [f"{row} {text}" for row, text in enumerate(NASTY * 2)]
    df.loc[:2, "path"] = [f"{named}.png", f"{named}.svg", "javascript:alert(1)//.png"]
    classes = pd.Categorical(NASTY * 2)
    df["label"], df[NASTY[0]], df["split"], df["problem"] = (classes, *[NASTY * 2] * 3)
    df["tags"], df["link"] = [[text, "k"] for text in NASTY * 2], "http://127.0.0.1:9/x.png"
    df["boxes"], df["labels"] = [[[0, 0, 3, 3]]] * 8, [[text] for text in NASTY * 2]
    df.attrs["dfgen"] = {"root": NASTY[0], "labels": {NASTY[1]: NASTY[3]}, "recipe": None}
    said = pd.DataFrame({"id": df["id"], "y_true": classes, "y_pred": classes[::-1], "loss": 1.0,
                         "problem": NASTY * 2})  # fmt: skip
    page = page_of(df, tmp_path, predictions=said)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert not {tag for tag, _ in page.tags} & {"img", "iframe", "object", "embed", "base"}
    assert not [name for _, attributes in page.tags for name in attributes if name[:2] == "on"]
    links = [a[name] for _, a in page.tags for name in ("src", "href", "action") if name in a]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "url(" not in "".join(page.styles) and page.data["rows"]["1"]["reason"]
    assert NASTY[0] in page.seen
    assert {*page.data["filters"][1]["values"]} == {*NASTY[:2], r"a\u2028b", NASTY[3]}


def test_a_sample_is_drawn_from_each_class_in_turn_and_the_page_says_so(frame, tmp_path):
    df = frame(100)
    df["label"] = ["rare" if row == 77 else "often" for row in range(100)]
    df["problem"] = [("broken: cut" if row == 99 else None) for row in range(100)]
    page = page_of(df, tmp_path, rows=10)
    assert 77 in page.data["gallery"]
    assert len(page.data["gallery"]) in (10, 11)
    assert any("A sample: 10 of 100 rows, drawn with seed 0" in text for text in page.seen)
    assert page.data["rows"]["99"]["marks"] == ["problem"]
    assert page.data["gallery"] == page_of(df, tmp_path, rows=10).data["gallery"]
    assert page.data["gallery"] != page_of(df, tmp_path, rows=10, seed=1).data["gallery"]


def test_copies_are_shown_in_groups_and_those_of_other_splits_in_pairs(tmp_path):
    photo = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    for row in range(4):
        cv2.imwrite(f"{tmp_path}/{row}.png", cv2.resize(np.roll(photo, row, 1), (400, 300)))
    cv2.imwrite(f"{tmp_path}/4.jpg", cv2.imread(f"{tmp_path}/1.png"))
    shutil.copy(tmp_path / "2.png", tmp_path / "5.png")
    df = dfgen.build_manifest(tmp_path, pattern="{id:int}.{kind}", facts="full")
    df["split"] = ["train", "val", "train", "train", "train", "train"]
    page = page_of(df, tmp_path)
    assert {name: told for name, told in page.boxes.items() if "Copies" in name} == {
        "Copies, near, 2 rows": ([1, 4], ["val", "train"]),
        "Copies, exact, 2 rows": ([2, 5], ["train", "train"]),
        "Copies, near": ([4, 1], ["train", "val: near"]),
    }
    assert "2 groups of copies (1 exact, 1 near), 4 rows." in page.seen
    sections = [told["id"] for tag, told in page.tags if tag == "section"]
    assert sections[-3:] == ["gallery", "duplicates", "leaks"]
    assert page.data["aspect"] == 1.33
    assert "1 row with a copy in an earlier split, in pairs." in page.seen
    assert page.data["marks"] == ["duplicate", "leak"]
    assert page.data["rows"]["1"]["marks"] == ["duplicate", "leak"]


def test_without_hashes_the_page_says_that_copies_were_not_looked_for(frame, tmp_path):
    told = [text for text in page_of(frame(3), tmp_path).seen if "did not look for" in text]
    assert told == [_NOT_LOOKED_FOR] * 2


@pytest.fixture
def predicted(frame):
    """The predictions for 8 rows: row 5, odd, is taken for even, and row 7 was not predicted."""
    even = np.array([0.9, 0.1] * 3 + [0.6]).round(2)
    even[5] = 0.8
    df = frame(8)[:7]
    prob = np.stack([even, 1 - even], axis=1)
    said = pd.Categorical.from_codes(prob.argmax(1), ["even", "odd"])
    own = prob[np.arange(7), df["label"].cat.codes]
    return pd.DataFrame(
        {
            "id": df["id"], "y_true": df["label"], "y_pred": said, "prob": [*prob],
            "loss": -np.log(own),
        }
    )  # fmt: skip


def test_with_predictions_the_page_shows_where_the_model_is_wrong(frame, predicted, tmp_path):
    page = page_of(frame(8), tmp_path, predictions=predicted)
    assert page.boxes["Worst by loss"] == ([5], ["odd → even, loss 1.61"])
    assert page.boxes["Likely mislabels"] == ([5], ["odd → even 80%"])
    names = [one["name"] for one in page.data["columns"]]
    assert names == ["id", "path", "label", "y_true", "y_pred", "loss"]
    assert page.data["rows"]["7"]["values"][3:] == [None] * 3
    assert page.data["rows"]["5"]["marks"] == ["predicted wrong", "likely mislabel"]
    assert page.cells("confusion") == ["even", "odd", "even", "4", "·", "odd", "1", "2"]
    assert page.cells("scores")[:7] == [
        "class", "rows", "precision", "recall", "F1", "loss", "taken for",
    ]  # fmt: skip
    assert page.cells("scores")[7:14] == ["odd", "3", "100.0%", "66.7%", "80.0%", "0.607", "even"]


def test_the_command_takes_predictions_from_a_file_and_says_what_it_wrote(
    frame, predicted, tmp_path
):
    predicted.to_parquet(tmp_path / "p.parquet")
    dfgen.write_manifest(frame(8), tmp_path / "m.parquet")
    ran = command.run(
        "report", tmp_path / "m.parquet", "--predictions", tmp_path / "p.parquet",
        "--out", tmp_path / "page.html", "--rows", 10,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"Wrote {tmp_path}/page.html: 0.0 MB\n"
    page = Page((tmp_path / "page.html").read_text("utf-8"))
    assert page.boxes["Worst by loss"] == ([5], ["odd → even, loss 1.61"])


def test_of_numbers_the_page_shows_the_rows_of_the_highest_loss(frame, tmp_path):
    predicted = pd.DataFrame({"id": range(6), "y_true": 1.0, "y_pred": 1.5, "loss": np.arange(6.0)})
    page = page_of(frame(8), tmp_path, predictions=predicted)
    assert page.boxes["Worst by loss"] == (
        [5, 4, 3, 2, 1, 0],
        [f"1 → 1.5, loss {row}" for row in range(6)][::-1],
    )
    assert page.data["marks"] == []


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2, 1], "predictions have several rows of id 1, expected one"),
        ([77, 78, 79],
         "predictions are of other rows: none of 3 has the id of a row, such as 0; they have "
         "[77, 78, 79]"),
    ],
)  # fmt: skip
def test_predictions_of_other_rows_are_refused(ids, message, frame, tmp_path):
    predicted = pd.DataFrame({"id": ids, "y_true": 1.0, "y_pred": 1.5, "loss": 0.5})
    with pytest.raises(dfgen.DfgenError) as caught:
        report(frame(4), tmp_path / "page.html", predictions=predicted)
    assert str(caught.value) == message


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "columns",
    [
        {"age": [np.nan, np.inf, -np.inf, 1.0]}, {"age": [1e308, -1e308, 0.0, 1.0]},
        {"age": [2.0**62, 0.0, 1.0, 2.0]}, {"age": np.nan}, {"width": 0, "height": 0, "bytes": 0},
        {"fold": range(4)}, {"split": ["train", None] * 2}, {"tags": [["x", "y"], [], None, ["x"]]},
        {"kind": pd.Categorical([1, 2, 1, 2], [1, 2, 3])},
    ],
    ids=lambda columns: "-".join(columns),
)  # fmt: skip
def test_odd_columns_have_their_place(columns, frame, tmp_path):
    assert len(page_of(frame(4).assign(**columns), tmp_path).data["gallery"]) == 4


@pytest.mark.parametrize(
    ("folds", "heads"), [(6, [f"{fold} (2)" for fold in range(6)]), (7, ["rows (14)"])]
)
def test_classes_are_counted_in_each_of_a_few_folds(folds, heads, frame, tmp_path):
    df = frame(2 * folds).assign(fold=np.arange(2 * folds) % folds)
    assert page_of(df, tmp_path).cells("shares")[: 1 + len(heads)] == ["class", *heads]


def test_of_many_classes_the_page_shows_what_is_confused_most(frame, tmp_path):
    names = [f"class {number}" for number in range(30)]
    df = frame(90)
    true = pd.Categorical.from_codes(np.arange(90) % 30, names)
    said = pd.Categorical.from_codes(
        np.where(np.arange(90) % 30 == 4, 7, np.arange(90) % 30), names
    )
    df["label"] = true
    predicted = pd.DataFrame({"id": df["id"], "y_true": true, "y_pred": said})
    page = page_of(df, tmp_path, predictions=predicted)
    assert "confusion" not in [attributes.get("class") for _, attributes in page.tags]
    at = page.seen.index("predicted as")
    assert [text for text in page.seen[at:][:8] if text.strip()][2:5] == ["class 4", "class 7", "3"]


def test_pictures_fit_into_what_there_is_for_them():
    noise = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    small = noise[:8, :8]
    for longest in (40_000, 6_000, 800, 200):
        assert all(len(text) <= longest for text in as_webp([noise, small], longest))
    decoded = cv2.imdecode(np.frombuffer(base64.b64decode(as_webp([small], 800)[0]), np.uint8), 1)
    assert (decoded[..., ::-1] == small).all()


def test_a_page_of_long_texts_and_many_columns_stays_small(frame, tmp_path):
    df = frame(100)
    wide = pd.DataFrame({f"<{'&' * 300}{at}": ["<" * 1000] * 100 for at in range(60)})
    page_of(pd.concat([df, wide], axis=1), tmp_path)
    assert os.path.getsize(tmp_path / "page.html") < 1_500_000


def test_the_same_manifest_makes_the_same_page(frame, tmp_path):
    dfgen.write_manifest(frame(20), tmp_path / "m.parquet")
    pages = []
    for _ in range(2):
        report(tmp_path / "m.parquet", tmp_path / "page.html")
        pages.append((tmp_path / "page.html").read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.parametrize("rows", [0, 1])
def test_a_manifest_of_hardly_any_rows_has_a_page(rows, frame, tmp_path):
    assert len(page_of(frame(1)[:rows], tmp_path).data["gallery"]) == rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "m.txt"], "m.txt: a report is a page, name it m.html"),
        (["--out", "m.html", "--rows", 2001],
         "rows=2001: a page has room for the pictures of 2000. Its figures are of all rows, "
         "however few are drawn"),
        (["--out", "m.html", "--predictions", "m.parquet"],
         "predictions must be a frame of dfgen.predict_frame with the ids of the manifest, got "
         "one with the columns id, path, label"),
        (["--out", "m.html", "--predictions", "none.parquet"],
         'predictions="{folder}/none.parquet" is not there: expected the Parquet file that dfgen '
         "predict, or predict_frame(out=), writes"),
        (["--out", "m.html", "--rows", 0], "rows=0 is not a whole number of 1 or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(arguments, message, frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dfgen.write_manifest(frame(2), "m.parquet")
    ran = command.run("report", "m.parquet", *arguments)
    message = message.replace("{folder}", str(tmp_path))
    assert (ran.returncode, ran.stderr) == (1, f"dfgen: {message}\n")
    assert os.listdir() == ["m.parquet"]


@pytest.fixture(scope="module")
def million(files, tmp_path_factory):
    """A manifest of 10^6 rows that share 120 files."""
    rows = np.arange(1_000_000)
    df = pd.DataFrame({"id": rows, "path": np.array(files, object)[rows % len(files)]})
    df["label"] = pd.Categorical.from_codes(rows % 7919 % 1000, [f"class {n}" for n in range(1000)])
    df["note"] = [f"row {row}" for row in rows]
    df["age"] = rows % 97 / 7
    df["bytes"], df["width"], df["height"] = rows % 9973 + 100, rows % 1013 + 8, rows % 617 + 8
    df["split"] = pd.Categorical.from_codes(rows % 10 // 9, ["train", "val"])
    df["problem"] = pd.Series("broken: cut", df.index).where(rows % 1000 == 0)
    path = tmp_path_factory.mktemp("million") / "million.parquet"
    dfgen.write_manifest(df, path)
    return path


@pytest.mark.slow
def test_a_page_of_whatever_takes_room_is_10_megabytes_at_most(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    cv2.imwrite(f"{tmp_path}/noise.png", noise)
    rows = np.arange(2000)
    texts = {
        f"c{at:02}{NASTY[0]}": [f"{row % 900} {'<' * 300}" for row in rows] for at in range(60)
    }
    boxes = {"boxes": [[[0, 1.25, 33.5, 40 + at] for at in range(30)]] * 2000}
    labels = {"labels": [[f"{at} " + "\U0001f600" * 300 for at in range(30)]] * 2000}
    parts = {
        "split": np.where(rows % 2, "train", "val"),
        "problem": ["broken: " + "&" * 300] * 2000,
    }
    path = {"id": rows, "path": f"{tmp_path}/noise.png"}
    facts = {"digest": [f"{row // 2}" for row in rows], "phash": pd.array(rows, "UInt64")}
    for more in (boxes | labels, texts | boxes | labels | parts | facts):
        page = page_of(pd.DataFrame({**path, **more}), tmp_path, rows=2000)
        assert os.path.getsize(tmp_path / "page.html") <= LARGEST
        assert len(page.data["gallery"]) == 2000


@pytest.mark.slow
@pytest.mark.timeout(60, func_only=True)
def test_a_million_rows_make_a_page_of_10_megabytes_at_most(million, tmp_path):
    page = page_of(million, tmp_path, rows=2000)
    assert os.path.getsize(tmp_path / "page.html") <= LARGEST
    assert len(page.data["gallery"]) >= 2000
    assert any("A sample: 2,000 of 1,000,000 rows" in text for text in page.seen)
