"""A list of events cut into blocks of equal size, the entries of each in the order of a value: those of a range of the list
whose values lie in a range are found without a look at the others.

A block outside the range of values costs two comparisons, any other two binary searches. Where values follow the order of the
list, the range of values in a block may be that part of it which lies outside the range of the list: what is inside is then
found by zones of a few neighbouring entries, by the least and the greatest value of each.
"""

from __future__ import annotations

from typing import NamedTuple

from kleene.common.arrays import Array
from kleene.engine.kernels import called, inlined
from kleene.engine.kernels.rows import lower_bound

LARGEST = (1 << 63) - 1

FEW = 64
"""The entries of a zone, which are rather looked at one after the other."""

ZONE = 8
"""What a look at the entries of a zone counts."""


class Ranked(NamedTuple):
    """Entries of a list by value. Block k has those from `k * size` on: `entries[k * size : ends[k]]`, which ascend by value;
    entries without a value are missing. A size of 0: there is no index.
    """

    size: int
    values: Array
    entries: Array
    ends: Array
    numbers: Array
    """The values by entry; any number for one that has none."""
    least: Array
    """By zone."""
    greatest: Array


@inlined
def _within(block: int, lowest: int, highest: int, ranked: Ranked) -> tuple[int, int]:
    """The entries of a block whose values lie in a range."""
    begin = block * ranked.size
    end = ranked.ends[block]
    if begin == end or ranked.values[begin] > highest or ranked.values[end - 1] < lowest:
        return begin, begin
    if ranked.values[begin] < lowest:
        begin = lower_bound(ranked.values, begin, end, lowest)
    if ranked.values[end - 1] > highest:
        end = lower_bound(ranked.values, begin, end, highest + 1)
    return begin, end


@inlined
def _sort(numbers: Array, count: int) -> None:
    """Sorts the first of some numbers, in place."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap:
        for place in range(gap, count):
            number = numbers[place]
            at = place
            while at >= gap and numbers[at - gap] > number:
                numbers[at] = numbers[at - gap]
                at -= gap
            numbers[at] = number
        gap //= 3


@inlined
def _list_zones(
    low: int, high: int, lowest: int, highest: int, ranked: Ranked, most: int, found: Array, count: int
) -> tuple[int, int]:
    """Adds the entries from `low` to before `high` whose values lie in a range: how many there are then, what was looked at."""
    looked = 0
    for zone in range(low // FEW, (high - 1) // FEW + 1):
        if looked > most or count + FEW > found.size:
            return count, most + 1
        if ranked.greatest[zone] < lowest or ranked.least[zone] > highest:
            continue
        begun = count
        for entry in range(max(low, zone * FEW), min(high, (zone + 1) * FEW)):
            found[count] = entry
            count += 1 if lowest <= ranked.numbers[entry] <= highest else 0
        looked += ZONE + count - begun
    return count, looked


@called
def list_within(low: int, high: int, lowest: int, highest: int, ranked: Ranked, most: int, found: Array) -> int:
    """Lists the entries from `low` to before `high` whose values lie in a range, in order; -1 if `most` may be too few."""
    count = 0
    looked = 0
    for block in range(low // ranked.size, (high - 1) // ranked.size + 1):
        first, last = _within(block, lowest, highest, ranked)
        if looked + last - first > most:
            begin = max(low, block * ranked.size)
            end = min(high, (block + 1) * ranked.size)
            if end - begin == ranked.size:
                return -1
            count, further = _list_zones(begin, end, lowest, highest, ranked, most, found, count)
            looked += further
            if looked > most:
                return -1
            continue
        looked += last - first
        for index in range(first, last):
            entry = ranked.entries[index]
            found[count] = entry
            count += 1 if low <= entry < high else 0
    _sort(found, count)
    return count


@inlined
def _fits(entry: int, which: int, values: Array, lowest: Array, highest: Array) -> bool:
    fits = True
    for item in range(values.shape[0]):
        value = values[item, entry]
        fits = fits and (lowest[item, which] <= value) & (value <= highest[item, which])
    return fits


@inlined
def _first_of(at: int, end: int, which: int, values: Array, lowest: Array, highest: Array, item: int) -> int:
    """The first entry from `at` to before `end` that fits, or `end`, by a look at all of them."""
    low = lowest[item, which]
    high = highest[item, which]
    while at < end:
        near = min(end, at + FEW)
        hits = 0
        some = values[item, at:near]
        for index in range(some.size):  # without a way out, so that several are compared at once
            hits += 1 if (some[index] >= low) & (some[index] <= high) else 0
        if hits:
            for entry in range(at, near):
                if _fits(entry, which, values, lowest, highest):
                    return entry
        at = near
    return end


@called
def first_within(
    at: int, high: int, which: int, values: Array, lowest: Array, highest: Array, item: int, ranked: Ranked
) -> int:
    """The first entry of a list from `at` to before `high` of which all values, a row for each, lie in their ranges; `high` if
    there is none. The row `item` is that of the index, if there is one, and that of which least is to be expected.
    """
    if values.shape[0] == 0:
        return at
    near = min(high, at + FEW) if ranked.size else high
    found = _first_of(at, near, which, values, lowest, highest, item)
    if found < near:
        return found
    at = near
    while at < high:
        block = at // ranked.size
        end = min(high, (block + 1) * ranked.size)
        first, last = _within(block, lowest[item, which], highest[item, which], ranked)
        best = end
        if (last - first) * FEW > ranked.size:  # then one of the next is probably among them
            best = _first_of(at, end, which, values, lowest, highest, item)
        else:
            for index in range(first, last):
                entry = ranked.entries[index]
                if at <= entry < best and _fits(entry, which, values, lowest, highest):
                    best = entry
        if best < end:
            return best
        at = end
    return high
