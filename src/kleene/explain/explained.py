"""A plan and what it looks like: as text, as a picture, and in a notebook."""

from __future__ import annotations

from dataclasses import dataclass

from kleene.explain.drawing import svg
from kleene.explain.notebook import Shown
from kleene.explain.plans import explain
from kleene.plan.contract import Plan


@dataclass(frozen=True, slots=True)
class Explained(Shown):
    """What `explain` returns: `print` it, draw it, or look at its `plan`."""

    plan: Plan

    def __str__(self) -> str:
        return explain(self.plan)

    def svg(self, *, optimized: bool = True) -> str:
        """The plan as a picture, an SVG document; automata as the paper draws them or, `optimized`, as they are evaluated."""
        return svg(self.plan, optimized=optimized)
