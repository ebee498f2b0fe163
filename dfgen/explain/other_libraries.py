"""Words of other libraries, above all of Keras and tf.data, and what each is called here.

A new word is one line: of an argument in RENAMED, of a value in VALUES, of an attribute in HERE.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dfgen.errors import UnknownArgumentError, did_you_mean

_LAYER = ": augmentation is part of the model, {}, or of transform=dfgen.albumentations(...)"
_SPLIT = (
    ': name each split with its share: df = dfgen.split(df, {"train": 0.8, "val": 0.2}), or split= '
    'of build_manifest; a split is a column: dfgen.Sequence(df[df.split == "train"], ...)'
)
_FOLDER = 'df = dfgen.build_manifest("imgs", pattern="{kind}/{id}.jpg")'
_WINDOW = (
    ": a row is a sample: put a list of the numbers of its window into a column, "
    'x=dfgen.Column("window", np.array, shape=(10,))'
)
_FUNCTION = "transform: transform(sample, rng) -> sample"
_STATISTICS = "scale: the mean and the deviation of each channel, of pixels 0..1"
_SHUFFLED = "shuffle: all rows are shuffled, without a buffer"
_OF_SEQUENCE = "it belongs to dfgen.Sequence, which makes the batches"

OF_IMAGE = (
    "resize", "antialias", "load_size", "crop", "flip", "interpolation", "dtype", "extra", "area",
    "ratio", "like", "max_items", "missing", "index",
)  # fmt: skip
"""Arguments of Image that Sequence lacks."""

_OF_BATCHES = {
    "x", "y", "label_mode", "image_size", "batch_size", "color_mode", "scale", "transform",
    "batch_transform", "sample_weight", "class_names", "balance", "max_queue_size",
    "drop_remainder", *OF_IMAGE,
}  # fmt: skip
"""Arguments of Sequence, for functions that make no batches."""

RENAMED: Mapping[str, str] = {
    # keras: flow_from_dataframe, flow_from_directory, image_dataset_from_directory
    **dict.fromkeys(("dataframe", "df", "data", "frame"), "manifest: the first argument | labels"),
    "directory": f"source | root: paths of the frame begin there; of a folder alone: {_FOLDER}",
    **dict.fromkeys(("x_col", "path_col", "image_col", "fn_col"), "x | path_column"),
    **dict.fromkeys(("y_col", "label_col", "target_col", "target", "label_column"), "y | label"),
    **dict.fromkeys(("weight_col", "weights"), "sample_weight: the name of a column"),
    **dict.fromkeys(
        ("target_size", "img_size", "size", "dim", "input_size"), "image_size: (height, width)"
    ),
    "input_shape": "image_size: (height, width), with color_mode=",
    "class_mode": 'label_mode: "sparse" is "int"; numbers of class_mode="raw" are y="age" by '
    'itself, several outputs y=["kind", "age"]',
    "classes": "class_names",
    "labels": f"y: a column of the frame; names of folders are one by {_FOLDER}",
    "preprocessing_function": f"{_FUNCTION}; of keras.applications.*.preprocess_input it is "
    'scale=: "caffe" for ResNet and VGG, "torch" for DenseNet, "tf" for Inception, MobileNet (V2), '
    "NASNet, ResNet V2 and Xception, and for EfficientNet, ConvNeXt and MobileNetV3 nothing",
    "validate_filenames": ": a Sequence looks for some files; dfgen.build_manifest and "
    "dfgen.verify look at all, and the column problem says what is wrong",
    "crop_to_aspect_ratio": 'Image.resize: resize="crop"',
    "pad_to_aspect_ratio": 'Image.resize: resize="pad"',
    "keep_aspect_ratio": 'Image.resize: resize="crop" or "pad"',
    **dict.fromkeys(("validation_split", "subset"), _SPLIT),
    "follow_links": ": links to folders are followed, except into a folder that they lie in",
    "drop_duplicates": ": df = df.drop_duplicates()",
    "sort": "shuffle: shuffle=False keeps the order of the frame",
    "verbose": ": nothing is printed: leave it out",
    "has_ext": ': paths have their extension: df["path"] = df["id"] + ".jpg"',
    **dict.fromkeys(
        ("save_to_dir", "save_prefix", "save_format"),
        ": nothing is written: sequence[0] is a batch to look at",
    ),
    # keras: ImageDataGenerator
    **dict.fromkeys(("rescale", "normalize"), 'scale: 1/255 is scale="0..1"'),
    "horizontal_flip": 'Image.flip: flip="horizontal"',
    "vertical_flip": 'Image.flip: flip="vertical"',
    "rotation_range": _LAYER.format("keras.layers.RandomRotation"),
    **dict.fromkeys(
        ("width_shift_range", "height_shift_range"),
        _LAYER.format("keras.layers.RandomTranslation"),
    ),
    "zoom_range": _LAYER.format("keras.layers.RandomZoom"),
    "shear_range": _LAYER.format("keras.layers.RandomShear"),
    **dict.fromkeys(
        ("brightness_range", "channel_shift_range"), _LAYER.format("keras.layers.RandomBrightness")
    ),
    **dict.fromkeys(
        ("fill_mode", "cval"),
        ": it is fill_mode or fill_value of the layer, as of keras.layers.RandomRotation",
    ),
    **dict.fromkeys(
        ("samplewise_center", "samplewise_std_normalization"), 'scale: scale="standardize"'
    ),
    **dict.fromkeys(("featurewise_center", "featurewise_std_normalization"), _STATISTICS),
    **dict.fromkeys(("zca_whitening", "zca_epsilon"), "transform: a function of your own"),
    "data_format": ": keras.config.set_image_data_format(...) is obeyed",
    **dict.fromkeys(("epochs", "num_epochs"), ": it is epochs= of fit"),
    "steps_per_epoch": ": it belongs to fit, with fit(sequence.repeat(), ...)",
    **dict.fromkeys(("sequence_length", "sequence_stride", "sampling_rate"), _WINDOW),
    # tf.data, and the queues of TensorFlow 1
    "num_parallel_calls": "workers: None is all CPUs",
    "prefetch": "max_queue_size: batches are made ahead by themselves",
    "capacity": "max_queue_size: which counts batches, not samples",
    **dict.fromkeys(("buffer_size", "shuffle_buffer", "min_after_dequeue"), _SHUFFLED),
    "reshuffle_each_iteration": "shuffle: every epoch has another order",
    "deterministic": "seed: the same seed gives the same batches",
    "allow_smaller_final_batch": "drop_remainder: the opposite",
    # torch, fastai, scikit-learn
    "dataset": "manifest: a frame with a row for each file",
    **dict.fromkeys(("num_workers", "num_threads", "n_jobs"), "workers"),
    "pin_memory": ": batches are made ready for the device by themselves: leave it out",
    "collate_fn": "batch_transform: batch_transform(batch, rng) -> batch",
    "sampler": "balance: the column that rows are drawn by",
    "drop_last": "drop_remainder",
    "bs": "batch_size",
    **dict.fromkeys(("item_tfms", "target_transform", "augment"), _FUNCTION),
    "batch_tfms": "batch_transform: batch_transform(batch, rng) -> batch",
    "is_valid_file": ": a file that cannot be read keeps its row, and the column problem says why",
    **dict.fromkeys(("valid_pct", "test_size", "train", "val", "validation", "test"), _SPLIT),
    "random_state": "seed",
    **dict.fromkeys(("n_splits", "k", "n_folds"), "folds"),
    # tutorials, and functions of dfgen beside the one that was called
    "list_IDs": "manifest: a frame with a row for each of them",
    "n_channels": "color_mode: 3 is rgb",
    **dict.fromkeys(("n_classes", "num_classes"), "class_names: the data tells how many there are"),
    "one_hot": 'label_mode: label_mode="categorical"',
    **dict.fromkeys(("folder", "path", "data_dir", "image_dir", "img_dir"), "source | root"),
    **dict.fromkeys(("csv", "csv_file", "annotations_file", "table"), "labels | manifest"),
    **dict.fromkeys(("output", "output_path", "save_path"), "out"),
    "groups": "group",
    "split": "shares",
    "shares": "split",
    **dict.fromkeys(("regex", "glob", "label_from_folder"), "pattern"),
    "shuffle": ": rows are split by the hash of their id, and dfgen.Sequence shuffles them",
    "recursive": ": all folders below are searched",
    "extensions": ": every file that dfgen opens becomes a row: filter the frame",
    "label": ': name the column of a Sequence: dfgen.Sequence(df, y="kind")',
    "columns": "label",
    "index": ": the index is never written: make a column of it with df.reset_index()",
}
"""Argument -> what it is here, with what to know beside; of several, what the function has.

