"""What the stages of the optimizer work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.plan.automaton.nfa import AutomatonBranch
from kleene.plan.contract import Plan, Scanned, Transformation
from kleene.plan.lazy.lazy import LazyBranch
from kleene.plan.limits import Limits
from kleene.plan.options import LazyOptions, NfaOptions, PlanOptions, SequenceOptions
from kleene.plan.order.statistics import Statistics
from kleene.plan.patterns import Alternative, EvaluationOptions


@dataclass(slots=True)
class Draft:
    """What has been decided of a plan so far; a stage reads what those before it have decided."""

    bound: BoundQuery
    """The query; where matches are aggregated the one that finds them."""
    asked: PlanOptions | None
    """The choices of the user; None to let the optimizer choose."""
    ties: str
    output: str
    limits: Limits
    known: Statistics | Mapping[str, Any] | None
    """What the user knows of the events."""
    aggregated: BoundQuery | None = None
    """The query with AGG, where matches are aggregated."""
    reasons: tuple[str, ...] = ()
    """Why its aggregates are not counted without matches."""
    ahead: tuple[Branch, ...] = ()
    """Its negation that looks ahead, which the draft does not have."""
    options: EvaluationOptions = field(default_factory=LazyOptions)
    """The choices of the evaluation that finds the matches."""
    all_rows: bool = False
    partition: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    lazy: tuple[LazyBranch, ...] = ()
    automata: tuple[AutomatonBranch, ...] = ()
    """The alternatives: lazy ones, or automata."""
    scanned: Scanned = ()
    transformation: Transformation | None = None
    columns: tuple[str, ...] = ()
    plan: Plan | None = None
    """The plan, once nothing is left to decide."""

    @property
    def stacks(self) -> SequenceOptions | None:
        """The choices for active instance stacks, where they are the evaluation."""
        return self.options if isinstance(self.options, SequenceOptions) else None

    @property
    def runs(self) -> NfaOptions | None:
        """The choices for automata, where they are the evaluation."""
        return self.options if isinstance(self.options, NfaOptions) else None

    @property
    def branches(self) -> tuple[Alternative, ...]:
        return self.lazy or self.automata
