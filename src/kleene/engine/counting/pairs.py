"""Sums over the pairs of events that satisfy a comparison; see `kleene.engine.counting.kernels.pairs`.

A sum is one sweep over the events, whatever it adds up, and of a pattern of more than two as many as beginnings and ends have
entries (`kleene.engine.counting.kernels.links`). All is exact: numbers are kept as what is left of them after division by 2^64,
and where a sum might be larger than that, sweeps with other moduli tell whether it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import NO_WINDOW, Array
from kleene.common.columns import concat, take
from kleene.engine.allowance import Allowance
from kleene.engine.counting.counter_room import Room
from kleene.engine.counting.kernels import pairs
from kleene.engine.counting.kernels.counting import CAP
from kleene.engine.counting.kernels.links import Chain, Links, Product, find_bounds, link
from kleene.engine.counting.kernels.marking import most_alive
from kleene.engine.counting.kernels.tables import Events, Period, Weights
from kleene.engine.counting.program import Slot, mask_of
from kleene.engine.counting.totals import Points
from kleene.engine.events.grouping import Groups
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.vectorized import Evaluator
from kleene.engine.matches.order_codes import NO_CODE, order_codes
from kleene.pattern.predicates import Expression
from kleene.plan.counting.counters import CounterPlan

FEWEST = 1 << 10
"""The fewest events of a block."""

STRETCH = 2
"""How many windows a block reaches over, at least."""

SURE = 62
"""Sums with fewer bits surely fit."""

MODULUS_BITS = 31
"""What a modulus has: products of two numbers below it fit 64 bits."""


class Pairs:
    """The pairs of a query among the events of a pass."""

    def __init__(self, plan: CounterPlan, working: WorkingSet, groups: Groups, events: Events, allowance: Allowance) -> None:
        assert plan.compared is not None
        path, rows = plan.paths[0], events.ts.size
        self._tests = np.array([1 << position.bit for position in path], np.int64)
        self._before = plan.compared.place + 1
        first, second = path[plan.compared.place : plan.compared.place + 2]
        self._sides = pairs.Sides(1 << first.bit, 1 << second.bit, mask_of(first.negatives))
        self._events, self._window, self._allowance = events, plan.window, allowance
        allowance.hold(8 * 12 * rows, "ranks of events, and what they are in pairs with")
        self._ranks, self._ranges, self._sizes = self._ranked(plan, working, groups)
        size = int(self._sizes.max()) + 1
        self._trees = pairs.Trees(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(rows, np.int64))

    def _ranked(self, plan: CounterPlan, working: WorkingSet, groups: Groups) -> tuple[pairs.Ranks, pairs.Ranges, Array]:
        """The comparison as one of ranks, and the size of each block."""
        assert plan.compared is not None
        events, operator, rows = self._events, plan.compared.operator, self._events.ts.size
        block = np.empty(rows, np.int64)
        reach = NO_WINDOW if self._window is None else min(STRETCH * self._window, NO_WINDOW)
        sizes = np.zeros(pairs.cut_blocks(events, reach, FEWEST if self._window is not None else rows, block) + 1, np.int64)
        own, following, low, high = np.full((4, rows), pairs.UNRANKED)
        begin, end = low if operator in ("=", "!=") else np.zeros(rows, np.int64), low if operator in ("<", ">") else high
        if operator == "!=":
            begin, end = end, begin
        ranks = pairs.Ranks(block, own, following)
        places = [np.flatnonzero(events.masks & side) for side in (self._sides.first, self._sides.second)]
        codes = _codes(plan, working, *(item if groups.is_one else groups.order.take(item) for item in places))
        known = [item != NO_CODE for item in codes]
        ranked, at = (
            np.concatenate([item[given] for item, given in zip(items, known, strict=True)]) for items in (codes, places)
        )
        ranked = ~ranked if operator in (">", ">=") else ranked
        pairs.rank_values(ranked, np.argsort(ranked), int(np.count_nonzero(known[0])), at, sizes, low, high, ranks)
        return ranks, pairs.Ranges(begin, end, operator == "!="), sizes

    def points(self, slots: tuple[Slot, ...], weights: Weights, period: Period, rooms: Sequence[Room]) -> list[Points]:
        """The values of slots in each room: at triggers, and after expiries."""
        found = [self._values(slot, weights, period, rooms) for slot in slots]
        places = [room.points()[0].places for room in rooms]
        values = [np.array(item, np.int64).reshape(len(slots), -1) for item in zip(*found, strict=True)]
        return [Points(*item, np.zeros((0, item[0].size))) for item in zip(places, values, strict=True)]

    def _values(self, slot: Slot, weights: Weights, period: Period, rooms: Sequence[Room]) -> list[Array]:
        ones = np.ones(self._events.ts.size, np.int64)
        if slot.weight is None:
            chain = Chain(self._tests, self._before, -1, ones)
        else:
            assert slot.positions[0] is not None
            chain = Chain(self._tests, self._before, slot.positions[0], weights.integers[slot.weight])
        found = self._sums(chain, period, rooms, 0)
        for modulus in _moduli(self._checks(chain)):
            for values, left in zip(found, self._sums(chain, period, rooms, modulus), strict=True):
                values[values % modulus != left] = CAP
        for values in found:
            values[values < 0] = CAP
        return found

    def _checks(self, chain: Chain) -> int:
        """By how many moduli it takes to tell whether sums fit."""
        most = self._most_matches + np.log2(max(int(chain.weight.max(initial=0)), 1))
        return 0 if most < SURE else int((most - SURE) // (MODULUS_BITS - 1)) + 1

    @cached_property
    def _most_matches(self) -> float:
        """The logarithm of a number that no count of matches is above."""
        rows = np.log2(max(self._events.ts.size, 1)) * self._tests.size
        if rows < SURE:
            return float(rows)
        return float(sum(np.log2(max(self._most_alive(test), 1)) for test in self._tests.tolist()))

    def _most_alive(self, test: int) -> int:
        """The most events that pass a test in one window."""
        if self._window is None:
            return int(np.count_nonzero(self._events.masks & test))
        return int(most_alive(self._events, test, self._window))

    def _sums(self, chain: Chain, period: Period, rooms: Sequence[Room], modulus: int) -> list[Array]:
        """The sums in each room, less multiples of 2^64 or of the modulus."""
        if chain.tests.size == 2 and not modulus:
            ones = np.ones_like(chain.weight)
            weighted = [chain.weight if chain.weighted == position else ones for position in range(2)]
            return self._sweep(pairs.Addends(*weighted), period, rooms, 0)
        links = self._links(chain, modulus)
        found: list[Array] = []
        factors: list[tuple[Array, Array]] = []
        for first, (one, begun) in enumerate(zip(links.first, links.begun, strict=True)):
            for second, (other, ended) in enumerate(zip(links.second, links.ended, strict=True)):
                swept = self._sweep(pairs.Addends(one, other), period, rooms, modulus)
                if not first and not second:
                    factors = [self._bounds(room, expiring, period.window) for expiring, room in enumerate(rooms)]
                    found = [np.zeros_like(item) for item in swept]
                for total, values, (begins, ends) in zip(found, swept, factors, strict=True):
                    more = _product(_product(begun.take(begins), ended.take(ends), modulus), values, modulus)
                    total += more
                    if modulus:
                        total %= modulus
        return found

    def _links(self, chain: Chain, modulus: int) -> Links:
        rows, sizes = chain.weight.size, (self._before, self._tests.size - self._before)
        before, behind = (Product(np.zeros((size, size), np.int64), np.zeros((size, size), np.int64)) for size in sizes)
        links = Links(*(np.zeros((size, rows), np.int64) for size in (*sizes, *sizes)))
        self._allowance.hold(8 * 2 * sum(sizes) * rows, "what leads to pairs of events and on from them")
        with np.errstate(over="ignore"):
            link(self._events, chain, before, behind, modulus, links)
        return links

    def _bounds(self, room: Room, expiring: int, window: int) -> tuple[Array, Array]:
        """For each value the first place that is alive, and the last one that has come."""
        places = room.points()[0].places
        begins, ends = np.empty((2, places.size), np.int64)
        find_bounds(self._events, window, self._window is not None, bool(expiring), places, begins, ends)
        return begins, ends

    def _sweep(self, addends: pairs.Addends, period: Period, rooms: Sequence[Room], modulus: int) -> list[Array]:
        self._trees.kept.fill(0)
        fixed = (self._sides, self._ranks, self._ranges, self._sizes, addends, self._trees, modulus, self._window is not None)
        with np.errstate(over="ignore"):  # what leaves 64 bits comes back, or is found out
            pairs.count_pairs(self._events, period, *fixed, *(room.again() for room in rooms))
        return [room.points()[0].values[0].copy() for room in rooms]


@lru_cache
def _moduli(count: int) -> tuple[int, ...]:
    """Some primes. A sum below 2^64 times all of them equals what division by 2^64 leaves of it if and only if division by each
    of them leaves the same of both.

    >>> _moduli(2)
    (2147483647, 2147483629)
    """
    divisors = np.arange(3, 1 << MODULUS_BITS // 2 + 1, 2)
    primes = (number for number in range((1 << MODULUS_BITS) - 1, 0, -2) if (number % divisors).all())
    return tuple(islice(primes, count))


def _product(left: Array, right: Array, modulus: int) -> Array:
    return left * right % modulus if modulus else left * right


def _codes(plan: CounterPlan, working: WorkingSet, first: Array, second: Array) -> tuple[Array, Array]:
    """The values of the comparison at some rows of either side, as integers that compare as they do; NO_CODE for those that
    satisfy none.
    """
    compared = plan.compared
    assert compared is not None
    left, right = _alike(_values(plan, working, compared.left, first), _values(plan, working, compared.right, second))
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return np.full(first.size, NO_CODE), np.full(second.size, NO_CODE)
    joined = concat([left, right])
    codes = order_codes(joined).codes
    if pa.types.is_floating(joined.type):
        nan = np.flatnonzero(pc.fill_null(pc.is_nan(joined), False).to_numpy(zero_copy_only=False))
        codes[nan] = codes[nan] + np.arange(nan.size) if compared.operator == "!=" else NO_CODE  # NaN differs from NaN, too
    return codes[: first.size], codes[first.size :]


def _values(plan: CounterPlan, working: WorkingSet, expression: Expression, rows: Array) -> pa.Array:
    return Evaluator(plan.bound, lambda _, name: take(working.column(name), rows), rows.size).values(expression)


def _alike(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Two columns of one type: an integer and a float compare as floats."""
    if pa.types.is_floating(left.type) and pa.types.is_integer(right.type):
        return left, pc.cast(right, pa.float64(), safe=False)
    if pa.types.is_integer(left.type) and pa.types.is_floating(right.type):
        return pc.cast(left, pa.float64(), safe=False), right
    return left, right
