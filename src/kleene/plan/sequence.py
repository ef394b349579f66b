"""The SASE plan of a query: sequence scan and construction, selection, window, negation, transformation (sections 3.1 and 4.4).

`plan_sequence` is the flat list of decisions: what is supported, where each conjunct and equivalence test is decided, which
columns travel. Every option gives the same matches; only the work differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kleene.common.errors import PlanningError, Problem, Span
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import (
    Attribute,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Not,
    variables,
)
from kleene.plan.analysis.compilable import compilable
from kleene.plan.analysis.keys import equality_of, equated_attributes, is_divided, key_attributes
from kleene.plan.contract import PlanDefaults, Transformation
from kleene.plan.limits import DEFAULT_LIMITS, Limits
from kleene.plan.operators import Negation, negative_component, partial_agreements, plan_columns, reach_of
from kleene.plan.options import SequenceOptions


@dataclass(frozen=True, slots=True)
class SequenceScan:
    """SS: type tests, pushed simple predicates, partitions and window; feeds the stacks."""

    components: tuple[Event, ...]
    """Positive components in sequence order."""
    predicates: tuple[tuple[Expression, ...], ...]
    """Per positive component: simple predicates decided while scanning."""
    partition: tuple[str, ...]
    """Attributes whose values partition the stacks."""
    transition_tests: tuple[str, ...]
    """Further attributes that filter transitions (Multi-PAIS)."""
    window: int | None


@dataclass(frozen=True, slots=True)
class SequenceConstruction:
    """SC: the backward search that makes event sequences."""

    algorithm: str
    tests: tuple[str, ...]
    """Attributes on which all events of a sequence must agree (dynamic filtering)."""
    predicates: tuple[tuple[Expression, ...], ...]
    """Per level: predicates decided when that component is bound (the last component first)."""
    window: int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """Predicates decided on finished sequences."""

    predicates: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class WindowCheck:
    """WD: the window decided on finished sequences."""

    window: int


@dataclass(frozen=True, slots=True)
class SequencePlan(PlanDefaults):
    """The operators from the bottom up, and what they read."""

    bound: BoundQuery
    options: SequenceOptions
    scan: SequenceScan
    construction: SequenceConstruction
    selection: Selection | None
    window_check: WindowCheck | None
    negation: Negation | None
    transformation: Transformation
    columns: tuple[str, ...]
    """The columns that the plan reads, in the order of the input."""
    limits: Limits = DEFAULT_LIMITS

    @property
    def keys(self) -> tuple[str, ...]:
        """The attributes by which the input may be distributed: all that divide positive and negative components alike."""
        negatives = [item.event for item in self.bound.branches[0].negatives]
        dividing = (*key_attributes(self.bound), *equated_attributes(self.bound))
        return tuple(name for name in dividing if all(is_divided(self.bound, event, name) for event in negatives))

    @property
    def scanned(self) -> tuple[tuple[Event, tuple[Expression, ...]], ...]:
        """What the scan tests of each event: (component, predicates) per bit of a row's mask, negative components last."""
        negatives = self.negation.components if self.negation else ()
        return (
            *zip(self.scan.components, self.scan.predicates, strict=True),
            *((item.event, item.scan_predicates) for item in negatives),
        )

    @property
    def branches(self) -> tuple[SequencePlan, ...]:
        """There is one alternative, the plan itself."""
        return (self,)

    @property
    def partition(self) -> tuple[str, ...]:
        """Attributes that divide the events."""
        return self.scan.partition

    tests = ()
    """Others on which events must agree are tested by scan and construction."""
    total_order = False
    ties = "error"
    output = "verbose"

    @property
    def reach(self) -> int:
        return reach_of(self.bound, (branch.negation for branch in self.branches))

    @property
    def all_rows(self) -> bool:
        """Whether events that no component can bind matter: the runtime stack has a cell for every event."""
        return self.construction.algorithm == "runtime_stack"


def plan_sequence(bound: BoundQuery, options: SequenceOptions, limits: Limits | None = None) -> SequencePlan:
    """The SASE plan of a bound query under the given options."""
    branch = _supported(bound)
    positives = branch.positives
    keys = key_attributes(bound)
    partition = _partition((*keys, *equated_attributes(bound)), options)
    window = bound.window

    simple, between, negative = _split(bound, branch, partition)
    rest = tuple(name for name in keys if name not in partition)
    multi = options.partition == "multi_pais" and options.construction == "active_instance_stacks"
    tested = rest if options.equivalence == "construction" and not multi else ()
    in_selection: list[Expression] = [] if tested else _agreements(positives, rest)
    in_construction: list[list[Expression]] = [[] for _ in positives]
    for conjunct in (*between, *partial_agreements(bound, positives, keys)):
        level = _level(positives, conjunct)
        if options.predicates == "construction" and level is not None and compilable(conjunct, bound.schema):
            in_construction[level].append(conjunct)
        else:
            in_selection.append(conjunct)
    scanned = tuple(tuple(simple[event.variable]) for event in positives)
    if options.simple_predicates == "selection":
        in_selection.extend(conjunct for level in scanned for conjunct in level)
        scanned = tuple(() for _ in positives)

    in_scan = options.simple_predicates == "scan"
    components = tuple(
        negative_component(bound, branch, item, simple[item.event.variable], negative[item.event.variable], partition, in_scan)
        for item in branch.negatives
    )
    transformation = Transformation(tuple((item.alias, item.expression) for item in bound.query.returns))
    return SequencePlan(
        bound=bound,
        options=options,
        scan=SequenceScan(positives, scanned, partition, rest if multi else (), window if options.window_in_scan else None),
        construction=SequenceConstruction(
            options.construction,
            tested,
            tuple(tuple(level) for level in in_construction),
            window if options.window_in_construction else None,
        ),
        selection=Selection(tuple(in_selection)) if in_selection else None,
        window_check=None if window is None or options.window_in_construction else WindowCheck(window),
        negation=Negation(components, options.negation, window) if components else None,
        transformation=transformation,
        columns=plan_columns(bound, transformation),
        limits=limits or DEFAULT_LIMITS,
    )


