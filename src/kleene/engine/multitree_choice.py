"""Which shared plan a group of queries follows: made for the events of the first pass, and again when they have changed.

Rates are counted anew in every pass; selectivities, which cost a millisecond each, are measured for the first pass and when
rates have changed. A new plan is searched for beside the passes, and followed from the next pass on that finds it ready. A plan
decides how much work a pass is, never what it finds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kleene.engine.leaf_scan import LeafScan
from kleene.engine.observe import Scopes, share
from kleene.engine.working_set import WorkingSet
from kleene.pattern.text import expression_text
from kleene.plan.lazy import LazyPlan
from kleene.plan.multi.clauses import normal
from kleene.plan.multi.cost import ConditionKey, SharedStatistics, condition_key
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import MultiOptions, Progress, plan_shared
from kleene.plan.pattern_groups import PatternGroup

Array = np.ndarray[Any, Any]

PAIRS = 512
"""How many tuples decide about the selectivity of a condition."""

ROWS = 1 << 14
"""How many rows are looked at for that."""

CHANGED = 2.0
"""A rate that has changed by this factor makes a plan worth making anew."""

FEWEST = 20
"""Rates of fewer events than this say nothing."""

WORTH = 0.25
"""Most time that a search takes, as a share of what the pass at hand is expected to take with the best plan that needs none."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A working set as one query of a group sees it: with a bit for each of its positive variables."""

    working: WorkingSet
    masks: Array

    def __len__(self) -> int:
        return len(self.working)

    @property
    def ts(self) -> Array:
        return self.working.ts

    def gather(self, name: str, rows: Array) -> pa.Array:
        return self.working.gather(name, rows)


def observed_rates(group: PatternGroup, scan: LeafScan, working: WorkingSet) -> tuple[Array, float]:
    """How many events pass each leaf's test, and how much of the clock a working set stands for."""
    starts, tests = scan.sets()
    sizes = np.bincount(working.masks, minlength=starts.size - 1)
    counts = np.zeros(len(group.tests), np.int64)
    np.add.at(counts, tests, np.repeat(sizes, np.diff(starts)))
    rows = len(working)
    span = float(rows)
    if group.first.bound.count_window is None and rows > 1 and working.ts[-1] > working.ts[0]:
        span = float(working.ts[-1] - working.ts[0]) * rows / (rows - 1)
    return counts[: len(group.leaves)], max(span, 1.0)


def observe_shared(group: PatternGroup, scan: LeafScan, working: WorkingSet) -> SharedStatistics:
    """The statistics of a working set."""
    counts, span = observed_rates(group, scan, working)
    found: dict[ConditionKey, float] = {}
    same = 1.0
    starts, tests = scan.sets()
    for name, plan in group.plans.items():
        asked = [item for item in _asked(group, name, plan) if item[0] not in found]
        if not asked and same != 1.0:
            continue
        bits = {event.variable: bit for bit, (event, _) in enumerate(plan.scanned) if not event.negated}
        seen = _Seen(working, _masks(group, name, bits, starts, tests).take(working.masks))
        scopes = Scopes(plan.bound, bits, plan.partition, seen, ROWS)  # type: ignore[arg-type]
        measured = scopes.selectivities([expression for _, expression in asked], PAIRS)
        for key, expression in asked:
            text = expression_text(expression)
            if text in measured:
                found[key] = measured[text]
        if plan.partition and same == 1.0:
            same = min(scopes.same_partition(PAIRS), share(1, 1))
    return SharedStatistics(tuple((counts / span).tolist()), found, same if group.first.partition else 1.0, span)


def _asked(group: PatternGroup, query: str, plan: LazyPlan) -> list[tuple[ConditionKey, Any]]:
    """The conditions between single events of a query, as statistics know them."""
    found = []
    for clause in group.clauses:
        if clause.query != query:
            continue
        branch = plan.branches[clause.branch]
        named = {branch.variables[component]: position for position, component in enumerate(clause.components)}
        for item in branch.conditions:
            if not item.via and item.condition.variables <= named.keys():
                condition = normal(item.condition.expression, named)
                found.append((condition_key(condition, clause.leaves), item.condition.expression))
    return found


