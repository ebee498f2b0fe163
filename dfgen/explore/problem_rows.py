"""The rows whose files cannot be used, as the manifest knows them."""

import pandas as pd

from dfgen.errors import ManifestError, column_list
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import PARTS
from dfgen.manifest.tables import Table


def problems(manifest: Path | Table) -> pd.DataFrame:
    """Return the rows whose files cannot be used, and why, as the manifest says.

    No file is looked at: `dfgen.verify` does that.

    Args:
        manifest: a frame with the column `problem`, as `dfgen.build_manifest` makes it.

    Returns:
        `id`, `path`, `split` where there are some, and `problem`; no rows: all can be used.

    Raises:
        ManifestError: the frame has no such column.

    Example:
        >>> frame = pd.DataFrame({"id": [1, 2], "problem": [None, "the file does not exist"]})
        >>> problems(frame)["id"].tolist()
        [2]
    """
    frame = frame_of_manifest(manifest)
    if "problem" not in frame:
        raise ManifestError(
            "the frame does not say which files cannot be used (columns: "
            f"{column_list(map(str, frame.columns))}): dfgen.verify(df) looks at them, and "
            "dfgen.build_manifest adds the column problem"
        )
    names = [name for name in ("id", "path", *PARTS, "problem") if name in frame]
    return frame.loc[frame["problem"].notna(), names]
