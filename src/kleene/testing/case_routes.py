"""Running cases: a route answers a case, and the answer is compared with what the case expects, as multisets.

`routes` maps a name to a function Case -> Outcome; the oracle is there, engines are registered by the tests. A route reads
`case.table()`, `case.query_text` (or `case.workload` and `case.given`) and `case.options`. A KleeneError that it raises is the
outcome of the case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kleene.common.errors import KleeneError
from kleene.common.schema import schema_of_arrow
from kleene.testing import oracle
from kleene.testing.cases import Case, Expected, Labels, Row
from kleene.testing.functions import plain


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case on a route; None for parts that the route does not produce (the oracle has no plan)."""

    matches: Sequence[Labels] | None = None
    rows: Sequence[Row] | None = None
    """RETURN rows, or the rows of AGG with `at` and the group columns."""
    plan: str | None = None
    error: KleeneError | None = None
    automaton: Mapping[str, Sequence[str]] | None = None
    """The lines of the automata by stage."""
    runs: Mapping[str, Sequence[Row]] | None = None
    """The live runs after each event."""
    buffer: Mapping[str, Sequence[str]] | None = None
    """The non-empty stacks after each event."""
    planned: Mapping[str, Sequence[str]] | None = None
    """The lines of a workload's plan, by the blocks that a case expects."""


Route = Callable[[Case], Outcome]


def run(case: Case, route: Route) -> Outcome:
    """The outcome of a case; a KleeneError is an outcome, any other exception is a bug and propagates."""
    try:
        return route(case)
    except KleeneError as error:
        return Outcome(error=error)


def verify(case: Case, name: str) -> None:
    """Raises AssertionError with a report of every difference."""
    report = differences(case, run(case, routes[name]))
    if report:
        raise AssertionError("\n".join((f"{case.where}: {case.title} [{name}]", case.query_text, *report)))


def differences(case: Case, outcome: Outcome) -> list[str]:
    """How an outcome differs from what a case expects; empty if it does not."""
    expected = case.expected
    if expected.error is not None:
        return _error_differences(expected.error, outcome)
    if outcome.error is not None:
        return [f"  unexpected {type(outcome.error).__name__}: {outcome.error}"]
    report: list[str] = []
    if expected.matches is not None:
        report += _compare("match", expected.matches, None if outcome.matches is None else map(_present, outcome.matches))
    if expected.count is not None:
        found = outcome.matches if outcome.matches is not None else outcome.rows
        if found is None or len(found) != expected.count:
            report.append(f"  expected {expected.count} matches, found {'none given' if found is None else len(found)}")
    for rows in (expected.returns, expected.aggregates):
        if rows is not None:
            report += _compare("row", rows, outcome.rows)
    if expected.plan is not None and outcome.plan is not None:
        report += [f"  missing in the plan: {fragment}" for fragment in expected.plan if fragment not in outcome.plan]
    return report + _inspection_differences(expected, outcome)


def _inspection_differences(expected: Expected, outcome: Outcome) -> list[str]:
    """The differences of the automaton and its runs, if a route shows them."""
    report: list[str] = []
    shown = (("line of the automaton", expected.automaton, outcome.automaton), ("stack", expected.buffer, outcome.buffer))
    for what, wanted, found in shown:
        if wanted is not None and found is not None:
            report += _compare_lines(what, wanted[1], found[wanted[0]])
    if expected.runs is not None and outcome.runs is not None:
        event, runs = expected.runs
        names = runs[0].keys() if runs else ()
        report += _compare("run", runs, [{name: run.get(name) for name in names} for run in outcome.runs[event]])
    for block, (_, lines) in (expected.planned or {}).items():
        if outcome.planned is not None:
            report += _compare_lines(f"line of {block}", lines, outcome.planned[block])
    return report


def _compare_lines(what: str, expected: Sequence[str], found: Sequence[str]) -> list[str]:
    missing = [f"  missing {what}: {line}" for line in expected if line not in found]
    return missing + [f"  unexpected {what}: {line}" for line in found if line not in expected]


def _error_differences(expected: tuple[str, tuple[str, ...]], outcome: Outcome) -> list[str]:
    kind, fragments = expected
    if outcome.error is None:
        return [f"  expected {kind}, but the query was answered"]
    found = type(outcome.error).__name__
    report = [] if found == kind else [f"  expected {kind}, found {found}: {outcome.error}"]
    text = str(outcome.error)
    return report + [f"  missing in the error: '{part}'\n  {text}" for part in fragments if part not in text]


def _compare(what: str, expected: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]] | None) -> list[str]:
    if found is None:
        return [f"  the route gives no {what} list"]
    wanted, given = Counter(map(canonical, expected)), Counter(map(canonical, found))
    missing = [f"  missing {what}: {_show(item)}" for item in sorted((wanted - given).elements(), key=repr)]
    return missing + [f"  unexpected {what}: {_show(item)}" for item in sorted((given - wanted).elements(), key=repr)]


def _present(match: Mapping[str, Any]) -> dict[str, Any]:
    """A match without the variables of other branches, which an engine gives as NULL."""
    return {name: value for name, value in match.items() if value is not None}


def canonical(row: Mapping[str, Any]) -> tuple[tuple[str, Hashable], ...]:
    """A comparable form of a match or row: sorted by name, values as text."""
    return tuple(sorted((name, _canonical_value(value)) for name, value in row.items()))


def _canonical_value(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(_canonical_value(item) for item in value)
    value = plain(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return repr(value)
    return f"{value:.12g}"  # 3 and 3.0 are the same answer; so are sums that differ in the last bits


def _show(item: tuple[tuple[str, Hashable], ...]) -> str:
    def text(value: Hashable) -> str:
        if isinstance(value, tuple):
            return "[" + ",".join(text(part) for part in value) + "]"
        return str(value).strip("'")

    return " ".join(f"{name}={text(value)}" for name, value in item) or "(empty)"


def oracle_route(case: Case) -> Outcome:
    """The answer of the oracle."""
    from kleene.language.parser import parse
    from kleene.pattern.bind import bind

    table, options = case.table(), case.options
    schema = schema_of_arrow(
        table.schema, time=options.time, type=options.type, order_by=options.order_by, types=options.schema
    )
    bound = bind(parse(case.query_text), schema, params=dict(options.params), partition_by=options.partition_by)
    events = table.to_pylist()
    if options.bad_rows != "error":
        events = [events[place] for place in oracle.good_rows(bound, events)]
    assert options.ties in ("error", "arrival"), options.ties
    ties: Any = options.ties
    if bound.query.aggregates:
        rows = oracle.aggregates(bound, events, ties=ties)
        names = bound.query.group_by
        return Outcome(rows=[{**dict(zip(names, row.group, strict=True)), "at": row.at, **row.values} for row in rows])
    found = oracle.matches(bound, events, ties=ties)
    labels = [event["event"] for event in events]
    matches: list[Labels] = [
        {name: tuple(labels[p] for p in at) if isinstance(at, tuple) else labels[at] for name, at in match.bindings}
        for match in found
    ]
    rows_of = [oracle.returns(bound, events, match) for match in found] if bound.query.returns else None
    return Outcome(matches=matches, rows=rows_of)


routes: dict[str, Route] = {"oracle": oracle_route}
"""The registry: tests add the engines."""
