import pandas as pd
import pyarrow as pa
import pytest

from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.building.join import join, split_on
from dfgen.manifest.sources.path_pattern import parse_pattern

GO_ON = (
    'To go on anyway: unmatched="keep" (missing labels, rows with a problem) or "drop" '
    "(--unmatched keep|drop)"
)


def files_of(*paths, pattern=None):
    column = pa.array(paths)
    if pattern is None:
        return pa.table({"path": column})
    fields = pattern.extract(column).flatten()
    return pa.table({"path": column, **dict(zip(pattern.fields, fields, strict=True))})


def refused(error, *arguments, **options):
    with pytest.raises(error) as caught:
        join(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("on", "keys"),
    [
        ("name=key", ["1.jpg", "2.tar.jpg"]),
        ("stem=key", ["1", "2.tar"]),
        ("relpath=key", ["cat.d/1.jpg", "cat.d/2.tar.jpg"]),
    ],
)
def test_keys_made_of_the_path(on, keys):
    labels = pa.table({"key": keys[::-1], "age": [2, 1]})
    rows = join(files_of("cat.d/1.jpg", "cat.d/2.tar.jpg"), labels, on).rows
    assert rows.to_pylist() == [
        {"path": "cat.d/1.jpg", "age": 1},
        {"path": "cat.d/2.tar.jpg", "age": 2},
    ]


def test_the_column_may_have_the_fields_name_or_be_called_path():
    assert split_on("id") == ("id", "id")
    files = files_of("a/1.jpg")
    assert join(files, pa.table({"stem": [1], "x": [5]}), "stem").rows.column_names == ["path", "x"]
    labels = pa.table({"path": ["a/1.jpg"], "x": [5]})
    assert join(files, labels, "relpath=path").rows.to_pylist() == [{"path": "a/1.jpg", "x": 5}]


def test_007_is_not_7_in_text():
    pattern = parse_pattern("{id}.jpg")
    message = refused(
        ManifestError,
        files_of("007.jpg", pattern=pattern),
        pa.table({"object_id": [7], "x": [1]}),
        "id=object_id",
        pattern=pattern,
        table="labels.csv",
    )
    assert message == (
        'files and labels.csv do not match on id = "object_id".\n'
        "1 of 1 files have no row in labels.csv, 0 have one:\n"
        '  "007", nearest: "7"\n'
        "1 of 1 rows of labels.csv have no file, 0 have one:\n"
        '  "7", nearest: "007"\n'
        "Likely cause: leading zeros; 1 of these files and 1 of these rows would match: write them "
        f"on both sides, or use {{field:int}} in the pattern.\n{GO_ON}"
    )


@pytest.mark.parametrize("keys", [["007", "8"], [7, 8], [7.0, 8.0], pd.Categorical(["7", "8"])])
def test_whole_number_fields_compare_as_numbers(keys):
    pattern = parse_pattern("{id:int}.jpg")
    files = files_of("08.jpg", "7.jpg", pattern=pattern)
    rows = join(files, pa.table({"key": pa.array(keys), "x": [1, 2]}), "id=key", pattern=pattern)
    assert rows.rows["x"].to_pylist() == [2, 1]


def test_several_files_may_share_a_row_of_labels():
    pattern = parse_pattern("{patient}/{id}.jpg")
    files = files_of("p1/1.jpg", "p1/2.jpg", "p2/3.jpg", pattern=pattern)
    labels = pa.table({"patient": ["p2", "p1"], "ill": [True, False]})
    joined = join(files, labels, "patient", pattern=pattern)
    assert joined.rows["ill"].to_pylist() == [False, False, True]
    assert joined.rows["patient"].to_pylist() == ["p1", "p1", "p2"]


def test_few_rows_of_many_that_label_all_files_are_told_and_a_row_a_folder_is_not():
    pattern = parse_pattern("{year}/{id}.jpg")
    files = files_of(*(f"{2023 + n % 2}/{n}.jpg" for n in range(40)), pattern=pattern)
    photos = pa.table({"Image ID": range(2000, 3000), "kind": ["cat"] * 1000})
    options = {"pattern": pattern, "unmatched": "drop", "table": "l.csv"}
    joined = join(files, photos, "year=Image ID", **options)
    assert joined.notes == (
        "Left out 998 rows of l.csv without a file, most of 1,000: check that both belong "
        "together.",
    )
    assert joined.warnings == (
        'on="year=Image ID": 2 rows of the 1,000 of l.csv label 40 files, as "2023" 20 files: '
        '"2023/0.jpg", "2023/2.jpg", "2023/4.jpg", ... If they are not meant to share labels, '
        "join on a key that tells files apart. If they are, leave the rows without a file out of "
        "the table",
    )
    assert join(files, photos, "year=Image ID", **{**options, "unmatched": "keep"}).warnings
    for rows in ([2023, 2024], [2022, 2023, 2024]):  # labels of folders, patients, videos
        years = pa.table({"year": rows, "rain": [1.5] * len(rows)})
        assert join(files, years, "year", **options).warnings == ()
    few = files_of(*(f"{2023 + n % 2}/{n}.jpg" for n in range(20)), pattern=pattern)
    assert join(few, photos, "year=Image ID", **options).warnings == ()


