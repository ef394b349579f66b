"""Lazy evaluation: the candidates in scope of partial matches (`kleene.engine.lazy.kernels.extension` extends them by these).

Events are known by their places: partition by partition (segments), in stream order within each. The candidates of a component
in a scope are a range of its list, found by binary search; where so many events will be bound that it pays, tables replace the
search: `bounds` says, by place, what an event allows the others to be, and `before_place[u, place]` is how many candidates of
component u come before a place. A partial match is a column of `parts`: the place of each single component's event, and four
slots for a Kleene component (its first and its last element, its node in the chain of elements, its length). Nothing waits:
what the paper's automaton would hold as an instance until later events come is extended at once with the events that are
there, earlier and later ones alike.

A scope (sections 4 and 5 of the paper) begins after the latest bound event that must precede the component, ends before the
earliest that must follow it, and lies in the window that the bound events leave. Cost: some 10 ns a partial match with tables
(some 10 ns an event to make them), 100-200 ns by search.
"""

from __future__ import annotations

from typing import NamedTuple

from kleene.common.arrays import Array
from kleene.engine.events.kernels.tables import Stream
from kleene.engine.events.kernels.windows import end_before, end_of_window, first_after, first_in_window
from kleene.engine.kernels import inlined, kernel

ANYWHERE, ALWAYS, IF_NONE = range(3)
"""Which events must be among the places asked for, see `find_scopes`."""

PRECEDES, FOLLOWS, UNORDERED = -1, 1, 0
"""What `relation[u, v]` says of v: it precedes u, follows it, or neither."""


class Candidates(NamedTuple):
    """The candidates of component u: `places[starts[u] : starts[u + 1]]`."""

    starts: Array
    places: Array
    before_place: Array
    """How many of each component come before a place; empty where the places are searched."""


class Window(NamedTuple):
    """Where matches may lie."""

    window: int
    bounds: Array
    """What an event allows the others to be, by place, see `windows.prepare`; empty where that is searched."""
    wanted: Array
    """By segment the places that matches may end with, see `ask`."""


class Alive(NamedTuple):
    """The instances that the paper's automaton would hold: `counts` by row of those that it would begin, less those that it
    would end there; empty if they are not counted.
    """

    counts: Array
    order: Array


class Slots(NamedTuple):
    """Which slots of a partial match bound the scope of a component (section 5.1)."""

    after: Array
    """s(e): the scope starts after the latest of these, the bound events that precede it directly (Prec)."""
    before: Array
    """f(e): the scope finishes before the earliest of these, the bound events that follow it directly (Succ)."""
    first: Array
    """Those that may be the first of all."""
    last: Array
    """Those that may be the last of all."""


class Scopes(NamedTuple):
    """The scope of each partial match: its candidates are the range `[low, high)`."""

    low: Array
    high: Array


class Tree(NamedTuple):
    """What the choice of the next component is made by (section 6)."""

    choices: int
    """The components to choose from."""
    everything: int
    ends: int
    """The component that every other one precedes, or -1."""
    slots: Array
    relation: Array
    needs: Array
    """The components of each condition."""
    via: Array
    compiled: int
    """The conditions that filters decide."""
    shares: Array
    """The share of tuples that satisfies each condition."""
    sizes: Array
    promised: Array


@inlined
def _count_before(component: int, place: int, candidates: Candidates) -> int:
    if candidates.before_place.shape[1]:
        return int(candidates.before_place[component, place])
    low = candidates.starts[component]
    high = candidates.starts[component + 1]
    while low < high:
        middle = (low + high) >> 1
        if candidates.places[middle] < place:
            low = middle + 1
        else:
            high = middle
    return int(low - candidates.starts[component])


@inlined
def _count_alive(latest: int, to_window: int, end: int, alive: Alive) -> None:
    """An instance is alive from its latest event to the end of its window."""
    alive.counts[alive.order[latest]] += 1
    alive.counts[alive.order[to_window] if to_window < end else alive.counts.size - 1] -= 1


