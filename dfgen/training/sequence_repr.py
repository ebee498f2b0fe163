"""The repr of a Sequence, in a terminal and in a notebook."""

from html import escape
from typing import Any

import pandas as pd

from dfgen.loading.loader import Loader
from dfgen.loading.order.buckets import PaddingShare
from dfgen.loading.problems import Problems
from dfgen.loading.workers.chunks import row_bytes
from dfgen.spec import Spec
from dfgen.training.progress import Progress


def problems_frame(problems: Problems) -> pd.DataFrame:
    """Return id, path, stage, reason and epoch of rows that are skipped, in the order of rows."""
    rows = sorted(problems)
    where, found = [problems.where(row) for row in rows], [problems[row] for row in rows]
    columns = {
        "id": [id for id, _ in where],
        "path": [path for _, path in where],
        "stage": [one.stage for one in found],
        "reason": [one.reason for one in found],
        "epoch": pd.array([one.epoch for one in found], dtype="Int64"),
    }
    return pd.DataFrame(columns)


def summary(
    loader: Loader, progress: Progress, rows: int, seed: int, padding: PaddingShare | None
) -> str:
    """Return one line: rows of the manifest, batches, arrays, seed, how far training has come."""
    plan, ledger, epoch = loader.plan, progress.ledger, progress.place.epoch
    arrays = ", ".join(f"{name} {_shape(spec, 'x')}" for name, spec in loader.specs.items())
    index, count = plan.shard
    part = f"; part {index} of {count}" if count > 1 else ""
    part += f"; {plan.rows:,} rows drawn an epoch" if plan.rows != rows else ""
    part += f"; {plan.left_out:,} rows left out of each epoch" if plan.left_out else ""
    if padding is not None:
        saved, before = (f"{share:.1%}" for share in padding)
        part += f"; {saved} of the pixels padding, {before} without bucket_by"
    under_way = ledger.place.step and ledger.place.epoch == epoch
    step = f", {ledger.place.step:,} of its batches {ledger.counted}" if under_way else ""
    return (
        f"<dfgen.Sequence: {rows:,} rows, {len(loader):,} batches of "
        f"{loader.batch_size}{part}; {arrays}; seed {seed}, epoch {epoch}{step}>"
    )


def html_summary(loader: Loader, class_names: Any, rows: int, line: str) -> str:
    """Return a table for notebooks; `line`, the repr, stands below it."""
    classes = class_names if isinstance(class_names, dict) else {"": class_names or []}
    largest = loader.reader.padding.specs(slice(None), loader.reader.specs)
    nbytes = loader.depth * loader.plan.size * row_bytes(largest)
    told = {
        "rows": f"{rows:,}",
        "steps": f"{len(loader):,} of {loader.batch_size} rows",
        **{name: _shape(spec) for name, spec in loader.specs.items()},
        **{f"classes {name}".strip(): _names(found) for name, found in classes.items() if found},
        "in flight": f"{loader.depth} batches, about {nbytes / 1e6:,.1f} MB",
    }
    cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in told.items())
    return f"<table>{''.join(cells)}</table><small>{escape(line)}</small>"


def _shape(spec: Spec, by: str = " x ") -> str:
    return f"{by.join(map(str, spec.shape)).replace('None', '?') or 'scalar'} {spec.dtype}"


def _names(class_names: list[Any]) -> str:
    more = ", ..." if len(class_names) > 20 else ""
    return f"{len(class_names):,}: {', '.join(map(str, class_names[:20]))}{more}"