def _masks(group: PatternGroup, query: str, bits: dict[str, int], starts: Array, tests: Array) -> Array:
    """For each set of tests the bits of a query's variables whose test is in it."""
    by_test = np.zeros(len(group.tests), np.int64)
    for variable, bit in bits.items():
        by_test[group.test_of(query, variable)] |= 1 << bit
    masks = np.zeros(starts.size - 1, np.int64)
    np.bitwise_or.at(masks, np.repeat(np.arange(masks.size), np.diff(starts)), by_test.take(tests))
    return masks


class Planner:
    """Makes the plans of a group while it runs."""

    def __init__(
        self,
        group: PatternGroup,
        options: MultiOptions,
        *,
        plan: SharedPlan | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """`plan` is what to begin with, if there is one."""
        self._group = group
        self._options = options
        self._progress = progress
        self._plan = plan
        self._searching: threading.Thread | None = None
        self._ready: SharedPlan | None = None
        self.plans = 0
        """How many plans were followed."""

    def plan_for(self, scan: LeafScan, working: WorkingSet) -> SharedPlan:
        """The plan of a pass over a working set."""
        if self._plan is None:
            statistics = observe_shared(self._group, scan, working)
            self._follow(self._planned(statistics, None, within_pass=True))
        elif self._options.adaptive:
            self._adapt(scan, working)
        assert self._plan is not None
        return self._plan

    def streamed(self) -> SharedPlan:
        """A plan to follow from now on in which whatever is looked up are single events."""
        assert self._plan is not None
        self.wait()
        self._options = replace(self._options, kind="tree")
        self._ready = None
        chains = replace(self._options, search="none")
        self._follow(plan_shared(self._group.leaves, self._group.clauses, self._plan.statistics, chains))
        return self._plan

    def wait(self) -> None:
        """Waits for a search that is under way."""
        if self._searching is not None:
            self._searching.join()

    def _follow(self, plan: SharedPlan) -> None:
        self._plan = plan
        self.plans += 1

    def _adapt(self, scan: LeafScan, working: WorkingSet) -> None:
        if self._ready is not None:
            self._follow(self._ready)
            self._ready = None
        assert self._plan is not None
        if (self._searching is not None and self._searching.is_alive()) or not self._has_changed(scan, working):
            return
        statistics, start = observe_shared(self._group, scan, working), self._plan

        def search() -> None:
            self._ready = self._planned(statistics, start, within_pass=False)

        self._searching = threading.Thread(target=search, name="kleene-plan", daemon=True)
        self._searching.start()

    def _has_changed(self, scan: LeafScan, working: WorkingSet) -> bool:
        """Whether some rate is far from what the plan was made for."""
        assert self._plan is not None
        counts, span = observed_rates(self._group, scan, working)
        expected = np.array(self._plan.statistics.rates) * span
        telling = np.maximum(counts, expected) >= FEWEST
        low, high = np.minimum(counts, expected), np.maximum(counts, expected)
        return bool((telling & (high > CHANGED * np.maximum(low, 1.0))).any())

    def _planned(self, statistics: SharedStatistics, start: SharedPlan | None, *, within_pass: bool) -> SharedPlan:
        group, options = self._group, self._options
        if within_pass and options.search in ("annealing", "tabu"):
            first = plan_shared(group.leaves, group.clauses, statistics, replace(options, search="none"))
            expected = min(first.baselines.values()) * statistics.span * 1e-9
            options = replace(options, seconds=min(options.seconds, WORTH * expected))
        return plan_shared(group.leaves, group.clauses, statistics, options, self._progress, start)
