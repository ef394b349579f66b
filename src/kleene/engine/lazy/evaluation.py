"""Lazy evaluation in execution: how events are bound is chosen for the events of each pass.

`kleene.engine.lazy.order_planner` compares the orders of a chain or tree with active instance stacks. A pass over few rows
takes stacks, if the query is a plain sequence; its plan for stacks is made when it first does.
"""

from __future__ import annotations

from functools import partial

from kleene.engine.allowance import Allowance
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.lazy.lazy_pass import LazyPass, Programs
from kleene.engine.lazy.order_planner import OrderPlanner
from kleene.engine.matcher import Metrics
from kleene.engine.passes.reporting import Pass
from kleene.engine.sequence.stacks import StackEvaluation
from kleene.plan.lazy.lazy import LazyPlan


class LazyEvaluation:
    """Finds matches in an order of binding, or by stacks where they cost less."""

    candidates = False
    ends_later = False

    def __init__(self, plan: LazyPlan) -> None:
        self.plan = plan
        self.planner = OrderPlanner(plan)
        self._programs: Programs | None = None
        self._stacks: StackEvaluation | None = None

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
            self._stacks = StackEvaluation(self.plan.sequence())
        shared = looked is not None and self._stacks.plan.partition == self.plan.partition
        return self._stacks.over(working, metrics, allowance, block, looked.grouped if looked and shared else None)

    def in_order(self, working: WorkingSet, metrics: Metrics, allowance: Allowance, block: int) -> LazyPass:
        """A pass that extends partial matches in the order of the planner."""
        if self._programs is None:
            self._programs = Programs(self.plan)
        return LazyPass(self._programs, self.planner.stretches, working, metrics, allowance, block)
