"""Maps arguments of Keras, torch, tf.data and scikit-learn to those of dfgen."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from dfgen.errors import UnknownArgumentError, did_you_mean

_LAYER = "augment in the model, keras.layers.Random..., or by transform=dfgen.albumentations(...)"
_SPLIT = (
    'write df = dfgen.split(df, {"train": 0.8, "val": 0.2}), then dfgen.sequences(df, ...), or '
    "give split= to build_manifest"
)
_MEANINGS = {
    # keras: flow_from_dataframe, image_dataset_from_directory, ImageDataGenerator
    "dataframe": "the table is the first argument",
    "directory": "give root=, the folder where relative paths start; dfgen.build_manifest(folder, "
    'pattern="{label}/{_}") makes a table of a folder',
    "x_col": 'write x="column", or path_column="column" for build_manifest',
    "y_col": 'write y="column"',
    "label_col": 'write y="column"',
    "weight_col": 'write sample_weight="column"',
    "target_size": "write image_size=(height, width)",
    "img_size": "write image_size=(height, width)",
    "class_mode": 'write label_mode="int" for "sparse", "categorical" or "binary"; numbers of '
    '"raw" are y="column"; outputs of "multi_output" are y=["kind", "age"]',
    "classes": "write class_names=[...]",
    "labels": 'labels are a column: y="column"',
    "preprocessing_function": "write transform=function(sample, rng), or scale= for "
    'preprocess_input of keras.applications: "caffe" for ResNet and VGG, "torch" for DenseNet, '
    '"tf" for Inception, MobileNet, NASNet, ResNet V2 and Xception, None for EfficientNet, '
    "ConvNeXt and MobileNetV3",
    "rescale": 'write scale="0..1" for 1/255',
    "normalize": 'write scale="0..1", or scale=(mean, deviation)',
    "validate_filenames": "dfgen.verify(df) looks for all files",
    "crop_to_aspect_ratio": 'write x=dfgen.Image("path", resize="crop")',
    "pad_to_aspect_ratio": 'write x=dfgen.Image("path", resize="pad")',
    "keep_aspect_ratio": 'write x=dfgen.Image("path", resize="crop") or "pad"',
    "validation_split": _SPLIT,
    "subset": _SPLIT,
    "test_size": _SPLIT,
    "follow_links": "links are followed: leave it out",
    "drop_duplicates": "write df = df.drop_duplicates()",
    "sort": "shuffle=False keeps the order of the frame",
    "verbose": "nothing is printed: leave it out",
    "save_to_dir": "nothing is written: seq.show() draws a batch",
    "horizontal_flip": 'write x=dfgen.Image("path", flip="horizontal")',
    "vertical_flip": 'write x=dfgen.Image("path", flip="vertical")',
    "rotation_range": _LAYER,
    "zoom_range": _LAYER,
    "width_shift_range": _LAYER,
    "brightness_range": _LAYER,
    "data_format": "keras.config.set_image_data_format(...) sets it",
    "epochs": "give it to fit",
    "steps_per_epoch": "give it to fit, with fit(seq.repeat(), ...)",
    # torch: DataLoader; tf.data; scikit-learn
    "dataset": "the table is the first argument",
    "num_workers": "write workers=",
    "num_parallel_calls": "write workers=, by default all CPUs",
    "prefetch_factor": "write max_queue_size=",
    "prefetch": "batches are made ahead: leave it out, or write max_queue_size=",
    "buffer_size": "all rows are shuffled: leave it out",
    "pin_memory": "leave it out",
    "persistent_workers": "workers live as long as the Sequence: leave it out",
    "collate_fn": "write batch_transform=function(batch, rng)",
    "sampler": 'write balance="column" or sampling_weight="column"',
    "batch_sampler": 'write batch_size=, with balance= or bucket_by="shape"',
    "worker_init_fn": "write seed=; a transform gets a generator for each row",
    "generator": "write seed=",
    "drop_last": "write drop_remainder=",
    "timeout": "write limits=dfgen.Limits(read_timeout=60)",
    "multiprocessing_context": "write use_multiprocessing=True",
    "random_state": "write seed=",
    "n_splits": "write folds=",
}
_OF_IMAGE = (
    "resize", "antialias", "load_size", "crop", "flip", "interpolation", "dtype", "decode"
)  # fmt: skip
_OF_BATCHES = (
    "x", "y", "label_mode", "image_size", "batch_size", "color_mode", "scale", "transform"
)  # fmt: skip


def refuse_unknown(
    function: Callable[..., Any], unknown: Iterable[str], more: Iterable[str] = ()
) -> None:
    """Raise an `UnknownArgumentError` for arguments that a function does not have.

    Args:
        function: a public function or class of dfgen.
        unknown: names of the arguments.
        more: further valid arguments, not in the signature.
    """
    names = list(unknown)
    if not names:
        return
    own = inspect.signature(function).parameters.values()
    known = [*(one.name for one in own if one.kind is not one.VAR_KEYWORD), *more]
    advice = "".join(f"\n  {name}: {_advice(name, known)}" for name in names)
    raise UnknownArgumentError(
        f"{function.__name__} has no argument {', '.join(names)}. "
        f"Its arguments are {', '.join(known)}.{advice}"
    )


def _advice(name: str, known: list[str]) -> str:
    if name in _OF_IMAGE and "x" in known:
        return f"it is an argument of the image: x=dfgen.Image(..., {name}=...)"
    if name in _OF_BATCHES and "x" not in known:
        return "it is an argument of dfgen.Sequence, which makes the batches"
    return _MEANINGS.get(name) or did_you_mean(name, known).strip() or "leave it out"
