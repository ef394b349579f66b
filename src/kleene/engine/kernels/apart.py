"""Choosing matches that do not overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.engine.kernels import kernel

Array = np.ndarray[Any, Any]


@kernel
def choose_apart(
    order: Array,
    segment: Array,
    first: Array,
    last: Array,
    sizes: Array,
    offsets: Array,
    keys: Array,
    chosen: Array,
    ended: Array,
) -> None:
    """Marks the matches that are reported: in `order` (by segment, last event, latest start, size) the first of each event that
    starts after the last one reported; of equals, the one with the smallest key, which is `keys[offsets[m] : offsets[m + 1]]`.
    """
    at = 0
    while at < order.size:
        best = order[at]
        end = at + 1
        while end < order.size and segment[order[end]] == segment[best] and last[order[end]] == last[best]:
            end += 1
        if first[best] > ended[segment[best]]:
            for position in range(at + 1, end):
                other = order[position]
                if first[other] != first[best] or sizes[other] != sizes[best]:
                    break
                length = min(offsets[other + 1] - offsets[other], offsets[best + 1] - offsets[best])
                for step in range(length):
                    difference = keys[offsets[other] + step] - keys[offsets[best] + step]
                    if difference != 0:
                        if difference < 0:
                            best = other
                        break
            chosen[best] = True
            ended[segment[best]] = last[best]
        at = end
