"""Queries answered from Parquet files directly: the plan of the files on the driver, and the tasks that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kleene.common.columns import time_values
from kleene.common.errors import DataError, Problem
from kleene.engine.time_slices import choice, match_slice
from kleene.pattern import predicates as p
from kleene.plan.contract import Plan
from kleene.plan.distribution.slicing import Slice, obstacle
from kleene.runtime.embedded import Batches, in_stream_order
from kleene.runtime.spark.direct.footers import File, RowGroup, file_at, row_groups
from kleene.runtime.spark.direct.scan import FileScan, NotDirectError, file_scan
from kleene.runtime.spark.direct.slices import FileSlice, file_slices
from kleene.runtime.spark.frame import Answer, arrow_schema, worker_interpreter
from kleene.runtime.spark.schemas import from_arrow
from kleene.runtime.spark.slices.tasks import merged
from kleene.runtime.spark.slices.times import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TEXT = 24
"""About how many bytes a value of text has."""


def direct_rows(plan: Plan, frame: DataFrame, *, bad_rows: str, output: pa.Schema) -> Answer:
    """The lazy rows of a plan from the files that a DataFrame reads; NotDirectError if that cannot be."""
    _require_slices(plan)
    scan = file_scan(frame, plan.columns)
    events = pa.schema([arrow_schema(frame).field(name) for name in plan.columns])
    expected = {**scan.tested, **{scan.columns[field.name]: field.type for field in events}}
    time = scan.columns[plan.bound.schema.time], plan.bound.schema.time_unit
    files, groups = row_groups(scan.files, *time, expected, _types(plan, scan, expected))
    width = sum(TEXT if pa.types.is_string(kind) else 8 for kind in events.types)
    shared = file_slices(groups, plan.reach, parallelism(frame), width)
    between = choice(plan, events, output.names)
    given = output if between is None else between.schema
    task = _Task(plan, shared.slices, files, scan, events, given, tuple(output.names), bad_rows)
    with worker_interpreter(frame):
        numbers = frame.sparkSession.range(0, len(shared.slices), 1, max(len(shared.slices), 1))
        rows = numbers.mapInArrow(task, from_arrow(given))
    return Answer(rows if between is None else merged(rows, between, from_arrow(output)), str(shared))


def _require_slices(plan: Plan) -> None:
    """That slices of time answer a plan, without jobs of their own."""
    if plan.kind == "counters":
        raise NotDirectError("counters are counted from the shuffled rows")
    if plan.window is None:
        raise NotDirectError("without a window in time a match may reach back to any event")
    if plan.bound.count_window is not None:
        raise NotDirectError("events are counted")
    if plan.waits_for_arrival:
        raise NotDirectError('ties="arrival" takes rows in the order of Spark')
    if (why := obstacle(plan)) is not None:
        raise NotDirectError(why)


def _types(plan: Plan, scan: FileScan, expected: Mapping[str, pa.DataType]) -> tuple[str, frozenset[str]] | None:
    """The column of types in the files and the types that matter; None where all rows do, or types are not text."""
    schema = plan.bound.schema
    if schema.type is None or schema.types is not None or plan.all_rows:
        return None
    column = scan.columns[schema.type]
    names = frozenset(name for event, _ in plan.scanned for name in event.types)
    return (column, names) if pa.types.is_string(expected[column]) else None


@dataclass(frozen=True, slots=True)
class _Task:
    """Reads and matches slices of time, whose numbers Spark gives."""

    plan: Plan
    slices: tuple[FileSlice, ...]
    files: tuple[File, ...]
    scan: FileScan
    events: pa.Schema
    """The columns of the events as Spark has them."""
    given: pa.Schema
    """The rows that are given, which have the `columns` wanted, and under NON-OVERLAP more."""
    columns: tuple[str, ...]
    bad_rows: str

    def __call__(self, batches: Batches) -> Batches:
        """The rows of some slices."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = self.slices[number]
                events = self._read(part.slice, part.groups)
                for rows in match_slice(self.plan, events, part.slice, columns=self.columns, bad_rows=self.bad_rows):
                    yield rows.cast(self.given)

    def _read(self, part: Slice, groups: Sequence[RowGroup]) -> pa.Table:
        """The events of a slice and its lead, in stream order."""
        pieces = [
            piece
            for number, of_file in groupby(groups, key=lambda group: group.file)
            for piece in self._pieces(self.files[number], [group.number for group in of_file], part)
            if piece.num_rows
        ]
        if not pieces:
            return self._typed(self.events.empty_table())
        return in_stream_order(pa.concat_tables(pieces).unify_dictionaries(), self.plan.bound.schema)

    def _pieces(self, file: File, groups: list[int], part: Slice) -> Iterator[pa.Table]:
        names = [self.scan.columns[name] for name in self.events.names]
        texts = [self.scan.columns[name] for name in self._coded]
        try:
            if file_at(file.path) != file:
                message, hint = f"'{file.path}' has changed since the query was planned", "match again"
                raise DataError(Problem(message, hint=hint))
            with pq.ParquetFile(file.path, read_dictionary=texts) as opened:
                for group in groups:
                    read = list(dict.fromkeys([*names, *self.scan.tested]))
                    table = opened.read_row_group(group, columns=read, use_threads=False)
                    if self.scan.condition is not None:
                        table = table.filter(self.scan.condition)
                    yield self._inside(self._typed(table.select(names).rename_columns(self.events.names)), part)
        except (OSError, pa.ArrowException) as error:
            hint = "match again where the files have changed; scan='spark' lets Spark read them"
            reason = str(error).partition("\n")[0]
            raise DataError(Problem(f"cannot read '{file.path}': {reason}", hint=hint)) from error

    @property
    def _coded(self) -> tuple[str, ...]:
        """The columns of text that are read as codes: those that no match has as they are."""
        returned = self.plan.transformation.columns
        read = {node.name for _, item in returned for node in p.walk(item) if isinstance(node, p.Attribute)}
        given = read if returned else set(self.events.names)
        return tuple(field.name for field in self.events if pa.types.is_string(field.type) and field.name not in given)

    def _typed(self, table: pa.Table) -> pa.Table:
        """The columns in the types of the events, text as codes where it is read as such."""
        codes = {name: pa.dictionary(pa.int32(), pa.string()) for name in self._coded}
        return table.cast(pa.schema([pa.field(field.name, codes.get(field.name, field.type)) for field in self.events]))

    def _inside(self, table: pa.Table, part: Slice) -> pa.Table:
        """The rows of the slice and its lead; those without a time are of the first slice."""
        schema = self.plan.bound.schema
        column = table.column(schema.time).combine_chunks()
        if column.null_count:
            timed = table.filter(column.is_valid())
            inside = self._inside(timed, part) if timed.num_rows else timed
            return pa.concat_tables([table.filter(column.is_null()), inside]) if part.number == 0 else inside
        ts = time_values(column, schema.time_unit)
        if not ts.size or (ts.min() >= part.low and ts.max() < part.until):
            return table
        return table.filter(pa.array((ts >= part.low) & (ts < part.until)))
