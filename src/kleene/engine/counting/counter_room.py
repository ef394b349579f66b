"""Room for what kernels of counters write: the values of each query's slots at the events that ask for them."""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.counting.kernels.counting import FLOAT_TOTAL
from kleene.engine.counting.kernels.tables import Asked
from kleene.engine.counting.program import Program, by_bit
from kleene.engine.counting.totals import Points
from kleene.engine.kernels.rows import tally

MOST_TALLIED = 16
"""Number of tests up to which all combinations are tallied at once."""


class Room:
    """Where a kernel writes the values of each query's slots, at places that have a test of the query's mask."""

    def __init__(self, program: Program, masks: list[int], counts: list[int], bits: int) -> None:
        """`counts` has the most values of each query."""
        self._slots = np.diff(program.values.slot_ranges)
        self._tests = reduce(or_, masks)
        self._asking = by_bit(masks, bits)
        self._seen = np.full(len(masks), -1, np.int64)
        self._positions = np.zeros(len(masks), np.int64)
        self._place_bases = bases_of(np.array(counts))
        self._places = np.empty(int(self._place_bases[-1]), np.int64)
        self._bases = bases_of(np.repeat(counts, self._slots))
        self._values = np.empty(int(self._bases[-1]), np.int64)
        self._floating = bool((program.values.slots[:, 0] == FLOAT_TOTAL).any())
        self._floats = np.empty(int(self._bases[-1]) if self._floating else 0)

    def asked(self) -> Asked:
        """What kernels take."""
        pending = np.empty(self._seen.size, np.int64)
        places = self._place_bases, self._places
        return Asked(
            self._tests, *self._asking, pending, self._seen, self._positions, *places, self._bases, self._values, self._floats
        )

    def again(self) -> Asked:
        """What kernels take that go over the events once for each slot."""
        self._seen.fill(-1)
        self._positions.fill(0)
        return self.asked()

    def points(self) -> list[Points]:
        """What was written, for each query."""
        found = []
        last = np.cumsum(self._slots)
        for query, count in enumerate(self._positions.tolist()):
            begins = self._bases[last[query] - self._slots[query] : last[query]]
            first = self._place_bases[query]
            values = [self._values[begin : begin + count] for begin in begins]
            floats = [self._floats[begin : begin + count] for begin in begins] if self._floating else []
            found.append(Points(self._places[first : first + count], _stacked(values, count), _stacked(floats, count)))
        return found


class Tallies:
    """How many events pass tests."""

    def __init__(self, masks: Array, bits: int) -> None:
        self._masks = masks
        few = bits <= MOST_TALLIED
        self._values = np.arange(1 << bits) if few else masks
        self._counts = _tally(masks, bits) if few else np.ones(1, np.int64)

    def passing(self, mask: int) -> int:
        """How many pass one of the tests of a mask."""
        if mask == 0:
            return 0
        passing = (self._values & mask) != 0
        return int(self._counts[passing].sum()) if self._counts.size > 1 else int(np.count_nonzero(passing))


def _tally(masks: Array, bits: int) -> Array:
    counts = np.zeros((4, 1 << bits), np.int64)
    tally(masks, counts)
    return np.asarray(counts[0])


def bases_of(counts: Array) -> Array:
    """Where ranges of some lengths begin, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _stacked(arrays: list[Array], count: int) -> Array:
    """Arrays of `count` values as rows of one; the only one without a copy."""
    if not arrays:
        return np.zeros((0, count))
    return arrays[0].reshape(1, count) if len(arrays) == 1 else np.array(arrays)
