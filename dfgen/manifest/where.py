"""Conditions on rows, and names of columns: `where=` and `columns=` of `read_manifest`.

`DataFrame.eval` evaluates a text for each row group, so it may only test single rows.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from dfgen.errors import ArgumentError, ManifestError, brief, did_you_mean, reason
from dfgen.explain.missing import not_a_column
from dfgen.table.any_table import to_frame
from dfgen.table.arrow_types import TEXT, are_numbers, value_type

_EXPECTED = (
    "expected a pyarrow.compute expression, or a text such as \"split == 'train' and width > 200\" "
    "with columns (`with blanks` in backticks), numbers, texts, comparisons, in [...], and, or, "
    "not, .isna(), .notna(), .isin([...]), .between(a, b), .str.startswith('a') and its like"
)
_QUOTED = re.compile(r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|`([^`]*)`""")
_CONSTANTS = {str: "text", bool: "booleans", int: "numbers", float: "numbers"}
_NODES = (
    ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.BitAnd, ast.BitOr, ast.Compare,
    ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Name, ast.Load,
    ast.Constant, ast.List, ast.Tuple, ast.Call, ast.Attribute, ast.keyword,
)  # fmt: skip


def columns_asked(columns: Any, schema: pa.Schema) -> list[str]:
    """Return the names of `columns=`, each once; None: all."""
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise ArgumentError(f'columns={brief(columns)}: expected a list of names: ["id", "path"]')
    for name in columns:
        if name not in schema.names:
            raise ManifestError(not_a_column("columns", name, schema.names, schema.empty_table()))
    return list(dict.fromkeys(columns))


@dataclass(frozen=True)
class Condition:
    """A condition on rows, the columns that it reads, and its text for `DataFrame.eval`.

    In the text `c0` is the first of the columns; "": the condition is an expression.
    """

    where: Any
    columns: tuple[str, ...]
    code: str = ""

    def mask(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """Return for each row of a table with the columns whether it meets the condition."""
        table = table.select(self.columns)
        try:
            return self._answer_of_frame(table) if self.code else self._answer_of_arrow(table)
        except Exception as error:  # pandas and Arrow raise many kinds
            shown = repr(self.where) if self.code else self.where
            kinds = ", ".join(f"{field.name} ({field.type})" for field in table.schema)
            raise ArgumentError(
                f"where={shown} cannot be evaluated: {reason(error)}. Its columns: {kinds}"
            ) from None

    def _answer_of_frame(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        frame = to_frame(table.rename_columns([f"c{n}" for n in range(table.num_columns)]))
        answer = frame.eval(self.code, engine="python")
        if not (isinstance(answer, pd.Series) and answer.dtype in ("bool", "boolean", "object")):
            raise TypeError("it is neither true nor false")
        return np.asarray(answer.astype("boolean").to_numpy(bool, na_value=False))

    def _answer_of_arrow(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        plain = pa.table(
            [column.cast(value_type(column.type)) for column in table.columns], table.column_names
        )
        answer = ds.dataset(plain).to_table(columns={"keep": self.where})["keep"]
        if not pa.types.is_boolean(answer.type):
            raise TypeError("it is neither true nor false")
        return np.asarray(answer.fill_null(False))


def condition_of(where: Any, empty: pa.Table) -> Condition | None:
    """Return the condition of `where=` on rows like those of an empty table, if there is one."""
    if where is None:
        return None
    if isinstance(where, str):
        condition = _of_text(where, empty.schema)
    elif isinstance(where, pc.Expression):
        text, names = str(where), empty.column_names
        asked = names if "FieldPath" in text else [name for name in names if name in text]
        condition = Condition(where, tuple(asked))
    else:
        raise ArgumentError(f"where={brief(where)}: {_EXPECTED}")
    condition.mask(empty)
    return condition


def _of_text(where: str, schema: pa.Schema) -> Condition:
    quoted: dict[str, str] = {}

    def alias(match: re.Match[str]) -> str:
        return match[1] or quoted.setdefault(match[2], f"quoted_{len(quoted)}_")

    try:
        tree = ast.parse(_QUOTED.sub(alias, where).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ArgumentError(
            f"where={where!r} cannot be read, {getattr(error, 'msg', error)}: {_EXPECTED}. Write "
            '"==" to compare'
        ) from None
    names = {alias: name for name, alias in quoted.items()}
    asked: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, _NODES) or not _is_row_by_row(node):
            raise ArgumentError(
                f"where={where!r} holds {ast.unparse(node) or type(node).__name__}: {_EXPECTED}"
            )
        if isinstance(node, ast.Name):
            name = names.get(node.id, node.id)
            if name not in schema.names:
                raise ArgumentError(
                    f"where={where!r}: {name!r} is not a column."
                    f"{did_you_mean(name, schema.names)} Write text in quotes. Columns: "
                    f"{', '.join(schema.names)}"
                )
            node.id = asked.setdefault(name, f"c{len(asked)}")
    kinds = {alias: _kind(schema.field(name).type) for name, alias in asked.items()}
    for node in ast.walk(tree):
        _refuse_mixed(where, node, kinds)
    return Condition(where, tuple(asked), ast.unparse(tree))


def _is_row_by_row(node: ast.AST) -> bool:
    """Whether a part of a text tests each row on its own."""
    if isinstance(node, ast.Attribute):
        of_text = isinstance(node.value, ast.Attribute) and node.value.attr == "str"
        of_column = isinstance(node.value, ast.Name) and node.attr in (
            "isna", "notna", "isin", "between", "str"
        )  # fmt: skip
        return of_column or (of_text and node.attr != "cat")
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr != "str"
    if isinstance(node, ast.Compare):
        pairs = zip(node.ops, node.comparators, strict=True)
        return all(
            isinstance(b, ast.List | ast.Tuple)
            for op, b in pairs
            if isinstance(op, ast.In | ast.NotIn)
        )
    return not isinstance(node, ast.Constant) or isinstance(node.value, str | int | float)


def _refuse_mixed(where: str, node: ast.AST, kinds: Mapping[str, str | None]) -> None:
    """Raise if a column is compared with a constant of another type: pandas answers with no."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("isin", "between"):
        sides = [node.func.value, *node.args]  # type: ignore[attr-defined]
    else:
        return
    columns = {kinds.get(side.id) for side in sides if isinstance(side, ast.Name)} - {None}
    for side in sides:
        for part in () if isinstance(side, ast.Call) else ast.walk(side):
            if isinstance(part, ast.Constant) and columns - {_CONSTANTS.get(type(part.value))}:
                raise ArgumentError(
                    f"where={where!r} compares {part.value!r} with a column of {columns.pop()}"
                )


def _kind(kind: pa.DataType) -> str | None:
    kind = value_type(kind)
    if kind in TEXT:
        return "text"
    return "numbers" if are_numbers(kind) else "booleans" if pa.types.is_boolean(kind) else None
