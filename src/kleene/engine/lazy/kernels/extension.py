"""Lazy evaluation: partial matches extended by those of the candidates in their scopes that satisfy the conditions.

Events, candidates and partial matches are those of `kleene.engine.lazy.kernels.chain`. Candidates that conditions leave few of
are looked up by value (`Narrowed`). Cost: 1-2 ns a candidate that is evaluated, 0.1 us a look-up, and some nanoseconds a
partial match that is written.
"""

from __future__ import annotations

from typing import NamedTuple

from kleene.common.arrays import Array
from kleene.engine.events.kernels.ranked import Ranked, list_within
from kleene.engine.events.kernels.tables import Columns
from kleene.engine.kernels import LazyFilter, inlined, kernel
from kleene.engine.kernels.rows import lower_bound

PARTIAL, OFFSET, COUNT = range(3)
"""Entries of the `state` array: where to go on, and how many partial matches were written."""

DONE, OUTPUT_FULL = 0, 1


class Extension(NamedTuple):
    """What partial matches are extended by."""

    further: bool
    """Whether a Kleene component gets another element."""
    chosen: Array
    """The component, of each partial match in a tree."""
    asked: Array
    """The conditions to ask, of each partial match in a tree."""
    reads: Array
    """The slots that the conditions read."""
    worth: int
    """Partial matches are decided together if that saves the evaluation of more candidates than this for each."""
    bound_set: int
    """The components that are bound; in a tree each partial match has its own."""
    slots: Array
    distinct: Array
    """The components that may not have an event that another one has."""


class Parts(NamedTuple):
    """Partial matches, a column each: the places of their events; in a tree `sets` has the bound components, and the one bound
    last.
    """

    parts: Array
    sets: Array


class Narrowed(NamedTuple):
    """What conditions leave of the candidates of a component, by a number of each."""

    lowest: Array
    """By partial match the least number of a candidate; empty if all in scope are looked at."""
    highest: Array
    ranked: Ranked
    """The candidates by number, entries counted from `start` on."""
    start: int
    few_of: int
    """They are looked up where they are at most one in 2 to this power of those in scope."""


class Decided(NamedTuple):
    """Room for what a filter decides about: the bound events, and the candidates."""

    bound: Array
    selected: Array


@inlined
def _alike(
    partial: int, count: int, reads: Array, parts: Array, low: Array, high: Array, room: int
) -> tuple[int, int, int, int]:
    """The end of the partial matches from one on that have the same events in the slots `reads`, the candidates that lie in
    their scopes, without gaps and at most `room`, and how many more are asked for by one after the other.
    """
    first, last = low[partial], high[partial]
    asked = last - first
    following = partial + 1
    while following < count:
        same = True
        for index in range(reads.size):
            same = same and parts[reads[index], following] == parts[reads[index], partial]
        if not same:
            break
        size = high[following] - low[following]
        if size:
            wider_first, wider_last = min(first, low[following]), max(last, high[following])
            if low[following] > last or high[following] < first or wider_last - wider_first > room:
                break
            first, last = wider_first, wider_last
        asked += size
        following += 1
    return following, first, last, asked - (last - first)


@inlined
def _copy(values: Array, out: Array) -> None:
    """Numbers from another kind of array. A loop over a part of an array is compiled to vector instructions, one from a
    number to another is not: indices might be negative, which count from the end.
    """
    for index in range(values.size):
        out[index] = values[index]


@inlined
def _fill(value: int, out: Array) -> None:
    for index in range(out.size):
        out[index] = value


@inlined
def _look_up(partial: int, low: int, high: int, candidates: Array, narrowed: Narrowed, selected: Array) -> int:
    """Selects the candidates of a range that conditions leave to a partial match; -1 if they are not few."""
    if narrowed.lowest.size == 0:
        return -1
    start = narrowed.start
    most = min(selected.size, (high - low) >> narrowed.few_of)
    found = list_within(
        low - start, high - start, narrowed.lowest[partial], narrowed.highest[partial], narrowed.ranked, most, selected
    )
    for index in range(found):
        selected[index] = candidates[start + selected[index]]
    return found


@inlined
def _append(
    partial: int,
    component: int,
    further: bool,
    parts: Array,
    slots: Array,
    selected: Array,
    begin: int,
    kept: int,
    out: Array,
    written: int,
) -> None:
    """Writes a partial match with each of its selected candidates."""
    for slot in range(parts.shape[0]):
        _fill(parts[slot, partial], out[slot, written : written + kept])
    _copy(selected[begin : begin + kept], out[slots[1, component], written : written + kept])
    if not further and slots[0, component] != slots[1, component]:
        _copy(selected[begin : begin + kept], out[slots[0, component], written : written + kept])


@inlined
def _hold(
    component: int,
    site: int,
    conditions: int,
    n: int,
    bound: Array,
    selected: Array,
    lazy_filter: LazyFilter,
    columns: Columns,
) -> int:
    """Keeps those of n selected places that satisfy conditions; how many they are."""
    return lazy_filter(
        2 * component + site,
        conditions,
        n,
        columns.valid.shape[1],
        bound.ctypes,
        selected.ctypes,
        columns.ints.ctypes,
        columns.floats.ctypes,
        columns.valid.ctypes,
        columns.constants.ctypes,
    )


