"""What every plan says of itself, so that nobody has to ask which class it is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.policies import Output
from kleene.pattern.predicates import Expression
from kleene.plan.limits import Limits

Test = tuple[Event, tuple[Expression, ...]]
"""A test of single events: a component, and predicates on its event alone."""

Scanned = tuple[Test, ...]
"""Tests of single events, one per bit of a row's mask."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """TF: the columns of a match."""

    columns: tuple[tuple[str, Expression], ...]
    """The RETURN columns; empty for one struct per variable."""


class ScannedPlan(Protocol):
    """What taking events in needs of a plan."""

    @property
    def bound(self) -> BoundQuery:
        """The query; of several one that has all their components."""

    @property
    def scanned(self) -> Scanned:
        """What the scan tests of each event."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the plan reads, in the order of the input."""

    @property
    def all_rows(self) -> bool:
        """Whether events that no component can bind matter."""

    @property
    def limits(self) -> Limits:
        """What a pass may make, keep and report."""


class Plan(ScannedPlan, Protocol):
    """A plan of one query, or of several that are answered together."""

    @property
    def kind(self) -> str:
        """What a stream keeps of it besides events: nothing (`patterns`), matches that count (`matches`), or `counters`."""

    @property
    def evaluation(self) -> str:
        """How it is answered: an evaluation of `kleene.plan.patterns.PatternPlan`, `aggregation`, `counters`, or together with
        others (`shared`, `shared counters`).
        """

    @property
    def members(self) -> tuple[Plan, ...]:
        """The plans of single queries: itself, or those that are answered together."""

    @property
    def name(self) -> str:
        """The name of its query."""

    @property
    def partition(self) -> tuple[str, ...]:
        """Attributes that divide the events."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes by which the input may be distributed; none if one task must see all events."""

    @property
    def total_order(self) -> bool:
        """Whether two events of a partition may not tie."""

    @property
    def ties(self) -> str:
        """What is done with events that tie where they may not."""

    @property
    def waits_for_arrival(self) -> bool:
        """Whether events that tie are taken in the order of their arrival."""

    @property
    def transformation(self) -> Transformation:
        """What is returned of the events of a match."""

    @property
    def output(self) -> str:
        """The form of matches: `verbose` or `compressed`."""

    @property
    def window(self) -> int | None:
        """The window of time."""

    @property
    def reach(self) -> int:
        """Instants before a time whose events matter to what is reported from then on, where there is a window of time."""

    @property
    def postponed(self) -> bool:
        """Whether matches wait for their window to pass: the end is negated."""

    @property
    def needs_choice(self) -> bool:
        """Whether slices of time give candidates only, among which one more pass chooses: NON-OVERLAP."""

    @property
    def has_summaries(self) -> bool:
        """Whether what a slice of time needs of earlier ones can be summed up, however long it matters: counters."""

    @property
    def has_totals(self) -> bool:
        """Whether several tasks may count its partitions, and one add them up."""

    @property
    def shares_counters(self) -> bool:
        """Whether its counters may be counted together with those of other queries."""


class PlanDefaults:
    """What most plans say alike."""

    __slots__ = ()

    kind = "patterns"
    has_summaries = False
    has_totals = False
    shares_counters = False
    postponed = False

    @property
    def members(self) -> tuple[Self, ...]:
        return (self,)

    @property
    def name(self: Plan) -> str:
        return self.bound.query.name

    @property
    def window(self: Plan) -> int | None:
        return self.bound.window

    @property
    def needs_choice(self: Plan) -> bool:
        return self.bound.query.output is Output.NON_OVERLAP

    @property
    def waits_for_arrival(self: Plan) -> bool:
        return self.total_order and self.ties == "arrival"
