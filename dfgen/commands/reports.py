"""The command `report`."""

import os
from typing import Annotated

import typer

from dfgen.commands.options import Force, Root, Workers


def report_command(
    manifest: Annotated[str, typer.Argument(help="The manifest.", metavar="M.parquet")],
    out: Annotated[str, typer.Option(help="The page to write.", metavar="F.html")],
    predictions: Annotated[
        str | None,
        typer.Option(
            help="What `dfgen predict` wrote: shows where the model is wrong.", metavar="P.parquet"
        ),
    ] = None,
    rows: Annotated[int, typer.Option(help="Most rows of the gallery, 1 to 2000.")] = 600,
    seed: Annotated[int, typer.Option(help="Another seed draws other rows.")] = 0,
    root: Root = None,
    workers: Workers = None,
    force: Force = False,
) -> None:
    """Write one HTML file that shows what is in a manifest, to look at and to send."""
    from dfgen.explore.report_file import report

    report(manifest, out, predictions=predictions, rows=rows, seed=seed, root=root, workers=workers)
    print(f"Wrote {out}: {os.path.getsize(out) / 1e6:.1f} MB")