CAUSES = [
    ("IMG_1.jpg", "img_1.jpg", "name", "case", "write both in the same case"),
    ("a/b.jpg", "a\\b.jpg", "relpath", "separator", "write / in the table, no backslash"),
    ("b.jpg", "b", "name", "extension",
     "join on stem where the table has none, on name where it has the same one; else cut it off "
     "in the table"),
    ("b.jpg", "b.png", "name", "extension",
     "join on stem where the table has none, on name where it has the same one; else cut it off "
     "in the table"),
    ("a/b.jpg", "b.jpg", "relpath", "directory",
     "join on relpath where the table's paths start at the folder given, on name where they have "
     "no folder; cut off what stands before"),
    ("b.jpg", " b.jpg", "name", "blanks or line ends",
     "remove them around the keys: .str.strip() in pandas"),
    ("caf\u00e9.jpg", "cafe\u0301.jpg", "name", "Unicode form",
     'write both in NFC: .str.normalize("NFC") in pandas'),
]  # fmt: skip


@pytest.mark.parametrize(("path", "key", "field", "cause", "advice"), CAUSES)
def test_the_likely_cause_is_named(path, key, field, cause, advice):
    labels = pa.table({"key": [key, "other"]})
    message = refused(ManifestError, files_of(path, "unlike"), labels, f"{field}=key")
    cured = "1 of these files and 1 of these rows would match"
    assert f"Likely cause: {cause}; {cured}: {advice}.\n" in message


def test_ten_examples_with_the_nearest_name():
    files = files_of(*(f"photo_{number:03d}.jpg" for number in range(30)))
    labels = pa.table({"key": [f"photo_{number:03d}_x" for number in range(15)]})
    message = refused(ManifestError, files, labels, "stem=key").splitlines()
    assert message[1] == "30 of 30 files have no row in the label table, 0 have one:"
    assert message[2] == '  "photo_000", nearest: "photo_000_x"'
    assert message[11] == '  "photo_009", nearest: "photo_009_x"'
    assert message[12] == "15 of 15 rows of the label table have no file, 0 have one:"
    assert message[13] == '  "photo_000_x", nearest: "photo_000"'
    assert message[-1] == GO_ON
    assert message[-2].startswith(
        'Likely cause: the suffix "_x"; 15 of these files and 15 of these'
    )
    assert len(message) == 25


def test_many_unmatched_names_are_no_obstacle():
    files = files_of(*(f"a{number}.jpg" for number in range(100_000)))
    labels = pa.table({"key": [f"b{number}" for number in range(100_000)]})
    message = refused(ManifestError, files, labels, "stem=key")
    assert message.splitlines()[2] == '  "a0"'
    assert '  "a9"' in message


def test_keep_keeps_both_sides():
    pattern = parse_pattern("{kind}/{id:int}.jpg")
    files = files_of("cat/1.jpg", "cat/2.jpg", pattern=pattern)
    labels = pa.table({"key": ["2", "3"], "age": [20, 30]})
    joined = join(files, labels, "id=key", pattern=pattern, unmatched="keep", table="l.csv")
    problem = "no file for this row of labels: key 3"
    assert joined.rows.to_pylist() == [
        {"path": "cat/1.jpg", "kind": "cat", "id": "1", "age": None, "problem": None},
        {"path": "cat/2.jpg", "kind": "cat", "id": "2", "age": 20, "problem": None},
        {"path": "3", "kind": None, "id": "3", "age": 30, "problem": problem},
    ]
    assert joined.notes == (
        "Kept 1 file without a row in l.csv: labels are missing there.",
        "Kept 1 row of l.csv without a file: the column problem says so.",
    )


def test_drop_leaves_out_both_sides_and_says_so():
    labels = pa.table({"key": ["2", "3", "4"], "age": [20, 30, 40]})
    joined = join(files_of("1.jpg", "2.jpg"), labels, "stem=key", unmatched="drop", table="l.csv")
    assert joined.rows.to_pylist() == [{"path": "2.jpg", "age": 20}]
    assert joined.notes == (
        "Left out 1 file without a row in l.csv.",
        "Left out 2 rows of l.csv without a file, most of 3: check that both belong together.",
    )


def test_a_missing_join_column_is_named_with_the_nearest():
    labels = pa.table({"object": [1], "kind": ["cat"]})
    assert refused(ManifestError, files_of("1.jpg"), labels, "stem=objct", table="l.csv") == (
        'l.csv has no column "objct" to join on. Columns: object, kind. Did you mean "object"? '
        "Write on=FIELD=COLUMN (--on FIELD=COLUMN)"
    )
    labels = pa.table({"object;kind": ["1;cat"]})
    assert refused(ManifestError, files_of("1.jpg"), labels, "stem=object", table="l.csv") == (
        'l.csv has no column "object" to join on. Columns: object;kind. It has one column only: '
        'its values are separated by ";". Save it with what its extension says, or in Python, '
        'labels=pandas.read_csv(PATH, sep=";")'
    )


