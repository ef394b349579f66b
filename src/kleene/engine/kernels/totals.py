"""Values of partitions as values of groups, in stream order: what partitions count is added up, and expiries take their turn.

A partition's value changes at its triggers and when its start events expire; a group's value is the sum (or the largest) of its
partitions'. Integers are kept as running totals, which is exact; floats and largest values in a tree over the partitions of a
group, which never has to subtract. Cost: constant for integers, logarithmic in the partitions of a group for the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.engine.kernels import inlined, kernel
from kleene.engine.kernels.counting import CAP, FLOAT_TOTAL, TOTAL

Array = np.ndarray[Any, Any]

ROWS, OVERFLOWED = range(2)


@inlined
def put(
    partition: int,
    group: int,
    source: int,
    kinds: Array,
    values: Array,
    floats: Array,
    current: Array,
    leaves: Array,
    roots: Array,
    trees: Array,
    float_trees: Array,
    totals: Array,
    float_totals: Array,
) -> bool:
    """Makes `values[:, source]` the values of a partition; returns whether an integer left 64 bits."""
    for slot in range(kinds.size):
        kind = kinds[slot]
        if kind == TOTAL:
            new = values[slot, source]
            rest = totals[slot, group] - current[slot, partition]
            if new > CAP - 1 - rest:
                return True
            totals[slot, group] = rest + new
            current[slot, partition] = new
            continue
        root = roots[group]
        node = leaves[partition]
        if kind == FLOAT_TOTAL:
            float_trees[slot, root + node] = floats[slot, source]
            while node > 1:
                node >>= 1
                float_trees[slot, root + node] = float_trees[slot, root + 2 * node] + float_trees[slot, root + 2 * node + 1]
            float_totals[slot, group] = float_trees[slot, root + node]
        else:
            trees[slot, root + node] = values[slot, source]
            while node > 1:
                node >>= 1
                trees[slot, root + node] = max(trees[slot, root + 2 * node], trees[slot, root + 2 * node + 1])
            totals[slot, group] = trees[slot, root + node]
    return False


@kernel
def begin(
    group_of: Array,
    kinds: Array,
    values: Array,
    floats: Array,
    current: Array,
    leaves: Array,
    roots: Array,
    trees: Array,
    float_trees: Array,
    totals: Array,
    float_totals: Array,
) -> bool:
    """Takes in the values of all partitions; returns whether an integer left 64 bits."""
    for partition in range(group_of.size):
        if put(
            partition,
            group_of[partition],
            partition,
            kinds,
            values,
            floats,
            current,
            leaves,
            roots,
            trees,
            float_trees,
            totals,
            float_totals,
        ):
            return True
    return False


@kernel
def add_up(
    ts: Array,
    rank: Array,
    emitting: Array,
    partition_of: Array,
    group_of: Array,
    window: int,
    since: int,
    until: int,
    on_change: bool,
    kinds: Array,
    trigger_rows: Array,
    trigger_sources: Array,
    values: Array,
    floats: Array,
    expiry_rows: Array,
    expiry_sources: Array,
    expiry_values: Array,
    expiry_floats: Array,
    current: Array,
    leaves: Array,
    roots: Array,
    trees: Array,
    float_trees: Array,
    totals: Array,
    float_totals: Array,
    triggered: Array,
    stamped: Array,
    touched: Array,
    earlier: Array,
    float_earlier: Array,
    out_rows: Array,
    out_expired: Array,
    out_values: Array,
    out_floats: Array,
    out_earlier: Array,
    out_float_earlier: Array,
    state: Array,
) -> None:
    """Writes a row for each trigger (an event that is `emitting`) from the time `since` on and, with `on_change`, for each
    instant at which expiry changes a group that has no trigger then, with the values before it. Rows of triggers name their
    event, those of expiries the start event that expires. `state` tells how many rows there are, and whether an integer left 64
    bits.
    """
    trigger = 0
    expiry = 0
    ahead = 0
    count = 0
    while trigger < trigger_rows.size or expiry < expiry_rows.size:
        due = ts[expiry_rows[expiry]] + window if expiry < expiry_rows.size else CAP
        now = ts[trigger_rows[trigger]] if trigger < trigger_rows.size else CAP
        if due <= now:
            if due >= until:
                break
            if on_change:
                while ahead < trigger_rows.size and ts[trigger_rows[ahead]] <= due:
                    if emitting[trigger_rows[ahead]]:
                        triggered[group_of[trigger_rows[ahead]]] = ts[trigger_rows[ahead]]
                    ahead += 1
            many = 0
            while expiry < expiry_rows.size and ts[expiry_rows[expiry]] + window == due:
                row = expiry_rows[expiry]
                group = group_of[row]
                if on_change and stamped[group] != due:
                    stamped[group] = due
                    touched[many] = row
                    for slot in range(kinds.size):
                        earlier[slot, many] = totals[slot, group]
                        float_earlier[slot, many] = float_totals[slot, group]
                    many += 1
                if put(
                    partition_of[row],
                    group,
                    expiry_sources[expiry],
                    kinds,
                    expiry_values,
                    expiry_floats,
                    current,
                    leaves,
                    roots,
                    trees,
                    float_trees,
                    totals,
                    float_totals,
                ):
                    state[OVERFLOWED] = 1
                    return
                expiry += 1
            if due < since:
                continue
            for k in range(many):
                row = touched[k]
                group = group_of[row]
                if triggered[group] == due:
                    continue
                out_rows[count] = row
                out_expired[count] = 1
                for slot in range(kinds.size):
                    out_values[slot, count] = totals[slot, group]
                    out_floats[slot, count] = float_totals[slot, group]
                    out_earlier[slot, count] = earlier[slot, k]
                    out_float_earlier[slot, count] = float_earlier[slot, k]
                count += 1
            continue
        last = trigger
        while last < trigger_rows.size and rank[trigger_rows[last]] == rank[trigger_rows[trigger]]:
            row = trigger_rows[last]
            if put(
                partition_of[row],
                group_of[row],
                trigger_sources[last],
                kinds,
                values,
                floats,
                current,
                leaves,
                roots,
                trees,
                float_trees,
                totals,
                float_totals,
            ):
                state[OVERFLOWED] = 1
                return
            last += 1
        if now >= since:
            for k in range(trigger, last):
                row = trigger_rows[k]
                if not emitting[row]:
                    continue
                group = group_of[row]
                out_rows[count] = row
                out_expired[count] = 0
                for slot in range(kinds.size):
                    out_values[slot, count] = totals[slot, group]
                    out_floats[slot, count] = float_totals[slot, group]
                count += 1
        trigger = last
    state[ROWS] = count
