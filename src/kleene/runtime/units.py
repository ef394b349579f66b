"""The queries of a stream, and what of them is matched together: a unit is one plan, a pattern group, or shared counters.

Only queries that have seen the same events can be matched together: those that came in force at the same watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kleene.engine.build import build_matcher, build_shared_matcher
from kleene.engine.counting.counters import SharedCounterMatcher
from kleene.engine.shared.planner import Planner
from kleene.plan.aggregation import MatchThenAggregate
from kleene.plan.contract import Plan
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.counting.shared_counters import SharedCounters, together
from kleene.plan.multi.groups import PatternGroup, grouped
from kleene.plan.multi.search import MultiOptions
from kleene.plan.patterns import LazyPlan


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """A query of a stream with its plans."""

    name: str
    version: int
    key: str
    """Another one if anything changes that its results depend on."""
    plan: Plan
    shared: LazyPlan | None = None
    """The plan by which it may be matched together with others."""

    def schema(self, events: pa.Schema) -> pa.Schema:
        """The columns of its rows."""
        return build_matcher(self.plan, events).output_schema


@dataclass(frozen=True, slots=True)
class Unit:
    """Queries that are matched together."""

    queries: tuple[StreamQuery, ...]
    plan: Plan | PatternGroup | SharedCounters
    multi: MultiOptions

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(item.key for item in self.queries)

    @property
    def kind(self) -> str:
        """What is kept of it besides events; of the same kind, one plan can go on from another."""
        if isinstance(self.plan, MatchThenAggregate):
            return "matches"
        return "counters" if isinstance(self.plan, CounterPlan | SharedCounters) else "patterns"

    @property
    def window(self) -> int | None:
        """The window of time of its queries."""
        return self.plan.window if isinstance(self.plan, SharedCounters) else self.plan.bound.window

    def alone(self, query: StreamQuery) -> Unit:
        """One of its queries by itself."""
        return Unit((query,), query.plan, self.multi)

    def matcher(self, events: pa.Schema) -> Any:
        """A matcher for events with an Arrow schema; bad rows have been dealt with before."""
        if isinstance(self.plan, PatternGroup):
            return build_shared_matcher(self.plan, Planner(self.plan, self.multi), events, bad_rows="drop")
        if isinstance(self.plan, SharedCounters):
            return SharedCounterMatcher(self.plan, events, bad_rows="drop")
        return build_matcher(self.plan, events, bad_rows="drop")

    def labelled(self, found: Any) -> tuple[StreamQuery, pa.RecordBatch]:
        """What the matcher gives: the query, and the rows."""
        if isinstance(self.plan, PatternGroup):
            name, rows = found
            return next(item for item in self.queries if item.name == name), rows
        if isinstance(self.plan, SharedCounters):
            number, rows = found
            return self.queries[number], rows
        return self.queries[0], found


@dataclass(frozen=True, slots=True)
class QuerySet:
    """The queries of a stream whose events are spread by the same keys."""

    queries: tuple[StreamQuery, ...]
    multi: MultiOptions | None = None
    """How patterns are planned together; None if they are not."""

    def units(self, born: Mapping[str, int | None]) -> Iterator[Unit]:
        """What is matched together, given the watermark at which each query came in force."""
        cohorts: dict[int | None, list[StreamQuery]] = {}
        for item in self.queries:
            cohorts.setdefault(born[item.key], []).append(item)
        for members in cohorts.values():
            yield from self._cohort({item.name: item for item in members})

    def alone(self, query: StreamQuery) -> Unit:
        """One of the queries by itself."""
        return Unit((query,), query.plan, self.multi or MultiOptions(search="none"))

    def _cohort(self, members: dict[str, StreamQuery]) -> Iterator[Unit]:
        multi = self.multi or MultiOptions(search="none")
        if self.multi is not None:
            for group in grouped({name: item.shared for name, item in members.items() if item.shared is not None}):
                yield Unit(tuple(members.pop(name) for name in group.plans), group, multi)
        counted = [item.plan for item in members.values() if _expiring(item.plan)]
        for shared in together([plan for plan in counted if isinstance(plan, CounterPlan)]):
            if len(shared.plans) > 1:
                yield Unit(tuple(members.pop(plan.bound.query.name) for plan in shared.plans), shared, multi)
        yield from (Unit((item,), item.plan, multi) for item in members.values())


def _expiring(plan: Plan) -> bool:
    """Whether the state of a plan's counters is the events of its window, whatever it is counted with."""
    return isinstance(plan, CounterPlan) and plan.bound.window is not None and plan.options.sharing != "none"
