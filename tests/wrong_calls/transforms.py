"""Functions of the user's own that cannot work: told when the Sequence is made, or by the row."""

from functools import partial

import albumentations as A
import keras
import numpy as np
from keras.src.legacy.preprocessing.image import ImageDataGenerator

import dfgen
from dfgen.errors import ArgumentError, DecodeError, TransformError
from wrong_calls import WrongCall


def flip(image):
    return image[:, ::-1]


def flip_both(sample, rng, mask):
    return sample


class Augment:
    def __init__(self, strength=1):
        self.strength = strength

    def __call__(self, image, label):
        return image, label

    def one(self, sample):
        return sample


class NeedsMore(Augment):
    def __call__(self, sample):
        return sample


def feed(pets, transform, **options):
    """Make a Sequence, and its first batch."""
    given = {"y": "kind", "image_size": (8, 8), "workers": 0, "shuffle": False}
    return dfgen.Sequence(pets.frame, **{**given, "transform": transform, **options})[0]


def refused(what, transform, received, advice, expected="transform(sample, rng)", **options):
    call = partial(feed, transform=transform, **options)
    return WrongCall(what, call, ArgumentError, received, expected, advice)


def told(what, transform, received, expected, advice, **options):
    call = partial(feed, transform=transform, **options)
    return WrongCall(what, call, TransformError, received, expected, advice)


def mixed(batch):
    return batch


def asks_itself(argument, workers):
    """Return a call whose function asks the Sequence that it makes rows for, once there is one."""

    def call(pets):
        made = []

        def function(given, rng):
            return made[0][0] if made else given

        options = {"image_size": (8, 8), "workers": workers, argument: function}
        with dfgen.Sequence(pets.frame, y="kind", **options) as seq:
            made.append(seq)
            seq[0]

    name = f"a {argument} that asks its own Sequence, workers={workers}"
    words = ("asks that Sequence for a batch", "would wait for itself", "a second Sequence")
    return WrongCall(name, call, TransformError, *words)


