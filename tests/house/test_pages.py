"""Links of pages lead somewhere, and two links from README reach every page of docs."""

import re
from pathlib import Path

from english import FENCE, ROOT, pages

README = ROOT / "README.md"
LINK = re.compile(r"\]\(([^)\s#]+)?(?:#[^)]*)?\)")


def links_of(page: Path) -> set[Path]:
    """Return the files of the repository that a page links to."""
    text = FENCE.sub("", page.read_text("utf-8"))
    targets = {target for target in LINK.findall(text) if target and ":" not in target}
    return {(page.parent / target).resolve() for target in targets}


def test_each_relative_link_of_a_page_leads_to_a_file():
    links = [(str(page), target) for page in pages() for target in links_of(page)]
    assert [(page, str(target)) for page, target in links if not target.exists()] == []


def test_two_links_from_readme_reach_every_page_of_docs():
    first = {page for page in links_of(README) if page.suffix == ".md"}
    reached = first.union(*map(links_of, first))
    docs = {page for page in pages() if ROOT / "docs" in page.parents and page.stem != "index"}
    assert [str(page) for page in sorted(docs) if page.resolve() not in reached] == []


def test_pages_that_docstrings_fill_say_where_else_to_read_them():
    texts = {page.name: page.read_text("utf-8") for page in ROOT.glob("docs/reference/*.md")}
    filled = [
        name for name, text in texts.items() if "{eval-rst}" in text or " | purpose |" in text
    ]
    assert len(filled) == 8
    assert [name for name in filled if "`make docs` builds the page" not in texts[name]] == []
