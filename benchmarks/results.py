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

_MISSED = "| case | figure | target | limit |\n|---|---|---|---|\n"
_SURVIVAL, _SOAK = "## Who survives what", "## A soak"

LARGE_TITLE = "## More data than memory"
LARGE = {
    "drained": "pixels 224x224x3, warm page cache, drained as NumPy, FFCV beside",
    "fit": "through `fit` with an empty model",
    "job D": "job D: 89,820 x 128x128x3 in batches of 32, drained",
    "pack": "packing as pixels",
    "cold": "cold page cache",
    "crops": "`jpeg --max-side 512` from 3000x2000, then random resized crops to 224",
    "cache": "an epoch with `cache=`: the first, and later ones",
    "stores": "files in S3 and behind HTTP with 50 ms, on loopback",
    "small": "PNG 32x32 with default arguments",
    "sparse": "100 GB of shards as holes, 10^4 shards, 10^8 rows",
    "parts": "a manifest in parts",
    "E": "job E by simulation: 3 TB, 64 GB of memory",
}
"""The rows of the table of data that does not fit in memory, by the `row` of verdicts."""

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
    pictures = _plotted(folder, found)
    own = {name: one for name, one in found.items() if not _is_large(one[0])}
    verdicts = [verdict for findings, _ in own.values() for verdict in findings.verdicts]
    missed = [verdict for verdict in verdicts if not verdict.met]
    text = [
        "# Results",
        "Written by `python benchmarks/run.py --results`.",
        *machine().split("\n"),
        "Figures are medians. Each ratio is the median of the ratios within a round.",
        "| | figure | target | met |\n|---|---|---|---|\n" + "\n".join(map(_row, verdicts)),
        *(["## Targets not met", _MISSED + "\n".join(map(_miss, missed))] if missed else []),
        "## Plots",
        *pictures,
        "## All figures",
        *_all_figures(own),
    ]
    _save(folder, _parts(folder) | {"": "\n\n".join(text)})
    write_large(folder, found)


def write_large(folder: Path, found: Found) -> None:
    """Write the table of more data than memory into RESULTS.md, and leave the rest of it."""
    own = {name: one for name, one in found.items() if _is_large(one[0])}
    _plotted(folder, own)
    text = [LARGE_TITLE, *machine().split("\n"), large_table(found), *_all_figures(own)]
    _save(folder, _parts(folder) | {LARGE_TITLE: "\n\n".join(text)})


def large_table(found: Found) -> str:
    """Return a row for each that must be reached, those with none of the benchmarks included."""
    verdicts = [verdict for findings, _ in found.values() for verdict in findings.verdicts]
    lines = ["| work | must reach | reached | met | remark |\n|---|---|---|---|---|"]
    for row, work in LARGE.items():
        own = [verdict for verdict in verdicts if verdict.row == row]
        lines += [_large_row(work, verdict) for verdict in own] or [f"| {work} | | not run | | |"]
    return "\n".join(lines)


def _large_row(work: str, verdict: Verdict) -> str:
    met, detail = "yes" if verdict.met else "**no**", f"{work}: {verdict.what}"
    reached = f"{verdict.figure:.3g} {verdict.unit}"
    return f"| {detail} | {verdict.targets} | {reached} | {met} | {verdict.limit} |"


def _is_large(findings: Findings) -> bool:
    """Whether all verdicts of a benchmark stand in the table of more data than memory."""
    return all(verdict.row for verdict in findings.verdicts)


def _all_figures(found: Found) -> list[str]:
    return [f"### {name}\n\n{_tables(printed)}" for name, (_, printed) in found.items()]


def _plotted(folder: Path, found: Found) -> list[str]:
    """Plot every chart; return what shows it."""
    plots = folder / "plots"
    plots.mkdir(exist_ok=True)
    pictures = []
    for name, (findings, _) in found.items():
        for number, (title, rates) in enumerate(findings.charts.items()):
            file = plots / f"{name}_{number}.png"
            plot(file, title, rates)
            pictures.append(f"![{title}](plots/{file.name})")
    return pictures


def write_soak(folder: Path, text: str) -> None:
    """Write what the soak has found into RESULTS.md, and leave the rest of it."""
    picture = "![Resources of each turn](plots/soak.png)"
    _write_part(folder, _SOAK, f"{text}\n\n{picture}", "soak.py")


def write_survival(folder: Path, text: str) -> None:
    """Write the table of who survives what into RESULTS.md, and leave the rest of it."""
    _write_part(folder, _SURVIVAL, text, "survive.py")


def _write_part(folder: Path, title: str, text: str, script: str) -> None:
    written = f"Written by `python benchmarks/{script} --results`."
    parts = _parts(folder)
    parts[title] = "\n\n".join([title, written, *machine().split("\n"), text])
    _save(folder, parts)


def _parts(folder: Path) -> dict[str, str]:
    """Return the parts of RESULTS.md by their titles, that of the benchmarks as ""; each or ""."""
    file, titles = folder / "RESULTS.md", (LARGE_TITLE, _SURVIVAL, _SOAK)
    rest, parts = file.read_text() if file.exists() else "", {}
    for title in reversed(titles):
        rest, found, part = rest.partition(f"{title}\n")
        parts[title] = found + part
    return {"": rest} | {title: parts[title] for title in titles}


def _save(folder: Path, parts: Mapping[str, str]) -> None:
    text = "\n\n".join(part.strip() for part in parts.values() if part.strip())
    (folder / "RESULTS.md").write_text(f"{text}\n")


def _row(verdict: Verdict) -> str:
    word = "yes" if verdict.met else "**no**"
    return f"| {verdict.what} | {verdict.figure:.3g} {verdict.unit} | {verdict.targets} | {word} |"


def _miss(verdict: Verdict) -> str:
    figure = f"{verdict.figure:.3g} {verdict.unit}"
    return f"| {verdict.what} | {figure} | {verdict.targets} | {verdict.limit} |"


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
