"""Labels that look like a mistake are told in full; those that only look odd are left alone."""

import warnings

import numpy as np
import pandas as pd
import pytest
from cases import each

from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.errors import DfgenError, ManifestError
from dfgen.samples.features.category import Category
from dfgen.samples.features.multilabel import MultiLabel
from dfgen.samples.features.number import Number

GUESSED = "column 'y' is not categorical"


def frame(values, rows=None):
    rows = rows or len(values)
    made = pd.DataFrame({"id": range(100, 100 + rows), "n": 1.0})
    made["y"] = pd.Series([values[row % len(values)] for row in range(rows)], dtype=object)
    return made


def categories(values, names=None):
    made = frame(values)
    return made.assign(y=pd.Categorical(made["y"], names or sorted({*values})))


def told(df, y="y", x="n", **options):
    """Return what is said of a target: of its warnings all but that it is no categorical."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            bind(df, x, y, options=Options(**options))
        except DfgenError as error:
            return "\n".join([str(error), *getattr(error, "__notes__", ())])
    said = [str(one.message) for one in caught]
    return "\n".join(text for text in said if not text.startswith(GUESSED))


SILENT = {
    "letters of both cases": (categories(["a", "A", "b", "B"]), {}),
    "formulas of both cases": (categories(["CO", "Co"]), {}),
    "a class called none": (categories(["none", "crack"]), {}),
    "digits as text": (frame([str(digit) for digit in range(10)]), {}),
    "numbers as text with zeros before them": (frame(["01", "02", "10"]), {}),
    "categories of numbers as text": (categories(["1", "2", "10"]), {}),
    "an empty text that is named": (frame(["", "cat"]), {"class_names": ["", "cat"]}),
    "the text nan that is named": (frame(["nan", "cat"]), {"class_names": ["nan", "cat"]}),
    "spellings that are named": (frame(["Cat", "cat"]), {"class_names": ["Cat", "cat"]}),
    "an empty category without a row": (categories(["cat", "dog"], ["", "cat", "dog"]), {}),
    "several labels without a row": (categories(["cat"] * 2, ["cat", "cat|dog", "dog|cat"]), {}),
    "a category nan without a row": (categories(["cat", "dog"], ["cat", "dog", "nan"]), {}),
    "places": (frame(["Paris, France", "Lyon, France", "London, UK"]), {}),
    "names and Latin names": (frame(["tench, Tinca tinca", "goldfish, Carassius auratus"]), {}),
    "a tree of classes": (frame(["animal|cat", "animal|dog", "plant|rose"]), {}),
    "a plant's parts": (frame(["Pepper,_bell___healthy", "Pepper,_bell___spot", "Corn"]), {}),
    "classes in brackets": (frame(["[cat]", "[dog]"]), {}),
    "a class in brackets": (frame(["cat", "[]"]), {}),
    "a class a row": (frame([f"person {row}" for row in range(15)]), {}),
    "a category a row": (categories([f"person {row:02}" for row in range(30)]), {}),
    "tags, more than rows": (
        frame([[f"tag {row * 5 + one}" for one in range(5)] for row in range(20)]),
        {},
    ),
    "rows without tags": (frame([[], ["cat"], ["cat", "dog"]]), {}),
    "tags with commas": (frame([["cat, big"], ["dog, big", "big, cat"]]), {}),
    "labels 0 and 1": (frame([[0], [1], [0, 1], []]), {"y": MultiLabel("y")}),
    "pairs of labels 0 and 1": (frame([[0, 1], [1, 0]]), {"y": MultiLabel("y")}),
    "labels within a text": (frame(["cat, dog", ""]), {"y": MultiLabel("y", sep=",")}),
    "booleans": (frame([True, False]), {"label_mode": "binary"}),
    "booleans as text": (frame(["True", "False"]), {"label_mode": "binary"}),
    "one class of two": (categories(["cat"], ["cat", "dog"]), {"label_mode": "binary"}),
    "whole numbers of classes": (frame([3, 5]), {"y": Category("y")}),
    "one number in all rows": (frame([3.0]), {}),
    "empty text of an input": (frame(["", "cat"]), {"x": Category("y"), "y": "n"}),
    "infinite numbers of an input": (frame([1.0, np.inf]), {"x": Number("y"), "y": "n"}),
    "missing kinds that weigh nothing": (
        frame(["cat", None, "dog"]),
        {"y": Category("y", missing="ignore")},
    ),
}


@each(("df", "options"), SILENT.values())
def test_labels_that_only_look_odd_are_left_alone(df, options):
    assert told(df, **options) == ""


def test_a_text_of_no_letters_is_no_class():
    assert told(frame(["cat", "", " "])) == (
        "column 'y' holds '', ' ' as a class, in 2 rows, the first is row 1 (id 101): expected a "
        "name; drop such rows, df = df[df['y'].str.strip() != '']; if it is a class, name all: "
        "class_names=['', ' ', 'cat']"
    )
    assert told(categories(["cat", ""])) == (
        "column 'y' holds '' as a class, in 1 rows, the first is row 1 (id 101): expected a name; "
        "make them missing, df['y'] = df['y'].cat.remove_categories(['']), and drop them, "
        "df = df[df['y'].notna()]; if it is a class, name all: class_names=['', 'cat']"
    )
    assert told(frame([["a"], [""], ["b", ""]]).drop(columns="id").assign(no=range(3))) == (
        "column 'y' holds '' as a class, in 2 rows, the first is row 1: expected a name; write [] "
        "where a row has no label, df['y'] = df['y'].map(lambda labels: [label for label in labels "
        "if label.strip()]); if it is a class, name all: class_names=['', 'a', 'b']"
    )


def test_advice_for_texts_without_letters_leads_on():
    df = categories(["cat", "", "dog"])
    df["y"] = df["y"].cat.remove_categories([""])
    assert told(df[df["y"].notna()]) == ""
    df = frame([["a"], [""], ["b", ""]])
    df["y"] = df["y"].map(lambda labels: [label for label in labels if label.strip()])
    assert told(df) == ""
    with pytest.warns(UserWarning, match=GUESSED):
        assert bind(df, "n", "y").class_names == ["a", "b"]


def test_the_text_of_missing_values_is_told():
    assert told(frame(["cat", "nan", "<NA>"])) == (
        "column 'y' has the class 'nan', '<NA>', in 2 rows, the first is row 1 (id 101), as "
        "astype(str) makes it of missing values: expected names of classes; drop such rows, df = "
        "df[~df['y'].isin(['nan', '<NA>'])], or if it is a class, name all: class_names="
    )


def test_names_that_differ_by_little_are_told_once():
    assert told(frame(["Cat", "cat ", "DOG", "dog", "owl"])) == (
        "column 'y' has the classes 'Cat', 'cat ', and 1 more such, which differ by case or blanks "
        "alone: expected one name a class; if they are one, df['y'] = "
        "df['y'].str.strip().str.lower(); if not, name all: class_names="
    )


@pytest.mark.parametrize(("slip", "rows", "odd"), [
    ("ja", 1, True), ("ja ", 1, True), ("ja", 3, False), ("Ja ", 30, True),
])  # fmt: skip
def test_of_two_letters_a_rare_spelling_is_told(slip, rows, odd):
    df = frame([*["Ja"] * 40, *[slip] * rows, *["Nein"] * 41], rows=81 + rows)
    said = (
        f"column 'y' has the classes 'Ja', {slip!r}, which differ by case or blanks alone: "
        "expected one name a class; if they are one, df['y'] = df['y'].str.strip().str.lower(); "
        "if not, name all: class_names="
    )
    assert told(df) == said * odd


def test_a_class_for_nearly_every_row_is_told():
    texts = [f"a cat on day {day}" for day in range(19)]
    assert told(frame([*texts, texts[0]])) == (
        "column 'y' has 19 classes in 20 rows, as 'a cat on day 0': expected several rows of each "
        "class; for texts to read write dfgen.Text('y') in x, for an id choose another y, for such "
        "classes class_names="
    )
    assert told(frame([*texts[:18], *texts[:2]])) == ""
    assert "for numbers write df['y'] = pd.to_numeric(df['y']), for such" in (
        told(frame([f"{row}.5" for row in range(20)]))
    )


def test_sentences_are_told_however_often_they_recur():
    texts = [f"a cat sits on chair {chair}" for chair in range(21)]
    assert told(frame(texts * 5)) == (
        "column 'y' has 21 classes which look like sentences, as 'a cat sits on chair 0': expected "
        "names of classes; for texts to read write dfgen.Text('y') in x, for such classes "
        "class_names="
    )
    assert told(frame(texts[:20] * 5)) == told(categories(texts * 5)) == ""


@pytest.mark.parametrize("texts", [["950", "1,000", "12,500"], ["-1,234,567.5", "0.5"]])
def test_thousands_apart_are_told_as_numbers_however_often_they_recur(texts):
    shown = next(text for text in texts if "," in text)
    numbers = """for numbers write df['y'] = pd.to_numeric(df['y'].str.replace(",", ""))"""
    assert told(frame(texts, rows=40)) == (
        f"column 'y' has the class {shown!r}, a number with its thousands apart: expected names of "
        f"classes; {numbers}, for such classes class_names="
    )
    assert numbers in told(frame([f"{day},000" for day in range(1, 21)]))
    assert told(frame(texts), class_names=texts) == ""


def test_decimal_commas_are_told_as_such_and_are_no_thousands():
    for texts in (["0,125", "2,250"], ["1,5", "2,000"]):
        numbers = """df['y'] = pd.to_numeric(df['y'].str.replace(",", "."))"""
        assert told(frame(texts)) == (
            f"column 'y' has the class {texts[0]!r}, a number with a decimal comma: expected names "
            f"of classes; for numbers write {numbers}, for such classes class_names="
        )
    assert '.str.replace(",", "."))' in told(frame([f"{day},125" for day in range(20)]))


@pytest.mark.parametrize("column", [frame, categories])  # build_manifest makes categories
def test_several_labels_in_one_text_are_told(column):
    assert told(column(["cat,dog", "cat", "dog,owl"])) == (
        "column 'y' has the class 'cat,dog', which looks like several labels: expected one class a "
        "row; for several write y=dfgen.MultiLabel('y', sep=\",\"), else class_names="
    )


def test_texts_split_by_another_separator_than_theirs_are_told():
    df = frame(["cat;dog", "dog;owl", "cat"])
    assert told(df, MultiLabel("y", sep=",")) == (
        "column 'y' has the class 'cat;dog', split by ',', which looks like several labels: "
        "expected one label in each; write y=dfgen.MultiLabel('y', sep=\";\"), else class_names="
    )
    assert told(df, MultiLabel("y", sep=";")) == ""


def test_lists_are_no_classes():
    for y in (Category("y"), Category("y", class_names=["cat"])):
        assert told(frame([["cat"], ["cat"]]), y).replace("large_", "") == (
            "column 'y' holds list<item: string>, Category needs text, numbers or booleans: for "
            "several labels a row write dfgen.MultiLabel('y')"
        )


def test_the_text_of_lists_is_refused_and_the_advice_leads_on():
    df = frame(["['cat', 'dog']", "['cat']", "[]"])
    assert told(df) == (
        "column 'y' holds the text of lists, as \"['cat', 'dog']\", expected the name of a class, "
        "or lists: a CSV file has none. Make them again: df['y'] = df['y'].map(ast.literal_eval), "
        "or keep the table as Parquet"
    )
    assert "ast.literal_eval" in told(df, MultiLabel("y", sep=","))
    vectors = frame([str(vector) for vector in np.eye(3, dtype="float32")])
    assert told(vectors) == (
        "column 'y' holds the text of lists, as '[1. 0. 0.]', expected the name of a class, or "
        "lists: a CSV file has none. Make them again: df['y'] = df['y'].map(lambda text: "
        'np.fromstring(text.strip("[]"), sep=" ").tolist()), or keep the table as Parquet'
    )
    again = vectors["y"].map(lambda text: np.fromstring(text.strip("[]"), sep=" ").tolist())
    assert again.tolist() == np.eye(3).tolist()


def test_vectors_taken_for_lists_of_labels_are_told():
    assert told(frame([[0, 1, 0], [1, 0, 0]]), MultiLabel("y")) == (
        "column 'y' has the labels 0 and 1 in lists of 3: expected the labels that a row has, as "
        "[0, 2]; for vectors of zeros and ones write dfgen.Column('y', np.array, shape=(3,)), else "
        "class_names="
    )


def test_a_target_that_is_infinite_is_told():
    assert told(frame([1.0, -np.inf, np.inf])) == (
        "target 'y' is -inf in row 1, and infinite 2 times in all: expected finite numbers, for "
        "one makes the loss NaN; drop such rows: df = df[np.isfinite(df['y'])]"
    )
    vector = told(frame([1.0, np.inf]), Number(["n", "y"]))
    assert vector.startswith("target 'y' is inf in row 1, and infinite 1 times in all")


def test_categories_without_rows_are_told_where_two_are_asked_for():
    df = categories(["cat", "dog"], ["cat", "dog", "owl", "pig"])
    assert told(df, label_mode="binary") == (
        "label_mode=\"binary\" needs two classes, column 'y' has 4 categories, of which 'owl', "
        "'pig' is in no row: df['y'] = df['y'].cat.remove_unused_categories(), in every frame"
    )
    df["y"] = df["y"].cat.remove_unused_categories()
    assert told(df, label_mode="binary") == ""


def test_one_class_is_told_with_the_guess():
    with pytest.warns(UserWarning) as caught:
        bind(frame(["cat"]), "n", "y")
    assert [str(one.message) for one in caught] == [
        "column 'y' is not categorical, and has one class alone, 'cat', so there is nothing to "
        "tell apart. If another frame has more, before splitting write "
        "df['y'] = df['y'].astype('category')"
    ]


@pytest.mark.parametrize(
    "values", [["cat", None], [1.5, None], [["cat"], None], [["cat"], [None]]], ids=repr
)
def test_what_a_row_lacks_is_told_with_its_id(values):
    df = frame(values).rename(columns={"id": "object_id"})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", GUESSED)
        with pytest.raises(ManifestError) as error:
            bind(df, "n", "y", id="object_id")
    assert error.value.__notes__ == ["row 1 is the one with object_id=101"]


def test_rows_that_repeat_are_told_by_what_differs_in_them():
    df = categories(["cat", "dog"])
    message = "the manifest has ids that stand on several rows (1): 101 (rows 1, 2). An id is the "
    message += 'name of one row. Find them with df[df["id"].duplicated(keep=False)]. Rows 1 and 2 '
    assert told(pd.concat([df, df[1:]])) == message + (
        "of id=101 are the same: to have rows several times in an epoch, leave them once and give "
        "balance=, a column of classes or of weights; else df = df.drop_duplicates()"
    )
    assert told(pd.concat([df, df[1:].assign(y="cat")])) == message + (
        "of id=101 differ in y: was a table merged that has several rows of an id? Drop those "
        "first: table.drop_duplicates('id'), or gather its rows: groupby('id').agg(list)"
    )
