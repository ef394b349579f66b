"""What the parts of the oracle share: a match, and a branch's conditions placed at the component of their last identifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event
from kleene.testing.evaluate import Condition
from kleene.testing.oracle_stream import Stream

Elements = tuple[int, ...]
"""The positions that one component binds, in stream order; one position if the component is not Kleene."""


@dataclass(frozen=True, slots=True)
class Match:
    """Variable and position pairs, sorted by variable; a tuple of positions for a Kleene variable."""

    bindings: tuple[tuple[str, int | tuple[int, ...]], ...]

    @property
    def positions(self) -> tuple[int, ...]:
        """All events of the match, each once, ascending."""
        found: set[int] = set()
        for _, bound in self.bindings:
            found.update(bound if isinstance(bound, tuple) else (bound,))
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Placed:
    """The conditions of a branch by the component that binds their last identifier."""

    growing: tuple[tuple[Condition, ...], ...]
    """Checked on begin and on each take: they hold for a selection only if they hold for every prefix of it."""
    closing: tuple[tuple[Condition, ...], ...]
    """Checked on proceed: they read the complete array of the component."""


def place(stream: Stream, branch: Branch) -> Placed:
    """Each condition on positive variables of the branch, at the component of its last identifier; constants at the first."""
    names = [event.variable for event in branch.positives]
    growing: list[list[Condition]] = [[] for _ in names]
    closing: list[list[Condition]] = [[] for _ in names]
    for item in stream.conditions:
        if item.variables <= set(names):
            last = max((names.index(variable) for variable in item.variables), default=0)
            whole = branch.positives[last].is_kleene and names[last] in item.whole
            (closing if whole else growing)[last].append(item)
    return Placed(tuple(map(tuple, growing)), tuple(map(tuple, closing)))


def bindings_of(branch: Branch, chosen: Sequence[Elements]) -> dict[str, int | tuple[int, ...]]:
    """The bindings of the components bound so far."""
    return {
        event.variable: elements if event.is_kleene else elements[0]
        for event, elements in zip(branch.positives, chosen, strict=False)
    }


def limits(event: Event) -> tuple[int, int | None]:
    """How many events a positive component binds; an absent one is another branch, so never none."""
    if not event.is_kleene or event.quantifier is None:
        return 1, 1
    return max(1, event.quantifier.low), event.quantifier.high


def extremes(stream: Stream, chosen: Sequence[Elements]) -> tuple[int, int]:
    """The first and the last event of a match, in stream order."""
    used = sorted((q for elements in chosen for q in elements), key=lambda q: (stream.order[q], q))
    return used[0], used[-1]
