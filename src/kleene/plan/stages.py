"""The stages of the optimizer: each adds to the draft of a plan what it decides, or leaves it as it is."""

from __future__ import annotations

from dataclasses import replace

from kleene.common.errors import PlanningError, Problem
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import Branch
from kleene.pattern.policies import Output, Strategy
from kleene.pattern.predicates import Expression, variables
from kleene.plan.aggregation import aggregate_matches, looking_ahead, without_aggregates, without_looking_ahead
from kleene.plan.analysis.compilable import require_compilable, run_compilable
from kleene.plan.analysis.keys import is_divided, key_attributes, positive_components
from kleene.plan.automaton import nfa
from kleene.plan.automaton.nfa import automaton_branch, require_sequences, with_merging, with_queue
from kleene.plan.contract import Transformation
from kleene.plan.counting.counters import obstacles, plan_counters
from kleene.plan.draft import Draft
from kleene.plan.lazy import lazy
from kleene.plan.lazy.lazy import lazy_branch, require_any_match, with_implied
from kleene.plan.lazy.stacks import is_plain_sequence, require_plain_sequence, stacks_of
from kleene.plan.limits import Limits
from kleene.plan.operators import (
    Negation,
    partition_attributes,
    plan_columns,
    plan_negation,
    require_few_tests,
    require_supported,
    untested,
)
from kleene.plan.options import AggregateOptions, LazyOptions, NfaOptions, SequenceOptions
from kleene.plan.order.statistics import Statistics
from kleene.plan.patterns import Alternative, EvaluationOptions, PatternPlan


def count_without_matches(draft: Draft) -> None:
    """AGG by counters (A-Seq), where nothing stands in the way and nobody asks for matches."""
    options = draft.asked if draft.asked is not None else AggregateOptions()
    if not draft.bound.query.aggregates or not isinstance(options, AggregateOptions) or options.mechanism == "matches":
        return
    draft.reasons = obstacles(draft.bound)
    if not draft.reasons:
        draft.plan = plan_counters(draft.bound, options, draft.limits)
    elif options.mechanism == "counters":
        hint = "leave the plan open: its matches are then built and aggregated"
        problems = [Problem(f"the aggregate cannot be pushed down: {reason}", hint=hint) for reason in draft.reasons]
        raise PlanningError(problems, draft.bound.query.text)


def match_before_aggregating(draft: Draft) -> None:
    """Any other AGG over the matches of the query without it."""
    bound = draft.bound
    if bound.query.aggregates:
        draft.aggregated, draft.bound = bound, without_aggregates(bound)
        draft.reasons = draft.reasons or obstacles(bound) or ("the plan asks for matches",)
        if isinstance(draft.asked, AggregateOptions):
            draft.asked = None


def refuse_large_conditions(draft: Draft) -> None:
    """Conditions that would take long to compile, in every process that runs the query."""
    require_compilable(draft.bound, draft.limits)


def choose_evaluation(draft: Draft) -> None:
    """Lazy evaluation for AND, for functions of several events, and for single events under skip_till_any_match; else automata,
    which share what Kleene components have in common, drop overlapping runs, and can sample at a limit.
    """
    asked = draft.asked
    assert not isinstance(asked, AggregateOptions)
    if asked is None:
        asked = LazyOptions() if draft.output == "verbose" and _is_best_lazily(draft.bound, draft.limits) else NfaOptions()
    draft.options = asked


def _is_best_lazily(bound: BoundQuery, limits: Limits) -> bool:
    if bound.query.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        return False
    if any(not branch.is_sequence for branch in bound.branches):
        return True
    positive = {event.variable for event in positive_components(bound)}
    between = [conjunct for conjunct in bound.conjuncts if variables(conjunct) <= positive]
    if not all(run_compilable(conjunct, bound.schema) for conjunct in between):
        return True
    kleene = any(event.is_kleene for event in bound.components)
    return not kleene and bound.query.output is Output.ALL and limits.policy == "error"


