"""Prefix counters where nothing expires (DPC, A-Seq section 3.1): one set of cells for each partition is all that is kept."""

from __future__ import annotations

from kleene.engine.counting.kernels.counting import ask, take_in, write_values
from kleene.engine.counting.kernels.tables import Asked, Counts, Events, Front, Operations, Values, Weights
from kleene.engine.kernels import kernel


@kernel
def count_all(
    events: Events,
    since: int,
    operations: Operations,
    weights: Weights,
    carried: Counts,
    front: Front,
    values: Values,
    triggers: Asked,
) -> None:
    """Values at every trigger from the time `since` on; `carried` has the cells of each partition, before and after. Nothing is
    ever in front.
    """
    for partition in range(events.offsets.size - 1):
        counts = Counts(carried.cells[partition], carried.floats[partition])
        place = events.offsets[partition]
        end = events.offsets[partition + 1]
        while place < end:
            last = place + 1
            while last < end and events.rank[last] == events.rank[place]:
                last += 1
            take_in(place, last, events.masks, operations, counts, weights)
            for at in range(place, last):
                if events.masks[at] & triggers.tests and events.ts[at] >= since:
                    write_values(ask(events.masks[at] & triggers.tests, at, triggers), triggers, values, front, -1, counts)
            place = last
