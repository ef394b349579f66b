"""Keys by two hashes of 64 bits each, in a table with open addressing: which number each key has."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.kernels import inlined, kernel

_1 = np.uint64(1)


@inlined
def _mixed(value: Any) -> Any:
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    value *= np.uint64(0xD6E8FEB86659FD93)
    value ^= value >> np.uint64(32)
    return value


@kernel
def hash_words(hashes: Array, words: Array) -> None:
    """Mixes a column of 64-bit words into the hashes of rows."""
    for row in range(hashes.size):
        hashes[row] = _mixed(_mixed(hashes[row]) + words[row] * np.uint64(0x9E3779B97F4A7C15))


@kernel
def hash_texts(hashes: Array, offsets: Array, data: Array) -> None:
    """Mixes a column of texts, given by their bytes, into the hashes of rows."""
    for row in range(hashes.size):
        begin, end = offsets[row], offsets[row + 1]
        found = _mixed(hashes[row]) + np.uint64(end - begin)
        word = np.uint64(0)
        filled = 0
        for place in range(begin, end):
            word = (word << np.uint64(8)) | np.uint64(data[place])
            filled += 1
            if filled == 8:
                found = _mixed(found) + word * np.uint64(0x9E3779B97F4A7C15)
                word = np.uint64(0)
                filled = 0
        hashes[row] = _mixed(_mixed(found) + word * np.uint64(0x9E3779B97F4A7C15))


@kernel
def find_keys(first: Array, second: Array, known_first: Array, known_second: Array, table: Array, found: Array) -> None:
    """The number of each key; -1 for one that is not known."""
    size = np.uint64(table.size - 1)
    for row in range(first.size):
        place = first[row] & size
        while True:
            number = table[place]
            if number < 0 or (known_first[number] == first[row] and known_second[number] == second[row]):
                found[row] = number
                break
            place = (place + _1) & size


@kernel
def add_keys(begin: int, end: int, known_first: Array, alone: Array, table: Array) -> None:
    """Puts the numbers [begin, end) into the table; those that are `alone` are found by no key."""
    size = np.uint64(table.size - 1)
    for number in range(begin, end):
        if alone[number]:
            continue
        place = known_first[number] & size
        while table[place] >= 0:
            place = (place + _1) & size
        table[place] = number
