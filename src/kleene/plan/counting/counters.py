"""Aggregates without matches (A-Seq): what can be pushed into counters, and the plan that says how.

A sequence of single events whose conditions each look at one event, or divide the whole stream, can be counted without building
a match: an event at position j of the pattern extends every prefix of j - 1 events that is alive. `obstacles` names what stands
in the way for any other query, which is then matched and aggregated (`kleene.plan.aggregation`), with the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from kleene.common.schema import Kind
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch, Negative
from kleene.pattern.operators import Event
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import Attribute, Expression, IsNull, Not, transform, variables, walk
from kleene.plan.analysis.keys import always_has, equality_of, equated_attributes, is_divided, key_attributes
from kleene.plan.contract import Plan, PlanDefaults, Scanned, Transformation
from kleene.plan.counting.comparison import Compared, comparison_obstacles, comparison_of
from kleene.plan.limits import DEFAULT_LIMITS, Limits
from kleene.plan.operators import fixed_values, require_few_tests
from kleene.plan.options import AggregateOptions


@dataclass(frozen=True, slots=True)
class Position:
    """One positive component of a path: the bit of its test in a row's mask, and the bits of the negative components that must
    not occur between it and the next (after the last position: until the match expires).
    """

    variable: str
    bit: int
    negatives: tuple[int, ...] = ()


Path = tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class CounterPlan(PlanDefaults):
    """Prefix counters for every alternative of a pattern."""

    bound: BoundQuery
    options: AggregateOptions
    paths: tuple[Path, ...]
    """The alternatives of the pattern, each a sequence."""
    scanned: Scanned
    """What the scan tests of each event: (component, predicates) per bit of a row's mask; components with the same test share
    a bit.
    """
    triggers: tuple[int, ...]
    """The bits of events that rows are written at: they satisfy the conditions on the last component alone."""
    partition: tuple[str, ...]
    """Attributes that divide the events."""
    columns: tuple[str, ...]
    """The columns that the plan reads, in the order of the input."""
    compared: Compared | None = None
    """What the two events of a match satisfy together."""
    beside: tuple[str, ...] = ()
    """Other queries of the workload that are counted in the same pass."""
    limits: Limits = DEFAULT_LIMITS

    kind = evaluation = "counters"
    all_rows = False
    total_order = False
    ties = "error"
    output = "verbose"

    @property
    def reach(self) -> int:
        assert self.bound.window is not None
        return self.bound.window + 1  # what has just left the window changes the value

    @property
    def has_summaries(self) -> bool:  # type: ignore[override]
        """Not by partition, and only what means the same in all tasks."""
        return not self.partition and not self.needs_events

    @property
    def has_totals(self) -> bool:  # type: ignore[override]
        """Where no key divides the partitions, and a change of one need not be told apart from another of its instant."""
        return bool(self.partition) and not (self.keys or self.needs_events or self.ends_at_expiry)

    @property
    def shares_counters(self) -> bool:  # type: ignore[override]
        return self.options.sharing != "none" and self.compared is None

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes by which the input may be distributed: those of GROUP BY. Without it partitions are added up."""
        return tuple(name for name in self.bound.query.group_by if name in self.partition)

    @property
    def divided(self) -> bool:
        """Whether groups are partitions, so that no two have to be added up."""
        return set(self.partition) <= set(self.bound.query.group_by)

    @property
    def last_negatives(self) -> frozenset[int]:
        """The bits of events that end matches."""
        return frozenset(bit for path in self.paths for bit in path[-1].negatives)

    @property
    def ends_at_expiry(self) -> bool:
        """Whether EMIT ON CHANGE has to tell matches that expire from those that events of the same instant end."""
        return self.bound.query.emit_on_change and self.bound.window is not None and bool(self.last_negatives)

    @property
    def needs_events(self) -> bool:
        """Whether counts of earlier events do not stand for these: their values are compared with those of later ones."""
        return self.compares_texts or self.compared is not None

    @property
    def compares_texts(self) -> bool:
        """Whether MIN or MAX is over texts, whose order codes mean nothing beside other texts."""
        kinds, items = self.bound.schema.columns, self.bound.query.aggregates
        return any(
            item.function in ("min", "max") and item.attribute and kinds[item.attribute] is Kind.STRING for item in items
        )

    @property
    def transformation(self) -> Transformation:
        """What the aggregates read, for whoever asks which columns are returned as they are."""
        query = self.bound.query
        read = [Attribute(item.variable, item.attribute) for item in query.aggregates if item.variable and item.attribute]
        groups = [Attribute(self.paths[0][0].variable, name) for name in query.group_by]
        time = Attribute(self.paths[0][0].variable, self.bound.schema.time)
        return Transformation(tuple((item.name, item) for item in (*read, *groups, time)))


def is_counted(plan: Plan) -> TypeGuard[CounterPlan]:
    """Whether counters answer the query of a plan."""
    return plan.evaluation == "counters"


def obstacles(bound: BoundQuery) -> tuple[str, ...]:
    """Why a query cannot be counted without building its matches; nothing if it can."""
    return tuple(dict.fromkeys(_obstacles(bound)))


def _obstacles(bound: BoundQuery) -> Iterator[str]:
    query = bound.query
    lasting = _lasting_items(bound) if query.emit_on_change and bound.window is not None else ""
    if query.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        yield f"{query.strategy.value} selects among events by what was selected before"
    if query.output is not Output.ALL:
        yield "NON-OVERLAP chooses among finished matches"
    if bound.count_window is not None:
        yield "a window of events is counted in positions"
    yield from (f"'{event.variable}' binds several events" for event in bound.components if event.is_kleene)
    for branch in bound.branches:
        if not branch.is_sequence:
            yield "AND leaves the order open"
        for negative in branch.negatives:
            yield from _negation_obstacles(negative, lasting)
    yield from _condition_obstacles(bound)
    yield from comparison_obstacles(bound, _between(bound), _lasting_items(bound))


