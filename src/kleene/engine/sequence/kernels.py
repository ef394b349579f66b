"""Sequence scan and construction: the runtime stack and active instance stacks of SASE (sections 3.2 and 4.1-4.3).

Events come grouped in segments (one per partition value; one in all without partitioning), in stream order within each; an
event is known by its place in that order, and `order[place]` is its row. Per segment, component s has a stack of instances:
`stack[s]` their places, `stack_rip[s]` how many instances of the previous stack precede each (the paper's RIP field as a
count). Stacks are contiguous and reused from segment to segment, so they stay in cache, and the instances that may precede
one are a range: `[low[s - 1], rip)`.

`rank` is the stream order: events of equal rank are simultaneous and never follow one another. Construction goes from the last
component (level L - 1, the trigger) down to level 0; it may stop at any match when the output is full and goes on from there
when called again. A sequence has at least two components here: of one, every row is a match by itself.

Cost: one push per component that a row can bind; construction visits only instances inside the window, when it is pushed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.events.kernels.tables import Columns, Events
from kleene.engine.kernels import BlockFilter, inlined, kernel

SEGMENT, POSITION, RESUME, LEVEL, COUNT, PUSHES, VISITS, SEQUENCES, PARTIALS, PATIENCE = range(10)
STATE_FIELDS = 10
"""Entries of the `state` array: where to go on, the counted work, and the most partial matches until the kernel comes back."""

DONE, OUTPUT_FULL = 0, 1

TESTED, FILTERED = 1, 2
"""Bits of `checks[level]`: equivalence tests of dynamic filtering, predicates of the block filter."""


def new_state(patience: int) -> Array:
    """`state` at the beginning."""
    state = np.zeros(STATE_FIELDS, np.int64)
    state[PATIENCE] = patience
    return state


class Plan(NamedTuple):
    """Where a plan does its work."""

    window: int
    window_in_scan: bool
    window_in_construction: bool
    transition_tests: bool
    """Multi-PAIS: an event enters a stack only if the previous one holds an instance that agrees with it on every further test.
    The stacks of the other attributes are not kept: their intersection with the first attribute's stack is found by testing
    the instances of that stack.
    """
    emit_from: int
    """The first row whose matches are asked for."""
    checks: Array
    """What is decided at each level, see TESTED."""


class Stacks(NamedTuple):
    """The active instance stacks (AIS) of a segment, one for each component; of its own for each value of the partitioning
    attribute, they are PAIS (section 4.2.1).
    """

    places: Array
    """The place of each instance's event."""
    rip: Array
    """RIP, the most recent instance in the previous stack: how many of its instances precede this one."""
    size: Array
    head: Array
    """The first instance inside the window when the stack was last looked at, by the window in the scan."""
    low: Array
    """The first instance inside the window of the trigger."""


class Search(NamedTuple):
    """The depth-first search of construction (section 3.2), by level."""

    selected: Array
    """The instances that a level's predicates hold for."""
    current: Array
    """The candidate that is next, counting down..."""
    stop: Array
    """...to this one."""
    chosen: Array
    """The place of the event chosen at each level."""


