"""Runs of NFA^b over partitioned events: the basic, merging and backtrack algorithms of SASE+ (section 5).

Events come grouped by partition (a *segment* of places each), in stream order within it; an event is known by its place. Live
runs are kept by automaton state: state c (c > 0) waits for the first event of component c, state length + c holds runs inside
Kleene component c, and state 0 is where a run without a history is made. `runs[state, slot, k]` is run k of a state: the entries
NODE .. OLDEST of `layout.py`, then test codes, then what conditions read (see `kleene.engine.automaton.run_program`);
`run_floats` its floating-point values. `touched[state]` says that a state has new runs, `touched[0]` that any has.

In the code s is a state, k a run of it, j the run that another becomes, w where the next run that stays is put.

The shared match buffer is a table of nodes: a selected event, its component, and the node of the event selected before it
(PREVIOUS). Runs that have the same future are merged: a union node names both histories (PREVIOUS and OTHER) and YOUNGEST is
the latest start among all histories of a node, so what has left the window is passed over when matches are read. Nodes are
made in the order of time and name only earlier ones: everything older than the oldest live start, or than the window, can be
let go of at once.

Every node has the last digit of its run's Dewey version number (DIGIT), and the digit that its run had in the Kleene state it
came from (FORK): along a chain they make up the version (see `kleene.explain.trace`). As a node names the very node it
continues, no search for compatible versions is needed to read a match.

An event is processed as a whole or not at all: when there might not be room for its effects, the kernel returns before it.

Cost: per event, the runs of the states that it concerns; per selected event one node.
"""

from __future__ import annotations

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels.layout import (
    AGREES,
    ALIVE,
    ANY,
    BACKTRACK,
    BEGIN_BIT,
    BEGUN,
    CREATED,
    DIGIT_OF_RUN,
    DONE,
    EARLIEST,
    FAILED,
    FAILING,
    FILTERED,
    FIRST_BEGUN,
    FOUND,
    FOUND_FULL,
    FOUND_NODE,
    FOUND_PLACE,
    FRESH,
    FURTHER_TAKEN,
    HIGH,
    KLEENE,
    LAST,
    LENGTH_SLOT,
    LIVE,
    LOW,
    MERGING,
    META,
    NEXT,
    NODE,
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
    SITE_BEGIN,
    SITE_FIRST,
    SITE_FURTHER,
    SITE_OPEN,
    SITE_PROCEED,
    SITE_TAKE,
    SITE_WAITING,
    SITES,
    SIZE,
    STANDING,
    START,
    STARTED,
    STARTS,
    STEPS,
    TAKE_BIT,
    TAKEN,
    TAKES_ALONE,
    USED,
    YOUNGEST,
)
from kleene.engine.automaton.kernels.merging import end_overlapping, merge_touched, prefer
from kleene.engine.automaton.kernels.run_state import accumulate, agree_codes, append_node, copy_run
from kleene.engine.kernels import RunFilter, inlined, kernel


@inlined
def _begin(
    component: int,
    s: int,
    k: int,
    fork: int,
    place: int,
    emits: bool,
    components: Array,
    accumulators: Array,
    runs: Array,
    run_floats: Array,
    counts: Array,
    touched: Array,
    tests: Array,
    nodes: Array,
    found: Array,
    ints: Array,
    floats: Array,
    valid: Array,
    state: Array,
) -> None:
    """Run k of state s selects the event as the first of a component: a new run, or a match."""
    length = components.shape[1]
    digit = runs[s, DIGIT_OF_RUN, k] if fork < 0 else 0
    if component == length - 1 and components[KLEENE, component] == 0:
        if emits:
            node = append_node(nodes, state, place, component, runs[s, NODE, k], -1, runs[s, START, k], digit, fork)
            found[FOUND_NODE, state[FOUND]] = node
            found[FOUND_PLACE, state[FOUND]] = place
            state[FOUND] += 1
    else:
        target = length + component if components[KLEENE, component] else component + 1
        j = counts[target]
        copy_run(runs, run_floats, s, k, target, j)
        node = append_node(nodes, state, place, component, runs[s, NODE, k], -1, runs[s, START, k], digit, fork)
        runs[target, NODE, j] = node
        runs[target, LAST, j] = place
        runs[target, DIGIT_OF_RUN, j] = 0
        runs[target, SIZE, j] += 1
        for test in range(tests.shape[0]):
            runs[target, META + test, j] = max(runs[target, META + test, j], tests[test, place])
        accumulate(
            component, place, True, target, j, components, accumulators, runs, run_floats, ints, floats, valid
        )  # fmt: skip
        counts[target] = j + 1
        touched[target] = touched[0] = 1
        state[LIVE] += 1
        state[CREATED] += 1