def _lasting_items(bound: BoundQuery) -> str:
    """The aggregates of which a part cannot be taken back exactly, in words."""
    kinds = bound.schema.columns
    sums = {Kind.FLOAT: ("min", "max", "sum", "avg")}
    items = [item for item in bound.query.aggregates if item.attribute is not None]
    found = [item for item in items if item.function in sums.get(kinds[item.attribute or ""], ("min", "max"))]
    return ", ".join(f"{item.function.upper()}({item.variable}.{item.attribute})" for item in found)


def _negation_obstacles(negative: Negative, lasting: str) -> Iterator[str]:
    name = negative.event.variable
    if not negative.after:
        yield f"'{name}' is forbidden before the first event, in an interval that ends with the match"
    elif not negative.before and lasting:
        yield f"'{name}' may end matches at the instant at which others expire, and of {lasting} no part can be taken back"


def _condition_obstacles(bound: BoundQuery) -> Iterator[str]:
    partition = _partition(bound)
    for test in bound.equivalences:
        if test.value is None and test.name not in partition:
            yield f"not every event has '{test.name}', so [{test.name}] does not divide the stream"
    for event in bound.components:
        for name in partition:
            if event.negated and not is_divided(bound, event, name):
                yield f"'{event.variable}' is forbidden whatever its '{name}'"


def _partition(bound: BoundQuery) -> tuple[str, ...]:
    """The attributes that divide the events; equalities that are written out do so where all components are present."""
    return (*key_attributes(bound), *(equated_attributes(bound) if len(bound.branches) == 1 else ()))


def _between(bound: BoundQuery) -> tuple[Expression, ...]:
    """The conditions between events, except those that divide them."""
    partition = _partition(bound)
    return tuple(item for item in bound.conjuncts if len(variables(item)) > 1 and not _decided(item, partition))


def _decided(conjunct: Expression, partition: tuple[str, ...]) -> bool:
    equality = equality_of(conjunct)
    return equality is not None and equality[0] in partition


def plan_counters(bound: BoundQuery, options: AggregateOptions, limits: Limits | None = None) -> CounterPlan:
    """The counters of a query that has no obstacles."""
    partition = _partition(bound)
    tests = _Tests(bound, partition)
    paths = tuple(_path(branch, tests) for branch in bound.branches)
    last = [branch.positives[-1] for branch in bound.branches]
    triggers = tuple(sorted({bit for event in last for bit in (tests.bit(event), tests.bit(event, alone=True))}))
    require_few_tests(bound, len(tests.scanned), "different components")
    scanned, columns = tuple(tests.scanned), _columns(bound)
    compared = comparison_of(bound, _between(bound))
    return CounterPlan(bound, options, paths, scanned, triggers, partition, columns, compared, limits=limits or DEFAULT_LIMITS)


class _Tests:
    """The different tests of components, each a bit."""

    def __init__(self, bound: BoundQuery, partition: tuple[str, ...]) -> None:
        self._bound = bound
        self._known = [name for name in partition if name not in key_attributes(bound)]
        self._bits: dict[Any, int] = {}
        self.scanned: list[tuple[Event, tuple[Expression, ...]]] = []

    def bit(self, event: Event, *, alone: bool = False) -> int:
        """The bit of a component's test; `alone`: of the conditions on it alone, not that equalities with others can hold."""
        predicates = self._predicates(event, () if alone else self._known)
        key = (frozenset(event.types), frozenset(anonymous(item) for item in predicates))
        if key not in self._bits:
            self._bits[key] = len(self.scanned)
            self.scanned.append((event, predicates))
        return self._bits[key]

    def _predicates(self, event: Event, known: Sequence[str]) -> tuple[Expression, ...]:
        """The conditions on a component alone; conditions on no event at all hold for every positive one or for none."""
        own = [item for item in self._bound.conjuncts if variables(item) == {event.variable}]
        if not event.negated:
            own += [item for item in self._bound.conjuncts if not variables(item)]
        own += fixed_values(self._bound, (event,))
        own += [Not(IsNull(Attribute(event.variable, name))) for name in known if always_has(self._bound, event, name)]
        return tuple(own)


def anonymous(predicate: Expression) -> Expression:
    """A predicate on one event without the name of its variable."""
    return transform(predicate, lambda node: Attribute("", node.name) if isinstance(node, Attribute) else node)


def _path(branch: Branch, tests: _Tests) -> Path:
    found = []
    for index, event in enumerate(branch.positives):
        after = [item.event for item in branch.negatives if max(item.after) == index]
        found.append(Position(event.variable, tests.bit(event), tuple(sorted({tests.bit(item) for item in after}))))
    return tuple(found)


def _columns(bound: BoundQuery) -> tuple[str, ...]:
    """The columns that the counters read, in the order of the input."""
    schema, query = bound.schema, bound.query
    needed = {schema.time, *schema.order_by, *query.group_by, *(test.name for test in bound.equivalences)}
    if schema.type is not None:
        needed.add(schema.type)
    needed.update(item.attribute for item in query.aggregates if item.attribute is not None)
    needed.update(node.name for item in bound.conjuncts for node in walk(item) if isinstance(node, Attribute))
    return tuple(name for name in schema.columns if name in needed)
