"""What lies before and behind the pairs of a longer pattern with one comparison, so that sums over pairs are all there is.

Of a sequence `a ... u, v ... z` with a comparison of u and v, how many beginnings lead to u is the product of a row, which only
depends on where the window begins, and a column, which only depends on u: an event adds the column of the position before to
that of its own, which is a matrix that has an inverse, so what has expired is divided out. So it is with ends from v on, and
where they end. The sum over matches is a sum over the entries of both: of each, the sum over pairs (`pairs.count_pairs`) of the
product of a number of u and one of v. Numbers are what is left of them after division by 2^64, or by a smaller modulus.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kleene.common.arrays import Array
from kleene.engine.counting.kernels.tables import Events
from kleene.engine.kernels import inlined, kernel


class Chain(NamedTuple):
    """The masks of the tests of all positions; how many of them are before the comparison; the position whose events count as
    often as their `weight` says (-1: none), by place.
    """

    tests: Array
    before: int
    weighted: int
    weight: Array


class Product(NamedTuple):
    """The product of the matrices of some events, and its inverse."""

    matrix: Array
    inverse: Array


class Links(NamedTuple):
    """By place: the column of an event before the comparison, the row of one behind it; the row of a window that begins here,
    the column of what ends here.
    """

    first: Array
    second: Array
    begun: Array
    ended: Array


@inlined
def unite(product: Product) -> None:
    """Makes a product that of no events."""
    for row in range(product.matrix.shape[0]):
        for column in range(product.matrix.shape[0]):
            product.matrix[row, column] = row == column
            product.inverse[row, column] = row == column


@inlined
def reduced(number: Any, modulus: int) -> Any:
    """What is left of a number."""
    return number % modulus if modulus else number


@inlined
def extend(product: Product, column: int, weight: Any, modulus: int) -> None:
    """Multiplies by the matrix of an event that adds to a column the one before it."""
    matrix = product.matrix
    inverse = product.inverse
    for k in range(matrix.shape[0]):
        matrix[k, column] = reduced(matrix[k, column] + reduced(weight * matrix[k, column - 1], modulus), modulus)
        inverse[column - 1, k] = reduced(inverse[column - 1, k] - reduced(weight * inverse[column, k], modulus), modulus)


@inlined
def weight_at(place: int, position: int, chain: Chain, modulus: int) -> Any:
    """How often the event at a place counts at a position."""
    weight = chain.weight[place] if position == chain.weighted else chain.weight[place] * 0 + 1
    return reduced(weight, modulus)


@inlined
def extend_by(begin: int, end: int, lowest: int, events: Events, chain: Chain, product: Product, modulus: int) -> None:
    """Takes in simultaneous events: the last position first, so that none of them adds to what another one has just added."""
    for column in range(product.matrix.shape[0] - 1, 0, -1):
        position = lowest + column
        for place in range(begin, end):
            if events.masks[place] & chain.tests[position]:
                extend(product, column, weight_at(place, position, chain, modulus), modulus)


@kernel
def link(events: Events, chain: Chain, before: Product, behind: Product, modulus: int, links: Links) -> None:
    """Writes rows and columns for every event."""
    masks = events.masks
    last_before = chain.before - 1
    for partition in range(events.offsets.size - 1):
        unite(before)
        unite(behind)
        begin = events.offsets[partition]
        while begin < events.offsets[partition + 1]:
            end = begin
            while end < events.offsets[partition + 1] and events.rank[end] == events.rank[begin]:
                for k in range(chain.before):
                    links.begun[k, end] = before.inverse[0, k]
                    if masks[end] & chain.tests[last_before]:
                        weight = weight_at(end, last_before, chain, modulus)
                        links.first[k, end] = reduced(weight * before.matrix[k, last_before], modulus)
                end += 1
            extend_by(begin, end, -1, events, chain, before, modulus)
            extend_by(begin, end, chain.before, events, chain, behind, modulus)
            for place in range(begin, end):
                for k in range(links.second.shape[0]):
                    links.ended[k, place] = behind.matrix[k, links.second.shape[0] - 1]
                    if masks[place] & chain.tests[chain.before]:
                        weight = weight_at(place, chain.before, chain, modulus)
                        links.second[k, place] = reduced(weight * behind.inverse[0, k], modulus)
            begin = end


@kernel
def find_bounds(events: Events, window: int, windowed: bool, expiring: bool, places: Array, begins: Array, ends: Array) -> None:
    """For values at some places, or (`expiring`) when these expire: the first place that has not expired, and the last one that
    has come by then.
    """
    partition = 0
    low = 0
    high = 0
    for k in range(places.size):
        place = places[k]
        while place >= events.offsets[partition + 1]:
            partition += 1
        end = events.offsets[partition + 1]
        low = max(low, events.offsets[partition])
        limit = events.ts[place] if expiring else events.ts[place] - window
        while windowed and low < end - 1 and events.ts[low] <= limit:
            low += 1
        begins[k] = low
        high = max(high, place)
        while expiring and high < end and events.ts[high] < events.ts[place] + window:
            high += 1
        ends[k] = high - 1 if expiring else place
