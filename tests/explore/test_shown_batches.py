"""seq.show draws batches."""

import numpy as np
from public.test_explore import red as red
from public.test_explore import rows as rows

import dfgen
import dfgen.explore


def test_sequence_shows_batches_and_draws(rows):
    def brighter(sample, rng):
        return {**sample, "image": sample["image"] + np.uint8(rng.integers(100, 200))}

    options = {"y": "label", "image_size": (4, 4), "batch_size": 6}
    seq = dfgen.Sequence(rows, **options)
    figure = seq.show(1)
    assert red(figure) == figure.table.id.tolist() == seq.rows(1).tolist()
    assert len(seq.show(n=3).axes) == 3 and seq.epoch == 0
    drawn = red(dfgen.Sequence(rows, **options, transform=brighter, shuffle=False).show(draws=4))
    assert len(set(drawn[-4:])) > 1 and all(100 <= value < 210 for value in drawn)
