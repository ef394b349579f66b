"""Negation (semantics section 5): a nested query on each positive match, over open intervals.

Under `order_by`, "between" is in stream order; a side without a positive neighbour is bounded by the window from the other end
of the match, in time (or, under a count window, by position). A positive event counts as an occurrence only if it lies inside
the interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kleene.pattern.normalize import Branch, Negative
from kleene.testing.evaluate import Bindings, Condition, all_hold
from kleene.testing.oracle_branch import Elements, bindings_of, extremes
from kleene.testing.oracle_stream import Key, Stream, merge, merge_all


def negated(stream: Stream, branch: Branch, chosen: tuple[Elements, ...]) -> bool:
    """Whether some negative component occurs in its interval; an error is raised only if none surely does."""
    possible = (found for negative in branch.negatives for found in _possible(stream, branch, chosen, negative))
    return not all_hold(partial(_is_no_occurrence, stream, *found) for found in possible)


def _is_no_occurrence(stream: Stream, conditions: Sequence[Condition], bindings: Bindings) -> bool:
    return not stream.all_hold(conditions, bindings)


def _possible(
    stream: Stream, branch: Branch, chosen: tuple[Elements, ...], negative: Negative
) -> Iterator[tuple[Sequence[Condition], Bindings]]:
    """The events that occur in the interval if they satisfy the conditions of the negative component, as (these, bindings)."""
    key = merge_all(stream.start_key, (stream.keys[q] for elements in chosen for q in elements))
    assert key is not None
    bindings = bindings_of(branch, chosen)
    known = {*bindings, negative.event.variable}
    conditions = [c for c in stream.conditions if negative.event.variable in c.variables and c.variables <= known]
    for p in stream.sorted_positions:
        if stream.types[p] not in negative.event.types or merge(key, stream.keys[p]) is None:
            continue
        if any(p in elements for elements in chosen):
            continue  # it means an event that the match does not bind
        if _in_interval(stream, chosen, negative, key, p):
            yield conditions, {**bindings, negative.event.variable: p}


def _in_interval(stream: Stream, chosen: tuple[Elements, ...], negative: Negative, key: Key, p: int) -> bool:
    """Whether p is strictly between the neighbours; where there is none, within the window from the other end of the match."""
    order, (first, last) = stream.order, extremes(stream, chosen)
    if negative.after:
        after_start = all(order[chosen[i][-1]] < order[p] for i in negative.after)
    else:
        after_start = _since(stream, last, key, p)
    if negative.before:
        before_end = all(order[p] < order[chosen[i][0]] for i in negative.before)
    else:
        before_end = _until(stream, first, key, p)
    return after_start and before_end


def _since(stream: Stream, last: int, key: Key, p: int) -> bool:
    """`p.ts > l.ts - T`, or, under a count window, `position(p) > position(l) - n`."""
    bound = stream.bound
    if bound.count_window is not None:
        return stream.distance(p, last, key) < bound.count_window
    return bound.window is None or stream.instants[p] > stream.instants[last] - bound.window


def _until(stream: Stream, first: int, key: Key, p: int) -> bool:
    """`p.ts < f.ts + T`, or, under a count window, `position(p) < position(f) + n`."""
    bound = stream.bound
    if bound.count_window is not None:
        return stream.distance(first, p, key) < bound.count_window
    return bound.window is None or stream.instants[p] < stream.instants[first] + bound.window
