"""A pattern as a disjunction of branches: each a set of positive components with a partial order, plus negative components.

`SEQ` orders every component of a part before every component of the next; `AND` adds no order; `OR` and an optional component
multiply the branches. Only this module defines the meaning of nesting (semantics, section 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from kleene.common.errors import BindingError, Problem
from kleene.pattern.operators import OPTIONAL, Conjunction, Disjunction, Event, Pattern, Sequence

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
        one = Branch((pattern,), frozenset(), ())
        if pattern.quantifier is not None and pattern.quantifier.low == 0:
            present = one
            if pattern.quantifier == OPTIONAL:
                present = Branch((Event(pattern.types, pattern.variable, span=pattern.span),), frozenset(), ())
            return (present, Branch((), frozenset(), ()))
        return (one,)
    assert isinstance(pattern, Sequence | Conjunction | Disjunction)
    parts = [_branches(part) for part in pattern.parts]
    if isinstance(pattern, Disjunction):
        return tuple(branch for alternatives in parts for branch in alternatives)
    total = 1
    for alternatives in parts:
        total *= len(alternatives)
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
        for negative in part.negatives:
            if negative.anywhere:
                negatives.append(_shift(negative, base))
                continue
            # Neighbours inside the part are kept; on a side without any, the neighbours are those of the whole sequence.
            after = frozenset(base + i for i in negative.after) or frozenset(range(base))
            before = frozenset(base + i for i in negative.before) or frozenset(range(end, len(positives)))
            negatives.append(Negative(negative.event, after, before))
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
            shifted = _shift(negative, base)
            direct = not part.positives
            negatives.append(Negative(negative.event, frozenset(), frozenset(), anywhere=True) if direct else shifted)
    return Branch(tuple(positives), frozenset(order), tuple(negatives))


def _shift(negative: Negative, base: int) -> Negative:
    return Negative(
        negative.event,
        frozenset(base + i for i in negative.after),
        frozenset(base + i for i in negative.before),
        negative.anywhere,
    )
