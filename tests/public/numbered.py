"""Tables whose input is the row number, and the batches that the reference order makes of them."""

import json
from itertools import chain

import numpy as np
import pandas as pd

import dfgen
from public.permutation import epoch_rows

PROCESSES = {"workers": 2, "use_multiprocessing": True}


def table(rows, **columns):
    """Return a table with a row number, ids that are no row numbers, and classes a, b, c."""
    labels = pd.Categorical(["abc"[row % 3] for row in range(rows)], categories=[*"abc"])
    ids, numbers = np.arange(rows) + 1000, np.arange(rows, dtype="f8")
    return pd.DataFrame({"id": ids, "number": numbers, "label": labels, **columns})


def sequence(rows, **options):
    """Return a Sequence of a table, or of a number of rows."""
    frame = rows if isinstance(rows, pd.DataFrame) else table(rows)
    return dfgen.Sequence(frame, "number", "label", **{"batch_size": 4, "workers": 0, **options})


def draw(sample, rng):
    return {**sample, "drawn": np.float32(rng.random())}


def drawing(frame, transform=draw, **options):
    """Return a Sequence of row numbers and random numbers of a transform."""
    x = {"row": "row", "drawn": "number"}
    options = {"batch_size": 4, "workers": 0, "transform": transform, **options}
    return dfgen.Sequence(frame.assign(row=range(len(frame))), x, "label", **options)


def rows_of(batch):
    return np.asarray(batch[0]).astype(int).tolist()


def joined(lists):
    return [*chain.from_iterable(lists)]


def flat(batches):
    return joined(map(rows_of, batches))


def take(batches, count):
    """Return the rows of the next batches, and leave the rest."""
    batches = iter(batches)
    return flat(next(batches) for _ in range(count))


def batches_of(order, size, *, shard=(0, 1), drop=False):
    """Return the part of each global batch that one process trains on."""
    (index, count), batches = shard, [order[at : at + size] for at in range(0, len(order), size)]
    if drop or count > 1:
        batches = [batch for batch in batches if len(batch) == size]
    part = size // count
    return [batch[index * part : (index + 1) * part] for batch in batches]


def epoch_batches(rows, size, epoch, *, seed=0, **options):
    return batches_of(epoch_rows(rows, epoch, seed=seed), size, **options)


def state_after(rows, steps, **options):
    """Return the state after some steps of a loop; the last one of an epoch ends it."""
    seq = sequence(rows, **options)
    take(seq.repeat(), steps)
    return json.loads(json.dumps(seq.state_dict()))
