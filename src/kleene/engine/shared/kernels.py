"""Joins of partial matches: what a multi-pattern plan is made of (sections 3.1 and 5 of the multi-pattern paper).

A relation holds the partial matches of a node of the plan: a place per slot, and the places of the first and the last event.
The relation of a leaf is the list of its events. A join streams one relation, in blocks, and looks up the other, which is
sorted by last event: what is in scope of a partial match is a range of it. In one pass over a working set each relation is made
once, however many patterns it is part of; nothing waits for later events, as all of them are there.

Cost: 30-60 ns to find the range of a streamed partial match, 5-9 ns for each candidate in it.
"""

from __future__ import annotations

from typing import NamedTuple

from kleene.common.arrays import Array
from kleene.engine.events.kernels.tables import Columns, Stream
from kleene.engine.events.kernels.windows import end_before, end_of_window, first_after, first_in_window
from kleene.engine.kernels import inlined, kernel
from kleene.engine.kernels.rows import ABOVE, BELOW, EQUAL, lower_bound

DONE, OUTPUT_FULL = 0, 1
STREAMED, CANDIDATE, COUNT, EVALUATIONS = range(4)
"""Entries of the `state` of a join: where to go on, how many partial matches were written, how many candidates looked at."""

STREAMED_SLOT, STREAMED_COLUMN, PROBED_SLOT, PROBED_COLUMN, ACCEPTED, FLOATING = range(6)
"""Columns of `Rules.comparisons`."""


class Relation(NamedTuple):
    """What a node of the multi-pattern multitree finds: the partial matches of its subpattern, as many as `size`. `parts` has a
    row per slot.
    """

    size: int
    parts: Array
    first: Array
    last: Array


class Rules(NamedTuple):
    """What is asked of a pair, in slots (streamed, probed)."""

    precede: Array
    """The streamed event precedes the probed one."""
    follow: Array
    """The streamed event follows the probed one."""
    closing: Array
    """Streamed slots that all probed events precede."""
    distinct: Array
    """Slots that may not hold the same event."""
    comparisons: Array


class Scope(NamedTuple):
    """Where the pairs of a join may lie."""

    window: int
    bounds: Array
    """What an event allows the others to be, by place; empty where that is searched."""
    fresh: Array
    """By segment the first place that a pair may end with; empty if it may be any."""


class Lists(NamedTuple):
    """List k has `elements[offsets[k] : offsets[k + 1]]` and belongs to `match[k]`."""

    match: Array
    offsets: Array
    elements: Array


@kernel
def list_leaves(codes: Array, set_starts: Array, set_leaves: Array, ends: Array, places: Array) -> None:
    """Lists the places of each leaf: `codes` says by place which set of leaves the event is in (0: none). `ends` holds where
    the list of each leaf begins, and then where it ends.
    """
    for place in range(codes.size):
        code = codes[place]
        for k in range(set_starts[code], set_starts[code + 1]):
            leaf = set_leaves[k]
            places[ends[leaf]] = place
            ends[leaf] += 1


@inlined
def follows(later: int, earlier: int, rank: Array, tied: bool) -> bool:
    """Whether one event comes after another of its segment in stream order."""
    return later > earlier and (not tied or rank[later] != rank[earlier])


@inlined
def scope(streamed: Relation, i: int, rules: Rules, stream: Stream, pairs: Scope) -> tuple[int, int]:
    """The places between which the last event of a partial match must lie that can be joined with the streamed one."""
    first = streamed.first[i]
    last = streamed.last[i]
    segment = stream.segments[last] if stream.segments.size else 0
    begin = stream.offsets[segment]
    end = stream.offsets[segment + 1]
    if stream.clock[last] - stream.clock[first] >= pairs.window:
        return end, begin  # the child may serve a wider window
    low = first_in_window(last, begin, stream.clock, pairs.window, pairs.bounds)
    high = end_of_window(first, end, stream.clock, pairs.window, pairs.bounds)
    for k in range(rules.precede.shape[0]):
        place = streamed.parts[rules.precede[k, 0], i]
        low = max(low, first_after(place, end, stream.rank, pairs.bounds) if stream.tied else place + 1)
    for k in range(rules.closing.size):
        place = streamed.parts[rules.closing[k], i]
        high = min(high, end_before(place, begin, stream.rank, pairs.bounds) if stream.tied else place)
    if pairs.fresh.size and last < pairs.fresh[segment]:
        low = max(low, pairs.fresh[segment])
    return low, high