@kernel
def count_candidates(masks: Array, bits: Array, bounds: Array, counts: Array) -> None:
    """Counts the rows that have each bit, slice by slice: slice i is the rows from `bounds[i]` to before `bounds[i + 1]`."""
    for piece in range(bounds.size - 1):
        part = masks[bounds[piece] : bounds[piece + 1]]
        for index in range(bits.size):
            bit = bits[index]
            found = 0
            for row in range(part.size):
                found += (part[row] >> bit) & 1
            counts[index, piece] += found


@kernel
def list_candidates(masks: Array, bits: Array, starts: Array, candidates: Array) -> None:
    """Lists the candidates of each component: component u's are `candidates[starts[u] : starts[u + 1]]`."""
    for component in range(bits.size):
        bit = bits[component]
        found = starts[component]
        for place in range(masks.size):
            if found < candidates.size:
                candidates[found] = place
            found += (masks[place] >> bit) & 1


@kernel
def count_before(masks: Array, bits: Array, before_place: Array) -> None:
    """Counts how many candidates of each component come before each place, and before the end."""
    for component in range(bits.size):
        bit = bits[component]
        counts = before_place[component]
        found = 0
        for place in range(masks.size):
            counts[place] = found
            found += (masks[place] >> bit) & 1
        counts[masks.size] = found


@kernel
def count_around(places: Array, offsets: Array, segments: Array, clock: Array, window: int, bounds: Array) -> int:
    """How many other events lie less than a window from the events at some places, in their segments."""
    around = 0
    for entry in range(places.size):
        place = places[entry]
        segment = segments[place] if segments.size else 0
        first = first_in_window(place, offsets[segment], clock, window, bounds)
        around += end_of_window(place, offsets[segment + 1], clock, window, bounds) - first - 1
    return around


@kernel
def find_scopes(
    component: int,
    slots: Slots,
    freshness: int,
    count: int,
    parts: Array,
    stream: Stream,
    within: Window,
    candidates: Candidates,
    alive: Alive,
    scopes: Scopes,
) -> int:
    """Finds the candidates of a component in scope of each partial match; returns how many there are.

    `freshness`: the component must be one of the places that matches may end with (ALWAYS), or if no bound event is (IF_NONE).
    """
    offsets = stream.offsets
    segments = stream.segments
    rank = stream.rank
    bounds = within.bounds
    wanted = within.wanted
    start = candidates.starts[component]
    evaluations = 0
    for partial in range(count):
        latest = parts[slots.last[0], partial]
        for index in range(1, slots.last.size):
            latest = max(latest, parts[slots.last[index], partial])
        earliest = parts[slots.first[0], partial]
        for index in range(1, slots.first.size):
            earliest = min(earliest, parts[slots.first[index], partial])
        segment = segments[latest] if segments.size else 0
        begin, end = offsets[segment], offsets[segment + 1]
        first = first_in_window(latest, begin, stream.clock, within.window, bounds)
        to_window = end_of_window(earliest, end, stream.clock, within.window, bounds)
        last = min(to_window, wanted[1, segment])
        for index in range(slots.after.size):
            place = parts[slots.after[index], partial]
            first = max(first, first_after(place, end, rank, bounds) if stream.tied else place + 1)
        for index in range(slots.before.size):
            place = parts[slots.before[index], partial]
            last = min(last, end_before(place, begin, rank, bounds) if stream.tied else place)
        fresh = wanted[0, segment]
        if freshness == ALWAYS or (freshness == IF_NONE and latest < fresh):
            first = max(first, fresh)
        scopes.low[partial] = 0
        scopes.high[partial] = 0
        if last > first:
            scopes.low[partial] = start + _count_before(component, first, candidates)
            scopes.high[partial] = start + _count_before(component, last, candidates)
            evaluations += scopes.high[partial] - scopes.low[partial]
        if alive.counts.size and slots.before.size == 0:
            _count_alive(latest, to_window, end, alive)
    return evaluations


