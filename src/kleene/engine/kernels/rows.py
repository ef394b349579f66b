"""From columns to ordered groups of relevant rows: type tests, dense codes, counting sort.

Costs, measured on one core: type test and compaction about 1 ns a row, dense codes 1-12 ns a relevant row (cache), sort 4-12
ns.
"""

from __future__ import annotations

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.kernels import inlined, kernel

_1 = np.uint64(1)
STRETCH = np.uint64(1024)
"""How many values are compared before it is looked at what came of it."""


@kernel
def select_by_type(codes: Array, component_masks: Array, rows: Array, masks: Array) -> int:
    """Writes the rows whose type code has a component, and their component masks; returns how many.

    Without room for rows only masks are written: all rows have one.
    """
    if rows.size == 0:
        for row in range(codes.size):
            masks[row] = component_masks[codes[row]]
        return codes.size
    count = 0
    for row in range(codes.size):
        mask = component_masks[codes[row]]
        rows[count] = row
        masks[count] = mask
        count += mask != 0
    return count


BELOW, EQUAL, ABOVE = 1, 2, 4
"""Outcomes of a comparison."""


@kernel
def keep_where(values: Array, rows: Array, accepted: int, constant: int, modulus: int, masks: Array, bit: int) -> None:
    """Clears the bit of masks whose row's value (or its remainder, of the sign of the value) does not compare as accepted.

    Remainders are of values that floating point holds exactly.
    """
    whole = rows.size == values.size
    inverse = 1.0 / modulus if modulus else 0.0
    for position in range(rows.size):
        value = np.int64(values[position] if whole else values[rows[position]])
        if modulus:
            size = abs(value)
            size -= np.int64(size * inverse) * modulus
            size += modulus if size < 0 else 0
            size -= modulus if size >= modulus else 0
            value = -size if value < 0 else size
        outcome = (1 if value < constant else 0) | (2 if value == constant else 0) | (4 if value > constant else 0)
        masks[position] &= ~(bit if outcome & accepted == 0 else 0)


@kernel
def dense_codes(keys: Array, table: Array, codes: Array) -> int:
    """Numbers the distinct int64 keys in order of appearance; `table` holds -1 and has a power of two > 2 * keys entries.

    Open addressing: a slot holds the position of the first row with its key.
    """
    size = np.uint64(table.size - 1)
    distinct = 0
    for row in range(keys.size):
        key = keys[row]
        mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        slot = (mixed ^ (mixed >> np.uint64(32))) & size
        while True:
            first = table[slot]
            if first < 0:
                table[slot] = row
                codes[row] = distinct
                distinct += 1
                break
            if keys[first] == key:
                codes[row] = codes[first]
                break
            slot = (slot + np.uint64(1)) & size
    return distinct


@kernel
def counting_sort(
    codes: Array, ts: Array, masks: Array, offsets: Array, order: Array, sorted_ts: Array, sorted_masks: Array
) -> None:
    """Orders rows by code, stably, with their times and masks, so that each group is then read in one sweep.

    `offsets` has one entry more than there are codes and ends as the bounds of the groups.
    """
    size = np.uint64(codes.size)
    for row in range(size):  # unsigned, as numba looks at the sign of any other index
        offsets[np.uint64(codes[row]) + _1] += 1
    for code in range(1, offsets.size):
        offsets[code] += offsets[code - 1]
    for row in range(size):
        group = np.uint64(codes[row])
        place = np.uint64(offsets[group])
        order[place] = np.int64(row)
        sorted_ts[place] = ts[row]
        sorted_masks[place] = masks[row]
        offsets[group] += 1
    for code in range(offsets.size - 1, 0, -1):
        offsets[code] = offsets[code - 1]
    offsets[0] = 0


@inlined
def lower_bound(numbers: Array, low: int, high: int, wanted: int) -> int:
    """Of numbers that ascend, the place of the first from `low` to before `high` that is not below the wanted one."""
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def first_descent(values: Array) -> int:
    """The first position whose value is smaller than the one before it, or -1 if the values never descend."""
    begin = _1
    size = np.uint64(values.size)
    while begin < size:
        end = min(begin + STRETCH, size)
        descents = 0
        for row in range(begin, end):  # without a way out, so that several are compared at once
            descents += 1 if values[row] < values[row - _1] else 0
        if descents:
            while values[begin] >= values[begin - _1]:
                begin += _1
            return int(np.int64(begin))  # of one type with -1
        begin = end
    return -1


@kernel
def tally(masks: Array, counts: Array) -> None:
    """Adds up in `counts[0]` how often each mask is there; four rows of counts, as one would wait for itself."""
    whole = masks.size // 4 * 4
    for row in range(0, whole, 4):
        counts[0, masks[row]] += 1
        counts[1, masks[row + 1]] += 1
        counts[2, masks[row + 2]] += 1
        counts[3, masks[row + 3]] += 1
    for row in range(whole, masks.size):
        counts[0, masks[row]] += 1
    for mask in range(counts.shape[1]):
        counts[0, mask] += counts[1, mask] + counts[2, mask] + counts[3, mask]


@kernel
def gather(values: Array, places: Array, out: Array) -> None:
    """`out = values[places]`."""
    for position in range(places.size):
        out[position] = values[np.uint64(places[position])]  # unsigned, as numba looks at the sign of any other index


@kernel
def count_ends(last: Array, ends: Array, most: int) -> int:
    """Counts at each place how many matches end there; returns a place with more than `most`, or -1."""
    over = -1
    for match in range(last.size):
        place = last[match]
        ends[place] += 1
        if ends[place] > most:
            over = place
    return over


@kernel
def alike_at_begin(values: Array) -> int:
    """How many values at the beginning are alike."""
    count = 1
    while count < values.size and values[count] == values[0]:
        count += 1
    return count


@kernel
def alike_at_end(values: Array) -> int:
    """How many values at the end are alike."""
    last = values.size - 1
    count = 1
    while count <= last and values[last - count] == values[last]:
        count += 1
    return count
