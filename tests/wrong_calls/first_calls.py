"""First calls: what is given for a manifest, names of columns, arguments of other libraries."""

import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.errors import ArgumentError, ManifestError, MissingFileError, UnknownArgumentError
from wrong_calls import WrongCall

Sequence = dfgen.Sequence


def flow(pets, **options):
    """The call of flow_from_dataframe, with a Sequence."""
    return Sequence(pets.frame, x_col="path", y_col="kind", **options)


def manifest(what, given, received, advice, expected="DataFrame"):
    """A wrong manifest: `given` makes it of the pets."""

    def call(pets):
        return Sequence(given(pets), y="kind")

    return WrongCall(what, call, ManifestError, received, expected, advice)


def foreign(what, call, received, expected, advice):
    """Arguments of another library."""
    return WrongCall(what, call, UnknownArgumentError, received, expected, advice)


class DatasetFolder:
    """What torchvision's ImageFolder is made of."""


class ImageFolder(DatasetFolder):
    """What torchvision's looks like."""


class Dataset:
    """What those of Hugging Face look like, which have no stream of Arrow."""

    def to_pandas(self):
        """Return the rows."""


def of_torch(pets):
    data = pytest.importorskip("torch.utils.data")
    return data.TensorDataset()


def of_tensorflow(pets):
    tf = pytest.importorskip("tensorflow")
    return tf.data.Dataset.range(3).batch(2)


def to_csv(pets, name):
    pets.frame.to_csv(name)
    return name


