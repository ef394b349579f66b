"""A pattern as a disjunction of branches: each a set of positive components with a partial order, plus negative components.

`SEQ` orders every component of a part before every component of the next; `AND` adds no order; `OR` and an optional component
multiply the branches. Only this module defines the meaning of nesting (semantics, section 2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod

from kleene.common.errors import BindingError, Problem
from kleene.pattern.operators import OPTIONAL, Disjunction, Event, Pattern, Sequence, parts_of

MAX_BRANCHES = 1_000


@dataclass(frozen=True, slots=True)
class Negative:
    """A negative component of a branch and its positive neighbours, as indices into `Branch.positives`.

    Under SEQ the component must not occur after all of `after` and before all of `before`. Empty `after` is a negated start,
    empty `before` a negated end. With `anywhere` (negation under AND) it must not occur in the match's window at all.
    """

    event: Event
    after: frozenset[int]
    before: frozenset[int]
    anywhere: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative: positive components in order of appearance, `order` pairs (i, j) meaning i precedes j (transitive)."""

    positives: tuple[Event, ...]
    order: frozenset[tuple[int, int]]
    negatives: tuple[Negative, ...]

    @property
    def is_sequence(self) -> bool:
        """Whether the order is total, in order of appearance."""
        count = len(self.positives)
        return len(self.order) == count * (count - 1) // 2

    def beside(self, negative: Negative) -> tuple[int, ...]:
        """The positive components whose events a negative one might also match, in its interval: it must refer to other events.

        >>> branch, = normalize(Sequence((Event(("A",), "a"), Event(("A",), "n", negated=True), Event(("B",), "b"))))
        >>> branch.beside(branch.negatives[0])
        ()
        """
        outside = {*negative.after, *negative.before}
        outside |= {i for i, j in self.order if j in negative.after} | {j for i, j in self.order if i in negative.before}
        shared = (i for i, event in enumerate(self.positives) if set(event.types) & set(negative.event.types))
        return tuple(i for i in shared if i not in outside)


def normalize(pattern: Pattern) -> tuple[Branch, ...]:
    """The branches of a pattern, in order of appearance, without duplicates.

    >>> a, b = Event(("A",), "a"), Event(("B",), "b", negated=True)
    >>> branch, = normalize(Sequence((a, b)))
    >>> [event.variable for event in branch.positives], branch.negatives[0].after
    (['a'], frozenset({0}))
    """
    branches = dict.fromkeys(_branches(pattern))
    for branch in branches:
        if not branch.positives:
            raise BindingError(Problem("a pattern needs a positive component in every alternative", pattern.span))
    return tuple(branches)


def _branches(pattern: Pattern) -> tuple[Branch, ...]:
    if isinstance(pattern, Event):
        if pattern.negated:
            return (Branch((), frozenset(), (Negative(pattern, frozenset(), frozenset()),)),)
        present = replace(pattern, quantifier=None) if pattern.quantifier == OPTIONAL else pattern
        one = Branch((present,), frozenset(), ())
        optional = pattern.quantifier is not None and pattern.quantifier.low == 0
        return (one, Branch((), frozenset(), ())) if optional else (one,)
    parts = [_branches(part) for part in parts_of(pattern)]
    if isinstance(pattern, Disjunction):
        return tuple(branch for alternatives in parts for branch in alternatives)
    total = prod(map(len, parts))
    if total > MAX_BRANCHES:
        message = f"OR and optional components give {total} alternatives; at most {MAX_BRANCHES} are supported"
        raise BindingError(Problem(message, pattern.span, "split the query into several"))
    join = _in_sequence if isinstance(pattern, Sequence) else _in_any_order
    return tuple(join(combination) for combination in product(*parts))


def _in_sequence(parts: tuple[Branch, ...]) -> Branch:
    positives: list[Event] = []
    order: set[tuple[int, int]] = set()
    spans: list[tuple[Branch, int]] = []
    for part in parts:
        base = len(positives)
        spans.append((part, base))
        own = range(base, base + len(part.positives))
        order.update(product(range(base), own))
        order.update((base + i, base + j) for i, j in part.order)
        positives.extend(part.positives)
    negatives = []
    for part, base in spans:
        end = base + len(part.positives)
        for negative in (_shift(item, base) for item in part.negatives):
            # Neighbours inside the part are kept; on a side without any, the neighbours are those of the whole sequence.
            after = negative.after or frozenset(range(base))
            before = negative.before or frozenset(range(end, len(positives)))
            negatives.append(negative if negative.anywhere else replace(negative, after=after, before=before))
    return Branch(tuple(positives), frozenset(order), tuple(negatives))


def _in_any_order(parts: tuple[Branch, ...]) -> Branch:
    positives: list[Event] = []
    order: set[tuple[int, int]] = set()
    negatives: list[Negative] = []
    for part in parts:
        base = len(positives)
        order.update((base + i, base + j) for i, j in part.order)
        positives.extend(part.positives)
        for negative in part.negatives:
            direct = not part.positives
            negatives.append(replace(negative, anywhere=True) if direct else _shift(negative, base))
    return Branch(tuple(positives), frozenset(order), tuple(negatives))


def _shift(negative: Negative, base: int) -> Negative:
    after, before = (frozenset(base + i for i in side) for side in (negative.after, negative.before))
    return replace(negative, after=after, before=before)
