"""Lists of elements, flat with offsets: taking some of them, and aggregates over ranges of their values.

A range is `[starts[r], ends[r])` of `values`; entries that are not `valid` are NULL and skipped. Each aggregate goes through
its range in order, so that a result depends on the range only and not on what stands around it.

Cost: linear in the sum of the lengths.
"""

from __future__ import annotations

import math

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.kernels import kernel

PARTIALS = 64
"""Room for the parts of an exact sum: they do not overlap, so 2098 / 53 of them cover all exponents of a float."""


@kernel
def take_lists(offsets: Array, places: Array, chosen: Array, out_offsets: Array, out: Array) -> None:
    """Copies the elements of the chosen lists to where `out_offsets` says."""
    for position in range(chosen.size):
        begin = offsets[chosen[position]]
        target = out_offsets[position]
        for index in range(out_offsets[position + 1] - target):
            out[target + index] = places[begin + index]


@kernel
def sum_integers(values: Array, valid: Array, starts: Array, ends: Array, sums: Array, wraps: Array) -> None:
    """The sum of each range, 0 of nothing: its lower 64 bits, and how often these were left at the upper end, less how often at
    the lower.
    """
    for row in range(starts.size):
        total = np.int64(0)
        left = 0
        for position in range(starts[row], ends[row]):
            if valid[position]:
                value = values[position]
                before = total
                total = total + value
                if (before ^ total) & (value ^ total) < 0:
                    left += 1 if value > 0 else -1
        sums[row] = total
        wraps[row] = left


@kernel
def sum_floats(values: Array, valid: Array, starts: Array, ends: Array, sums: Array) -> None:
    """The sum of each range, from left to right; 0 of nothing."""
    for row in range(starts.size):
        total = 0.0
        found = False
        for position in range(starts[row], ends[row]):
            if valid[position]:
                # Not 0.0 + value: the sum of -0.0 is -0.0.
                total = total + values[position] if found else values[position]
                found = True
        sums[row] = total


@kernel
def extreme(keys: Array, valid: Array, starts: Array, ends: Array, largest: bool, at: Array) -> None:
    """The position of the least (or largest) key of each range, the first of equals; NaN wins; -1 of nothing."""
    for row in range(starts.size):
        best = -1
        for position in range(starts[row], ends[row]):
            if not valid[position]:
                continue
            key = keys[position]
            if key != key:  # NaN
                best = position
                break
            if best < 0 or (key > keys[best] if largest else key < keys[best]):
                best = position
        at[row] = best


@kernel
def _add_exactly(partials: Array, count: int, value: float) -> int:
    """Adds a number to a sum kept as parts that do not overlap (Shewchuk); returns how many parts there are."""
    kept = 0
    for index in range(count):
        part = partials[index]
        if abs(value) < abs(part):
            value, part = part, value
        high = value + part
        low = part - (high - value)
        if low != 0.0:
            partials[kept] = low
            kept += 1
        value = high
    partials[kept] = value
    return kept + 1


@kernel
def _rounded(partials: Array, count: int) -> float:
    """The float nearest to the sum of the parts, ties to even."""
    if count == 0:
        return 0.0
    index = count - 1
    high = partials[index]
    low = 0.0
    while index > 0:
        index -= 1
        before = high
        part = partials[index]
        high = before + part
        low = part - (high - before)
        if low != 0.0:
            break
    if index > 0 and ((low < 0.0 and partials[index - 1] < 0.0) or (low > 0.0 and partials[index - 1] > 0.0)):
        twice = low * 2.0
        after = high + twice
        if twice == after - high:
            high = after
    return float(high)


@kernel
def deviations(values: Array, valid: Array, starts: Array, ends: Array, partials: Array, found: Array) -> None:
    """The sample standard deviation of each range, from exact sums; meaningless for fewer than two values.

    `partials` has room for PARTIALS parts of a sum.
    """
    for row in range(starts.size):
        known = 0
        count = 0
        finite = True
        for position in range(starts[row], ends[row]):
            if valid[position]:
                known += 1
                finite = finite and math.isfinite(values[position])
                if finite:
                    count = _add_exactly(partials, count, values[position])
        if not finite:
            found[row] = np.nan
        elif known > 1:
            mean = _rounded(partials, count) / known
            count = 0
            for position in range(starts[row], ends[row]):
                if valid[position]:
                    distance = values[position] - mean
                    count = _add_exactly(partials, count, distance * distance)
            found[row] = math.sqrt(_rounded(partials, count) / (known - 1))
