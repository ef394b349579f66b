"""Aggregates over matches that come and go: sums of what is alive at given positions of the stream.

A span is a match (or several alike) with its birth and its death, as positions on one axis. What a span contributes is a row of
integers and a row of floats; how rows are added is said by kind:
- TOTAL: an integer that is added;
- HIGH and the LOW after it: a sum of 64-bit integers as `high * 2**32 + low`, which holds 2**31 times as much before it wraps;
- LARGEST: a code, of which the largest stays;
- floats come in pairs, a sum and its rounding error (double-double).

Spans of one group that die together share a leaf of the group's tree, and leaves are in order of death: what is alive at a
position is a range of leaves. So nothing is ever subtracted, floats do not drift, and an extreme needs no heap. Cost: the
logarithm of the longest range, per span and per question.
"""

from __future__ import annotations

from typing import NamedTuple

from kleene.common.arrays import Array
from kleene.engine.kernels import inlined, kernel

TOTAL, HIGH, LOW, LARGEST = range(4)

LOW_BITS = 32
LOW_MASK = (1 << LOW_BITS) - 1


class Spans(NamedTuple):
    """Spans in the order of their births; of each its birth, its leaf, and what it contributes."""

    order: Array
    birth: Array
    leaf: Array
    ints: Array
    floats: Array


@inlined
def _add(kinds: Array, begin: int, ints: Array, at: int, more: Array, source: int) -> None:
    """Adds row `source` of `more` to row `at` of `ints`, from the field `begin` on; `kinds` are those of the fields to add."""
    for index in range(kinds.size):
        field = begin + index
        kind = kinds[index]
        if kind == TOTAL:
            ints[at, field] += more[source, field]
        elif kind == LARGEST:
            ints[at, field] = max(ints[at, field], more[source, field])
        elif kind == HIGH:
            low = ints[at, field + 1] + more[source, field + 1]
            ints[at, field] += more[source, field] + (low >> LOW_BITS)
            ints[at, field + 1] = low & LOW_MASK


@inlined
def _add_floats(begin: int, end: int, floats: Array, at: int, more: Array, source: int) -> None:
    """Adds the pairs in the fields `[begin, end)`; what is not finite follows IEEE 754."""
    for field in range(begin, end, 2):
        one = floats[at, field]
        other = more[source, field]
        total = one + other
        if total - total == 0.0:
            part = total - one
            error = (one - (total - part)) + (other - part) + floats[at, field + 1] + more[source, field + 1]
            floats[at, field] = total + error
            floats[at, field + 1] = error - (floats[at, field] - total)
        else:
            floats[at, field] = total
            floats[at, field + 1] = 0.0


@kernel
def fold_lists(
    offsets: Array,
    rows: Array,
    kinds: Array,
    begin: int,
    float_begin: int,
    float_end: int,
    row_ints: Array,
    row_floats: Array,
    ints: Array,
    floats: Array,
) -> None:
    """Adds the rows of each list to the entry of the list: the integer fields from `begin` on, the floats `[begin, end)`."""
    for entry in range(offsets.size - 1):
        for position in range(offsets[entry], offsets[entry + 1]):
            _add(kinds, begin, ints, entry, row_ints, rows[position])
            _add_floats(float_begin, float_end, floats, entry, row_floats, rows[position])


@kernel
def fold_alike(runs: Array, firsts: Array, kinds: Array, ints: Array, floats: Array, out: Array, out_floats: Array) -> None:
    """Adds up spans that are alike, those of the same run; `out` begins as the first span of each."""
    for position in range(runs.size):
        run = runs[position]
        if firsts[run] != position:
            _add(kinds, 0, out, run, ints, position)
            _add_floats(0, floats.shape[1], out_floats, run, floats, position)


@inlined
def _add_range(
    begin: int,
    end: int,
    root: int,
    leaves: int,
    kinds: Array,
    tree: Array,
    float_tree: Array,
    q: int,
    out: Array,
    floats: Array,
) -> None:
    """Adds the leaves `[begin, end)` of a tree to row q of `out`."""
    low = begin + leaves
    high = end + leaves
    while low < high:
        if low & 1:
            _add(kinds, 0, out, q, tree, root + low)
            _add_floats(0, floats.shape[1], floats, q, float_tree, root + low)
            low += 1
        if high & 1:
            high -= 1
            _add(kinds, 0, out, q, tree, root + high)
            _add_floats(0, floats.shape[1], floats, q, float_tree, root + high)
        low >>= 1
        high >>= 1


@kernel
def add_alive(
    spans: Spans,
    first_leaf: Array,
    leaves: Array,
    kinds: Array,
    asked: Array,
    until: Array,
    ranges: Array,
    height: int,
    tree: Array,
    float_tree: Array,
    out: Array,
    out_floats: Array,
) -> None:
    """Answers questions, in the order `asked`: question q is about spans born by `until[q]` in a range of leaves.

    `first_leaf` and `leaves` tell, per leaf, where the leaves of its group begin and how many there
    are. `ranges` holds, per question, where its group's leaves begin, how many there are, and the bounds of the range; no range
    is as long as `2**height`, so that nodes which stand for more are not needed.
    """
    born = 0
    for position in range(asked.size):
        q = asked[position]
        while born < spans.order.size and spans.birth[spans.order[born]] <= until[q]:
            span = spans.order[born]
            born += 1
            own = spans.leaf[span]
            root = 2 * first_leaf[own]
            node = leaves[own] + own - first_leaf[own]
            for _ in range(height):
                _add(kinds, 0, tree, root + node, spans.ints, span)
                _add_floats(0, spans.floats.shape[1], float_tree, root + node, spans.floats, span)
                node >>= 1
                if node == 0:
                    break
        begin = ranges[q, 0]
        _add_range(
            ranges[q, 2] - begin, ranges[q, 3] - begin, 2 * begin, ranges[q, 1], kinds, tree, float_tree, q, out, out_floats
        )
