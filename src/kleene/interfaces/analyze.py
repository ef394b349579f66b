"""Alternatives compared: what each plan of a query is expected to cost on some events, and what it does cost.

The statistics of the events are measured first and every alternative is estimated from them; then each is run, the one that is
expected to be cheapest first. All give the same matches, or rows of AGG. One that is expected to take longer than `LONGEST` is
not run.

Cost: that of all alternatives together, over at most `EVENTS` events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kleene.common.errors import DataError, PlanningError, Problem
from kleene.explain.explained import Explained
from kleene.explain.plans import explain
from kleene.interfaces.options import Options

if TYPE_CHECKING:
    import pyarrow as pa

    from kleene.engine.matcher import Matcher, Metrics
    from kleene.interfaces.query import Query
    from kleene.plan.aggregation import MatchThenAggregate
    from kleene.plan.contract import Plan
    from kleene.plan.lazy.choice import Alternative
    from kleene.plan.order.statistics import Statistics
    from kleene.plan.patterns import LazyPlan

EVENTS = 100_000
"""How many events alternatives are run on, unless more are asked for."""
LONGEST = 60.0
"""The longest that an alternative may be expected to run, in seconds."""
AGGREGATED = 10.0
"""How much longer it takes to find matches and aggregate them than to find them, which is what is estimated."""
STACKS = "active instance stacks"
WARM = 4_000
"""Events that each alternative sees before its time is taken: kernels are compiled by then."""
REPEATED = 0.2
"""A run that is shorter, in seconds, is repeated: the shortest of three counts."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan is expected to cost on all events."""

    evaluations: float
    partial_matches: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a plan did; None where its mechanism counts no such thing."""

    evaluations: int | None
    partial_matches: int | None
    seconds: float
    matches: int
    """How many there are; rows, of AGG."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One way to answer the query."""

    name: str
    plan: Any
    """What forces it, as the option `plan`."""
    order: str = ""
    """The variables in order of binding, alternatives of the pattern apart."""
    estimated: Estimate | None = None
    measured: Measurement | None = None
    """None if it is not run: it is expected to take too long."""


@dataclass(frozen=True, slots=True)
class Analysis(Explained):
    """A plan, and its alternatives side by side."""

    statistics: Statistics | None
    events: int
    compared: tuple[Compared, ...]
    """The plan itself first, then the alternatives, those that are expected to be cheap first."""

    @property
    def matches(self) -> int:
        """How many matches there are, or rows of AGG."""
        measured = self.compared[0].measured
        assert measured is not None
        return measured.matches

    def __str__(self) -> str:
        return "\n".join([explain(self.plan), *self.lines()])

    def lines(self) -> list[str]:
        """The statistics and the table of alternatives, as text."""
        from kleene.explain.estimates import statistics_lines, table

        known = [] if self.statistics is None else statistics_lines(self.plan.bound, self.statistics)
        head = ["", "", "order", "evaluations", "estimated", "partial matches", "estimated", "time", "estimated"]
        rows = table(head, [self._row(item) for item in self.compared])
        what = "rows" if self.plan.bound.query.aggregates else "matches"
        return [
            *(["ST  statistics of the events"] if known else []),
            *(f"    {line}" for line in known),
            f"AN  alternatives over {self.events:,} events: {self.matches:,} {what} each",
            *(f"    {line}" for line in rows),
        ]

    def _row(self, item: Compared) -> list[str]:
        from kleene.explain.estimates import number_text, time_text

        done, guess = item.measured, item.estimated
        fastest = min(other.measured.seconds for other in self.compared if other.measured is not None)
        return [
            "*" if done is not None and done.seconds == fastest else "",
            item.name,
            item.order,
            _count(None if done is None else done.evaluations),
            "" if guess is None else number_text(guess.evaluations),
            _count(None if done is None else done.partial_matches),
            "" if guess is None else number_text(guess.partial_matches),
            "not run" if done is None else time_text(done.seconds * 1e9),
            "" if guess is None else time_text(guess.seconds * 1e9),
        ]


@dataclass(frozen=True, slots=True)
class Distributed(Explained):
    """A plan, and how a DataFrame is distributed for it."""

    distribution: str
    scan: str
    """Who reads the events, and why."""

    def __str__(self) -> str:
        return f"{explain(self.plan)}\nDI  distribution: {self.distribution}\n    events are read {self.scan}"


