"""How counters let go of what leaves the window: a set of counters per live start event (marking), or two stacks of segments.

All contenders of a point read the same events. `stacks, 100 live` is the same query with a window of 100 live start events: the
measure of whether the cost of an event grows with their number.
"""

from __future__ import annotations

from benchmarks.aseq.contenders import MARKING, PLANS, STACKS, kleene_query, require_same
from benchmarks.aseq.streams import Scale, count_query, synthetic
from benchmarks.harness import Experiment, Point, measure

TYPES = ("A", "B", "C")
REFERENCE = 100
REFERENCE_NAME = f"{STACKS}, {REFERENCE} live"
LONG = 100_000
"""From so many live starts on, marking takes a minute or more: two windows of events, one round."""


def windows(scale: Scale) -> Experiment:
    return Experiment(
        "windows",
        "Counters by the number of live start events: marking and stacks",
        axis="live",
        headline="stacks cost the same whatever the number; marking is 10 times slower at 10,000",
        clock="cpu",
        points=tuple(_point(live, scale) for live in scale.live),
    )


def _point(live: int, scale: Scale) -> Point:
    two_windows = 2 * live * len(TYPES)
    table = synthetic(two_windows if live >= LONG else max(scale.synthetic, two_windows), TYPES)
    query, reference = (count_query(TYPES, f"{starts * len(TYPES)}") for starts in (live, REFERENCE))
    point = measure(
        [
            kleene_query(REFERENCE_NAME, reference, table, PLANS[STACKS], by_rows=True),
            kleene_query(STACKS, query, table, PLANS[STACKS], by_rows=True),
            kleene_query(MARKING, query, table, PLANS[MARKING], by_rows=True),
        ],
        events=table.num_rows,
        parameters={"live": live, "window": live * len(TYPES)},
        baseline=REFERENCE_NAME,
        repeats=1 if live >= LONG else scale.repeats,
    )
    require_same(point, STACKS, MARKING)
    return point
