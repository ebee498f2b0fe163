"""Arguments that a Sequence does not have: what they are called here, or what there is instead."""

from collections.abc import Iterable

from dfgen.errors import UnknownArgumentError, did_you_mean

# Arguments of `ImageDataGenerator.flow_from_dataframe` and the like, and what they are called here.
_OLD_ARGUMENTS = {
    "class_mode": "label_mode",
    "classes": "class_names",
    "dataframe": "manifest",
    "directory": "root",
    "preprocessing_function": "transform",
    "rescale": "scale",
    "target_size": "image_size",
    "weight_col": "sample_weight",
    "x_col": "x",
    "y_col": "y",
}
_NO_LONGER = {
    "interpolation": 'it belongs to the image: x=dfgen.Image("path", interpolation="nearest")',
    "subset": 'a split is a column of the manifest: df[df.split == "train"]',
    "validate_filenames": "build_manifest looks at every file once",
    "validation_split": 'a split is a column of the manifest: df[df.split == "train"]',
}


def refuse_unknown(unknown: Iterable[str], known: list[str]) -> None:
    """Raise if a Sequence was given arguments that are not among the known ones."""
    for name in unknown:
        if name in _OLD_ARGUMENTS:
            advice = f"{name} is now {_OLD_ARGUMENTS[name]}"
        elif name in _NO_LONGER:
            advice = f"{name}: {_NO_LONGER[name]}"
        else:
            advice = f"Arguments: {', '.join(known)}.{did_you_mean(name, known)}"
        raise UnknownArgumentError(f"Sequence has no argument {name}. {advice}")
