"""Queries of a workload that are answered in one pass: the same partitions, the same clock, each different test once.

A group is what one shared plan is made for (`kleene.plan.multi`). Queries that cannot be in one (other strategies than
skip_till_any_match, aggregates, NON-OVERLAP, tests that do not divide the stream) are answered by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.operators import Sequence as SequencePattern
from kleene.pattern.policies import Output
from kleene.pattern.predicates import Expression
from kleene.plan.analysis.keys import always_has, key_attributes
from kleene.plan.contract import Plan, PlanDefaults, Scanned, Transformation
from kleene.plan.lazy.lazy import LazyBranch
from kleene.plan.limits import Limits
from kleene.plan.multi.clauses import Clause, Leaf, clauses_of, leaf_of
from kleene.plan.operators import renamed
from kleene.plan.patterns import LazyPlan, is_lazy


@dataclass(frozen=True, slots=True)
class Test:
    """A test of single events: a leaf as a component of its own, with its predicates."""

    event: Event
    """Negated if only negative components have the test."""
    predicates: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Tests:
    """What several queries test of single events."""

    bound: BoundQuery
    """Of a pattern that has all tests as its components: what expressions over single events are evaluated with."""
    tests: tuple[Test, ...]
    keys: tuple[str, ...]
    """The attributes of which a NULL is bad."""
    all_rows: bool
    """Whether events that pass no test matter."""


@dataclass(frozen=True, slots=True)
class PatternGroup(PlanDefaults):
    """Queries that are answered together."""

    plans: Mapping[str, LazyPlan]
    bound: BoundQuery
    """Of a pattern that has all tests as its components: what expressions over single events are evaluated with."""
    leaves: tuple[Leaf, ...]
    """The leaves of the clauses, in the order of the planner."""
    clauses: tuple[Clause, ...]
    tests: tuple[Test, ...]
    """The leaves, and after them the tests of Kleene and negative components."""
    numbers: Mapping[tuple[str, str], int]
    """For each query and variable the number of its test."""
    columns: tuple[str, ...]
    waiting: frozenset[str]
    """The queries whose matches may end with an event that no single component binds, or wait for their window to pass."""
    lasting: frozenset[str]
    """The queries whose matches have more than one event."""

    evaluation = "shared"
    output = "verbose"
    transformation = Transformation(())

    @property
    def members(self) -> tuple[LazyPlan, ...]:  # type: ignore[override]
        return tuple(self.plans.values())

    @property
    def total_order(self) -> bool:
        return self.first.total_order

    @property
    def ties(self) -> str:
        return self.first.ties

    @property
    def postponed(self) -> bool:  # type: ignore[override]
        return any(plan.postponed for plan in self.plans.values())

    @property
    def reach(self) -> int:
        return max(plan.reach for plan in self.plans.values())

    @property
    def partition(self) -> tuple[str, ...]:
        return self.first.partition

    @property
    def scanned(self) -> Scanned:
        return tuple((test.event, test.predicates) for test in self.tests)

    @property
    def all_rows(self) -> bool:
        return self.first.all_rows

    @property
    def keys(self) -> tuple[str, ...]:
        return self.first.keys

    @property
    def limits(self) -> Limits:
        return self.first.limits

    @property
    def tested(self) -> Tests:
        """What a scan has to know."""
        return Tests(self.bound, self.tests, key_attributes(self.first.bound), self.all_rows)

    @property
    def first(self) -> LazyPlan:
        """Any of the plans, for what all of them have in common."""
        return next(iter(self.plans.values()))


def is_group(plan: Plan) -> TypeGuard[PatternGroup]:
    """Whether a plan is that of patterns which are matched together."""
    return plan.evaluation == "shared"


def grouped(plans: Mapping[str, Plan]) -> Iterator[PatternGroup]:
    """The groups of queries that can share a pass, in order of appearance; others are in none."""
    found: dict[Any, dict[str, LazyPlan]] = {}
    for name, plan in plans.items():
        if is_lazy(plan) and is_shareable(plan):
            found.setdefault(_common(plan), {})[name] = plan
    for members in found.values():
        if len(members) > 1:
            yield _group(members)


def is_shareable(plan: LazyPlan) -> bool:
    """Whether a query can be answered together with others."""
    bound = plan.bound
    same = all(
        len({bound.lacks(kind, name) for kind in event.types}) == 1 for event in bound.components for name in plan.partition
    )
    return (
        not plan.tests
        and bound.query.output is not Output.NON_OVERLAP
        and all(branch.singles for branch in plan.branches)
        and plan.options.order is None
        and plan.options.evaluation == "auto"
        and not any(item.condition.running for branch in plan.branches for item in branch.conditions)
        and same
    )


def _common(plan: LazyPlan) -> Any:
    """What the queries of a group have in common."""
    schema = plan.bound.schema
    return (
        plan.partition,
        plan.keys,
        key_attributes(plan.bound),
        plan.all_rows,
        plan.bound.window is None and not plan.all_rows and not _is_of_single_events(plan),  # keeps every event
        plan.ties,
        plan.limits,
        tuple(test for test in plan.bound.equivalences) if plan.all_rows else (),
        (schema.time, schema.type, schema.order_by, tuple(schema.columns.items())),
        None if schema.types is None else tuple(sorted((name, tuple(sorted(has))) for name, has in schema.types.items())),
    )


def _group(plans: Mapping[str, LazyPlan]) -> PatternGroup:
    leaves, clauses = clauses_of(plans)
    known = {leaf: number for number, leaf in enumerate(leaves)}
    numbers: dict[tuple[str, str], int] = {}
    given: dict[int, tuple[Event, tuple[Expression, ...]]] = {}
    scanned = [(query, item) for query, plan in plans.items() for item in plan.scanned]
    for query, item in sorted(scanned, key=lambda found: found[1][0].negated):
        number = numbers[query, item[0].variable] = known.setdefault(leaf_of(*item), len(known))
        given.setdefault(number, item)
    tests = tuple(_test(*given[number], f"e{number}") for number in range(len(given)))
    bound = _bound_to(tests, tuple(plans.values()))
    read = {name for plan in plans.values() for name in plan.columns}
    columns = tuple(name for name in bound.schema.columns if name in read)
    waiting = frozenset(name for name, plan in plans.items() if any(_waits(branch) for branch in plan.branches))
    lasting = frozenset(name for name, plan in plans.items() if not _is_of_single_events(plan))
    return PatternGroup(plans, bound, leaves, clauses, tests, numbers, columns, waiting, lasting)


def tests_of(plans: Sequence[Plan]) -> tuple[Tests, list[list[int]]]:
    """What plans over the same events test, and for each of them the test of each of its bits."""
    tests: list[Test] = []
    bits: list[list[int]] = []
    for plan in plans:
        bits.append([*range(len(tests), len(tests) + len(plan.scanned))])
        tests += [_test(*item, f"e{number}") for number, item in zip(bits[-1], plan.scanned, strict=True)]
    keys = dict.fromkeys(name for plan in plans for name in key_attributes(plan.bound))
    return Tests(_bound_to(tests, plans), tuple(tests), tuple(keys), all_rows=False), bits


def _bound_to(tests: Sequence[Test], plans: Sequence[Plan]) -> BoundQuery:
    """The query of a pattern that has all tests as its components."""
    first = plans[0].bound
    functions = dict.fromkeys(item for plan in plans for item in plan.bound.query.functions)
    pattern = SequencePattern(tuple(test.event for test in tests))
    return replace(first, query=replace(first.query, pattern=pattern, functions=tuple(functions)))


def _is_of_single_events(plan: LazyPlan) -> bool:
    return all(len(branch.components) == 1 and not branch.components[0].is_kleene for branch in plan.branches)


def _waits(branch: LazyBranch) -> bool:
    kleene = [index for index, event in enumerate(branch.components) if event.is_kleene]
    last = any(not any((index, single) in branch.precedes for single in branch.singles) for index in kleene)
    return last or (branch.negation is not None and any(not item.before for item in branch.negation.components))


def _test(event: Event, predicates: tuple[Expression, ...], name: str) -> Test:
    single = Event(event.types, name, negated=event.negated)
    return Test(single, tuple(renamed(item, {event.variable: name}) for item in predicates))


def lacks_keys(tested: Tests, event_type: str) -> tuple[bool, ...]:
    """Which of the keys a type lacks."""
    return tuple(not always_has(tested.bound, Event((event_type,), ""), name) for name in tested.keys)
