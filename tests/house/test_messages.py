"""Messages: what terminals show, how values are called, whose fault an error is."""

import errno
from pathlib import Path

import numpy as np
import pytest

from dfgen.errors import (
    ArgumentError,
    DecodeError,
    DfgenError,
    MissingFileError,
    ReadError,
    brief,
    column_list,
    count,
    did_you_mean,
    is_outside,
    legible,
    listed,
    located,
    reason,
    unreadable,
)


def test_an_error_without_words_has_none():
    assert str(DfgenError()) == ""


def test_control_characters_are_escaped_and_umlauts_kept():
    assert legible("a\x00b\u202ec\nd\te ü") == "a\\x00b\\u202ec\nd\te ü"


def test_long_text_loses_its_middle_to_fit():
    found = legible("abc" * 100, 60)
    assert found == ("abc" * 100)[:25] + " ... " + ("abc" * 100)[-25:]
    assert legible("x" * 60, 60) == "x" * 60


def test_located_error_keeps_its_kind_and_notes():
    error = DecodeError("broken")
    error.add_note("see the page")
    found = located(error, "row 1")
    assert type(found) is DecodeError and str(found) == "row 1: broken"
    assert found.__notes__ == ["see the page"]


def test_a_note_is_shown_as_messages_are():
    error = ArgumentError("x")
    error.add_note("\x1b" + "n" * 5_000)
    assert error.__notes__[0].startswith("\\x1bnnn") and 3_900 < len(error.__notes__[0]) <= 4_000


@pytest.mark.parametrize(
    ("error", "outside"),
    [
        (OSError(errno.EIO, "x"), True), (OSError(errno.EACCES, "x"), False),
        (ConnectionResetError(), True), (TimeoutError(), True), (MemoryError(), True),
        (ReadError("x"), True), (DecodeError("out of memory"), False), (ValueError("x"), False),
        (RuntimeError("Insufficient memory (case 4)"), True),
    ],
)  # fmt: skip
def test_errors_outside_the_file_are_recognized(error, outside):
    assert is_outside(error) is outside


def test_read_error_is_named_by_number_or_type():
    assert isinstance(unreadable(FileNotFoundError()), MissingFileError)
    found = unreadable(OSError(errno.EIO, "Input/output error"))
    assert str(found) == "the file cannot be read: Input/output error (EIO)"
    assert str(unreadable(TimeoutError("late"))) == "the file cannot be read: late (TimeoutError)"
    assert type(unreadable(ValueError("NUL"))) is DecodeError


def test_foreign_error_messages_fit_on_one_line():
    assert reason(ValueError("a\n  b")) == "a b"
    assert reason(ValueError()) == "ValueError"
    assert reason(KeyError("x")) == "there is no 'x'"


@pytest.mark.parametrize(
    ("value", "called"),
    [
        (str, "the class str"), (Path, "the class pathlib.Path"), (len, "the function len"),
        ("text", "'text'"), (3, "3"), (np.arange(2), "array([0, 1])"),
        (np.zeros((2, 3)), "a numpy.ndarray of shape (2, 3)"),
        (np.zeros(100), "a numpy.ndarray of shape (100,)"), ([0] * 1000, "a list of 1,000"),
        (object(), "an object"),
    ],
)  # fmt: skip
def test_value_is_shown_as_written_or_by_type(value, called):
    assert brief(value) == called


def test_only_near_words_are_suggested():
    assert did_you_mean(" Labels", ["id", "label"]) == ' Did you mean "label"?'
    assert did_you_mean("breed", ["id", "label"]) == ""
    assert did_you_mean("abcdxxx", ["abcdyyy"]) == ""  # 4 of 7 letters
    assert did_you_mean("ax", ["ay"]) == ""


def test_many_names_and_values_are_cut_and_counted():
    assert column_list("ab") == "a, b" and column_list([]) == "none"
    assert column_list(map(str, range(21))).endswith("18, 19, ... (21 in all)")
    assert listed(range(11)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (11 in all)"
    assert [count(1, "row"), count(2, "row"), count(2, "class")] == ["1 row", "2 rows", "2 classes"]
