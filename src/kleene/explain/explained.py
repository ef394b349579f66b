"""A plan with its display: as text, as a picture, and in a notebook."""

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
        """The plan as an SVG document; `optimized` automata are those that run, the others those of the paper's steps 1-4."""
        return svg(self.plan, optimized=optimized)
