"""The columns of rows are known from a plan, and are those of the rows that its matcher writes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import KleeneError
from kleene.engine.build import build_matcher, output_schema
from kleene.interfaces.options import options_of
from kleene.runtime.embedded import batches_of, in_stream_order, match_batches, rows_of
from kleene.testing.cases import Case, load_all
from support.engine_routes import given_options

FOLDER = Path(__file__).parents[2] / "cases"
CASES = [case for case in load_all(FOLDER) if not case.workload]


def agreeing(case: Case) -> int:
    """The batches of rows of a case, which have the columns that its plan tells; no more of a case whose answer is an error."""
    events, options = case.table(), options_of(given_options(case))
    count = 0
    with suppress(KleeneError):
        plan = kleene.query(case.query_text).plan_for(events.schema, options)
        matcher = build_matcher(plan, events.schema, bad_rows=case.options.bad_rows)
        told = output_schema(plan, events.schema)
        assert told.equals(matcher.output_schemas[0], check_metadata=True), case.where
        for rows in rows_of(match_batches(matcher, batches_of(in_stream_order(events, plan.bound.schema)))):
            assert rows.schema.equals(told, check_metadata=True), case.where
            count += 1
    return count


@pytest.mark.parametrize("folder", sorted({case.path.parent for case in CASES}), ids=lambda path: path.name)
def test_rows_have_the_columns_that_the_plan_tells(folder: Path) -> None:
    assert sum(agreeing(case) for case in CASES if case.path.parent == folder)


def test_compressed_matches_have_the_columns_that_the_plan_tells() -> None:
    events = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"], "x": [1.0, None, 2.0]})
    query = kleene.query("PATTERN SEQ(A+ a[], B b) WITHIN 9")
    plan = query.plan_for(events.schema, options_of({"time": "ts", "type": "type", "output": "compressed"}))
    rows = query.match(events, time="ts", type="type", output="compressed")
    assert output_schema(plan, events.schema) == rows.schema == build_matcher(plan, events.schema).output_schemas[0]
