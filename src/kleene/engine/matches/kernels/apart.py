"""Choosing matches that do not overlap."""

from __future__ import annotations

from kleene.common.arrays import Array
from kleene.engine.kernels import kernel


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
    candidates: bool,
) -> None:
    """Marks the matches that are reported: in `order` (by segment, last event, latest start, size) the first of each event that
    starts after the last one reported ended (of candidates: started); of equals, the one with the smallest key, which is
    `keys[offsets[m] : offsets[m + 1]]`.
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
            ended[segment[best]] = first[best] if candidates else last[best]
        at = end


@kernel
def keep_apart(
    new: Array, starts: Array, start_places: Array, ends: Array, end_places: Array, state: Array, kept: Array
) -> None:
    """Marks the candidates that are reported: those that start after the last one reported ended, which is at
    (`state[1]`, `state[2]`) if `state[0]` is not 0. Candidates come in the order of their ends, `new` where others begin.
    """
    for at in range(new.size):
        if new[at]:
            state[0] = 0
        if state[0] == 0 or starts[at] > state[1] or (starts[at] == state[1] and start_places[at] > state[2]):
            kept[at] = True
            state[0] = 1
            state[1] = ends[at]
            state[2] = end_places[at]