@kernel
def extend(
    extension: Extension,
    count: int,
    given: Parts,
    low: Array,
    high: Array,
    candidates: Array,
    deciding: Decided,
    state: Array,
    extended: Parts,
    lazy_filter: LazyFilter,
    columns: Columns,
    narrowed: Narrowed,
) -> int:
    """Extends partial matches by each of their candidates that satisfies the conditions, until the output is full.

    Partial matches of a chain come in its order, so those that have the events in common which the conditions read often follow
    each other: their candidates are decided together, and each takes those in its scope, if that saves enough.
    """
    further = extension.further
    chosen = extension.chosen
    asked = extension.asked
    slots = extension.slots
    distinct = extension.distinct
    parts = given.parts
    out = extended.parts
    bound = deciding.bound
    selected = deciding.selected
    room = out.shape[1]
    width = parts.shape[0]
    tree = chosen.size > 1
    site = 1 if further else 0
    alike_end = 0
    decided = -1
    written = 0
    for partial in range(state[PARTIAL], count):
        at = low[partial] + state[OFFSET]
        if at >= high[partial]:
            state[OFFSET] = 0
            continue
        component = chosen[partial] if tree else chosen[0]
        conditions = asked[partial] if tree else asked[0]
        have = given.sets[0, partial] if tree else extension.bound_set
        apart = distinct[component] & have
        if conditions:
            for slot in range(width):
                bound[slot] = parts[slot, partial]
        if conditions and not tree and apart == 0 and partial >= alike_end and state[OFFSET] == 0:
            alike_end, first, last, saved = _alike(partial, count, extension.reads, parts, low, high, room)
            decided = -1
            if last - first <= room and saved > extension.worth * (alike_end - partial):
                decided = _look_up(partial, first, last, candidates, narrowed, selected)
                if decided < 0:
                    _copy(candidates[first:last], selected)
                    decided = last - first
                if decided:
                    decided = _hold(component, site, conditions, decided, bound, selected, lazy_filter, columns)
        if decided >= 0 and partial < alike_end:
            begin = lower_bound(selected, 0, decided, candidates[at])
            kept = lower_bound(selected, begin, decided, candidates[high[partial] - 1] + 1) - begin
            if kept > room - written:
                state[PARTIAL] = partial
                state[COUNT] = written
                return OUTPUT_FULL
            _append(partial, component, further, parts, slots, selected, begin, kept, out, written)
            written += kept
            continue
        while at < high[partial]:
            piece = min(high[partial] - at, room - written)
            listed = -1
            if at == low[partial]:
                listed = _look_up(partial, at, high[partial], candidates, narrowed, selected)
            if piece == 0 or listed > piece:
                state[PARTIAL] = partial
                state[COUNT] = written
                return OUTPUT_FULL
            if listed >= 0:
                at = high[partial]
                piece = listed
            else:
                _copy(candidates[at : at + piece], selected)
                at += piece
                state[OFFSET] += piece
            kept = piece
            if conditions and kept:
                kept = _hold(component, site, conditions, piece, bound, selected, lazy_filter, columns)
            if apart:
                piece = kept
                kept = 0
                for index in range(piece):
                    place = selected[index]
                    differs = True
                    for other in range(distinct.size):
                        if (apart >> other) & 1 and parts[slots[0, other], partial] == place:
                            differs = False
                    selected[kept] = place
                    kept += 1 if differs else 0
            if kept == 0:
                continue
            _append(partial, component, further, parts, slots, selected, 0, kept, out, written)
            if tree:
                _fill(have | (1 << component), extended.sets[0, written : written + kept])
                _fill(component, extended.sets[1, written : written + kept])
            written += kept
        state[OFFSET] = 0
    state[PARTIAL] = count
    state[COUNT] = written
    return DONE


@kernel
def count_held(
    component: int,
    conditions: int,
    parts: Array,
    slots: Array,
    scratch: Array,
    lazy_filter: LazyFilter,
    columns: Columns,
) -> int:
    """Counts the tuples of single events that satisfy conditions which are decided when a component is bound.

    `scratch` has room for the slots of a tuple and one place more.
    """
    width = parts.shape[0]
    held = 0
    bound, selected = scratch[:width], scratch[width:]
    for entry in range(parts.shape[1]):
        for slot in range(width):
            bound[slot] = parts[slot, entry]
        selected[0] = parts[slots[0, component], entry]
        held += _hold(component, 0, conditions, 1, bound, selected, lazy_filter, columns)
    return held


@kernel
def read_elements(nodes: Array, lengths: Array, node_place: Array, node_before: Array, offsets: Array, places: Array) -> None:
    """Writes the elements that chains of nodes hold, one list after the other."""
    end = 0
    for entry in range(nodes.size):
        end += lengths[entry]
        offsets[entry + 1] = end
        node = nodes[entry]
        at = end
        while node >= 0:
            at -= 1
            places[at] = node_place[node]
            node = node_before[node]
