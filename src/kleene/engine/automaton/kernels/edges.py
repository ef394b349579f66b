"""One event and the runs of a segment: the edges of NFA^b (SASE+ sections 3.2 and 5.2.1), and the conditions that open them.

Runs, states and buffers are those of `kernels/nfa.py`. The runs of a state meet an event together: `_enable` says which of them
may select it, apart from conditions; compiled filters clear the flags of those whose conditions fail; `_move` moves the others.
In a state of many runs indexes choose those that meet the event (`kernels/waiting.py`). In the code s is a state, k a run of
it, i the number of a chosen run, j the run that another becomes, w where the next run that stays is put.

Cost: the runs that meet the event, which are all of a state without an index; a node for each selected event.
"""

from __future__ import annotations

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels.layout import (
    AGREES,
    ALIVE,
    ANY,
    BEGIN_BIT,
    BEGUN,
    CREATED,
    DIGIT_OF_RUN,
    FAILED,
    FAILING,
    FILTERED,
    FIRST_BEGUN,
    FOUND,
    FOUND_NODE,
    FOUND_PLACE,
    FURTHER_TAKEN,
    HIGH,
    HOLE,
    HOLES,
    KLEENE,
    LAST,
    LENGTH_SLOT,
    LIVE,
    LOW,
    META,
    NEXT,
    NODE,
    OLDEST,
    PARTITION,
    SITE_BEGIN,
    SITE_FIRST,
    SITE_FURTHER,
    SITE_PROCEED,
    SITE_TAKE,
    SITES,
    SIZE,
    STANDING,
    START,
    STARTS,
    STEPS,
    TAKE_BIT,
    TAKEN,
    USED,
    Buffer,
    Nfa,
    Policy,
    Runs,
)
from kleene.engine.automaton.kernels.run_state import accumulate, agree_codes, append_node, copy_run, filter_runs
from kleene.engine.automaton.kernels.waiting import choose
from kleene.engine.events.kernels.tables import Columns, Events
from kleene.engine.kernels import RunFilter, inlined, step


@inlined
def _row_of(kind: int, component: int, edge_row: int, own_row: int, nfa: Nfa) -> int:
    """The row of flags that says whether the event can also be an element: one of its own if there are conditions on that."""
    return own_row if nfa.components[FILTERED + kind, component] else edge_row


@inlined
def _detect(node: int, place: int, buffer: Buffer, state: Array) -> None:
    """A run is in the final state: its last node, and where."""
    buffer.found[FOUND_NODE, state[FOUND]] = node
    buffer.found[FOUND_PLACE, state[FOUND]] = place
    state[FOUND] += 1


@inlined
def take(
    component: int,
    s: int,
    j: int,
    place: int,
    events: Events,
    nfa: Nfa,
    runs: Runs,
    nodes: Array,
    state: Array,
    columns: Columns,
) -> bool:
    """The take edge: run j of state s selects the event as a further element; whether its conditions read anything new."""
    slots = runs.slots
    tests = events.tests
    slots[s, NODE, j] = append_node(
        nodes, state, place, component, slots[s, NODE, j], -1, slots[s, START, j], slots[s, DIGIT_OF_RUN, j], -1
    )
    slots[s, LAST, j] = place
    slots[s, SIZE, j] += 1
    changed = accumulate(component, place, False, s, j, nfa, runs, columns)
    for test in range(tests.shape[0]):
        changed = changed or tests[test, place] > slots[s, META + test, j]
        slots[s, META + test, j] = max(slots[s, META + test, j], tests[test, place])
    return changed


@inlined
def _begin(
    component: int,
    s: int,
    k: int,
    fork: int,
    place: int,
    emits: bool,
    events: Events,
    nfa: Nfa,
    runs: Runs,
    buffer: Buffer,
    state: Array,
    columns: Columns,
) -> None:
    """The begin edge: run k of state s selects the event as the first of a component: a new run, or a match."""
    slots = runs.slots
    tests = events.tests
    length = nfa.components.shape[1]
    is_kleene = nfa.components[KLEENE, component] != 0
    if component == length - 1 and not is_kleene and not emits:
        return
    digit = slots[s, DIGIT_OF_RUN, k] if fork < 0 else 0
    node = append_node(buffer.nodes, state, place, component, slots[s, NODE, k], -1, slots[s, START, k], digit, fork)
    if component == length - 1 and not is_kleene:
        _detect(node, place, buffer, state)
        return
    target = length + component if is_kleene else component + 1
    j = runs.counts[target]
    copy_run(runs, s, k, target, j)
    slots[target, NODE, j] = node
    slots[target, LAST, j] = place
    slots[target, DIGIT_OF_RUN, j] = 0
    slots[target, SIZE, j] += 1
    for test in range(tests.shape[0]):
        slots[target, META + test, j] = max(slots[target, META + test, j], tests[test, place])
    accumulate(component, place, True, target, j, nfa, runs, columns)
    runs.counts[target] = j + 1
    runs.touched[target] = runs.touched[0] = 1
    state[LIVE] += 1
    state[CREATED] += 1


