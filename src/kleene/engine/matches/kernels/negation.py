"""Negation: has a negative event occurred in a match's open interval?

The negative events of a component are ordered by key, then by stream order (`probe`); or they are cut into time partitions of
equal length and ordered so within each (`probe_times`, the time-partitioned index of SASE section 3.3), where a probe visits
the partitions that overlap the interval and finds its key in each.

An interval's bounds are strict. A bound given by a positive neighbour is in stream order (`rank`), one given by the window in
time. Where conditions say which events are forbidden, the interval is a range of the list (`find_ranges`), which is searched
from its beginning (`list_forbidden`).
"""

from __future__ import annotations

from typing import NamedTuple

from kleene.common.arrays import Array
from kleene.engine.events.kernels.ranked import Ranked, first_within
from kleene.engine.kernels import inlined, kernel

LOOKED = 0
"""Entry of the `state` array: how many negative events have been looked at one after the other."""


class Intervals(NamedTuple):
    """The open intervals of matches, in stream order or in time."""

    after: Array
    """By match: its events are later than this..."""
    before: Array
    """...and earlier than this."""
    keys: Array
    """Empty if negative events of all keys count."""
    begin: Array
    """By row what `after` is compared with: `rank`, or the time for a negated start."""
    end: Array
    """By row what `before` is compared with: `rank`, or the time for a negated end."""


class Ranges(NamedTuple):
    """What conditions ask of the numbers of negative events: of each of them (a row of `values`, by entry of the list) a range
    for each match.
    """

    values: Array
    lowest: Array
    highest: Array
    item: int
    """The number that the index is of."""


@inlined
def _inside(row: int, match: int, of: Intervals) -> bool:
    return bool(of.begin[row] > of.after[match] and of.end[row] < of.before[match])


@inlined
def _first_after(low: int, end: int, match: int, rows: Array, of: Intervals) -> int:
    """The first entry of a list from `low` to before `end` that comes after the beginning of an interval."""
    after = of.after[match]
    while low < end:
        middle = (low + end) // 2
        if of.begin[rows[middle]] <= after:
            low = middle + 1
        else:
            end = middle
    return low


@kernel
def probe(of: Intervals, bounds: Array, rows: Array, found: Array) -> None:
    """Finds the earliest negative row in the interval of each match; others are left as they are.

    The negative rows of key k are `rows[bounds[k] : bounds[k + 1]]`.
    """
    for match in range(of.after.size):
        key = of.keys[match] if of.keys.size else 0
        end = bounds[key + 1]
        low = _first_after(bounds[key], end, match, rows, of)
        if low < end and _inside(rows[low], match, of):
            found[match] = rows[low]


@kernel
def probe_times(
    of: Intervals, times: Array, origin: int, width: int, bounds: Array, keys: Array, rows: Array, found: Array
) -> None:
    """The same over partitions of time: the negative rows of each are ordered by key, and by stream order within a key.

    `times` are those in which the intervals begin and end.
    """
    for match in range(of.after.size):
        partition = max(0, (times[0, match] - origin) // width)
        final = min(bounds.size - 2, (times[1, match] - origin) // width)
        key = of.keys[match] if of.keys.size else 0
        searching = True
        while searching and partition <= final:
            low = bounds[partition]
            end = bounds[partition + 1]
            high = end
            while low < high:
                middle = (low + high) // 2
                if keys[middle] < key:
                    low = middle + 1
                else:
                    high = middle
            while searching and low < end and keys[low] == key:
                if _inside(rows[low], match, of):
                    found[match] = rows[low]
                    searching = False
                low += 1
            partition += 1


@kernel
def scan(of: Intervals, keys: Array, rows: Array, found: Array) -> None:
    """The same without an index: every match reads every negative event. For measuring what the index saves."""
    for match in range(of.after.size):
        key = of.keys[match] if of.keys.size else 0
        for entry in range(rows.size):
            if keys[entry] == key and _inside(rows[entry], match, of):
                found[match] = rows[entry]
                break


@kernel
def find_ranges(of: Intervals, bounds: Array, rows: Array, low: Array, high: Array) -> None:
    """Finds the entries of `rows` in the interval of each match: those from `low` to before `high`."""
    for match in range(of.after.size):
        key = of.keys[match] if of.keys.size else 0
        begin = _first_after(bounds[key], bounds[key + 1], match, rows, of)
        low[match] = begin
        end = bounds[key + 1]
        before = of.before[match]
        while begin < end:
            middle = (begin + end) // 2
            if of.end[rows[middle]] < before:
                begin = middle + 1
            else:
                end = middle
        high[match] = begin


@kernel
def list_forbidden(
    asked: Array,
    begin: int,
    at: Array,
    high: Array,
    ranges: Ranges,
    ranked: Ranked,
    most: int,
    patience: int,
    state: Array,
    pair_match: Array,
    pair_entry: Array,
) -> tuple[int, int]:
    """Lists, for each of the matches `asked` from number `begin` on, the next entries that satisfy the ranges, at most `most`,
    and moves `at` behind them. Returns the number of matches that are done with and of pairs: without an index it stops when
    it has looked at more than `patience` entries.
    """
    count = 0
    for number in range(begin, asked.size):
        if state[LOOKED] > patience:
            return number, count
        match = asked[number]
        listed = 0
        while listed < most and at[match] < high[match]:
            entry = first_within(
                at[match], high[match], match, ranges.values, ranges.lowest, ranges.highest, ranges.item, ranked
            )
            if ranked.size == 0:
                state[LOOKED] += entry - at[match]
            at[match] = entry + 1
            if entry < high[match]:
                pair_match[count] = match
                pair_entry[count] = entry
                count += 1
                listed += 1
    return asked.size, count