@inlined
def _advance(
    place: int,
    starts: bool,
    emits: bool,
    order_matters: bool,
    strategy: int,
    window: int,
    clock: Array,
    rank: Array,
    mask: Array,
    tests: Array,
    components: Array,
    accumulators: Array,
    runs: Array,
    run_floats: Array,
    counts: Array,
    touched: Array,
    flags: Array,
    nodes: Array,
    found: Array,
    scratch: Array,
    state: Array,
    run_filter: RunFilter,
    ints: Array,
    floats: Array,
    valid: Array,
    constants: Array,
) -> None:
    """One event for all live runs: begin, take, proceed, ignore, or the end of a run; then a new run."""
    length = components.shape[1]
    last = length - 1
    room = runs.shape[2]
    rows = ints.shape[1]
    nodes_room = nodes.shape[1]
    bits = mask[place]
    now = clock[place]
    contiguous = strategy >= PARTITION
    for step in range(2 * length - 1):
        # From the last component to the first, Kleene states before waiting ones: no run moves twice.
        component = last - step // 2
        is_open = step % 2 == 0
        if is_open and components[KLEENE, component] == 0:
            continue
        s = length + component if is_open else component
        n = counts[s]
        if n == 0:
            continue
        following = component + 1 if is_open else component
        may_take = is_open and (bits >> components[TAKE_BIT, component]) & 1 == 1
        may_begin = following <= last
        if may_begin:
            may_begin = (bits >> components[BEGIN_BIT, following]) & 1 == 1
        if not may_take and not may_begin:
            if contiguous:
                w = 0
                for k in range(n):
                    if strategy == PARTITION and not agree_codes(runs, s, k, tests, place):
                        if w != k:
                            copy_run(runs, run_floats, s, k, s, w)
                        w += 1
                counts[s] = w
                state[LIVE] -= n - w
            continue
        state[STEPS] += n
        takes, begins = 0, 0
        length_slot = components[LENGTH_SLOT, component]
        for k in range(n):
            alive = now - clock[runs[s, START, k]] < window
            agrees = agree_codes(runs, s, k, tests, place)
            able = alive and agrees
            if order_matters:
                able = able and rank[runs[s, LAST, k]] < rank[place]
            take = able and may_take
            begin = able and may_begin
            if is_open and length_slot >= 0:
                size = runs[s, length_slot, k]
                take = take and size < components[HIGH, component]
                begin = begin and size >= components[LOW, component]
            flags[TAKEN, k] = take
            flags[BEGUN, k] = begin
            flags[STANDING, k] = (ALIVE if alive else 0) | (AGREES if agrees else 0)
            takes += take
            begins += begin
        # The conditions of the edges. What an element must satisfy by itself is decided apart, in rows of `flags` of its own.
        at = s * runs.shape[1] * room
        floats_at = s * run_floats.shape[1] * room
        taken_row = TAKEN
        begun_row = BEGUN
        if takes > 0:
            if components[FILTERED + SITE_TAKE, component]:
                run_filter(
                    component * SITES + SITE_TAKE, place, n, room, rows, nodes_room, at, floats_at, TAKEN * room, 0,
                    runs.ctypes, run_floats.ctypes, ints.ctypes, floats.ctypes, valid.ctypes, constants.ctypes, flags.ctypes,
                    nodes.ctypes, scratch.ctypes, mask.ctypes,
                )  # fmt: skip
            if components[FILTERED + SITE_FURTHER, component]:
                taken_row = FURTHER_TAKEN
                for k in range(n):
                    flags[FURTHER_TAKEN, k] = flags[TAKEN, k]
                run_filter(
                    component * SITES + SITE_FURTHER, place, n, room, rows, nodes_room, at, floats_at, FURTHER_TAKEN * room, 0,
                    runs.ctypes, run_floats.ctypes, ints.ctypes, floats.ctypes, valid.ctypes, constants.ctypes, flags.ctypes,
                    nodes.ctypes, scratch.ctypes, mask.ctypes,
                )  # fmt: skip
        if begins > 0:
            if is_open and components[FILTERED + SITE_PROCEED, component]:
                run_filter(
                    component * SITES + SITE_PROCEED, place, n, room, rows, nodes_room, at, floats_at, BEGUN * room, 0,
                    runs.ctypes, run_floats.ctypes, ints.ctypes, floats.ctypes, valid.ctypes, constants.ctypes, flags.ctypes,
                    nodes.ctypes, scratch.ctypes, mask.ctypes,
                )  # fmt: skip
            if components[FILTERED + SITE_BEGIN, following]:
                run_filter(
                    following * SITES + SITE_BEGIN, place, n, room, rows, nodes_room, at, floats_at, BEGUN * room, 0,
                    runs.ctypes, run_floats.ctypes, ints.ctypes, floats.ctypes, valid.ctypes, constants.ctypes, flags.ctypes,
                    nodes.ctypes, scratch.ctypes, mask.ctypes,
                )  # fmt: skip
            if components[FILTERED + SITE_FIRST, following]:
                begun_row = FIRST_BEGUN
                for k in range(n):
                    flags[FIRST_BEGUN, k] = flags[BEGUN, k]
                run_filter(
                    following * SITES + SITE_FIRST, place, n, room, rows, nodes_room, at, floats_at, FIRST_BEGUN * room, 0,
                    runs.ctypes, run_floats.ctypes, ints.ctypes, floats.ctypes, valid.ctypes, constants.ctypes, flags.ctypes,
                    nodes.ctypes, scratch.ctypes, mask.ctypes,
                )  # fmt: skip
        w = 0
        tail = n
        for k in range(n):
            if flags[STANDING, k] & ALIVE == 0:
                continue
            took = flags[TAKEN, k] == 1
            begun = flags[BEGUN, k] == 1
            state[FAILED] |= (flags[TAKEN, k] | flags[BEGUN, k]) & FAILING
            if begun and flags[begun_row, k] == 1:
                fork = runs[s, DIGIT_OF_RUN, k] if is_open else -1
                _begin(
                    following, s, k, fork, place, emits, components, accumulators, runs, run_floats, counts, touched, tests,
                    nodes, found, ints, floats, valid, state,
                )  # fmt: skip
            # The ignore edge (section 3.2, step 3): a run stays, unless it selected the event or may not pass over it.
            #   skip till any match     always, beside the run that selected
            #   in a Kleene state       if the run took the event, which it then has
            #   skip till next match    if it did not select the event
            #   partition contiguity    if the event is of another partition
            #   strict contiguity       never
            selected = took if is_open else begun
            if strategy == ANY:
                stays = True
            elif is_open and took:
                stays = flags[taken_row, k] == 1
            elif strategy == NEXT:
                stays = not selected
            else:
                stays = strategy == PARTITION and flags[STANDING, k] & AGREES == 0
            if begun or (took and strategy == ANY):
                runs[s, DIGIT_OF_RUN, k] += 1  # the run has split
            if took and flags[taken_row, k] == 1:
                j = k
                if strategy == ANY:
                    j = tail
                    tail += 1
                    copy_run(runs, run_floats, s, k, s, j)
                    state[LIVE] += 1
                    state[CREATED] += 1
                node = append_node(
                    nodes, state, place, component, runs[s, NODE, j], -1, runs[s, START, j], runs[s, DIGIT_OF_RUN, j], -1
                )
                runs[s, NODE, j] = node
                runs[s, LAST, j] = place
                runs[s, SIZE, j] += 1
                changed = accumulate(
                    component, place, False, s, j, components, accumulators, runs, run_floats, ints, floats, valid
                )  # fmt: skip
                for test in range(tests.shape[0]):
                    changed = changed or tests[test, place] > runs[s, META + test, j]
                    runs[s, META + test, j] = max(runs[s, META + test, j], tests[test, place])
                if changed or strategy == ANY:
                    touched[s] = touched[0] = 1
            if stays:
                if w != k:
                    copy_run(runs, run_floats, s, k, s, w)
                w += 1
        state[LIVE] -= n - w
        for k in range(n, tail):
            if w != k:
                copy_run(runs, run_floats, s, k, s, w)
            w += 1
        counts[s] = w
    if starts and (bits >> components[BEGIN_BIT, 0]) & 1 == 1:
        state[STARTS] += 1
        # A run without a history, kept where no state is.
        nowhere = 0
        for slot in range(runs.shape[1]):
            runs[nowhere, slot, 0] = 0
        runs[nowhere, NODE, 0] = -1
        runs[nowhere, START, 0] = place
        runs[nowhere, OLDEST, 0] = place
        runs[nowhere, DIGIT_OF_RUN, 0] = state[STARTS]
        for test in range(tests.shape[0]):
            runs[nowhere, META + test, 0] = -1
        flags[FIRST_BEGUN, 0] = agree_codes(runs, nowhere, 0, tests, place)
        if flags[FIRST_BEGUN, 0] == 1 and components[FILTERED + SITE_FIRST, 0]:
            run_filter(
                SITE_FIRST, place, 1, room, rows, nodes_room, 0, 0, FIRST_BEGUN * room, 0, runs.ctypes, run_floats.ctypes,
                ints.ctypes, floats.ctypes, valid.ctypes, constants.ctypes, flags.ctypes, nodes.ctypes,
                scratch.ctypes, mask.ctypes,
            )  # fmt: skip
        state[FAILED] |= flags[FIRST_BEGUN, 0] == FAILING
        if flags[FIRST_BEGUN, 0] == 1:
            _begin(
                0, nowhere, 0, -1, place, emits, components, accumulators, runs, run_floats, counts, touched, tests, nodes,
                found, ints, floats, valid, state,
            )  # fmt: skip
    if components[KLEENE, last] and emits:
        # A last Kleene component accepts after each element that its proceed condition allows.
        s = length + last
        n = counts[s]
        accepts = 0
        for k in range(n):
            accepted = runs[s, LAST, k] == place
            if accepted and components[LENGTH_SLOT, last] >= 0:
                accepted = runs[s, components[LENGTH_SLOT, last], k] >= components[LOW, last]
            flags[BEGUN, k] = accepted
            accepts += accepted
        if accepts > 0:
            if components[FILTERED + SITE_PROCEED, last]:
                run_filter(
                    last * SITES + SITE_PROCEED, place, n, room, rows, nodes_room, s * runs.shape[1] * room,
                    s * run_floats.shape[1] * room, BEGUN * room, 0, runs.ctypes, run_floats.ctypes, ints.ctypes,
                    floats.ctypes, valid.ctypes, constants.ctypes, flags.ctypes, nodes.ctypes, scratch.ctypes,
                    mask.ctypes,
                )  # fmt: skip
            for k in range(n):
                state[FAILED] |= flags[BEGUN, k] == FAILING
                if flags[BEGUN, k] == 1:
                    found[FOUND_NODE, state[FOUND]] = runs[s, NODE, k]
                    found[FOUND_PLACE, state[FOUND]] = place
                    state[FOUND] += 1


