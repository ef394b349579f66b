"""Which elements of which variables a conjunct reads, and over which elements it quantifies (semantics, section 3).

A conjunct that reads `a[i]`, `a[i-1]` or `a[..i-1]` must hold for every i > 1, one that reads plain `a[].x` for every element.
"""

from __future__ import annotations

from dataclasses import dataclass

from kleene.pattern.predicates import Aggregate, Attribute, Element, Expression, Length, variables, walk

RUNNING = frozenset((Element.CURRENT, Element.PREVIOUS, Element.SO_FAR))
"""References to elements that are resolved while a Kleene variable grows, from its second element on."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunct with its quantifiers."""

    expression: Expression
    variables: frozenset[str]
    running: tuple[str, ...]
    """Kleene variables read by `a[i]`, `a[i-1]` or `a[..i-1]`."""
    each: tuple[str, ...]
    """Kleene variables read by plain `a[].x`."""
    complete: frozenset[str]
    """Kleene variables whose complete array is read, other than element by element: `a[a.LEN]`, `a.LEN`, `f(a[].x)`."""
    first: frozenset[str]
    """Kleene variables read by `a[1]`."""

    @property
    def quantified(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.running, *self.each)))

    @property
    def is_simple(self) -> bool:
        """Whether it is decided on single events, while scanning: for a Kleene variable, on each element."""
        if len(self.variables) > 1:
            return False
        variable = next(iter(self.variables), None)
        return variable is None or not self.kinds(variable) or self.kinds(variable) == {"each"}

    def reads_only(self, variable: str, kind: str) -> bool:
        """Whether the condition reads only one kind (`first`, `running`, `each`) of elements of one variable."""
        return self.variables == {variable} and self.kinds(variable) == {kind}

    def kinds(self, variable: str) -> set[str]:
        """The kinds of elements of a Kleene variable that are read."""
        found = {"first": self.first, "running": self.running, "each": self.each, "complete": self.complete}
        return {kind for kind, names in found.items() if variable in names}


def condition_of(expression: Expression, kleene: frozenset[str]) -> Condition:
    """A conjunct with its quantifiers; `kleene` are the variables that hold arrays.

    >>> a = Attribute("a", "x", Element.CURRENT)
    >>> condition_of(a, frozenset("a")).running
    ('a',)
    """
    running: dict[str, None] = {}
    each: dict[str, None] = {}
    complete: set[str] = set()
    first: set[str] = set()
    for node in walk(expression):
        if isinstance(node, Length):
            complete.add(node.variable)
        if not isinstance(node, Attribute | Aggregate) or node.variable not in kleene:
            continue
        if node.element in RUNNING:
            running[node.variable] = None
        elif isinstance(node, Aggregate) or node.element is Element.LAST:
            complete.add(node.variable)
        elif node.element is Element.FIRST:
            first.add(node.variable)
        else:
            each[node.variable] = None
    return Condition(expression, variables(expression), tuple(running), tuple(each), frozenset(complete), frozenset(first))
