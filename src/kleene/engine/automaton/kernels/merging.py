"""Runs with the same future: merging them (SASE+ section 5.2.2), and which of several matches NON-OVERLAP prefers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels.layout import (
    COMPONENT,
    DIGIT_OF_RUN,
    EVENT,
    FLOAT,
    FOUND_NODE,
    HOLE,
    HOLES,
    INTEGER,
    INTEGER_COLUMN,
    LAST,
    LINKED,
    LIVE,
    MERGED,
    MERGED_UPTO,
    MERGES,
    NODE,
    OLDEST,
    POSITIVE,
    PREVIOUS,
    SIZE,
    SIZE_OF_INDEX,
    START,
    YOUNGEST,
    Nfa,
    Policy,
    Runs,
)
from kleene.engine.automaton.kernels.run_state import append_node, copy_run
from kleene.engine.automaton.kernels.waiting import clear_chains, first_of, forget, link
from kleene.engine.events.kernels.tables import Columns, Events
from kleene.engine.kernels import inlined


@inlined
def _equivalent(s: int, j: int, k: int, nfa: Nfa, runs: Runs, columns: Columns) -> bool:
    """Whether two runs of a state have the same values in all that future conditions read."""
    slots = runs.slots
    numbers = runs.floats
    ints = columns.ints
    floats = columns.floats
    valid = columns.valid
    same = True
    for entry in range(nfa.merge_bounds[s], nfa.merge_bounds[s + 1]):
        kind = nfa.merge_reads[entry, 0]
        slot = nfa.merge_reads[entry, 1]
        column = nfa.merge_reads[entry, 2]
        if kind == INTEGER:
            same = slots[s, slot, j] == slots[s, slot, k]
        elif kind == FLOAT:
            same = numbers[s, slot, j] == numbers[s, slot, k]
        elif kind == POSITIVE:
            same = (slots[s, slot, j] > 0) == (slots[s, slot, k] > 0)
        else:
            one = slots[s, slot, j]
            other = slots[s, slot, k]
            if kind == INTEGER_COLUMN:
                same = ints[column, one] == ints[column, other] and valid[column, one] == valid[column, other]
            else:
                row = valid.shape[0] - 1 - column
                same = floats[column, one] == floats[column, other] and valid[row, one] == valid[row, other]
        if not same:
            break
    return same


@inlined
def _same_future(
    s: int, j: int, k: int, place: int, policy: Policy, events: Events, nfa: Nfa, runs: Runs, columns: Columns
) -> bool:
    """Whether two runs of a state will select the same events: simultaneous ones follow both or neither."""
    same = _equivalent(s, j, k, nfa, runs, columns)
    if same and policy.order_matters:
        now = events.rank[place]
        same = (events.rank[runs.slots[s, LAST, j]] == now) == (events.rank[runs.slots[s, LAST, k]] == now)
    return same


@inlined
def _hashed(s: int, k: int, nfa: Nfa, runs: Runs, columns: Columns) -> Any:
    slots = runs.slots
    numbers = runs.floats
    value = np.uint64(1469598103934665603)
    for entry in range(nfa.merge_bounds[s], nfa.merge_bounds[s + 1]):
        kind = nfa.merge_reads[entry, 0]
        slot = nfa.merge_reads[entry, 1]
        column = nfa.merge_reads[entry, 2]
        word = np.int64(0)
        if kind == INTEGER:
            word = slots[s, slot, k]
        elif kind == FLOAT:
            number = numbers[s, slot, k]
            word = np.float64(number + 0.0).view(np.int64)  # zeros are equal
        elif kind == POSITIVE:
            word = np.int64(1 if slots[s, slot, k] > 0 else 0)
        elif kind == INTEGER_COLUMN:
            word = columns.ints[column, slots[s, slot, k]]
        else:
            number = columns.floats[column, slots[s, slot, k]]
            word = np.float64(number + 0.0).view(np.int64)  # zeros are equal
        value = (value ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(29)
    return np.int64(value >> np.uint64(1))


@inlined
def _before(nodes: Array, one: int, other: int) -> bool:
    """Whether of two chains of equal length the first has the smaller events, compared from the first event on; of the same
    events, the one whose earlier components are shorter.
    """
    verdict = 0
    division = 0
    while one >= 0 and other >= 0:
        difference = nodes[EVENT, one] - nodes[EVENT, other]
        if difference != 0:
            verdict = difference
        split = nodes[COMPONENT, other] - nodes[COMPONENT, one]
        if split != 0:
            division = split
        one = nodes[PREVIOUS, one]
        other = nodes[PREVIOUS, other]
    return verdict < 0 or (verdict == 0 and division < 0)


@inlined
def merge_runs(
    s: int, place: int, policy: Policy, events: Events, nfa: Nfa, runs: Runs, nodes: Array, state: Array, columns: Columns
) -> None:
    """Makes one of the runs of a state that have the same future (section 5.2.2): those before MERGED_UPTO differ already.

    The combined run is as young as its youngest. Under NON-OVERLAP only the run whose match would be preferred is kept.
    """
    slots = runs.slots
    x = nfa.indexes[MERGES, s]
    if runs.moved[s] != 0 or policy.order_matters:
        forget(s, nfa, runs)
    n = runs.counts[s]
    upto = runs.indexes[x, MERGED_UPTO]
    chained = n > 12
    if chained and (n > runs.indexes[x, SIZE_OF_INDEX] or runs.indexes[x, LINKED] == 0):
        clear_chains(x, n, runs)
    w = upto
    for k in range(runs.indexes[x, LINKED] if chained else upto, n):
        new = k >= upto
        if slots[s, START, k] == HOLE:
            state[HOLES] -= new
            continue
        code = np.int64(0)
        twin = -1
        j = -1
        if chained:
            code = _hashed(s, k, nfa, runs, columns)
        if new:
            j = first_of(x, code, runs) if chained else w - 1
        while j >= 0 and twin < 0:
            if slots[s, START, j] != HOLE and (not chained or runs.keys[x, j] == code):
                if _same_future(s, j, k, place, policy, events, nfa, runs, columns):
                    twin = j
            j = runs.links[x, j] if chained else j - 1
        if twin < 0:
            if new and w != k:
                copy_run(runs, s, k, s, w)
            if chained:
                link(x, w if new else k, code, runs)
            w += new
            continue
        state[MERGED] += 1
        state[LIVE] -= 1
        one = slots[s, START, twin]
        other = slots[s, START, k]
        if policy.non_overlap:
            better = other > one
            if one == other:
                better = slots[s, SIZE, k] < slots[s, SIZE, twin]
                if slots[s, SIZE, k] == slots[s, SIZE, twin]:
                    better = _before(nodes, slots[s, NODE, k], slots[s, NODE, twin])
            if better:
                copy_run(runs, s, k, s, twin)
        else:
            union = append_node(nodes, state, -1, -1, slots[s, NODE, twin], slots[s, NODE, k], max(one, other), -1, -1)
            slots[s, NODE, twin] = union
            if other > one:
                slots[s, START, twin] = other
            # The greater digit is compatible with what either has selected so far.
            slots[s, DIGIT_OF_RUN, twin] = max(slots[s, DIGIT_OF_RUN, twin], slots[s, DIGIT_OF_RUN, k])
            slots[s, LAST, twin] = max(slots[s, LAST, twin], slots[s, LAST, k])
            slots[s, OLDEST, twin] = min(slots[s, OLDEST, twin], slots[s, OLDEST, k])
    if w < n and upto == 0:
        # Any run may have another place now.
        forget(s, nfa, runs)
    runs.indexes[x, LINKED] = w if chained else 0
    runs.indexes[x, MERGED_UPTO] = w
    runs.counts[s] = w


@inlined
def merge_touched(
    place: int, policy: Policy, events: Events, nfa: Nfa, runs: Runs, nodes: Array, state: Array, columns: Columns
) -> None:
    """Merges the runs of the states that events have changed; no runs are in state 0, which stands for all of them."""
    runs.touched[0] = 0
    for s in range(1, runs.counts.size):
        if runs.touched[s] != 0:
            runs.touched[s] = 0
            if runs.counts[s] > 1:
                merge_runs(s, place, policy, events, nfa, runs, nodes, state, columns)


@inlined
def prefer(nodes: Array, found: Array, begin: int, end: int) -> int:
    """Which of the matches that end at one event NON-OVERLAP prefers: the latest start, then fewer events, then smaller
    ones.
    """
    best = begin
    best_size = -1
    for entry in range(begin, end):
        node = found[FOUND_NODE, entry]
        size = 0
        walked = node
        while walked >= 0:
            size += 1
            walked = nodes[PREVIOUS, walked]
        chosen = found[FOUND_NODE, best]
        better = nodes[YOUNGEST, node] > nodes[YOUNGEST, chosen]
        if nodes[YOUNGEST, node] == nodes[YOUNGEST, chosen] and entry > begin:
            better = size < best_size or (size == best_size and _before(nodes, node, chosen))
        if better or entry == begin:
            best = entry
            best_size = size
    return best


@inlined
def end_overlapping(ended: int, runs: Runs, state: Array) -> None:
    """Lets go of the runs that did not start after a place."""
    state[LIVE] = 0
    state[HOLES] = 0
    for s in range(runs.counts.size):
        w = 0
        for k in range(runs.counts[s]):
            if runs.slots[s, START, k] > ended:
                if w != k:
                    copy_run(runs, s, k, s, w)
                w += 1
        runs.counts[s] = w
        runs.moved[s] = 1
        state[LIVE] += w
