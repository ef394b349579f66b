"""Hashes that identify events and matches by content, the same on every machine, runtime and batch boundary.

64-bit multiply-xorshift mixing. An event's hash is over its columns in a fixed order, a match's over its events' hashes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.engine.kernels import inlined, kernel

Array = np.ndarray[Any, Any]


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


@inlined
def _hex_digits(value: Any) -> Any:
    """Eight bytes of text for 32 bits: each nibble in a byte of its own, then as a digit, all at once."""
    value = ((value & np.uint64(0xFFFF0000)) << np.uint64(16)) | (value & np.uint64(0xFFFF))
    value = ((value << np.uint64(8)) | value) & np.uint64(0x00FF00FF00FF00FF)
    value = ((value << np.uint64(4)) | value) & np.uint64(0x0F0F0F0F0F0F0F0F)
    letters = ((value + np.uint64(0x0606060606060606)) >> np.uint64(4)) & np.uint64(0x0101010101010101)
    return value + np.uint64(0x3030303030303030) + letters * np.uint64(0x27)


@kernel
def match_ids(sequences: Array, hashes: Array, seed: Any, out: Array) -> None:
    """Sixteen hexadecimal digits (two words) per match: a multilinear hash of its events' hashes, mixed."""
    for match in range(sequences.shape[1]):
        value = seed
        factor = np.uint64(0x9E3779B97F4A7C15)
        for component in range(sequences.shape[0]):
            value += hashes[sequences[component, match]] * factor
            factor = factor * np.uint64(0xD6E8FEB86659FD93) | np.uint64(1)
        value = _mix(value)
        out[2 * match] = _hex_digits(value & np.uint64(0xFFFFFFFF))
        out[2 * match + 1] = _hex_digits(value >> np.uint64(32))
