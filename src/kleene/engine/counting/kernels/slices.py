"""Counts of two stretches of events, one after the other, as those of both: what makes slices of a stream combinable."""

from __future__ import annotations

from kleene.common.arrays import Array
from kleene.engine.counting.kernels.counting import FLOAT_BACK, FLOAT_FRONT, LARGEST_FRONT, PRODUCT, plus, times
from kleene.engine.kernels import kernel


@kernel
def combine(
    terms: Array,
    left: Array,
    left_floats: Array,
    right: Array,
    right_floats: Array,
    cells: Array,
    floats: Array,
) -> None:
    """The cells of two adjacent stretches of events, added to `cells` and `floats`: for each place to cut a segment a term
    (kind, target, cell on the left, cell on the right).
    """
    for term in range(terms.shape[0]):
        kind = terms[term, 0]
        target = terms[term, 1]
        before = terms[term, 2]
        after = terms[term, 3]
        if kind == PRODUCT:
            cells[target] = plus(cells[target], times(left[before], right[after]))
        elif kind == FLOAT_FRONT:
            if right[after] != 0:
                floats[target] += left_floats[before] * float(right[after])
        elif kind == FLOAT_BACK:
            if left[before] != 0:
                floats[target] += float(left[before]) * right_floats[after]
        elif kind == LARGEST_FRONT:
            if right[after] != 0:
                cells[target] = max(cells[target], left[before])
        elif left[before] != 0:
            cells[target] = max(cells[target], right[after])