MANIFESTS = [
    manifest(
        "the path of a CSV file", lambda pets: to_csv(pets, "pets.csv"), "pets.csv is no manifest",
        "df = pd.read_csv(", "which is a Parquet file of dfgen",
    ),
    manifest(
        "the path of a TSV file", lambda pets: to_csv(pets, "pets.tsv"), "pets.tsv is no manifest",
        "df = pd.read_csv(", "which is a Parquet file of dfgen",
    ),
    manifest(
        "the path of a JSON file", lambda pets: to_csv(pets, "pets.json"),
        "pets.json is no manifest", "df = pd.read_json(", "which is a Parquet file of dfgen",
    ),
    manifest(
        "the path of an Excel file", lambda pets: to_csv(pets, "pets.xlsx"),
        "pets.xlsx is no manifest", "df = pd.read_excel(", "which is a Parquet file of dfgen",
    ),
    manifest(
        "a folder", lambda pets: "imgs", "imgs is no manifest", "dfgen.build_manifest(",
        "which is a Parquet file of dfgen",
    ),
    manifest(
        "an image", lambda pets: pets.frame.path[0], "100.jpg is no manifest",
        'df = pd.DataFrame({"path": [...]})', "it is an image",
    ),
    manifest("a column", lambda pets: pets.frame["path"], "got a Series", 'df[["id", "path"]]'),
    manifest("a mask", lambda pets: pets.frame["kind"] == "cat", "got a Series", "df[mask]"),
    manifest(
        "a groupby", lambda pets: pets.frame.groupby("kind"), "got a DataFrameGroupBy",
        "give the frame itself",
    ),
    manifest(
        "a dict of lists", lambda pets: pets.frame.to_dict("list"), "got a dict",
        "df = pd.DataFrame(given)",
    ),
    manifest(
        "a dict of frames, as Hugging Face has of splits", lambda pets: {"train": pets.frame},
        "got a dict", "give one of the frames in it",
    ),
    manifest(
        "a list of paths", lambda pets: list(pets.frame.path), "got a list",
        'df = pd.DataFrame({"path": paths, "label": labels})',
    ),
    manifest(
        "a list of pairs", lambda pets: list(zip(pets.frame.path, pets.frame.kind, strict=True)),
        "got a list", 'df = pd.DataFrame({"path": paths, "label": labels})',
    ),
    manifest(
        "a list of dicts", lambda pets: pets.frame.to_dict("records"), "got a list",
        "df = pd.DataFrame(",
    ),
    manifest(
        "the frames of train_test_split", lambda pets: (pets.frame[:9], pets.frame[9:]),
        "got a tuple", "of frames pd.concat(given)",
    ),
    manifest(
        "an array of paths", lambda pets: np.array(list(pets.frame.path)), "got a ndarray",
        'df = pd.DataFrame({"path": paths, "label": labels})',
    ),
    manifest(
        "an array of pixels", lambda pets: np.zeros((4, 8, 8, 3)), "got a ndarray",
        'dfgen.build_manifest(arrays="x.npy")',
    ),
    manifest(
        "a generator", lambda pets: (path for path in pets.frame.path), "got a generator",
        'df = pd.DataFrame({"path": paths, "label": labels})',
    ),
    manifest(
        "an ImageFolder of torchvision", lambda pets: ImageFolder(), "got a ImageFolder",
        'df = pd.DataFrame(given.samples, columns=["path", "label"])',
    ),
    manifest(
        "a data set of Hugging Face", lambda pets: Dataset(), "got a Dataset",
        "df = given.to_pandas()",
    ),
    manifest("a data set of torch", of_torch, "got a TensorDataset", "fit takes it as it is"),
    manifest(
        "a data set of TensorFlow", of_tensorflow, "Dataset: fit takes",
        'df = pd.DataFrame({"path": paths',
    ),
    manifest("a Sequence", lambda pets: Sequence(pets.frame, y="kind"), "got a Sequence", "fit"),
    manifest("the class itself", lambda pets: pd.DataFrame, "got a type", "give a frame"),
    manifest("None", lambda pets: None, "got None", "give a frame first"),
    WrongCall(
        "no argument at all", lambda pets: Sequence(), ManifestError, "got None",
        "the manifest must be", "pd.read_csv(...)",
    ),
    WrongCall(
        "no argument of sequences", lambda pets: dfgen.sequences(), ManifestError, "got None",
        "the manifest must be", "pd.read_csv(...)",
    ),
    WrongCall(
        "a manifest that is not there",
        lambda pets: (dfgen.write_manifest(pets.frame, "pets.parquet"), Sequence("pet.parquet"))[1],
        MissingFileError, "pet.parquet", "there is no manifest", 'Did you mean "pets.parquet"?',
    ),
    WrongCall(
        "a CSV file that is not there", lambda pets: Sequence("label.csv"), MissingFileError,
        "label.csv", "there is no manifest",
        'Did you mean "labels.csv"? For such a file make a frame of it, df = pd.read_csv(',
    ),
    WrongCall(
        "a manifest at home", lambda pets: Sequence("~/pets.parquet"), MissingFileError,
        "~/pets.parquet", '"~" is not expanded', "os.path.expanduser('~/pets.parquet')",
    ),
    WrongCall(
        "a pattern of files", lambda pets: Sequence("imgs/*/*.jpg"), MissingFileError,
        "imgs/*/*.jpg", '"*" is not expanded', 'df = dfgen.build_manifest("imgs")',
    ),
    WrongCall(
        "an address", lambda pets: Sequence("gopher://example.org/pets.csv"), MissingFileError,
        "example.org/pets.csv", "it is an address", "copy it to a disk",
    ),
    WrongCall(
        "a CSV file for read_manifest", lambda pets: dfgen.read_manifest("labels.csv"),
        ManifestError, "labels.csv is no manifest", "which is a Parquet file of dfgen",
        "df = pd.read_csv(",
    ),
    WrongCall(
        "a frame for read_manifest", lambda pets: dfgen.read_manifest(pets.frame), ArgumentError,
        "got a DataFrame", "the path of a manifest is text", "give it to dfgen.Sequence as it is",
    ),
]  # fmt: skip

