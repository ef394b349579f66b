"""Which shared plan a group of queries follows: made for the events of the first pass, and again when they have changed.

Rates are counted before every pass. Selectivities, which cost a millisecond each, are measured for the first pass and then
now and again. Where the plan was made for other numbers, an earlier one that was made for such numbers is followed again.
If there is none, one that needs no search is made, and followed if it is cheaper: at once, unless passes are so short that they
take less time by the old plan than it takes to make another. A search from there runs beside the passes, for a small share of
the time. A plan decides how much work a pass is, never what it finds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from time import perf_counter

import numpy as np

from kleene.common.arrays import Array
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.passes.observe import bits_of
from kleene.engine.passes.sampling import WorkingRows, holds, share, stretches
from kleene.engine.shared.leaf_scan import LeafScan
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Call, Expression, walk
from kleene.plan.multi.clauses import normal
from kleene.plan.multi.cost import DRAWN, ConditionKey, SharedStatistics, condition_key
from kleene.plan.multi.groups import PatternGroup
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import SEARCHES, MultiOptions, Progress, plan_shared, recosted
from kleene.plan.order.statistics import FINEST_SELECTIVITY, apart
from kleene.plan.patterns import LazyPlan

PAIRS = 512
"""How many tuples decide about the selectivity of a condition."""

ROWS = 1 << 14
"""How many rows are looked at for that."""

CHANGED = 2.0
"""A rate or a selectivity that has changed by this factor makes a plan worth looking at again."""

FEWEST = 20
"""Rates of fewer events than this say nothing."""

WORTH = 0.25
"""Most time that a search takes, as a share of what the pass is expected to take with the best plan that needs none."""

SHORTEST = 0.02
"""Seconds of search that are worth beginning with."""

SHARE = 0.1
"""The share of the time that goes into re-planning."""

REMEMBERED = 16
"""Plans that are kept, as events may become again what they were."""

MEASURED_LESS = 4.0
"""Selectivities are measured when there is this many times the time for it."""


def observed_rates(group: PatternGroup, scan: LeafScan, working: WorkingSet) -> tuple[Array, float]:
    """How many events pass each leaf's test, and how much of the clock a working set stands for."""
    counts, rows = scan.counts(working.masks), len(working)
    span = float(rows)
    if group.first.bound.count_window is None and rows > 1 and working.ts[-1] > working.ts[0]:
        span = float(working.ts[-1] - working.ts[0]) * rows / (rows - 1)
    return counts[: len(group.leaves)], max(span, 1.0)


def observe_shared(group: PatternGroup, scan: LeafScan, working: WorkingSet) -> SharedStatistics:
    """The statistics of a working set."""
    counts, span = observed_rates(group, scan, working)
    found: dict[ConditionKey, float] = {}
    held: dict[ConditionKey, int] = {}
    drawn = _Drawn(group, scan, working)
    same = 1.0
    starts, tests = scan.sets()
    for name, plan in group.plans.items():
        asked = [item for item in _asked(group, name, plan) if item[0] not in found]
        if not asked and same != 1.0:
            continue
        bits = bits_of(plan.scanned)
        masks = _masks(group, name, bits, starts, tests).take(working.masks)
        rows = WorkingRows(plan.bound, bits, plan.partition, working, ROWS, masks=masks)
        for key, expression, read in asked:
            selectivity = found.get(key) or rows.selectivity(expression, PAIRS)
            if selectivity is not None:
                found[key] = selectivity
                held[key] = drawn.held(plan.bound, expression, read)
        if plan.partition and same == 1.0:
            same = min(rows.same_partition(PAIRS), share(1, 1))
    return SharedStatistics(tuple((counts / span).tolist()), found, held, same if group.first.partition else 1.0, span)


