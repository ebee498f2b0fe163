"""From pandas to Arrow, with errors that say which column is at fault."""

import pandas as pd
import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.manifest.schema import check_names


def to_table(frame: pd.DataFrame, where: str = "the frame") -> pa.Table:
    """Return the columns of a frame as an Arrow table; its index and attrs are left behind."""
    check_names(list(frame.columns), where)
    imaginary = [name for name in frame.columns if frame[name].dtype.kind == "c"]
    if imaginary:
        name = imaginary[0]
        raise ManifestError(
            f'column "{name}" of {where} holds complex numbers, which Parquet lacks. Make two '
            f'columns of it: df["{name}_real"] = df["{name}"].to_numpy().real, and .imag'
        )
    bare = frame.copy(deep=False)
    bare.attrs = {}  # newer pyarrow would store them, and with them the absolute root
    try:
        return pa.Table.from_pandas(bare, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        reason = "; ".join(str(part) for part in error.args)
        raise ManifestError(
            f"{where} has a column that mixes types, or of a type that Parquet lacks: {reason}. "
            'Convert it, for example Path objects with df["path"] = df["path"].astype(str)'
        ) from error
