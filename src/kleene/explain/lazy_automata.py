"""The automata of lazy evaluation for display: edges, conditions and scopes as in the lazy-NFA paper.

`eager_graph` is the sequence NFA of section 3.2.1: each event may be taken on arrival, or ignored. `chain_graph` is section 5:
components are taken in a given order; events of components not yet taken are stored, those of components already taken are
ignored. `tree_graph` is section 6: a state for every order in which some components may have been taken, from which the most
selective of the others is taken next.

A take edge has a scope (s, f) (section 4): the event it takes follows s and precedes f. The formula printed in section 5 picks
the latest and the earliest of the bound events in *selectivity* order; correct is *sequence* order. In a sequence a, b, c, d
bound in the order b, a, d, c, the scope of c begins at b, where the formula has a. If the order is partial (AND), a scope may
have several bounds: `(max(a, b), finish)`. In section 6, the last layer has n - 1 components taken, and a take edge leads to
the state of its own order.

The engine does not run these automata (`engine/lazy/kernels`): it extends partial matches by all candidates in scope at once,
stored and later ones alike, in the same orders and with the same conditions. A Kleene component is taken as a whole, `a[]`; in
a tree, after all single ones.

Cost: a tree of n components has about n! e states. Only its first layers are built, unless more are requested.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import perm

from kleene.explain.automata import (
    FINAL,
    Edge,
    EdgeKind,
    Formula,
    Scope,
    StateGraph,
    Within,
    agreements,
    end_text,
    fixed_tests,
    start_text,
    type_tests,
    within,
)
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Comparison, Element, Expression, Length, Literal, variables
from kleene.pattern.text import name_text

MOST_STATES = 64
"""Default maximum number of states of a tree: all of four components (42), three layers of five (26)."""


def eager_graph(bound: BoundQuery, branch: Branch) -> StateGraph:
    """The eager NFA of a branch that is a sequence."""
    assert branch.is_sequence, "events are taken in the order of the stream"
    conditions = _Conditions(bound, branch)
    every = conditions.names(range(len(branch.positives)))
    edges: list[Edge] = []
    for index in range(len(branch.positives)):
        state, have = f"q{index + 1}", range(index)
        edges.append(Edge(EdgeKind.IGNORE, state, state, Formula((), conditions.still_open(have)), every))
        taken = conditions.formula(have, index)
        edges.append(Edge(EdgeKind.TAKE, state, _state(branch, index + 1), taken, conditions.names((index,))))
    return StateGraph(_chain_states(branch), tuple(edges))


def chain_graph(bound: BoundQuery, branch: Branch, order: Sequence[str]) -> StateGraph:
    """The chain NFA of a branch that binds its variables in the given order."""
    conditions = _Conditions(bound, branch)
    sequence = _indices(branch, order)
    edges: list[Edge] = []
    for position, component in enumerate(sequence):
        state, have, later = f"q{position + 1}", sequence[:position], sequence[position + 1 :]
        if have:
            edges.append(Edge(EdgeKind.IGNORE, state, state, names=conditions.names(have)))
        if later:
            edges.append(Edge(EdgeKind.STORE, state, state, names=conditions.names(later)))
        edges.append(conditions.take(state, _state(branch, position + 1), have, component))
    return StateGraph(_chain_states(branch), tuple(edges))


def tree_graph(bound: BoundQuery, branch: Branch, *, most: int = MOST_STATES) -> StateGraph:
    """The tree NFA of a branch: its first layers, with at most `most` states in total, and their edges."""
    conditions = _Conditions(bound, branch)
    made = _orders(branch, most)
    edges = [edge for order in made for edge in _tree_edges(branch, conditions, order)]
    omitted = tree_size(branch.positives) - len(made) - 1
    return StateGraph((*(_tree_state(branch, order) for order in made), FINAL), tuple(edges), omitted)


def tree_size(events: Sequence[Event]) -> int:
    """The number of states of a tree over some components, F included.

    >>> tree_size([Event((name,), name) for name in "abc"])
    11
    """
    count = len(events)
    single = sum(not event.is_kleene for event in events)
    layers = (perm(single, min(size, single)) * perm(count - single, max(0, size - single)) for size in range(count))
    return sum(layers) + 1


def scope_of(events: Sequence[Event], precedes: Collection[tuple[int, int]], have: Collection[int], component: int) -> Scope:
    """The scope of a component when others are bound.

    >>> events = [Event((name,), name) for name in "abcd"]
    >>> in_sequence = {(i, j) for i in range(4) for j in range(i + 1, 4)}
    >>> str(scope_of(events, in_sequence, {1, 0, 3}, 2))
    '(b, d)'
    """
    earlier = [index for index in have if (index, component) in precedes]
    later = [index for index in have if (component, index) in precedes]
    return Scope(
        tuple(end_text(events[index]) for index in _last(earlier, precedes)),
        tuple(start_text(events[index]) for index in _first(later, precedes)),
    )


def _first(indices: Collection[int], precedes: Collection[tuple[int, int]]) -> list[int]:
    """The indices that no other precedes, in order of appearance."""
    return sorted(index for index in indices if not any((other, index) in precedes for other in indices))


def _last(indices: Collection[int], precedes: Collection[tuple[int, int]]) -> list[int]:
    """The indices that precede no other, in order of appearance."""
    return sorted(index for index in indices if not any((index, other) in precedes for other in indices))


def _indices(branch: Branch, order: Sequence[str]) -> tuple[int, ...]:
    places = {event.variable: index for index, event in enumerate(branch.positives)}
    assert sorted(order) == sorted(places), f"an order of {', '.join(places)}"
    return tuple(places[variable] for variable in order)


def _chain_states(branch: Branch) -> tuple[str, ...]:
    return tuple(_state(branch, index) for index in range(len(branch.positives) + 1))


def _state(branch: Branch, index: int) -> str:
    return FINAL if index == len(branch.positives) else f"q{index + 1}"


# --- trees ------------------------------------------------------------------------------------------------------------


def _orders(branch: Branch, most: int) -> list[tuple[int, ...]]:
    """The orders of taking some, but not all, components: layer by layer, at most `most` of them."""
    layer: list[tuple[int, ...]] = [()]
    found: list[tuple[int, ...]] = []
    for _ in branch.positives:
        if len(found) + len(layer) > most:
            break
        found += layer
        layer = [(*order, component) for order in layer for component in _takeable(branch, order)]
    return found


def _takeable(branch: Branch, order: Collection[int]) -> list[int]:
    """The components that may be taken next: single ones first."""
    rest = [index for index in range(len(branch.positives)) if index not in order]
    return [index for index in rest if not branch.positives[index].is_kleene] or rest


def _tree_state(branch: Branch, order: tuple[int, ...]) -> str:
    """The state of an order, by the numbers of the components taken: q0, q3, q32."""
    if len(order) == len(branch.positives):
        return FINAL
    separator = "." if len(branch.positives) > 9 else ""
    return "q" + (separator.join(str(index + 1) for index in order) or "0")


def _tree_edges(branch: Branch, conditions: _Conditions, order: tuple[int, ...]) -> list[Edge]:
    """The edges of a state. If only one component may be taken, it needs no guard of selectivity."""
    state = _tree_state(branch, order)
    rest = [index for index in range(len(branch.positives)) if index not in order]
    present = f"nonempty({', '.join(conditions.names(rest))})"
    edges = []
    if order:
        edges.append(Edge(EdgeKind.IGNORE, state, state, names=conditions.names(order)))
    takeable = _takeable(branch, order)
    guards: dict[int, list[str]] = {component: [present] for component in takeable}
    if len(takeable) > 1:
        for component in takeable:
            guards[component].append(f"most_selective({conditions.names((component,))[0]})")
    for component in rest:
        waits = " OR ".join(f"NOT {guard}" for guard in guards.get(component, ())) or None
        edges.append(Edge(EdgeKind.STORE, state, state, names=conditions.names((component,)), guard=waits))
    for component in takeable:
        target = _tree_state(branch, (*order, component))
        edges.append(conditions.take(state, target, order, component, guard=" AND ".join(guards[component])))
    return edges


# --- conditions -------------------------------------------------------------------------------------------------------


class _Conditions:
    """The conditions of take edges: each conjunct is on the edge that binds the last of its variables."""

    def __init__(self, bound: BoundQuery, branch: Branch) -> None:
        self._bound = bound
        self._events = branch.positives
        self._precedes = branch.order

    def names(self, indices: Collection[int]) -> tuple[str, ...]:
        """Components by name, in order of appearance; an array is written `a[]`."""
        return tuple(
            name_text(event.variable) + ("[]" if event.is_kleene else "")
            for event in (self._events[index] for index in sorted(indices))
        )

    def take(self, source: str, target: str, have: Collection[int], component: int, *, guard: str | None = None) -> Edge:
        """The edge that takes a component when others are bound."""
        scope = scope_of(self._events, self._precedes, have, component)
        formula = self.formula(have, component)
        distinct = self.names(unordered_alike(self._events, self._precedes, have, component))
        return Edge(EdgeKind.TAKE, source, target, formula, self.names((component,)), scope, distinct, guard)

    def formula(self, have: Collection[int], component: int) -> Formula:
        """The condition on a component when others are bound."""
        before = {self._events[index].variable for index in have}
        event = self._events[component]
        decided = before | {event.variable}
        own = [
            conjunct
            for conjunct in self._bound.conjuncts
            if (read := variables(conjunct)) <= decided and (event.variable in read or not (read or before))
        ]
        element = Element.EACH if event.is_kleene else Element.SINGLE
        agreed = agreements(self._bound, event, element, [self._events[index] for index in have])
        tests = (*type_tests(self._bound, event, element), *agreed, *fixed_tests(self._bound, event, element))
        return Formula(tuple(dict.fromkeys((*tests, *own, *_lengths(event)))), self._window(have, component))

    def still_open(self, have: Collection[int]) -> Within | None:
        """The timing predicate p_t on the current event of any type; None before the first event is bound."""
        if not have:
            return None
        first = [start_text(self._events[index]) for index in _first(have, self._precedes)]
        return within(self._bound, ["now"], first)

    def _window(self, have: Collection[int], component: int) -> Within | None:
        """The window; None if earlier bound events decide it."""
        everything = (*have, component)
        first, last = _first(everything, self._precedes), _last(everything, self._precedes)
        alone = not have and not self._events[component].is_kleene
        if alone or component not in (*first, *last):
            return None
        ends, starts = [end_text(self._events[index]) for index in last], [start_text(self._events[index]) for index in first]
        return within(self._bound, ends, starts)


def unordered_alike(
    events: Sequence[Event], precedes: Collection[tuple[int, int]], have: Collection[int], component: int
) -> list[int]:
    """The bound components that could bind the same event as `component`: they share a type, and no order separates them."""
    return [
        index
        for index in have
        if set(events[index].types) & set(events[component].types)
        and (index, component) not in precedes
        and (component, index) not in precedes
    ]


def _lengths(event: Event) -> tuple[Expression, ...]:
    """The conditions on the number of elements of a Kleene component."""
    if event.quantifier is None or not event.is_kleene:
        return ()
    found: list[Expression] = []
    if event.quantifier.low > 1:
        found.append(Comparison(">=", Length(event.variable), Literal(event.quantifier.low)))
    if event.quantifier.high is not None:
        found.append(Comparison("<=", Length(event.variable), Literal(event.quantifier.high)))
    return tuple(found)
