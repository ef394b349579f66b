"""Runs of NFA^b over partitioned events: the basic, merging and backtrack algorithms of SASE+ (section 5).

Events come grouped by partition (a *segment* of places each), in stream order within it; an event is known by its place. Live
runs are kept by automaton state: state c (c > 0) waits for the first event of component c, state length + c holds runs inside
Kleene component c, and state 0 is where a run without a history is made. `runs.slots[state, slot, k]` is run k of a state: the
entries NODE .. OLDEST of `layout.py`, then test codes, then what conditions read (see `kleene.engine.automaton.run_program`);
`runs.floats` its floating-point values. `runs.touched[state]` says that a state has new runs, `runs.touched[0]` that any has.

What an event does to the runs of a segment is in `edges.py`; here is the way through the events.

The shared match buffer is a table of nodes: a selected event, its component, and the node of the event selected before it
(PREVIOUS). Runs that have the same future are merged: a union node names both histories (PREVIOUS and OTHER) and YOUNGEST is
the latest start among all histories of a node, so what has left the window is passed over when matches are read. Nodes are
made in the order of time and name only earlier ones: everything older than the oldest live start, or than the window, can be
let go of at once.

Every node has the last digit of its run's Dewey version number (DIGIT), and the digit that its run had in the Kleene state it
came from (FORK): along a chain they make up the version (see `kleene.explain.trace`). As a node names the very node it
continues, no search for compatible versions is needed to read a match.

An event is processed as a whole or not at all: when there might not be room for its effects, the kernel returns before it.

Cost: per event, the runs of the states that it concerns, or those of them that indexes choose; per selected event one node.
"""

from __future__ import annotations

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels.edges import advance, take
from kleene.engine.automaton.kernels.layout import (
    BACKTRACK,
    BEGIN_BIT,
    DONE,
    EARLIEST,
    FOUND,
    FOUND_FULL,
    FOUND_NODE,
    FRESH,
    HOLE,
    HOLES,
    LIVE,
    MERGING,
    NEXT,
    NODES_FULL,
    OLDEST,
    PARTITION,
    PEAK,
    POSITION,
    POSTPONED,
    POSTPONED_FULL,
    RUN_LIMIT,
    RUNS_FULL,
    SEGMENT,
    SITE_OPEN,
    SITE_WAITING,
    SITES,
    START,
    STARTED,
    STARTS,
    STEPS,
    SWEPT,
    TAKES_ALONE,
    USED,
    YOUNGEST,
    Buffer,
    Nfa,
    Policy,
    Postponed,
    Runs,
)
from kleene.engine.automaton.kernels.merging import end_overlapping, merge_touched, prefer
from kleene.engine.automaton.kernels.run_state import copy_run, filter_runs
from kleene.engine.automaton.kernels.waiting import compact
from kleene.engine.events.kernels.tables import Columns, Events
from kleene.engine.kernels import RunFilter, inlined, kernel, step

# --- one run at a time (section 5.2.3) ----------------------------------------------------------------------------------


@step
def _postpone(place: int, runs: Runs, postponed: Postponed, state: Array) -> None:
    """The run that is furthest goes on; the others wait."""
    states = runs.counts.size
    width = runs.slots.shape[1]
    kept = -1
    for backwards in range(states):
        component = states // 2 - 1 - backwards // 2
        s = states // 2 + component if backwards % 2 == 0 else component
        for k in range(runs.counts[s]):
            if kept < 0 and k == runs.counts[s] - 1:
                kept = s
                copy_run(runs, s, k, s, 0)
                continue
            top = state[POSTPONED]
            for slot in range(width):
                postponed.slots[slot, top] = runs.slots[s, slot, k]
            for slot in range(runs.floats.shape[1]):
                postponed.floats[slot, top] = runs.floats[s, slot, k]
            postponed.slots[width, top] = s
            postponed.slots[width + 1, top] = place + 1
            state[POSTPONED] = top + 1
        runs.counts[s] = 1 if kept == s else 0
    state[LIVE] = 1


