"""Runs that need no state of their own: each takes the next event that fits, which the event by itself decides.

Then whoever waits for a component takes the same event, and a run that started earlier is never behind one that started later:
runs form a queue, in the order of their starts, and those that wait for component s are the range `[passed[s], passed[s - 1])`
of it. It is merging (SASE+ section 5.2.2) taken to its end: the runs of a state are one, and cost nothing while they wait.

Segments, places and `order` are those of `kleene.engine.sequence.kernels`; events of a segment that a component can bind never
tie.
"""

from __future__ import annotations

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels.layout import NOTHING
from kleene.engine.events.kernels.tables import Events
from kleene.engine.kernels import kernel

SEGMENT, POSITION, COUNT, OLDEST, STARTS, STEPS, PEAK, EARLIEST = range(8)
"""Entries of `state`: where to go on, the first run of the queue inside the window, and what was found."""
STATE_FIELDS = 8

DONE, OUTPUT_FULL, MATCH_LIMIT = range(3)


def new_state() -> Array:
    """`state` at the beginning."""
    state = np.zeros(STATE_FIELDS, np.int64)
    state[EARLIEST] = NOTHING
    return state


@kernel
def run_queue(
    events: Events,
    bits: Array,
    window: int,
    emit_from: int,
    most_matches: int,
    passed: Array,
    selected: Array,
    state: Array,
    out: Array,
) -> int:
    """Runs the queue over all segments, or until there is no room for the matches of the next event.

    `bits[s]` is the bit of component s in a mask; `selected[s]` has the place that each run of the queue selects for it. A
    match is one place per component in `out`, those of an event in the order of their starts. `state[EARLIEST]` becomes the
    time of the earliest event of a run that may still become a match.
    """
    clock = events.clock
    last = bits.size - 1
    segment = state[SEGMENT]
    place = state[POSITION]
    count = state[COUNT]
    while segment < events.offsets.size - 1:
        end = events.offsets[segment + 1]
        while place < end:
            marks = events.masks[place]
            # From the last component on, so that no run takes an event twice.
            for component in range(last, 0, -1):
                first = passed[component]
                stop = passed[component - 1]
                if first == stop or (marks >> bits[component]) & 1 == 0:
                    continue
                while first < stop and clock[place] - clock[selected[0, first]] >= window:
                    first += 1
                if component < last:
                    for run in range(first, stop):
                        selected[component, run] = place
                elif events.order[place] >= emit_from:
                    if stop - first > most_matches:
                        state[SEGMENT], state[POSITION], state[COUNT] = segment, place, count
                        return MATCH_LIMIT
                    if stop - first > out.shape[1] - count:
                        # Nothing has happened to the queue yet at this event: the last component is the first one.
                        state[SEGMENT], state[POSITION], state[COUNT] = segment, place, count
                        return OUTPUT_FULL
                    for before in range(last):
                        for run in range(first, stop):
                            out[before, count + run - first] = selected[before, run]
                    for run in range(first, stop):
                        out[last, count + run - first] = place
                    count += stop - first
                state[STEPS] += stop - first
                passed[component] = stop
            if (marks >> bits[0]) & 1:
                selected[0, passed[0]] = place
                passed[0] += 1
                state[STARTS] += 1
                oldest = max(state[OLDEST], passed[last])
                while clock[place] - clock[selected[0, oldest]] >= window:
                    oldest += 1
                state[OLDEST] = oldest
                state[PEAK] = max(state[PEAK], passed[0] - oldest)
            place += 1
        run = passed[last]
        while run < passed[0] and clock[end - 1] - clock[selected[0, run]] >= window:
            run += 1
        if run < passed[0]:
            state[EARLIEST] = min(state[EARLIEST], events.ts[selected[0, run]])
        for component in range(last + 1):
            passed[component] = 0
        state[OLDEST] = 0
        segment += 1
    state[SEGMENT], state[POSITION], state[COUNT] = segment, place, count
    return DONE
