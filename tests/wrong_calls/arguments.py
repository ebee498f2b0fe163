"""Arguments of Sequence, of features and of Limits that have another type or value."""

import cv2
import numpy as np
import pandas as pd
from PIL import Image as Pillow

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from wrong_calls import WrongCall

TRUTH = "True or False"
WHOLE = "a whole number of 1 or more"
SIZE = "(height, width) in pixels"
SCALE = "must be one of (None, '0..1'"
COLOR = "('grayscale', 'rgb', 'rgba')"
LABEL = "('int', 'categorical', 'binary', None)"
TREE = "must be a column name, a feature"
NAME = "expected the name of one"
ORDER = "whose order gives the classes their numbers"
CLASSES = 'class -> weight or "balanced"'


def of_sequence(argument, value, received, expected, advice, raises=ArgumentError, what="", **more):
    """One argument of Sequence; `value` may be a function of the frame."""

    def call(pets):
        given = value(pets.frame) if callable(value) and not isinstance(value, type) else value
        options = {"y": "kind", "image_size": (8, 8), **more, argument: given}
        dfgen.Sequence(pets.frame, **options)

    shown = what or f"{argument}={value!r}"
    return WrongCall(shown[:60], call, raises, received, expected, advice)


def of_column(argument, value, received, advice, what):
    """What stands for the name of a column."""
    return of_sequence(argument, value, received, NAME, advice, ManifestError, what)


def feature(what, make, received, expected, advice):
    return WrongCall(what, lambda pets: make(pets.frame), ArgumentError, received, expected, advice)


def indexed(what, index, received, advice):
    def call(pets):
        dfgen.Sequence(pets.frame, y="kind", batch_size=4, workers=0)[index]

    return WrongCall(what, call, TypeError, received, "expected a whole number below 3", advice)


