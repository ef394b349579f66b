"""Lazy evaluation in execution: how events are bound is chosen for the events of each pass.

`kleene.engine.lazy.order_planner` compares the orders of a chain or tree with active instance stacks. A pass over few rows
takes stacks, if the query is a plain sequence; they are compiled when it first does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from kleene.engine.allowance import Allowance
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.lazy.lazy_pass import LazyPass, Programs
from kleene.engine.lazy.order_planner import OrderPlanner
from kleene.engine.matcher import Metrics
from kleene.engine.passes.reporting import Pass
from kleene.engine.passes.working_pass import Grouped
from kleene.plan.patterns import LazyPlan


class PassesOver(Protocol):
    """Finds matches in rows that may have been grouped before."""

    def over(
        self, working: WorkingSet, metrics: Metrics, allowance: Allowance, block: int, grouped: Grouped | None = None
    ) -> Pass:
        """A pass; `grouped` are the rows by the partition of the plan, if that is known."""
        ...


class LazyEvaluation:
    """Finds matches in an order of binding, or by stacks where they cost less."""

    candidates = False
    ends_later = False

    def __init__(self, plan: LazyPlan, make_stacks: Callable[[], PassesOver] | None = None) -> None:
        """`make_stacks` gives the evaluation of the same plan by stacks, for a plan that they are offered to."""
        self.plan = plan
        self.planner = OrderPlanner(plan)
        self._programs: Programs | None = None
        self._make_stacks = make_stacks
        self._stacks: PassesOver | None = None

    @property
    def chosen(self) -> str:
        """How the last pass bound events, in words."""
        return self.planner.text

    def begin(self, working: WorkingSet, emit_from: int, metrics: Metrics, allowance: Allowance, block: int) -> Pass:
        """A pass by the order that is expected to cost least."""
        in_order = partial(self.in_order, working, metrics, allowance, block)
        looked = self.planner.look_at(working, emit_from, in_order)
        if not self.planner.takes_stacks:
            return looked or in_order()
        if self._stacks is None:
            assert self._make_stacks is not None
            self._stacks = self._make_stacks()
        return self._stacks.over(working, metrics, allowance, block, looked.grouped if looked is not None else None)

    def in_order(self, working: WorkingSet, metrics: Metrics, allowance: Allowance, block: int) -> LazyPass:
        """A pass that extends partial matches in the order of the planner."""
        if self._programs is None:
            self._programs = Programs(self.plan)
        return LazyPass(self._programs, self.planner.stretches, working, metrics, allowance, block)
