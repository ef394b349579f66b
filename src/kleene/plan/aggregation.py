"""AGG by matching: the plan of the query without AGG finds the matches, each then counts for as long as it is alive.

This answers what counters cannot (`kleene.plan.counting.counters`). A match counts from its last event on, until its first
event leaves the window. Negation that looks ahead (a negated end, negation under AND) is taken out of the inner plan, which
would wait for the window to pass: the earliest forbidden event ends the life of a match instead (A-Seq, Lemma 6).

Rows are made at triggers: events of a component that nothing follows, which satisfy what reads that component alone. The scan
tests for them, with bits of their own where no test of the inner plan is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import condition_of
from kleene.pattern.normalize import Branch
from kleene.pattern.policies import ReturnItem, Strategy
from kleene.pattern.predicates import Attribute, Element, variables
from kleene.plan.analysis.keys import is_divided, positive_components
from kleene.plan.contract import PlanDefaults, Scanned, Test, Transformation
from kleene.plan.limits import Limits
from kleene.plan.operators import (
    Negation,
    kleene_variables,
    partition_attributes,
    plan_columns,
    plan_negation,
    require_few_tests,
)
from kleene.plan.patterns import Alternative, MatchPlan


@dataclass(frozen=True, slots=True)
class MatchThenAggregate(PlanDefaults):
    """A plan that finds matches, and what decides how long each counts."""

    bound: BoundQuery
    """The query with AGG."""
    inner: MatchPlan
    """Finds the matches: the same query without AGG and without what looks ahead."""
    reasons: tuple[str, ...]
    """Why the aggregates are not pushed into counters."""
    ahead: tuple[Negation | None, ...]
    """Per branch the negative components that look ahead."""
    partition: tuple[str, ...]
    """The attributes that divide matches and the negative events that may end them."""
    scanned: Scanned
    """What the scan tests of each event: (component, predicates) per bit of a row's mask: the tests of the inner plan, then
    those of negative components that look ahead, then those of triggers.
    """
    ahead_bits: tuple[tuple[int, ...], ...]
    """Per branch the bits of its negative components that look ahead."""
    trigger_bits: tuple[int, ...]
    """The bits of triggers."""
    columns: tuple[str, ...]
    """The columns that the plan reads, in the order of the input."""

    kind = "matches"
    evaluation = "aggregation"
    output = "verbose"

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes by which the input may be distributed: those of GROUP BY that divide all components alike.

        Other attributes that divide the matches do not divide the aggregates: without GROUP BY a row is about all partitions,
        and one task sees them all.
        """
        negatives = [event for event in self.bound.components if event.negated]
        grouped = [name for name in self.inner.keys if name in self.bound.query.group_by]
        return tuple(name for name in grouped if all(is_divided(self.bound, event, name) for event in negatives))

    @property
    def limits(self) -> Limits:
        return self.inner.limits

    @property
    def branches(self) -> tuple[Alternative, ...]:
        return self.inner.branches

    @property
    def all_rows(self) -> bool:
        return self.inner.all_rows

    @property
    def reach(self) -> int:
        assert self.bound.window is not None
        return 2 * self.bound.window  # negation may look back a window before the matches that are alive

    @property
    def total_order(self) -> bool:
        return self.inner.total_order

    @property
    def ties(self) -> str:
        return self.inner.ties

    @property
    def transformation(self) -> Transformation:
        return self.inner.transformation

    @property
    def looks_ahead(self) -> bool:
        """Whether a match may be ended by an event that comes after it."""
        return any(negation is not None for negation in self.ahead)


def aggregate_matches(
    bound: BoundQuery, inner: MatchPlan, ahead: Sequence[Branch], reasons: tuple[str, ...]
) -> MatchThenAggregate:
    """The plan of a query with AGG over the plan `inner` of its matches; `ahead` has the negation that looks ahead."""
    contiguous = bound.query.strategy in (Strategy.PARTITION_CONTIGUITY, Strategy.STRICT_CONTIGUITY)
    partition = partition_attributes(bound, contiguous or bound.count_window is not None)
    negations = tuple(plan_negation(bound, branch, partition) for branch in ahead)
    scanned = list(inner.scanned)
    ahead_bits = []
    for negation in negations:
        components = negation.components if negation else ()
        ahead_bits.append(tuple(range(len(scanned), len(scanned) + len(components))))
        scanned += [(item.event, item.scan_predicates) for item in components]
    trigger_bits = tuple(dict.fromkeys(_bit_of(test, scanned) for test in dict.fromkeys(_triggers(bound))))
    require_few_tests(bound, len(scanned), "tests of single events, those of triggers included")
    columns = plan_columns(bound, inner.transformation)
    return MatchThenAggregate(
        bound, inner, reasons, negations, partition, tuple(scanned), tuple(ahead_bits), trigger_bits, columns
    )


def without_aggregates(bound: BoundQuery) -> BoundQuery:
    """The query that finds the matches; it returns what the aggregates read, and the time, so that no other column travels.

    GROUP BY attributes are equivalence tests of the bound query, and stay.
    """
    kleene = kleene_variables(bound)
    query = bound.query
    read = [(positive_components(bound)[0].variable, bound.schema.time)]
    read += [(item.variable, item.attribute) for item in query.aggregates if item.variable and item.attribute]
    returns = tuple(
        ReturnItem(Attribute(variable, name, Element.EACH if variable in kleene else Element.SINGLE), str(number))
        for number, (variable, name) in enumerate(dict.fromkeys(read))
    )
    plain = replace(query, aggregates=(), group_by=(), having=None, emit_on_change=False, returns=returns)
    return replace(bound, query=plain)


def looking_ahead(bound: BoundQuery) -> tuple[Branch, ...]:
    """The alternatives with only those negative components that look ahead."""
    return tuple(_negatives_of(branch, ahead=True) for branch in bound.branches)


def without_looking_ahead(bound: BoundQuery) -> BoundQuery:
    """The query without the negative components that look ahead."""
    branches = tuple(_negatives_of(branch, ahead=False) for branch in bound.branches)
    left = {item.event.variable for branch in branches for item in branch.negatives}
    gone = {event.variable for event in bound.components if event.negated} - left
    return replace(bound, branches=branches, conjuncts=tuple(item for item in bound.conjuncts if not variables(item) & gone))


def _negatives_of(branch: Branch, *, ahead: bool) -> Branch:
    """The branch with only those negative components that look ahead, or only the others."""
    return replace(branch, negatives=tuple(item for item in branch.negatives if (not item.before) is ahead))


def _triggers(bound: BoundQuery) -> Iterator[Test]:
    """The components that nothing follows, with what reads each alone; of a Kleene component, each of its elements."""
    kleene = kleene_variables(bound)
    conditions = [condition_of(conjunct, kleene) for conjunct in bound.conjuncts]
    for branch in bound.branches:
        followed = {one for one, _ in branch.order}
        for index, event in enumerate(branch.positives):
            if index not in followed:
                own = [item for item in conditions if item.variables <= {event.variable}]
                if event.is_kleene:
                    own = [item for item in own if item.reads_only(event.variable, "each")]
                yield event, tuple(item.expression for item in own)


def _bit_of(test: Test, scanned: list[Test]) -> int:
    """The bit of a test, a new one if there is none like it."""
    event, predicates = test
    for bit, (other, others) in enumerate(scanned):
        if other == event and set(others) == set(predicates):
            return bit
    scanned.append(test)
    return len(scanned) - 1
