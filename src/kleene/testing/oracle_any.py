"""skip_till_any_match: every assignment of events that respects order, predicates and window (semantics section 4).

Prunes only with what every completed match must satisfy: order, distinct events, equivalence, the time window, and conditions
whose variables are all bound. Exponential in the number of events under Kleene plus.
"""

from __future__ import annotations

from collections.abc import Iterator

from kleene.pattern.normalize import Branch
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
            if not all(stream.holds(item, bindings) for item in placed.growing[index]):
                continue
            if len(more) >= low and all(stream.holds(item, bindings) for item in placed.closing[index]):
                yield from bind((*chosen, more), agreed)
            if high is None or len(more) < high:
                yield from grow(chosen, more, agreed)

    return bind((), stream.start_key)


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
