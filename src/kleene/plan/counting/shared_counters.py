"""Counter plans that are counted together: the same partitions and window, each different test of an event once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.operators import Sequence as SequencePattern
from kleene.pattern.predicates import Expression
from kleene.plan.analysis.keys import key_attributes
from kleene.plan.contract import Plan, PlanDefaults, Scanned, Transformation
from kleene.plan.counting.counters import CounterPlan, anonymous, is_counted
from kleene.plan.limits import Limits
from kleene.plan.operators import MOST_BITS, renamed
from kleene.plan.options import AggregateOptions


@dataclass(frozen=True, slots=True)
class SharedCounters(PlanDefaults):
    """Plans with what they share: one scan, one pass."""

    plans: tuple[CounterPlan, ...]
    bound: BoundQuery
    """Knows the tested components of all plans."""
    scanned: Scanned
    bits: tuple[tuple[int, ...], ...]
    """For each plan: the bit here of each of its own bits."""
    columns: tuple[str, ...]

    kind = "counters"
    evaluation = "shared counters"
    all_rows = False
    total_order = False
    ties = "error"
    output = "verbose"
    transformation = Transformation(())

    @property
    def members(self) -> tuple[CounterPlan, ...]:  # type: ignore[override]
        return self.plans

    @property
    def keys(self) -> tuple[str, ...]:
        return self.plans[0].keys

    @property
    def reach(self) -> int:
        return self.plans[0].reach

    @property
    def options(self) -> AggregateOptions:
        return self.plans[0].options

    @property
    def limits(self) -> Limits:
        return self.plans[0].limits

    @property
    def partition(self) -> tuple[str, ...]:
        return self.plans[0].partition


def alone(plan: CounterPlan) -> SharedCounters:
    """One plan by itself."""
    return SharedCounters((plan,), plan.bound, plan.scanned, (tuple(range(len(plan.scanned))),), plan.columns)


def together(plans: Iterable[Plan]) -> Iterator[SharedCounters]:
    """The counter plans among plans in groups that can be counted together, in order of appearance."""
    groups: dict[Any, list[CounterPlan]] = {}
    for plan in plans:
        if not is_counted(plan):
            continue
        bound = plan.bound
        read = (bound.schema.time, bound.schema.type, bound.schema.order_by)
        key = (bound.window, plan.partition, key_attributes(bound), plan.options, plan.limits, *read)
        groups.setdefault(key, []).append(plan)
    for members in groups.values():
        yield from _fitting(members)


def _fitting(plans: list[CounterPlan]) -> Iterator[SharedCounters]:
    """Groups whose tests fit into a row's mask."""
    members: list[CounterPlan] = []
    known: dict[Any, Any] = {}
    for plan in plans:
        own = _tests([plan])
        if members and len(known | own) > MOST_BITS:
            yield _together(members)
            members, known = [], {}
        members.append(plan)
        known |= own
    yield _together(members)


def _together(plans: list[CounterPlan]) -> SharedCounters:
    return alone(plans[0]) if len(plans) == 1 else _shared(tuple(plans))


def _key(event: Event, predicates: tuple[Expression, ...]) -> Any:
    return frozenset(event.types), frozenset(anonymous(item) for item in predicates)


def _tests(plans: Sequence[CounterPlan]) -> dict[Any, tuple[Event, tuple[Expression, ...]]]:
    found: dict[Any, tuple[Event, tuple[Expression, ...]]] = {}
    for plan in plans:
        for event, predicates in plan.scanned:
            found.setdefault(_key(event, predicates), (event, predicates))
    return found


def _shared(plans: tuple[CounterPlan, ...]) -> SharedCounters:
    plans = tuple(replace(plan, beside=tuple(other.name for other in plans if other is not plan)) for plan in plans)
    tests = _tests(plans)
    numbers = {key: number for number, key in enumerate(tests)}
    scanned = tuple(_renamed(event, predicates, f"e{number}") for number, (event, predicates) in enumerate(tests.values()))
    first = plans[0].bound
    functions = dict.fromkeys(item for plan in plans for item in plan.bound.query.functions)
    pattern = SequencePattern(tuple(event for event, _ in scanned))
    bound = replace(first, query=replace(first.query, pattern=pattern, functions=tuple(functions)))
    bits = tuple(tuple(numbers[_key(*item)] for item in plan.scanned) for plan in plans)
    read = {name for plan in plans for name in plan.columns}
    return SharedCounters(plans, bound, scanned, bits, tuple(name for name in first.schema.columns if name in read))


def _renamed(event: Event, predicates: tuple[Expression, ...], name: str) -> tuple[Event, tuple[Expression, ...]]:
    return replace(event, variable=name), tuple(renamed(item, {event.variable: name}) for item in predicates)
