"""Prefix counters where nothing expires (A-Seq section 3.1): one set of cells for each partition is all that is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from kleene.engine.kernels import kernel
from kleene.engine.kernels.counting import lowest_bit, take_in, write_slots

Array = np.ndarray[Any, Any]


@kernel
def count_all(
    offsets: Array,
    ts: Array,
    rank: Array,
    masks: Array,
    since: int,
    ranges: Array,
    operations: Array,
    carried: Array,
    carried_floats: Array,
    weights: Array,
    float_weights: Array,
    triggers: int,
    trigger_ranges: Array,
    trigger_queries: Array,
    slot_ranges: Array,
    slots: Array,
    terms: Array,
    seen: Array,
    positions: Array,
    place_bases: Array,
    places: Array,
    bases: Array,
    values: Array,
    float_values: Array,
) -> None:
    """Values at every trigger from the time `since` on, without a window; `carried` has the cells of each partition, before and
    after.
    """
    for partition in range(offsets.size - 1):
        cells = carried[partition]
        floats = carried_floats[partition]
        place = offsets[partition]
        end = offsets[partition + 1]
        while place < end:
            last = place + 1
            while last < end and rank[last] == rank[place]:
                last += 1
            take_in(place, last, masks, ranges, operations, cells, floats, weights, float_weights)
            for at in range(place, last):
                asked = masks[at] & triggers if ts[at] >= since else np.int64(0)
                while asked:
                    bit = lowest_bit(asked)
                    asked &= asked - 1
                    for k in range(trigger_ranges[bit], trigger_ranges[bit + 1]):
                        query = trigger_queries[k]
                        if seen[query] == at:
                            continue
                        seen[query] = at
                        position = positions[query]
                        positions[query] += 1
                        places[place_bases[query] + position] = at
                        write_slots(
                            query,
                            position,
                            slot_ranges,
                            slots,
                            terms,
                            False,
                            carried,
                            carried_floats,
                            0,
                            cells,
                            floats,
                            bases,
                            values,
                            float_values,
                        )
            place = last
