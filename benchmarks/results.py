"""Store the results of benchmarks in results.json; write RESULTS.md and the plots from it.

Each part of results.json has the results of one benchmark, with date, commit and versions. A run
replaces its own parts and updates the figures that pages quote from them.
"""

import json
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from measure import THREADS, Findings, Rates, Verdict

HERE = Path(__file__).parent
PACKAGES = (
    "dfgen", "numpy", "pandas", "pyarrow", "pillow", "opencv-python-headless", "keras",
    "tensorflow", "torch", "jax", "grain", "nvidia-dali-cuda120",
)  # fmt: skip
QUOTED = re.compile(
    r'\[(?P<figure>\d[\d,]*(?:\.\d+)?)[^\]]*\]\(\S*?(?:results|RESULTS)\.md#(?P<part>\w+)\s+"(?P<title>[^"]+)"\)'
)
OURS, OTHERS = "#d1495b", "#8d99ae"


@dataclass(frozen=True)
class Part:
    """The findings of one benchmark; `pictures` are (file, title) beside those of charts."""

    text: str
    verdicts: list[Verdict] = field(default_factory=list)
    charts: dict[str, Rates] = field(default_factory=dict)
    pictures: list[tuple[str, str]] = field(default_factory=list)
    date: str = field(default_factory=lambda: str(date.today()))
    commit: str = field(default_factory=lambda: _commit())
    machine: str = field(default_factory=lambda: machine())
    versions: dict[str, str] = field(default_factory=lambda: _versions())

    def ratio(self, candidate: str, peer: str) -> float:
        """Return candidate / peer of the first chart that has both."""
        found = [one for one in self.charts.values() if {candidate, peer} <= {*one.rounds}]
        if not found:
            raise KeyError(f"no chart has {candidate!r} and {peer!r}")
        return found[0].ratio(candidate, peer)

    @property
    def when(self) -> str:
        """Date, commit and machine in a line."""
        return f"{self.date}, commit {self.commit}, {self.machine}"


