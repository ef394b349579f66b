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

from kleene.common.arrays import Array
from kleene.engine.events.kernels.windows import end_before, end_of_window, first_after, first_in_window
from kleene.engine.kernels import inlined, kernel

ANYWHERE, ALWAYS, IF_NONE = range(3)
"""Which events must be among the places asked for, see `find_scopes`."""

PRECEDES, FOLLOWS, UNORDERED = -1, 1, 0
"""What `relation[u, v]` says of v: it precedes u, follows it, or neither."""


@inlined
def _count_before(component: int, place: int, before_place: Array, starts: Array, candidates: Array) -> int:
    if before_place.shape[1]:
        return int(before_place[component, place])
    low = starts[component]
    high = starts[component + 1]
    while low < high:
        middle = (low + high) >> 1
        if candidates[middle] < place:
            low = middle + 1
        else:
            high = middle
    return int(low - starts[component])


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
    after_slots: Array,
    before_slots: Array,
    first_slots: Array,
    last_slots: Array,
    freshness: int,
    count: int,
    parts: Array,
    offsets: Array,
    segments: Array,
    clock: Array,
    rank: Array,
    tied: bool,
    window: int,
    wanted: Array,
    bounds: Array,
    before_place: Array,
    starts: Array,
    candidates: Array,
    alive: Array,
    order: Array,
    low: Array,
    high: Array,
) -> int:
    """Finds the candidates of a component in scope of each partial match, as ranges `[low, high)`; returns how many there are.

    The slots say which bound events the scope begins after and ends before, and which may be the first and the last of all.
    `freshness`: the component must be one of the places asked for (ALWAYS), or if no bound event is (IF_NONE). `wanted` are
    those places, see `ask`. `alive`, unless it is empty, counts by row the instances that the automaton would begin and end
    there: partial matches whose scope is open.
    """
    evaluations = 0
    for partial in range(count):
        latest = parts[last_slots[0], partial]
        for index in range(1, last_slots.size):
            latest = max(latest, parts[last_slots[index], partial])
        earliest = parts[first_slots[0], partial]
        for index in range(1, first_slots.size):
            earliest = min(earliest, parts[first_slots[index], partial])
        segment = segments[latest] if segments.size else 0
        begin, end = offsets[segment], offsets[segment + 1]
        first = first_in_window(latest, begin, clock, window, bounds)
        to_window = end_of_window(earliest, end, clock, window, bounds)
        last = min(to_window, wanted[1, segment])
        for index in range(after_slots.size):
            place = parts[after_slots[index], partial]
            first = max(first, first_after(place, end, rank, bounds) if tied else place + 1)
        for index in range(before_slots.size):
            place = parts[before_slots[index], partial]
            last = min(last, end_before(place, begin, rank, bounds) if tied else place)
        fresh = wanted[0, segment]
        if freshness == ALWAYS or (freshness == IF_NONE and latest < fresh):
            first = max(first, fresh)
        low[partial] = 0
        high[partial] = 0
        if last > first:
            low[partial] = starts[component] + _count_before(component, first, before_place, starts, candidates)
            high[partial] = starts[component] + _count_before(component, last, before_place, starts, candidates)
            evaluations += high[partial] - low[partial]
        if alive.size and before_slots.size == 0:
            alive[order[latest]] += 1
            alive[order[to_window] if to_window < end else alive.size - 1] -= 1
    return evaluations


@kernel
def choose_scopes(
    choices: int,
    everything: int,
    ends: int,
    count: int,
    parts: Array,
    sets: Array,
    slots: Array,
    relation: Array,
    needs: Array,
    via: Array,
    compiled: int,
    shares: Array,
    offsets: Array,
    segments: Array,
    clock: Array,
    rank: Array,
    window: int,
    wanted: Array,
    bounds: Array,
    before_place: Array,
    starts: Array,
    candidates: Array,
    alive: Array,
    order: Array,
    low: Array,
    high: Array,
    chosen: Array,
    asked: Array,
    sizes: Array,
    promised: Array,
) -> int:
    """As `find_scopes`, for the component of each partial match that promises least work, of those in `choices` (a tree).

    The set of a partial match's bound components is in `sets`. A partial match without a candidate of some component is given
    up. Work is the candidates of a component, and for each that is expected to hold (the `shares` of its conditions) those of
    the component with the fewest after it; with shares of 1 that is the component with the fewest candidates. `ends` is the
    component that every other one precedes, or -1; `asked` gets the conditions to ask, which follow from the set.
    """
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
        from_window = first_in_window(latest, begin, clock, window, bounds)
        to_window = end_of_window(earliest, end, clock, window, bounds)
        best = -1
        least = 0.0
        open_scope = True
        complete = True
        low[partial] = 0
        high[partial] = 0
        for u in range(n):
            sizes[u] = 0
            if ((choices & ~have) >> u) & 1 == 0:
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
            if u == ends or (latest < fresh and have | (1 << u) == everything):
                first = max(first, fresh)
            one = 0
            size = 0
            if last > first:
                one = _count_before(u, first, before_place, starts, candidates)
                size = _count_before(u, last, before_place, starts, candidates) - one
            if size == 0:
                complete = False
                break
            share = float(size)
            for condition in range(needs.size):
                need = needs[condition]
                waits = via[condition] == 0 or via[condition] & ~have != 0
                if (need >> u) & 1 and need & ~(have | (1 << u)) == 0 and waits:
                    share *= shares[condition]
            sizes[u] = size
            promised[0, u] = share
            promised[1, u] = starts[u] + one
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
                best = u
                least = work
        low[partial] = int(promised[1, best])
        high[partial] = low[partial] + sizes[best]
        open_scope = promised[2, best] != 0
        chosen[partial] = best
        conditions = 0
        for condition in range(needs.size):
            need = needs[condition]
            waits = via[condition] == 0 or via[condition] & ~have != 0
            if (compiled >> condition) & 1 and (need >> best) & 1 and need & ~(have | (1 << best)) == 0 and waits:
                conditions |= 1 << condition
        asked[partial] = conditions
        evaluations += high[partial] - low[partial]
        if open_scope and alive.size:
            alive[order[latest]] += 1
            alive[order[to_window] if to_window < end else alive.size - 1] -= 1
    return evaluations