@inlined
def _break_contiguity(s: int, place: int, policy: Policy, events: Events, runs: Runs, state: Array) -> None:
    """An event that no edge takes ends the runs of a state whose partition it is in; under strict contiguity, all of them."""
    n = runs.counts[s]
    w = 0
    for k in range(n):
        if policy.strategy == PARTITION and not agree_codes(runs, s, k, events.tests, place):
            if w != k:
                copy_run(runs, s, k, s, w)
            w += 1
    runs.counts[s] = w
    runs.moved[s] = 1
    state[LIVE] -= n - w


@inlined
def _enable(
    component: int,
    is_open: bool,
    place: int,
    n: int,
    may_take: bool,
    may_begin: bool,
    events: Events,
    policy: Policy,
    nfa: Nfa,
    runs: Runs,
) -> tuple[int, int]:
    """Which of the chosen runs of a state stand (inside the window, of the event's partition) and may take or begin, but for
    conditions.

    Returns how many may take, and how many may begin.
    """
    slots = runs.slots
    flags = runs.flags
    s = nfa.components.shape[1] + component if is_open else component
    length_slot = nfa.components[LENGTH_SLOT, component]
    now = events.clock[place]
    rank = events.rank[place] if policy.order_matters else 0
    takes, begins = 0, 0
    for i in range(n):
        k = runs.chosen[i]
        start = slots[s, START, k]
        alive = start != HOLE and now - events.clock[start] < policy.window
        agrees = agree_codes(runs, s, k, events.tests, place)
        able = alive and agrees
        if policy.order_matters:
            able = able and events.rank[slots[s, LAST, k]] < rank
        take = able and may_take
        begin = able and may_begin
        if is_open and length_slot >= 0:
            size = slots[s, length_slot, k]
            take = take and size < nfa.components[HIGH, component]
            begin = begin and size >= nfa.components[LOW, component]
        flags[TAKEN, i] = take
        flags[BEGUN, i] = begin
        flags[STANDING, i] = (ALIVE if alive else 0) | (AGREES if agrees else 0)
        takes += take
        begins += begin
    return takes, begins


@inlined
def _copy_flags(source: int, target: int, n: int, flags: Array) -> None:
    """The flags of n runs in another row."""
    for k in range(n):
        flags[target, k] = flags[source, k]


@inlined
def _ignores(i: int, is_open: bool, taken_row: int, strategy: int, flags: Array) -> bool:
    """The ignore edge: whether a run stays in its state at an event, as the strategy has it.

    - skip till any match: always, beside the run that selected the event
    - a run that took the event in a Kleene state: if the event can be an element
    - skip till next match: if it did not select the event
    - partition contiguity: if the event is of another partition; strict contiguity: never
    """
    took = is_open and flags[TAKEN, i] == 1
    if strategy == ANY:
        return True
    if took:
        return bool(flags[taken_row, i] == 1)
    if strategy == NEXT:
        selected = flags[BEGUN, i] == 1 and not is_open
        return not selected
    return strategy == PARTITION and flags[STANDING, i] & AGREES == 0


