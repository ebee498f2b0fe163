"""Bits of images, where the facts of the manifest tell them: too many, or of several numbers."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.binding.row_ids import lines_of_rows
from dfgen.manifest.warn import warn
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.pixels.depth import too_deep
from dfgen.samples.reader import SampleReader

_DEPTHS = np.array([8, 16, 32])


def deep_rows(columns: Columns, features: Iterable[BoundFeature]) -> dict[int, str]:
    """Return row -> why its file has too many bits for its image, by the facts of the manifest.

    Warns of an image that keeps the numbers of files of different depths. The facts are those of
    the column of files.
    """
    is_fact = {"bits", "format"} <= {*columns.names} and "bits" not in columns.labels
    if not is_fact or not pa.types.is_integer(columns["bits"].type):
        return {}
    rows = dict[int, str]()
    held = columns.of_facts
    read = (b for b in features if b.packed is None or b.pixels is None)  # others were decoded
    for feature in (b.feature for b in read if b.feature.columns[0] == held):
        bits = columns["bits"]
        if feature.most_bits is not None:
            for row in pc.indices_nonzero(pc.greater(bits, feature.most_bits)).to_pylist():
                rows[row] = too_deep(bits[row].as_py())
        elif feature.keeps_numbers:
            found = pc.unique(bits).drop_null().to_numpy()
            depths = sorted(set(_DEPTHS[np.searchsorted(_DEPTHS, found.clip(max=32))].tolist()))
            if len(depths) > 1:
                warn(
                    f"the files of {feature!r} have {' and '.join(map(str, depths))} bits a "
                    "channel, by the facts of the manifest, and it keeps the numbers of each: the "
                    'brightest are 255 in some, 65535 in others. Give scale="0..1" and '
                    'dtype="float32", or choose files of one depth: df[df["bits"] == '
                    f"{depths[-1]}]"
                )
    return rows


def refusal_of_deep(rows: Mapping[int, str], reader: SampleReader) -> str:
    """Return why a Sequence refuses rows whose files have too many bits."""
    return (
        f"{len(rows):,} of {len(reader):,} rows have images of more bits than are asked for, by "
        f"the facts of the manifest:{lines_of_rows(rows, reader)}"
    )
