"""Words of other libraries, above all of Keras and tf.data, and what each is called here.

A new word is one more in a line: of arguments, of values or of attributes.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dfgen.errors import UnknownArgumentError, did_you_mean

_FOLDER = 'df = dfgen.build_manifest("imgs", pattern="{kind}/{id}.jpg")'
_LAYER = (
    ": augmentation is part of the model, keras.layers.Random{}, or of "
    "transform=dfgen.albumentations(...)"
)
_SPLIT = (
    ': name each split with its share: df = dfgen.split(df, {"train": 0.8, "val": 0.2}), or split= '
    'of build_manifest; a split is a column: dfgen.Sequence(df[df.split == "train"], ...)'
)
_RAW = 'numbers of class_mode="raw" are y="age" by itself, several outputs y=["kind", "age"]'
_SCALES = (
    '"caffe" for ResNet and VGG, "torch" for DenseNet, "tf" for Inception, MobileNet (V2), NASNet, '
    "ResNet V2 and Xception, and for EfficientNet, ConvNeXt and MobileNetV3 nothing"
)
_WINDOW = (
    ": a row is a sample: put a list of the numbers of its window into a column, "
    'x=dfgen.Column("window", np.array, shape=(10,))'
)
_FUNCTION = "transform: transform(sample, rng) -> sample"

_ARGUMENTS = {
    # keras: flow_from_dataframe, flow_from_directory, image_dataset_from_directory
    "manifest: the first argument | labels": "dataframe df data frame",
    f"source | root: paths of the frame begin there; of a folder alone: {_FOLDER}": "directory",
    "x | path_column": "x_col path_col image_col fn_col",
    "y | label": "y_col label_col target_col target",
    "sample_weight: the name of a column": "weight_col weights",
    "image_size: (height, width)": "target_size img_size size dim input_size input_shape",
    f'label_mode: "sparse" is "int"; {_RAW}': "class_mode",
    "class_names": "classes",
    f"y: a column of the frame; names of folders are one by {_FOLDER}": "labels",
    f"{_FUNCTION}; of keras.applications.*.preprocess_input it is scale=: {_SCALES}":
        "preprocessing_function",
    ": dfgen.build_manifest and dfgen.verify read all files: one that cannot be read keeps its "
    "row, and the column problem says why": "validate_filenames is_valid_file",
    'Image.resize: resize="crop"': "crop_to_aspect_ratio",
    'Image.resize: resize="pad"': "pad_to_aspect_ratio",
    'Image.resize: resize="crop", or "pad"': "keep_aspect_ratio",
    _SPLIT: "validation_split subset valid_pct test_size train val validation test",
    ": links to folders are followed, except into a folder that they lie in": "follow_links",
    ": df = df.drop_duplicates()": "drop_duplicates",
    "shuffle: shuffle=False keeps the order of the frame": "sort",
    ": nothing is printed: leave it out": "verbose",
    ': paths have their extension: df["path"] = df["id"] + ".jpg"': "has_ext",
    ": nothing is written: sequence[0] is a batch to look at":
        "save_to_dir save_prefix save_format",
    # keras: ImageDataGenerator, timeseries_dataset_from_array
    'scale: 1/255 is scale="0..1"': "rescale",
    'scale: scale="0..1"': "normalize",
    'Image.flip: flip="horizontal"': "horizontal_flip",
    'Image.flip: flip="vertical"': "vertical_flip",
    _LAYER.format("Rotation"): "rotation_range fill_mode cval",
    _LAYER.format("Translation"): "width_shift_range height_shift_range",
    _LAYER.format("Zoom"): "zoom_range",
    _LAYER.format("Shear"): "shear_range",
    _LAYER.format("Brightness"): "brightness_range channel_shift_range",
    'scale: scale="standardize"': "samplewise_center samplewise_std_normalization",
    "scale: the mean and the deviation of each channel, of pixels 0..1":
        "featurewise_center featurewise_std_normalization",
    "transform: a function of your own": "zca_whitening zca_epsilon",
    ": keras.config.set_image_data_format(...) is obeyed": "data_format",
    ": it is epochs= of fit": "epochs num_epochs",
    ": it belongs to fit, with fit(sequence.repeat(), ...)": "steps_per_epoch",
    ": each row comes once: for fewer rows write dfgen.Sequence(df[:100], ...)": "steps",
    _WINDOW: "sequence_length sequence_stride sampling_rate",
    # tf.data, and the queues of TensorFlow 1
    "workers: None is all CPUs": "num_parallel_calls",
    "max_queue_size: batches are made ahead by themselves": "prefetch capacity prefetch_factor",
    "shuffle: all rows are shuffled, without a buffer":
        "buffer_size shuffle_buffer min_after_dequeue",
    "shuffle: every epoch has another order": "reshuffle_each_iteration",
    "seed: the same seed gives the same batches": "deterministic",
    "drop_remainder: the opposite": "allow_smaller_final_batch",
    # torch, fastai, scikit-learn
    "manifest: a frame with a row for each file": "dataset list_IDs",
    "workers": "num_workers num_threads n_jobs",
    ": batches are made ready for the device by themselves: leave it out": "pin_memory",
    "batch_transform: batch_transform(batch, rng) -> batch": "collate_fn batch_tfms",
    "balance: the column that rows are drawn by": "sampler",
    "drop_remainder": "drop_last",
    "use_multiprocessing": "multiprocessing_context",
    ": workers live as long as the Sequence: leave it out": "persistent_workers",
    "seed: a transform gets a generator of each row": "worker_init_fn generator",
    "batch_size: with balance=, or bucket_by=": "batch_sampler",
    "limits: limits=dfgen.Limits(read_timeout=60)": "timeout",
    "batch_size": "bs",
    _FUNCTION: "item_tfms target_transform augment augmentation transforms",
    "seed": "random_state",
    "folds": "n_splits k n_folds",
    # tutorials, and functions of dfgen beside the one that was called
    "color_mode: 3 is rgb": "n_channels",
    "class_names: the data tells how many there are": "n_classes num_classes",
    'label_mode: label_mode="categorical"': "one_hot",
    "source | root": "folder path data_dir image_dir img_dir",
    "labels | manifest": "csv csv_file annotations_file table",
    "out": "output output_path save_path",
    "group": "groups",
    "shares": "split",
    "split": "shares",
    "pattern": "regex glob label_from_folder",
    ": rows are split by the hash of their id, and dfgen.Sequence shuffles them": "shuffle",
    ": all folders below are searched": "recursive",
    ": every file that dfgen opens becomes a row: filter the frame": "extensions",
    ': name the column of a Sequence: dfgen.Sequence(df, y="kind")': "label",
    "label": "columns",
    "where: where=\"split == 'train' and width > 200\"": "filters query",
    ": the index is never written: make a column of it with df.reset_index()": "index",
}  # fmt: skip
"""Arguments here -> what other libraries call them.

