"""RENAMED: arguments of other libraries' loaders, and where each went. A new one is one line."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

LEFT_OUT = object()
"""A value that a corrected call has no argument for."""


class Renamed(NamedTuple):
    """The place where an argument of another library went.

    Args:
        to: what it is here: an argument of Sequence, or of another public name as
            `"Image.resize"`; "": there is none.
        advice: what to know beside that, or what to do instead.
        value: what a value given becomes; LEFT_OUT: nothing.
    """

    to: str
    advice: str = ""
    value: Callable[[Any], Any] = lambda value: value


def _never(value: Any) -> Any:
    return LEFT_OUT


def _only(known: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """Return what takes those values alone that are known, to what each is here."""

    def value(given: Any) -> Any:
        return known.get(given, LEFT_OUT) if isinstance(given, str | bool | None) else LEFT_OUT

    return value


def _path(value: Any) -> Any:
    return value or LEFT_OUT


def _scale(factor: Any) -> Any:
    """Return the scale of what pixels are multiplied by."""
    if not isinstance(factor, int | float) or isinstance(factor, bool) or factor == 1:
        return LEFT_OUT
    return "0..1" if np.isclose(factor, 1 / 255) else (float(factor), 0.0)


_MODES = {
    "caffe": ("resnet", "vgg16", "vgg19"),
    "tf": (
        "inception_resnet_v2", "inception_v3", "mobilenet", "mobilenet_v2", "nasnet", "resnet_v2",
        "xception",
    ),
    "torch": ("densenet",),
    None: ("convnext", "efficientnet", "efficientnet_v2", "mobilenet_v3"),
}  # fmt: skip
"""scale -> models of `keras.applications` whose `preprocess_input` does that; None: nothing."""


def preprocessing(function: Any) -> tuple[str, Any]:
    """Return the argument, and its value, that do what a `preprocessing_function` did."""
    home = str(getattr(function, "__module__", ""))
    name = home.rpartition(".")[2]
    for mode, models in _MODES.items() if ".applications." in home else ():
        if name in models:
            return "scale", LEFT_OUT if mode is None else mode
    return "transform", LEFT_OUT  # which takes others: (sample, rng)


_LABEL_MODE = _only(
    {"sparse": "int", "categorical": "categorical", "binary": "binary", "input": None, None: None}
)
_LAYER = "augmentation is part of the model, {}, or of transform=dfgen.albumentations(...)"
_SPLIT = 'a split is a column: df = dfgen.split(df, {"train": 0.8, "val": 0.2}), then '
_SPLIT += 'dfgen.Sequence(df[df.split == "train"], ...)'
_FOLDER = 'df = dfgen.build_manifest("imgs", pattern="{kind}/{id}.jpg")'
_WINDOW = "a row is a sample: put a list of the numbers of its window into a column, "
_WINDOW += 'x=dfgen.Column("window", np.array, shape=(10,))'

RENAMED = {
    # keras: flow_from_dataframe, flow_from_directory, image_dataset_from_directory
    "dataframe": Renamed("manifest", "the first argument"),
    "directory": Renamed(
        "root", f"paths of the frame begin there; of a folder alone: {_FOLDER}", _path
    ),
    "x_col": Renamed("x"),
    "y_col": Renamed("y"),
    "weight_col": Renamed("sample_weight"),
    "target_size": Renamed("image_size", "(height, width)"),
    "class_mode": Renamed(
        "label_mode",
        'numbers of class_mode="raw" are y="age" by itself, several outputs y=["kind", "age"]',
        _LABEL_MODE,
    ),
    "classes": Renamed("class_names"),
    "labels": Renamed("y", f"a column of the frame; names of folders are one by {_FOLDER}", _never),
    "preprocessing_function": Renamed(
        "transform",
        "transform(sample, rng) -> sample; of keras.applications.*.preprocess_input it is scale=, "
        '"tf", "torch" or "caffe", and for EfficientNet, ConvNeXt and MobileNetV3 nothing',
        _never,
    ),
    "validate_filenames": Renamed("", "some files are looked for, all by dfgen.verify"),
    "interpolation": Renamed(
        "Image.interpolation", value=_only({name: name for name in ("bilinear", "nearest", "area")})
    ),
    "crop_to_aspect_ratio": Renamed(
        "Image.resize", 'resize="crop"', _only({True: "crop", False: LEFT_OUT})
    ),
    "pad_to_aspect_ratio": Renamed(
        "Image.resize", 'resize="pad"', _only({True: "pad", False: LEFT_OUT})
    ),
    "keep_aspect_ratio": Renamed(
        "Image.resize", 'resize="crop" or "pad"', _only({True: "crop", False: LEFT_OUT})
    ),
    "validation_split": Renamed("", _SPLIT),
    "subset": Renamed("", _SPLIT),
    "follow_links": Renamed("", "the frame names the files, which may be links"),
    "drop_duplicates": Renamed("", "df = df.drop_duplicates()"),
    "sort": Renamed("shuffle", "shuffle=False keeps the order of the frame", _never),
    "verbose": Renamed("", "nothing is printed: leave it out"),
    "has_ext": Renamed("", 'paths have their extension: df["path"] = df["id"] + ".jpg"'),
    "save_to_dir": Renamed("", "nothing is written: sequence[0] is a batch to look at"),
    "save_prefix": Renamed("", "nothing is written: sequence[0] is a batch to look at"),
    "save_format": Renamed("", "nothing is written: sequence[0] is a batch to look at"),
    # keras: ImageDataGenerator
    "rescale": Renamed("scale", '1/255 is scale="0..1"', _scale),
    "horizontal_flip": Renamed(
        "Image.flip", 'flip="horizontal"', _only({True: "horizontal", False: LEFT_OUT})
    ),
    "vertical_flip": Renamed(
        "Image.flip", 'flip="vertical"', _only({True: "vertical", False: LEFT_OUT})
    ),
    "rotation_range": Renamed("", _LAYER.format("keras.layers.RandomRotation")),
    "width_shift_range": Renamed("", _LAYER.format("keras.layers.RandomTranslation")),
    "height_shift_range": Renamed("", _LAYER.format("keras.layers.RandomTranslation")),
    "zoom_range": Renamed("", _LAYER.format("keras.layers.RandomZoom")),
    "shear_range": Renamed("", _LAYER.format("keras.layers.RandomShear")),
    "brightness_range": Renamed("", _LAYER.format("keras.layers.RandomBrightness")),
    "channel_shift_range": Renamed("", _LAYER.format("keras.layers.RandomBrightness")),
    "fill_mode": Renamed("", "it is an argument of the layer, as of keras.layers.RandomRotation"),
    "cval": Renamed("", "it is fill_value of the layer, as of keras.layers.RandomRotation"),
    "samplewise_center": Renamed(
        "scale", 'scale="standardize"', _only({True: "standardize", False: LEFT_OUT})
    ),
    "samplewise_std_normalization": Renamed(
        "scale", 'scale="standardize"', _only({True: "standardize", False: LEFT_OUT})
    ),
    "featurewise_center": Renamed(
        "scale", "the mean and the deviation of each channel, of pixels 0..1", _never
    ),
    "featurewise_std_normalization": Renamed(
        "scale", "the mean and the deviation of each channel, of pixels 0..1", _never
    ),
    "zca_whitening": Renamed("transform", "a function of your own", _never),
    "zca_epsilon": Renamed("transform", "a function of your own", _never),
    "dtype": Renamed(
        "Image.dtype",
        "the default is uint8, with scale float32",
        _only({name: name for name in ("uint8", "uint16", "float16", "float32")}),
    ),
    "data_format": Renamed("", "keras.config.set_image_data_format(...) is obeyed"),
    # tensorflow 1: string_input_producer, train.batch, train.shuffle_batch
    "capacity": Renamed("max_queue_size", "which counts batches, not samples", _never),
    "min_after_dequeue": Renamed("shuffle", "all rows are shuffled, without a buffer", _never),
    "num_threads": Renamed("workers"),
    "num_epochs": Renamed("", "it is epochs= of fit; sequence.repeat() has no end"),
    "epochs": Renamed("", "it is epochs= of fit"),
    "steps_per_epoch": Renamed("", "it belongs to fit, with fit(sequence.repeat(), ...)"),
    "allow_smaller_final_batch": Renamed(
        "drop_remainder", "the opposite", _only({True: LEFT_OUT, False: True})
    ),
    "enqueue_many": Renamed("", "rows of array files: dfgen.Array(..., index=...)"),
    # tf.data
    "num_parallel_calls": Renamed("workers", "None is all CPUs", _never),
    "prefetch": Renamed("max_queue_size", "batches are made ahead by themselves", _never),
    "buffer_size": Renamed("shuffle", "all rows are shuffled, without a buffer", _never),
    "shuffle_buffer": Renamed("shuffle", "all rows are shuffled, without a buffer", _never),
    "reshuffle_each_iteration": Renamed("shuffle", "every epoch has another order", _never),
    "deterministic": Renamed("seed", "the same seed gives the same batches", _never),
    # torch: DataLoader; torchvision
    "dataset": Renamed("manifest", "a frame with a row for each file", _never),
    "num_workers": Renamed("workers"),
    "pin_memory": Renamed("", "batches are made ready for the device by themselves: leave it out"),
    "prefetch_factor": Renamed("max_queue_size", "in batches of all workers together", _never),
    "persistent_workers": Renamed("", "workers live as long as the Sequence: leave it out"),
    "collate_fn": Renamed("batch_transform", "batch_transform(batch, rng) -> batch", _never),
    "sampler": Renamed("balance", "the column that rows are drawn by", _never),
    "batch_sampler": Renamed("batch_size", "with balance=, or bucket_by=", _never),
    "drop_last": Renamed("drop_remainder"),
    "worker_init_fn": Renamed("seed", "a transform gets a generator of each row", _never),
    "generator": Renamed("seed", value=_never),
    "timeout": Renamed("Limits.read_timeout", "limits=dfgen.Limits(read_timeout=60)", _never),
    "multiprocessing_context": Renamed("use_multiprocessing", value=_never),
    "target_transform": Renamed("transform", "of images and targets together", _never),
    "transforms": Renamed("transform", "of images and targets together", _never),
    # fastai
    "bs": Renamed("batch_size"),
    "item_tfms": Renamed("transform", "transform(sample, rng) -> sample", _never),
    "batch_tfms": Renamed("batch_transform", "batch_transform(batch, rng) -> batch", _never),
    "valid_pct": Renamed("", _SPLIT),
    "splitter": Renamed("", _SPLIT),
    "valid_col": Renamed("", _SPLIT),
    "get_x": Renamed("x", "the name of a column", _never),
    "get_y": Renamed("y", "the name of a column", _never),
    "fn_col": Renamed("x"),
    "label_col": Renamed("y"),
    "label_delim": Renamed("", 'tags in one text: df["tags"] = df["tags"].str.split(",")'),
    "folder": Renamed("root"),
    "suff": Renamed("", 'paths have their extension: df["path"] = df["id"] + ".jpg"'),
    # Hugging Face
    "image_column": Renamed("x"),
    "label_column": Renamed("y"),
    "streaming": Renamed("", "files are read as they are needed: leave it out"),
    # keras: timeseries_dataset_from_array
    "sequence_length": Renamed("", _WINDOW),
    "sequence_stride": Renamed("", _WINDOW),
    "sampling_rate": Renamed("", _WINDOW),
    # tutorials
    "df": Renamed("manifest", "the first argument"),
    "data": Renamed("manifest", "the first argument"),
    "frame": Renamed("manifest", "the first argument"),
    "path_col": Renamed("x"),
    "image_col": Renamed("x"),
    "target_col": Renamed("y"),
    "label_column_name": Renamed("y"),
    "target": Renamed("y"),
    "img_size": Renamed("image_size", "(height, width)"),
    "size": Renamed("image_size", "(height, width)"),
    "dim": Renamed("image_size", "(height, width)"),
    "input_shape": Renamed("image_size", "(height, width), with color_mode=", _never),
    "input_size": Renamed("image_size", "(height, width)"),
    "n_channels": Renamed("color_mode", "3 is rgb", _only({})),
    "n_classes": Renamed("class_names", "the data tells how many there are", _never),
    "num_classes": Renamed("class_names", "the data tells how many there are", _never),
    "list_IDs": Renamed("manifest", "a frame with a row for each of them", _never),
    "one_hot": Renamed(
        "label_mode", 'label_mode="categorical"', _only({True: "categorical", False: LEFT_OUT})
    ),
    "normalize": Renamed("scale", 'scale="0..1"', _only({True: "0..1", False: LEFT_OUT})),
    "augment": Renamed("transform", "transform(sample, rng) -> sample", _never),
    "augmentation": Renamed("transform", "transform(sample, rng) -> sample", _never),
    "random_state": Renamed("seed"),
    "weights": Renamed("sample_weight", "the name of a column", _never),
    "n_jobs": Renamed("workers", value=_never),
}
"""Name of an argument -> where it went."""