@inlined
def _construct(
    rip: int,
    plan: Plan,
    tests: Array,
    stacks: Stacks,
    search: Search,
    state: Array,
    block_filter: BlockFilter,
    columns: Columns,
    out: Array,
) -> int:
    """Depth-first search until all sequences of the trigger are out, or the output is full.

    Starts with the instances below `rip` of the level before the trigger; goes on where it stopped if `rip` is negative. The
    candidates of a level are a range of its stack, or a selection of it where predicates are decided there. The trigger is
    written for all its sequences at the end.
    """
    checks = plan.checks
    stack = stacks.places
    low = stacks.low
    selected = search.selected
    current = search.current
    stop = search.stop
    chosen = search.chosen
    last = chosen.size - 1
    room = out.shape[1]
    level = state[LEVEL] if rip < 0 else last - 1
    entering = rip >= 0
    count = state[COUNT]
    begun = count
    visits = 0
    partials = 0
    patience = state[PATIENCE] - state[PARTIALS]
    full = False
    while level < last:
        if entering:
            entering = False
            bottom = low[level]
            visits += max(0, rip - bottom)
            if checks[level] == 0:
                current[level] = rip - 1
                stop[level] = bottom
            else:
                kept = 0
                if checks[level] & TESTED:
                    trigger = chosen[last]
                    for index in range(bottom, rip):
                        place = stack[level, index]
                        same = True
                        for test in range(tests.shape[0]):
                            same &= tests[test, place] == tests[test, trigger]
                        selected[level, kept] = index
                        kept += same
                else:
                    for index in range(bottom, rip):
                        selected[level, kept] = index
                        kept += 1
                if kept > 0 and checks[level] & FILTERED:
                    kept = block_filter(
                        level, chosen, stack, selected, kept, columns.ints, columns.floats, columns.valid, columns.constants
                    )
                current[level] = kept - 1
                stop[level] = 0
        index = current[level]
        if index < stop[level]:
            level += 1
            continue
        if level > 0:
            if partials >= patience:
                full = True
                break
            partials += 1
            current[level] = index - 1
            if checks[level]:
                index = selected[level, index]
            chosen[level] = stack[level, index]
            rip = stacks.rip[level, index]
            level -= 1
            entering = True
            continue
        bottom = max(stop[0], index + 1 - (room - count))
        first = count
        if checks[0]:
            for entry in range(index, bottom - 1, -1):
                out[0, count] = stack[0, selected[0, entry]]
                count += 1
        else:
            for entry in range(index, bottom - 1, -1):
                out[0, count] = stack[0, entry]
                count += 1
        for component in range(1, last):
            place = chosen[component]
            for position in range(first, count):
                out[component, position] = place
        if bottom > stop[0]:
            current[0] = bottom - 1
            full = True
            break
        level = 1
    place = chosen[last]
    for position in range(begun, count):
        out[last, position] = place
    state[VISITS] += visits
    state[PARTIALS] += partials
    state[SEQUENCES] += count - begun
    state[COUNT] = count
    state[LEVEL] = level
    return OUTPUT_FULL if full else DONE


@kernel
def active_instance_stacks(
    events: Events,
    plan: Plan,
    stacks: Stacks,
    search: Search,
    state: Array,
    block_filter: BlockFilter,
    columns: Columns,
    out: Array,
) -> int:
    """Sequence scan and construction (section 4.1) over (partitioned) active instance stacks; see the module for the layout."""
    offsets = events.offsets
    ts = events.ts
    rank = events.rank
    tests = events.tests
    window = plan.window
    stack = stacks.places
    size = stacks.size
    head = stacks.head
    low = stacks.low
    length = size.size
    last = length - 1
    resumed = state[RESUME] == 1
    for segment in range(state[SEGMENT], offsets.size - 1):
        begin = offsets[segment]
        end = offsets[segment + 1]
        if end - begin < length:
            continue
        if resumed:
            begin = state[POSITION]
        else:
            for component in range(length):
                size[component] = 0
                head[component] = 0
                low[component] = 0
        for position in range(begin, end):
            bits = events.masks[position]
            now = ts[position]
            for component in range(last, -1, -1):
                if (bits >> component) & 1 == 0:
                    continue
                rip = 0
                if component > 0 and not resumed:
                    before = component - 1
                    rip = size[before]
                    if plan.window_in_scan:
                        while head[before] < rip and now - ts[stack[before, head[before]]] >= window:
                            head[before] += 1
                    while rip > head[before] and rank[stack[before, rip - 1]] >= rank[position]:
                        rip -= 1
                    if rip <= head[before]:
                        continue
                    if plan.transition_tests:
                        index = rip - 1
                        while index >= head[before]:
                            same = True
                            for test in range(tests.shape[0]):
                                same &= tests[test, position] == tests[test, stack[before, index]]
                            if same:
                                break
                            index -= 1
                        if index < head[before]:
                            continue
                if component < last:
                    top = size[component]
                    stack[component, top] = position
                    stacks.rip[component, top] = rip
                    size[component] = top + 1
                    state[PUSHES] += 1
                    continue
                if not resumed:
                    if events.order[position] < plan.emit_from:
                        continue
                    search.chosen[last] = position
                    for level in range(last):
                        if plan.window_in_construction:
                            while low[level] < size[level] and now - ts[stack[level, low[level]]] >= window:
                                low[level] += 1
                        else:
                            low[level] = head[level]
                else:
                    rip = -1
                    resumed = False
                full = _construct(rip, plan, tests, stacks, search, state, block_filter, columns, out)
                if full == OUTPUT_FULL:
                    state[SEGMENT] = segment
                    state[POSITION] = position
                    state[RESUME] = 1
                    return OUTPUT_FULL
    state[RESUME] = 0
    return DONE