A name, with what to know beside; of several, what the function has. `Image.resize` is an argument
of a feature; with no name at all there is only advice.
"""

_VALUES = {
    "label_mode": {
        "categorical": "onehot one_hot one-hot softmax",
        "int": "sparse integer class index",
        "binary": "sigmoid",
        "write label_mode=None": "none false",
        "a y of numbers needs no label_mode: leave it out": "raw other regression",
        'write y=dfgen.Image("path")': "input",
        'write y={"kind": "kind", "age": "age"}, the names of the outputs first': "multi_output",
        "write y=dfgen.MultiLabel(column), of a column of lists, and leave it out": "multilabel",
        "leave label_mode out: the column tells": "inferred",
    },
    "color_mode": {
        "grayscale": "gray grey greyscale l 1 true",
        "rgb": "3 none color",
        "rgba": "4",
        'images are RGB: scale="caffe" makes BGR, for models that want it': "bgr",
    },
    "interpolation": {
        'write interpolation="bilinear", which with antialias=True shrinks as well (default)':
            "bicubic cubic lanczos lanczos3 lanczos5 gaussian",
        "bilinear": "linear 1",
        "area": "box 3",
        "nearest": "0",
    },
    "resize": {
        "stretch": "squash true false resize none",
        "pad": "fit letterbox padding pad_to_aspect_ratio",
        "crop": "center_crop centercrop crop_to_aspect_ratio fill",
    },
    "crop": {
        'write crop="random", and load_size=, a size larger than size= to crop from':
            "true random_crop randomcrop",
        "random_resized": "randomresizedcrop random_resized_crop",
        "center": "center_crop centercrop",
        "write crop=None": "false",
    },
    "flip": {
        "horizontal": "true random left_right horizontal_flip h",
        "vertical": "up_down vertical_flip v",
        "horizontal_and_vertical": "both",
        "write flip=None": "false",
    },
    "dtype": {
        "float32": "float float64 double",
        "float16": "half",
        "uint8": "int int32 int64",
    },
    "dtype of a mask": {
        "int32": "int int64 uint16 int16 long",
        "uint8": "bool int8",
        "float32": "float float64 float16 double",
    },
    "format of boxes": {
        "xyxy": "voc pascal_voc ltrb tlbr corners",
        "xywh": "coco ltwh xyhw",
        "rel_xyxy": "albumentations xyxyn rel_ltrb",
        "put x before y in each corner": "yxyx rel_yxyx",
        "make corners of centres: x - width / 2, y - height / 2, x + width / 2, y + height / 2":
            "yolo center_xywh cxcywh xywhn center_xyhw",
    },
    "on_error": {
        "skip": "ignore warn coerce drop continue none false",
        "raise": "fail true strict",
    },
    "bucket_by": {
        'write bucket_by="shape", with image_size=None': "true size image_size aspect_ratio",
        'write bucket_by="length"': "len lengths duration group_by_length",
        "write bucket_by=None": "false",
    },
}  # fmt: skip
"""Argument -> the value here, or what to do -> values elsewhere, in lower case."""

_ATTRIBUTES = {
    # keras and tf.data
    "seq.class_names has the names in the order of their numbers; seq.manifest has the class of "
    "each row": "classes vocab",
    'seq.manifest has the rows: seq.manifest["path"]': "filenames filepaths file_paths",
    "seq.manifest has the label of each row": "labels targets",
    "len(seq.manifest) is the number of rows": "samples n num_rows",
    "len(seq) is the number of batches": "steps_per_epoch cardinality",
    "write {name: number for number, name in enumerate(seq.class_names)}":
        "class_indices class_to_idx",
    "write len(seq.class_names)": "num_classes",
    "seq.element_spec has shapes and dtypes": "image_shape shape dtype",
    "write next(iter(seq))": "next one_batch",
    "each pass begins anew: leave it out": "reset",
    "give fit the Sequence itself, or seq.get_tf_dataset()": "flow to_tf_dataset with_options",
    "write dfgen.Sequence(..., transform=function), of a sample, or batch_transform=, of a batch":
        "map with_transform",
    "it gives batches: write dfgen.Sequence(..., batch_size=32)": "batch",
    "write dfgen.Sequence(..., batch_size=1)": "unbatch",
    "write enumerate(seq)": "enumerate",
    "write dfgen.Sequence(..., shuffle=True), which is the default": "shuffle",
    "batches are made ahead by themselves: leave it out, or give max_queue_size=": "prefetch",
    'write dfgen.Sequence(..., cache="memory"), which keeps decoded pixels': "cache",
    "write dfgen.Sequence(df[:100], ...), of rows": "take",
    "write dfgen.Sequence(df[100:], ...), of rows": "skip",
    "write dfgen.Sequence(df[df.kind == ...], ...), of rows": "filter",
    "write dfgen.Sequence(pd.concat([df, other]), ...)": "concatenate",
    "batches are NumPy arrays: for x, y in seq": "as_numpy_iterator",
    # others
    "seq.show() draws the first batch": "show_batch",
    'write dfgen.split(df, {"train": 0.8, "val": 0.2})': "train_test_split",
    "seq.manifest is the DataFrame": "columns head iloc loc sample dataset",
}  # fmt: skip
"""Attributes of a Sequence -> what other libraries call them."""


def _by_word(table: Mapping[str, str]) -> dict[str, str]:
    return {word: here for here, words in table.items() for word in words.split()}


RENAMED = _by_word(_ARGUMENTS)
VALUES = {argument: _by_word(table) for argument, table in _VALUES.items()}
HERE = _by_word(_ATTRIBUTES)

OF_IMAGE = (
    "resize", "antialias", "load_size", "crop", "flip", "interpolation", "dtype", "extra", "area",
    "ratio", "like", "max_items", "missing", "index",
    "decode", "channels",
)  # fmt: skip
"""Arguments of Image that Sequence lacks."""

_OF_BATCHES = {
    "x", "y", "label_mode", "image_size", "batch_size", "color_mode", "scale", "transform",
    "batch_transform", "sample_weight", "class_names", "balance", "max_queue_size",
    "drop_remainder", *OF_IMAGE,
}  # fmt: skip
"""Arguments of Sequence, for functions that make no batches."""


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
    return ": it belongs to dfgen.Sequence, which makes the batches" if of_batches else ""
