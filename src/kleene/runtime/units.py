"""What is matched together of queries that read the same events: a unit is one plan, a pattern group, or shared counters.

Every runtime matches units: one by one in this process, side by side in a task of Spark, watermark by watermark in a stream.
A single query is a unit of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from kleene.engine.build import build_matcher, output_schema
from kleene.engine.matcher import Matcher
from kleene.plan.contract import Plan
from kleene.plan.counting.shared_counters import together
from kleene.plan.multi.groups import grouped
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import MultiOptions
from kleene.plan.patterns import LazyPlan


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query with its plans."""

    name: str
    plan: Plan
    shared: LazyPlan | None = None
    """The plan by which it may be matched together with others."""
    version: int = 1
    key: str = ""
    """In a stream, another one if anything changes that its results depend on."""

    def schema(self, events: pa.Schema) -> pa.Schema:
        """The columns of its rows."""
        return output_schema(self.plan, events)

    @property
    def alone(self) -> Unit:
        """The query matched by itself."""
        return Unit((self,), self.plan)


@dataclass(frozen=True, slots=True)
class Unit:
    """Queries that are matched together; matchers know them by their places here."""

    queries: tuple[PlannedQuery, ...]
    plan: Plan
    multi: MultiOptions | None = None
    """How patterns are planned together."""
    shared: SharedPlan | None = None
    """The plan of a pattern group to begin with, if one was made before."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its queries."""
        return tuple(item.name for item in self.queries)

    @property
    def keys(self) -> frozenset[str]:
        """The keys of its queries."""
        return frozenset(item.key for item in self.queries)

    def matcher(self, events: pa.Schema, *, bad_rows: str = "drop") -> Matcher:
        """A matcher for events with an Arrow schema."""
        return build_matcher(self.plan, events, bad_rows=bad_rows, multi=self.multi, shared=self.shared)


@dataclass(frozen=True, slots=True)
class QuerySet:
    """Queries that read the same events; in a stream, those whose events are spread by the same keys."""

    queries: tuple[PlannedQuery, ...]
    multi: MultiOptions | None = None
    """How patterns are planned together; None if they are not."""

    def units(self, born: Mapping[str, int | None] | None = None) -> Iterator[Unit]:
        """What is matched together; in a stream, given the watermark at which each query started.

        Only queries that have seen the same events can be matched together, and counters without a window only where no query
        comes or goes: their state is not the events of a window.
        """
        cohorts: dict[int | None, dict[str, PlannedQuery]] = {}
        for item in self.queries:
            cohorts.setdefault(None if born is None else born[item.key], {})[item.name] = item
        for members in cohorts.values():
            yield from self._cohort(members, lasting=born is None)

    def _cohort(self, members: dict[str, PlannedQuery], *, lasting: bool) -> Iterator[Unit]:
        if self.multi is not None:
            for group in grouped({name: item.shared for name, item in members.items() if item.shared is not None}):
                yield Unit(tuple(members.pop(name) for name in group.plans), group, self.multi)
        plans = [item.plan for item in members.values() if item.plan.shares_counters]
        for shared in together([plan for plan in plans if lasting or plan.window is not None]):
            if len(shared.plans) > 1:
                yield Unit(tuple(members.pop(plan.name) for plan in shared.plans), shared)
        yield from (item.alone for item in members.values())