WRITE = "write def transform(sample, rng):"
NUMPY = "a dict of NumPy arrays"
CALLS = [
    *(asks_itself(argument, workers)
      for argument in ("transform", "batch_transform") for workers in (0, 2)),
    refused("the name of a transform", "flip", "transform='flip'", "flip=..."),
    refused("a list of transforms", [flip, flip], "transform=a list of 2", "in turn"),
    refused("a transform of fastai's kind, a list of many",
            [lambda x: x] * 60, "transform=a list of 60", "in turn"),
    refused("a dict of transforms", {"image": flip}, "transform=a dict of 1", WRITE),
    refused("True for a transform", True, "transform=True", WRITE),
    refused("what a transform returned, for the transform", flip(np.ones((4, 4, 3))),
            "transform=a numpy.ndarray of shape (4, 4, 3)", WRITE),
    refused("a transform of an image", flip, "transform=flip(image)", 'sample["image"] = ...'),
    refused("a lambda of an image", lambda image: image, "<lambda>(image)", WRITE),
    refused("a transform of a sample without rng", lambda sample: sample, "<lambda>(sample)",
            "return sample"),
    refused("a transform of three", flip_both, "flip_both(sample, rng, mask)", WRITE),
    refused("a transform whose rng has no place", lambda sample, *, rng: sample,
            "<lambda>(sample, *, rng)", WRITE),
    refused("a method of a sample alone", Augment().one, "Augment.one(sample)", WRITE),
    refused("a callable object of a sample alone", NeedsMore(), "NeedsMore(sample)", WRITE),
    refused("a partial that leaves one argument", partial(flip_both, rng=1), "flip_both(sample",
            WRITE),
    refused("a class instead of an object of it", Augment, "transform=Augment",
            "transform=Augment(...)", "expected transform(sample, rng)"),
    refused("a pipeline of Albumentations as it is", A.Compose([A.HorizontalFlip()]),
            "albumentations", "dfgen.albumentations(A.Compose([...]))", NUMPY),
    refused("a step of Albumentations as it is", A.HorizontalFlip(), "HorizontalFlip(p=0.5)",
            "dfgen.albumentations(A.Compose([...]))", NUMPY),
    refused("a layer of Keras", keras.layers.RandomFlip(), "RandomFlip", "put it into the model",
            NUMPY),
    refused("a Sequential of Keras layers",
            keras.Sequential([keras.layers.RandomRotation(0.1)]), "Sequential",
            "put it into the model", NUMPY),
    refused("a preprocess_input", keras.applications.resnet50.preprocess_input,
            "preprocess_input", 'scale="tf", "torch" or "caffe"', NUMPY),
    refused("an ImageDataGenerator", ImageDataGenerator(rescale=1 / 255), "ImageDataGenerator",
            "flip=..., crop=...", NUMPY),
    refused("a method of an ImageDataGenerator", ImageDataGenerator().random_transform,
            "random_transform", "put it into the model", NUMPY),
    WrongCall("A.Normalize in a pipeline",
              lambda pets: feed(pets, dfgen.albumentations(A.Compose([A.Normalize()]))),
              ArgumentError, "holds Normalize", "stay whole numbers",
              "scale=((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))"),
    WrongCall("a list for dfgen.albumentations",
              lambda pets: dfgen.albumentations([A.HorizontalFlip()]),
              ArgumentError, "[HorizontalFlip(p=0.5)]", "albumentations.Compose([...])",
              "write dfgen.albumentations(A.Compose([...]))"),
    refused("a batch_transform of images and labels", None,
            "<lambda>(images, labels, rng)", 'batch["image"] = ...',
            "batch_transform(batch, rng)",
            batch_transform=lambda images, labels, rng: (images, labels)),
    refused("a batch_transform without rng", None, "mixed(batch)", "return batch",
            "batch_transform(batch, rng)", batch_transform=mixed),
    refused("MixUp of Keras", None, "MixUp", "put it into the model", NUMPY,
            batch_transform=keras.layers.MixUp()),
    told("a transform that returns nothing", lambda sample, rng: sample.update(label=1),
         "returned None", "expected a dict with the keys ['image', 'label']",
         "then return sample"),
    told("a transform that returns an image", lambda sample, rng: sample["image"],
         "returned a numpy.ndarray of shape (8, 8, 3)", "expected a dict",
         'sample["image"] = ...'),
    told("a transform that returns image and label",
         lambda sample, rng: (sample["image"], sample["label"]), "returned a tuple of 2",
         "expected a dict", "then return sample"),
    told("a transform that returns the image alone in a dict",
         lambda sample, rng: {"image": sample["image"]}, "returned ['image']",
         "the keys ['image', 'label']", "then return sample"),
    told("a transform that divides by 255",
         lambda sample, rng: sample | {"image": sample["image"] / 255}, "float64",
         "expected uint8 of shape (8, 8, 3)", "scale= comes afterwards"),
    told("a transform that makes channels come first",
         lambda sample, rng: sample | {"image": sample["image"].transpose(2, 0, 1)},
         "uint8 of shape (3, 8, 8)", "(8, 8, 3)", "image.transpose(1, 2, 0)"),
    told("a transform that crops",
         lambda sample, rng: sample | {"image": sample["image"][2:, 2:]},
         "shape (6, 6, 3)", "shape (8, 8, 3)", "load_size=..."),
    told("a transform that raises",
         lambda sample, rng: sample["img"], "row id=100, path=", "KeyError: 'img'",
         'lambda sample, rng: sample["img"]'),
    told("a batch_transform that returns a pair", None, "returned a tuple of 2",
         "expected a dict with the keys ['image', 'label']", "then return batch",
         batch_transform=lambda batch, rng: (batch["image"], batch["label"])),
    WrongCall("a function of one for two columns",
              lambda pets: dfgen.Column(["age", "legs"], lambda row: row["age"]),
              ArgumentError, "fn=<lambda>(row)", "fn(age, legs)", "one argument each"),
    WrongCall("a function of two for one column",
              lambda pets: dfgen.Column("age", lambda age, rng: age),
              ArgumentError, "fn=<lambda>(age, rng)", "fn(age)", "one argument each"),
    WrongCall("a function of a path and a shape for the bytes of a file",
              lambda pets: dfgen.Array("path", (8, 8), decode=lambda path, shape: 0),
              ArgumentError, "decode=<lambda>(path, shape)", "decode(data)", "the bytes of a file"),
    WrongCall("a function of a row for one column",
              lambda pets: feed(pets, None, image_size=(256, 256), x={
                  "a": dfgen.Column("age", lambda row: row["age"])}),
              DecodeError, "row id=100", "TypeError: 'float' object is not subscriptable",
              'lambda row: row["age"]'),
]  # fmt: skip
