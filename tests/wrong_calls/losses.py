"""Models, losses and targets that do not go together: told by fit before its first step."""

import warnings

import keras

import dfgen
from dfgen.errors import ArgumentError
from wrong_calls import Pets, WrongCall

losses = keras.losses
SPARSE, CATEGORICAL = "sparse_categorical_crossentropy", "categorical_crossentropy"
BINARY = "binary_crossentropy"


def sequence(pets, y, **given):
    frame = pets.frame.assign(
        kind=pets.frame["kind"].astype("category"),
        grade=pets.frame["id"] % 3 + 1,
        sign=pets.frame["id"] % 3 - 1,
        mean=pets.frame["legs"] / 4,
        tags=[["fur", "paws", "tail", "ears", "wings"][: row % 6] for row in range(12)],
        mask=pets.frame["path"],
    )
    return dfgen.Sequence(frame, x="path", y=y, image_size=(4, 4), batch_size=4, **given)


def fit(y, units, activation, loss, **given):
    """Return a call that trains the model of every tutorial, which is not built before `fit`."""

    def call(pets: Pets) -> None:
        train = sequence(pets, y, **given)
        model = keras.Sequential(
            [
                keras.layers.Rescaling(1 / 255),
                keras.layers.Flatten(),
                keras.layers.Dense(units, activation=activation, name="last"),
            ]
        )
        model.compile("sgd", loss, run_eagerly=keras.backend.backend() == "tensorflow")
        with warnings.catch_warnings():
            # NumPy's, of a batch on JAX, and Keras's on TensorFlow, of what is not of interest here
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            model.fit(train, verbose=0)

    return call


def segment(units, loss):
    """Return a call that trains on masks of three classes."""

    def call(pets: Pets) -> None:
        train = sequence(pets, dfgen.Mask("mask", palette={0: 0, 1: 1, 2: 2}))
        pixels = keras.Input((4, 4, 3))
        output = keras.layers.Conv2D(units, 1, activation="softmax", name="pixels")(pixels)
        model = keras.Model(pixels, output)
        model.compile("sgd", loss)
        model.fit(train, verbose=0)

    return call


def two_heads(pets: Pets) -> None:
    train = sequence(pets, {"kind": "kind", "age": "age"})
    pixels = keras.Input((4, 4, 3))
    flat = keras.layers.Flatten()(pixels)
    heads = {
        "kind": keras.layers.Dense(2, activation="softmax", name="kind_head")(flat),
        "age": keras.layers.Dense(1, name="age_head")(flat),
    }
    model = keras.Model(pixels, heads)
    model.compile("sgd", {"kind": SPARSE, "age": "mse"})
    model.fit(train, verbose=0)


def two_classes_are_validated(pets: Pets) -> None:
    train, validation = sequence(pets, "kind"), sequence(pets, "grade")
    model = keras.Sequential(
        [keras.layers.Flatten(), keras.layers.Dense(3, activation="softmax", name="last")]
    )
    model.compile("sgd", SPARSE)
    model.fit(train, validation_data=validation, verbose=0)


def evaluate(pets: Pets) -> None:
    model = keras.Sequential(
        [keras.Input((4, 4, 3)), keras.layers.Flatten(), keras.layers.Dense(2)]
    )
    model.compile(loss=losses.SparseCategoricalCrossentropy(from_logits=True))
    model.evaluate(sequence(pets, "kind", shuffle=False), verbose=0)


