"""The options of a match: how events are read and a query is run, checked together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kleene.common.errors import BindingError, Problem, nearest
from kleene.pattern.durations import timedelta_of

TIES = ("error", "arrival")


BAD_ROWS = ("error", "quarantine", "drop")


OUTPUTS = ("verbose", "compressed")


ON_ERROR = ("stop", "suspend")


@dataclass(frozen=True, slots=True)
class Options:
    """How events are read and a query is run; see `Query.match`."""

    time: str
    type: str | None = None
    partition_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    ties: str = "error"
    schema: Mapping[str, frozenset[str]] | None = None
    bad_rows: str | None = None
    """None: "error"; in a stream "quarantine"."""
    params: Mapping[str, object] | None = None
    plan: Any = None
    output: str = "verbose"
    columns: tuple[str, ...] = ()
    """Of matches; none for all."""
    limits: Any = None
    stats: Any = None
    watermark: str | int | None = None
    buckets: int | None = None
    max_events: int = 50_000_000
    on_error: str | None = None
    """None: "stop"; of rules "suspend"."""
    budget: Any = None
    max_ahead: dt.timedelta | None = None


def _known_statistics(given: Any) -> Any:
    """Statistics as a user wrote them, with conditions as the language prints them."""
    if not isinstance(given, Mapping) or not isinstance(given.get("selectivities"), Mapping):
        return given
    return {**given, "selectivities": {_canonical(str(text)): value for text, value in given["selectivities"].items()}}


def make_options(
    time: str,
    type: str | None = None,
    partition_by: str | Sequence[str] = (),
    order_by: str | Sequence[str] = (),
    ties: str = "error",
    schema: Mapping[str, Sequence[str]] | None = None,
    bad_rows: str | None = None,
    params: Mapping[str, object] | None = None,
    plan: Any = None,
    output: str = "verbose",
    columns: str | Sequence[str] = (),
    limits: Any = None,
    stats: Any = None,
    watermark: str | int | None = None,
    buckets: int | None = None,
    max_events: int = 50_000_000,
    on_error: str | None = None,
    budget: Any = None,
    max_ahead: str | dt.timedelta | None = None,
) -> Options:
    """Checked options from what a user gave."""
    problems = []
    for option, value, allowed in (("ties", ties, TIES), ("bad_rows", bad_rows, BAD_ROWS), ("output", output, OUTPUTS)):
        if value not in allowed and not (option == "bad_rows" and value is None):
            problems.append(Problem(f"{option} cannot be {value!r}", hint=nearest(str(value), allowed)))
    if on_error not in (None, *ON_ERROR):
        problems.append(Problem(f"on_error cannot be {on_error!r}", hint=nearest(str(on_error), ON_ERROR)))
    for option, count in (("buckets", buckets), ("max_events", max_events)):
        if count is not None and count < 1:
            problems.append(Problem(f"{option} cannot be {count!r}", hint="it is a number of at least 1"))
    if columns and output != "verbose":
        problems.append(Problem(f"matches in {output} form have all their columns", hint="leave out the option columns"))
    ahead = None
    try:
        ahead = None if max_ahead is None else timedelta_of(max_ahead)
    except ValueError as error:
        problems.append(Problem(f"max_ahead cannot be {max_ahead!r}: {error}", hint="give a length of time: max_ahead='1 day'"))
    if problems:
        raise BindingError(problems)
    types = None if schema is None else {str(name): frozenset(attributes) for name, attributes in schema.items()}
    return Options(
        time,
        type,
        _names(partition_by),
        _names(order_by),
        ties,
        types,
        bad_rows,
        params,
        plan,
        output,
        _names(columns),
        limits,
        stats,
        watermark,
        buckets,
        max_events,
        on_error,
        budget,
        ahead,
    )


def options_of(given: Mapping[str, Any]) -> Options:
    """Checked options from keyword arguments."""
    known = list(Options.__dataclass_fields__)
    for name in given:
        if name not in known:
            raise BindingError(Problem(f"unknown option '{name}'", hint=nearest(name, known)))
    if "time" not in given:
        raise BindingError(Problem("the option 'time' is missing", hint="name the column of timestamps: time='ts'"))
    return make_options(**given)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _canonical(text: str) -> str:
    from kleene.common.errors import QuerySyntaxError
    from kleene.language.parser import parse
    from kleene.pattern.text import expression_text

    try:
        condition = parse(f"PATTERN A a WHERE {text}").where
    except QuerySyntaxError:
        return text
    return text if condition is None else expression_text(condition)
