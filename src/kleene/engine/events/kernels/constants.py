"""Loops over columns: between which constants a number lies, and which of some texts a text is.

What a row costs does not grow with the number of constants: a directory leads to the few that are near a number, a hash table
to the one that a text may be. Measured on one core: 2 to 4 ns a number, 3 to 5 ns a text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kleene.common.arrays import EVER, Array
from kleene.engine.kernels import inlined, kernel

INFINITE = int(np.float64(np.inf).view(np.int64))
"""The bits of the float infinity; those of NaN, without the sign, are more."""

_0, _1, _2, _4, _7, _8, _56 = (np.uint64(number) for number in (0, 1, 2, 4, 7, 8, 56))
_16, _24, _32, _40, _48 = (np.uint64(number) for number in (16, 24, 32, 40, 48))
_41 = np.uint64(41)
LOOKS = np.uint64(1024)
"""How many looks of texts are told apart."""

_MIXER = np.uint64(0x9E3779B97F4A7C15)


class Bounds(NamedTuple):
    """Numbers that ascend, and where to look among them: the first of those of bucket b is `directory[b]`."""

    numbers: Array
    directory: Array
    shift: np.uint64
    """How much narrower the number of a bucket is than the distance of its numbers from the first one."""


class Texts(NamedTuple):
    """Texts in a hash table: slot `hash & (slots.size - 1)`, or the next free one, has the number of a text; others have -1."""

    looks: Array
    """Which looks (`text_look`) some text has: most others have another one, and need not be read."""
    slots: Array
    hashes: Array
    offsets: Array
    data: Array


@kernel
def number_classes(values: Array, rows: Array, floats: bool, bounds: Bounds, classes: Array) -> None:
    """Writes how many of the bounds the number of each row reaches; one more than there are for NaN.

    Floats are compared by their bits: those of negative ones are turned over, so that they ascend as integers do.
    """
    whole = rows.size == values.size
    numbers, directory = bounds.numbers, bounds.directory
    first, last = numbers[0], numbers[numbers.size - 1]
    for position in range(rows.size):
        value = values[position] if whole else values[rows[position]]
        if floats:
            if value & EVER > INFINITE:
                classes[position] = numbers.size + 1
                continue
            value = value if value >= 0 else (value ^ EVER) + 1  # -0.0 becomes 0
        if value < first:
            classes[position] = 0
            continue
        if value >= last:
            classes[position] = numbers.size
            continue
        bucket = (np.uint64(value) - np.uint64(first)) >> bounds.shift
        low, high = directory[bucket], directory[bucket + _1]
        while high - low > 1:
            middle = (low + high) >> 1
            if numbers[middle] <= value:
                low = middle + 1
            else:
                high = middle
        classes[position] = low + (low < high and numbers[low] <= value)


@inlined
def eight_bytes(data: Array, at: np.uint64) -> np.uint64:
    """Eight bytes of a text as a number; what is compiled reads them at once."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + _1]) << _8
        | np.uint64(data[at + _2]) << _16
        | np.uint64(data[at + np.uint64(3)]) << _24
        | np.uint64(data[at + _4]) << _32
        | np.uint64(data[at + np.uint64(5)]) << _40
        | np.uint64(data[at + np.uint64(6)]) << _48
        | np.uint64(data[at + _7]) << _56
    )


@inlined
def text_hash(data: Array, begin: np.uint64, length: np.uint64) -> np.uint64:
    """A number of a text, of all its bytes."""
    mixed = length * _MIXER
    if length >= _8:
        at, last = begin, begin + length - _8
        while at < last:
            mixed = (mixed ^ eight_bytes(data, at)) * _MIXER
            mixed ^= mixed >> _32
            at += _8
        word = eight_bytes(data, last)
    elif length >= _4:
        last = begin + length - _4
        word = (
            np.uint64(data[begin])
            | np.uint64(data[begin + _1]) << _8
            | np.uint64(data[begin + _2]) << _16
            | np.uint64(data[begin + np.uint64(3)]) << _24
            | np.uint64(data[last]) << _32
            | np.uint64(data[last + _1]) << _40
            | np.uint64(data[last + _2]) << _48
            | np.uint64(data[last + np.uint64(3)]) << _56
        )
    elif length > _0:
        last = begin + length - _1
        word = np.uint64(data[begin]) | np.uint64(data[begin + (length >> _1)]) << _8 | np.uint64(data[last]) << _16
    else:
        word = _0
    mixed = (mixed ^ word) * _MIXER
    return mixed ^ (mixed >> _32)


@inlined
def text_look(length: np.uint64, first: np.uint64, last: np.uint64) -> np.uint64:
    """A number below LOOKS, by which most texts are told apart, from the length and the first and last byte."""
    return (length * _41 + first * _7 + last) & (LOOKS - _1)


@inlined
def find_text(data: Array, begin: np.uint64, end: np.uint64, texts: Texts) -> int:
    """The number of a text among others, or -1."""
    length = end - begin
    first, last = (np.uint64(data[begin]), np.uint64(data[end - _1])) if length else (_0, _0)
    if not texts.looks[text_look(length, first, last)]:
        return -1
    mixed = text_hash(data, begin, length)
    mask = np.uint64(texts.slots.size - 1)
    slot = mixed & mask
    while texts.slots[slot] >= 0:
        candidate = texts.slots[slot]
        if texts.hashes[candidate] == mixed:
            start = np.uint64(texts.offsets[candidate])
            same = np.uint64(texts.offsets[candidate + 1]) - start == length
            position = _0
            while same and position < length:
                same = data[begin + position] == texts.data[start + position]
                position += _1
            if same:
                return int(candidate)
        slot = (slot + _1) & mask
    return -1


@kernel
def note_texts(offsets: Array, data: Array, looks: Array, slots: Array, hashes: Array) -> None:
    """Fills the tables of `Texts` that differ from each other: `slots` has -1 everywhere, and is at least twice as long."""
    mask = np.uint64(slots.size - 1)
    for number in range(hashes.size):
        begin, end = np.uint64(offsets[number]), np.uint64(offsets[number + 1])
        first, last = (np.uint64(data[begin]), np.uint64(data[end - _1])) if end > begin else (_0, _0)
        looks[text_look(end - begin, first, last)] = True
        hashes[number] = text_hash(data, begin, end - begin)
        slot = hashes[number] & mask
        while slots[slot] >= 0:
            slot = (slot + _1) & mask
        slots[slot] = number


@kernel
def text_classes(offsets: Array, data: Array, rows: Array, texts: Texts, classes: Array) -> None:
    """Writes which of some texts the text of each row is; as many as there are for any other."""
    for position in range(rows.size):
        row = rows[position]
        found = find_text(data, np.uint64(offsets[row]), np.uint64(offsets[row + 1]), texts)
        classes[position] = found if found >= 0 else texts.hashes.size


@kernel
def select_by_text(offsets: Array, data: Array, texts: Texts, type_masks: Array, other: int, rows: Array, masks: Array) -> int:
    """Writes the rows whose type, as text, has a component, and their component masks; returns how many.

    The last parameters are as in `select_by_type`.
    """
    count = 0
    for row in range(offsets.size - 1):
        found = find_text(data, np.uint64(offsets[row]), np.uint64(offsets[row + 1]), texts)
        mask = type_masks[found] if found >= 0 else other
        rows[count] = row
        masks[count] = mask
        count += mask != 0
    return count