CALLS = [
    of_sequence("image_size", 32, "got 32", SIZE, "write image_size=(32, 32)"),
    of_sequence("image_size", (100_000, 100_000), "takes 360.0 GB", "GB of memory",
                "Make batch_size= smaller, or image_size="),
    of_sequence("image_size", (224, 224, 3), "(224, 224, 3)", SIZE,
                "write image_size=(224, 224). Channels are color_mode="),
    of_sequence("image_size", (224.0, 224.0), "(224.0, 224.0)", SIZE, "image_size=(224, 224)"),
    of_sequence("image_size", "224", "'224'", SIZE, "write image_size=(224, 224)"),
    of_sequence("image_size", (-1, 224), "(-1, 224)", SIZE, "image_size"),
    of_sequence("image_size", (True, 224), "(True, 224)", SIZE, "image_size"),
    of_sequence("scale", 1 / 255, "0.0039", SCALE, 'write scale="0..1"'),
    of_sequence("scale", 255, "got 255", SCALE, 'write scale="0..1"'),
    of_sequence("scale", 1 / 127.5, "0.0078", SCALE, 'write scale="-1..1"'),
    of_sequence("scale", "0-1", "'0-1'", SCALE, 'write scale="0..1"'),
    of_sequence("scale", True, "got True", SCALE, 'write scale="0..1"'),
    of_sequence("scale", "imagenet", "'imagenet'", SCALE, 'write scale="torch"'),
    of_sequence("color_mode", "RGB", "'RGB'", COLOR, 'write color_mode="rgb"'),
    of_sequence("color_mode", "gray", "'gray'", COLOR, 'write color_mode="grayscale"'),
    of_sequence("color_mode", "bgr", "'bgr'", COLOR, 'scale="caffe" makes BGR'),
    of_sequence("color_mode", 3, "got 3", COLOR, 'write color_mode="rgb"'),
    of_sequence("label_mode", "sparse", "'sparse'", LABEL, 'write label_mode="int"'),
    of_sequence("label_mode", "one_hot", "'one_hot'", LABEL, 'write label_mode="categorical"'),
    of_sequence("label_mode", "one-hot", "'one-hot'", LABEL, 'write label_mode="categorical"'),
    of_sequence("label_mode", "raw", "'raw'", LABEL, "leave it out"),
    of_sequence("label_mode", "input", "'input'", LABEL, 'write y=dfgen.Image("path")'),
    of_sequence("label_mode", "multi_output", "'multi_output'", LABEL, 'write y={"kind": "kind"'),
    of_sequence("label_mode", "None", "'None'", LABEL, "write label_mode=None"),
    of_sequence("label_mode", "Binary", "'Binary'", LABEL, 'write label_mode="binary"'),
    of_sequence("shuffle", "yes", "'yes'", TRUTH, "write shuffle=True"),
    of_sequence("shuffle", "batch", "'batch'", TRUTH, "another order of all rows each epoch"),
    of_sequence("shuffle", 1000, "got 1000", TRUTH, "write shuffle=True"),
    of_sequence("drop_remainder", "yes", "'yes'", TRUTH, "write drop_remainder=True"),
    of_sequence("use_multiprocessing", "False", "'False'", TRUTH, "use_multiprocessing=False"),
    of_sequence("batch_size", 32.0, "32.0", WHOLE, "write batch_size=32"),
    of_sequence("batch_size", "32", "'32'", WHOLE, "write batch_size=32"),
    of_sequence("batch_size", None, "batch_size=None", WHOLE, "write batch_size=32"),
    of_sequence("batch_size", -1, "batch_size=-1", WHOLE, "write batch_size=32"),
    of_sequence("workers", -1, "workers=-1", "0 or more", "leave it out to use all CPUs"),
    of_sequence("workers", "auto", "'auto'", "0 or more", "leave it out to use all CPUs"),
    of_sequence("workers", 2.0, "2.0", "0 or more", "write workers=2"),
    of_sequence("max_queue_size", 0, "max_queue_size=0", WHOLE, "write max_queue_size=1"),
    of_sequence("seed", "x", "seed='x'", "0 or more", "write seed=0"),
    of_sequence("seed", 1.5, "seed=1.5", "0 or more", "seed=None"),
    of_sequence("limits", 2e9, "2000000000.0", "dfgen.Limits(", "Limits(memory=2000000000)"),
    of_sequence("limits", "2GB", "'2GB'", "dfgen.Limits(", 'dfgen.Limits(memory="2GB")'),
    of_sequence("limits", {"memory": 1}, "{'memory': 1}", "dfgen.Limits(", "write limits="),
    feature("Limits with seconds as text", lambda df: dfgen.Limits(read_timeout="60"), "'60'",
            "seconds above 0", "write read_timeout=60"),
    feature("Limits of True", lambda df: dfgen.Limits(memory=True), "True", "bytes or a text",
            '"2GB"'),
    of_sequence("class_weight", [1, 2, 3], "[1, 2, 3]", CLASSES, "dict(enumerate(weights))"),
    of_sequence("class_weight", np.ones(3), "array([1., 1., 1.])", CLASSES,
                "class_weight=dict(enumerate(weights))"),
    of_sequence("class_weight", "auto", "'auto'", CLASSES, 'class_weight="balanced"'),
    of_sequence("class_weight", {"fish": 2}, "'fish'", "Classes: 'cat', 'dog', 'owl'",
                "Leave it out"),
    of_sequence("class_weight", {0: 1, 3: 1}, "the class 3", "or 0 to 2", "Leave it out"),
    of_column("sample_weight", np.ones((12, 1)), "a numpy.ndarray of shape (12, 1)",
              'df["sample_weight"] = ...', "an array of weights"),
    of_column("sample_weight", lambda df: df["age"], "a pandas.Series of shape (12,)",
              'write sample_weight="age"', "a Series of weights"),
    of_column("id", lambda df: df.index, "RangeIndex", "df.reset_index()", "the index as id"),
    of_column("id", lambda df: df["id"].tolist(), "[100, 101", 'write id="id"', "a list of ids"),
    of_column("balance", True, "balance=True", "leave balance out", "balance=True"),
    of_column("balance", lambda df: df["kind"], "a pandas.Series", 'write balance="kind"',
              "a Series of classes to balance"),
    of_sequence("bucket_by", True, "got True", "(None, 'shape', 'length')",
                'write bucket_by="shape"'),
    of_sequence("on_error", "ignore", "'ignore'", "('raise', 'skip')", 'write on_error="skip"'),
    of_sequence("shard", 0, "got 0", "(index, count)", "(0, 4) on the first of 4"),
    of_sequence("class_names", "cat", "'cat'", "distinct names", 'write class_names=["cat", '),
    of_sequence("class_names", {"dog"}, "{'dog'}", ORDER, "write sorted(class_names)"),
    of_sequence("class_names", {"cat": 0, "dog": 1, "owl": 2}, "{'cat': 0", ORDER,
                "in the order of their numbers"),
    of_sequence("x", np.zeros((12, 8, 8, 3)), "a numpy.ndarray of shape (12, 8, 8, 3)", TREE,
                'write x="path"', what="an array of images as x"),
    of_sequence("x", lambda df: df["path"], "a pandas.Series of shape (12,)", TREE,
                'write x="path"', what="a Series of paths as x"),
    of_sequence("x", lambda df: df["path"].tolist(), "100.jpg", "is not a column",
                "name the column that holds the paths", ManifestError, "a list of paths as x"),
    of_sequence("x", lambda df: Pillow.new("RGB", (4, 4)), "a PIL.Image", TREE, 'x="path"',
                what="an image of Pillow as x"),
    of_sequence("x", dfgen.Image, "the class dfgen.Image", TREE, 'x=dfgen.Image("path")'),
    of_sequence("y", lambda df: df["kind"], "a pandas.Series of shape (12,)", TREE,
                'write y="kind"', what="a Series of labels as y"),
    of_sequence("y", lambda df: pd.get_dummies(df["kind"]), "a pandas.DataFrame of shape (12, 3)",
                TREE, 'write y="kind"', what="get_dummies as y"),
    of_sequence("y", "kind,age", '"kind,age"', "is not a column", "y=['kind', 'age']",
                ManifestError),
    of_sequence("y", {"kind"}, "{'kind'}", TREE, "write y=['kind']"),
    of_sequence("x", [["path"]], "['path']", TREE, "not nested"),
    of_sequence("x", "kind", '"kind" is text', "no suffix of an image", "dfgen.Category"),
    of_sequence("y", "path", 'y="path"', "names image files", "dfgen.Category"),
    WrongCall("a batch size behind the frame", lambda pets: dfgen.Sequence(pets.frame, 32),
              ArgumentError, "got 32", TREE, 'write x="path"'),
    WrongCall("four arguments without names",
              lambda pets: dfgen.Sequence(pets.frame, "path", "kind", 32), TypeError,
              "5 were given", "from 1 to 4 positional", "Sequence"),
    feature("a size instead of a column", lambda df: dfgen.Image(224), "got 224",
            "the name of a column", 'write dfgen.Image("column", ...)'),
    feature("one length for the size of an image", lambda df: dfgen.Image("path", 224), "got 224",
            SIZE, "write size=(224, 224)"),
    feature("a color mode behind the size", lambda df: dfgen.Image("path", (8, 8), "rgb"), "'rgb'",
            "resize must be one of", "'stretch'"),
    feature("a Series for the column of a feature", lambda df: dfgen.Category(df["kind"]),
            "a pandas.Series", "the name of a column", 'write dfgen.Category("kind", ...)'),
    feature("classes for the column of a feature", lambda df: dfgen.Category(["cat", "dog"]),
            "['cat', 'dog']", "the name of a column", "dfgen.Category("),
    feature("a Series of numbers for a feature", lambda df: dfgen.Number(df["age"]),
            "a pandas.Series", "the name of a column", 'write "age"'),
    feature("flip=True", lambda df: dfgen.Image("path", flip=True), "got True",
            "flip must be one of", 'write flip="horizontal"'),
    feature("crop=True", lambda df: dfgen.Image("path", crop=True), "got True",
            "crop must be one of", 'write crop="random"'),
    feature("resize of fastai", lambda df: dfgen.Image("path", resize="squash"), "'squash'",
            "resize must be one of", 'write resize="stretch"'),
    feature("an interpolation of Keras", lambda df: dfgen.Image("path", interpolation="bicubic"),
            "'bicubic'", "('bilinear', 'nearest', 'area')", 'write interpolation="bilinear"'),
    feature("an interpolation of OpenCV",
            lambda df: dfgen.Image("path", interpolation=cv2.INTER_AREA), "got 3",
            "('bilinear', 'nearest', 'area')", 'write interpolation="area"'),
    feature("a type for a dtype", lambda df: dfgen.Image("path", dtype=np.float32),
            "the class numpy.float32", "dtype must be one of", 'write dtype="float32"'),
    feature("antialias as text", lambda df: dfgen.Image("path", antialias="yes"), "'yes'", TRUTH,
            "write antialias=True"),
    feature("boxes of YOLO", lambda df: dfgen.Boxes(format="yolo"), "'yolo'",
            "('xyxy', 'xywh', 'rel_xyxy')", "x - width / 2"),
    feature("boxes of Pascal VOC", lambda df: dfgen.Boxes(format="pascal_voc"), "'pascal_voc'",
            "('xyxy', 'xywh', 'rel_xyxy')", 'write format="xyxy"'),
    feature("one length for a shape", lambda df: dfgen.Array("path", 8), "got 8",
            "a tuple of positive integers", "write shape=(8,)"),
    indexed("half a batch", 1.5, "seq[1.5]", "write seq[0]"),
    indexed("a column of a Sequence", "kind", "seq['kind']", 'seq.manifest["kind"]'),
    indexed("a slice of batches", slice(0, 2), "slice(0, 2, None)", "for i in range(0, 2)"),
]  # fmt: skip
