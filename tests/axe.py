"""Checks by axe-core: parts of a page that a person cannot read or reach."""

from pathlib import Path

import pytest

RUN = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 120)}`))"""


def faults(page):
    """Return the serious and critical faults of a page in a browser, each with its element."""
    reason = "no axe-core. Install keras-dfgen[browser]"
    package = pytest.importorskip("axe_playwright_python", reason=reason)
    page.evaluate((Path(package.__file__).parent / "axe.min.js").read_text())
    return page.evaluate(RUN)
