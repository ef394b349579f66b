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


@kernel
def match_ids(sequences: Array, hashes: Array, seed: Any, out: Array) -> None:
    """One word per match: a multilinear hash of its events' hashes, mixed."""
    for match in range(sequences.shape[1]):
        value = seed
        factor = np.uint64(0x9E3779B97F4A7C15)
        for component in range(sequences.shape[0]):
            value += hashes[sequences[component, match]] * factor
            factor = factor * np.uint64(0xD6E8FEB86659FD93) | np.uint64(1)
        out[match] = _mix(value)