def machine() -> str:
    """Return processors and system in a line."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpuinfo.read_text() if cpuinfo.exists() else "")
    return f"{THREADS} CPUs ({model[1] if model else platform.processor()}), {platform.system()}"


def _versions() -> dict[str, str]:
    found = {name: _version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | {name: one for name, one in found.items() if one}


def _version(package: str) -> str:
    if package == "dfgen":
        return str(import_module("dfgen").__version__)
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _commit() -> str:
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def read(file: Path = HERE / "results.json") -> dict[str, Part]:
    """Return the parts by name."""
    parts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: _part(**values) for name, values in parts.items()}


def _part(
    verdicts: Iterable[dict[str, object]], charts: dict[str, dict[str, object]], **others: object
) -> Part:
    rates = {title: Rates(**chart) for title, chart in charts.items()}  # type: ignore[arg-type]
    return Part(verdicts=[Verdict(**one) for one in verdicts], charts=rates, **others)  # type: ignore[arg-type]


def of_benchmark(findings: Findings, printed: str) -> Part:
    """Return what a benchmark found as a part, without the verdicts that it printed last."""
    lines = [line for line in printed.split("\n") if not line.startswith(("met  ", "NOT MET  "))]
    text = "```text\n" + "\n".join(lines).strip("\n") + "\n```"
    return Part(text, findings.verdicts, dict(findings.charts))


def write(new: Mapping[str, Part]) -> None:
    """Add parts to results.json in place of those of their names; write RESULTS.md and plots."""
    parts = dict(sorted((read() | new).items()))
    values = json.dumps({name: asdict(part) for name, part in parts.items()}, indent=1)
    (HERE / "results.json").write_text(values + "\n", encoding="utf-8")
    (HERE / "plots").mkdir(exist_ok=True)
    for name, part in new.items():
        for file, (title, rates) in zip(_plots(name, part), part.charts.items(), strict=True):
            plot(HERE / "plots" / file, title, rates)
    (HERE / "RESULTS.md").write_text(rendered(parts), encoding="utf-8")
    for page in (HERE.parent / "README.md", *HERE.parent.glob("docs/**/*.md")):
        text = page.read_text(encoding="utf-8")
        if (quoted := with_figures(text, parts)) != text:
            page.write_text(quoted, encoding="utf-8")


def with_figures(page: str, parts: Mapping[str, Part]) -> str:
    """Return a page with the figures that it quotes as they are in the parts.

    A quoted figure is a link to the results whose title names it, `"dfgen / Grain, Pillow"` for the
    ratio of two rates or else a row of the targets.
    """

    def figure(found: re.Match[str]) -> str:
        part, title = parts[found["part"]], found["title"]
        verdicts = {f"{one.what}, {one.unit}": one.figure for one in part.verdicts}
        verdicts |= {one.what: one.figure for one in part.verdicts}
        number = part.ratio(*title.split(" / ")) if " / " in title else verdicts[title]
        decimals = len(found["figure"].partition(".")[2])
        return found[0].replace(found["figure"], f"{number:,.{decimals}f}", 1)

    return QUOTED.sub(figure, page)


def rendered(parts: Mapping[str, Part]) -> str:
    """Return RESULTS.md."""
    judged = [(name, verdict) for name, part in parts.items() for verdict in part.verdicts]
    missed = [_miss(name, verdict) for name, verdict in judged if not verdict.met]
    text = [
        "# Results",
        "`python benchmarks/run.py --results` writes this page. Each part says when it ran. "
        "Figures are medians. A ratio is the median of the ratios within a round.",
        "## Targets",
        "| part | | figure | target | met |\n|---|---|---|---|---|\n"
        + "\n".join(_row(name, verdict) for name, verdict in judged),
        "## Targets not met",
        f"dfgen misses {len(missed)} of {len(judged)} targets.",
        "| part | | figure | target | limit |\n|---|---|---|---|---|\n" + "\n".join(missed),
        "## Figures",
    ]
    for name, part in parts.items():
        text += [f"### {name}", part.when, *filter(None, [part.text])]
        shown = [*zip(_plots(name, part), part.charts, strict=True), *part.pictures]
        text += [f"![{title}](plots/{file})" for file, title in shown]
    return "\n\n".join(text) + "\n"


def _plots(name: str, part: Part) -> list[str]:
    return [f"{name}_{number}.png" for number in range(len(part.charts))]


def _row(name: str, verdict: Verdict) -> str:
    word = "yes" if verdict.met else "**no**"
    figure = f"{verdict.figure:.3g} {verdict.unit}"
    return f"| [{name}](#{name}) | {verdict.what} | {figure} | {verdict.targets} | {word} |"


def _miss(name: str, verdict: Verdict) -> str:
    figure = f"{verdict.figure:.3g} {verdict.unit}"
    return (
        f"| [{name}](#{name}) | {verdict.what} | {figure} | {verdict.targets} | {verdict.limit} |"
    )


def plot(file: Path, title: str, rates: Rates) -> None:
    """Draw medians as bars, fastest first, with extremes as whiskers; a panel for each group."""
    from matplotlib.figure import Figure

    groups = rates.groups or {"": list(rates.rounds)}
    heights = [0.6 + 0.32 * len(names) for names in groups.values()]
    figure = Figure(figsize=(8, 0.4 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(groups), sharex=True, squeeze=False, height_ratios=heights)
    for axes, (group, members) in zip(panels[:, 0], groups.items(), strict=True):
        names = sorted(members, key=rates.median)
        medians = [rates.median(name) for name in names]
        spread = [
            [median(rates.rounds[name]) - min(rates.rounds[name]) for name in names],
            [max(rates.rounds[name]) - median(rates.rounds[name]) for name in names],
        ]
        colors = [OURS if name.startswith("dfgen") else OTHERS for name in names]
        axes.barh(names, medians, xerr=spread, color=colors, ecolor="#444444", capsize=2)
        for place, rate in enumerate(medians):
            axes.annotate(
                f" {rate:,.0f}", (0, place), va="center", color="white", fontsize=8, weight="bold"
            )
        axes.set_title(group, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{title}, {THREADS} cores", x=0.01, ha="left")
    figure.savefig(file, dpi=80)


if __name__ == "__main__":
    print(machine())
