"""The plan of a query's matches: what all ways of finding them have in common, and per alternative what its own needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeGuard, TypeVar

from kleene.pattern.bound import BoundQuery
from kleene.pattern.operators import Event
from kleene.pattern.predicates import Expression
from kleene.plan.analysis.keys import positive_components
from kleene.plan.automaton.nfa import AutomatonBranch
from kleene.plan.contract import Plan, PlanDefaults, Scanned, Transformation
from kleene.plan.lazy.lazy import LazyBranch
from kleene.plan.limits import Limits
from kleene.plan.operators import Negation, reach_of
from kleene.plan.options import LazyOptions, NfaOptions, SequenceOptions
from kleene.plan.order.statistics import Statistics


class Alternative(Protocol):
    """What every alternative of a pattern says."""

    @property
    def negation(self) -> Negation | None: ...


EvaluationOptions = SequenceOptions | LazyOptions | NfaOptions
"""The options of ways to find matches."""

Chosen_co = TypeVar("Chosen_co", bound=EvaluationOptions, covariant=True)
Branch_co = TypeVar("Branch_co", bound=Alternative, covariant=True)


@dataclass(frozen=True, slots=True)
class PatternPlan(PlanDefaults, Generic[Chosen_co, Branch_co]):
    """How the matches of a query are found, and what that reads."""

    bound: BoundQuery
    options: Chosen_co
    """The choices of its evaluation, which is one of `stacks`, `auto`, `chain`, `tree`, `eager` and `automaton`."""
    branches: tuple[Branch_co, ...]
    """The alternatives of the pattern."""
    scanned: Scanned
    """What the scan tests of each event; negative components come last. In automata a Kleene component has two tests, for its
    first element and for further ones.
    """
    partition: tuple[str, ...]
    """Attributes that divide the events: events of different partitions never meet."""
    keys: tuple[str, ...]
    """The attributes by which the input may be distributed: they divide positive and negative components alike."""
    tests: tuple[str, ...]
    """Further attributes on which the events of a match must agree."""
    all_rows: bool
    """Whether events that no component can bind matter: to contiguity, a window of events, a runtime stack."""
    total_order: bool
    """Whether two events of a partition may not tie."""
    transformation: Transformation
    columns: tuple[str, ...]
    """The columns that the plan reads, in the order of the input."""
    ties: str
    output: str
    """`verbose` or `compressed`."""
    limits: Limits
    statistics: Statistics | None = None
    """What is known of the events beforehand."""

    @property
    def evaluation(self) -> str:
        """How matches are found: the name of its options' evaluation."""
        return self.options.evaluation

    @property
    def positives(self) -> tuple[Event, ...]:
        """The positive components of all branches."""
        return positive_components(self.bound)

    @property
    def reach(self) -> int:
        """A window, or two where matches wait for theirs to pass and something before them matters."""
        return reach_of(self.bound, (branch.negation for branch in self.branches))

    @property
    def postponed(self) -> bool:  # type: ignore[override]
        """Whether matches wait for their window to pass: some end is negated."""
        return any(branch.negation is not None and branch.negation.postponed for branch in self.branches)

    @property
    def stacks(self: LazyPlan) -> bool:
        """Whether active instance stacks are an evaluation of it."""
        return self.branches[0].stacks is not None

    @property
    def conditions(self: LazyPlan) -> tuple[Expression, ...]:
        """The conditions between events of all branches."""
        found = (item.condition.expression for branch in self.branches for item in branch.conditions)
        return tuple(dict.fromkeys(found))

    def order_of(self: LazyPlan, branch: LazyBranch) -> tuple[int, ...] | None:
        """The order of binding that the user asks for: in a chain, that of the options; of an eager automaton, as written."""
        if self.options.evaluation == "eager":
            return tuple(range(len(branch.components)))
        if self.options.order is None:
            return None
        places = {variable: place for place, variable in enumerate(self.options.order)}
        return tuple(sorted(range(len(branch.components)), key=lambda index: places[branch.components[index].variable]))


MatchPlan = PatternPlan[EvaluationOptions, Alternative]
"""A plan that finds matches, in any way."""

LazyPlan = PatternPlan[LazyOptions, LazyBranch]
"""A plan that leaves the order of binding to the engine, unless the options say it."""

StackPlan = PatternPlan[SequenceOptions | LazyOptions, LazyBranch]
"""A plan whose matches active instance stacks can find."""

NfaPlan = PatternPlan[NfaOptions, AutomatonBranch]
"""A plan whose matches automata find."""


def is_lazy(plan: Plan | None) -> TypeGuard[LazyPlan]:
    """Whether a plan leaves the order of binding to the engine, or to its options."""
    return plan is not None and plan.evaluation in ("auto", "chain", "tree", "eager")


def runs_automata(plan: Plan) -> TypeGuard[NfaPlan]:
    """Whether automata find the matches of a plan."""
    return plan.evaluation == "automaton"
