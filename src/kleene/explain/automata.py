"""Automata for display: states, and edges with their formulas. Those of SASE+ (section 3, Figure 2) are built here.

`state_graph` applies steps 1-6 of section 3.2 to one branch of a query. The basic stage is steps 1-4: the structure, each
conjunct on the edge of its last identifier, the ignore edges by strategy, the window on the edge to F. The optimized stage is
what the engine runs: the window on every begin, take and ignore edge (step 5), and proceed edges that peek at the next begin
condition (step 6; the semantics apply it always, and to every next state except F).

Conjuncts are on the edges on which `kleene.plan.automaton.automaton` decides them. Equivalence tests are written out, although
in the engine the partition decides them. Formulas are data: conjuncts as expressions, and the window.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kleene.pattern import predicates as p
from kleene.pattern.bound import BoundQuery
from kleene.pattern.durations import window_of
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.pattern.policies import Strategy
from kleene.pattern.text import expression_text, name_text, window_text
from kleene.plan.analysis.keys import always_has
from kleene.plan.automaton.automaton import Component, compile_automaton

FINAL = "F"

FALSE = p.Literal(False)


class EdgeKind(enum.Enum):
    """What an automaton does with an event (SASE+, section 3.1; lazy evaluation, sections 3.2 and 4)."""

    BEGIN = "begin"
    """Selects it as the first of a component, and goes to the next state."""
    TAKE = "take"
    """Selects it as a further element; in lazy evaluation adds a component to the partial match."""
    STORE = "store"
    """Keeps it in the input buffer, for a later take."""
    IGNORE = "ignore"
    """Ignores it."""
    PROCEED = "proceed"
    """Leaves a Kleene component without consuming an event."""


@dataclass(frozen=True, slots=True)
class Within:
    """The window: an event is less than a length after the first one."""

    last: str
    """The event, as an identifier: `b`, `a[i]`; the latest of several: `max(a, b)`."""
    first: str
    length: int
    """In the unit of the time column, or in events."""
    text: str


@dataclass(frozen=True, slots=True)
class Formula:
    """The condition of an edge: all conjuncts, and the window. Without either it is true."""

    conjuncts: tuple[p.Expression, ...] = ()
    window: Within | None = None

    @property
    def expression(self) -> p.Expression:
        """The conjuncts as one expression, without the window."""
        return p.conjunction(self.conjuncts) or p.Literal(True)

    @property
    def is_false(self) -> bool:
        return FALSE in self.conjuncts

    def __str__(self) -> str:
        return " AND ".join(self.parts())

    def parts(self) -> tuple[str, ...]:
        """The texts of the conjuncts, the window last.

        >>> Formula().parts(), Formula((p.Not(p.Literal(False)),)).parts()
        (('TRUE',), ('NOT FALSE',))
        """
        if self.is_false:
            return ("FALSE",)
        texts = ((item, expression_text(item)) for item in self.conjuncts)
        own = [f"({text})" if isinstance(item, p.Or) and len(self.conjuncts) > 1 else text for item, text in texts]
        own += [self.window.text] if self.window is not None else []
        return tuple(own) or ("TRUE",)


TRUE = Formula()


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a take edge: after the latest of some bound events and before the earliest of others.

    >>> str(Scope()), str(Scope(("a",), ("c", "d")))
    ('(start, finish)', '(a, min(c, d))')
    """

    after: tuple[str, ...] = ()
    """Identifiers of events; empty for the keyword *start*: from the beginning of the input buffer."""
    before: tuple[str, ...] = ()
    """Identifiers of events; empty for the keyword *finish*: later events are taken too."""

    def __str__(self) -> str:
        return f"({one_of('max', self.after) or 'start'}, {one_of('min', self.before) or 'finish'})"


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two states."""

    kind: EdgeKind
    source: str
    target: str
    formula: Formula = TRUE
    names: tuple[str, ...] = ()
    """In lazy evaluation: the components whose events follow this edge."""
    scope: Scope | None = None
    """The scope of a take edge that reads the input buffer."""
    distinct: tuple[str, ...] = ()
    """Bound events from which the taken event must differ, because no order separates them."""
    guard: str | None = None
    """In a tree, a condition on the input buffer: `nonempty(a, b)` (p_ne), `most_selective(a)` (p_se)."""
    peeks: str | None = None
    """On a proceed edge: the state whose begin condition its formula includes."""

    @property
    def label(self) -> str:
        return f"{self.kind.value}({', '.join(self.names)})" if self.names else self.kind.value

    def parts(self) -> tuple[str, ...]:
        """The texts of the conjuncts; the scope is not among them."""
        own = self.formula.parts() if self.formula != TRUE else ()
        apart = tuple(f"distinct from {name}" for name in self.distinct)
        return (*((self.guard,) if self.guard else ()), *own, *apart) or ("TRUE",)

    def __str__(self) -> str:
        scope = "" if self.scope is None else f" {self.scope}"
        return f"{self.source} {self.label} {self.target}{scope}: {' AND '.join(self.parts())}"


@dataclass(frozen=True, slots=True)
class StateGraph:
    """The states from the start to F, and the edges, grouped by state."""

    states: tuple[str, ...]
    edges: tuple[Edge, ...]
    omitted: int = 0
    """The number of states of a tree that were left out."""

    @property
    def takes(self) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if edge.kind is EdgeKind.TAKE)

    def edge(self, source: str, kind: EdgeKind | str) -> Edge:
        """An edge by its source and kind, of which a state of NFA^b has at most one."""
        return next(edge for edge in self.edges if edge.source == source and edge.kind is EdgeKind(kind))

    def lines(self) -> list[str]:
        """The graph as text: a line of states, then a line for each edge."""
        lines = [f"states {' '.join(self.states)}", *map(str, self.edges)]
        return [*lines, f"and {self.omitted:,} more states"] if self.omitted else lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


def state_graph(bound: BoundQuery, branch: Branch, *, optimized: bool = True) -> StateGraph:
    """The NFA^b of one of `bound.branches`."""
    compiler = _Compiler(bound, branch, optimized)
    edges = [edge for index in range(len(compiler.components)) for edge in compiler.edges(index)]
    states = [name for component in compiler.components for name in state_names(component.event)]
    return StateGraph((*states, FINAL), tuple(edges))


def state_names(event: Event) -> tuple[str, ...]:
    """The states of a component: a pair for Kleene components.

    >>> from kleene.pattern.operators import KLEENE_PLUS
    >>> state_names(Event(("A",), "a", KLEENE_PLUS)), state_names(Event(("B",), "b"))
    (('a[1]', 'a[i]'), ('b',))
    """
    name = name_text(event.variable)
    return (f"{name}[1]", f"{name}[i]") if event.is_kleene else (name,)


def length_text(bound: BoundQuery) -> str:
    """The length of the window of time, with its unit."""
    unit = bound.schema.time_unit
    assert bound.window is not None
    if unit is None:
        return f"{bound.window:,}"
    return window_text(window_of(Fraction(bound.window, 1_000 if unit == "ns" else 1)))


class _Compiler:
    """Steps 1-6 for one branch."""

    def __init__(self, bound: BoundQuery, branch: Branch, optimized: bool) -> None:
        self.components = compile_automaton(bound, branch).components
        self._bound = bound
        self._optimized = optimized
        self._order = {conjunct: position for position, conjunct in enumerate(bound.conjuncts)}

    def edges(self, index: int) -> list[Edge]:
        """The edges of a component's states (step 1)."""
        component = self.components[index]
        states = state_names(component.event)
        following = state_names(self.components[index + 1].event)[0] if index + 1 < len(self.components) else FINAL
        first, after = states[0], states[1] if component.is_kleene else following
        edges = [Edge(EdgeKind.BEGIN, first, after, self._begin(index))]
        if index > 0:
            edges.append(Edge(EdgeKind.IGNORE, first, first, self._ignore(index, _first_element(component))))
        if not component.is_kleene:
            return edges
        take = Formula(
            self._selected(index, p.Element.CURRENT), self._window(index, p.Element.CURRENT) if self._optimized else None
        )
        edges.append(Edge(EdgeKind.TAKE, after, after, take))
        edges.append(Edge(EdgeKind.IGNORE, after, after, self._ignore(index, p.Element.CURRENT)))
        peeks = following if self._optimized and following != FINAL else None
        edges.append(Edge(EdgeKind.PROCEED, after, following, self._proceed(index), peeks=peeks))
        return edges

    def _begin(self, index: int) -> Formula:
        element = _first_element(self.components[index])
        last = index == len(self.components) - 1 and element is p.Element.SINGLE
        return Formula(self._selected(index, element), self._window(index, element) if last or self._optimized else None)

    def _ignore(self, index: int, element: p.Element) -> Formula:
        """The ignore formula (step 3). At `p[i]` only the take condition can prevent that an event is ignored."""
        strategy = self._bound.query.strategy
        window = self._window(index, element) if self._optimized else None
        if strategy is Strategy.SKIP_TILL_ANY_MATCH:
            return Formula((), window)
        if strategy is Strategy.STRICT_CONTIGUITY:
            return Formula((FALSE,))
        if strategy is Strategy.SKIP_TILL_NEXT_MATCH:
            select = self._selected(index, element)
        else:
            select = (*self._agreements(index, element), *fixed_tests(self._bound, self.components[index].event, element))
        met = p.conjunction(select)
        return Formula((FALSE,)) if met is None else Formula((p.Not(met),), window)

    def _proceed(self, index: int) -> Formula:
        """The proceed formula (steps 4 and 6): conditions on the complete component, and on the event that begins the next."""
        component = self.components[index]
        each = [] if self._optimized else [item for item in component.scan_begin if _each(item, component.variable)]
        conditions = (*each, *(item.expression for item in (*component.element, *component.proceed)))
        own = self._sorted(conditions)
        if component.low > 1:
            own = (*own, p.Comparison(">=", p.Length(component.variable), p.Literal(component.low)))
        if index == len(self.components) - 1:
            return Formula(own, self._window(index, p.Element.LAST))
        if not self._optimized:
            return Formula(own)
        begin = self._begin(index + 1)
        return replace(begin, conjuncts=(*own, *begin.conjuncts))

    def _selected(self, index: int, element: p.Element) -> tuple[p.Expression, ...]:
        """The conditions on an event that becomes an element of a component, on its begin or take edge."""
        component, further = self.components[index], element is p.Element.CURRENT
        alone, others = (component.scan_take, component.take) if further else (component.scan_begin, component.begin)
        own = self._sorted((*self._scanned(alone, component, element), *(item.expression for item in others)))
        if further and component.high is not None:
            so_far = p.Aggregate(p.AggregateFunction.COUNT, component.variable, None, p.Element.SO_FAR)
            own = (*own, p.Comparison("<", so_far, p.Literal(component.high)))
        return (*type_tests(self._bound, component.event, element), *self._agreements(index, element), *own)

    def _scanned(self, conditions: tuple[p.Expression, ...], component: Component, element: p.Element) -> list[p.Expression]:
        """Conditions on the event alone. One that every element must satisfy is written for the current one; in the basic
        stage it is on the proceed edge.
        """

        def current(node: p.Expression) -> p.Expression:
            if isinstance(node, p.Attribute) and node.variable == component.variable and node.element is p.Element.EACH:
                return replace(node, element=element)
            return node

        each = [item for item in conditions if _each(item, component.variable)]
        found = [item for item in conditions if item not in each]
        for item in each if self._optimized else ():
            written = p.transform(item, current)
            self._order[written] = self._order[item]
            found.append(written)
        return found

    def _sorted(self, conditions: tuple[p.Expression, ...]) -> tuple[p.Expression, ...]:
        """The conditions in the order of the query, `[attr = v]` first."""
        return tuple(sorted(dict.fromkeys(conditions), key=lambda item: self._order.get(item, -1)))

    def _agreements(self, index: int, element: p.Element) -> tuple[p.Expression, ...]:
        """The equivalence tests against earlier events (step 2); for a further element these include its own component."""
        before = self.components[: index + 1 if element is p.Element.CURRENT else index]
        return agreements(self._bound, self.components[index].event, element, [item.event for item in before])

    def _window(self, index: int, element: p.Element) -> Within | None:
        """The window from the first event of the run to the current one; None for the first event."""
        if index == 0 and element in (p.Element.FIRST, p.Element.SINGLE):
            return None
        event = self.components[index].event
        names = state_names(event)
        last = {p.Element.LAST: end_text(event), p.Element.CURRENT: names[-1]}.get(element, names[0])
        return within(self._bound, [last], [start_text(self.components[0].event)])


