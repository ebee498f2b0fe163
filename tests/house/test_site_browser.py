"""Pages of the site in a real browser: themes, a phone's width, and what axe-core finds."""

import os
import subprocess
import sys

import pytest
from axe import faults
from english import ROOT

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of the pipes to the browser's driver
]

PAGES = [
    *("index", "start", "glossary", "troubleshooting", "search", "genindex", "tutorials/index"),
    *("guides/report", "guides/look", "how-to/which-way", "notebooks/06_explore"),
    *("reference/sequence", "reference/manifests", "reference/command-line"),
    *("about/how-it-works", "about/comparison"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built anew."""
    pytest.importorskip("pydata_sphinx_theme", reason="no Sphinx. Install keras-dfgen[docs]")
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "sphinx", "--quiet", ROOT / "docs", folder], check=True)
    return folder


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everyone_can_read_the_site(browser, site, theme, width):
    size = {"width": width, "height": 900}
    page = browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce")
    found = {}
    for name in PAGES:
        page.goto(f"file://{site}/{name}.html")
        found[name] = faults(page)
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            found[name].append(f"the page is {wide} pixels wide")
        if folder := os.environ.get("DFGEN_SCREENSHOTS"):
            page.screenshot(path=f"{folder}/site-{name.replace('/', '-')}-{theme}-{width}.png")
    page.close()
    assert not any(found.values()), found