def test_duplicate_and_missing_keys_of_the_table_are_named():
    drop = {"table": "l.csv", "unmatched": "drop"}  # which no key that lacks a file stops
    labels = pa.table({"key": ["a", "b", "a", "c", "b", "a"]})
    assert refused(ManifestError, files_of("a.jpg"), labels, "stem=key", **drop) == (
        '2 keys in several rows of l.csv, column "key": "a" (rows 0, 2, 5: alike); "b" (rows '
        "1, 4: alike). Rows are counted from 0 below the header. A file can have the labels of one "
        'row only: drop the repeated ones: labels.drop_duplicates("key")'
    )
    labels = pa.table({"key": ["a", "b", "a"], "kind": ["cat"] * 3, "age": [1, 2, 3]})
    assert refused(ManifestError, files_of("a.jpg"), labels, "stem=key", **drop) == (
        '1 key in several rows of l.csv, column "key": "a" (rows 0, 2: age 1, 3). Rows are '
        "counted from 0 below the header. A file can have the labels of one row only: keep one row "
        "a key, or join on a column that tells them apart"
    )
    several = [f"{n:02}" for n in range(11)] * 2  # of which the messages shows ten
    labels = pa.table({"key": several, "age": [0] * 21 + [1]})
    message = refused(ManifestError, files_of("a.jpg"), labels, "stem=key", **drop)
    assert "(rows 9, 20: alike). Rows" in message and "drop_duplicates" not in message
    labels = pa.table({"key": ["a", None, ""]})
    assert refused(ManifestError, files_of("a.jpg"), labels, "stem=key", **drop) == (
        '"key" is missing in 2 rows of l.csv: row 1, 2, counted from 0 below the header. Fill them '
        "in, or leave these rows out of the table"
    )


def test_keys_must_be_text_or_whole_numbers():
    assert refused(ManifestError, files_of("a.jpg"), pa.table({"key": [1.5]}), "stem=key") == (
        'column "key" of the label table has type double and holds 1.5 in row 0: keys are '
        'text or whole numbers. Name the column of ids, or convert it: labels["key"].astype(str)'
    )


@pytest.mark.parametrize(("kind", "digits"), [("float64", 53), ("float32", 24)])
def test_floats_too_large_to_tell_whole_numbers_apart_are_no_keys(kind, digits):
    def labels(*keys):
        return pa.table({"key": pd.Series(keys, dtype=kind)})

    assert refused(ManifestError, files_of("a.jpg"), labels(1.0, -(2.0**digits)), "stem=key") == (
        f'column "key" of the label table has type {labels(1.0)["key"].type} and holds '
        f"{-(2**digits)} in row 1: from 2**{digits} on, floats do not hold every whole number, so "
        "one key may match several. Read the column as text: in Python, "
        'labels=pandas.read_csv(PATH, dtype={"key": str})'
    )
    largest = 2**digits - 1
    assert len(join(files_of(f"{largest}.jpg"), labels(largest), "stem=key").rows) == 1


def test_an_unknown_field_is_refused():
    pattern = parse_pattern("{id}.jpg")
    files, labels = files_of("1.jpg", pattern=pattern), pa.table({"key": ["1"]})
    assert refused(ArgumentError, files, labels, "idd=key", pattern=pattern) == (
        'on="idd" is not a key of a file. Keys: id, name, stem, relpath. Did you mean "id"? A '
        "field of the pattern, such as {id}, is one too"
    )
    assert refused(ArgumentError, files, labels, "=key", pattern=pattern) == (
        'on="=key": expected text, FIELD or FIELD=COLUMN, as in on="id=object_id"'
    )


def test_a_column_on_both_sides_is_refused():
    pattern = parse_pattern("{kind}/{id}.jpg")
    files = files_of("cat/1.jpg", pattern=pattern)
    labels = pa.table({"id": ["1"], "kind": ["cat"]})
    assert refused(ManifestError, files, labels, "id", pattern=pattern, table="l.csv") == (
        'the column "kind" is in l.csv and also comes from the files. Rename it in the table, or '
        "name the columns that you want with label= (--label)"
    )


def test_a_key_that_is_a_column_or_a_table_without_names_is_told_what_to_write():
    files = files_of("imgs/0.png", "imgs/1.png")
    assert refused(ArgumentError, files, pa.table({"key": ["0", "1"]}), "key") == (
        'on="key" is not a key of a file. Keys: name, stem, relpath. It is a column of the table: '
        'write FIELD=COLUMN, as in on="stem=key", which matches 2 of 2, one file a row'
    )
    assert refused(ManifestError, files, pa.table({"0": ["1"]}), "stem=key") == (
        'the label table has no column "key" to join on. Columns: 0. Its first line is a row, not '
        "the names of columns. Write a first line with them, or in Python, "
        "labels=pandas.read_csv(PATH, header=None, names=[...])"
    )