@inlined
def _move(
    component: int,
    is_open: bool,
    place: int,
    n: int,
    everyone: bool,
    events: Events,
    policy: Policy,
    nfa: Nfa,
    runs: Runs,
    buffer: Buffer,
    state: Array,
    columns: Columns,
) -> None:
    """Moves the chosen runs of a state along all edges that are open to them; those that leave make holes.

    A run that takes the event goes to the end of the state, where indexes will find it, unless everyone was chosen.
    """
    slots = runs.slots
    flags = runs.flags
    s = nfa.components.shape[1] + component if is_open else component
    following = component + 1 if is_open else component
    taken_row = _row_of(SITE_FURTHER, component, TAKEN, FURTHER_TAKEN, nfa)
    begun_row = BEGUN
    if following < nfa.components.shape[1]:
        begun_row = _row_of(SITE_FIRST, following, BEGUN, FIRST_BEGUN, nfa)
    skips = policy.strategy == ANY or policy.strategy == NEXT
    tail = runs.counts[s]
    emits = events.order[place] >= policy.emit_from
    gone = 0
    for i in range(n):
        selects = flags[TAKEN, i] | flags[BEGUN, i]
        alive = flags[STANDING, i] & ALIVE != 0
        if alive and skips and selects == 0:
            continue
        k = runs.chosen[i]
        if not alive:
            gone += 1
            if slots[s, START, k] != HOLE:
                slots[s, START, k] = HOLE
                state[LIVE] -= 1
                state[HOLES] += 1
            continue
        took = flags[TAKEN, i] == 1
        begun = flags[BEGUN, i] == 1
        state[FAILED] |= selects & FAILING
        if begun and flags[begun_row, i] == 1:
            fork = slots[s, DIGIT_OF_RUN, k] if is_open else -1
            _begin(following, s, k, fork, place, emits, events, nfa, runs, buffer, state, columns)
        stays = _ignores(i, is_open, taken_row, policy.strategy, flags)
        if begun or (took and policy.strategy == ANY):
            slots[s, DIGIT_OF_RUN, k] += 1  # the run has split
        if took and flags[taken_row, i] == 1:
            j = k
            if policy.strategy == ANY or not everyone:
                j = tail
                tail += 1
                copy_run(runs, s, k, s, j)
                state[LIVE] += 1
                if policy.strategy == ANY:
                    state[CREATED] += 1
                else:
                    stays = False
            changed = take(component, s, j, place, events, nfa, runs, buffer.nodes, state, columns)
            if changed or j != k:
                runs.touched[s] = runs.touched[0] = 1
                if j == k:
                    runs.moved[s] = 1
        if not stays:
            gone += 1
            slots[s, START, k] = HOLE
            state[LIVE] -= 1
            state[HOLES] += 1
    if gone > 0 and everyone and (not skips or tail < policy.few or 4 * gone > tail):
        w = 0
        for k in range(tail):
            if slots[s, START, k] != HOLE:
                if w != k:
                    copy_run(runs, s, k, s, w)
                w += 1
        state[HOLES] -= tail - w
        runs.moved[s] = 1
        tail = w
    runs.counts[s] = tail


@step
def _start(
    place: int,
    emits: bool,
    events: Events,
    nfa: Nfa,
    runs: Runs,
    buffer: Buffer,
    state: Array,
    run_filter: RunFilter,
    columns: Columns,
) -> None:
    """The begin edge of the start state: a new run, if the event satisfies the conditions of a first one."""
    slots = runs.slots
    flags = runs.flags
    state[STARTS] += 1
    # A run without a history, kept where no state is: in state 0, which has no runs. (A constant would have the parts of this
    # kernel compiled once more.)
    nowhere = runs.counts[0]
    for slot in range(slots.shape[1]):
        slots[nowhere, slot, 0] = 0
    slots[nowhere, NODE, 0] = -1
    slots[nowhere, START, 0] = place
    slots[nowhere, OLDEST, 0] = place
    slots[nowhere, DIGIT_OF_RUN, 0] = state[STARTS]
    for test in range(events.tests.shape[0]):
        slots[nowhere, META + test, 0] = -1
    runs.chosen[0] = 0
    flags[FIRST_BEGUN, 0] = agree_codes(runs, nowhere, nowhere, events.tests, place)
    if flags[FIRST_BEGUN, 0] == 1 and nfa.components[FILTERED + SITE_FIRST, 0]:
        filter_runs(SITE_FIRST, place, 1, nowhere, FIRST_BEGUN, 0, events.masks, runs, buffer.nodes, run_filter, columns)
    state[FAILED] |= flags[FIRST_BEGUN, 0] == FAILING
    if flags[FIRST_BEGUN, 0] == 1:
        _begin(nowhere, nowhere, nowhere, nowhere - 1, place, emits, events, nfa, runs, buffer, state, columns)