def _first_element(component: Component) -> p.Element:
    return p.Element.FIRST if component.is_kleene else p.Element.SINGLE


def _each(condition: p.Expression, variable: str) -> bool:
    """Whether a condition must hold for every element of its variable."""
    return any(
        isinstance(node, p.Attribute) and node.variable == variable and node.element is p.Element.EACH
        for node in p.walk(condition)
    )


# --- conditions of all automata ---------------------------------------------------------------------------------------


def type_tests(bound: BoundQuery, event: Event, element: p.Element) -> tuple[p.Expression, ...]:
    """The type test of an element of a component; none without a type column."""
    if bound.schema.type is None:
        return ()
    attribute = p.Attribute(event.variable, bound.schema.type, element)
    if len(event.types) == 1:
        return (p.Comparison("=", attribute, p.Literal(event.types[0])),)
    return (p.In(attribute, tuple(p.Literal(name) for name in event.types)),)


def fixed_tests(bound: BoundQuery, event: Event, element: p.Element) -> tuple[p.Expression, ...]:
    """`[attr = v]` for an element of a component."""
    return tuple(
        p.Comparison("=", p.Attribute(event.variable, test.name, element), test.value)
        for test in bound.equivalences
        if isinstance(test.value, p.Literal) and bound.may_have(event, test.name)
    )