@kernel
def runtime_stack(
    events: Events,
    plan: Plan,
    cells: Array,
    stacks: Stacks,
    search: Search,
    state: Array,
    block_filter: BlockFilter,
    columns: Columns,
    out: Array,
) -> int:
    """The basic algorithm (section 3.2): a cell per event, searched backwards on every accepting event.

    The cell of an event has an instance of every active state. `cells[place, s]` is what an instance of the state after
    component s came from: `2 * (1 + the cell before)`, plus 1 if the event itself made the transition; -1 if the state is
    not active. An accepting event follows, state by state, the self-loops back to the start of the window once, collects the
    events that made transitions, and enumerates their paths. Cost: the window, per state and trigger.
    """
    offsets = events.offsets
    ts = events.ts
    rank = events.rank
    tests = events.tests
    stack = stacks.places
    low = stacks.low
    length = low.size
    last = length - 1
    resumed = state[RESUME] == 1
    for segment in range(state[SEGMENT], offsets.size - 1):
        begin = offsets[segment]
        end = offsets[segment + 1]
        depth = end - begin
        for position in range(state[POSITION] if resumed else begin, end):
            rip = -1
            if not resumed:
                now = ts[position]
                for component in range(length):
                    active = position > begin and cells[position - 1, component] >= 0
                    # A transition starts from the state before, active in the cell before; the first state always is.
                    fired = (events.masks[position] >> component) & 1 == 1
                    if component > 0:
                        fired = fired and position > begin and cells[position - 1, component - 1] >= 0
                    cells[position, component] = 2 * position + fired if active or fired else -1
                accepted = cells[position, last] >= 0 and cells[position, last] & 1 == 1
                if not accepted or events.order[position] < plan.emit_from:
                    continue
                search.chosen[last] = position
                for level in range(last):
                    low[level] = depth
                    # Instances are collected backwards, so each stack fills from its far end towards `low`.
                    cell = position - 1
                    while cell >= begin and cells[cell, level] >= 0:
                        if plan.window_in_construction and now - ts[cell] >= plan.window:
                            break
                        state[VISITS] += 1
                        if cells[cell, level] & 1:
                            low[level] -= 1
                            stack[level, low[level]] = cell
                        cell = (cells[cell, level] >> 1) - 1
                for level in range(1, last):
                    below = low[level - 1]
                    for index in range(low[level], depth):
                        while below < depth and rank[stack[level - 1, below]] < rank[stack[level, index]]:
                            below += 1
                        stacks.rip[level, index] = below
                rip = depth
                while rip > low[last - 1] and rank[stack[last - 1, rip - 1]] >= rank[position]:
                    rip -= 1
            resumed = False
            full = _construct(rip, plan, tests, stacks, search, state, block_filter, columns, out)
            if full == OUTPUT_FULL:
                state[SEGMENT] = segment
                state[POSITION] = position
                state[RESUME] = 1
                return OUTPUT_FULL
    state[RESUME] = 0
    return DONE
