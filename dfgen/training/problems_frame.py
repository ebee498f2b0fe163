"""The problems of a Sequence as a frame."""

import pandas as pd

from dfgen.loading.problems import Problems


def problems_frame(problems: Problems) -> pd.DataFrame:
    """Return id, path, stage, reason and epoch of rows that are skipped, in the order of rows."""
    rows = sorted(problems)
    ids, paths = zip(*map(problems.where, rows), strict=True) if rows else ((), ())
    stages, reasons, epochs = zip(*map(problems.get, rows), strict=True) if rows else ((), (), ())
    columns = {"id": ids, "path": paths, "stage": stages, "reason": reasons}
    return pd.DataFrame(columns).assign(epoch=pd.array(list(epochs), dtype="Int64"))