class _Drawn:
    """Tuples of one event for each leaf, drawn evenly from some rows of a working set."""

    def __init__(self, group: PatternGroup, scan: LeafScan, working: WorkingSet) -> None:
        self._working = working
        self._starts, self._tests = scan.sets()
        self._looked_at = stretches(len(working), ROWS)
        self._rows: list[Array | None] = [None] * len(group.leaves)

    def _rows_of(self, leaf: int) -> Array:
        """A row of each tuple; none if the leaf has no events."""
        rows = self._rows[leaf]
        if rows is None:
            has = np.zeros(self._starts.size - 1, bool)
            has[np.searchsorted(self._starts, np.flatnonzero(self._tests == leaf), side="right") - 1] = True
            own = self._looked_at[has.take(self._working.masks.take(self._looked_at))]
            rows = self._rows[leaf] = own.take(np.random.default_rng(leaf).integers(own.size, size=DRAWN)) if own.size else own
        return rows

    def held(self, bound: BoundQuery, condition: Expression, read: Mapping[str, int]) -> int:
        """For which tuples a condition holds, a bit each; none if that cannot be said, or calls functions. `read` has the leaf
        of each variable.
        """
        rows = {variable: self._rows_of(leaf) for variable, leaf in read.items()}
        if any(not own.size for own in rows.values()) or any(isinstance(item, Call) for item in walk(condition)):
            return 0
        found = holds(bound, self._working.gather, condition, rows)
        return 0 if found is None else int.from_bytes(np.packbits(found).tobytes(), "big")


def _asked(group: PatternGroup, query: str, plan: LazyPlan) -> list[tuple[ConditionKey, Expression, dict[str, int]]]:
    """The conditions between single events of a query, as statistics know them, and the leaves of the variables they read."""
    found = []
    for clause in group.clauses:
        if clause.query != query:
            continue
        branch = plan.branches[clause.branch]
        named = {branch.variables[component]: position for position, component in enumerate(clause.components)}
        for item in branch.conditions:
            if not item.via and item.condition.variables <= named.keys():
                condition = normal(item.condition.expression, named)
                read = {variable: clause.leaves[named[variable]] for variable in item.condition.variables}
                found.append((condition_key(condition, clause.leaves), item.condition.expression, read))
    return found


def _masks(group: PatternGroup, query: str, bits: dict[str, int], starts: Array, tests: Array) -> Array:
    """For each set of tests the bits of a query's variables whose test is in it."""
    by_test = np.zeros(len(group.tests), np.int64)
    for variable, bit in bits.items():
        by_test[group.numbers[query, variable]] |= 1 << bit
    masks = np.zeros(starts.size - 1, np.int64)
    np.bitwise_or.at(masks, np.repeat(np.arange(masks.size), np.diff(starts)), by_test.take(tests))
    return masks


class _StoppedError(Exception):
    """Nobody waits for the plan any more."""