def agreements(bound: BoundQuery, event: Event, element: p.Element, before: Iterable[Event]) -> tuple[p.Expression, ...]:
    """The equivalence tests in canonical form: a comparison with the first earlier component that always has the attribute.

    If there is none, the test is shown as written: the events that have the attribute agree.
    """
    found: list[p.Expression] = []
    for test in bound.equivalences:
        if test.value is not None or not bound.may_have(event, test.name):
            continue
        sure = [item for item in before if always_has(bound, item, test.name)]
        if sure:
            its = p.Attribute(sure[0].variable, test.name, p.Element.FIRST if sure[0].is_kleene else p.Element.SINGLE)
            found.append(p.Comparison("=", p.Attribute(event.variable, test.name, element), its))
        elif element in (p.Element.CURRENT, p.Element.EACH) or any(bound.may_have(item, test.name) for item in before):
            found.append(p.Equivalence(test.name))
    return tuple(found)


def within(bound: BoundQuery, last: Sequence[str], first: Sequence[str]) -> Within | None:
    """The window from the earliest of some events to the latest of others; `now` stands for a time."""
    if bound.count_window is not None:
        length, size = bound.count_window, f"{bound.count_window:,}"
        ends, starts = ([f"position({name})" for name in names] for names in (last, first))
    elif bound.window is not None:
        length, size = bound.window, length_text(bound)
        time = name_text(bound.schema.time)
        ends, starts = ([name if name == "now" else f"{name}.{time}" for name in names] for names in (last, first))
    else:
        return None
    text = f"{one_of('max', ends)} - {one_of('min', starts)} < {size}"
    return Within(one_of("max", last), one_of("min", first), length, text)


def start_text(event: Event) -> str:
    """The first event of a component, as an identifier."""
    return state_names(event)[0]


def end_text(event: Event) -> str:
    """The last event of a component, as an identifier."""
    name = name_text(event.variable)
    return f"{name}[{name}.LEN]" if event.is_kleene else name


def one_of(function: str, names: Sequence[str]) -> str:
    """The one name, or the function of several.

    >>> one_of("max", ["a"]), one_of("max", ["a", "b"])
    ('a', 'max(a, b)')
    """
    return f"{function}({', '.join(names)})" if len(names) > 1 else "".join(names)
