"""Queries in Spark SQL: `SELECT * FROM kleene_match(TABLE(readings), 'PATTERN ...', time => 'ts', type => 'type')`.

The arguments of a call are constants, known when Spark analyses the statement. There the query is parsed, bound to the columns
of the table and planned; what is wrong is in the text of Spark's `AnalysisException`. How the plan runs is in
`kleene.runtime.spark.sql`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, KleeneError, Problem, nearest
from kleene.interfaces.functions import functions_of
from kleene.interfaces.options import ARGUMENTS, options_of
from kleene.interfaces.query import query
from kleene.pattern.registered import Function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.udtf import AnalyzeArgument

    from kleene.runtime.spark.sql import Analyzed

PLACES = ("events", "query")
"""The arguments that are known by their place."""
CALL = "kleene_match(TABLE(events), 'PATTERN ...', time => 'ts', type => 'type')"
BAD_ROWS = ("error", "drop")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value))


KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "text": (_is_text, "a text"),
    "texts": (lambda value: _is_text(value) or _are_texts(value), "a text or an array of texts"),
    "types": (
        lambda value: _is_named(value) and all(map(_are_texts, value.values())),
        "a struct or a map of arrays of attributes by type",
    ),
    "values": (_is_named, "a struct or a map of values by name"),
    "plan": (lambda value: _is_text(value) or _is_named(value), "a text, or a struct or a map of choices"),
    "limits": (_is_named, "a struct or a map of limits"),
    "number": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
}
"""What the values of arguments are, by the kind that the record of options names."""


def register(
    spark: SparkSession,
    name: str = "kleene_match",
    *,
    functions: Mapping[str, Callable[..., Any]] | Iterable[Function] | None = None,
) -> None:
    """Registers a table function with which SQL statements of a session, classic or Connect, match queries.

    Its arguments are a TABLE, the text of a query, and by name the options of `Query.match` that make sense in SQL; `functions`
    are Python functions that queries may call, see `kleene.query`. The function is there until the session ends.
    """
    from kleene.runtime.spark.sql import MatchedBucket, register_table_function

    analyze = staticmethod(partial(_analyze, tuple(functions_of(functions))))
    register_table_function(spark, name, type("KleeneMatch", (MatchedBucket,), {"analyze": analyze}))


def _analyze(functions: tuple[Function, ...], /, *places: AnalyzeArgument, **named: AnalyzeArgument) -> Analyzed:
    """What Spark asks of a call: the schema of its matches, and how rows must come; or what is wrong with it."""
    from kleene.runtime.spark.schemas import to_arrow
    from kleene.runtime.spark.sql import analyzed

    try:
        given = _arguments(places, named)
        columns = to_arrow(given.pop("events").dataType)
        parsed = query(given.pop("query"), functions=functions)
        options = options_of(given)
        plan = parsed.plan_for(columns, options)
        return analyzed(plan, columns, bad_rows=options.bad_rows or "error", buckets=options.buckets)
    except KleeneError as error:
        raise error.with_traceback(None) from None  # what is wrong is in the statement: there is nothing to trace


def _arguments(places: tuple[AnalyzeArgument, ...], named: Mapping[str, AnalyzeArgument]) -> dict[str, Any]:
    """The arguments of a call by name, as Python values, after checking all of them; `events` stays what it is."""
    problems: list[Problem] = []
    if len(places) > len(PLACES):
        hint = f"the others have names: {CALL}"
        problems.append(Problem(f"{len(places)} arguments without a name, of which there are {len(PLACES)}", hint=hint))
    found = dict(zip(PLACES, places, strict=False))
    for name, argument in named.items():
        if name not in (*PLACES, *ARGUMENTS):
            problems.append(Problem(f"unknown argument '{name}'", hint=nearest(name, (*PLACES, *ARGUMENTS))))
        elif name in found:
            problems.append(Problem(f"argument '{name}' is given twice", hint=f"write {CALL}"))
        else:
            found[name] = argument
    if "events" not in found or not found["events"].isTable:
        problems.append(Problem("the events are no TABLE argument", hint=f"write {CALL}"))
    given: dict[str, Any] = {name: found[name] for name in ("events",) if name in found}
    for name, argument in found.items():
        if name == "events":
            continue
        if argument.isTable or not argument.isConstantExpression:
            hint = "write its value, or a parameter of the statement: it must be known before the statement runs"
            problems.append(Problem(f"argument '{name}' is not a constant", hint=hint))
        elif argument.value is not None:
            given[name] = _plain(argument.value, argument.dataType)
    problems += _value_problems(given, found)
    if problems:
        raise BindingError(problems)
    return given


def _value_problems(given: Mapping[str, Any], found: Mapping[str, Any]) -> Iterable[Problem]:
    if "query" not in found or (found["query"].isConstantExpression and not isinstance(given.get("query"), str)):
        yield Problem("the query is missing: it is a text", hint=f"write {CALL}")
    if "time" not in found:
        yield Problem("the argument 'time' is missing", hint="name the column of timestamps: time => 'ts'")
    if "bad_rows" in given and given["bad_rows"] not in BAD_ROWS:
        message = f"bad_rows cannot be {given['bad_rows']!r} in SQL: a table function has one result"
        yield Problem(message, hint="choose 'error' or 'drop', or use Query.run, which sets bad rows aside")
    for name, argument in ARGUMENTS.items():
        is_such, what = KINDS[argument.kind]
        if name in given and not is_such(given[name]):
            yield Problem(f"argument '{name}' is {what}, not {given[name]!r}", hint=f"write {name} => {argument.example}")


def _plain(value: Any, kind: Any) -> Any:
    """A constant of SQL as the Python value that an option takes: a struct is a mapping, a decimal a float, a time in UTC."""
    name = type(kind).__name__
    if value is None:
        return None
    if name == "StructType":
        return {item.name: _plain(part, item.dataType) for item, part in zip(kind.fields, value, strict=True)}
    if name == "MapType":
        return {_plain(key, kind.keyType): _plain(part, kind.valueType) for key, part in value.items()}
    if name == "ArrayType":
        return [_plain(item, kind.elementType) for item in value]
    if name == "TimestampType" and value.tzinfo is None:
        return value.astimezone(dt.UTC)  # pyspark gives moments as local times
    return float(value) if isinstance(value, Decimal) else value