def distribute(query: Query, events: Any, options: Options) -> Distributed:
    """Looks at a DataFrame as a run does before it begins."""
    from kleene.runtime.spark.frame import arrow_schema

    if events.isStreaming:
        message = "a streaming DataFrame cannot be looked at before it runs"
        raise DataError(Problem(message, hint="leave analyze out, or explain it for a DataFrame of some of its events"))
    run = query.run_for(events, options)
    return Distributed(query.plan_for(arrow_schema(events), options), run.distribution, run.scan)


def analyze(query: Query, events: Any, options: Options, *, most: int = EVENTS) -> Analysis:
    """Runs a query over the first events by its own plan and by every alternative to it."""
    table = _first(query, events, options, most)
    own = Compared("as planned", options.plan)
    plan = query.plan_for(table.schema, options)
    statistics, others = _contenders(query, table, options)
    compared = [_compare(query, table, options, item) for item in (own, *others)]
    counts = {item.measured.matches for item in compared if item.measured is not None}
    assert len(counts) == 1, f"plans disagree about the number of matches: {compared}"
    return Analysis(plan, statistics, table.num_rows, tuple(compared))


def _first(query: Query, events: Any, options: Options, most: int) -> pa.Table:
    """The first events in stream order."""
    import pyarrow as pa

    from kleene.runtime.embedded import batches_of, event_stream, in_stream_order

    stream = event_stream(events)
    if isinstance(stream, pa.Table):
        return in_stream_order(stream, query.plan_for(stream.schema, options).bound.schema).slice(0, most)
    batches, rows = [], 0
    for batch in batches_of(stream, most):
        batches.append(batch.slice(0, most - rows))
        rows += batches[-1].num_rows
        if rows == most:
            break
    return pa.Table.from_batches(batches, stream.schema)


def _contenders(query: Query, table: pa.Table, options: Options) -> tuple[Statistics | None, list[Compared]]:
    """The alternatives to a plan, and the statistics that they are estimated from."""
    automaton = [Compared("automaton", {"mechanism": "nfa"})]
    lazy = _plan_or_none(query, table, options, {"mechanism": "lazy"})
    if query.logical.aggregates:
        return _aggregate_contenders(query, table, options, lazy)
    if lazy is None:
        return None, [Compared(f"automaton ({name})", {"algorithm": name}) for name in ("merging", "basic", "backtrack")]
    statistics = _statistics(lazy, table)
    if _plan_or_none(query, table, options, automaton[0].plan) is None:
        automaton = []
    return statistics, [*_lazy_contenders(lazy, statistics), *automaton]


def _aggregate_contenders(
    query: Query, table: pa.Table, options: Options, matched: MatchThenAggregate | None
) -> tuple[Statistics | None, list[Compared]]:
    """The alternatives to a plan of AGG: counters, and whatever finds the matches, as far as it can be estimated."""
    from kleene.plan.counting.counters import is_counted
    from kleene.plan.patterns import is_lazy

    counted = _plan_or_none(query, table, options, {"mechanism": "counters"})
    ways = (("two stacks", "stacks"), ("marking", "marking")) if query.logical.within is not None else (("no window", "auto"),)
    if counted is not None and is_counted(counted) and counted.compared is not None:
        ways = (("pairs", "auto"),)
    counters = [Compared(f"counters ({name})", {"mechanism": "counters", "window": value}) for name, value in ways]
    counters = [] if counted is None else counters
    if matched is None:
        return None, [*counters, Compared("matches", {"mechanism": "matches"})]
    assert is_lazy(matched.inner)
    statistics = _statistics(matched.inner, table)
    return statistics, [*counters, *_lazy_contenders(matched.inner, statistics)]


def _plan_or_none(query: Query, table: pa.Table, options: Options, choice: Any) -> Any:
    try:
        return query.plan_for(table.schema, replace(options, plan=choice))
    except PlanningError:
        return None


def _statistics(plan: LazyPlan, table: pa.Table) -> Statistics:
    from kleene.engine.passes.observe import collect_arrow

    return collect_arrow(plan.bound, plan.scanned, plan.conditions, plan.partition, table)