class Planner:
    """Makes the plans of a group while it runs."""

    def __init__(self, group: PatternGroup, options: MultiOptions, *, plan: SharedPlan | None = None) -> None:
        """`plan` is what to begin with, if there is one."""
        self._group = group
        self._options = options
        self._plan = plan
        self._searching: threading.Thread | None = None
        self._ready: SharedPlan | None = None
        self._began = perf_counter()
        self._spent = 0.0
        """Seconds that went into re-planning."""
        self._measuring, self._planning = 0.1, 0.1
        """Seconds that measuring selectivities and making a plan without a search took the last time."""
        self._is_stale, self._wasted = False, 0.0
        """Whether the plan was made for other events, and the seconds that passes by it are expected to have taken since."""
        self._is_stopped = False
        self._known: list[SharedPlan] = [] if plan is None else [plan]
        """Plans that were followed, the last one first, each with the statistics it was made for."""
        self.plans = 0
        """How many plans were followed."""

    def plan_for(self, scan: LeafScan, working: WorkingSet) -> SharedPlan:
        """The plan of a pass over a working set."""
        if self._plan is None:
            plan = self._unsearched(self._measured(scan, working))
            if self._options.search in SEARCHES:
                plan = self._planned(plan.statistics, self._bounded(plan))
            self._follow(plan)
            self._began, self._spent = perf_counter(), 0.0
        elif self._options.adaptive:
            self._adapt(scan, working)
        assert self._plan is not None
        return self._plan

    def streamed(self) -> SharedPlan:
        """A plan to follow from now on in which whatever is looked up are single events."""
        assert self._plan is not None
        self.wait()
        self._options = replace(self._options, kind="tree")
        self._ready, self._known = None, []
        self._follow(self._planned(self._plan.statistics, replace(self._options, search="none")))
        return self._plan

    def wait(self) -> None:
        """Waits for a search that is under way."""
        if self._searching is not None:
            self._searching.join()

    def _follow(self, plan: SharedPlan) -> None:
        self._plan = plan
        others = [known for known in self._known if _apart(plan.statistics, known.statistics)]
        self._known = [plan, *others[: REMEMBERED - 1]]
        self.plans += 1

    def _remembered(self, statistics: SharedStatistics) -> SharedPlan | None:
        """A plan that was made for events like these."""
        return next((plan for plan in self._known if not _apart(statistics, plan.statistics)), None)

    def _adapt(self, scan: LeafScan, working: WorkingSet) -> None:
        assert self._plan is not None
        statistics = self._observed(scan, working)
        if self._ready is not None:
            found, self._ready = recosted(self._ready, statistics), None
            if found.cost < recosted(self._plan, statistics).cost:
                self._follow(found)
        if _apart(statistics, self._plan.statistics):
            self._plan = recosted(self._plan, statistics)
            known = self._remembered(statistics)
            self._is_stale = known is None
            if known is not None and known.cost < self._plan.cost:
                self._follow(known)
        if not self._is_stale:
            self._wasted = 0.0
            return
        self._wasted += expected_seconds(self._plan)
        if self._wasted < self._planning:
            return
        self._is_stale, self._wasted = False, 0.0
        other = self._unsearched(statistics)
        if other.cost < self._plan.cost:
            self._follow(other)
        options = self._bounded(self._plan)
        options = replace(options, seconds=min(options.seconds, self._time()))
        if options.search in SEARCHES and options.seconds >= SHORTEST and not self._is_searching():
            self._search(statistics, options, self._plan)

    def stop(self) -> None:
        """Ends a search that is under way; there is no pass any more that would follow its plan."""
        self._is_stopped = True
        self.wait()

    def _search(self, statistics: SharedStatistics, options: MultiOptions, start: SharedPlan) -> None:
        """Searches beside the passes."""
        self._spent += options.seconds
        group = self._group

        def watch(_: Progress) -> None:
            if self._is_stopped:
                raise _StoppedError

        def search() -> None:
            with suppress(_StoppedError):
                self._ready = plan_shared(group.leaves, group.clauses, statistics, options, watch, start)

        self._searching = threading.Thread(target=search, name="kleene-plan", daemon=True)
        self._searching.start()

    def _is_searching(self) -> bool:
        return self._searching is not None and self._searching.is_alive()

    def _time(self) -> float:
        """Seconds that are left for re-planning."""
        return SHARE * (perf_counter() - self._began) - self._spent

    def _observed(self, scan: LeafScan, working: WorkingSet) -> SharedStatistics:
        """The rates of the events of this pass; selectivities are those known before, unless there is time to measure them."""
        assert self._plan is not None
        if self._time() > MEASURED_LESS * self._measuring:
            return self._measured(scan, working)
        counts, span = observed_rates(self._group, scan, working)
        return replace(self._plan.statistics, rates=tuple((counts / span).tolist()), span=span)

    def _measured(self, scan: LeafScan, working: WorkingSet) -> SharedStatistics:
        began = perf_counter()
        found = observe_shared(self._group, scan, working)
        self._measuring = perf_counter() - began
        self._spent += self._measuring
        return found

    def _unsearched(self, statistics: SharedStatistics) -> SharedPlan:
        """The plan that needs no search."""
        options = replace(self._options, search="none") if self._options.search in SEARCHES else self._options
        plan = self._planned(statistics, options)
        self._planning = plan.seconds
        self._spent += plan.seconds
        return plan

    def _planned(self, statistics: SharedStatistics, options: MultiOptions) -> SharedPlan:
        return plan_shared(self._group.leaves, self._group.clauses, statistics, options, baselines=False)

    def _bounded(self, plan: SharedPlan) -> MultiOptions:
        """The options of a search for no more time than a pass by a plan makes worth."""
        return replace(self._options, seconds=min(self._options.seconds, WORTH * expected_seconds(plan)))


def expected_seconds(plan: SharedPlan) -> float:
    """What a pass over the events that a plan was made for is expected to take."""
    return plan.cost * plan.statistics.span * 1e-9


def _apart(one: SharedStatistics, other: SharedStatistics) -> bool:
    """Whether some rate, compared with the others, or some selectivity is far from what it was."""
    counts, expected = np.array(one.rates) * one.span, np.array(other.rates)
    expected *= counts.sum() / max(expected.sum(), 1e-300)
    low, high = np.minimum(counts, expected), np.maximum(counts, expected)
    if bool(((high >= FEWEST) & (high > CHANGED * np.maximum(low, 1.0))).any()):
        return True
    known = one.selectivities.keys() & other.selectivities.keys()
    return any(apart(one.selectivities[key], other.selectivities[key], FINEST_SELECTIVITY, CHANGED) for key in known)
