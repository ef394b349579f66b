"""skip_till_any_match: every assignment of events that respects order, predicates and window (semantics section 4).

Prunes only with what every completed match must satisfy: order, distinct events, equivalence, the time window, and conditions
whose variables are all bound, unless they fail: what is found then is decided by `conditions_hold`.

Exponential in the number of events under Kleene plus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from kleene.common.errors import DataError
from kleene.pattern.normalize import Branch
from kleene.testing.evaluate import Bindings, Condition
from kleene.testing.oracle_branch import Elements, bindings_of, extremes, limits, place
from kleene.testing.oracle_stream import Key, Stream, merge


def assignments(stream: Stream, branch: Branch) -> Iterator[tuple[Elements, ...]]:
    """Every assignment of events to the positive components that respects order, predicates and window."""
    placed = place(stream, branch)
    agreeing = [p for p in stream.sorted_positions if merge(stream.start_key, stream.keys[p]) is not None]
    candidates = [[p for p in agreeing if stream.types[p] in event.types] for event in branch.positives]

    def bind(chosen: tuple[Elements, ...], key: Key) -> Iterator[tuple[Elements, ...]]:
        if len(chosen) == len(branch.positives):
            first, last = extremes(stream, chosen)
            if stream.within(first, last, key):
                yield chosen
            return
        yield from grow(chosen, (), key)

    def grow(chosen: tuple[Elements, ...], elements: Elements, key: Key) -> Iterator[tuple[Elements, ...]]:
        index = len(chosen)
        low, high = limits(branch.positives[index])
        for p in candidates[index]:
            more, agreed = (*elements, p), merge(key, stream.keys[p])
            if agreed is None or not _fits(stream, branch, chosen, elements, p):
                continue
            bindings = bindings_of(branch, (*chosen, more))
            if not _may_hold(stream, placed.growing[index], bindings):
                continue
            if len(more) >= low and _may_hold(stream, placed.closing[index], bindings):
                yield from bind((*chosen, more), agreed)
            if high is None or len(more) < high:
                yield from grow(chosen, more, agreed)

    return bind((), stream.start_key)


def conditions_hold(stream: Stream, branch: Branch, chosen: tuple[Elements, ...]) -> bool:
    """Whether an assignment satisfies all conditions; an error of one is raised only if the others hold."""
    placed = place(stream, branch)
    items = (item for of_one in zip(placed.growing, placed.closing, strict=True) for each in of_one for item in each)
    return stream.all_hold(items, bindings_of(branch, chosen))


def _may_hold(stream: Stream, items: Sequence[Condition], bindings: Bindings) -> bool:
    """Whether no condition is against it; one that fails is not."""
    for item in items:
        with suppress(DataError):
            if not stream.holds(item, bindings):
                return False
    return True


def _fits(stream: Stream, branch: Branch, chosen: tuple[Elements, ...], elements: Elements, p: int) -> bool:
    """Whether the next component may take p: a new event, in order, and not outside the time window of those bound."""
    order, index = stream.order, len(chosen)
    if elements and not order[elements[-1]] < order[p]:
        return False
    for other, bound in enumerate(chosen):
        if p in bound or ((other, index) in branch.order and not order[bound[-1]] < order[p]):
            return False
    instants = [stream.instants[q] for bound in (*chosen, (*elements, p)) for q in bound]
    return stream.bound.window is None or max(instants) - min(instants) < stream.bound.window
