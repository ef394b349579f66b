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
    INTEGER,
    INTEGER_COLUMN,
    LAST,
    LIVE,
    MERGED,
    NODE,
    OLDEST,
    POSITIVE,
    PREVIOUS,
    SIZE,
    START,
    YOUNGEST,
)
from kleene.engine.automaton.kernels.run_state import append_node, copy_run
from kleene.engine.kernels import inlined


@inlined
def _equivalent(
    s: int, j: int, k: int, merge_reads: Array, merge_bounds: Array, runs: Array, run_floats: Array, ints: Array, floats: Array,
    valid: Array,
) -> bool:  # fmt: skip
    """Whether two runs of a state have the same values in all that future conditions read."""
    same = True
    for entry in range(merge_bounds[s], merge_bounds[s + 1]):
        kind = merge_reads[entry, 0]
        slot = merge_reads[entry, 1]
        column = merge_reads[entry, 2]
        if kind == INTEGER:
            same = runs[s, slot, j] == runs[s, slot, k]
        elif kind == FLOAT:
            same = run_floats[s, slot, j] == run_floats[s, slot, k]
        elif kind == POSITIVE:
            same = (runs[s, slot, j] > 0) == (runs[s, slot, k] > 0)
        else:
            one = runs[s, slot, j]
            other = runs[s, slot, k]
            if kind == INTEGER_COLUMN:
                same = ints[column, one] == ints[column, other] and valid[column, one] == valid[column, other]
            else:
                row = valid.shape[0] - 1 - column
                same = floats[column, one] == floats[column, other] and valid[row, one] == valid[row, other]
        if not same:
            break
    return same


@inlined
def _hashed(
    s: int, k: int, merge_reads: Array, merge_bounds: Array, runs: Array, run_floats: Array, ints: Array, floats: Array
) -> Any:
    value = np.uint64(1469598103934665603)
    for entry in range(merge_bounds[s], merge_bounds[s + 1]):
        kind = merge_reads[entry, 0]
        slot = merge_reads[entry, 1]
        column = merge_reads[entry, 2]
        word = np.int64(0)
        if kind == INTEGER:
            word = runs[s, slot, k]
        elif kind == FLOAT:
            number = run_floats[s, slot, k]
            word = np.int64(number * 1024.0) if abs(number) < 1e15 else np.int64(0)
        elif kind == POSITIVE:
            word = np.int64(1 if runs[s, slot, k] > 0 else 0)
        elif kind == INTEGER_COLUMN:
            word = ints[column, runs[s, slot, k]]
        else:
            number = floats[column, runs[s, slot, k]]
            word = np.int64(number * 1024.0) if abs(number) < 1e15 else np.int64(0)
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
    s: int,
    place: int,
    order_matters: bool,
    non_overlap: bool,
    rank: Array,
    merge_reads: Array,
    merge_bounds: Array,
    runs: Array,
    run_floats: Array,
    counts: Array,
    nodes: Array,
    table: Array,
    state: Array,
    ints: Array,
    floats: Array,
    valid: Array,
) -> None:
    """Makes one of the runs of a state that have the same future (section 5.2.2).

    The combined run is as young as its youngest. Under NON-OVERLAP only the run whose match would be preferred is kept.
    """
    n = counts[s]
    size = 0
    if n > 12:
        size = 32
        while size < 2 * n:
            size *= 2
        for entry in range(size):
            table[entry] = -1
    w = 0
    for k in range(n):
        twin = -1
        slot = 0
        if size == 0:
            for j in range(w):
                if twin < 0 and _equivalent(s, j, k, merge_reads, merge_bounds, runs, run_floats, ints, floats, valid):
                    if not order_matters or (rank[runs[s, LAST, j]] == rank[place]) == (rank[runs[s, LAST, k]] == rank[place]):
                        twin = j
        else:
            slot = _hashed(s, k, merge_reads, merge_bounds, runs, run_floats, ints, floats) & (size - 1)
            while table[slot] >= 0 and twin < 0:
                j = table[slot]
                if _equivalent(s, j, k, merge_reads, merge_bounds, runs, run_floats, ints, floats, valid):
                    if not order_matters or (rank[runs[s, LAST, j]] == rank[place]) == (rank[runs[s, LAST, k]] == rank[place]):
                        twin = j
                slot = (slot + 1) & (size - 1)
        if twin < 0:
            if size > 0:
                table[slot] = w
            if w != k:
                copy_run(runs, run_floats, s, k, s, w)
            w += 1
            continue
        state[MERGED] += 1
        one = runs[s, START, twin]
        other = runs[s, START, k]
        if non_overlap:
            better = other > one
            if one == other:
                better = runs[s, SIZE, k] < runs[s, SIZE, twin]
                if runs[s, SIZE, k] == runs[s, SIZE, twin]:
                    better = _before(nodes, runs[s, NODE, k], runs[s, NODE, twin])
            if better:
                copy_run(runs, run_floats, s, k, s, twin)
        else:
            union = append_node(nodes, state, -1, -1, runs[s, NODE, twin], runs[s, NODE, k], max(one, other), -1, -1)
            runs[s, NODE, twin] = union
            if other > one:
                runs[s, START, twin] = other
            # The greater digit is compatible with what either has selected so far.
            runs[s, DIGIT_OF_RUN, twin] = max(runs[s, DIGIT_OF_RUN, twin], runs[s, DIGIT_OF_RUN, k])
            runs[s, LAST, twin] = max(runs[s, LAST, twin], runs[s, LAST, k])
            runs[s, OLDEST, twin] = min(runs[s, OLDEST, twin], runs[s, OLDEST, k])
    counts[s] = w
    state[LIVE] -= n - w


@inlined
def merge_touched(
    place: int,
    order_matters: bool,
    non_overlap: bool,
    rank: Array,
    merge_reads: Array,
    merge_bounds: Array,
    runs: Array,
    run_floats: Array,
    counts: Array,
    touched: Array,
    nodes: Array,
    table: Array,
    state: Array,
    ints: Array,
    floats: Array,
    valid: Array,
) -> None:
    """Merges the runs of the states that events have changed; no runs are in state 0, which stands for all of them."""
    touched[0] = 0
    for s in range(1, counts.size):
        if touched[s] != 0:
            touched[s] = 0
            if counts[s] > 1:
                merge_runs(
                    s, place, order_matters, non_overlap, rank, merge_reads, merge_bounds, runs, run_floats, counts, nodes,
                    table, state, ints, floats, valid,
                )  # fmt: skip


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
def end_overlapping(ended: int, runs: Array, run_floats: Array, counts: Array, state: Array) -> None:
    """Lets go of the runs that did not start after a place."""
    state[LIVE] = 0
    for s in range(counts.size):
        w = 0
        for k in range(counts[s]):
            if runs[s, START, k] > ended:
                if w != k:
                    copy_run(runs, run_floats, s, k, s, w)
                w += 1
        counts[s] = w
        state[LIVE] += w
