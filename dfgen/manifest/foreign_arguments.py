"""Arguments that other libraries have: what they are called here, or what there is instead."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from dfgen.errors import UnknownArgumentError, did_you_mean

_SPLIT = 'name each split with its share: split={"train": 0.8, "val": 0.2}'
_OF_SEQUENCE = "it belongs to dfgen.Sequence, which makes the batches"

_RENAMED = {
    **dict.fromkeys(("directory", "folder", "data_dir", "image_dir", "img_dir", "path"), "source"),
    **dict.fromkeys(("dataframe", "df", "csv", "csv_file", "annotations_file", "table"), "labels"),
    **dict.fromkeys(("x_col", "fn_col", "filename_col", "path_col", "file_column"), "path_column"),
    **dict.fromkeys(("y_col", "label_col", "label_column", "columns"), "label"),
    **dict.fromkeys(("output", "output_path", "save_path", "save_to"), "out"),
    **dict.fromkeys(("num_workers", "n_jobs", "max_workers"), "workers"),
    **dict.fromkeys(("groups", "group_by"), "group"),
    **dict.fromkeys(("n_splits", "k", "n_folds", "num_folds"), "folds"),
    **dict.fromkeys(("base_dir", "root_dir", "img_root"), "root"),
    "random_state": "seed",
    "random_seed": "seed",
    "shares": "split",
    "split": "shares",
    "label_from_folder": "pattern",
    "regex": "pattern",
    "glob": "pattern",
}
"""Argument elsewhere -> its name here, where the function has that."""

_INSTEAD = {
    **dict.fromkeys(
        ("validation_split", "valid_pct", "test_size", "train_size", "val_split", "val_size",
         "train", "val", "valid", "validation", "test"),
        _SPLIT,
    ),
    **dict.fromkeys(
        ("label_mode", "class_mode", "image_size", "target_size", "batch_size", "color_mode",
         "interpolation", "transform", "target_transform", "crop_to_aspect_ratio", "rescale",
         "sample_weight", "augment", "item_tfms", "batch_tfms"),
        _OF_SEQUENCE,
    ),
    "subset": 'a split is a column of the manifest: df[df.split == "train"]',
    "shuffle": "rows are split by the hash of their id, and dfgen.Sequence shuffles them",
    "follow_links": "links to folders are followed, except into a folder that they lie in",
    "recursive": "all folders below are searched",
    "extensions": "every file that dfgen opens becomes a row: filter the frame",
    "is_valid_file": "a file that cannot be read keeps its row, and the column problem says why",
    "validate_filenames": "every file is looked at, and the column problem says what is wrong",
    "label": 'name the column of a Sequence: dfgen.Sequence(df, y="kind")',
    "index": "the index is never written: make a column of it with df.reset_index()",
}  # fmt: skip
"""Argument elsewhere -> what there is instead."""


def refuse_foreign(function: Callable[..., Any], unknown: Iterable[str]) -> None:
    """Raise if a function of manifests was given arguments that it lacks, with advice on each."""
    known = list(inspect.signature(function).parameters)[:-1]
    said = [f"{name}: {_advice(name, known)}" for name in unknown]
    if said:
        several = "s" if len(said) > 1 else ""
        raise UnknownArgumentError(
            f"{function.__name__} has no argument{several} {'; '.join(said)}"
        )


def _advice(name: str, known: list[str]) -> str:
    if _RENAMED.get(name) in known:
        return f"it is {_RENAMED[name]}= here"
    if name in _INSTEAD:
        return _INSTEAD[name].replace("split={", "shares={" if "shares" in known else "split={")
    return f"expected {', '.join(known)}.{did_you_mean(name, known)}"
