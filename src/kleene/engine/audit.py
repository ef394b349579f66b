"""Whether a value that left 64 bits is an error of the answer (semantics, "Errors of the data").

Mechanisms decide conditions as early as they can, on tuples that other conditions may yet refuse. So what fails there is no
error yet: it does not hold, and is noted (`kleene.engine.expressions.failing`). At the end of a pass that noted something, the
pass is audited: the queries of `kleene.pattern.faults` are matched over its events, and their matches are the errors. Under the
strategies other than skip_till_any_match an error is a run that comes to an edge which fails: a plain automaton is run, in
which every condition is decided on the edge where the semantics has it.

Without errors none of this is run. Cost: that of matching the query again, once for each condition that can fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kleene.engine.automaton.evaluation import AutomatonEvaluation
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.expressions.failing import Noticed, condition_overflow
from kleene.engine.lazy.evaluation import LazyEvaluation
from kleene.engine.matches.match_values import MatchEvaluator, MatchRows
from kleene.engine.matches.matches import Matches
from kleene.engine.passes.reporting import Evaluation, Pass, PatternMatcher
from kleene.pattern.bound import BoundQuery
from kleene.pattern.conditions import Condition, condition_of
from kleene.pattern.faults import faulty_queries, forbidding_queries, is_fallible, tolerant
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import Expression
from kleene.plan.automaton.automaton import Component
from kleene.plan.automaton.nfa import tests_of
from kleene.plan.contract import Plan
from kleene.plan.operators import kleene_variables, untested
from kleene.plan.optimizer import plan_matches
from kleene.plan.options import LazyOptions, NfaOptions
from kleene.plan.patterns import NfaPlan

ALL_AT_ONCE = 1 << 62
"""Rows of a pass: audits go over the events in one."""


class _Audit(PatternMatcher):
    """Counts matches, of which a condition may have to fail."""

    found = 0
    failing: Expression | None = None

    def _written(self, run: Pass, matches: Matches) -> Any:
        if self.failing is not None:
            evaluator = MatchEvaluator(self._plan.bound, run.events.gather, MatchRows(matches), noticed=Noticed())
            matches = matches.select(evaluator.holds(self.failing))
        self.found += matches.count


def audit(plan: Plan, working: WorkingSet, reported: int | None, watermark: int | None) -> None:
    """Raises if a value that left 64 bits in a pass is an error. The pass has reported what is certain by the watermark (None:
    everything) and had not been by `reported`.
    """
    bound: BoundQuery = plan.bound
    any_match = bound.query.strategy is Strategy.SKIP_TILL_ANY_MATCH

    def matched(query: BoundQuery, failing: Expression | None = None) -> int:
        events = working.schema
        evaluation: Evaluation
        if any_match:
            evaluation = LazyEvaluation(plan_matches(query, LazyOptions("chain"), ties=plan.ties))
        else:
            evaluation = AutomatonEvaluation(plainest(query, plan), audits=True)
        matcher = _Audit(evaluation, events, bad_rows="drop", run_rows=ALL_AT_ONCE)
        matcher.failing = failing
        if reported is not None:
            matcher.restore([working.batch(0, working.kept)], reported, working.horizon, {})
        for _ in matcher.feed(working.batch(working.kept, len(working))):
            pass
        for _ in matcher.finish() if watermark is None else matcher.advance(watermark):
            pass
        return matcher.found

    queries: Iterator[tuple[BoundQuery, Expression | None]] = faulty_queries(bound)
    if any_match and any(matched(*query) for query in queries):
        raise condition_overflow(bound.query.name)
    forbidding = forbidding_queries(bound)
    if forbidding is not None:
        without, with_failing = forbidding
        if matched(without) > matched(with_failing):
            raise condition_overflow(bound.query.name)
    elif not any_match:
        matched(replace(bound, query=replace(bound.query, output=Output.ALL)))


def plainest(bound: BoundQuery, plan: Plan) -> NfaPlan:
    """The automata of a query with each condition on the edge where it is checked by definition, and no other.

    What cannot fail is decided while scanning all the same, and what certainly does not hold.
    """
    found = plan_matches(bound, NfaOptions(algorithm="basic"), ties=plan.ties, limits=plan.limits)
    kleene = kleene_variables(bound)

    def moved(conditions: tuple[Expression, ...]) -> tuple[Condition, ...]:
        return tuple(condition_of(item, kleene) for item in conditions if is_fallible(item, bound.schema))

    def component_of(item: Component) -> Component:
        return replace(
            item,
            scan_begin=tuple(tolerant(condition, bound.schema) for condition in item.scan_begin),
            begin=(*moved(item.scan_begin), *item.begin),
            scan_take=tuple(tolerant(condition, bound.schema) for condition in item.scan_take),
            take=(*moved(item.scan_take), *item.take),
            element=(),
            proceed=(*item.proceed, *item.element),
        )

    branches = []
    for branch in found.branches:
        components = tuple(map(component_of, branch.automaton.components))
        automaton = replace(branch.automaton, components=components)
        branches.append(replace(branch, automaton=automaton, merges=False, queued=False))
    positives = tests_of(branches, untested(bound, found.partition))
    return replace(found, branches=tuple(branches), scanned=(*positives, *(test for test in found.scanned if test[0].negated)))
