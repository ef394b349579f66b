"""Candidates that conditions leave few of: looked up by value instead of evaluated one after the other.

Of the conditions that are asked when a component is bound, those that compare a value of its event with values of the bound
ones leave a range of that value to each partial match (`kleene.plan.analysis.narrowing`). If there are many candidates to
evaluate, and a sample says that to many partial matches few of them are left, the candidates are ordered by that value
(`kleene.engine.events.ranking`). The filter decides about those that are found as about any others: what is passed over is
known not to satisfy a condition, and not to leave 64 bits in it.

Cost: a sample takes 0.2 ms, and is taken more and more rarely where it finds nothing; 50 ns a candidate to order them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from kleene.common.arrays import Array
from kleene.common.errors import DataError
from kleene.common.schema import Kind
from kleene.engine.events.magnitudes import may_overflow
from kleene.engine.events.placed import PlacedColumns
from kleene.engine.events.ranking import NONE, ranked
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.scale import Compute, Scale
from kleene.engine.expressions.vectorized import Evaluator
from kleene.engine.lazy.kernels.extension import Narrowed
from kleene.engine.lazy.program import LazyProgram
from kleene.pattern.predicates import Attribute, Expression
from kleene.plan.analysis.narrowing import Narrowing
from kleene.plan.order.cost import FEW_OF, WORTH_RANGING

WORTH_ASKING = 1 << 20
"""Evaluations from which a sample is taken..."""

WORTH_RANKING = 32
"""...and for each candidate that would be ordered."""

WORTH_SAVING = 0.1
"""The share of all evaluations that must be saved; and WORTH_RANGING of a partial match, as long as a look-up takes."""

SAMPLED = 32
"""Of how many partial matches how many candidates are looked at."""

MOST_PAUSED = 64
"""The most blocks of partial matches for which nothing is asked."""

EMPTY = np.empty(0, np.int64)

NOTHING = Narrowed(EMPTY, EMPTY, NONE, 0, FEW_OF)

Texts = Callable[[str, Array], pa.Array]

Compared = tuple[Expression, Kind]
"""A value of the candidates, and as what it is compared."""


class LookUp:
    """What a pass knows of the candidates of a branch by value."""

    def __init__(
        self, program: LazyProgram, working: WorkingSet, events: PlacedColumns, texts: Texts, starts: Array, candidates: Array
    ) -> None:
        """`texts` gives a column of texts, at places, as integers in their order."""
        self._bound = program.bound
        self._working = working
        self._program = program
        self._events = events
        self._texts = texts
        self._starts, self._candidates = starts, candidates
        self._known: dict[tuple[int, Compared], tuple[Scale, Narrowed]] = {}
        self._evaluations = [0] * program.count
        self._pauses: dict[tuple[int, int], tuple[int, int]] = {}
        """By component and conditions: for how many blocks nothing is asked, and for how many it was at last."""

    def narrowed(self, component: int, conditions: int, parts: Array, low: Array, high: Array, evaluations: int) -> Narrowed:
        """What conditions leave of the candidates in scope of some partial matches, if it pays to look them up."""
        if evaluations < WORTH_RANGING * low.size:
            return NOTHING
        self._evaluations[component] += evaluations
        size = int(self._starts[component + 1] - self._starts[component])
        if self._evaluations[component] < max(WORTH_ASKING, WORTH_RANKING * size):
            return NOTHING
        groups = self._program.narrowings(component, conditions, not self._may_overflow)
        if not groups:
            return NOTHING
        waiting, pause = self._pauses.get((component, conditions), (0, 0))
        if waiting:
            self._pauses[component, conditions] = waiting - 1, pause
            return NOTHING
        left = {key: self._left(key, items, parts, low, high) for key, items in groups.items()}
        best = min(left, key=lambda key: left[key])
        saved = 1 - left[best]
        if saved < WORTH_SAVING or saved * evaluations < WORTH_RANGING * low.size:
            pause = min(2 * pause + 1, MOST_PAUSED)
            self._pauses[component, conditions] = pause, pause
            return NOTHING
        self._pauses.pop((component, conditions), None)
        return self._looked_up(component, best, groups[best], parts, evaluations)

    @cached_property
    def _may_overflow(self) -> bool:
        """Whether a condition may leave 64 bits for some events: then it is asked as it is written."""
        return may_overflow(self._bound, self._working)

    def _looked_up(
        self, component: int, key: Compared, comparisons: Sequence[Narrowing], parts: Array, evaluations: int
    ) -> Narrowed:
        if (component, key) not in self._known:
            start, end = int(self._starts[component]), int(self._starts[component + 1])
            scale = self._scale(key, self._candidates[start:end])
            if scale is None:
                return NOTHING
            order = ranked(scale.numbers, scale.known, evaluations / parts.shape[1])
            self._known[component, key] = scale, NOTHING._replace(ranked=order, start=start)
        scale, found = self._known[component, key]
        ranges = self._ranges(key, scale, comparisons, parts)
        return NOTHING if ranges is None else found._replace(lowest=ranges[0], highest=ranges[1])

    def _left(self, key: Compared, comparisons: Sequence[Narrowing], parts: Array, low: Array, high: Array) -> float:
        """The share of all evaluations that is left if candidates are looked up for the partial matches that comparisons leave
        few to, by a sample; 1 if they cannot be computed.
        """
        some = np.arange(0, low.size, max(1, low.size // SAMPLED))
        some = some[high[some] > low[some]]
        sizes = (high - low)[some]
        entries = low[some, None] + sizes[:, None] * np.arange(SAMPLED) // SAMPLED
        scale = self._scale(key, self._candidates.take(entries.ravel()))
        ranges = None if scale is None else self._ranges(key, scale, comparisons, parts[:, some])
        if scale is None or ranges is None or not some.size:
            return 1.0
        numbers, known = scale.numbers.reshape(entries.shape), scale.known.reshape(entries.shape)
        held = known & (numbers >= ranges[0][:, None]) & (numbers <= ranges[1][:, None])
        shares = held.mean(axis=1)
        shares[shares * (1 << FEW_OF) > 1] = 1.0
        return float(np.average(shares, weights=sizes))

    def _scale(self, key: Compared, places: Array) -> Scale | None:
        expression, kind = key
        if kind is Kind.STRING:  # as the filter has them
            kind = Kind.INTEGER
        return Scale.of(kind, expression, self._compute(key, lambda _: places, places.size))

    def _ranges(
        self, key: Compared, scale: Scale, comparisons: Sequence[Narrowing], parts: Array
    ) -> tuple[Array, Array] | None:
        slots = dict(zip(self._program.variables, self._program.slots[0].tolist(), strict=True))
        count = parts.shape[1]
        return scale.ranges(comparisons, count, self._compute(key, lambda variable: parts[slots[variable]], count))

    def _compute(self, key: Compared, places: Callable[[str], Array], count: int) -> Compute:
        """The values of expressions over the event that each variable has."""
        if key[1] is not Kind.STRING:
            evaluator = Evaluator(self._bound, lambda variable, name: self._events.gather(name, places(variable)), count)
            return evaluator.computed

        def ranks(expression: Expression) -> tuple[pa.Array, None]:
            if not isinstance(expression, Attribute):
                raise DataError("computed texts are not ranked")
            return self._texts(expression.name, places(expression.variable)), None

        return ranks
