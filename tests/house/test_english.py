"""The English of pages, notebooks, docstrings and messages, as `tests/english.py` measures it."""

import pytest
from english import ROOT, Prose, messages_of_python, pages, prose_of, words_of

INVERTED, JOINED, WORDS = 0.03, 0.20, 1_200
"""Shares of the sentences, and the words of a page without code and tables."""

READ = [*pages(), *sorted(ROOT.glob("notebooks/*.ipynb"))]
MODULES = sorted(ROOT.glob("dfgen/**/*.py"))


def share(proses: list[Prose], kind: str) -> tuple[float, list[str]]:
    """Return which share of the sentences is of a kind, and these with their files."""
    found = [f"{one.path}: {text}" for one in proses for text in getattr(one, kind)]
    return len(found) / sum(len(one.sentences) for one in proses), found


@pytest.mark.parametrize(
    ("paths", "kind", "most"),
    [(READ, "inverted", INVERTED), (READ, "joined", JOINED), (MODULES, "inverted", INVERTED)],
    ids=["pages begin with their subject", "pages have one thought a sentence", "docstrings"],
)
def test_sentences_are_plain(paths, kind, most):
    of_all, found = share([prose_of(path) for path in paths], kind)
    assert of_all <= most, found


def test_errors_warnings_and_help_begin_with_their_subject():
    proses = [prose_of(path, messages_of_python) for path in MODULES]
    assert sum(len(one.sentences) for one in proses) > 2_000
    assert share(proses, "inverted")[1] == []


def test_a_page_is_read_at_one_sitting():
    words = {str(page.relative_to(ROOT)): words_of(page) for page in pages()}
    assert {page: count for page, count in words.items() if count > WORDS} == {}
