"""The states and edges of NFA^b, with their formulas: what a reader of SASE+ (section 3, Figure 2) expects to see.

`state_graph` applies steps 1-6 of section 3.2 to one branch of a query. The basic stage is steps 1-4: the structure, each
conjunct on the edge of its last identifier, the ignore edges by strategy, the window on the edge to F. The optimized stage is
what the engine runs: the window on every begin, take and ignore edge (step 5), and proceed edges that peek at the next begin
condition (step 6; as the semantics read it, always and for every next state but F).

Formulas are data: conjuncts as expressions, and the window. Nothing is executed from here: the engine runs
`kleene.plan.automaton.automaton`, in which a partition already decides the equivalence tests that are written out here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.pattern.policies import Strategy
from kleene.pattern.predicates import (
    Aggregate,
    AggregateFunction,
    Attribute,
    Comparison,
    Element,
    Equivalence,
    Expression,
    In,
    Length,
    Literal,
    Not,
    Or,
    conjunction,
    transform,
    walk,
)
from kleene.pattern.text import expression_text, name_text
from kleene.plan.analysis.keys import always_has
from kleene.plan.automaton.automaton import Component, compile_automaton
from kleene.plan.operators import fixed_values

FINAL = "F"

FALSE = Literal(False)


class EdgeKind(enum.Enum):
    """What a run does with an event (section 3.1)."""

    BEGIN = "begin"
    """Selects it as the first of a component, and goes on to the next state."""
    TAKE = "take"
    """Selects it as a further element."""
    IGNORE = "ignore"
    """Passes it over."""
    PROCEED = "proceed"
    """Leaves a Kleene component without consuming an event."""


@dataclass(frozen=True, slots=True)
class Within:
    """The window: an event is less than a length after the first event of the run."""

    last: str
    """The event, as an identifier: `b`, `a[i]`."""
    first: str
    length: int
    """In the unit of the time column, or in events."""
    text: str


@dataclass(frozen=True, slots=True)
class Formula:
    """The condition of an edge: all conjuncts, and the window. Without either it is true."""

    conjuncts: tuple[Expression, ...] = ()
    window: Within | None = None

    @property
    def expression(self) -> Expression:
        """The conjuncts as one expression, without the window."""
        return conjunction(self.conjuncts) or Literal(True)

    @property
    def is_false(self) -> bool:
        return FALSE in self.conjuncts

    def __str__(self) -> str:
        return " AND ".join(self.parts())

    def parts(self) -> tuple[str, ...]:
        """The texts of the conjuncts, the window last.

        >>> Formula().parts(), Formula((Not(Literal(False)),)).parts()
        (('TRUE',), ('NOT FALSE',))
        """
        if self.is_false:
            return ("FALSE",)
        texts = ((item, expression_text(item)) for item in self.conjuncts)
        own = [f"({text})" if isinstance(item, Or) and len(self.conjuncts) > 1 else text for item, text in texts]
        own += [self.window.text] if self.window is not None else []
        return tuple(own) or ("TRUE",)


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two states."""

    kind: EdgeKind
    source: str
    target: str
    formula: Formula
    peeks: str | None = None
    """On a proceed edge: the state whose begin condition its formula includes."""

    def __str__(self) -> str:
        return f"{self.source} {self.kind.value} {self.target}: {self.formula}"