def is_plain_sequence(bound: BoundQuery) -> bool:
    """Whether a sequence plan answers the query: single events in sequence, in a window of time, all matches."""
    query = bound.query
    return (
        len(bound.branches) == 1
        and bound.branches[0].is_sequence
        and not any(event.quantifier for event in bound.components)
        and query.strategy is Strategy.SKIP_TILL_ANY_MATCH
        and query.output is Output.ALL
        and bound.count_window is None
    )


def _supported(bound: BoundQuery) -> Branch:
    """The one branch of the query, or an error that names everything that a sequence plan does not support."""
    query = bound.query
    missing: list[Problem] = []
    hint = "leave the plan open: the planner chooses a mechanism that does"

    def note(condition: bool, what: str, span: Span | None = None) -> None:
        if condition:
            missing.append(Problem(f"a sequence plan does not evaluate {what}", span, hint))

    note(query.strategy is not Strategy.SKIP_TILL_ANY_MATCH, f"the selection strategy {query.strategy.value}")
    for event in bound.components:
        note(event.is_kleene, f"Kleene plus and repetition ('{event.variable}')", event.span)
        note(event.quantifier is not None and not event.is_kleene, f"optional components ('{event.variable}')", event.span)
    optional = any(event.quantifier is not None for event in bound.components)
    note(len(bound.branches) > 1 and not optional, "OR", query.pattern.span)
    note(any(not branch.is_sequence for branch in bound.branches), "AND", query.pattern.span)
    note(bound.count_window is not None, "windows in events (WITHIN n EVENTS)")
    note(query.output is not Output.ALL, f"the output format {query.output.value}")
    if missing:
        raise PlanningError(missing, query.text)
    return bound.branches[0]


def _partition(attributes: tuple[str, ...], options: SequenceOptions) -> tuple[str, ...]:
    if options.partition == "none":
        return ()
    return attributes if options.partition == "composite" else attributes[:1]


def _split(
    bound: BoundQuery, branch: Branch, partition: tuple[str, ...]
) -> tuple[dict[str, list[Expression]], list[Expression], dict[str, list[Expression]]]:
    """Conjuncts by what they read: one event, several positive events, or a negative event and others.

    An equality that the partition decides becomes the condition that there is a value, for NULL equals nothing.
    """
    negated = {item.event.variable for item in branch.negatives}
    simple: dict[str, list[Expression]] = {event.variable: [] for event in bound.components}
    negative: dict[str, list[Expression]] = {variable: [] for variable in negated}
    between: list[Expression] = []
    for conjunct in bound.conjuncts:
        read = variables(conjunct)
        equality = equality_of(conjunct)
        if equality is not None and equality[0] in partition and not read & negated:
            for variable in equality[1:]:
                simple[variable].append(Not(IsNull(Attribute(variable, equality[0]))))
        elif len(read) == 1:
            simple[next(iter(read))].append(conjunct)
        elif read & negated:
            negative[next(iter(read & negated))].append(conjunct)
        else:
            between.append(conjunct)
    for test in bound.equivalences:
        if isinstance(test.value, Literal):
            for event in bound.components:
                if not all(bound.lacks(event_type, test.name) for event_type in event.types):
                    fixed = Comparison("=", Attribute(event.variable, test.name), test.value, span=test.span)
                    simple[event.variable].append(fixed)
    return simple, between, negative


def _agreements(positives: tuple[Event, ...], attributes: Iterable[str]) -> list[Expression]:
    """Equivalence tests as comparisons with the last component (the first to be bound)."""
    last = positives[-1].variable
    return [
        Comparison("=", Attribute(event.variable, name), Attribute(last, name))
        for name in attributes
        for event in positives[:-1]
    ]


def _level(positives: tuple[Event, ...], conjunct: Expression) -> int | None:
    """The level at which a conjunct's last variable is bound, going from the last component to the first."""
    read = variables(conjunct)
    return min((index for index, event in enumerate(positives) if event.variable in read), default=None)