COLUMNS = [
    *(
        WrongCall(
            f"images named by a column {name}",
            lambda pets, name=name: Sequence(pets.frame.rename(columns={"path": name}), y="kind"),
            ManifestError,
            'x="path" is not a column',
            f"Columns: id, {name}, kind",
            f'write x="{name}"',
        )
        for name in (
            "file",
            "filename",
            "image",
            "img_path",
            "filepath",
            "image_path",
            "file_name",
            "image_file",
            "Path",
        )
    ),
    WrongCall(
        "images named by the index", lambda pets: Sequence(pets.frame.set_index("path"), y="kind"),
        ManifestError, 'x="path" is not a column', '"path" is the index', "df = df.reset_index()",
    ),
    WrongCall(
        "images named by an index without a name",
        lambda pets: Sequence(pets.frame.set_index("path").rename_axis(None), y="kind"),
        ManifestError, 'x="path" is not a column', "The index names images",
        'df = df.rename_axis("path").reset_index()',
    ),
    WrongCall(
        "the id in the index", lambda pets: Sequence(pets.frame.set_index("id"), y="kind", id="id"),
        ManifestError, 'id="id" is not a column', '"id" is the index', "df = df.reset_index()",
    ),
    WrongCall(
        "columns of two levels",
        lambda pets: Sequence(pd.concat({"pets": pets.frame}, axis=1), y="kind"), ManifestError,
        "a column named ('pets', 'id')", "which is not text",
        'df.columns = df.columns.map("_".join)',
    ),
    WrongCall(
        "blanks in the name of a column",
        lambda pets: Sequence(pets.frame.rename(columns={"kind": " kind"}), y="kind"),
        ManifestError, 'y="kind" is not a column', 'With blanks there is "kind"',
        "df.columns = df.columns.str.strip()",
    ),
    WrongCall(
        "a column in place of its name, x",
        lambda pets: Sequence(pets.frame, pets.frame.path, "kind"), ArgumentError,
        "got a pandas.Series of shape (12,)", "x must be a column name", 'x="path"',
    ),
    WrongCall(
        "a column in place of its name, y",
        lambda pets: Sequence(pets.frame, y=pets.frame[["kind"]]), ArgumentError,
        "got a pandas.DataFrame of shape (12, 1)", "y must be a column name", 'y="kind"',
    ),
    WrongCall(
        "a list of paths as x", lambda pets: Sequence(pets.frame, list(pets.frame.path), "kind"),
        ManifestError, "100.jpg", "It is a path",
        'name the column that holds the paths, such as x="path"',
    ),
    WrongCall(
        "the folder as second argument, as of flow_from_dataframe",
        lambda pets: Sequence(pets.frame, "imgs", "kind"), ManifestError,
        'x="imgs" is not a column', "It is a folder", 'root="imgs"',
    ),
    WrongCall(
        "ids in place of paths", lambda pets: Sequence(pets.frame, dfgen.Image("id"), "kind"),
        ManifestError, "column 'id' holds int64", "expected paths of files",
        """df["path"] = df['id'].astype(str) + ".jpg\"""",
    ),
    WrongCall(
        "a frame without rows", lambda pets: Sequence(pets.frame.head(0), y="kind"), ManifestError,
        "the manifest has no rows", "columns: id, path, kind",
        "was it filtered by a value that does not occur?",
    ),
    WrongCall(
        "a split of another name",
        lambda pets: Sequence(
            pets.frame.assign(split=pd.Categorical(["train", "val"] * 6)).query(
                'split == "validation"'
            ),
            y="kind",
        ),
        ManifestError, "the manifest has no rows", "filtered by a value that does not occur?",
        "Those of 'split' are 'train', 'val'",
    ),
]  # fmt: skip

