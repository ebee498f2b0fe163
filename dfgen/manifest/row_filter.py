"""Which rows and columns of a manifest are read: `where=` and `columns=` of `read_manifest`.

A text is read as Python would read it over one row, by its syntax tree, of which nothing is run:
a row without a value is not equal to any, `None` alone is, and `not` turns each answer round. So a
condition and its opposite together give all rows, as with pandas, and other than with SQL.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from dfgen.errors import ArgumentError, ManifestError, brief, column_list, did_you_mean, reason
from dfgen.explain.missing import not_a_column
from dfgen.manifest.path_roots import joined
from dfgen.manifest.schema import Label, with_column
from dfgen.table.arrow_types import is_text, value_type

_COMPARES: Mapping[type[ast.cmpop], tuple[Callable[..., Any], type[ast.cmpop]]] = {
    ast.Eq: (operator.eq, ast.NotEq),
    ast.NotEq: (operator.ne, ast.Eq),
    ast.Lt: (operator.lt, ast.GtE),
    ast.GtE: (operator.ge, ast.Lt),
    ast.Gt: (operator.gt, ast.LtE),
    ast.LtE: (operator.le, ast.Gt),
}
"""A comparison -> what computes it, and its opposite."""
_SYNTAX = (
    "such as \"split == 'train' and width > 200\": columns (`with blanks` in backticks), numbers "
    "and texts, ==, !=, <, <=, >, >=, in [...], not in, is None, is not None, and, or, not. "
    "More do expressions of pyarrow.compute"
)
_SCANNED = 1 << 17  # rows that are decoded at a time, of two such pieces
_BACKTICKS = re.compile(r"`([^`]*)`")
_STORED = "\0path"  # the name of stored paths beside absolute ones: no column has it


@dataclass(frozen=True)
class Selection:
    """Some rows and columns of a manifest.

    Args:
        columns: the names; None: all.
        where: a `pyarrow.compute.Expression`, or None: all rows.
        asks: the columns that `where` looks at.
    """

    columns: tuple[str, ...] | None = None
    where: Any = None
    asks: frozenset[str] = frozenset()

    @property
    def of_paths(self) -> bool:
        """Whether `where` looks at `path`, which is absolute to whoever filters."""
        return "path" in self.asks

    def of_file(self, file: Any, schema: pa.Schema, root: str | None) -> pa.Table:
        """Return what is chosen of an open Parquet file, with stored paths.

        `schema` is that of the rows; categories of text come as such, in half the time, unless
        `where` looks at them. `root` is where stored paths begin.
        """
        kinds = {field.name: value_type(field.type) for field in schema}
        text = [
            field.name for field in schema
            if field.type != kinds[field.name] and is_text(kinds[field.name])
            if field.name not in self.asks
        ]  # fmt: skip
        kinds |= {name: pa.dictionary(pa.int32(), kinds[name]) for name in text}
        names = list(schema.names if self.columns is None else self.columns)
        read = ds.ParquetReadOptions(dictionary_columns=text)
        found = ds.ParquetFileFormat(read_options=read).make_fragment(file).to_table(
            schema=pa.schema(kinds.items()),
            columns=[*{*names, *self.asks}] if self.of_paths else names,
            filter=None if self.of_paths else self.where,
            batch_size=_SCANNED,
            batch_readahead=1,
            fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False),
        )  # fmt: skip
        return replace(self, columns=tuple(names)).of_table(found, root) if self.of_paths else found

    def of_table(self, table: pa.Table, root: str | None) -> pa.Table:
        """Return what is chosen of rows in memory, with stored paths."""
        names = list(table.column_names if self.columns is None else self.columns)
        if self.where is None:
            return table.select(names)
        stored = table
        if self.of_paths and root is not None:
            used = with_column(stored, "path", joined(root, stored["path"]))
            table = used.append_column(_STORED, stored["path"])
        table = table.filter(self.where)
        if table.column_names != stored.column_names:
            table = with_column(table, "path", table[_STORED])
        return table.select(names)


EVERYTHING = Selection()


def selection(
    columns: Any, where: Any, schema: pa.Schema, labels: Mapping[str, Label]
) -> Selection:
    """Return what `columns=` and `where=` choose of a manifest of this schema and these labels.

    Raises:
        ArgumentError: they are not what they should be.
        ManifestError: a column is not there.
    """
    plain = pa.schema([field.with_type(value_type(field.type)) for field in schema])
    ordered = [name for name, label in labels.items() if label.get("ordered")]
    chosen = None if columns is None else _columns(columns, plain)
    if where is None:
        return Selection(chosen)
    condition = expression(where, plain, ordered) if isinstance(where, str) else where
    if not isinstance(condition, pc.Expression):
        raise ArgumentError(f"where={brief(where)} is no condition, expected a text {_SYNTAX}")
    _try(where, condition, plain)
    asks = [
        name
        for name in plain.names
        if not _answers(plain.remove(plain.names.index(name)), condition)
    ]
    return Selection(chosen, condition, frozenset(asks))


def _answers(schema: pa.Schema, condition: Any) -> bool:
    """Whether the columns of a schema are all that a condition looks at."""
    try:
        schema.empty_table().filter(condition)
    except pa.ArrowException:
        return False
    return True


def _columns(columns: Any, schema: pa.Schema) -> tuple[str, ...]:
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise ArgumentError(
            f"columns={brief(columns)} is no list of names: write columns=[{brief(columns)}]"
            if isinstance(columns, str)
            else f"columns={brief(columns)} is no list, expected names, such as "
            'columns=["id", "path", "label"]'
        )
    for name in columns:
        if name not in schema.names:
            raise ManifestError(not_a_column("columns", name, schema.names, schema.empty_table()))
    return tuple(dict.fromkeys(columns))


def _try(where: Any, condition: Any, schema: pa.Schema) -> None:
    """Refuse a condition that these columns do not answer, by asking it of no rows."""
    try:
        schema.empty_table().filter(condition)
    except (pa.ArrowException, TypeError) as error:
        told = f"{reason(error).rstrip('.')}."
        lacking = re.match(r"No match for FieldRef\.Name\((.*?)\) in ", str(error))
        if lacking:
            told = f"there is no column {lacking[1]!r}.{did_you_mean(lacking[1], schema.names)}"
        kinds = ", ".join(f"{field.name} ({field.type})" for field in schema)
        shown = repr(where) if isinstance(where, str) else where
        raise ArgumentError(
            f"where={shown} cannot be asked of this manifest: {told} Columns: {kinds}"
        ) from None


def expression(where: str, schema: pa.Schema, ordered: Sequence[str] = ()) -> Any:
    """Return the `pyarrow.compute.Expression` of a condition that is a text.

    `ordered` are the categories that pandas compares by their order.

    Example:
        >>> str(expression("1 < id <= 3", pa.schema([("id", pa.int64())])))
        '((id > 1) and (id <= 3))'
    """
    quoted: dict[str, str] = {}

    def alias(found: re.Match[str]) -> str:
        return quoted.setdefault(found[1], f"__column_{len(quoted)}__")

    text = _BACKTICKS.sub(alias, where)
    names = {alias: name for name, alias in quoted.items()}
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        single = re.search(r"(?<![=!<>])=(?!=)", text)
        advice = 'Write "==" to compare' if single else f"Expected a condition {_SYNTAX}"
        raise ArgumentError(
            f"where={where!r} cannot be read: {reason(error).rstrip('.')}. {advice}"
        ) from None
    try:
        return _Condition(where, names, schema, ordered).of(tree, turned=False)
    except RecursionError:
        raise ArgumentError(f"where={brief(where)} is nested too deep: write it shorter") from None


@dataclass(frozen=True)
class _Condition:
    """Makes expressions of a syntax tree; `names` are those in backticks, by what stands there."""

    where: str
    names: Mapping[str, str]
    schema: pa.Schema
    ordered: Sequence[str]

    def of(self, node: ast.expr, turned: bool) -> Any:
        """Return the expression of a condition; `turned`: of its opposite."""
        if isinstance(node, ast.BoolOp):
            both = isinstance(node.op, ast.And) != turned
            return self._joined(both, [self.of(value, turned) for value in node.values])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            both = isinstance(node.op, ast.BitAnd) != turned
            return self._joined(both, [self.of(one, turned) for one in (node.left, node.right)])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
            return self.of(node.operand, not turned)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            return self._joined(not turned, [self._pair(*pair, turned) for pair in pairs])
        if isinstance(node, ast.Name):
            column = self._field(node)
            return pc.coalesce(~column, pc.scalar(True)) if turned else column
        raise self._refused(node, "is no condition")

    def _joined(self, both: bool, conditions: list[Any]) -> Any:
        return reduce(operator.and_ if both else operator.or_, conditions)

    def _pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr, turned: bool) -> Any:
        if isinstance(op, ast.In | ast.NotIn):
            values = self._values(right)
            found = self._side(left).isin(values)
            return ~found if isinstance(op, ast.NotIn) != turned else found
        if self._is_none(left) or self._is_none(right):
            if not isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
                raise self._refused(right, "is compared by `is None` or `is not None`")
            empty = self._side(left if self._is_none(right) else right).is_null(nan_is_null=True)
            return ~empty if isinstance(op, ast.NotEq | ast.IsNot) != turned else empty
        if type(op) not in _COMPARES:
            raise self._refused(right, "stands behind `is`, which is for None alone: write ==")
        compute = _COMPARES[_COMPARES[type(op)][1] if turned else type(op)][0]
        answer = compute(self._side(left), self._side(right))
        if not isinstance(op, ast.Eq | ast.NotEq):
            self._refuse_ordered(left, right)
        if isinstance(op, ast.NotEq) == turned:
            return answer
        fields = [self._field(one) for one in (left, right) if isinstance(one, ast.Name)]
        return self._joined(False, [answer, *(one.is_null(nan_is_null=True) for one in fields)])

    def _refuse_ordered(self, *sides: ast.expr) -> None:
        """Refuse categories that pandas would compare by their order, and Arrow by their values."""
        for one in sides:
            if isinstance(one, ast.Name) and self.names.get(one.id, one.id) in self.ordered:
                fault = "is an ordered category, whose order < and > do not follow here"
                raise self._refused(one, f"{fault}: write in [...] with the values you want")

    def _is_none(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and node.value is None

    def _side(self, node: ast.expr) -> Any:
        return self._field(node) if isinstance(node, ast.Name) else pc.scalar(self._value(node))

    def _field(self, node: ast.Name) -> Any:
        name = self.names.get(node.id, node.id)
        if name not in self.schema.names:
            near = did_you_mean(name, self.schema.names)
            text = f" A text stands in quotes, '{name}'." if not near else ""
            raise ArgumentError(
                f"where={self.where!r} asks for {name!r}, which is no column of the manifest."
                f"{near}{text} Columns: {column_list(self.schema.names)}"
            )
        return pc.field(name)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._value(node.operand)
            if isinstance(value, int | float):
                return -value if isinstance(node.op, ast.USub) else value
        raise self._refused(node, "is neither a column nor a value")

    def _values(self, node: ast.expr) -> list[Any]:
        if not isinstance(node, ast.List | ast.Tuple | ast.Set):
            raise self._refused(node, "is no list of values, as in [...] should stand")
        return [None if self._is_none(one) else self._value(one) for one in node.elts]

    def _refused(self, node: ast.expr, fault: str) -> ArgumentError:
        part = ast.unparse(node)
        for alias, name in self.names.items():
            part = part.replace(alias, f"`{name}`")
        return ArgumentError(
            f"where={self.where!r}: {part} {fault}. Expected a condition {_SYNTAX}"
        )
