"""The page of `dfgen report` in a real browser, by mouse and by keyboard.

Screenshots of both themes go to the folder that DFGEN_SCREENSHOTS names, if it names one.
"""

import io
import os

import cv2
import numpy as np
import pandas as pd
import pytest
from axe import faults
from PIL import Image

import dfgen
from dfgen.explore import report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of the pipes to the browser's driver
]

SCRIPT = "<script>alert(1)</script>"
LABELS = ["apple", SCRIPT, "</script><!--", "pear"]
ROWS = 40


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A page of 40 rows: ids 0 to 39, `size` from 39 to 0; row 3 is missing, 5 a large photo.

    Beside it, mistakes.html is of the same rows and a model that says pear for the last 8.
    """
    folder = tmp_path_factory.mktemp("report")
    for row in range(ROWS):
        side = 300 if row == 5 else 8 + row
        cv2.imwrite(f"{folder}/{row}.png", np.full((side, side, 3), 5 * row, np.uint8))
    os.remove(f"{folder}/3.png")
    df = pd.DataFrame({"id": range(ROWS), "path": [f"{folder}/{row}.png" for row in range(ROWS)]})
    df["label"] = pd.Categorical([LABELS[row % 4] for row in range(ROWS)], LABELS)
    df["size"] = 39.0 - df["id"]
    df["width"] = df["height"] = 8 + df["id"]
    df["split"] = ["val" if row < 10 else "train" for row in range(ROWS)]
    df["boxes"] = [[[2, 2, 6, 5]] if row == 7 else [] for row in range(ROWS)]
    df["labels"] = [[SCRIPT] * (row == 7) for row in range(ROWS)]
    df["problem"] = [("the file does not exist" if row == 3 else None) for row in range(ROWS)]
    report(df, folder / "report.html")
    prob = np.full((ROWS, 4), 0.1)
    prob[range(ROWS), [3 if row > 31 else row % 4 for row in range(ROWS)]] = 0.7
    said = df[["id"]].assign(y_true=df["label"], prob=[*prob])
    said["y_pred"] = pd.Categorical.from_codes(prob.argmax(1), LABELS)
    said["loss"] = -np.log(prob[range(ROWS), df["label"].cat.codes])
    report(df, folder / "mistakes.html", predictions=said)
    return f"file://{folder}/report.html"


@pytest.fixture
def opened(browser, address):
    """Return a function that opens the page; what it logs and asks for is in `page.heard`."""
    contexts = []

    def open_page(width=1400, **options):
        still = {"viewport": {"width": width, "height": 900}, "reduced_motion": "reduce"}
        context = browser.new_context(**still, **options)
        contexts.append(context)
        page = context.new_page()
        page.heard = []
        page.on("console", lambda message: page.heard.append(message.text))
        page.on("pageerror", lambda error: page.heard.append(str(error)))
        page.on("dialog", lambda dialog: (page.heard.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: page.heard.append(request.url))
        page.goto(address)
        page.heard = [one for one in page.heard if one != address and one[:5] != "data:"]
        return page

    yield open_page
    for context in contexts:
        context.close()


def ids(page, box="#tiles"):
    """Return the ids of the tiles that are shown, in their order."""
    texts = page.locator(f"{box} .tile .caption > span:last-child").all_text_contents()
    return [int(text) for text in texts]


def focused(page):
    """Return the id on the tile that has the focus, or None."""
    found = page.locator("#tiles .tile:focus .caption > span:last-child").all_text_contents()
    return int(found[0]) if found else None


def test_it_opens_without_an_error_and_asks_for_nothing(opened):
    page = opened()
    assert page.title() == "Manifest"
    assert page.heard == []
    assert ids(page) == list(range(ROWS))


def test_thumbnails_are_visible_and_what_cannot_be_read_tells_why(opened):
    page = opened()
    wide = page.evaluate(
        """async () => {
            const images = [...document.querySelectorAll("#tiles img")];
            await Promise.all(images.map((image) => image.decode()));
            return images.map((image) => image.naturalWidth);
        }"""
    )
    assert wide == [224 if row == 5 else 8 + row for row in range(ROWS) if row not in (3, 7)]
    box = page.locator("#tiles img").first.bounding_box()
    assert min(box["width"], box["height"]) > 90
    missing = page.locator("#tiles .picture").nth(3).text_content()
    assert missing == "No picture: the file does not exist"
    assert page.locator("#problems .tile").count() == 1


def test_tiles_have_the_shape_of_their_pictures_and_groups_stand_side_by_side(browser, tmp_path):
    rng = np.random.default_rng(0)
    for row in range(12):  # landscapes, each of them twice
        noise = cv2.resize(rng.integers(0, 256, (6, 9, 3), np.uint8), (180, 90))
        for copy in "ab":
            cv2.imwrite(f"{tmp_path}/{row}{copy}.png", noise)
    df = dfgen.build_manifest(tmp_path, pattern="{id}.png", facts="full")
    name = "a_long_name_that_all_of_them_begin_with_"
    report(df.assign(id=name + df["id"]), tmp_path / "report.html")
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.goto(f"file://{tmp_path}/report.html")
    box = page.locator("#tiles .picture").first.bounding_box()
    assert box["width"] / box["height"] == pytest.approx(2, abs=0.05)
    groups = [one.bounding_box() for one in page.locator("#duplicates .group").all()]
    assert len(groups) == 12
    assert groups[0]["y"] == groups[3]["y"] < groups[-1]["y"]
    assert groups[-1]["y"] + groups[-1]["height"] - groups[0]["y"] < 700  # one screen
    captions = page.locator("#tiles .caption > span:last-child")
    cut = "one => one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1"
    assert not captions.evaluate_all(f"all => all.some({cut})")
    assert captions.all_inner_texts() == (name + df["id"]).tolist()
    page.close()


def test_boxes_lie_on_the_picture(opened):
    page = opened()
    tile = page.locator("#tiles .tile").nth(7)
    image, drawn = (tile.locator(name).bounding_box() for name in ("image", "rect"))
    scale = image["width"] / 15  # pixels of row 7
    found = [(drawn[side] - image[side]) / scale for side in ("x", "y")]
    assert [*found, drawn["width"] / scale, drawn["height"] / scale] == pytest.approx(
        [2, 2, 4, 3], abs=0.3
    )
    assert page.locator(".boxed rect").count() == 1


def test_a_label_that_is_a_script_stays_text(opened):
    page = opened()
    assert page.locator("#tiles .caption > span").nth(2).text_content() == SCRIPT
    assert page.locator("#classes tbody th").all_inner_texts() == [*LABELS, SCRIPT]
    assert page.locator("#selects select").nth(1).locator("option").all_text_contents() == [
        "all",
        *LABELS,
    ]
    assert page.locator("script").count() == 2
    page.locator("#tiles .tile").nth(1).click()
    assert SCRIPT in page.locator("#facts").inner_text()
    assert page.heard == []


def test_the_gallery_is_filtered_and_sorted_by_mouse(opened):
    page = opened()
    page.get_by_label("label", exact=True).select_option("pear")
    assert ids(page) == list(range(3, ROWS, 4))
    page.get_by_label("split", exact=True).select_option("train")
    page.get_by_label("Sort by").select_option("size")
    assert ids(page) == [39, 35, 31, 27, 23, 19, 15, 11]
    page.get_by_role("button", name="Descending").click()
    assert ids(page) == [11, 15, 19, 23, 27, 31, 35, 39]
    page.get_by_label("Search").click()
    page.keyboard.type("PEAR /2")
    assert page.locator("#count").inner_text() == f"{len(ids(page))} of 40 shown"
    assert ids(page) == [23, 27]  # by their paths
    page.get_by_label("Search").fill("nothing of this kind")
    assert (ids(page), page.locator("#count").inner_text()) == ([], "0 of 40 shown")


def test_only_rows_with_a_problem(opened):
    page = opened()
    page.get_by_label("Only").select_option("problem")
    assert ids(page) == [3]


def test_the_gallery_is_filtered_and_sorted_by_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the gallery"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.locator("#search:focus").count() == 1
    page.keyboard.press("Tab")
    page.keyboard.press("v")  # the split val
    assert ids(page) == list(range(10))
    for _ in range(3):  # label, only, sort
        page.keyboard.press("Tab")
    page.keyboard.type("si")  # size
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # descending
    assert ids(page) == list(range(10))
    page.keyboard.press("Space")
    assert ids(page) == list(range(10))[::-1]


def test_arrow_keys_move_in_the_gallery_and_the_large_view(opened):
    page = opened()
    page.locator("#direction").focus()
    page.keyboard.press("Tab")
    assert focused(page) == 0
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("ArrowRight")
    assert focused(page) == 1
    page.keyboard.press("ArrowDown")
    columns = focused(page) - 1
    assert 5 < columns < 12
    tops = [page.locator("#tiles .tile").nth(at).bounding_box()["y"] for at in (1, 1 + columns)]
    assert tops[0] < tops[1]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")  # there is none above
    assert focused(page) == 1
    page.keyboard.press("End")
    assert focused(page) == ROWS - 1
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert page.locator("#large-title").inner_text() == "0 (1 of 40)"
    page.keyboard.press("ArrowRight")
    assert page.locator("#large-title").inner_text() == "1 (2 of 40)"
    page.keyboard.press("Escape")
    assert not page.locator("#large").is_visible()
    assert focused(page) == 1
    page.keyboard.press("Tab")  # one tile of the gallery is in the order of focus
    assert focused(page) is None


def test_the_large_view_keeps_the_focus_and_is_left_by_mouse(opened):
    page = opened()
    page.locator("#tiles .tile").nth(5).click()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate("!document.activeElement.closest('main, header, nav')")
    page.get_by_label("Next row").click()
    assert page.locator("#large-title").inner_text() == "6 (7 of 40)"
    page.get_by_label("Close the large view").click()
    assert not page.locator("#large").is_visible()
    page.locator("#problems .tile").click()
    assert page.locator("#large-title").inner_text() == "3 (1 of 1)"


@pytest.mark.parametrize("width", [1400, 400])
def test_it_fits_and_has_two_themes(opened, width):
    shades = {}
    for scheme in ("light", "dark"):
        page = opened(width, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        taken = page.screenshot()
        if folder := os.environ.get("DFGEN_SCREENSHOTS"):
            page.screenshot(path=f"{folder}/report-{scheme}-{width}.png")
        shades[scheme] = np.asarray(Image.open(io.BytesIO(taken)).convert("L"))[300:].mean()
    assert shades["light"] > 200 > 60 > shades["dark"]


def test_the_button_changes_the_theme(opened):
    page = opened(color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Dark theme").click()
    dark = page.evaluate(background)
    assert light != dark
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate(background) == light


def test_no_other_script_runs(opened):
    page = opened()
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            const image = document.createElement("div");
            image.innerHTML = "<img src=x onerror='window.ran = true'>";
            document.body.append(image);
        }"""
    )
    page.wait_for_function("document.querySelector('img[src=x]').complete")
    assert page.evaluate("window.ran") is None


def test_figures_are_there_without_scripts(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("#classes tbody th").all_inner_texts() == [*LABELS, SCRIPT]
    assert "Pictures and the gallery need JavaScript" in page.locator("main").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everyone_can_read_the_page(opened, theme):
    page = opened(color_scheme=theme)
    found = {"report": faults(page)}
    page.locator("#tiles .tile").nth(7).click()
    found["large view"] = faults(page)
    page.goto(page.url.replace("report.html", "mistakes.html"))
    assert page.locator(".confusion").count() == 1
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    found["mistakes"] = faults(page)
    assert not any(found.values()), found