@kernel
def choose_scopes(
    tree: Tree,
    count: int,
    parts: Array,
    sets: Array,
    stream: Stream,
    within: Window,
    candidates: Candidates,
    alive: Alive,
    scopes: Scopes,
    chosen: Array,
    asked: Array,
) -> int:
    """As `find_scopes`, for the component of each partial match that promises least work, of those in `choices` (a tree).

    The set of a partial match's bound components is in `sets`. A partial match without a candidate of some component is given
    up. Work is the candidates of a component, and for each that is expected to hold (the `shares` of its conditions) those of
    the component with the fewest after it; with shares of 1 that is the component with the fewest candidates. `asked` gets the
    conditions to ask, which follow from the set.
    """
    slots = tree.slots
    relation = tree.relation
    needs = tree.needs
    via = tree.via
    sizes = tree.sizes
    promised = tree.promised
    offsets = stream.offsets
    segments = stream.segments
    rank = stream.rank
    bounds = within.bounds
    wanted = within.wanted
    n = relation.shape[0]
    evaluations = 0
    for partial in range(count):
        have = sets[0, partial]
        earliest = offsets[offsets.size - 1]
        latest = -1
        for other in range(n):
            if (have >> other) & 1:
                earliest = min(earliest, parts[slots[0, other], partial])
                latest = max(latest, parts[slots[1, other], partial])
        segment = segments[latest] if segments.size else 0
        begin, end = offsets[segment], offsets[segment + 1]
        fresh = wanted[0, segment]
        from_window = first_in_window(latest, begin, stream.clock, within.window, bounds)
        to_window = end_of_window(earliest, end, stream.clock, within.window, bounds)
        best = -1
        least = 0.0
        open_scope = True
        complete = True
        scopes.low[partial] = 0
        scopes.high[partial] = 0
        for u in range(n):
            sizes[u] = 0
            if ((tree.choices & ~have) >> u) & 1 == 0:
                continue
            first = from_window
            last = min(to_window, wanted[1, segment])
            is_open = True
            for other in range(n):
                if (have >> other) & 1 == 0:
                    continue
                if relation[u, other] == PRECEDES:
                    first = max(first, first_after(parts[slots[1, other], partial], end, rank, bounds))
                elif relation[u, other] == FOLLOWS:
                    last = min(last, end_before(parts[slots[0, other], partial], begin, rank, bounds))
                    is_open = False
            if u == tree.ends or (latest < fresh and have | (1 << u) == tree.everything):
                first = max(first, fresh)
            one = 0
            size = 0
            if last > first:
                one = _count_before(u, first, candidates)
                size = _count_before(u, last, candidates) - one
            if size == 0:
                complete = False  # p_ne, non-empty, does not hold
                break
            share = float(size)
            for condition in range(needs.size):
                need = needs[condition]
                waits = via[condition] == 0 or via[condition] & ~have != 0
                if (need >> u) & 1 and need & ~(have | (1 << u)) == 0 and waits:
                    share *= tree.shares[condition]
            sizes[u] = size
            promised[0, u] = share
            promised[1, u] = candidates.starts[u] + one
            promised[2, u] = is_open
        if not complete:
            chosen[partial] = -1
            continue
        for u in range(n):
            if sizes[u] == 0:
                continue
            following = 0
            for other in range(n):
                if other != u and sizes[other] and (following == 0 or sizes[other] < following):
                    following = sizes[other]
            work = sizes[u] + promised[0, u] * following
            if best < 0 or work < least:
                best = u  # p_se: the most selective; with shares, the one that promises least work
                least = work
        scopes.low[partial] = int(promised[1, best])
        scopes.high[partial] = scopes.low[partial] + sizes[best]
        open_scope = promised[2, best] != 0
        chosen[partial] = best
        conditions = 0
        for condition in range(needs.size):
            need = needs[condition]
            waits = via[condition] == 0 or via[condition] & ~have != 0
            if (tree.compiled >> condition) & 1 and (need >> best) & 1 and need & ~(have | (1 << best)) == 0 and waits:
                conditions |= 1 << condition
        asked[partial] = conditions
        evaluations += scopes.high[partial] - scopes.low[partial]
        if open_scope and alive.counts.size:
            _count_alive(latest, to_window, end, alive)
    return evaluations