def _lazy_contenders(plan: LazyPlan, statistics: Statistics) -> list[Compared]:
    """The alternatives that all branches have, the cheapest first."""
    from kleene.plan.lazy.choice import alternatives

    by_branch = [{item.name: item for item in alternatives(plan, branch, statistics)} for branch in plan.branches]
    names = [name for name in by_branch[0] if all(name in found for found in by_branch)]
    contenders = []
    for name in names:
        found = [own[name] for own in by_branch]
        choice, order = _forced(plan, found)
        if choice is not None:
            contenders.append(Compared(name, choice, order, _estimate(found, statistics.span)))
    return sorted(contenders, key=lambda item: item.estimated.seconds if item.estimated else 0.0)


def _forced(plan: LazyPlan, found: Sequence[Alternative]) -> tuple[Mapping[str, Any] | None, str]:
    """What forces an alternative, and its order as text; None where branches ask for orders that contradict each other."""
    orders = [
        [branch.variables[index] for index in item.order]
        for branch, item in zip(plan.branches, found, strict=True)
        if item.order is not None
    ]
    if not orders:
        return {"mechanism": "tree" if found[0].name == "tree" else "sequence"}, ""
    text = "; ".join(", ".join(order) for order in orders)
    if found[0].name == "eager":
        return {"mechanism": "eager"}, text
    merged = _merged(orders)
    return None if merged is None else {"mechanism": "chain", "order": merged}, text


def _merged(orders: Sequence[Sequence[str]]) -> list[str] | None:
    """One order that contains all of them, if there is one.

    >>> _merged([["c", "a"], ["c", "b", "a"]]), _merged([["a", "b"], ["b", "a"]])
    (['c', 'b', 'a'], None)
    """
    sorter: TopologicalSorter[str] = TopologicalSorter({name: () for order in orders for name in order})
    for order in orders:
        for before, after in pairwise(order):
            sorter.add(after, before)
    try:
        return list(sorter.static_order())
    except CycleError:
        return None


def _estimate(found: Sequence[Alternative], span: float) -> Estimate:
    return Estimate(
        span * sum(item.evaluations for item in found),
        span * sum(item.partial_matches for item in found),
        span * sum(item.nanoseconds for item in found) / 1e9,
    )


def _compare(query: Query, table: pa.Table, options: Options, contender: Compared) -> Compared:
    """The alternative with what it did."""
    guess = contender.estimated
    longest = LONGEST / AGGREGATED if query.logical.aggregates else LONGEST
    if guess is not None and guess.seconds > longest:
        return contender
    plan = query.plan_for(table.schema, replace(options, plan=contender.plan))
    _run(plan, table.slice(0, WARM), options)
    matcher, seconds, rows = _run(plan, table, options)
    if seconds < REPEATED:
        seconds = min(seconds, *(_run(plan, table, options)[1] for _ in range(2)))
    chosen = matcher.chosen
    evaluations, partial_matches = _counted(plan, matcher.metrics, stacks=chosen == STACKS)
    matches = rows if query.logical.aggregates else matcher.metrics.matches
    measured = Measurement(evaluations, partial_matches, seconds, matches)
    return replace(contender, order=contender.order or chosen, measured=measured)


def _run(plan: Plan, table: pa.Table, options: Options) -> tuple[Matcher, float, int]:
    """The matcher after a run over the events, the seconds it took, and the rows it gave."""
    from kleene.engine.build import build_matcher
    from kleene.runtime.embedded import run_embedded

    matcher = build_matcher(plan, table.schema, bad_rows=options.bad_rows or "error")
    begin = perf_counter()
    run = run_embedded(matcher, table, plan.bound.schema)
    return matcher, perf_counter() - begin, run.matches.num_rows


def _counted(plan: Plan, work: Metrics, *, stacks: bool) -> tuple[int | None, int | None]:
    """Evaluations and partial matches. Stacks and automata count visits, stacks make no partial matches, counters neither."""
    from kleene.plan.aggregation import MatchThenAggregate
    from kleene.plan.counting.counters import is_counted

    if is_counted(plan):
        return None, None
    if isinstance(plan, MatchThenAggregate):
        return _counted(plan.inner, work, stacks=not work.evaluations)
    if stacks or plan.evaluation == "stacks":
        return work.visits, None
    return work.evaluations or work.visits, work.instances


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
