"""The structure of a pattern: events under SEQ, AND and OR, as frozen data.

A component that the query leaves unnamed takes its type as variable (`SEQ(Kindle, Case)` binds `Kindle` and `Case`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from kleene.common.errors import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Base of all pattern nodes."""

    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Quantifier:
    """The number of events a component binds: `T+` is (1, None), `T{2,5}` is (2, 5)."""

    low: int
    high: int | None
    single: bool = False
    """True for `T?`, whose variable is an event; that of `T{0,1}` is a list."""


KLEENE_PLUS = Quantifier(1, None)
OPTIONAL = Quantifier(0, 1, single=True)


@dataclass(frozen=True, slots=True)
class Event(Pattern):
    """A component: one event (or, with a quantifier, several) of one of `types`; several types are written `ANY(...)`."""

    types: tuple[str, ...]
    variable: str
    quantifier: Quantifier | None = None
    negated: bool = False

    @property
    def is_kleene(self) -> bool:
        """Whether the variable holds an array of events."""
        return self.quantifier is not None and not self.quantifier.single


@dataclass(frozen=True, slots=True)
class Operator(Pattern):
    """Base of SEQ, AND and OR."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Sequence(Operator):
    """`SEQ(...)`: each part entirely before the next."""


@dataclass(frozen=True, slots=True)
class Conjunction(Operator):
    """`AND(...)`: all parts, in any order."""


@dataclass(frozen=True, slots=True)
class Disjunction(Operator):
    """`OR(...)`: one of the parts."""


def parts_of(pattern: Pattern) -> tuple[Pattern, ...]:
    """The parts of an operator; a component has none."""
    return pattern.parts if isinstance(pattern, Operator) else ()


def walk(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and all its parts, parents first, left to right, without recursion."""
    stack = [pattern]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(parts_of(node)))


def events(pattern: Pattern) -> Iterator[Event]:
    """All components, left to right."""
    return (node for node in walk(pattern) if isinstance(node, Event))


def transform(pattern: Pattern, rule: Callable[[Pattern], Pattern]) -> Pattern:
    """Rewrites bottom-up."""
    if isinstance(pattern, Operator):
        pattern = replace(pattern, parts=tuple(transform(part, rule) for part in pattern.parts))
    return rule(pattern)
