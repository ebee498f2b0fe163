"""generator_from_df: the generator that many wrote by hand, over dfgen's workers."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from dfgen.errors import ManifestError, column_list, did_you_mean
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.geometry import Size
from dfgen.table.any_table import Table, data_frame
from dfgen.training.sequence import Sequence

_PATHS = ("imgpath", "path")
_TARGET = "target"


def generator_from_df(df: Table, batch_size: int, target_size: Size) -> Iterator[Any]:
    """Return a generator of batches that never ends, for `fit` with `steps_per_epoch`.

    Use it in place of the fifteen lines of this name that read images one by one; change the import
    alone. New code is better off with `dfgen.Sequence`, which knows how many steps an epoch has.

    The rows come in another order each epoch, the same ones in each run. An epoch has whole batches
    alone: the rows that are left come in others. Batches are made ahead of time in threads, which
    end when the generator is closed or nothing holds it any more.

    Args:
        df: a column `imgpath`, or `path`, and one `target`; a file may stand in several rows.
        batch_size: rows of a batch.
        target_size: (height, width) of the images.

    Returns:
        Batches `(x, y)`: float32 of shape (batch_size, height, width, 3) in -1..1, resized as
        `keras.utils.load_img` does by default, to the nearest pixel, but turned upright where the
        file says so; and the targets, numbers as int32 or float32, and text, which `fit` refused
        before, as numbers of its sorted values.

    Raises:
        ManifestError: there is no such column, or a row has no path or target.
        MissingFileError: a file is not there, by some that are looked for.
        ArgumentError: an argument has a value that it cannot have, or there are fewer rows than a
            batch has.
        DecodeError: by the generator, of a file that cannot be read, with its row. The old code
            left its batch out in silence.

    Example:
        >>> train = generator_from_df(df, 32, (224, 224))  # doctest: +SKIP
        >>> model.fit(
        ...     train, steps_per_epoch=len(df) // 32, epochs=10, shuffle=False
        ... )  # doctest: +SKIP
    """
    frame = data_frame(df)
    path = _PATHS[1] if _PATHS[0] not in frame and _PATHS[1] in frame else _PATHS[0]
    for name in (path, _TARGET):
        if name not in frame:
            names = [*map(str, frame.columns)]
            raise ManifestError(
                f'the frame has no column "{name}". Columns: {column_list(names)}.'
                f"{did_you_mean(name, names)} Rename the one that has it, or give the columns by "
                'name: dfgen.Sequence(df, x="path", y="kind")'
            )
    rows = pd.DataFrame({"id": range(len(frame)), "path": frame[path].to_numpy()})
    rows[_TARGET] = frame[_TARGET].array
    image = Image("path", size=target_size, scale="-1..1", interpolation="nearest")
    return _endless(Sequence(rows, image, _TARGET, batch_size=batch_size, drop_remainder=True))


def _endless(seq: Sequence) -> Iterator[Any]:
    with seq:
        while True:
            yield from seq
