"""How large the values of events are: whether what conditions compute from them may leave 64 bits.

Where runs that overlap a match are dropped while running, what they would have come to is not seen. So they are only dropped
if nothing of it can be an error, which ordinary values show at once.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.failing import OverflowedError
from kleene.engine.expressions.vectorized import widen
from kleene.pattern.bound import BoundQuery
from kleene.pattern.faults import may_fail


def may_overflow(bound: BoundQuery, working: WorkingSet) -> bool:
    """Whether values of these events are so large that a condition may leave 64 bits."""

    def greatest(name: str) -> float:
        try:
            column = widen(working.column(name)).cast(pa.int64())
        except OverflowedError:
            return float("inf")
        extremes = pc.min_max(column)
        return max((abs(float(value.as_py())) for value in extremes.values() if value.is_valid), default=0.0)

    return any(may_fail(item, bound.schema, greatest, len(working)) for item in bound.conjuncts)
