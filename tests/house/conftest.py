"""Fixtures for tests that type a tutorial."""

import re

import pytest
from test_readme import TUTORIALS, run

from dfgen import demo


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "photographs"
    demo.unpack_photographs(folder)
    return folder


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """Return a function that types a page in an empty folder and returns the names it leaves.

    A second argument chooses sections by their text.
    """
    monkeypatch.chdir(tmp_path)

    def type_page(name, choose=lambda section: True):
        text = (TUTORIALS / f"{name}.md").read_text("utf-8")
        title, *sections = re.split("^(?=## )", text, flags=re.M)
        page = tmp_path / "page.md"
        page.write_text("".join([title, *filter(choose, sections)]), "utf-8")
        names = run(page)
        for picture in re.findall(
            r"^!\[.+\]\(\.\./pictures/(.+)\)$", page.read_text("utf-8"), re.M
        ):
            for made in (tmp_path / picture, TUTORIALS.parent / "pictures" / picture):
                assert made.read_bytes()[1:4] == b"PNG" and made.stat().st_size < 150_000
        return names

    return type_page