@step
def _accept(
    place: int,
    since: int,
    events: Events,
    nfa: Nfa,
    runs: Runs,
    buffer: Buffer,
    state: Array,
    run_filter: RunFilter,
    columns: Columns,
) -> None:
    """The proceed edge to the final state: a last Kleene component accepts after each element that the condition allows."""
    last = nfa.components.shape[1] - 1
    s = nfa.components.shape[1] + last
    n = 0
    for k in range(since, runs.counts[s]):
        accepted = runs.slots[s, LAST, k] == place and runs.slots[s, START, k] != HOLE
        if accepted and nfa.components[LENGTH_SLOT, last] >= 0:
            accepted = runs.slots[s, nfa.components[LENGTH_SLOT, last], k] >= nfa.components[LOW, last]
        if accepted:
            runs.chosen[n] = k
            runs.flags[BEGUN, n] = 1
            n += 1
    if n == 0:
        return
    if nfa.components[FILTERED + SITE_PROCEED, last]:
        site = last * SITES + SITE_PROCEED
        filter_runs(site, place, n, s, BEGUN, 0, events.masks, runs, buffer.nodes, run_filter, columns)
    for i in range(n):
        state[FAILED] |= runs.flags[BEGUN, i] == FAILING
        if runs.flags[BEGUN, i] == 1:
            _detect(runs.slots[s, NODE, runs.chosen[i]], place, buffer, state)


@step
def advance(
    place: int,
    starts: bool,
    events: Events,
    policy: Policy,
    nfa: Nfa,
    runs: Runs,
    buffer: Buffer,
    state: Array,
    run_filter: RunFilter,
    columns: Columns,
) -> None:
    """One event for all live runs (section 5.2.1): the edges of each state are decided, then its runs move, then one starts."""
    components = nfa.components
    length = components.shape[1]
    last = length - 1
    masks = events.masks
    bits = masks[place]
    emits = events.order[place] >= policy.emit_from
    used = state[USED]
    since = runs.counts[2 * length - 1]
    for turn in range(2 * length - 1):
        # From the last component to the first, Kleene states before waiting ones: no run moves twice.
        component = last - turn // 2
        is_open = turn % 2 == 0
        if is_open and components[KLEENE, component] == 0:
            continue
        s = length + component if is_open else component
        if runs.counts[s] == 0:
            continue
        following = component + 1 if is_open else component
        may_take = is_open and (bits >> components[TAKE_BIT, component]) & 1 == 1
        may_begin = following <= last
        if may_begin:
            may_begin = (bits >> components[BEGIN_BIT, following]) & 1 == 1
        if not may_take and not may_begin:
            if policy.strategy >= PARTITION:
                _break_contiguity(s, place, policy, events, runs, state)
                since = 0
            continue
        nodes = buffer.nodes
        n = -1
        if runs.counts[s] >= policy.few and policy.strategy < PARTITION:
            n = choose(component, following, s, place, may_take, may_begin, masks, nfa, runs, nodes, run_filter, columns)
        everyone = n < 0
        if everyone:
            n = runs.counts[s]
            for k in range(n):
                runs.chosen[k] = k
            since = 0 if s == 2 * length - 1 else since
        state[STEPS] += n
        takes, begins = _enable(component, is_open, place, n, may_take, may_begin, events, policy, nfa, runs)
        # The conditions of the edges. What an element must satisfy by itself is decided apart, in a row of flags of its own.
        site = component * SITES
        if takes > 0:
            if components[FILTERED + SITE_TAKE, component]:
                filter_runs(site + SITE_TAKE, place, n, s, TAKEN, 0, masks, runs, nodes, run_filter, columns)
            if components[FILTERED + SITE_FURTHER, component]:
                _copy_flags(TAKEN, FURTHER_TAKEN, n, runs.flags)
                filter_runs(site + SITE_FURTHER, place, n, s, FURTHER_TAKEN, 0, masks, runs, nodes, run_filter, columns)
        if begins > 0:
            if is_open and components[FILTERED + SITE_PROCEED, component]:
                filter_runs(site + SITE_PROCEED, place, n, s, BEGUN, 0, masks, runs, nodes, run_filter, columns)
            site = following * SITES
            if components[FILTERED + SITE_BEGIN, following]:
                filter_runs(site + SITE_BEGIN, place, n, s, BEGUN, 0, masks, runs, nodes, run_filter, columns)
            if components[FILTERED + SITE_FIRST, following]:
                _copy_flags(BEGUN, FIRST_BEGUN, n, runs.flags)
                filter_runs(site + SITE_FIRST, place, n, s, FIRST_BEGUN, 0, masks, runs, nodes, run_filter, columns)
        _move(component, is_open, place, n, everyone, events, policy, nfa, runs, buffer, state, columns)
    if starts and (bits >> components[BEGIN_BIT, 0]) & 1 == 1:
        _start(place, emits, events, nfa, runs, buffer, state, run_filter, columns)
    if components[KLEENE, last] and emits and state[USED] > used:
        _accept(place, since, events, nfa, runs, buffer, state, run_filter, columns)
