"""Lists of events by the values of an expression, see `kleene.engine.events.kernels.ranked`.

Cost: some 40 ns an entry to make one.
"""

from __future__ import annotations

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.events.kernels import ranked as kernels
from kleene.engine.events.kernels.ranked import LARGEST, Ranked

SMALLEST_BLOCK, LARGEST_BLOCK = 1 << 6, 1 << 16

EMPTY = np.empty(0, np.int64)

NONE = Ranked(0, EMPTY, np.empty(0, np.int32), EMPTY, EMPTY, EMPTY, EMPTY)


def ranked(numbers: Array, known: Array, reach: float) -> Ranked:
    """The entries of a list by their numbers, where these are known; `reach` is of how many entries a range of the list usually
    is.
    """
    size = min(max(1 << max(int(reach).bit_length() - 1, 0), SMALLEST_BLOCK), LARGEST_BLOCK)
    blocks = -(-numbers.size // size)
    padded = np.full((blocks, size), LARGEST)
    padded.ravel()[: numbers.size] = numbers
    begins = np.arange(blocks) * size
    ends = begins + size
    ends[-1:] = numbers.size
    if known.all() and numbers.max(initial=0) < LARGEST:
        order = np.argsort(padded, axis=-1)
    else:
        missing = np.ones((blocks, size), bool)
        missing.ravel()[: numbers.size] = ~known
        order, ends = np.lexsort((padded, missing), axis=-1), begins + size - missing.sum(axis=-1)
    values = np.take_along_axis(padded, order, axis=-1).ravel()
    entries = (order + begins[:, None]).astype(np.int32).ravel()
    zones = np.arange(0, numbers.size, kernels.FEW)
    least, greatest = (end.reduceat(numbers, zones) if zones.size else EMPTY for end in (np.minimum, np.maximum))
    return Ranked(size, values, entries, ends, numbers, least, greatest)