def refuse_unsupported(draft: Draft) -> None:
    """What the evaluation cannot answer is an error that names all of it."""
    options, bound = draft.options, draft.bound
    if draft.runs is not None:
        require_sequences(bound)
    elif draft.output != "verbose":
        message = f"only automata have a match buffer to give as {draft.output} output"
        raise PlanningError(Problem(message, hint="leave the plan open, or choose plan={'mechanism': 'nfa'}"))
    elif draft.limits.policy != "error":
        message = f"the policy '{draft.limits.policy}' drops runs of automata, and this plan finds matches without runs"
        hint = "leave the policy out: at a limit the query stops; or choose plan={'mechanism': 'nfa'} (not for AND)"
        raise PlanningError(Problem(message, hint=hint))
    elif isinstance(options, LazyOptions):
        require_any_match(bound, options)
    else:
        require_plain_sequence(bound)
    require_supported(bound, draft.output)


def set_lookahead_aside(draft: Draft) -> None:
    """Negation that looks ahead would make matches wait; under AGG a forbidden event ends their life instead (Lemma 6)."""
    if draft.aggregated is not None:
        draft.ahead = looking_ahead(draft.bound)
        if any(branch.negatives for branch in draft.ahead):
            draft.bound = without_looking_ahead(draft.bound)


def divide_events(draft: Draft) -> None:
    """Events of different partitions never meet (PAIS), and may be distributed by what divides negative ones too."""
    bound = draft.bound
    contiguous = bound.query.strategy in (Strategy.PARTITION_CONTIGUITY, Strategy.STRICT_CONTIGUITY)
    draft.all_rows = contiguous or bound.count_window is not None
    dividing = partition_attributes(bound, draft.all_rows)
    negatives = [item.event for branch in bound.branches for item in branch.negatives]
    draft.keys = tuple(name for name in dividing if all(is_divided(bound, event, name) for event in negatives))
    if draft.stacks is None:
        draft.partition = dividing
        draft.tests = tuple(test.name for test in bound.equivalences if test.value is None and test.name not in dividing)
    else:
        draft.partition = {"composite": dividing, "none": ()}.get(draft.stacks.partition, dividing[:1])
        draft.all_rows |= draft.stacks.construction == "runtime_stack"  # which has a cell for every event


def sort_conditions(draft: Draft) -> None:
    """Each conjunct to where it is decided: the partition, a single event, an edge or a condition between events, negation."""
    bound, partition, stacks = draft.bound, draft.partition, draft.stacks
    if draft.runs is not None:
        draft.automata = tuple(automaton_branch(bound, item, partition, _negation(draft, item)) for item in bound.branches)
    else:
        compared = partition if stacks is None else key_attributes(bound)
        draft.lazy = tuple(lazy_branch(bound, item, partition, compared, _negation(draft, item)) for item in bound.branches)


def _negation(draft: Draft, branch: Branch) -> Negation | None:
    if draft.stacks is None:
        return plan_negation(draft.bound, branch, draft.partition)
    in_scan = draft.stacks.simple_predicates == "scan"
    return plan_negation(draft.bound, branch, draft.partition, draft.stacks.negation, in_scan=in_scan)


def test_while_scanning(draft: Draft) -> None:
    """Single events are decided before any is bound, each test by a bit of a row's mask."""
    bound = draft.bound
    known = untested(bound, draft.partition)
    tests = lazy.tests_of(bound, draft.lazy, known) if draft.runs is None else nfa.tests_of(draft.automata, known)
    negations = [branch.negation for branch in draft.branches if branch.negation is not None]
    negatives = {item.event.variable: item for negation in negations for item in negation.components}
    tests += [(item.event, item.scan_predicates) for item in negatives.values()]
    draft.scanned = tuple(tests)
    require_few_tests(bound, len(tests), "components" if draft.runs is None else "components, counting Kleene components twice")


