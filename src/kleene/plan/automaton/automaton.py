"""NFA^b: the automaton of a branch, compiled from the query by steps 1-6 of SASE+ (section 3.2).

Every positive component is a state (a pair of states for a Kleene component, `a[1]` and `a[i]`). Its conjuncts are sorted to
the edge on which their last identifier is instantiated: *begin* selects the component's first event, *take* a further element,
*proceed* leaves a Kleene component. What reads the event alone is decided while scanning, before any run is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import Condition, condition_of
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.pattern.policies import Strategy
from kleene.pattern.predicates import Aggregate, Attribute, Element, Expression, walk
from kleene.plan.operators import fixed_values, kleene_variables


@dataclass(frozen=True, slots=True)
class Component:
    """A positive component with the conditions of its edges."""

    event: Event
    low: int
    high: int | None
    """How many events it binds."""
    scan_begin: tuple[Expression, ...]
    """Conditions of the begin edge that read the event alone."""
    begin: tuple[Condition, ...]
    """Its other conditions."""
    scan_take: tuple[Expression, ...]
    take: tuple[Condition, ...]
    element: tuple[Condition, ...]
    """Conditions of the proceed edge that every element must satisfy by itself: a run that selects another can never leave."""
    proceed: tuple[Condition, ...]
    """The other conditions of the proceed edge."""

    @property
    def is_kleene(self) -> bool:
        return self.event.is_kleene

    @property
    def variable(self) -> str:
        return self.event.variable


@dataclass(frozen=True, slots=True)
class Automaton:
    """The automaton of one branch: its components in order. Negative components are decided on the matches it accepts."""

    components: tuple[Component, ...]
    strategy: Strategy

    @property
    def sites(self) -> tuple[tuple[Component, str, Condition], ...]:
        """(component, edge, condition) of every condition that is decided on runs."""
        return tuple(
            (component, edge, condition)
            for component in self.components
            for edge in ("begin", "take", "element", "proceed")
            for condition in getattr(component, edge)
        )

    def looks_back(self) -> Iterator[tuple[Condition, str]]:
        """The conditions that read the elements of a variable again, one by one; and the first such variable."""
        for component, edge, condition in self.sites:
            again = [name for name in condition.quantified if name != component.variable or edge == "proceed"]
            if again:
                yield condition, again[0]


def compile_automaton(bound: BoundQuery, branch: Branch, decided: frozenset[Expression] = frozenset()) -> Automaton:
    """The automaton of a branch; `decided` are conjuncts that something else decides (a partition).

    A conjunct on a variable that the branch does not have is never checked there.
    """
    strategy = bound.query.strategy
    names = [event.variable for event in branch.positives]
    kleene = kleene_variables(bound)
    edges: list[dict[str, list[Condition]]] = [
        {name: [] for name in ("scan_begin", "begin", "scan_take", "take", "element", "proceed")} for _ in names
    ]
    for conjunct in (*bound.conjuncts, *fixed_values(bound, branch.positives)):
        condition = condition_of(conjunct, kleene)
        if conjunct in decided or not condition.variables <= set(names):
            continue
        last = max((names.index(variable) for variable in condition.variables), default=0)
        for edge in _edges(condition, branch.positives[last], strategy):
            edges[last][edge].append(condition)
    components = []
    for event, placed in zip(branch.positives, edges, strict=True):
        low, high = (1, 1) if event.quantifier is None or not event.is_kleene else (event.quantifier.low, event.quantifier.high)
        components.append(
            Component(
                event,
                max(1, low),
                high,
                tuple(item.expression for item in placed["scan_begin"]),
                tuple(placed["begin"]),
                tuple(item.expression for item in placed["scan_take"]),
                tuple(placed["take"]),
                tuple(placed["element"]),
                tuple(placed["proceed"]),
            )
        )
    return Automaton(tuple(components), strategy)


def _edges(condition: Condition, event: Event, strategy: Strategy) -> tuple[str, ...]:
    """Where a condition is decided whose last identifier belongs to a component."""
    variable = event.variable
    if not event.is_kleene:
        return ("scan_begin",) if condition.variables <= {variable} else ("begin",)
    kinds = condition.kinds(variable)
    if "complete" in kinds or {"each", "running"} <= kinds:
        return ("proceed",)
    if "each" in kinds:
        alone = condition.reads_only(variable, "each")
        # Under skip_till_any_match an element that may not be in a match need not be selected in the first place.
        return ("scan_begin", "scan_take") if alone and strategy is Strategy.SKIP_TILL_ANY_MATCH else ("element",)
    if "running" not in kinds:
        return ("scan_begin",) if condition.variables <= {variable} else ("begin",)
    references = [node for node in walk(condition.expression) if isinstance(node, Attribute | Aggregate)]
    current = all(node.element is Element.CURRENT for node in references)
    return ("scan_take",) if current and condition.reads_only(variable, "running") else ("take",)