ARGUMENTS = [
    foreign(
        "the whole call of flow_from_dataframe",
        lambda pets: Sequence(
            dataframe=pets.frame,
            directory="imgs",
            x_col="file",
            y_col="kind",
            target_size=(224, 224),
            class_mode="sparse",
            rescale=1 / 255,
        ),
        "no argument dataframe, directory, x_col, y_col, target_size, class_mode, rescale",
        "dataframe is now manifest: the first argument",
        'rescale is now scale: 1/255 is scale="0..1"',
    ),
    foreign(
        "x_col without a manifest", lambda pets: Sequence(x_col="path", y_col="kind"),
        "no argument x_col, y_col", "x_col is now x", "y_col is now y",
    ),
    foreign(
        "augmentation of ImageDataGenerator",
        lambda pets: flow(
            pets,
            horizontal_flip=True,
            rotation_range=20,
            zoom_range=0.2,
            shear_range=0.1,
            width_shift_range=0.1,
            brightness_range=(0.8, 1.2),
            fill_mode="nearest",
        ),
        "rotation_range", "keras.layers.RandomRotation",
        'horizontal_flip is now flip of dfgen.Image: flip="horizontal"',
    ),
    foreign(
        "normalisation of ImageDataGenerator",
        lambda pets: flow(pets, samplewise_std_normalization=True, featurewise_center=True),
        "samplewise_std_normalization", "the mean and the deviation of each channel",
        'scale="standardize"',
    ),
    foreign(
        "a validation split", lambda pets: flow(pets, validation_split=0.2, subset="validation"),
        "no argument x_col, y_col, validation_split, subset",
        'df = dfgen.split(df, {"train": 0.8, "val": 0.2})',
        'dfgen.Sequence(df[df.split == "train"], ...)',
    ),
    foreign(
        "class_mode raw",
        lambda pets: Sequence(pets.frame, x_col="path", y_col="age", class_mode="raw"),
        "class_mode", "label_mode", 'numbers of class_mode="raw" are y="age" by itself',
    ),
    foreign(
        "arguments of image_dataset_from_directory",
        lambda pets: Sequence(
            directory="imgs",
            labels="inferred",
            crop_to_aspect_ratio=True,
            interpolation="area",
            follow_links=True,
            data_format=None,
            verbose=True,
        ),
        "crop_to_aspect_ratio", 'df = dfgen.build_manifest("imgs", pattern="{kind}/{id}.jpg")',
        'crop_to_aspect_ratio is now resize of dfgen.Image: resize="crop"',
    ),
    foreign(
        "queues of TensorFlow 1",
        lambda pets: Sequence(
            pets.frame,
            y="kind",
            capacity=2000,
            min_after_dequeue=1000,
            num_threads=4,
            num_epochs=3,
            allow_smaller_final_batch=False,
        ),
        "capacity, min_after_dequeue, num_threads, num_epochs, allow_smaller_final_batch",
        "capacity is now max_queue_size", "num_threads is now workers",
    ),
    foreign(
        "arguments of tf.data",
        lambda pets: Sequence(
            pets.frame,
            y="kind",
            num_parallel_calls=-1,
            prefetch=2,
            buffer_size=1000,
            reshuffle_each_iteration=True,
        ),
        "buffer_size", "all rows are shuffled, without a buffer",
        "num_parallel_calls is now workers: None is all CPUs",
    ),
    foreign(
        "arguments of torch's DataLoader",
        lambda pets: Sequence(
            pets.frame,
            y="kind",
            num_workers=2,
            pin_memory=True,
            collate_fn=len,
            sampler=None,
            drop_last=True,
        ),
        "num_workers, pin_memory",
        "collate_fn is now batch_transform: batch_transform(batch, rng) -> batch",
        "drop_last is now drop_remainder",
    ),
    foreign(
        "arguments of fastai",
        lambda pets: Sequence(
            pets.frame,
            fn_col="path",
            label_col="kind",
            bs=16,
            item_tfms=len,
            valid_pct=0.2,
        ),
        "fn_col, label_col, bs", "item_tfms is now transform: transform(sample, rng) -> sample",
        "bs is now batch_size",
    ),
    foreign(
        "arguments of the image",
        lambda pets: Sequence(pets.frame, y="kind", flip="horizontal", image_size=(8, 8)),
        "no argument flip", "flip is an argument of the image", "x=dfgen.Image(..., flip=...)",
    ),
    foreign(
        "the generator of a well known tutorial",
        lambda pets: Sequence(list_IDs=[1], labels={}, dim=(32, 32), n_channels=3, n_classes=10),
        "list_IDs, labels, dim, n_channels, n_classes", "dim is now image_size: (height, width)",
        "list_IDs is now manifest: a frame with a row for each file",
    ),
    foreign(
        "old arguments of sequences",
        lambda pets: dfgen.sequences(pets.frame, y_col="kind", target_size=(8, 8)),
        "sequences has no argument y_col, target_size", "y_col is now y",
        "target_size is now image_size: (height, width)",
    ),
    foreign(
        "an argument that is misspelt", lambda pets: Sequence(pets.frame, y="kind", batchsize=4),
        "Sequence has no argument batchsize", "Arguments: manifest, x, y",
        'Did you mean "batch_size"?',
    ),
]  # fmt: skip

NAMES = [
    WrongCall(
        f"dfgen.{name}",
        lambda pets, name=name: getattr(dfgen, name),
        AttributeError,
        repr(name),
        "module 'dfgen' has no attribute",
        advice,
    )
    for name, advice in {
        "flow_from_dataframe": 'dfgen.Sequence(df, x="path", y="label")',
        "ImageDataGenerator": 'dfgen.Sequence(df, x="path", y="label")',
        "DataLoader": 'dfgen.Sequence(df, x="path", y="label")',
        "image_dataset_from_directory": 'dfgen.build_manifest("imgs"',
    }.items()
]

CALLS = [*MANIFESTS, *COLUMNS, *ARGUMENTS, *NAMES]
