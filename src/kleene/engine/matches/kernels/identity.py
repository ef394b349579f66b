"""Hashes that identify events and matches by content, the same on every machine, runtime and batch boundary.

64-bit multiply-xorshift mixing. An event's hash is over its columns in a fixed order, a match's is a
multilinear one over the hashes of its components, mixed: the sum of hash times factor, each component with a factor of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.kernels import inlined, kernel

FIRST_FACTOR = 0x9E3779B97F4A7C15
NEXT_FACTOR = 0xD6E8FEB86659FD93
"""The factor of the first component."""


@inlined
def _mix(value: Any) -> Any:
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    return value


@kernel
def absorb(hashes: Array, values: Array) -> None:
    """Mixes one column of 64-bit words into the rows' hashes, in place."""
    for row in range(hashes.size):
        hashes[row] = _mix(hashes[row] * np.uint64(0x9E3779B97F4A7C15) + values[row])


@kernel
def hash_nanoseconds(values: Array, words: Array) -> None:
    """One word per time in nanoseconds: that of its microseconds, so that the unit of a column does not matter; what is finer
    is added to it, times a factor.
    """
    for row in range(words.size):
        whole = values[row] // 1000
        rest = values[row] - whole * 1000
        words[row] = np.uint64(whole) + np.uint64(rest) * np.uint64(0x9E3779B97F4A7C15)


@kernel
def any_tied(places: Array, rank: Array) -> bool:
    """Whether a place is simultaneous with one beside it."""
    last = rank.size - 1
    for position in range(places.size):
        place = places[position]
        if (place > 0 and rank[place - 1] == rank[place]) or (place < last and rank[place + 1] == rank[place]):
            return True
    return False


@kernel
def list_unknown(places: Array, rank: Array, known: Array, unknown: Array) -> int:
    """Lists the places that are not known, each with all that are simultaneous beside it, and makes them known; returns their
    number. Without ranks no places are simultaneous.
    """
    count = 0
    for position in range(places.size):
        begin = places[position]
        if known[begin]:
            continue
        end = begin + 1
        while 0 < begin < rank.size and rank[begin - 1] == rank[begin]:
            begin -= 1
        while end < rank.size and rank[end - 1] == rank[end]:
            end += 1
        for place in range(begin, end):
            known[place] = True
            unknown[count] = place
            count += 1
    return count


@kernel
def number_twins(rank: Array, hashes: Array, table: Array, ordinals: Array) -> None:
    """Numbers identical simultaneous events 0, 1, ... in the order they stand; simultaneous ones stand side by side.

    Open addressing, with a table of its own for each instant: a slot holds the latest event with its hash. `table` has at
    least four entries for each event of an instant; `ordinals` holds 0.
    """
    begin = 0
    while begin < rank.size:
        end = begin + 1
        while end < rank.size and rank[end] == rank[begin]:
            end += 1
        if end == begin + 1:
            begin = end
            continue
        size = 4
        while size < 2 * (end - begin):
            size *= 2
        table[:size] = -1
        for at in range(begin, end):
            slot = np.int64(hashes[at] & np.uint64(size - 1))
            while table[slot] >= 0 and hashes[table[slot]] != hashes[at]:
                slot = (slot + 1) & (size - 1)
            if table[slot] >= 0:
                ordinals[at] = ordinals[table[slot]] + np.uint64(1)
            table[slot] = at
        begin = end


@kernel
def hash_strings(offsets: Array, data: Array, hashes: Array) -> None:
    """One 64-bit word per string: its bytes, eight at a time, and its length."""
    for row in range(hashes.size):
        begin = offsets[row]
        end = offsets[row + 1]
        word = np.uint64(end - begin)
        position = begin
        while position < end:
            chunk = np.uint64(0)
            stop = min(position + 8, end)
            for byte in range(position, stop):
                chunk = (chunk << np.uint64(8)) | np.uint64(data[byte])
            word = _mix(word * np.uint64(0x9E3779B97F4A7C15) + chunk)
            position = stop
        hashes[row] = word


@kernel
def hash_lists(offsets: Array, places: Array, hashes: Array, words: Array) -> None:
    """One word per list of events: the number of its elements and their hashes, in order."""
    for row in range(words.size):
        word = np.uint64(offsets[row + 1] - offsets[row])
        factor = np.uint64(FIRST_FACTOR)
        for position in range(offsets[row], offsets[row + 1]):
            word += hashes[places[position]] * factor
            factor = factor * np.uint64(NEXT_FACTOR) | np.uint64(1)
        words[row] = _mix(word)


@kernel
def add_events(values: Array, hashes: Array, places: Array, factor: Any) -> None:
    """Adds a component's events to the multilinear hashes of their matches."""
    for match in range(values.size):
        values[match] += hashes[places[match]] * factor


@kernel
def finish_ids(values: Array) -> None:
    """Makes ids of the multilinear hashes, in place."""
    for match in range(values.size):
        values[match] = _mix(values[match])


def next_factor(factor: int) -> int:
    """The factor of the next component."""
    return (factor * NEXT_FACTOR | 1) % 2**64
