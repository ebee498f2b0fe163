"""What fit, evaluate and predict are given, and validation data unlike those of training."""

import warnings
from pathlib import Path

import keras

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from wrong_calls import WrongCall


def model(loss="sparse_categorical_crossentropy", classes=3, **options):
    layers = keras.layers
    made = keras.Sequential([layers.GlobalAveragePooling2D(), layers.Dense(classes, "softmax")])
    made.compile("sgd", loss, **options)
    return made


def functional():
    inputs = keras.Input((8, 8, 3))
    made = keras.Model(inputs, keras.layers.Dense(3, "softmax")(keras.layers.Flatten()(inputs)))
    made.compile("sgd", "sparse_categorical_crossentropy")
    return made


def rows(frame, split="train", numbered=True):
    """Six rows that train, or six others."""
    frame = frame.assign(kind=frame["kind"].astype("category")) if numbered else frame
    return frame[:6] if split == "train" else frame[6:]


def image(**options):
    return dfgen.Image("path", **{"size": (8, 8), **options})


def seq(frame, y="kind", x=None, **options):
    x = image() if x is None else x
    return dfgen.Sequence(frame, x, y, **{"batch_size": 4, "workers": 0, **options})


def train(pets, **options):
    return seq(rows(pets.frame), **options)


def val(pets, **options):
    return seq(rows(pets.frame, "val"), **{"shuffle": False, **options})


def fit(data, validation, fitted=None, **options):
    fitted = fitted or model()
    fitted.fit(data, **{"validation_data": validation, "epochs": 0, "verbose": 0, **options})


def of_text(pets, split, *kinds, **options):
    """A Sequence of rows of some kinds, numbered by themselves."""
    frame = rows(pets.frame, split, numbered=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "column .* is not categorical")
        return seq(frame[frame["kind"].isin(kinds)], **options)


def one_hot(pets, split, *kinds):
    return of_text(pets, split, *kinds, y=dfgen.Category("kind", "categorical"))


def mixed_model():
    return model("categorical_crossentropy")


def unlabelled(pets):
    frame = pets.frame.assign(kind=pets.frame["kind"].where(pets.frame.index > 1))
    return seq(
        frame.assign(kind=frame["kind"].astype("category")),
        dfgen.Category("kind", missing="ignore"),
    )


def unreadable(pets):
    problem = ["the file is empty", *[None] * 11]
    return seq(rows(pets.frame.assign(problem=problem)), on_error="skip")


def damaged_backup(pets):
    Path("backup").mkdir()
    Path("backup/backup-00000000.dfgen").write_bytes(b"cut short")
    data = train(pets)
    callbacks = [dfgen.BackupAndRestore("backup", data, on_sigterm=False)]
    model().fit(data, verbose=0, callbacks=callbacks)


def two_backups(pets):
    data = train(pets)
    both = [dfgen.BackupAndRestore("backup", data, on_sigterm=False) for _ in range(2)]
    model().fit(data, verbose=0, callbacks=both)