CALLS = [
    WrongCall(
        "two units for three classes", fit("kind", 2, "softmax", SPARSE), ArgumentError,
        "the output 'last' of the model has 2 units",
        "column 'kind' has 3 classes ('cat', 'dog', 'owl')", 'Dense(3, activation="softmax")',
    ),
    WrongCall(
        "two logits for three classes",
        fit("kind", 2, None, losses.SparseCategoricalCrossentropy(from_logits=True)), ArgumentError,
        "has 2 units", "needs a unit for each", ": Dense(3)",
    ),
    WrongCall(
        "two logits for three classes, evaluated", evaluate, ArgumentError, "has 2 units",
        "has 3 classes", ": Dense(3)",
    ),
    WrongCall(
        "one-hot classes and a unit too many",
        fit("kind", 4, "softmax", CATEGORICAL, label_mode="categorical"), ArgumentError,
        "has 4 units", "has 3 classes ('cat', 'dog', 'owl')",
        'Dense(3, activation="softmax"), with loss="categorical_crossentropy"',
    ),
    WrongCall(
        "one unit and a binary loss for three classes", fit("kind", 1, "sigmoid", BINARY),
        ArgumentError, "has 3 classes", "tells two classes apart",
        'Dense(3, activation="softmax"), with loss="sparse_categorical_crossentropy"',
    ),
    WrongCall(
        "one logit and a binary loss by its class for three classes",
        fit("kind", 1, None, losses.BinaryCrossentropy(from_logits=True)), ArgumentError,
        "has 3 classes", "tells two classes apart",
        "Dense(3), with loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)",
    ),
    WrongCall(
        "class numbers under a binary loss with a unit for each class",
        fit("kind", 3, "sigmoid", losses.binary_crossentropy), ArgumentError,
        "in batches one number for each row", "binary_crossentropy takes a number for each unit",
        'loss="sparse_categorical_crossentropy"',
    ),
    WrongCall(
        "four units for five labels", fit("tags", 4, "sigmoid", BINARY), ArgumentError,
        "has 4 units", "has 5 classes ('ears', 'fur', 'paws', 'tail', 'wings')",
        'Dense(5, activation="sigmoid")',
    ),
    WrongCall(
        "lists of labels under a loss of one class", fit("tags", 5, "softmax", SPARSE),
        ArgumentError, "vectors of zeros and ones", "takes class numbers",
        'Dense(5, activation="sigmoid"), with loss="binary_crossentropy"',
    ),
    WrongCall(
        "one unit under a loss of classes", fit("kind", 1, None, SPARSE), ArgumentError,
        "has 1 unit", "needs one for each class", 'Dense(3, activation="softmax")',
    ),
    WrongCall(
        "a softmax over one unit", fit("mean", 1, "softmax", BINARY), ArgumentError,
        "a softmax over one is always 1", "has 1 unit", 'Dense(1, activation="sigmoid")',
    ),
    WrongCall(
        "a softmax over one unit that shall tell a number", fit("age", 1, "softmax", "mse"),
        ArgumentError, "a softmax over one is always 1", "the model learns nothing",
        "leave out the activation, Dense(1)",
    ),
    WrongCall(
        "class numbers under categorical_crossentropy", fit("kind", 3, "softmax", CATEGORICAL),
        ArgumentError, "in batches one number for each row",
        "categorical_crossentropy takes a number for each unit",
        'label_mode="categorical", or loss="sparse_categorical_crossentropy"',
    ),
    WrongCall(
        "class numbers under a focal loss",
        fit("kind", 3, "softmax", losses.CategoricalFocalCrossentropy), ArgumentError,
        "in batches one number for each row",
        "categorical_focal_crossentropy takes a number for each unit", 'label_mode="categorical"',
    ),
    WrongCall(
        "one-hot classes under sparse_categorical_crossentropy",
        fit("kind", 3, "softmax", SPARSE, label_mode="categorical"), ArgumentError,
        "one-hot vectors", "takes class numbers",
        'label_mode="int", or loss="categorical_crossentropy"',
    ),
    WrongCall(
        "classes that are numbered from 1", fit("grade", 3, "softmax", SPARSE), ArgumentError,
        "column 'grade' holds the numbers 1 to 3", "the classes 0 to 2",
        "dfgen.Category('grade'), which numbers its values from 0, or df['grade'] - 1",
    ),
    WrongCall(
        "more numbers than units", fit("legs", 3, "softmax", SPARSE), ArgumentError,
        "column 'legs' holds the numbers 0 to 4", "the classes 0 to 2",
        'Dense(5, activation="softmax")',
    ),
    WrongCall(
        "a class of -1 that shall not count", fit("sign", 2, "softmax", SPARSE), ArgumentError,
        "column 'sign' holds the numbers -1 to 1", "the classes 0 to 1", "ignore_class=-1",
    ),
    WrongCall(
        "ids as classes of a binary loss", fit(dfgen.Number("grade"), 1, "sigmoid", BINARY),
        ArgumentError, "column 'grade' holds the numbers 1 to 3", "takes 0 and 1",
        "dfgen.Category('grade', label_mode='binary')",
    ),
    WrongCall(
        "numbers under a loss of classes", fit("age", 6, "softmax", SPARSE), ArgumentError,
        "column 'age' holds fractions such as 0.5", "takes class numbers",
        'Dense(1), with loss="mse"',
    ),
    WrongCall(
        "a number for three units", fit("age", 3, None, "mse"), ArgumentError,
        "column 'age' gives in batches one number for each row",
        "mean_squared_error takes a number for each unit", "Dense(1)",
    ),
    WrongCall(
        "class numbers under a loss of numbers", fit("kind", 3, None, "mae"), ArgumentError,
        "has 3 classes", "mean_absolute_error takes a number for each unit",
        'loss="sparse_categorical_crossentropy"',
    ),
    WrongCall(
        "one-hot classes for one unit", fit("kind", 1, None, "mse", label_mode="categorical"),
        ArgumentError, "has 1 unit", "has 3 classes", "Dense(3",
    ),
    WrongCall(
        "no targets because of label_mode=None", fit(None, 3, "softmax", SPARSE, label_mode=None),
        ArgumentError, "the Sequence has inputs alone",
        "the loss sparse_categorical_crossentropy of the model needs targets", "give it y=",
    ),
    WrongCall(
        "no targets for a loss of one's own",
        fit(None, 3, "softmax", lambda true, made: made, label_mode=None), ArgumentError,
        "the Sequence has inputs alone", "needs targets", 'y=dfgen.Image("path")',
    ),
    WrongCall(
        "a palette of more classes than channels", segment(2, SPARSE), ArgumentError,
        "column 'mask' holds the numbers 0 to 2", "the output 'pixels' of the model has 2 units",
        'Conv2D(3, ..., activation="softmax")',
    ),
    WrongCall(
        "masks of class numbers under categorical_crossentropy", segment(3, CATEGORICAL),
        ArgumentError, "one number for each", "takes a number for each unit",
        'loss="sparse_categorical_crossentropy"',
    ),
    WrongCall(
        "one head of two with a unit too few", two_heads, ArgumentError,
        "the output 'kind_head' of the model has 2 units", "column 'kind' has 3 classes",
        'Dense(3, activation="softmax")',
    ),
    WrongCall(
        "validation by another column, numbered from 1", two_classes_are_validated, ArgumentError,
        "validation_data: column 'grade' holds the numbers 1 to 3", "the classes 0 to 2",
        "df['grade'] - 1",
    ),
    WrongCall(
        "several labels a row under a softmax and a binary loss", fit("tags", 5, "softmax", BINARY),
        ArgumentError, "of which some rows have several", "ends in softmax, whose numbers sum to 1",
        'Dense(5, activation="sigmoid"), with loss="binary_crossentropy"',
    ),
    WrongCall(
        "several labels a row under categorical_crossentropy",
        fit("tags", 5, "softmax", CATEGORICAL), UserWarning, "of which some rows have several",
        "takes one class a row", 'Dense(5, activation="sigmoid"), with loss="binary_crossentropy"',
    ),
    WrongCall(
        "more units than classes", fit("kind", 10, "softmax", SPARSE), UserWarning, "has 10 units",
        "has 3 classes ('cat', 'dog', 'owl'), and none for the last 7 units",
        'Dense(3, activation="softmax")',
    ),
    WrongCall(
        "text under mse", fit(dfgen.Text("kind"), 1, None, "mse"), ArgumentError,
        "column 'kind' is text", "the loss mean_squared_error takes numbers",
        "y=dfgen.Category('kind')",
    ),
    WrongCall(
        "class numbers for one unit under mse", fit("kind", 1, None, "mse"), UserWarning,
        "learns their numbers, 0 to 2", "as if 'dog' lay between 'cat' and 'owl'",
        'Dense(3, activation="softmax"), with loss="sparse_categorical_crossentropy"',
    ),
    WrongCall(
        "numbers that a sigmoid never is", fit("age", 1, "sigmoid", "mse"), ArgumentError,
        "column 'age' holds the numbers 0 to 5.5", "outside 0 to 1",
        "leave out the activation, Dense(1), or write df['age'] = df['age'] / 5.5",
    ),
    WrongCall(
        "negative numbers that a relu never is", fit(dfgen.Number("sign"), 1, "relu", "mse"),
        ArgumentError, "column 'sign' holds the numbers -1 to 1",
        "below 0, where the output 'last' of the model, which ends in relu, never is",
        "leave out the activation, Dense(1)",
    ),
    WrongCall(
        "a sigmoid for one class of three", fit("kind", 3, "sigmoid", SPARSE), UserWarning,
        "ends in sigmoid, which gives 0 to 1 for each class by itself",
        "takes probabilities that sum to 1", 'activation="softmax"',
    ),
    WrongCall(
        "no activation before a loss of counts", fit("legs", 1, None, "poisson"), UserWarning,
        "gives any numbers", "takes the logarithm, of numbers above 0 alone",
        'activation="exponential"',
    ),
    WrongCall(
        "no activation before a loss by its name", fit("kind", 3, None, SPARSE), UserWarning,
        "the last layer 'last' of the model has no activation", "takes probabilities",
        'Dense(..., activation="softmax"), or '
        "loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)",
    ),
    WrongCall(
        "no activation before a binary loss by its class",
        fit("mean", 1, None, losses.BinaryCrossentropy()), UserWarning, "so that it gives logits",
        "takes probabilities",
        'activation="sigmoid"), or loss=keras.losses.BinaryCrossentropy(from_logits=True)',
    ),
]  # fmt: skip
if keras.backend.backend() != "tensorflow":  # where Keras says it, and puts it right
    CALLS.append(
        WrongCall(
            "a softmax before a loss that has one too",
            fit("kind", 3, "softmax", losses.SparseCategoricalCrossentropy(from_logits=True)),
            UserWarning,
            "gives probabilities, by softmax",
            "takes logits",
            "leave out one of the two",
        )
    )
