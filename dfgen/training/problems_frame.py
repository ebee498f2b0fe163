"""The problems of a Sequence as a frame."""

import pandas as pd

from dfgen.loading.problems import Problems


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