CALLS = [
    WrongCall(
        "validation lacks a class, so others have its number",
        lambda pets: fit(
            of_text(pets, "train", "cat", "dog", "owl"), of_text(pets, "val", "dog", "owl")
        ),
        ArgumentError, "number 0 is class 'cat' of 'kind' in training and 'dog' in validation",
        "Number them once for both: before splitting",
        "write df['kind'] = df['kind'].astype('category')",
    ),
    WrongCall(
        "classes of validation in another order",
        lambda pets: fit(train(pets), val(pets, y=dfgen.Category(
            "kind", class_names=["owl", "dog", "cat"]))),
        ArgumentError, "validation 'owl', 'dog', 'cat'", "training numbers 'cat', 'dog', 'owl'",
        "class_names=[...]",
    ),
    WrongCall(
        "one-hot classes of which validation has fewer",
        lambda pets: fit(one_hot(pets, "train", "cat", "dog", "owl"),
                         one_hot(pets, "val", "cat", "dog"), mixed_model()),
        ArgumentError, "of 2 in validation, 'cat', 'dog'", "an array of 3 classes in training",
        "df['kind'].astype('category')",
    ),
    WrongCall(
        "numbers of classes in validation, one-hot in training",
        lambda pets: fit(one_hot(pets, "train", "cat", "dog", "owl"), val(pets), mixed_model()),
        ArgumentError,
        "y of validation has another shape than that of training: label int32 (batch,)",
        "in training label float32 (batch, 3)", "Give both Sequences the same label_mode",
    ),
    WrongCall(
        "pixels 0..1 in validation, 0..255 in training",
        lambda pets: fit(train(pets), val(pets, x=image(scale="0..1"))), ArgumentError,
        "x of validation has scale='0..1'", "that of training scale=None",
        "Give both Sequences the same, scale=None",
    ),
    WrongCall(
        "the preprocessing of another pretrained model in validation",
        lambda pets: fit(train(pets, x=image(scale="torch")), val(pets, x=image(scale="caffe"))),
        ArgumentError, "scale='caffe'", "that of training scale='torch'",
        "Give both Sequences the same",
    ),
    WrongCall(
        "grey images in validation",
        lambda pets: fit(train(pets), val(pets, x=image(color_mode="grayscale"))), ArgumentError,
        "uint8 (batch, 8, 8, 1)", "uint8 (batch, 8, 8, 3)",
        "Give both Sequences the same label_mode, color_mode or feature",
    ),
    WrongCall(
        "larger images in validation than the model takes",
        lambda pets: fit(train(pets), val(pets, x=image(size=(16, 16))), functional()),
        ArgumentError, "validation_data: x gives 'image' as (batch, 16, 16, 3)",
        "takes (batch, 8, 8, 3)", "write image_size=(8, 8)",
    ),
    WrongCall(
        "a dict as x of validation alone",
        lambda pets: fit(train(pets), val(pets, x={"image": image()})), ArgumentError,
        "x of validation is a dict with 'image'", "that of training one array",
        "Give both Sequences the same x=",
    ),
    WrongCall(
        "validation without labels",
        lambda pets: fit(train(pets), val(pets, y=None, label_mode=None)), ArgumentError,
        "validation has none", "training has targets, y",
        "Give the Sequence of validation the same y=",
    ),
    WrongCall(
        "labels beside the Sequence of validation",
        lambda pets: fit(train(pets), (val(pets), pets.frame["kind"])), ArgumentError,
        "validation_data is a tuple of Sequence, Series",
        "expected one dfgen.Sequence, which has its own y", "validation_data=sequence",
    ),
    WrongCall(
        "all Sequences of dfgen.sequences as validation_data",
        lambda pets: fit(train(pets), {"val": val(pets)}), ArgumentError,
        "validation_data is a dict of Sequence", "expected one dfgen.Sequence",
        "validation_data=sequence",
    ),
    WrongCall(
        "a list of Sequences as validation_data",
        lambda pets: fit(train(pets), [val(pets), val(pets)]), ArgumentError,
        "validation_data is a list of Sequence, Sequence", "expected one dfgen.Sequence",
        "validation_data=sequence",
    ),
    WrongCall(
        "a frame as validation_data", lambda pets: fit(train(pets), pets.frame), ArgumentError,
        "validation_data is a DataFrame", "expected a dfgen.Sequence of the rows that validate",
        "dfgen.Sequence(df, ..., shuffle=False)",
    ),
    WrongCall(
        "the path of a manifest as validation_data", lambda pets: fit(train(pets), "val.parquet"),
        ArgumentError, "validation_data is 'val.parquet'",
        "expected a dfgen.Sequence of the rows that validate",
        "dfgen.Sequence(df, ..., shuffle=False)",
    ),
    WrongCall(
        "the class as validation_data", lambda pets: fit(train(pets), dfgen.Sequence),
        ArgumentError, "validation_data is <class 'dfgen",
        "expected a dfgen.Sequence of the rows that validate",
        "dfgen.Sequence(df, ..., shuffle=False)",
    ),
    WrongCall(
        "validation on the Sequence that trains", lambda pets: fit(*[train(pets)] * 2), UserWarning,
        "validation_data has the 6 rows that the model is trained on",
        "val_loss shows how well it remembers them", 'dfgen.split(df, {"train": 0.8, "val": 0.2})',
    ),
    WrongCall(
        "validation on the frame that trains",
        lambda pets: fit(train(pets), train(pets, shuffle=False)), UserWarning,
        "validation_data has the 6 rows that the model is trained on",
        "val_loss shows how well it remembers them", "dfgen.sequences(df, ...)",
    ),
    WrongCall(
        "a class that class_weight has no weight for",
        lambda pets: train(pets, class_weight={"cat": 1.0, "dog": 2.0}), UserWarning,
        "class_weight has no weight for 'owl'", "give each class its weight",
        "class_weight={'cat': 1.0, 'dog': 2.0, 'owl': 1.0}",
    ),
    WrongCall(
        "weights below 0",
        lambda pets: seq(pets.frame.assign(age=pets.frame["age"] - 1), sample_weight="age"),
        ManifestError, 'sample_weight="age" is -1 in row 0, and below 0 in 2 of 12 rows',
        "Expected 0 or more", "df['age'] = df['age'].clip(lower=0)",
    ),
    WrongCall(
        "two backups in one folder", two_backups, ArgumentError,
        "two BackupAndRestore of callbacks=[...] save in",
        "they would delete and restore each other's backups",
        "Leave one out, or give each its own backup_dir",
    ),
    WrongCall(
        "endless validation", lambda pets: fit(train(pets), val(pets).repeat()), ArgumentError,
        "validation_data=sequence.repeat()", "would never end",
        "give fit validation_steps=, or the Sequence itself",
    ),
    WrongCall(
        "validation_batch_size", lambda pets: fit(train(pets), val(pets), validation_batch_size=2),
        ArgumentError, "fit(validation_batch_size=...)", "does not reach a dfgen.Sequence",
        "Give the Sequence of validation its own batch_size=",
    ),
    WrongCall(
        "metrics that count rows without a label",
        lambda pets: fit(unlabelled(pets), None, model(metrics=["accuracy"])), UserWarning,
        "metrics= ignore weights, and so count rows of weight 0: 2 without a label",
        "metrics of the other rows alone", "compile the model with weighted_metrics=",
    ),
    WrongCall(
        "metrics that count rows that cannot be read",
        lambda pets: fit(unreadable(pets), None, model(metrics=["accuracy"])), UserWarning,
        '1 that cannot be read, as zeros (on_error="skip")', "metrics of the other rows alone",
        "compile the model with weighted_metrics=",
    ),
    WrongCall(
        "predict that leaves out the last rows",
        lambda pets: model().predict(
            seq(pets.frame, shuffle=False, batch_size=5, drop_remainder=True), verbose=0),
        ArgumentError, "predict with drop_remainder=True would leave out the last 2 of 12 rows",
        "expected a prediction for each row", "Make the Sequence without drop_remainder",
    ),
    WrongCall(
        "predict on rows in another order", lambda pets: model().predict(train(pets), verbose=0),
        ArgumentError, "predict on a Sequence that shuffles", "could not be matched with the rows",
        "Make one with shuffle=False",
    ),
    WrongCall(
        "predict on rows that are drawn",
        lambda pets: model().predict(train(pets, balance="kind"), verbose=0), ArgumentError,
        "predict on a Sequence that shuffles", "could not be matched with the rows",
        "Make one with shuffle=False",
    ),
    WrongCall(
        "predict on an endless Sequence",
        lambda pets: model().predict(val(pets).repeat(), verbose=0), ArgumentError,
        "predict on repeat()", "would never end", "give it steps=, or the Sequence itself",
    ),
    WrongCall(
        "predict with a batch_size",
        lambda pets: model().predict(val(pets), batch_size=2, verbose=0), ArgumentError,
        "predict(batch_size=...)", "does not reach a dfgen.Sequence",
        "Give the Sequence its own batch_size=",
    ),
    WrongCall(
        "evaluate with labels beside",
        lambda pets: model().evaluate(val(pets), pets.frame["kind"], verbose=0), ArgumentError,
        "evaluate(y=...)", "does not reach a dfgen.Sequence", "Give the Sequence its own y=",
    ),
    WrongCall(
        "two Sequences, x and y", lambda pets: model().fit(train(pets), train(pets), verbose=0),
        ArgumentError, "fit(y=...)", "does not reach a dfgen.Sequence",
        "Give the Sequence its own y=",
    ),
    WrongCall(
        "fit on an endless Sequence", lambda pets: fit(train(pets).repeat(), None), ArgumentError,
        "fit on repeat()", "would never end", "give it steps_per_epoch=, or the Sequence itself",
    ),
    WrongCall(
        "batch_size of fit", lambda pets: fit(train(pets), None, batch_size=32), ArgumentError,
        "fit(batch_size=...)", "does not reach a dfgen.Sequence",
        "Give the Sequence its own batch_size=",
    ),
    WrongCall(
        "class_weight of fit", lambda pets: fit(train(pets), None, class_weight={0: 2.0}),
        ArgumentError, "fit(class_weight=...)", "does not reach a dfgen.Sequence",
        "Give the Sequence its own class_weight=",
    ),
    WrongCall(
        "sample_weight of fit",
        lambda pets: fit(train(pets), None, sample_weight=pets.frame["age"]), ArgumentError,
        "fit(sample_weight=...)", "does not reach a dfgen.Sequence",
        "sample_weight=, a column of the manifest",
    ),
    WrongCall(
        "shuffle of fit", lambda pets: fit(train(pets), None, shuffle=False), ArgumentError,
        "fit(shuffle=False)", "does not reach a dfgen.Sequence",
        "Give the Sequence its own shuffle=False",
    ),
    WrongCall(
        "a folder of backups that were cut short", damaged_backup, ArgumentError, "no backup in ",
        "can be read", "To start anew, delete the folder ",
    ),
]  # fmt: skip
