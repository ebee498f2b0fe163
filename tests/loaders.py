"""The batches of one epoch of a Loader."""


def batches_of(loader, epoch=0, plan=None):
    """Yield the batches of an epoch, made ahead; none of the next one."""
    plan, ahead = plan or loader.plan, []
    for step in range(len(plan)):
        for later in range(step + len(ahead), min(step + loader.depth, len(plan))):
            ahead.append(loader.start(epoch, later, plan, spread=not ahead))
        yield loader.result(ahead.pop(0))
