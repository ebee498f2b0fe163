"""Types of Arrow, and columns of lists, checked without a loop over rows."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError

Offsets = npt.NDArray[np.int64]

OR_IGNORE = 'or, in y, give these rows no weight, by missing="ignore" in the feature'
"""What else can be done about labels that some rows lack, as errors tell it."""


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of lists."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def flattened(values: pa.Array) -> pa.Array:
    """Return what is in all lists, nothing where there are none."""
    return pc.list_flatten(values) if is_list(values.type) else values[:0]


def offsets(column: str, values: pa.Array, advice: str) -> Offsets:
    """Return where the list of each row begins among all of them, and where the last one ends.

    Raises:
        ManifestError: the column holds no lists, or has none in some rows; `advice` says what to
            write there.
    """
    if not is_list(values.type):
        raise ManifestError(f"column {column!r} holds {values.type}, expected a list in each row")
    refuse_missing(column, values, "list", f"{advice}, {OR_IGNORE}")
    counts = pc.list_value_length(values).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def place_of(offsets: Offsets, index: int) -> tuple[int, int]:
    """Return (row, place in its list) of an entry."""
    row = int(np.searchsorted(offsets, index, side="right")) - 1
    return row, index - int(offsets[row])


def are_numbers(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def nulls(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are null, or NaN."""
    if pa.types.is_dictionary(values.type) and values.dictionary.null_count:
        values = values.cast(values.type.value_type)
    if pa.types.is_float16(values.type):  # pyarrow 15 computes nothing with them
        found: npt.NDArray[np.bool_] = np.isnan(values.to_numpy(zero_copy_only=False))
        return found
    return pc.is_null(values, nan_is_null=True).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def refuse_missing(column: str, values: pa.Array, what: str, advice: str) -> None:
    """Refuse a column with nulls."""
    if values.null_count:
        row = pc.indices_nonzero(pc.is_null(values))[0]
        raise ManifestError(
            f"column {column!r} has no {what} in {values.null_count:,} rows, the first is row "
            f"{row}: {advice}"
        )