def construct_on_stacks(draft: Draft) -> None:
    """Where the user asks for active instance stacks: what they decide, and what is left to selection."""
    stacks = draft.stacks
    if stacks is not None:
        (branch,) = draft.lazy
        simple: tuple[Expression, ...] = ()
        if stacks.simple_predicates == "selection":
            simple = tuple(item for event, own in draft.scanned if not event.negated for item in own)
            draft.scanned = tuple((event, own if event.negated else ()) for event, own in draft.scanned)
        tests = tuple(name for name in key_attributes(draft.bound) if name not in draft.partition)
        draft.lazy = (replace(branch, stacks=stacks_of(branch, stacks, tests, simple)),)


def offer_stacks(draft: Draft) -> None:
    """Plain sequences may also be found by active instance stacks, which a pass takes where they cost less."""
    options = draft.options
    if isinstance(options, LazyOptions) and options.evaluation == "auto" and options.order is None:
        if is_plain_sequence(draft.bound):
            draft.lazy = tuple(replace(item, stacks=stacks_of(item, SequenceOptions(), (), ())) for item in draft.lazy)


def imply_comparisons(draft: Draft) -> None:
    """What conditions imply refuses tuples before the events between are bound: a.x < c.x of a.x < b.x AND b.x < c.x."""
    if draft.stacks is None:  # they bind components next to each other
        draft.lazy = tuple(with_implied(draft.bound, branch) for branch in draft.lazy)


def merge_runs(draft: Draft) -> None:
    """Equivalent runs are one (SASE+, section 5.2.2), unless a condition looks back at single elements."""
    if draft.runs is not None and draft.runs.algorithm == "merging":
        draft.automata = tuple(map(with_merging, draft.automata))


def queue_runs(draft: Draft) -> None:
    """Runs that all take the next event are kept as a queue: nothing but their start tells them apart."""
    query = draft.bound.query
    single = query.strategy is Strategy.SKIP_TILL_NEXT_MATCH and query.output is Output.ALL
    # What is dropped at a limit, and compressed output, are about single runs.
    if single and draft.output == "verbose" and not draft.tests and draft.limits.policy == "error":
        draft.automata = tuple(map(with_queue, draft.automata))


def prune_columns(draft: Draft) -> None:
    """Columns that nothing reads stay behind."""
    draft.transformation = Transformation(tuple((item.alias, item.expression) for item in draft.bound.query.returns))
    draft.columns = plan_columns(draft.bound, draft.transformation)


def find_matches(draft: Draft) -> None:
    """All of it is the plan of the matches, with what is known of the events."""
    bound = draft.bound
    assert draft.transformation is not None
    next_match = bound.query.strategy is Strategy.SKIP_TILL_NEXT_MATCH
    counted = draft.all_rows and draft.stacks is None
    plan: PatternPlan[EvaluationOptions, Alternative] = PatternPlan(
        bound=bound,
        options=draft.options,
        branches=draft.branches,
        scanned=draft.scanned,
        partition=draft.partition,
        keys=draft.keys,
        tests=draft.tests,
        all_rows=draft.all_rows,
        total_order=counted or next_match or bound.query.output is Output.NON_OVERLAP,
        transformation=draft.transformation,
        columns=draft.columns,
        ties=draft.ties,
        output=draft.output,
        limits=draft.limits,
        statistics=_statistics(draft),
    )
    draft.plan = plan if draft.aggregated is None else aggregate_matches(draft.aggregated, plan, draft.ahead, draft.reasons)


def _statistics(draft: Draft) -> Statistics | None:
    """What is known of the events, which only lazy evaluation asks for."""
    if draft.known is None or not isinstance(draft.options, LazyOptions):
        return None
    if isinstance(draft.known, Statistics):
        return draft.known
    names = [event.variable for event in positive_components(draft.bound)]
    conditions = [item.condition.expression for branch in draft.lazy for item in branch.conditions]
    return Statistics.from_mapping(draft.known, names, tuple(dict.fromkeys(conditions)))
