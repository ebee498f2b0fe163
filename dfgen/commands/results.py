"""Calls of the functions, and what a command prints of their results."""

import json
import os
from collections.abc import Callable
from typing import Any

from dfgen.errors import ArgumentError, count

SHOWN = 20  # rows and classes of a text; --json has all
Function = Callable[..., Any]
Arguments = dict[str, Any]
Result = tuple[dict[str, Any], str, int]  # for --json; as text; the exit code


def show_build(call: Function, given: Arguments) -> Result:
    """Build a manifest; without `out` in place of the old one, or next to the recipe."""
    import dfgen

    source, update = given.get("source", ""), given.get("update")
    beside = f"{source.removesuffix('.toml')}.parquet" if source.endswith(".toml") else None
    given["out"] = given.get("out") or update or beside
    if given["out"] is None:
        raise ArgumentError("name the manifest to write with --out, as in --out pets.parquet")
    old = dfgen.read_manifest(update) if update else None
    frame = call(**given)
    figures, text = _describe(frame)
    if old is not None:
        figures["changes"], words = _tally(dfgen.diff(old, frame))
        text += f"\nSince {update}: {words}"
    return {"out": given["out"], **figures}, f"{text}\nWrote {given['out']}", 0


def show_split(call: Function, given: Arguments) -> Result:
    """Split a manifest, by default in its place."""
    given.setdefault("out", given["manifest"])
    figures, text = _describe(call(**given))
    return {"out": given["out"], **figures}, f"{text}\nWrote {given['out']}", 0


def show_differences(call: Function, given: Arguments) -> Result:
    """List differences; the exit code is 1 if there are some."""
    rows = call(**given)
    figures, text = _listed(rows)
    wrote = f"\nWrote {given['manifest']}" if given.get("write") else ""
    return figures, text + wrote, int(len(rows) > 0)


def show_corrections(call: Function, given: Arguments) -> Result:
    """Correct labels, and list what changed."""
    import dfgen

    old = dfgen.read_manifest(given["manifest"])
    figures, text = _listed(dfgen.diff(old, call(**given)))
    return figures, f"{text}\nWrote {given.get('out') or given['manifest']}", 0


def show_pack(call: Function, given: Arguments) -> Result:
    """Pack a manifest, and list the rows without a file."""
    from dfgen.packs.format import read_pack

    problems, out = call(**given), given["out"]
    index = read_pack(out)
    nbytes = sum(file.bytes for file in (*index.shards, index.table))
    figures = {"out": out, "rows": index.rows, "shards": len(index.shards), "bytes": nbytes}
    sizes = f"{nbytes / 1e6:,.1f} MB in {count(len(index.shards), 'shard')}"
    text = f"{_table(problems)}Wrote {out}: {count(index.rows, 'row')}, {sizes}"
    return {**figures, "problems": _records(problems)}, text, 0


def show_report(call: Function, given: Arguments) -> Result:
    """Write a report."""
    call(**given)
    nbytes = os.path.getsize(given["out"])
    return {"out": given["out"], "bytes": nbytes}, f"Wrote {given['out']}: {nbytes / 1e6:.1f} MB", 0


def show_bench(call: Function, given: Arguments) -> Result:
    """Measure a manifest."""
    from dfgen.bench import table

    figures = call(**given)
    return figures, table(figures), 0


def show_demo(call: Function, given: Arguments) -> Result:
    """Run the demo, which prints as it goes; the exit code is 1 if the model learned too little."""
    code, keep = int(not call(**given)), given.get("keep")
    return {}, f"The files are in {keep}" if keep else "--keep FOLDER keeps the files", code


def _listed(rows: Any) -> tuple[dict[str, Any], str]:
    counts, words = _tally(rows)
    return {"counts": counts, "rows": _records(rows)}, _table(rows) + words


def _tally(rows: Any) -> tuple[dict[str, int], str]:
    """Return how many rows changed in each way; a row with several columns counts once."""
    once = rows[rows["id"].isna() | ~rows.duplicated(["change", "id"])]
    counts = {name: number for name, number in _counts(once["change"]).items() if number}
    return counts, ", ".join(f"{n} {name}" for name, n in counts.items()) or "no difference"


def _records(rows: Any) -> Any:
    return json.loads(rows.to_json(orient="records"))


def _table(rows: Any) -> str:
    more = f"and {len(rows) - SHOWN} more; --json lists all\n" * (len(rows) > SHOWN)
    shown = rows.head(SHOWN).to_string(index=False, na_rep="", max_colwidth=60)
    return f"{shown}\n{more}" * (len(rows) > 0)


def _counts(column: Any) -> dict[str, int]:
    counts = column.value_counts(sort=False).sort_index()
    return {str(name): int(number) for name, number in counts.items()}


def _describe(frame: Any) -> tuple[dict[str, Any], str]:
    """Return rows, splits, labels and problems of a manifest, for scripts and as text."""
    categories = frame.select_dtypes("category").columns
    labels = {name: _counts(frame[name]) for name in categories if name not in ("format", "split")}
    parts = {f"{name}s": _counts(frame[name]) for name in ("split", "fold") if name in frame}
    lines = [count(len(frame), "row")]
    for name, counts in (parts | labels).items():
        shown = ", ".join(f"{value} {rows}" for value, rows in [*counts.items()][:SHOWN])
        more = f", and {len(counts) - SHOWN} more" * (len(counts) > SHOWN)
        lines.append(f"{name}: {shown}{more}")
    problems: dict[str, list[str]] = {}
    if "problem" in frame:
        bad = frame[frame["problem"].notna()]
        names = bad["path" if "path" in bad else "id"]
        for problem, name in zip(bad["problem"], names, strict=True):
            problems.setdefault(problem.partition(":")[0], []).append(str(name))
    figures = {"rows": len(frame), "columns": [*frame.columns], "splits": None, **parts}
    return figures | {"labels": labels, "problems": problems}, "\n".join(lines)
