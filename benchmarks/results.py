"""Write what the benchmarks have found: RESULTS.md and the plots beside it."""

import platform
import re
from collections.abc import Mapping
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from measure import THREADS, Findings, Rates, Verdict

PACKAGES = (
    "dfgen", "numpy", "pandas", "pyarrow", "pillow", "opencv-python-headless", "keras",
    "tensorflow", "torch", "jax", "grain", "nvidia-dali-cuda120",
)  # fmt: skip
OURS, OTHERS = "#d1495b", "#8d99ae"

_SOAK = "## A soak"

Found = Mapping[str, tuple[Findings, str]]
"""Name of a benchmark -> what it found, and what it printed."""


def machine() -> str:
    """Return date, processor and versions as two lines."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpuinfo.read_text() if cpuinfo.exists() else "")
    processor = model[1] if model else platform.processor()
    versions = ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name)))
    python = platform.python_version()
    today = f"{date.today()}, {THREADS} CPUs ({processor}), {platform.system()}"
    return f"{today}\nPython {python}, {versions}"


def _version(package: str) -> str | None:
    if package == "dfgen":
        return str(import_module("dfgen").__version__)
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def write(folder: Path, found: Found) -> None:
    """Write RESULTS.md, and a plot of every chart, into a folder."""
    plots = folder / "plots"
    plots.mkdir(exist_ok=True)
    pictures = []
    for name, (findings, _) in found.items():
        for number, (title, rates) in enumerate(findings.charts.items()):
            file = plots / f"{name}_{number}.png"
            plot(file, title, rates)
            pictures.append(f"![{title}](plots/{file.name})")
    verdicts = [verdict for findings, _ in found.values() for verdict in findings.verdicts]
    missed = [verdict for verdict in verdicts if not verdict.met]
    text = [
        "# Results",
        "Written by `python benchmarks/run.py --results`.",
        *machine().split("\n"),
        "Medians; each ratio is the median of the ratios within a round.",
        "| | figure | target | met |\n|---|---|---|---|\n" + "\n".join(map(_row, verdicts)),
        *(["## Targets not met", "\n".join(map(_miss, missed))] if missed else []),
        "## Plots",
        *pictures,
        "## All figures",
        *(f"### {name}\n\n{_tables(printed)}" for name, (_, printed) in found.items()),
    ]
    _save(folder, "\n\n".join(text), _parts(folder)[1])


def write_soak(folder: Path, text: str) -> None:
    """Write what the soak has found into RESULTS.md, and leave the rest of it."""
    picture = "![What each turn held](plots/soak.png)"
    written = "Written by `python benchmarks/soak.py --results`."
    _save(folder, _parts(folder)[0], "\n\n".join([written, *machine().split("\n"), text, picture]))


def _parts(folder: Path) -> tuple[str, str]:
    """Return the two parts of RESULTS.md: of the benchmarks, and of the soak."""
    file = folder / "RESULTS.md"
    benchmarks, _, soak = (file.read_text() if file.exists() else "").partition(_SOAK)
    return benchmarks, soak


def _save(folder: Path, benchmarks: str, soak: str) -> None:
    end = f"{_SOAK}\n\n{soak.strip()}\n" if soak else ""
    (folder / "RESULTS.md").write_text(f"{benchmarks.strip()}\n\n{end}".strip() + "\n")


def _row(verdict: Verdict) -> str:
    word = "yes" if verdict.met else "**no**"
    return f"| {verdict.what} | {verdict.figure:.3g} {verdict.unit} | {verdict.targets} | {word} |"


def _miss(verdict: Verdict) -> str:
    figures = f"{verdict.figure:.3g} {verdict.unit}, target {verdict.targets}"
    return f"- {verdict.what}: {figures}. {verdict.limit}".rstrip(" .") + "."


def _tables(printed: str) -> str:
    """Return what was printed before the verdicts, with the question first."""
    lines = [line for line in printed.split("\n") if not line.startswith(("met  ", "NOT MET  "))]
    return "```text\n" + "\n".join(lines).strip("\n") + "\n```"


def plot(file: Path, title: str, rates: Rates) -> None:
    """Draw medians as bars, fastest first, with the extremes as whiskers."""
    from matplotlib.figure import Figure

    names = sorted(rates.rounds, key=rates.median)
    medians = [rates.median(name) for name in names]
    spread = [
        [rates.median(name) - min(rates.rounds[name]) for name in names],
        [max(rates.rounds[name]) - rates.median(name) for name in names],
    ]
    figure = Figure(figsize=(8, 0.9 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots()
    colors = [OURS if name.startswith("dfgen") else OTHERS for name in names]
    axes.barh(names, medians, xerr=spread, color=colors, ecolor="#444444", capsize=2)
    for place, rate in enumerate(medians):
        axes.annotate(
            f" {rate:,.0f}", (0, place), va="center", color="white", fontsize=8, weight="bold"
        )
    axes.set_title(f"{title}, {THREADS} cores", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=80)


if __name__ == "__main__":
    print(machine())