`Image.resize` is an argument of a feature; with no name at all there is only advice.
"""

_NUMBERS = "a y of numbers needs no label_mode: leave it out"
_CENTRES = "make corners of centres: x - width / 2, y - height / 2, x + width / 2, y + height / 2"
_SHRINKS = 'write interpolation="bilinear", which with antialias=True shrinks as well (default)'
_CROPPED = 'write crop="random", and load_size=, a size larger than size= to crop from'
_SHAPE = 'write bucket_by="shape", with image_size=None'

VALUES: Mapping[str, Mapping[str, str]] = {
    "label_mode": {
        **dict.fromkeys(("onehot", "one_hot", "one-hot", "softmax"), "categorical"),
        **dict.fromkeys(("sparse", "integer", "class", "index"), "int"),
        "sigmoid": "binary",
        **dict.fromkeys(("none", "false"), "write label_mode=None"),
        **dict.fromkeys(("raw", "other", "regression"), _NUMBERS),
        "input": 'write y=dfgen.Image("path")',
        "multi_output": 'write y={"kind": "kind", "age": "age"}, the names of the outputs first',
        "multilabel": "write y=dfgen.MultiLabel(column), of a column of lists, and leave it out",
        "inferred": "leave label_mode out: the column tells",
    },
    "color_mode": {
        **dict.fromkeys(("gray", "grey", "greyscale", "l", "1", "true"), "grayscale"),
        **dict.fromkeys(("3", "none", "color"), "rgb"),
        "4": "rgba",
        "bgr": 'images are RGB: scale="caffe" makes BGR, for models that want it',
    },
    "interpolation": {
        **dict.fromkeys(
            ("bicubic", "cubic", "lanczos", "lanczos3", "lanczos5", "gaussian"), _SHRINKS
        ),
        **dict.fromkeys(("linear", "1"), "bilinear"),
        **dict.fromkeys(("box", "3"), "area"),
        "0": "nearest",
    },
    "resize": {
        **dict.fromkeys(("squash", "true", "false", "resize", "none"), "stretch"),
        **dict.fromkeys(("fit", "letterbox", "padding", "pad_to_aspect_ratio"), "pad"),
        **dict.fromkeys(("center_crop", "centercrop", "crop_to_aspect_ratio", "fill"), "crop"),
    },
    "crop": {
        **dict.fromkeys(("true", "random_crop", "randomcrop"), _CROPPED),
        **dict.fromkeys(("randomresizedcrop", "random_resized_crop"), "random_resized"),
        **dict.fromkeys(("center_crop", "centercrop"), "center"),
        "false": "write crop=None",
    },
    "flip": {
        **dict.fromkeys(("true", "random", "left_right", "horizontal_flip", "h"), "horizontal"),
        **dict.fromkeys(("up_down", "vertical_flip", "v"), "vertical"),
        "both": "horizontal_and_vertical",
        "false": "write flip=None",
    },
    "dtype": {
        **dict.fromkeys(("float", "float64", "double"), "float32"),
        "half": "float16",
        **dict.fromkeys(("int", "int32", "int64"), "uint8"),
    },
    "dtype of a mask": {
        **dict.fromkeys(("int", "int64", "uint16", "int16", "long"), "int32"),
        **dict.fromkeys(("bool", "int8"), "uint8"),
        **dict.fromkeys(("float", "float64", "float16", "double"), "float32"),
    },
    "format of boxes": {
        **dict.fromkeys(("voc", "pascal_voc", "ltrb", "tlbr", "corners"), "xyxy"),
        **dict.fromkeys(("coco", "ltwh", "xyhw"), "xywh"),
        **dict.fromkeys(("albumentations", "xyxyn", "rel_ltrb"), "rel_xyxy"),
        **dict.fromkeys(("yxyx", "rel_yxyx"), "put x before y in each corner"),
        **dict.fromkeys(("yolo", "center_xywh", "cxcywh", "xywhn", "center_xyhw"), _CENTRES),
    },
    "on_error": {
        **dict.fromkeys(("ignore", "warn", "coerce", "drop", "continue", "none", "false"), "skip"),
        **dict.fromkeys(("fail", "true", "strict"), "raise"),
    },
    "bucket_by": {
        **dict.fromkeys(("true", "size", "length", "image_size", "aspect_ratio"), _SHAPE),
        "false": "write bucket_by=None",
    },
}
"""Argument -> value of another library, in lower case -> the value here, or what to do."""

_OF_ROW = 'seq.manifest has the rows: seq.manifest["path"]'
_OF_LABELS = "seq.manifest has the label of each row"
_NUMBER_OF = "write {name: number for number, name in enumerate(seq.class_names)}"
_MAPPED = (
    "write dfgen.Sequence(..., transform=function), of a sample, or batch_transform=, of a batch"
)
_ROWS = "len(seq.manifest) is the number of rows"
_BATCHES = "len(seq) is the number of batches"

HERE: Mapping[str, str] = {
    # keras: DataFrameIterator, DirectoryIterator, image_dataset_from_directory
    "class_indices": _NUMBER_OF,
    "classes": "seq.class_names has the names in the order of their numbers; seq.manifest has the "
    "class of each row",
    **dict.fromkeys(("filenames", "filepaths", "file_paths"), _OF_ROW),
    **dict.fromkeys(("samples", "n"), _ROWS),
    "next": "write next(iter(seq))",
    "reset": "each pass begins anew: leave it out",
    "labels": _OF_LABELS,
    **dict.fromkeys(("image_shape", "shape", "dtype"), "seq.element_spec has shapes and dtypes"),
    "num_classes": "write len(seq.class_names)",
    **dict.fromkeys(("steps_per_epoch", "cardinality"), _BATCHES),
    "flow": "give fit the Sequence itself",
    # tf.data
    "map": _MAPPED,
    "batch": "it gives batches: write dfgen.Sequence(..., batch_size=32)",
    "unbatch": "write dfgen.Sequence(..., batch_size=1)",
    "shuffle": "write dfgen.Sequence(..., shuffle=True), which is the default",
    "prefetch": "batches are made ahead by themselves: leave it out, or give max_queue_size=",
    "cache": 'write dfgen.Sequence(..., cache="memory"), which keeps decoded pixels',
    "take": "write dfgen.Sequence(df[:100], ...), of rows",
    "skip": "write dfgen.Sequence(df[100:], ...), of rows",
    "filter": "write dfgen.Sequence(df[df.kind == ...], ...), of rows",
    "concatenate": "write dfgen.Sequence(pd.concat([df, other]), ...)",
    "as_numpy_iterator": "batches are NumPy arrays: for x, y in seq",
    "enumerate": "write enumerate(seq)",
    "with_options": "seq.get_tf_dataset() is a tf.data.Dataset",
    # torch, fastai, Hugging Face
    "class_to_idx": _NUMBER_OF,
    "targets": _OF_LABELS,
    "dataset": "seq.manifest is the DataFrame",
    "vocab": "write seq.class_names",
    "one_batch": "seq[0] is the first batch",
    "show_batch": "seq.show() draws the first batch",
    "num_rows": _ROWS,
    "to_tf_dataset": "write seq.get_tf_dataset(), or give fit the Sequence itself",
    "with_transform": _MAPPED,
    "train_test_split": 'write dfgen.split(df, {"train": 0.8, "val": 0.2})',
    # pandas
    **dict.fromkeys(("columns", "head", "iloc", "loc", "sample"), "seq.manifest is the DataFrame"),
}
"""Attribute -> what a Sequence has instead."""


def refuse_unknown(
    function: Callable[..., Any], unknown: Iterable[str], more: Iterable[str] = ()
) -> None:
    """Raise if there are arguments that a function lacks, with what each is here.

    `more` are arguments that it has beside those of its signature.
    """
    unknown = list(unknown)
    if not unknown:
        return
    own = inspect.signature(function).parameters.values()
    known = [*(one.name for one in own if one.kind is not one.VAR_KEYWORD), *more]
    fault = f"{function.__name__} has no argument {', '.join(unknown)}"
    meant = {name: _meaning(name, known) for name in unknown}
    if not any(meant.values()):
        hints = "".join(did_you_mean(name, known) for name in unknown)
        raise UnknownArgumentError(f"{fault}. Arguments: {', '.join(known)}.{hints}")
    lines = [f"{fault}:"]
    for name, meaning in meant.items():
        near = did_you_mean(name, known) or " Leave it out"
        lines.append(f"{name}{meaning or f' is no argument.{near}'}")
    raise UnknownArgumentError("\n  ".join(lines))


def _meaning(name: str, known: list[str]) -> str:
    """Return what an argument is here, behind its name; "": no library has it."""
    makes_batches = "x" in known
    if makes_batches and name in OF_IMAGE:
        return f" is an argument of the image: x=dfgen.Image(..., {name}=...)"
    names = {name}
    for word in RENAMED.get(name, "").split(" | "):
        to, _, note = word.partition(": ")
        feature, _, argument = to.rpartition(".")
        if note and not to:
            return f": {note}"
        if to in known or (feature and makes_batches):
            of = f" of dfgen.{feature}" if feature else ""
            return f" is now {argument}{of}" + (f": {note}" if note else "")
        names.add(argument)
    of_batches = not makes_batches and not names.isdisjoint(_OF_BATCHES)
    return f": {_OF_SEQUENCE}" if of_batches else ""
