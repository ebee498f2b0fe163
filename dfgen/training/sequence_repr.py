"""What the repr of a Sequence says."""

from dfgen.loading.loader import Loader
from dfgen.loading.order.buckets import PaddingShare
from dfgen.training.progress import Progress


def summary(
    loader: Loader, progress: Progress, rows: int, seed: int, padding: PaddingShare | None
) -> str:
    """Return one line: rows of the manifest, batches, arrays, seed, how far training has come."""
    plan, ledger, epoch = loader.plan, progress.ledger, progress.place.epoch
    arrays = ", ".join(
        f"{name} {'x'.join(map(str, spec.shape)).replace('None', '?') or 'scalar'} {spec.dtype}"
        for name, spec in loader.specs.items()
    )
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
