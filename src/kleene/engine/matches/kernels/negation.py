"""Negation: has a negative event occurred in a match's open interval?

The negative events of a component are ordered by key, then by stream order (`probe`); or they are cut into time partitions of
equal length and ordered so within each (`probe_times`, the time-partitioned index of SASE section 3.3), where a probe visits
the partitions that overlap the interval and finds its key in each.

An interval's bounds are strict. A bound given by a positive neighbour is in stream order (`rank`), one given by the window in
time.
"""

from __future__ import annotations

from typing import NamedTuple

from kleene.common.arrays import Array
from kleene.engine.kernels import inlined, kernel


class Intervals(NamedTuple):
    """The open intervals of matches, by row."""

    first: Array
    """The first event of each match."""
    last: Array
    after: Array
    """The neighbour before the negative component; empty for a negated start."""
    before: Array
    """The neighbour after it; empty for a negated end."""
    keys: Array
    """Empty if negative events of all keys count."""
    window: int
    ts: Array
    rank: Array


@inlined
def _interval(match: int, of: Intervals) -> tuple[int, int, int, int]:
    """The neighbour rows of a match's interval, -1 for a bound in time, and the bounds in time."""
    after_row = of.after[match] if of.after.size else -1
    before_row = of.before[match] if of.before.size else -1
    return after_row, before_row, of.ts[of.last[match]] - of.window, of.ts[of.first[match]] + of.window


@kernel
def _inside(row: int, after_row: int, before_row: int, lowest: int, highest: int, ts: Array, rank: Array) -> bool:
    """Whether a row lies in the interval; a neighbour row of -1 stands for the bound in time."""
    if after_row >= 0:
        if rank[row] <= rank[after_row]:
            return False
    elif ts[row] <= lowest:
        return False
    if before_row >= 0:
        return bool(rank[row] < rank[before_row])
    return bool(ts[row] < highest)


@kernel
def probe(
    of: Intervals,
    bounds: Array,
    rows: Array,
    begin: int,
    pairs: bool,
    found: Array,
    pair_match: Array,
    pair_row: Array,
) -> tuple[int, int]:
    """Finds the earliest negative row in the interval of each match from `begin` on (-1 where there is none), or, with `pairs`,
    lists (match, negative row) for predicates to decide.

    The negative rows of key k are `rows[bounds[k] : bounds[k + 1]]`. Returns the match to go on with (all of them, unless the
    list of pairs is full) and the number of pairs.
    """
    ts = of.ts
    rank = of.rank
    count = 0
    for match in range(begin, of.first.size):
        after_row, before_row, lowest, highest = _interval(match, of)
        key = of.keys[match] if of.keys.size else 0
        low = bounds[key]
        end = bounds[key + 1]
        high = end
        while low < high:
            middle = (low + high) // 2
            if rows[middle] <= after_row if after_row >= 0 else ts[rows[middle]] <= lowest:
                low = middle + 1
            else:
                high = middle
        while low < end and after_row >= 0 and rank[rows[low]] == rank[after_row]:
            low += 1  # simultaneous, so not after it
        started = count
        while low < end and _inside(rows[low], after_row, before_row, lowest, highest, ts, rank):
            if not pairs:
                found[match] = rows[low]
                break
            if count == pair_row.size:
                return match, started
            pair_match[count] = match
            pair_row[count] = rows[low]
            count += 1
            low += 1
    return of.first.size, count


@kernel
def probe_times(
    of: Intervals,
    origin: int,
    width: int,
    bounds: Array,
    keys: Array,
    rows: Array,
    begin: int,
    pairs: bool,
    found: Array,
    pair_match: Array,
    pair_row: Array,
) -> tuple[int, int]:
    """The same over partitions of time: the negative rows of each are ordered by key, and by stream order within a key."""
    ts = of.ts
    rank = of.rank
    count = 0
    for match in range(begin, of.first.size):
        after_row, before_row, lowest, highest = _interval(match, of)
        from_ts = ts[after_row] if after_row >= 0 else lowest
        to_ts = ts[before_row] if before_row >= 0 else highest
        partition = max(0, (from_ts - origin) // width)
        final = min(bounds.size - 2, (to_ts - origin) // width)
        started = count
        key = of.keys[match] if of.keys.size else 0
        while partition <= final:
            low = bounds[partition]
            end = bounds[partition + 1]
            high = end
            while low < high:
                middle = (low + high) // 2
                if keys[middle] < key:
                    low = middle + 1
                else:
                    high = middle
            while low < end and keys[low] == key:
                row = rows[low]
                low += 1
                if not _inside(row, after_row, before_row, lowest, highest, ts, rank):
                    continue
                if not pairs:
                    found[match] = row
                    break
                if count == pair_row.size:
                    return match, started
                pair_match[count] = match
                pair_row[count] = row
                count += 1
            if found[match] >= 0:
                break
            partition += 1
    return of.first.size, count


@kernel
def scan(
    of: Intervals,
    keys: Array,
    rows: Array,
    begin: int,
    pairs: bool,
    found: Array,
    pair_match: Array,
    pair_row: Array,
) -> tuple[int, int]:
    """The same without an index: every match reads every negative event. For measuring what the index saves."""
    ts = of.ts
    rank = of.rank
    count = 0
    for match in range(begin, of.first.size):
        after_row, before_row, lowest, highest = _interval(match, of)
        key = of.keys[match] if of.keys.size else 0
        started = count
        for entry in range(rows.size):
            if keys[entry] != key or not _inside(rows[entry], after_row, before_row, lowest, highest, ts, rank):
                continue
            if not pairs:
                found[match] = rows[entry]
                break
            if count == pair_row.size:
                return match, started
            pair_match[count] = match
            pair_row[count] = rows[entry]
            count += 1
    return of.first.size, count
