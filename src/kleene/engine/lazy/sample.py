"""Selectivities, measured with what a lazy pass has: its candidates, its scopes and its filter.

What the filter decides on single events takes some 0.1 ms a condition; anything else is evaluated on columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kleene.common.arrays import NO_WINDOW, Array
from kleene.engine.expressions.filter_constants import OVERFLOW
from kleene.engine.lazy.kernels import chain as kernels
from kleene.engine.lazy.kernels import extension
from kleene.engine.lazy.lazy_pass import BranchRun, LazyPass
from kleene.engine.passes.sampling import Scope, Tuples, selectivity, selectivity_on_columns, share, stretches

AROUND = 64
"""Of how many events neighbours are counted."""

NOTHING = np.empty(0, np.int64)


class Sample:
    """A sample of the events of a pass."""

    def __init__(self, run: LazyPass) -> None:
        self._run = run
        self._random = np.random.default_rng(0)

    def same_partition(self) -> float:
        """The probability that two events within a window are of one partition; in all, if windows have no two."""
        run, ts, window = self._run, self._run.working.ts, self._run.plan.bound.window
        if run.groups.is_one:
            return 1.0
        places = stretches(ts.size, AROUND, AROUND)
        around = places.size * ts.size
        if window is not None:
            own = run.ts.take(places)
            within = int((np.searchsorted(ts, own + window) - np.searchsorted(ts, own - window, side="right")).sum())
            window, around = (window, within) if within > places.size else (None, around)
        offsets, bounds = run.groups.offsets, run.bounds(tabled=False)
        same = kernels.count_around(places, offsets, run.segments, run.ts, NO_WINDOW if window is None else window, bounds)
        return share(int(same), around - places.size)

    def selectivity(self, index: int, number: int, pairs: int) -> float | None:
        """The selectivity of a condition, by the number of its branch and its own, from `pairs` tuples; None if it cannot be
        measured.
        """
        run, events = self._run, _Events(self._run, self._run.branch(index), self._random)
        condition = events.program.branch.conditions[number].condition
        if (events.program.compiled >> number) & 1:
            return selectivity(events, condition.variables, lambda tuples: events.held(number, tuples), pairs)
        return selectivity_on_columns(events, run.plan.bound, run.working.gather, condition.expression, pairs)


class _Events:
    """The events of one branch, by place, as a source of tuples."""

    tries: Sequence[tuple[Scope, int]] = ((Scope.IN_SCOPE, 1), (Scope.IN_SCOPE, 16))

    def __init__(self, run: LazyPass, branch: BranchRun, random: np.random.Generator) -> None:
        self.random = random
        self.program = branch.program
        self._run = run
        self._branch = branch
        self._component = {variable: component for component, variable in enumerate(self.program.variables)}
        self._everywhere = np.vstack([run.groups.offsets[:-1], run.groups.offsets[1:]])

    def count(self, variable: str) -> int:
        return int(self._branch.counts[self._component[variable], 0])

    def candidates(self, variable: str, numbers: Array) -> Array:
        chosen: Array = self._branch.candidates.take(self._branch.starts[self._component[variable]] + numbers)
        return chosen

    def rows(self, events: Array) -> Array:
        order = self._run.groups.rows
        return events if order is None else order.take(events)

    def ranges(self, tuples: Tuples, variable: str, scope: Scope) -> tuple[Array, Array]:  # noqa: ARG002 - there is one
        run, branch, program, component = self._run, self._branch, self.program, self._component[variable]
        parts, bound_set = self._parts(tuples), sum(1 << self._component[name] for name in tuples)
        low, high = np.empty(parts.shape[1], np.int64), np.empty(parts.shape[1], np.int64)
        kernels.find_scopes(
            component,
            program.scope_slots(component, bound_set),
            kernels.ANYWHERE,
            low.size,
            parts,
            run.stream,
            kernels.Window(run.window, run.bounds(tabled=False), self._everywhere),
            kernels.Candidates(branch.starts, branch.candidates, np.empty((program.count, 0), np.int32)),
            kernels.Alive(NOTHING, run.groups.order),
            kernels.Scopes(low, high),
        )
        return low - branch.starts[component], high - branch.starts[component]

    def held(self, number: int, tuples: Tuples) -> int | None:
        """For how many tuples a condition of the filter holds; None if it fails on one."""
        run, program = self._run, self.program
        *_, last = tuples
        held = extension.count_held(
            self._component[last],
            1 << number,
            self._parts(tuples),
            program.slots,
            np.empty(program.width + 1, np.int64),
            program.filter,
            run.filled,
        )
        constants = run.filled.constants
        if constants[OVERFLOW]:  # of tuples that no plan need ever look at
            constants[OVERFLOW] = 0
            return None
        return int(held)

    def _parts(self, tuples: Tuples) -> Array:
        """Tuples as the partial matches of a pass."""
        first, *_ = tuples.values()
        parts = np.zeros((self.program.width, first.size), np.int32)
        for name, places in tuples.items():
            parts[self.program.slots[:2, self._component[name]]] = places
        return parts
