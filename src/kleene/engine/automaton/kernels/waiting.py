"""Indexes over the runs of a state: which of them an event may concern, without a look at the others.

A condition between what a run has bound and the event at hand is `f(run) = g(event)` or `f(run) <= g(event)`; the filter gives
both sides as integers in the same order (`_Writer.key` in `kleene.engine.automaton.run_program`). For equality runs are chained
by the hash of f (`heads` and `links`); for order `heads` has the least f of each block of 64 runs, and of each 64 blocks.
Merging chains runs by what later conditions read of them.

An index may give too many runs, never too few: the filter decides afterwards. Runs are added when the next event asks, in the
order of the state. A run that leaves a state stays in its place as a hole (`START` is `HOLE`) until the state is compacted;
then its indexes are made anew. An index that gives many of its runs rests for a while, longer each time.

Cost: an entry per run; per event the runs found, and for order comparisons one look per 4,096 runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.automaton.kernels.layout import (
    BEGINS,
    FILTERED,
    HASHED,
    HOLE,
    HOLES,
    LINKED,
    LIVE,
    MARKED,
    MERGED_UPTO,
    NOTHING,
    PENALTY,
    REST,
    SITE_BEGIN_KEY,
    SITE_TAKE_KEY,
    SITES,
    SIZE_OF_INDEX,
    START,
    TAKES,
    Nfa,
    Runs,
)
from kleene.engine.automaton.kernels.run_state import copy_run, filter_runs
from kleene.engine.events.kernels.tables import Columns
from kleene.engine.kernels import RunFilter, called, inlined, step

LONGEST_REST = 1023


@inlined
def _bucket(key: Any, size: int) -> Any:
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(32)) & (size - 1)


@inlined
def first_of(x: int, key: Any, runs: Runs) -> Any:
    """The run at the head of the chain of a key, or -1."""
    return runs.heads[x, _bucket(key, runs.indexes[x, SIZE_OF_INDEX])]


@inlined
def link(x: int, k: int, key: Any, runs: Runs) -> None:
    """Puts a run at the head of the chain of its key."""
    at = _bucket(key, runs.indexes[x, SIZE_OF_INDEX])
    runs.keys[x, k] = key
    runs.links[x, k] = runs.heads[x, at]
    runs.heads[x, at] = k


@inlined
def clear_chains(x: int, n: int, runs: Runs) -> None:
    """Begins an index by hash anew, for n runs and as many again."""
    size = 64
    while size < 2 * n:
        size *= 2
    for at in range(size):
        runs.heads[x, at] = -1
    runs.indexes[x, SIZE_OF_INDEX] = size
    runs.indexes[x, LINKED] = 0


@inlined
def _note_least(x: int, k: int, runs: Runs) -> None:
    """Adds a run to an index by order."""
    key = runs.keys[x, k]
    above = (runs.keys.shape[1] >> 6) + 1
    runs.heads[x, k >> 6] = key if k & 63 == 0 else min(key, runs.heads[x, k >> 6])
    runs.heads[x, above + (k >> 12)] = key if k & 4095 == 0 else min(key, runs.heads[x, above + (k >> 12)])


@step
def _add_new(x: int, s: int, hashed: bool, runs: Runs) -> None:
    """Adds the runs that have come since the last look; their keys are there."""
    for k in range(runs.indexes[x, LINKED], runs.counts[s]):
        if runs.slots[s, START, k] == HOLE:
            runs.keys[x, k] = NOTHING
        if not hashed:
            _note_least(x, k, runs)
        elif runs.keys[x, k] != NOTHING:
            link(x, k, runs.keys[x, k], runs)
    runs.indexes[x, LINKED] = runs.counts[s]


@step
def _find_equal(x: int, s: int, bound: Any, found: int, runs: Runs) -> int:
    """Adds the runs with a key to those found, in their order; takes holes out of the chain."""
    links = runs.links
    chosen = runs.chosen
    first = found
    k = first_of(x, bound, runs)
    before = -1
    while k >= 0:
        following = links[x, k]
        if runs.slots[s, START, k] != HOLE:
            if runs.keys[x, k] == bound and runs.flags[MARKED, k] == 0:
                chosen[found] = k
                found += 1
            before = k
        elif before >= 0:
            links[x, before] = following
        else:
            runs.heads[x, _bucket(bound, runs.indexes[x, SIZE_OF_INDEX])] = following
        k = following
    for i in range((found - first) // 2):
        chosen[first + i], chosen[found - 1 - i] = chosen[found - 1 - i], chosen[first + i]
    return found


@step
def _find_least(x: int, s: int, bound: Any, found: int, runs: Runs) -> int:
    """Adds the runs with keys up to a bound to those found; brings the blocks where it looks up to date."""
    keys = runs.keys
    least = runs.heads
    n = runs.counts[s]
    above = (keys.shape[1] >> 6) + 1
    for group in range((n + 4095) >> 12):
        if least[x, above + group] > bound:
            continue
        least_of_group = NOTHING
        for block in range(group << 6, min((group + 1) << 6, (n + 63) >> 6)):
            if least[x, block] <= bound:
                least_of_block = NOTHING
                for k in range(block << 6, min((block + 1) << 6, n)):
                    if keys[x, k] <= bound:
                        if runs.slots[s, START, k] == HOLE:
                            keys[x, k] = NOTHING
                        elif runs.flags[MARKED, k] == 0:
                            runs.chosen[found] = k
                            found += 1
                    least_of_block = min(least_of_block, keys[x, k])
                least[x, block] = least_of_block
            least_of_group = min(least_of_group, least[x, block])
        least[x, above + group] = least_of_group
    return found


@inlined
def forget(s: int, nfa: Nfa, runs: Runs) -> None:
    """The runs of a state have other places, or other values: its indexes are made anew."""
    for purpose in range(nfa.indexes.shape[0]):
        x = nfa.indexes[purpose, s]
        if x >= 0:
            runs.indexes[x, LINKED] = 0
            runs.indexes[x, MERGED_UPTO] = 0
    runs.moved[s] = 0


@called
def choose(
    component: int,
    following: int,
    s: int,
    place: int,
    may_take: bool,
    may_begin: bool,
    masks: Array,
    nfa: Nfa,
    runs: Runs,
    nodes: Array,
    run_filter: RunFilter,
    columns: Columns,
) -> int:
    """The runs of a state that an event may concern, in `chosen`; -1 if all of them are to be looked at."""
    n = runs.counts[s]
    found = 0
    if runs.moved[s] != 0:
        forget(s, nfa, runs)
    for edge in range(2):
        if found < 0 or (edge == TAKES and not may_take) or (edge == BEGINS and not may_begin):
            continue
        x = nfa.indexes[edge, s]
        if x < 0 or runs.indexes[x, REST] > 0:
            if x >= 0:
                runs.indexes[x, REST] -= 1
            found = -1
            continue
        of = component if edge == TAKES else following
        kind = SITE_TAKE_KEY if edge == TAKES else SITE_BEGIN_KEY
        site = of * SITES + kind
        hashed = nfa.components[FILTERED + kind, of] == HASHED
        if hashed and (runs.indexes[x, LINKED] == 0 or n > runs.indexes[x, SIZE_OF_INDEX]):
            clear_chains(x, n, runs)
        if runs.indexes[x, LINKED] < n:
            filter_runs(site, runs.indexes[x, LINKED], n, s, x, 0, masks, runs, nodes, run_filter, columns)
            _add_new(x, s, hashed, runs)
        # The next site is that of the event's side.
        known = filter_runs(site + 1, place, n, s, x, 0, masks, runs, nodes, run_filter, columns)
        for i in range(found):
            runs.flags[MARKED, runs.chosen[i]] = 1
        marked = found
        if known != 0:
            bound = runs.scratch[0]
            if hashed:
                found = _find_equal(x, s, bound, found, runs)
            else:
                found = _find_least(x, s, bound, found, runs)
        for i in range(marked):
            runs.flags[MARKED, runs.chosen[i]] = 0
        if 8 * found > n:
            runs.indexes[x, PENALTY] = min(2 * runs.indexes[x, PENALTY] + 1, LONGEST_REST)
            runs.indexes[x, REST] = runs.indexes[x, PENALTY]
            found = -1
        else:
            runs.indexes[x, PENALTY] >>= 1
    return found


@called
def compact(s: int, place: int, window: int, clock: Array, runs: Runs, state: Array) -> None:
    """Closes the holes of a state, and drops the runs whose window is over at a place."""
    n = runs.counts[s]
    w = 0
    for k in range(n):
        start = runs.slots[s, START, k]
        if start == HOLE:
            state[HOLES] -= 1
        elif clock[place] - clock[start] >= window:
            state[LIVE] -= 1
        else:
            if w != k:
                copy_run(runs, s, k, s, w)
            w += 1
    if w < n:
        runs.moved[s] = 1
        runs.counts[s] = w
