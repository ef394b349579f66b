"""The state of runs: what a selected event changes in a run's computation state (SASE+ section 5.2.1) and in the match
buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels.layout import (
    COMPONENT,
    COUNT_VALID,
    DIGIT,
    END_ACCUMULATORS,
    EVENT,
    FIRST_ACCUMULATOR,
    FLOAT_MAXIMUM,
    FLOAT_MINIMUM,
    FLOAT_SUM,
    FORK,
    INTEGER_MEAN,
    LAST_SLOT,
    LENGTH_SLOT,
    MAXIMUM,
    MEAN,
    META,
    MINIMUM,
    OTHER,
    PLACE_SLOT,
    PREVIOUS,
    SUM,
    USED,
    YOUNGEST,
    Nfa,
    Runs,
)
from kleene.engine.events.kernels.tables import Columns
from kleene.engine.kernels import RunFilter, inlined


@inlined
def filter_runs(
    site: int,
    row: int,
    n: int,
    s: int,
    flags_row: int,
    watched: int,
    masks: Array,
    runs: Runs,
    nodes: Array,
    run_filter: RunFilter,
    columns: Columns,
) -> int:
    """Calls the filter for n chosen runs of a state, or up to row n for a lone one: see `RunFilter`."""
    slots = runs.slots
    numbers = runs.floats
    room = slots.shape[2]
    return run_filter(
        site,
        row,
        n,
        room,
        columns.ints.shape[1],
        nodes.shape[1],
        s * slots.shape[1] * room,
        s * numbers.shape[1] * room,
        flags_row * room,
        watched,
        slots.ctypes,
        numbers.ctypes,
        columns.ints.ctypes,
        columns.floats.ctypes,
        columns.valid.ctypes,
        columns.constants.ctypes,
        runs.flags.ctypes,
        nodes.ctypes,
        runs.scratch.ctypes,
        masks.ctypes,
        runs.chosen.ctypes,
        runs.keys.ctypes,
    )


@inlined
def copy_run(runs: Runs, source: int, k: int, target: int, j: int) -> None:
    """Run k of a state as run j of another (or of the same)."""
    for slot in range(runs.slots.shape[1]):
        runs.slots[target, slot, j] = runs.slots[source, slot, k]
    for slot in range(runs.floats.shape[1]):
        runs.floats[target, slot, j] = runs.floats[source, slot, k]


@inlined
def accumulate(component: int, place: int, first: bool, target: int, j: int, nfa: Nfa, runs: Runs, columns: Columns) -> bool:
    """Brings the vector V of a run up to date with an event that was selected for a component; whether anything is different
    then that conditions read.
    """
    components = nfa.components
    accumulators = nfa.accumulators
    slots = runs.slots
    numbers = runs.floats
    valid = columns.valid
    changed = components[LAST_SLOT, component] >= 0 or components[LENGTH_SLOT, component] >= 0
    if first:
        if components[PLACE_SLOT, component] >= 0:
            slots[target, components[PLACE_SLOT, component], j] = place
        if components[LENGTH_SLOT, component] >= 0:
            slots[target, components[LENGTH_SLOT, component], j] = 0
    if components[LAST_SLOT, component] >= 0:
        slots[target, components[LAST_SLOT, component], j] = place
    if components[LENGTH_SLOT, component] >= 0:
        slots[target, components[LENGTH_SLOT, component], j] += 1
    for entry in range(components[FIRST_ACCUMULATOR, component], components[END_ACCUMULATORS, component]):
        operation = accumulators[entry, 0]
        column = accumulators[entry, 1]
        row = accumulators[entry, 2]
        if row < 0:
            row += valid.shape[0]
        slot = accumulators[entry, 3]
        count_slot = accumulators[entry, 4]
        known = valid[row, place] != 0
        count = 0
        if count_slot >= 0 and not first:
            count = slots[target, count_slot, j]
        if operation == COUNT_VALID:
            slots[target, slot, j] = count + (1 if known else 0)
            changed = changed or (known and (count == 0 or accumulators[entry, 6] != 0))
        elif operation <= MAXIMUM:
            before = 0 if first else slots[target, slot, j]
            after = before
            if first and operation == SUM:
                slots[target, accumulators[entry, 5], j] = 0
            if known:
                x = columns.ints[column, place]
                if operation == SUM:
                    after = before + x
                    if (before ^ after) & (x ^ after) < 0:
                        slots[target, accumulators[entry, 5], j] += 1 if x > 0 else -1
                        changed = True
                elif operation == MINIMUM:
                    after = x if count == 0 or x < before else before
                elif count_slot < 0:
                    after = max(x, before)
                else:
                    after = x if count == 0 or x > before else before
            slots[target, slot, j] = after
            changed = changed or after != before
        else:
            total = 0.0 if first else numbers[target, slot, j]
            earlier = total
            if known:
                y = columns.floats[column, place] if operation != INTEGER_MEAN else np.float64(columns.ints[column, place])
                if operation == FLOAT_SUM:
                    total = total + y
                elif operation == FLOAT_MINIMUM:
                    total = y if count == 0 or y < total or y != y else total
                elif operation == FLOAT_MAXIMUM:
                    total = y if count == 0 or y > total or y != y else total
                else:
                    mean = total + (y - total) / (count + 1)
                    squares_slot = accumulators[entry, 5]
                    squares = 0.0 if first else numbers[target, squares_slot, j]
                    numbers[target, squares_slot, j] = squares + (y - total) * (y - mean)
                    total = mean
            elif operation >= MEAN and first:
                numbers[target, accumulators[entry, 5], j] = 0.0
            numbers[target, slot, j] = total
            changed = changed or total != earlier or operation >= MEAN
    return bool(changed)


@inlined
def append_node(
    nodes: Array, state: Array, event: int, component: int, previous: int, other: int, youngest: int, digit: int, fork: int
) -> Any:
    """Adds a node to the match buffer; returns its number."""
    node = state[USED]
    nodes[EVENT, node] = event
    nodes[COMPONENT, node] = component
    nodes[PREVIOUS, node] = previous
    nodes[OTHER, node] = other
    nodes[YOUNGEST, node] = youngest
    nodes[DIGIT, node] = digit
    nodes[FORK, node] = fork
    state[USED] = node + 1
    return node


@inlined
def agree_codes(runs: Runs, s: int, k: int, tests: Array, place: int) -> bool:
    """Whether an event agrees with a run on every test; -1 agrees with everything, -2 with nothing."""
    same = True
    for test in range(tests.shape[0]):
        mine = runs.slots[s, META + test, k]
        its = tests[test, place]
        same = same and (its == -1 or (its >= 0 and (mine == -1 or mine == its)))
    return same
