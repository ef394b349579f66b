"""What a DataFrame reads, if it is nothing but a scan of Parquet files: the files, its columns in them, and a condition.

Spark's optimized plan is asked, so views, tables of the catalog, renamed columns and stacked projections are one thing. A
condition is taken over if it compares columns of integers, text, dates or times with constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc

from kleene.pattern.text import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class NotDirectError(Exception):
    """Why a query cannot be answered from files directly, in words."""


@dataclass(frozen=True, slots=True)
class FileScan:
    """Files, and how their rows become those of a DataFrame."""

    files: tuple[str, ...]
    columns: Mapping[str, str]
    """The column of the files for each of the DataFrame that is read."""
    condition: pc.Expression | None
    """Which rows of the files there are, in terms of their columns."""
    tested: Mapping[str, pa.DataType]
    """The columns of the condition, with the types that Spark has them in."""


COMPARED = {
    "EqualTo": lambda left, right: left == right,
    "LessThan": lambda left, right: left < right,
    "LessThanOrEqual": lambda left, right: left <= right,
    "GreaterThan": lambda left, right: left > right,
    "GreaterThanOrEqual": lambda left, right: left >= right,
}
MIRRORED = {
    "EqualTo": "EqualTo",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}

CONSTANTS: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""The types that Spark and Arrow compare alike: not floats, of which NaN is."""


def file_scan(frame: DataFrame, columns: Sequence[str]) -> FileScan:
    """What a DataFrame reads for some of its columns; NotDirectError if that is more than a scan of Parquet files."""
    frame = frame.select(*(quoted(name) for name in columns))  # its own plan: what the caller's is made of stays open
    jvm_frame: Any = getattr(frame, "_jdf", None)
    if jvm_frame is None:
        raise NotDirectError("Spark Connect does not tell what a DataFrame reads")
    node = jvm_frame.queryExecution().optimizedPlan()
    names = {_id(item): str(item.name()) for item in _items(node.output())}
    wanted = dict(zip(names, columns, strict=True)) if len(names) == len(columns) else {}
    if not wanted:
        raise NotDirectError("a column is selected twice")
    sources = {number: number for number in wanted}  # the column of the current node that each is
    conditions: list[Any] = []
    while (kind := _kind(node)) != "LogicalRelation":
        if kind == "Project":
            sources = _below(sources, node)
            conditions = _renamed(conditions, node)
        elif kind == "Filter":
            conditions.append(node.condition())
        else:
            raise NotDirectError(f"the DataFrame is not a plain scan of files ({kind})")
        node = node.child()
    relation = node.relation()
    if _kind(relation) != "HadoopFsRelation" or _kind(relation.fileFormat()) != "ParquetFileFormat":
        raise NotDirectError("the DataFrame is not read from Parquet files")
    by_number = str(frame.sparkSession.conf.get("spark.sql.parquet.fieldId.read.enabled", "false")) == "true"
    if by_number and '"parquet.field.id"' in str(relation.dataSchema().json()):
        raise NotDirectError("columns are found by their numbers")
    own = {_id(item): item for item in _items(node.output())}
    known = {number: str(item.name()) for number, item in own.items()}
    partitioned = set(relation.partitionSchema().fieldNames())
    read = {wanted[number]: known[source] for number, source in sources.items()}
    found = [_condition(item, known) for item in conditions]
    names_tested = {name for _, names_of in found for name in names_of}
    tested = {
        known[number]: CONSTANTS[str(item.dataType().simpleString())]
        for number, item in own.items()
        if known[number] in names_tested
    }
    if partitioned & {*read.values(), *tested}:
        raise NotDirectError("a column is part of the paths of the files")
    condition: pc.Expression | None = None
    for part, _ in found:
        condition = part if condition is None else condition & part
    files = list(relation.inputFiles())  # those of the DataFrame have each file once, though it may be read twice
    return FileScan(tuple(map(_path, files)), read, condition, tested)


def _path(uri: str) -> str:
    parsed = urlparse(uri)
    if parsed.scheme != "file":
        raise NotDirectError(f"files of '{parsed.scheme}' are read by Spark")
    return unquote(parsed.path)


def _kind(item: Any) -> str:
    return str(item.getClass().getSimpleName()).removesuffix("$")


def _items(sequence: Any) -> list[Any]:
    """The elements of a Scala Seq."""
    return [sequence.apply(place) for place in range(sequence.size())]


def _id(attribute: Any) -> int:
    return int(attribute.exprId().id())


def _below(sources: Mapping[int, int], project: Any) -> dict[int, int]:
    """The columns below a projection that columns above it are."""
    own = {_id(item): _source(item) for item in _items(project.projectList())}
    found = {}
    for number, above in sources.items():
        source = own[above]
        if source is None:
            raise NotDirectError("a column is computed")
        found[number] = source
    return found


def _source(item: Any) -> int | None:
    """The column that an item of a projection is; None if it is computed."""
    if _kind(item) == "Alias":
        item = item.child()
    return _id(item) if _kind(item) == "AttributeReference" else None


def _renamed(conditions: list[Any], project: Any) -> list[Any]:
    if conditions and any(_kind(item) == "Alias" for item in _items(project.projectList())):
        raise NotDirectError("a condition reads columns that are renamed below it")
    return conditions


def _condition(node: Any, known: Mapping[int, str]) -> tuple[pc.Expression, frozenset[str]]:
    """A condition of Spark's in Arrow, and the columns it reads."""
    kind = _kind(node)
    if kind in ("And", "Or"):
        (left, read), (right, also) = (_condition(item, known) for item in (node.left(), node.right()))
        return (left & right if kind == "And" else left | right), read | also
    if kind in ("IsNotNull", "IsNull"):
        name = _column(node.child(), known)
        field = pc.field(name)
        return (field.is_valid() if kind == "IsNotNull" else field.is_null()), frozenset([name])
    if kind == "In":
        name = _column(node.value(), known)
        values = [_constant(item) for item in _items(node.list())]
        found = pc.field(name) == values[0]
        for value in values[1:]:
            found = found | (pc.field(name) == value)
        return found, frozenset([name])
    if kind == "InSet":
        raise NotDirectError("a condition has a long list")
    if kind in COMPARED:
        left, right = node.left(), node.right()
        if _kind(left) == "Literal":
            left, right, kind = right, left, MIRRORED[kind]
        name = _column(left, known)
        if str(left.dataType().simpleString()) != str(right.dataType().simpleString()):
            raise NotDirectError("a condition compares different types")
        return COMPARED[kind](pc.field(name), _constant(right)), frozenset([name])
    raise NotDirectError(f"a condition is more than comparisons with constants ({kind})")


def _column(node: Any, known: Mapping[int, str]) -> str:
    if _kind(node) != "AttributeReference" or str(node.dataType().simpleString()) not in CONSTANTS:
        raise NotDirectError(f"a condition is more than comparisons of columns with constants ({_kind(node)})")
    return known[_id(node)]


def _constant(node: Any) -> pa.Scalar:
    kind = str(node.dataType().simpleString())
    if _kind(node) != "Literal" or kind not in CONSTANTS or node.value() is None:
        raise NotDirectError("a condition is more than comparisons of columns with constants")
    value = str(node.value()) if kind == "string" else node.value()
    if kind in ("timestamp", "timestamp_ntz"):
        return pa.scalar(int(value), pa.int64()).cast(CONSTANTS[kind])
    if kind == "date":
        return pa.scalar(int(value), pa.int32()).cast(pa.date32())
    return pa.scalar(value, CONSTANTS[kind])