@inlined
def within(streamed: Relation, i: int, probed: Relation, chosen: Array, count: int, stream: Stream, window: int) -> int:
    """Keeps, in place, those of `count` chosen partial matches that lie in one window with the streamed one."""
    first = streamed.first[i]
    last = streamed.last[i]
    kept = 0
    for k in range(count):
        j = chosen[k]
        chosen[kept] = j
        kept += int(stream.clock[max(last, probed.last[j])] - stream.clock[min(first, probed.first[j])] < window)
    return kept


@inlined
def in_order(place: int, is_first: bool, probed: Relation, slot: int, chosen: Array, count: int, stream: Stream) -> int:
    """Keeps, in place, those of `count` chosen partial matches whose event at a slot comes after a place, or else before it."""
    kept = 0
    for k in range(count):
        other = probed.parts[slot, chosen[k]]
        later, earlier = (other, place) if is_first else (place, other)
        chosen[kept] = chosen[k]
        kept += int(follows(later, earlier, stream.rank, stream.tied))
    return kept


@inlined
def without(place: int, probed: Relation, slot: int, chosen: Array, count: int) -> int:
    """Keeps, in place, those of `count` chosen partial matches that have another event at a slot."""
    kept = 0
    for k in range(count):
        other = probed.parts[slot, chosen[k]]
        chosen[kept] = chosen[k]
        kept += int(other != place)
    return kept


@inlined
def compared(place: int, probed: Relation, chosen: Array, count: int, comparison: Array, values: Columns) -> int:
    """Keeps, in place, those of `count` chosen partial matches that a comparison with a place holds for; with NULL it never
    does, and a NaN only differs.
    """
    left_column = comparison[STREAMED_COLUMN]
    slot = comparison[PROBED_SLOT]
    column = comparison[PROBED_COLUMN]
    accepted = comparison[ACCEPTED]
    kept = 0
    if comparison[FLOATING]:
        latest = values.valid.shape[0] - 1
        if not values.valid[latest - left_column, place]:
            return 0
        one = values.floats[left_column, place]
        unordered = accepted if accepted == BELOW | ABOVE else 0
        for k in range(count):
            right = probed.parts[slot, chosen[k]]
            other = values.floats[column, right]
            outcome = (one < other) * BELOW | (one == other) * EQUAL | (one > other) * ABOVE
            chosen[kept] = chosen[k]
            kept += int(values.valid[latest - column, right] != 0 and (outcome & accepted | (outcome == 0) * unordered) != 0)
        return kept
    if not values.valid[left_column, place]:
        return 0
    number = values.ints[left_column, place]
    for k in range(count):
        right = probed.parts[slot, chosen[k]]
        another = values.ints[column, right]
        outcome = (number < another) * BELOW | (number == another) * EQUAL | (number > another) * ABOVE
        chosen[kept] = chosen[k]
        kept += int(values.valid[column, right] != 0 and outcome & accepted != 0)
    return kept


@kernel
def join(
    streamed: Relation,
    probed: Relation,
    single: bool,
    streamed_at: int,
    probed_at: int,
    rules: Rules,
    values: Columns,
    stream: Stream,
    pairs: Scope,
    state: Array,
    chosen: Array,
    out: Relation,
) -> int:
    """Writes the pairs of a streamed and a probed partial match that satisfy the rules, until the output is full.

    `single` says that probed ones are single events, all of which in scope are in order and in the window. The slots of the two
    begin at `streamed_at` and `probed_at` in the output. Candidates are looked at in chunks, as many as `chosen` has room for,
    one rule after the other: each leaves fewer to the next.
    """
    room = out.last.size
    written = 0
    i = state[STREAMED]
    while i < streamed.size:
        low, high = scope(streamed, i, rules, stream, pairs)
        j = state[CANDIDATE]
        if j < 0:
            j = lower_bound(probed.last, 0, probed.size, low)
        while j < probed.size and probed.last[j] < high:
            count = 0
            most = min(chosen.size, probed.size - j)
            while count < most and probed.last[j + count] < high:
                chosen[count] = j + count
                count += 1
            following = j + count
            if not single:
                count = within(streamed, i, probed, chosen, count, stream, pairs.window)
                for k in range(rules.precede.shape[0]):
                    place = streamed.parts[rules.precede[k, 0], i]
                    count = in_order(place, True, probed, rules.precede[k, 1], chosen, count, stream)
                for k in range(rules.follow.shape[0]):
                    place = streamed.parts[rules.follow[k, 0], i]
                    count = in_order(place, False, probed, rules.follow[k, 1], chosen, count, stream)
            for k in range(rules.distinct.shape[0]):
                count = without(streamed.parts[rules.distinct[k, 0], i], probed, rules.distinct[k, 1], chosen, count)
            for k in range(rules.comparisons.shape[0]):
                place = streamed.parts[rules.comparisons[k, STREAMED_SLOT], i]
                count = compared(place, probed, chosen, count, rules.comparisons[k], values)
            full = count > room - written
            if full:
                count = room - written
                following = chosen[count]
            for slot in range(streamed.parts.shape[0]):
                place = streamed.parts[slot, i]
                for k in range(count):
                    out.parts[streamed_at + slot, written + k] = place
            for slot in range(probed.parts.shape[0]):
                for k in range(count):
                    out.parts[probed_at + slot, written + k] = probed.parts[slot, chosen[k]]
            for k in range(count):
                out.first[written + k] = min(streamed.first[i], probed.first[chosen[k]])
                out.last[written + k] = max(streamed.last[i], probed.last[chosen[k]])
            written += count
            state[EVALUATIONS] += following - j
            j = following
            if full:
                state[STREAMED] = i
                state[CANDIDATE] = j
                state[COUNT] = written
                return OUTPUT_FULL
        state[CANDIDATE] = -1
        i += 1
    state[STREAMED] = i
    state[COUNT] = written
    return DONE


