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


def test_quoted_figures_are_those_that_were_measured():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text == results.with_figures(text, PARTS), page


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


def test_a_missed_target_is_listed_and_no_other():
    verdicts = [results.Verdict("slow", 0.5, 1, "x bare"), results.Verdict("fast", 2, 1, "x bare")]
    text = results.rendered({"made": results.Part("", verdicts)})
    missed = text.partition("## Targets not met")[2].partition("## Figures")[0]
    assert "dfgen misses 1 of 2 targets" in missed and "slow" in missed and "fast" not in missed


def test_a_figure_ends_before_the_words_behind_it():
    link = 'are [9.99, or so](about/results.md#peers "dfgen / torch DataLoader, Pillow")'
    assert re.search(r"\[\d\.\d\d, or so\]", results.with_figures(link, PARTS))
