"""Names that data sets of other libraries have, and what of a Sequence cannot be set."""

from typing import Any

from dfgen.errors import brief, did_you_mean
from dfgen.training.sequence_arguments import SequenceArguments

_ARGUMENTS = "manifest", "x", "y", "shuffle", *SequenceArguments.__annotations__

_OF_ROW = 'seq.manifest has the rows: seq.manifest["path"]'
_TRANSFORM = (
    "write dfgen.Sequence(..., transform=function), of a sample, or batch_transform=, of a batch"
)
_BY_ITSELF = "batches are made ahead by themselves: leave it out, or give max_queue_size="
_BATCHES = "len(seq) is the number of batches"
_ROWS = "len(seq.manifest) is the number of rows"
_A_BATCH = "seq[0] is the first batch"
_FRAME = "seq.manifest is the DataFrame"

_HERE = {
    # keras: DataFrameIterator, DirectoryIterator, image_dataset_from_directory
    "class_indices": "write {name: number for number, name in enumerate(seq.class_names)}",
    "classes": "seq.class_names has the names in the order of their numbers; "
    "seq.manifest has the class of each row",
    "filenames": _OF_ROW,
    "filepaths": _OF_ROW,
    "file_paths": _OF_ROW,
    "samples": _ROWS,
    "n": _ROWS,
    "next": "write next(iter(seq))",
    "reset": "each pass begins anew: leave it out",
    "labels": "seq.manifest has the label of each row",
    "image_shape": "seq.element_spec has the shapes",
    "num_classes": "write len(seq.class_names)",
    "steps_per_epoch": _BATCHES,
    "flow": "give fit the Sequence itself",
    # tf.data
    "map": _TRANSFORM,
    "batch": "it gives batches: write dfgen.Sequence(..., batch_size=32)",
    "unbatch": "write dfgen.Sequence(..., batch_size=1)",
    "shuffle": "write dfgen.Sequence(..., shuffle=True), which is the default",
    "prefetch": _BY_ITSELF,
    "cache": 'write dfgen.Sequence(..., cache="memory"), which keeps decoded pixels',
    "take": "write dfgen.Sequence(df[:100], ...), of rows",
    "skip": "write dfgen.Sequence(df[100:], ...), of rows",
    "filter": "write dfgen.Sequence(df[df.kind == ...], ...), of rows",
    "concatenate": "write dfgen.Sequence(pd.concat([df, other]), ...)",
    "cardinality": _BATCHES,
    "as_numpy_iterator": "batches are NumPy arrays: for x, y in seq",
    "enumerate": "write enumerate(seq)",
    "with_options": "seq.get_tf_dataset() is a tf.data.Dataset",
    # torch, torchvision
    "class_to_idx": "write {name: number for number, name in enumerate(seq.class_names)}",
    "targets": "seq.manifest has the label of each row",
    "imgs": _OF_ROW,
    "dataset": _FRAME,
    "sampler": "write dfgen.Sequence(..., balance=column)",
    "collate_fn": _TRANSFORM,
    # fastai
    "vocab": "write seq.class_names",
    "c": "write len(seq.class_names)",
    "one_batch": _A_BATCH,
    "show_batch": "seq.show() draws the first batch",
    "train": 'dfgen.sequences(df, ...)["train"] is one of a split',
    "valid": 'dfgen.sequences(df, ...)["val"] is one of a split',
    # Hugging Face
    "features": "seq.element_spec has shapes and dtypes",
    "column_names": "write list(seq.manifest)",
    "num_rows": _ROWS,
    "to_tf_dataset": "write seq.get_tf_dataset(), or give fit the Sequence itself",
    "with_transform": _TRANSFORM,
    "set_transform": _TRANSFORM,
    "with_format": "fit gives each backend its own tensors: leave it out",
    "set_format": "fit gives each backend its own tensors: leave it out",
    "train_test_split": 'write dfgen.split(df, {"train": 0.8, "val": 0.2})',
    "select": "write dfgen.Sequence(df.iloc[rows], ...)",
    # pandas
    "columns": _FRAME,
    "head": _FRAME,
    "iloc": _FRAME,
    "loc": _FRAME,
    "sample": _FRAME,
    "value_counts": _FRAME,
    "shape": "seq.element_spec has the shapes",
    "dtype": "seq.element_spec has the dtypes",
}
"""Name -> what there is instead."""


def no_such_name(given: object, name: str) -> AttributeError:
    """Return the error that a Sequence has no such attribute, with what it has instead."""
    kind = type(given).__name__
    fault = f"{kind!r} object has no attribute {name!r}"
    if "_loader" not in vars(given):
        return AttributeError(
            f"{fault}, as __init__ of dfgen.Sequence has not run: a subclass calls "
            "super().__init__(df, ...). Batches of your own making are a keras.utils.PyDataset",
            name=name,
        )
    told = f": {_HERE[name]}" if name in _HERE else ""
    return AttributeError(fault + told, name=name, obj=given)


def check_set(given: object, name: str, value: Any) -> None:
    """Refuse to set a public attribute of a Sequence, which would change nothing.

    A class that a user derives may have attributes of its own.

    Raises:
        AttributeError: it is one that a Sequence or nobody has.
    """
    if name.startswith("_"):
        return
    kinds = type(given).__mro__
    owner = next((one for one in kinds if name in vars(one)), None)
    module = (owner or kinds[0]).__module__.partition(".")[0]
    is_free = owner is not None or name not in _ARGUMENTS or "_loader" not in vars(given)
    if is_free and module not in ("dfgen", "keras", "builtins"):
        return
    advice = f": make a new one, dfgen.Sequence(df, ..., {name}={brief(value)})"
    if name not in _ARGUMENTS:
        near = "" if owner is not None else did_you_mean(name, _ARGUMENTS)
        advice = f".{near} Its arguments are given as it is made: dfgen.Sequence(df, ...)"
    raise AttributeError(
        f"{name} = {brief(value)} would change nothing in a Sequence that is made already{advice}",
        name=name,
        obj=given,
    )
