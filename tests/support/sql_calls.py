"""Queries as SQL statements, and cases answered by them.

As a script: cases and `spark_queries`, whose names are standard input as JSON, on a Spark Connect session of its own; prints
what differs as JSON.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

import kleene
from kleene.common import errors
from kleene.interfaces.query import Query
from kleene.testing.case_routes import Route
from kleene.testing.cases import Case, Row
from support import spark_queries
from support.engine_routes import given_options, outcome
from support.spark import frame_of

VIEWS = count()


def literal(value: Any) -> str:
    """A Python value as a constant of SQL."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP'{value.isoformat(sep=' ')}'"
    if isinstance(value, dict):
        return f"named_struct({', '.join(f'{literal(name)}, {literal(item)}' for name, item in value.items())})"
    if isinstance(value, list | tuple):
        return f"array({', '.join(map(literal, value))})"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def statement(text: str, view: str, options: dict[str, Any], function: str = "kleene_match") -> str:
    """The statement that matches a query over a view; options that say nothing are left out."""
    given = {name: value for name, value in options.items() if value not in (None, (), [], {})}
    named = "".join(f", {name} => {literal(value)}" for name, value in given.items())
    return f"SELECT * FROM {function}(TABLE({view}), {literal(text)}{named})"


def view_of(session: Any, table: Any) -> str:
    """A table as a view of its own."""
    name = f"events_{next(VIEWS)}"
    frame_of(session, table).createOrReplaceTempView(name)
    return name


def in_sql(name: str, session: Any, view: str) -> list[dict[str, Any]]:
    """The matches of one of `spark_queries`."""
    text, options = spark_queries.QUERIES[name]
    return spark_queries.in_order(session.sql(statement(text, view, options)).toArrow().to_pylist())


def can_answer(case: Case) -> bool:
    """Whether a case can be answered in SQL: as on Spark, but rows of a table have no order of arrival."""
    return case.runs_on("spark") and case.options.ties == "error"


def sql_route(session: Callable[[], Any]) -> Route:
    """Spark SQL; `kleene_match` must be registered in the session."""

    def answer(query: Query, case: Case) -> list[Row]:
        options = {name: value for name, value in given_options(case).items() if name != "ties"}
        if options["bad_rows"] == "quarantine":
            options["bad_rows"] = "drop"  # where there is one result, nothing is set aside; matches are the same
        view = view_of(session(), case.table())
        try:
            found: list[Row] = session().sql(statement(str(query), view, options)).toArrow().to_pylist()
            return found
        except Exception as error:
            # An error of ours arrives as the text of Spark's own, classic or Connect.
            ours = re.search(r"kleene\.common\.errors\.(\w+): (.*)", str(error), re.DOTALL)
            if ours is None:
                raise
            raise getattr(errors, ours[1])(ours[2]) from error
        finally:
            session().catalog.dropTempView(view)

    return lambda case: outcome(case, answer)


def _registered(session: Any) -> Route:
    kleene.register(session, functions=spark_queries.FUNCTIONS)
    return sql_route(lambda: session)


def _of_statements(session: Any, table: pa.Table) -> Callable[[str], Any]:
    view = view_of(session, table)
    return lambda name: in_sql(name, session, view)


if __name__ == "__main__":
    from support.connect_run import report

    sys.exit(report(_registered, _of_statements))