@step
def _resume(runs: Runs, postponed: Postponed, state: Array) -> int:
    """Brings back the run that was postponed last, or, if none is left, the start state; the place to go on from."""
    if state[POSTPONED] == 0:
        state[STARTED] += 1
        state[FRESH] = 1
        return int(state[STARTED])
    width = runs.slots.shape[1]
    top = state[POSTPONED] - 1
    state[POSTPONED] = top
    s = postponed.slots[width, top]
    for slot in range(width):
        runs.slots[s, slot, 0] = postponed.slots[slot, top]
    for slot in range(runs.floats.shape[1]):
        runs.floats[s, slot, 0] = postponed.floats[slot, top]
    runs.counts[s] = 1
    state[LIVE] = 1
    return int(postponed.slots[width + 1, top])


@step
def _follow(place: int, policy: Policy, events: Events, runs: Runs, postponed: Postponed, state: Array) -> None:
    """After an event one run is followed, if the window that began with it is not over."""
    state[FRESH] = 0
    if events.clock[place] - events.clock[state[STARTED]] >= policy.window:
        for s in range(runs.counts.size):
            runs.counts[s] = 0
        state[LIVE] = 0
    if state[LIVE] > 1:
        _postpone(place, runs, postponed, state)


# --- the stream ---------------------------------------------------------------------------------------------------------


@step
def _next_start(place: int, end: int, masks: Array, nfa: Nfa) -> int:
    """The first place, from one on, that can start a run."""
    first_bit = 1 << nfa.components[BEGIN_BIT, 0]
    while place < end and masks[place] & first_bit == 0:
        place += 1
    return place


@step
def _watched(s: int, policy: Policy, nfa: Nfa) -> int:
    """The bits of events that a run alone in a state does not pass over, whatever its conditions: they begin a component."""
    length = nfa.components.shape[1]
    watched = 0 if policy.algorithm == BACKTRACK else 1 << nfa.components[BEGIN_BIT, 0]
    if length <= s < 2 * length - 1:
        watched |= 1 << nfa.components[BEGIN_BIT, s - length + 1]
    return watched


@step
def _require_room(
    live: int, states: int, policy: Policy, runs: Runs, postponed: Postponed, buffer: Buffer, state: Array
) -> int:
    """DONE if there is room for whatever an event may do to the live runs."""
    if state[FOUND] + live + 2 > buffer.found.shape[1]:
        return FOUND_FULL
    if state[USED] + 4 * live + 4 > buffer.nodes.shape[1]:
        return NODES_FULL
    if 2 * live + state[HOLES] + 2 > runs.slots.shape[2]:
        return RUNS_FULL
    if live > policy.most_runs:
        return RUN_LIMIT
    if policy.algorithm == BACKTRACK and state[POSTPONED] + 2 * states + 2 > postponed.slots.shape[1]:
        return POSTPONED_FULL
    return DONE


@step
def _end_runs(place: int, policy: Policy, events: Events, runs: Runs, state: Array) -> None:
    """The events of a segment have ended: its live runs are forgotten, but not when the oldest of them started."""
    for s in range(runs.counts.size):
        for k in range(runs.counts[s]):
            start = runs.slots[s, START, k]
            if start != HOLE and events.clock[place] - events.clock[start] < policy.window:
                state[EARLIEST] = min(state[EARLIEST], events.ts[runs.slots[s, OLDEST, k]])
        runs.counts[s] = 0
        runs.moved[s] = 1
    state[LIVE] = 0
    state[HOLES] = 0


