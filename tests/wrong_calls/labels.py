"""Columns of labels and ids whose values are not what they should be."""

import numpy as np
import pandas as pd

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from wrong_calls import WrongCall


def cycled(*values):
    """Return a call that trains on these labels, one after the other."""
    return labelled(lambda frame: [values[row % len(values)] for row in range(len(frame))])


def labelled(make, y="y", **options):
    """Return a call that trains on the labels that `make` gives of a frame."""

    def call(pets):
        frame = pets.frame[["id", "path"]].copy()
        frame["y"] = pd.Series(make(pets.frame), index=frame.index)
        return dfgen.Sequence(frame, y=y, **options)

    return call


def of_frame(make, y="kind", **options):
    """Return a call that trains on the frame that `make` gives of the pets' own."""
    return lambda pets: dfgen.Sequence(make(pets.frame), y=y, **options)


def repeated(frame):
    return pd.concat([frame, frame[frame.kind == "owl"]])


def merged(frame):
    visits = pd.DataFrame({"id": [100, 100, 101], "vet": ["Ann", "Bob", "Ann"]})
    return frame.merge(visits, how="left")


def filtered(frame):
    kinds = frame.assign(kind=frame.kind.astype("category"))
    return kinds[kinds.kind != "owl"]


def stained(frame, value):
    """Return the ids of a frame with another value in the place of the first."""
    return frame.assign(id=[value, *frame["id"].tolist()[1:]])