@inlined
def _postpone(
    place: int, runs: Array, run_floats: Array, counts: Array, postponed: Array, postponed_floats: Array, state: Array
) -> None:
    """The run that is furthest goes on; the others wait."""
    states = counts.size
    slots = runs.shape[1]
    kept = -1
    for backwards in range(states):
        component = states // 2 - 1 - backwards // 2
        s = states // 2 + component if backwards % 2 == 0 else component
        for k in range(counts[s]):
            if kept < 0 and k == counts[s] - 1:
                kept = s
                copy_run(runs, run_floats, s, k, s, 0)
                continue
            top = state[POSTPONED]
            for slot in range(slots):
                postponed[slot, top] = runs[s, slot, k]
            for slot in range(run_floats.shape[1]):
                postponed_floats[slot, top] = run_floats[s, slot, k]
            postponed[slots, top] = s
            postponed[slots + 1, top] = place + 1
            state[POSTPONED] = top + 1
        counts[s] = 1 if kept == s else 0
    state[LIVE] = 1


@inlined
def _end_runs(place: int, window: int, ts: Array, clock: Array, runs: Array, counts: Array, state: Array) -> None:
    """The events of a segment have ended: its live runs are forgotten, but not when the oldest of them started."""
    for s in range(counts.size):
        for k in range(counts[s]):
            if clock[place] - clock[runs[s, START, k]] < window:
                state[EARLIEST] = min(state[EARLIEST], ts[runs[s, OLDEST, k]])
        counts[s] = 0
    state[LIVE] = 0