@dataclass(frozen=True, slots=True)
class StateGraph:
    """The states from the start to F, and the edges, those of a state together."""

    states: tuple[str, ...]
    edges: tuple[Edge, ...]

    def edge(self, source: str, kind: EdgeKind | str) -> Edge:
        """An edge by its source and kind, of which a state has at most one."""
        return next(edge for edge in self.edges if edge.source == source and edge.kind is EdgeKind(kind))

    def lines(self) -> list[str]:
        """The graph as text: a line of states, then a line an edge."""
        return [f"states {' '.join(self.states)}", *map(str, self.edges)]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def state_graph(bound: BoundQuery, branch: Branch, *, optimized: bool = True) -> StateGraph:
    """NFA^b of a branch of a query: `bound.branches` has them."""
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
    microseconds = bound.window // (1000 if unit == "ns" else 1)
    for size, word in ((86_400_000_000, "day"), (3_600_000_000, "hour"), (60_000_000, "minute"), (1_000_000, "second")):
        if microseconds >= size and microseconds % size == 0:
            count = microseconds // size
            return f"{count} {word}{'s' if count != 1 else ''}"
    return f"{microseconds:,} microseconds"


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
        first, after = states[0], following
        if component.is_kleene:
            after = states[1]
        edges = [Edge(EdgeKind.BEGIN, first, after, self._begin(index))]
        if index > 0:
            element = Element.FIRST if component.is_kleene else Element.SINGLE
            edges.append(Edge(EdgeKind.IGNORE, first, first, self._ignore(index, element)))
        if not component.is_kleene:
            return edges
        edges.append(Edge(EdgeKind.TAKE, after, after, self._take(index)))
        edges.append(Edge(EdgeKind.IGNORE, after, after, self._ignore(index, Element.CURRENT)))
        peeks = following if self._optimized and following != FINAL else None
        edges.append(Edge(EdgeKind.PROCEED, after, following, self._proceed(index), peeks))
        return edges

    def _begin(self, index: int) -> Formula:
        element = Element.FIRST if self.components[index].is_kleene else Element.SINGLE
        last = index == len(self.components) - 1 and element is Element.SINGLE
        return Formula(self._begin_conjuncts(index), self._window(index, element) if last or self._optimized else None)

    def _take(self, index: int) -> Formula:
        return Formula(self._take_conjuncts(index), self._window(index, Element.CURRENT) if self._optimized else None)

    def _ignore(self, index: int, element: Element) -> Formula:
        """Step 3. At `p[i]` only the take condition stands in the way of ignoring an event."""
        strategy = self._bound.query.strategy
        window = self._window(index, element) if self._optimized else None
        if strategy is Strategy.SKIP_TILL_ANY_MATCH:
            return Formula((), window)
        if strategy is Strategy.STRICT_CONTIGUITY:
            return Formula((FALSE,))
        if strategy is Strategy.SKIP_TILL_NEXT_MATCH:
            select = self._take_conjuncts(index) if element is Element.CURRENT else self._begin_conjuncts(index)
        else:
            select = (*self._agreements(index, element), *self._fixed(index, element))
        met = conjunction(select)
        return Formula((FALSE,)) if met is None else Formula((Not(met),), window)

    def _proceed(self, index: int) -> Formula:
        """Steps 4 and 6. What holds for the complete component, and for the event that would begin the next."""
        component = self.components[index]
        each = [] if self._optimized else [item for item in component.scan_begin if _each(item, component.variable)]
        conditions = (*each, *(item.expression for item in (*component.element, *component.proceed)))
        own = self._sorted(conditions)
        if component.low > 1:
            own = (*own, Comparison(">=", Length(component.variable), Literal(component.low)))
        if index == len(self.components) - 1:
            return Formula(own, self._window(index, Element.LAST))
        if not self._optimized:
            return Formula(own)
        begin = self._begin(index + 1)
        return replace(begin, conjuncts=(*own, *begin.conjuncts))

    def _begin_conjuncts(self, index: int) -> tuple[Expression, ...]:
        component = self.components[index]
        element = Element.FIRST if component.is_kleene else Element.SINGLE
        scanned = self._scanned(component.scan_begin, component, element)
        own = self._sorted((*scanned, *(item.expression for item in component.begin)))
        return (*self._types(component, element), *self._agreements(index, element), *own)

    def _take_conjuncts(self, index: int) -> tuple[Expression, ...]:
        component = self.components[index]
        element = Element.CURRENT
        scanned = self._scanned(component.scan_take, component, element)
        own = self._sorted((*scanned, *(item.expression for item in component.take)))
        bound: list[Expression] = []
        if component.high is not None:
            so_far = Aggregate(AggregateFunction.COUNT, component.variable, None, Element.SO_FAR)
            bound = [Comparison("<", so_far, Literal(component.high))]
        return (*self._types(component, element), *self._agreements(index, element), *own, *bound)

    def _scanned(self, conditions: tuple[Expression, ...], component: Component, element: Element) -> list[Expression]:
        """Conditions on the event alone. One that every element must satisfy is written for the element at hand; in the basic
        stage it is on the proceed edge.
        """

        def at_hand(node: Expression) -> Expression:
            if isinstance(node, Attribute) and node.variable == component.variable and node.element is Element.EACH:
                return replace(node, element=element)
            return node

        each = [item for item in conditions if _each(item, component.variable)]
        found = [item for item in conditions if item not in each]
        for item in each if self._optimized else ():
            written = transform(item, at_hand)
            self._order[written] = self._order[item]
            found.append(written)
        return found

    def _sorted(self, conditions: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """In the order of the query, `[attr = v]` first."""
        return tuple(sorted(dict.fromkeys(conditions), key=lambda item: self._order.get(item, -1)))

    def _types(self, component: Component, element: Element) -> tuple[Expression, ...]:
        """The type test, where there is a column of types."""
        column, types = self._bound.schema.type, component.event.types
        if column is None:
            return ()
        attribute = Attribute(component.variable, column, element)
        if len(types) == 1:
            return (Comparison("=", attribute, Literal(types[0])),)
        return (In(attribute, tuple(Literal(name) for name in types)),)

    def _agreements(self, index: int, element: Element) -> tuple[Expression, ...]:
        """The equivalence tests in canonical form (step 2): a comparison with the first event that surely has the attribute.

        Where none before it is sure to have it, the test stands as it is written: those that have it agree.
        """
        found: list[Expression] = []
        bound, own = self._bound, self.components[index]
        for test in bound.equivalences:
            if test.value is not None or not self._may_have(own.event, test.name):
                continue
            before = self.components[: index + 1 if element is Element.CURRENT else index]
            sure = [item for item in before if always_has(bound, item.event, test.name)]
            if sure:
                its = Element.FIRST if sure[0].is_kleene else Element.SINGLE
                mine = Attribute(own.variable, test.name, element)
                found.append(Comparison("=", mine, Attribute(sure[0].variable, test.name, its)))
            elif any(self._may_have(item.event, test.name) for item in before):
                found.append(Equivalence(test.name))
        return tuple(found)

    def _fixed(self, index: int, element: Element) -> tuple[Expression, ...]:
        """`[attr = v]` for the event at hand."""
        event = self.components[index].event
        return tuple(
            item
            for item in fixed_values(self._bound, (event,))
            if isinstance(item, Comparison) and isinstance(item.left, Attribute) and item.left.element is element
        )

    def _may_have(self, event: Event, attribute: str) -> bool:
        return not all(self._bound.lacks(event_type, attribute) for event_type in event.types)

    def _window(self, index: int, element: Element) -> Within | None:
        """The window between the first event of the run and the one at hand; the first event needs none."""
        bound, own = self._bound, self.components[index]
        if index == 0 and element in (Element.FIRST, Element.SINGLE):
            return None
        first = state_names(self.components[0].event)[0]
        names = state_names(own.event)
        if element is Element.LAST:
            last = f"{name_text(own.variable)}[{name_text(own.variable)}.LEN]"
        else:
            last = names[1] if element is Element.CURRENT else names[0]
        if bound.count_window is not None:
            text = f"position({last}) - position({first}) < {bound.count_window:,}"
            return Within(last, first, bound.count_window, text)
        if bound.window is None:
            return None
        time = name_text(bound.schema.time)
        return Within(last, first, bound.window, f"{last}.{time} - {first}.{time} < {length_text(bound)}")


def _each(condition: Expression, variable: str) -> bool:
    """Whether a condition must hold for every element of its variable."""
    return any(
        isinstance(node, Attribute) and node.variable == variable and node.element is Element.EACH for node in walk(condition)
    )