CALLS = [
    WrongCall(
        "missing kinds filled with an empty text", cycled("cat", "dog", ""), ManifestError,
        "holds '' as a class, in 4 rows, the first is row 2 (id 102)", "expected a name",
        "df[df['y'].str.strip() != '']",
    ),
    WrongCall(
        "a blank for a kind", cycled("cat", " "), ManifestError, "holds ' ' as a class, in 6 rows",
        "expected a name", "class_names=[' ', 'cat']",
    ),
    WrongCall(
        "a category that is an empty text", labelled(lambda frame: pd.Categorical(["cat", ""] * 6)),
        ManifestError, "holds '' as a class, in 6 rows, the first is row 1 (id 101)",
        "expected a name", "cat.remove_categories([''])",
    ),
    WrongCall(
        "fillna and split make [''] of rows without a tag",
        labelled(lambda frame: pd.Series(["a,b", None, "b"] * 4).fillna("").str.split(",")),
        ManifestError, "holds '' as a class, in 4 rows, the first is row 1 (id 101)",
        "write [] where a row has no label", "if label.strip()]",
    ),
    WrongCall(
        "missing kinds made the text nan by astype(str)",
        labelled(lambda frame: pd.Series(["cat", np.nan, "dog"] * 4).astype(object).map(str)),
        UserWarning, "the class 'nan', in 4 rows, the first is row 1 (id 101)",
        "expected names of classes", "df[~df['y'].isin(['nan'])]",
    ),
    WrongCall(
        "kinds that blanks and case tell apart", cycled("Cat", "cat ", "dog"), UserWarning,
        "the classes 'Cat', 'cat '", "expected one name a class", ".str.strip().str.lower()",
    ),
    WrongCall(
        "categories that case tells apart",
        labelled(lambda frame: pd.Categorical(["Cat", "cat", "dog"] * 4)), UserWarning,
        "the classes 'Cat', 'cat'", "differ by case or blanks alone", "class_names=",
    ),
    WrongCall(
        "lists of masks as y", labelled(lambda frame: [["1.png", "2.png"]] * len(frame)),
        ArgumentError, 'y="y" holds lists of image files', "For masks write", 'dfgen.Mask("y")',
    ),
    WrongCall(
        "masks as y", labelled(lambda frame: [f"{id}.png" for id in frame["id"]]), ArgumentError,
        'y="y" names image files', "For masks write", 'dfgen.Mask("y")',
    ),
    WrongCall(
        "captions as classes",
        lambda pets: dfgen.Sequence(
            pd.concat([pets.frame, pets.frame]).assign(
                id=range(24), y=[f"a pet on day {day}" for day in range(24)]
            ),
            y="y",
        ),
        UserWarning, "24 classes in 24 rows, as 'a pet on day 0'",
        "expected several rows of each class", "dfgen.Text('y')",
    ),
    WrongCall(
        "decimal commas as classes",
        lambda pets: dfgen.Sequence(
            pd.concat([pets.frame, pets.frame]).assign(
                id=range(24), y=[f"{day},5" for day in range(24)]
            ),
            y="y",
        ),
        UserWarning, "24 classes in 24 rows, as '0,5'", "for numbers write",
        'pd.to_numeric(df[\'y\'].str.replace(",", "."))',
    ),
    WrongCall(
        "text for numbers", labelled(lambda frame: ["1.5", "2", "3"] * 4, y=dfgen.Number("y")),
        ManifestError, "holds large_string", "Number needs numbers", "pd.to_numeric(df['y'])",
    ),
    WrongCall(
        "classes that missing values have made floats",
        labelled(lambda frame: [0.0, 1.0, 2.0] * 4, label_mode="categorical"), ArgumentError,
        "holds numbers (double)", "needs classes", '.astype("int64").astype("category")',
    ),
    WrongCall(
        "whole numbers as one-hot classes",
        of_frame(lambda frame: frame, y="legs", label_mode="categorical"), ArgumentError,
        "holds numbers (int64)", "needs classes", 'df["legs"].astype("category")',
    ),
    WrongCall(
        "a target that is NaN in some rows",
        of_frame(lambda frame: frame.assign(age=frame.age.replace(1.0, np.nan)), y="age"),
        ManifestError, "has 1 missing values, the first in row 2", "row 2 is the one with id=102",
        "drop or fill them",
    ),
    WrongCall(
        "a kind that is missing in some rows", cycled("cat", None, "dog"), ManifestError,
        "has 4 rows without a class", "row 1 is the one with id=101", "df[df['y'].notna()]",
    ),
    WrongCall(
        "no list where a row has no tag", cycled(["a"], None), ManifestError,
        "has no list in 6 rows, the first is row 1", "row 1 is the one with id=101", "write []",
    ),
    WrongCall(
        "the logarithm of 0 as target",
        of_frame(lambda frame: frame.assign(age=frame.age.where(frame.age > 0, -np.inf)), y="age"),
        UserWarning, "target 'age' is -inf in row 0", "expected finite numbers",
        "df[np.isfinite(df['age'])]",
    ),
    WrongCall(
        "dates as target", labelled(lambda frame: pd.date_range("2024-01-01", periods=12)),
        ArgumentError, "holds timestamp", "make numbers of it", "(df['y'] - df['y'].min()).dt.days",
    ),
    WrongCall(
        "spans of time as target", labelled(lambda frame: pd.to_timedelta(range(12), unit="D")),
        ArgumentError, "holds duration", "make numbers of it", "df['y'].dt.days",
    ),
    WrongCall(
        "lists of numbers as target", labelled(lambda frame: [[0.5, 1.0]] * 12), ArgumentError,
        "holds list<item: double>", "for vectors of numbers",
        "dfgen.Column('y', np.array, shape=(2,))",
    ),
    WrongCall(
        "one-hot vectors of to_categorical as target",
        labelled(lambda frame: list(np.eye(3)[np.arange(12) % 3])), ArgumentError,
        "holds list<item: double>", "one-hot ones too", "dfgen.Column('y', np.array, shape=(3,))",
    ),
    WrongCall(
        "vectors of zeros and ones as lists of labels",
        labelled(lambda frame: [[0, 1, 0], [1, 0, 1]] * 6, y=dfgen.MultiLabel("y")), UserWarning,
        "the labels 0 and 1 in lists of 3", "expected the labels that a row has", "shape=(3,)",
    ),
    WrongCall(
        "tags with commas as classes", cycled("cat,dog", "cat", "dog,owl"), UserWarning,
        "the class 'cat,dog'", "expected one class a row", "dfgen.MultiLabel('y', sep=\",\")",
    ),
    WrongCall(
        "tags with bars as classes", cycled("Edema|Mass", "Mass", "Mass|Edema", "Edema"),
        UserWarning, "the class 'Edema|Mass'", "expected one class a row",
        "dfgen.MultiLabel('y', sep=\"|\")",
    ),
    WrongCall(
        "lists that a CSV file has made text", cycled("['cat', 'dog']", "['cat']", "[]"),
        ManifestError, "the text of lists, as \"['cat', 'dog']\"",
        "expected the name of a class, or lists", "df['y'].map(ast.literal_eval)",
    ),
    WrongCall(
        "arrays that a CSV file has made text", cycled("[0. 1. 0.]", "[1. 0. 0.]"), ManifestError,
        "the text of lists, as '[0. 1. 0.]'", "expected the name of a class, or lists",
        "np.fromstring",
    ),
    WrongCall(
        "lists as text, split at their commas",
        labelled(lambda frame: ["['cat', 'dog']", "['cat']"] * 6, y=dfgen.MultiLabel("y", sep=",")),
        ManifestError, "the text of lists, as \"['cat'\"", "or lists", "ast.literal_eval",
    ),
    WrongCall(
        "a text of tags without a separator",
        of_frame(lambda frame: frame, y=dfgen.MultiLabel("kind")), ManifestError,
        "holds large_string", "expected a list in each row", 'sep=","',
    ),
    WrongCall(
        "binary classes after a filter that leaves an unused category",
        of_frame(filtered, label_mode="binary"), ArgumentError,
        "has 3 categories, of which 'owl' is in no row", "needs two classes",
        "cat.remove_unused_categories()",
    ),
    WrongCall(
        "three classes as binary", of_frame(lambda frame: frame, label_mode="binary"),
        ArgumentError, "has 3: 'cat', 'dog', 'owl'", "needs two classes",
        'label_mode="int" or "categorical"',
    ),
    WrongCall(
        "one class as binary",
        of_frame(
            lambda frame: frame[frame.kind == "cat"].astype({"kind": "category"}),
            label_mode="binary",
        ),
        ArgumentError, "has 1: 'cat'", "needs two classes", "class_names=[...]",
    ),
    WrongCall(
        "a frame of one class", of_frame(lambda frame: frame[frame.kind == "cat"]), UserWarning,
        "has one class alone, 'cat'", "nothing to tell apart", "df['kind'].astype('category')",
    ),
    WrongCall(
        "a class of validation that training lacks",
        of_frame(lambda frame: frame, class_names=["cat", "dog"]), ManifestError,
        "holds 'owl' (4 in all)", "not among its class names: 'cat', 'dog'",
        "add them to class_names=",
    ),
    WrongCall(
        "a class that case tells from its name",
        labelled(lambda frame: ["Cat", "dog"] * 6, class_names=["cat", "dog"]), ManifestError,
        "holds 'Cat' (6 in all)", "not among its class names: 'cat', 'dog'",
        "give both one spelling",
    ),
    WrongCall(
        "kinds of text and numbers", cycled("cat", 1), ManifestError, "mixes int, str",
        "give it one type", ".astype(str)",
    ),
    WrongCall(
        "a column that is missing in all rows", cycled(None), ArgumentError, "holds null",
        "no feature is known", "choose another column",
    ),
    WrongCall(
        "rare rows repeated by concat", of_frame(repeated), ManifestError, "102 (rows 2, 12)",
        "An id is the name of one row", "balance=",
    ),
    WrongCall(
        "rows drawn with replacement",
        of_frame(lambda frame: frame.sample(frac=2, replace=True, random_state=0)), ManifestError,
        "ids that stand on several rows", "An id is the name of one row", "balance=",
    ),
    WrongCall(
        "rows repeated in a frame without ids",
        of_frame(lambda frame: repeated(frame).drop(columns="id")), ManifestError,
        "has no column 'id'", "Name the column that tells the rows apart", "balance=",
    ),
    WrongCall(
        "a table merged that has several rows of an id", of_frame(merged), ManifestError,
        "Rows 0 and 1 of id=100 differ in vet", "An id is the name of one row",
        "table.drop_duplicates('id')",
    ),
    WrongCall(
        "a row for each box of an image",
        of_frame(
            lambda frame: frame.drop(columns="id").merge(
                pd.DataFrame({"kind": ["cat", "cat"], "x1": [1, 2]})
            )
        ),
        ManifestError, "differ in x1", "Name the column that tells the rows apart",
        "groupby('path').agg(list)",
    ),
    WrongCall(
        "an id that is missing",
        of_frame(lambda frame: stained(frame.astype({"id": object}), None)), ManifestError,
        'column "id" of the manifest has type double', "An id is a whole number or text",
        'df["id"].notna()',
    ),
    WrongCall(
        "a text id that is missing",
        of_frame(lambda frame: stained(frame.astype({"id": str}), None)), ManifestError,
        "1 of 12 rows of the manifest have no id: row 0", "have no id", "Fill them, or drop them",
    ),
    WrongCall(
        "ids of numbers and text", of_frame(lambda frame: stained(frame, "a")), ManifestError,
        "column 'id' mixes int, str", "give it one type", "df['id'].astype(str)",
    ),
    WrongCall(
        "ids that missing values have made floats",
        of_frame(lambda frame: frame.astype({"id": float})), ManifestError, "has type double",
        "An id is a whole number or text", 'df["id"].astype("int64")',
    ),
    WrongCall(
        "tags split by another separator than theirs",
        labelled(lambda frame: ["cat;dog", "dog;owl"] * 6, y=dfgen.MultiLabel("y", sep=",")),
        UserWarning, "the class 'cat;dog', split by ','", "expected one label in each", 'sep=";"',
    ),
    WrongCall(
        "lists of tags as Category",
        labelled(lambda frame: [["cat"], ["cat", "dog"]] * 6, y=dfgen.Category("y")), ManifestError,
        "holds list<", "Category needs text, numbers or booleans", "dfgen.MultiLabel('y')",
    ),
    WrongCall(
        "tags that are lists in some rows and text in others", cycled(["cat", "dog"], "cat"),
        ManifestError, "mixes list, str", "give it one type", "else [one]",
    ),
    WrongCall(
        "a dict of class names, as flow_from_directory has it",
        of_frame(lambda frame: frame, class_names={"cat": 0, "dog": 1, "owl": 2}), ArgumentError,
        "got {'cat': 0, 'dog': 1, 'owl': 2}", "must be a list",
        "whose order gives the classes their numbers",
    ),
    WrongCall(
        "numbers as the names of classes of text",
        of_frame(lambda frame: frame, class_names=[0, 1, 2]), ManifestError, "are 0, 1, 2",
        "the column holds large_string", "give names of that type",
    ),
    WrongCall(
        "intervals of pd.cut as classes", labelled(lambda frame: pd.cut(frame.age, 3)),
        ArgumentError, "holds {'left':", "Category needs text", ".astype(str).astype('category')",
    ),
]  # fmt: skip