@kernel
def run_automaton(
    order: Array,
    offsets: Array,
    ts: Array,
    clock: Array,
    rank: Array,
    mask: Array,
    tests: Array,
    window: int,
    strategy: int,
    order_matters: bool,
    algorithm: int,
    non_overlap: bool,
    candidates: bool,
    relevant: int,
    emit_from: int,
    most_runs: int,
    components: Array,
    accumulators: Array,
    merge_reads: Array,
    merge_bounds: Array,
    runs: Array,
    run_floats: Array,
    counts: Array,
    touched: Array,
    flags: Array,
    table: Array,
    postponed: Array,
    postponed_floats: Array,
    nodes: Array,
    found: Array,
    ended: Array,
    scratch: Array,
    state: Array,
    run_filter: RunFilter,
    ints: Array,
    floats: Array,
    valid: Array,
    constants: Array,
) -> int:
    """Runs the automaton over all segments, or until there may be no room for the next event; see the module for the layout.

    BASIC and MERGING put each event to all live runs of its segment (sections 5.2.1 and 5.2.2). BACKTRACK follows one run at a
    time (section 5.2.3): whatever it splits off waits in `postponed`, which has two rows more than a run has slots: its state,
    and the place of the event to go on from. `ended[segment]` becomes the place where the last reported match ends, under
    NON-OVERLAP; with `candidates`, which matches that start after it may overlap, the place where it starts.
    """
    states = counts.size
    slots = runs.shape[1]
    segment = state[SEGMENT]
    place = state[POSITION]
    status = DONE
    takes_alone = strategy == NEXT and tests.shape[0] == 0 and not order_matters
    while segment < offsets.size - 1:
        end = offsets[segment + 1]
        starts = True
        if algorithm == BACKTRACK:
            starts = state[FRESH] == 1
            if not starts and (place >= end or state[LIVE] == 0):
                if state[LIVE] > 0:
                    _end_runs(end - 1, window, ts, clock, runs, counts, state)
                if state[POSTPONED] > 0:
                    top = state[POSTPONED] - 1
                    state[POSTPONED] = top
                    s = postponed[slots, top]
                    for slot in range(slots):
                        runs[s, slot, 0] = postponed[slot, top]
                    for slot in range(run_floats.shape[1]):
                        run_floats[s, slot, 0] = postponed_floats[slot, top]
                    counts[s] = 1
                    state[LIVE] = 1
                    place = postponed[slots + 1, top]
                else:
                    place = state[STARTED] + 1
                    state[STARTED] = place
                    state[FRESH] = 1
                continue
            if starts:
                while place < end and (mask[place] >> components[BEGIN_BIT, 0]) & 1 == 0:
                    place += 1
                state[STARTED] = place
        if place >= end:
            if state[LIVE] > 0:
                _end_runs(end - 1, window, ts, clock, runs, counts, state)
            segment += 1
            state[STARTS] = 0
            continue
        live = state[LIVE]
        bits = mask[place] & relevant
        if live == 0:
            first_bit = 1 << components[BEGIN_BIT, 0]
            while place < end and mask[place] & first_bit == 0:
                place += 1
            if place >= end:
                continue
        elif strategy < PARTITION:
            if live == 1:
                # A run by itself: on to the next event that it can select, or that starts another one.
                s = 1
                while counts[s] == 0:
                    s += 1
                of = s - states // 2 if s >= states // 2 else s
                site = of * SITES + (SITE_OPEN if s >= states // 2 else SITE_WAITING)
                watched = 0 if algorithm == BACKTRACK else 1 << components[BEGIN_BIT, 0]
                if s >= states // 2 and of < states // 2 - 1:
                    watched |= 1 << components[BEGIN_BIT, of + 1]
                place = run_filter(
                    site, place, end, runs.shape[2], ints.shape[1], nodes.shape[1], s * slots * runs.shape[2],
                    s * run_floats.shape[1] * runs.shape[2], 0, watched, runs.ctypes, run_floats.ctypes, ints.ctypes,
                    floats.ctypes, valid.ctypes, constants.ctypes, flags.ctypes, nodes.ctypes, scratch.ctypes,
                    mask.ctypes,
                )  # fmt: skip
                if place >= end:
                    continue
                if mask[place] & watched == 0 and takes_alone and components[TAKES_ALONE, of] and s >= states // 2:
                    # Nothing else happens at this event.
                    if clock[place] - clock[runs[s, START, 0]] >= window:
                        counts[s] = 0
                        state[LIVE] = 0
                        continue
                    if state[USED] + 8 > nodes.shape[1]:
                        status = NODES_FULL
                        break
                    state[STEPS] += 1
                    runs[s, NODE, 0] = append_node(
                        nodes, state, place, of, runs[s, NODE, 0], -1, runs[s, START, 0], runs[s, DIGIT_OF_RUN, 0], -1
                    )
                    runs[s, LAST, 0] = place
                    runs[s, SIZE, 0] += 1
                    accumulate(
                        of, place, False, s, 0, components, accumulators, runs, run_floats, ints, floats, valid
                    )  # fmt: skip
                    place += 1
                    continue
            elif bits == 0:
                place += 1
                continue
        if state[FOUND] + live + 2 > found.shape[1]:
            status = FOUND_FULL
        elif state[USED] + 4 * live + 4 > nodes.shape[1]:
            status = NODES_FULL
        elif 2 * live + 2 > runs.shape[2]:
            status = RUNS_FULL
        elif live > most_runs:
            status = RUN_LIMIT
        elif algorithm == BACKTRACK and state[POSTPONED] + 2 * states + 2 > postponed.shape[1]:
            status = POSTPONED_FULL
        if status != DONE:
            break
        before = state[FOUND]
        _advance(
            place, starts, order[place] >= emit_from, order_matters, strategy, window, clock, rank, mask, tests, components,
            accumulators, runs, run_floats, counts, touched, flags, nodes, found, scratch, state, run_filter, ints, floats,
            valid, constants,
        )  # fmt: skip
        state[PEAK] = max(state[PEAK], state[LIVE])
        if algorithm == MERGING and touched[0] != 0 and state[LIVE] > 1:
            merge_touched(
                place, order_matters, non_overlap, rank, merge_reads, merge_bounds, runs, run_floats, counts, touched, nodes,
                table, state, ints, floats, valid,
            )  # fmt: skip
        elif algorithm == BACKTRACK:
            state[FRESH] = 0
            if clock[place] - clock[state[STARTED]] >= window:
                for s in range(states):
                    counts[s] = 0
                state[LIVE] = 0
            if state[LIVE] > 1:
                _postpone(place, runs, run_floats, counts, postponed, postponed_floats, state)
        if non_overlap and state[FOUND] > before:
            best = prefer(nodes, found, before, state[FOUND])
            found[FOUND_NODE, before] = found[FOUND_NODE, best]
            state[FOUND] = before + 1
            ended[segment] = nodes[YOUNGEST, found[FOUND_NODE, before]] if candidates else place
            end_overlapping(ended[segment], runs, run_floats, counts, state)
        place += 1
    state[SEGMENT] = segment
    state[POSITION] = place
    return status
