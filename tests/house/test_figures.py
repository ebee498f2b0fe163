"""The figures of README and the pages are those of benchmarks/results.json."""

import re
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
sys.path.insert(0, str(HOUSE / "benchmarks"))
results = pytest.importorskip("results", reason="a checkout has benchmarks/")

PAGES = [HOUSE / "README.md", *sorted(HOUSE.glob("docs/**/*.md"))]
HELD = ("README.md", "comparison.md", "benchmarks.md", "which-way.md")
CODE = re.compile(
    r"^```.*?^```|`[^`]+`|\bv?\d+\.\d+\.\d+\b|Apache-2\.0|targets? \d[\d.]*|Python \d\.\d+",
    re.M | re.S,
)
PARTS = results.read()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOUSE)))
def test_quoted_figures_are_those_that_were_measured(page):
    text = page.read_text(encoding="utf-8")
    assert text == results.with_figures(text, PARTS)


def test_another_figure_or_an_unknown_one_is_seen():
    link = 'about [9.99 times](about/results.md#peers "dfgen / torch DataLoader, Pillow") as fast'
    assert "9.99" not in results.with_figures(link, PARTS)
    with pytest.raises(KeyError, match="tourch"):
        results.with_figures(link.replace("torch", "tourch"), PARTS)


@pytest.mark.parametrize("name", HELD)
def test_no_figure_stands_on_a_page_of_comparisons_without_its_source(name):
    (page,) = (page for page in PAGES if page.name == name)
    prose = CODE.sub("", results.QUOTED.sub("", page.read_text(encoding="utf-8")))
    assert re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", prose) == []


def test_results_md_is_written_from_results_json():
    assert (HOUSE / "benchmarks/RESULTS.md").read_text(encoding="utf-8") == results.rendered(PARTS)


def test_every_missed_target_is_listed():
    text = results.rendered(PARTS).partition("## Targets not met")[2].partition("## Figures")[0]
    missed = [one for part in PARTS.values() for one in part.verdicts if not one.met]
    assert text.count("\n| [") == len(missed) and missed
