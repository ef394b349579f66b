"""The columns that compiled filters read, computed for the rows of a working set."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kleene.engine.filters import ColumnSpec
from kleene.engine.vectorized import Evaluator, lacking_types, of_types, widen
from kleene.engine.working_set import WorkingSet
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Attribute


def filter_column(spec: ColumnSpec, bound: BoundQuery, working: WorkingSet, own: int) -> pa.Array:
    """The values of a filter's column by row; `own` are the bits of the rows that the column's variable can hold."""
    if isinstance(spec.expression, Attribute):
        if spec.lacks:
            assert bound.schema.type is not None
            return of_types(working.column(bound.schema.type), lacking_types(bound, spec.expression))
        column = working.column(spec.expression.name)
        return column if pa.types.is_signed_integer(column.type) else widen(column)
    # Computed for the variable's own rows only: others may not have sensible values.
    rows = np.flatnonzero(working.masks & own)
    values = Evaluator(bound, lambda _, name: working.gather(name, rows), rows.size).values(spec.expression)
    places = np.full(len(working), -1, np.int64)
    places[rows] = np.arange(rows.size)
    return values.take(pa.array(places, mask=places < 0))