@inlined
def _is_sweep_due(place: int, policy: Policy, clock: Array, state: Array) -> bool:
    """Whether there are as many holes as runs, or half a window has passed: indexes do not look at the runs that end."""
    if state[HOLES] > 0 and state[LIVE] <= state[HOLES] + 1:
        return True
    return bool(state[LIVE] >= policy.few and clock[place] - clock[state[SWEPT]] >= policy.window // 2)


@step
def _report_one(
    place: int,
    before: int,
    segment: int,
    policy: Policy,
    runs: Runs,
    buffer: Buffer,
    ended: Array,
    state: Array,
) -> None:
    """NON-OVERLAP: of the matches found at an event one is reported, and the runs that overlap it end."""
    best = prefer(buffer.nodes, buffer.found, before, state[FOUND])
    node = buffer.found[FOUND_NODE, best]
    buffer.found[FOUND_NODE, before] = node
    state[FOUND] = before + 1
    ended[segment] = buffer.nodes[YOUNGEST, node] if policy.candidates else place
    end_overlapping(ended[segment], runs, state)


@kernel
def run_automaton(
    events: Events,
    policy: Policy,
    nfa: Nfa,
    runs: Runs,
    postponed: Postponed,
    buffer: Buffer,
    ended: Array,
    state: Array,
    run_filter: RunFilter,
    columns: Columns,
) -> int:
    """Runs the automaton over all segments, or until there may be no room for the next event; see the module for the layout.

    BASIC and MERGING put each event to all live runs of its segment (sections 5.2.1 and 5.2.2). BACKTRACK follows one run at a
    time (section 5.2.3): whatever it splits off is postponed. `ended[segment]` becomes the place where the last reported match
    ends, under NON-OVERLAP; with `candidates`, which matches that start after it may overlap, the place where it starts.
    """
    masks = events.masks
    states = runs.counts.size
    length = states // 2
    segment = state[SEGMENT]
    place = state[POSITION]
    status = DONE
    takes_alone = policy.strategy == NEXT and events.tests.shape[0] == 0 and not policy.order_matters
    sweeps = False
    while segment < events.offsets.size - 1:
        if sweeps:
            for s in range(states):
                compact(s, place - 1, policy.window, events.clock, runs, state)
            state[SWEPT] = place - 1
            sweeps = False
        end = events.offsets[segment + 1]
        starts = True
        if policy.algorithm == BACKTRACK:
            starts = state[FRESH] == 1
            if not starts and (place >= end or state[LIVE] == 0):
                if state[LIVE] > 0:
                    _end_runs(end - 1, policy, events, runs, state)
                place = _resume(runs, postponed, state)
                continue
            if starts:
                place = _next_start(place, end, masks, nfa)
                state[STARTED] = place
        if place >= end:
            if state[LIVE] > 0:
                _end_runs(end - 1, policy, events, runs, state)
            segment += 1
            state[STARTS] = 0
            state[SWEPT] = min(place, masks.size - 1)
            continue
        live = state[LIVE]
        if live == 0:
            place = _next_start(place, end, masks, nfa)
            if place >= end:
                continue
        elif live == 1 and policy.strategy < PARTITION:
            # A run by itself: on to the next event that it can select, or that starts another one.
            s = 1
            while runs.counts[s] == 0:
                s += 1
            of = s - length if s >= length else s
            site = of * SITES + (SITE_OPEN if s >= length else SITE_WAITING)
            watched = _watched(s, policy, nfa)
            place = filter_runs(site, place, end, s, live - 1, watched, masks, runs, buffer.nodes, run_filter, columns)
            if place >= end:
                continue
            if masks[place] & watched == 0 and takes_alone and nfa.components[TAKES_ALONE, of] and s >= length:
                # Nothing else happens at this event.
                if events.clock[place] - events.clock[runs.slots[s, START, 0]] >= policy.window:
                    runs.counts[s] = 0
                    runs.moved[s] = 1
                    state[LIVE] = 0
                    continue
                if state[USED] + 8 > buffer.nodes.shape[1]:
                    status = NODES_FULL
                    break
                state[STEPS] += 1
                take(of, s, live - 1, place, events, nfa, runs, buffer.nodes, state, columns)
                place += 1
                continue
        elif policy.strategy < PARTITION and masks[place] & policy.relevant == 0:
            place += 1
            continue
        status = _require_room(live, states, policy, runs, postponed, buffer, state)
        if status != DONE:
            if (live < policy.few and state[HOLES] == 0) or state[SWEPT] == place - 1:
                break
            sweeps = True
            continue
        before = state[FOUND]
        advance(place, starts, events, policy, nfa, runs, buffer, state, run_filter, columns)
        state[PEAK] = max(state[PEAK], state[LIVE])
        if policy.algorithm == MERGING and runs.touched[0] != 0 and state[LIVE] > 1:
            merge_touched(place, policy, events, nfa, runs, buffer.nodes, state, columns)
        elif policy.algorithm == BACKTRACK:
            _follow(place, policy, events, runs, postponed, state)
        if policy.non_overlap and state[FOUND] > before:
            _report_one(place, before, segment, policy, runs, buffer, ended, state)
        sweeps = _is_sweep_due(place, policy, events.clock, state)
        place += 1
    state[SEGMENT] = segment
    state[POSITION] = place
    return status
