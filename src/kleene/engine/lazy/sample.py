"""Selectivities, measured with what a lazy pass has at hand: its candidates, its scopes and its filter.

What the filter decides on single events takes some 0.1 ms a condition; anything else is measured on the columns
(`kleene.engine.passes.observe`). Tuples in scope (of one partition, inside the window, in order) begin with events of the
rarest component and are extended by one component at a time, drawn evenly from all pairs of a tuple and a candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kleene.common.arrays import NO_WINDOW, Array
from kleene.engine.expressions.filter_constants import OVERFLOW
from kleene.engine.lazy.kernels import chain as kernels
from kleene.engine.lazy.kernels import extension
from kleene.engine.lazy.lazy_pass import BranchRun, LazyPass
from kleene.engine.passes.observe import FEWEST, Scopes, drawn, share, stretches

TOGETHER, ALONE = 16, 64
"""How many stretches of consecutive events are looked at to find tuples and neighbours: what lies together is read faster."""

NOTHING = np.empty(0, np.int64)


class Sample:
    """A sample of the events of a pass."""

    def __init__(self, run: LazyPass, bits: Mapping[str, int]) -> None:
        """`bits` are those of variables in a row's mask."""
        self._run = run
        self._bits = bits
        self._random = np.random.default_rng(0)
        self._scopes: Scopes | None = None

    def same_partition(self) -> float:
        """The probability that two events within a window are of one partition; in all, if windows have no two."""
        run, ts, window = self._run, self._run.working.ts, self._run.plan.bound.window
        if run.groups.is_one:
            return 1.0
        places = stretches(ts.size, ALONE, ALONE)
        around = places.size * ts.size
        if window is not None:
            own = run.ts.take(places)
            within = int((np.searchsorted(ts, own + window) - np.searchsorted(ts, own - window, side="right")).sum())
            window, around = (window, within) if within > places.size else (None, around)
        offsets, bounds = run.groups.offsets, run.bounds(tabled=False)
        same = kernels.count_around(places, offsets, run.segments, run.ts, NO_WINDOW if window is None else window, bounds)
        return share(int(same), around - places.size)

    def selectivity(self, index: int, number: int, pairs: int) -> float | None:
        """The selectivity of a condition, by the number of its branch and its own, from so many tuples; None if it cannot be
        measured.
        """
        run = self._run
        branch = run.branch(index)
        if (branch.program.compiled >> number) & 1:
            return _Tuples(run, branch, pairs, self._random).selectivity(number)
        if self._scopes is None:
            self._scopes = Scopes(run.plan.bound, self._bits, run.plan.partition, run.working)
        return self._scopes.selectivity(branch.program.branch.conditions[number].condition.expression, pairs)


class _Tuples:
    """Tuples of events of one branch, as a pass sees them."""

    def __init__(self, run: LazyPass, branch: BranchRun, pairs: int, random: np.random.Generator) -> None:
        self._run = run
        self._branch = branch
        self._pairs = pairs
        self._random = random
        self._everywhere = np.vstack([run.groups.offsets[:-1], run.groups.offsets[1:]])

    def selectivity(self, number: int) -> float | None:
        """The share of tuples in scope that satisfy a condition; None if there is none."""
        needs = int(self._branch.program.needs[number])
        own = [component for component in range(self._branch.program.count) if (needs >> component) & 1]
        first, *others = sorted(own, key=lambda component: int(self._branch.counts[component, 0]))
        parts = self._tuples(first, others, self._pairs)
        if parts.shape[1] < FEWEST:  # where few are in scope, more are looked at
            parts = self._tuples(first, others, 16 * self._pairs)
        return self._share(number, (first, *others)[-1], parts) if parts.shape[1] else None

    def _tuples(self, first: int, others: Sequence[int], anchors: int) -> Array:
        """Partial matches of some components in scope of each other, from so many events of the first."""
        parts, bound_set = self._anchors(first, anchors), 1 << first
        for component in others:
            parts = self._extended(parts, bound_set, component)
            bound_set |= 1 << component
        return parts

    def _anchors(self, component: int, most: int) -> Array:
        """Partial matches of the first component alone."""
        program, branch = self._branch.program, self._branch
        places = branch.candidates[branch.starts[component] : branch.starts[component + 1]]
        places = places.take(stretches(places.size, most, TOGETHER))
        parts = np.zeros((program.width, places.size), np.int32)
        parts[program.slots[0, component]] = places
        return parts

    def _extended(self, parts: Array, bound_set: int, component: int) -> Array:
        """Partial matches with a candidate each, drawn from all pairs of a partial match and a candidate in its scope."""
        run, branch, program = self._run, self._branch, self._branch.program
        count = parts.shape[1]
        low, high = np.empty(count, np.int64), np.empty(count, np.int64)
        within = kernels.Window(run.window, run.bounds(tabled=False), self._everywhere)
        candidates = kernels.Candidates(branch.starts, branch.candidates, np.empty((program.count, 0), np.int32))
        total = kernels.find_scopes(
            component,
            program.scope_slots(component, bound_set),
            kernels.ANYWHERE,
            count,
            parts,
            run.stream,
            within,
            candidates,
            kernels.Alive(NOTHING, run.groups.order),
            kernels.Scopes(low, high),
        )
        ends = np.cumsum(high - low)
        numbers = drawn(self._random, int(total), self._pairs)
        which = np.searchsorted(ends, numbers, side="right")
        chosen = branch.candidates.take(high.take(which) - ends.take(which) + numbers)
        extended = parts.take(which, axis=1)
        apart = np.ones(chosen.size, bool)
        for other in range(program.count):
            if (int(program.distinct[component]) & bound_set) >> other & 1:
                apart &= extended[program.slots[0, other]] != chosen
        extended[program.slots[0, component]] = chosen
        return extended if apart.all() else extended[:, apart]

    def _share(self, number: int, last: int, parts: Array) -> float | None:
        run, branch = self._run, self._branch
        scratch = np.empty(branch.program.width + 1, np.int64)
        held = extension.count_held(
            last,
            1 << number,
            np.ascontiguousarray(parts),
            branch.program.slots,
            scratch,
            branch.program.filter,
            run.filled,
        )
        constants = run.filled.constants
        if constants[OVERFLOW]:  # of tuples that no plan need ever look at
            constants[OVERFLOW] = 0
            return None
        return share(int(held), parts.shape[1])
