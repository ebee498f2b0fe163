"""The command `predict`."""

from typing import Annotated

import typer

from dfgen.commands.options import Json, Root, Workers, part_of, print_json, silence


def predict_command(
    model: Annotated[str, typer.Argument(help="The model, saved by Keras.", metavar="MODEL.keras")],
    manifest: Annotated[str, typer.Argument(help="The rows.", metavar="M.parquet")],
    out: Annotated[
        str, typer.Option(help="The file to write; after a kill, go on with.", metavar="P.parquet")
    ],
    preprocessing: Annotated[
        str | None,
        typer.Option(
            help="What SavePreprocessing has saved. Default: MODEL.keras.json.", metavar="FILE"
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Only rows whose column split is this.", metavar="NAME")
    ] = None,
    root: Root = None,
    batch_size: Annotated[int, typer.Option(help="Rows of a batch.")] = 32,
    views: Annotated[
        int | None,
        typer.Option(help="Passes with random crops and flips, averaged. Default: one without."),
    ] = None,
    arrays: Annotated[
        str | None, typer.Option(help="Folder for masks and the like, a file a row.", metavar="DIR")
    ] = None,
    on_error: Annotated[
        str, typer.Option(help="skip: mark rows that cannot be read; raise: stop.")
    ] = "skip",
    shard: Annotated[
        str | None,
        typer.Option(help="Predict part I (from 0) of N.", metavar="I/N"),
    ] = None,
    workers: Workers = None,
    allow_functions: Annotated[
        bool,
        typer.Option("--allow-functions", help="Run functions that the preprocessing names."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the rows of a manifest with what a saved model says of each."""
    with silence():
        from dfgen.training.predictions.saved_model import predict_saved

    predicted = predict_saved(
        model,
        manifest,
        out,
        preprocessing=preprocessing,
        split=split,
        views=views,
        arrays=arrays,
        allow_functions=allow_functions,
        root=root,
        batch_size=batch_size,
        on_error=on_error,
        shard=part_of("--shard", shard),
        workers=workers,
    )
    if as_json:
        print_json({"out": out, **predicted})
        return
    lost = f", {predicted['problems']:,} without a prediction" * bool(predicted["problems"])
    print(f"Wrote {out}: {predicted['rows']:,} rows{lost}")