# --- Kleene components --------------------------------------------------------------------------------------------------

MATCH, NEXT, DEPTH, LISTS, ELEMENTS = range(5)
"""Entries of the `state` of `expand`: where to go on, and how many lists and elements were written."""


@kernel
def find_elements(
    first: Array,
    last: Array,
    after: Array,
    before: Array,
    places: Array,
    stream: Stream,
    window: int,
    bounds: Array,
    low: Array,
    high: Array,
) -> None:
    """The candidates of a Kleene component in scope of each match, as ranges of `places`: in its window, after the events in
    the rows of `after` and before those in the rows of `before`.
    """
    for match in range(first.size):
        segment = stream.segments[last[match]] if stream.segments.size else 0
        begin = stream.offsets[segment]
        end = stream.offsets[segment + 1]
        lowest = first_in_window(last[match], begin, stream.clock, window, bounds)
        highest = end_of_window(first[match], end, stream.clock, window, bounds)
        for k in range(after.shape[0]):
            lowest = max(lowest, first_after(after[k, match], end, stream.rank, bounds))
        for k in range(before.shape[0]):
            highest = min(highest, end_before(before[k, match], begin, stream.rank, bounds))
        low[match] = lower_bound(places, 0, places.size, lowest)
        high[match] = max(lower_bound(places, 0, places.size, highest), low[match])


@kernel
def expand(
    low: Array,
    high: Array,
    places: Array,
    apart: Array,
    stream: Stream,
    window: int,
    least: int,
    most: int,
    state: Array,
    stack: Array,
    out: Lists,
) -> int:
    """Writes every list of between `least` and `most` candidates of each match, in stream order, within the window. Events in
    the rows of `apart` are no candidates.

    `stack` holds the candidates of the list at hand; it goes on where a full output stopped it.
    """
    lists = 0
    used = 0
    i = state[MATCH]
    following = state[NEXT]
    depth = state[DEPTH]
    out.offsets[0] = 0
    while i < low.size:
        if following < 0:
            following = low[i]
        while True:
            pushed = False
            # Where too few are left for the shortest list, there is none to be found.
            stop = high[i] - max(0, least - depth - 1)
            while following < stop and depth < most and not pushed:
                place = places[following]
                pushed = depth == 0 or (
                    follows(place, places[stack[depth - 1]], stream.rank, stream.tied)
                    and stream.clock[place] - stream.clock[places[stack[0]]] < window
                )
                for k in range(apart.shape[0]):
                    if apart[k, i] == place:
                        pushed = False
                if pushed:
                    stack[depth] = following
                    depth += 1
                following += 1
            if pushed:
                if depth < least:
                    continue
                if lists == out.match.size or used + depth > out.elements.size:
                    depth -= 1
                    state[MATCH] = i
                    state[NEXT] = stack[depth]
                    state[DEPTH] = depth
                    state[LISTS] = lists
                    state[ELEMENTS] = used
                    return OUTPUT_FULL
                for k in range(depth):
                    out.elements[used + k] = places[stack[k]]
                used += depth
                out.match[lists] = i
                lists += 1
                out.offsets[lists] = used
                continue
            if depth == 0:
                break
            depth -= 1
            following = stack[depth] + 1
        i += 1
        following = -1
    state[MATCH] = i
    state[NEXT] = -1
    state[DEPTH] = 0
    state[LISTS] = lists
    state[ELEMENTS] = used
    return DONE
