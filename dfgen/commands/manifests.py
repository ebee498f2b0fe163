"""The commands for manifests that exist: verify, update-labels, diff, recipe."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from dfgen.commands.options import Dask, Force, Json, Manifest, Root, beside, counted, print_json

SHOWN = 20
WIDE = 60


def verify_command(
    manifest: Manifest,
    root: Root = None,
    decode: Annotated[
        bool,
        typer.Option("--decode", help="Decode every file to its end, which finds truncated files."),
    ] = False,
    add: Annotated[
        str | None,
        typer.Option(
            help="Table of problems to write into the manifest: column id, and reason or problem.",
            metavar="PROBLEMS.parquet",
        ),
    ] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="Write the current facts and problems into the manifest."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes that read, or threads for a pack. Default: threads, on all CPUs."
        ),
    ] = None,
    dask: Dask = None,
    as_json: Json = False,
) -> None:
    """Compare a manifest with the disk: missing, damaged, changed and new files.

    Exit code: 0 if they agree and every file can be used, 1 if not, 2 if they cannot be compared.
    """
    from dfgen.commands.executor import executor_of
    from dfgen.manifest.building.file_facts import Access
    from dfgen.manifest.verify import Verification
    from dfgen.packs.pack_index import is_pack

    of_pack = is_pack(manifest)  # whose bytes threads of this process sum up
    with executor_of(None if of_pack else workers, dask) as executor:
        access = Access(workers if of_pack else None, executor=executor)
        found, notes = Verification(manifest, root, decode, write, add, access).run()
    left_out = found.attrs.get("left_out", 0)
    _show(found, as_json, notes, {"left_out": left_out})
    if left_out and not as_json:
        print(f"{left_out} more left out on purpose")
    if not as_json and (found["change"] == "new").any():
        print(f"Add the new files: dfgen build-manifest --update {manifest}")
    if (write or add) and not as_json:
        print(f"Wrote {manifest}")
    raise typer.Exit(int(len(found) > 0))


def diff_command(
    a: Annotated[str, typer.Argument(help="The older manifest.", metavar="A.parquet")],
    b: Annotated[str, typer.Argument(help="The newer manifest.", metavar="B.parquet")],
    as_json: Json = False,
) -> None:
    """List rows that were added, removed, changed, relabelled, or moved to another split.

    Exit code: 0 if the manifests agree, 1 if not, 2 if they cannot be compared.
    """
    from dfgen.manifest.diff import diff

    found = diff(a, b)
    _show(found, as_json)
    raise typer.Exit(int(len(found) > 0))


def update_labels_command(
    manifest: Manifest,
    corrections: Annotated[
        str,
        typer.Argument(
            help="Column id and corrected labels: .csv, .tsv, .jsonl, .xlsx or .parquet.",
            metavar="FIX.csv",
        ),
    ],
    label: Annotated[
        list[str] | None,
        typer.Option(help="Column to take. Repeatable. Default: all.", metavar="COL"),
    ] = None,
    new_classes: Annotated[
        bool, typer.Option("--new-classes", help="Number new classes after the others.")
    ] = False,
    out: Annotated[
        str | None, typer.Option(help="The file to write. Default: the manifest itself.")
    ] = None,
    sep: Annotated[
        str | None, typer.Option(help="Separator of its values. Default: found in its rows.")
    ] = None,
    decimal: Annotated[
        str | None,
        typer.Option(help="Decimal mark of its numbers. Default: found in them.", metavar=".|,"),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Its encoding, such as cp1252. Default: UTF-8 or UTF-16.")
    ] = None,
    sheet: Annotated[
        str | None, typer.Option(help="Sheet of a workbook. Default: the first.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Put corrected labels into a manifest by id, and list what changed."""
    from dfgen.manifest.corrections import correct
    from dfgen.manifest.diff import diff
    from dfgen.manifest.sources.table_format import TableFormat

    before, after, notes = correct(
        manifest,
        corrections,
        label or (),
        new_classes,
        out or manifest,
        TableFormat(sep, decimal, encoding, sheet),
    )
    _show(diff(before, after), as_json, notes)
    if not as_json:
        print(f"Wrote {out or manifest}")


def recipe_command(
    manifest: Manifest,
    out: Annotated[
        str | None,
        typer.Option(help="The file to write. Default: print it.", metavar="RECIPE.toml"),
    ] = None,
    force: Force = False,
) -> None:
    """Write the recipe that built a manifest as a TOML file that builds it again."""
    from dfgen.manifest.building.recipe_file import to_toml, write_recipe
    from dfgen.manifest.table_reading import read_table

    metadata = read_table(manifest, reads_files=False, columns=["id"])[1]
    arguments = metadata["recipe"]
    corrected = [name for name, label in metadata["labels"].items() if label.get("corrected")]
    if arguments is not None and corrected:
        print(
            f"dfgen: {', '.join(corrected)} of {manifest} was corrected since: the recipe makes it "
            "as it was before, and dfgen update-labels corrects it again",
            file=sys.stderr,
        )
    if out is None:
        print(to_toml(arguments, os.getcwd()), end="")
    else:
        write_recipe(arguments, out)
        print(f"Wrote {out}", file=beside(out))


def _show(
    found: Any, as_json: bool, notes: tuple[str, ...] = (), more: Mapping[str, Any] | None = None
) -> None:
    """Print findings as a table of the first ones, or all of them as JSON."""
    from dfgen.manifest.diff import tally

    counts = tally(found)
    if as_json:
        rows = json.loads(found.to_json(orient="records"))
        print_json({"counts": counts, "rows": rows, "notes": list(notes), **(more or {})})
        return
    if len(found):
        print(found.head(SHOWN).to_string(index=False, na_rep="", max_colwidth=WIDE))
    if len(found) > SHOWN:
        print(f"and {len(found) - SHOWN} more; --json lists all")
    print(*notes, counted(counts), sep="\n")
