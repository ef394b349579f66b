"""Random queries of every kind in slices of time, against the oracle.

An example is a query of the SASE fragment, of SASE+, under skip_till_any_match or with AGG, under a random plan. Time is cut at
events, beside them and where their windows end; slices may be shorter than a window. The rows of all slices together must be
the oracle's matches with the ids of a whole run. Some examples run again with events that tie, which must be refused where the
oracle refuses them.

As a script: `KLEENE_KERNELS=python python tests/support/slice_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

from kleene.common.columns import time_values
from kleene.common.errors import DataError
from kleene.engine import time_slices
from kleene.engine.automaton.kernels import merging
from kleene.engine.matches import candidates
from kleene.engine.matches.kernels import apart
from kleene.engine.passes.reporting import ReportingMatcher
from kleene.pattern.policies import Output
from kleene.plan import operators
from kleene.plan.aggregation import MatchThenAggregate
from kleene.plan.contract import PlanDefaults
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.distribution import slicing
from kleene.plan.distribution.slicing import obstacle
from kleene.plan.multi.search import MultiOptions
from kleene.runtime.spark import workloads as spark_workloads
from kleene.runtime.spark.slices import blocks as slice_blocks
from kleene.runtime.spark.workloads import share_slices
from support import nfa_pairs, sase_pairs, slice_runs, workload_pairs
from support.pair_runs import Report, Suite, broken, main, rewritten
from support.random_workloads import needs_total_order
from support.slice_runs import divided, random_cuts, sliced, sliced_together
from support.stream_pairs import KINDS, StreamExample, describe, is_huge, questions_of, stream_example
from support.stream_questions import Question


def slice_example(seed: int, number: int = 0) -> StreamExample:
    """Example `number` of a seed; kinds take turns. NON-OVERLAP is wanted more often than elsewhere."""
    given = stream_example(seed, number)
    query = given.examples[0].query
    if number // len(KINDS) % 2 and given.kind == "saseplus" and needs_total_order(query):
        given = replace(given, examples=(replace(given.examples[0], query=replace(query, output=Output.NON_OVERLAP)),))
    return given


def check_example(given: StreamExample, number: int, rng: Random, report: Report) -> list[str]:
    """How the rows of slices differ from the oracle's; where order matters, some with ties too."""
    if any(map(is_huge, given.examples)):
        report.seen["huge"] += 1
        return []
    report.seen[given.kind] += 1
    questions = questions_of(given, rng)
    found = _check_together(questions, rng, report.seen) if len(given.examples) > 1 else []
    found += _check(questions, rng, report.seen)
    report.matches = report.seen["rows"]
    if number // len(KINDS) % 3 == 0 and needs_total_order(given.examples[0].query):
        found += _check_ties(given, rng, report.seen)
    return found


def _check(questions: Mapping[str, Question], rng: Random, seen: Counter[str], *, arrival: bool = False) -> list[str]:
    report: list[str] = []
    for question in questions.values():
        reason = obstacle(question.plan)
        if reason is not None:
            seen[reason] += 1
        elif question.example.events:
            report += _differences(question, rng, seen, arrival=arrival)
    return report


def _check_together(questions: Mapping[str, Question], rng: Random, seen: Counter[str]) -> list[str]:
    """How the rows of queries differ that share slices."""
    asked = {name: item.asked() for name, item in questions.items() if share_slices([item.plan])}
    if not asked or not next(iter(questions.values())).example.events:
        return []
    first = questions[next(iter(asked))]
    table = sase_pairs.numbered(first.example)
    ts = time_values(table.column(first.bound.schema.time).combine_chunks(), first.unit)
    cuts = random_cuts(first.plan, ts, rng)
    multi = rng.choice((None, MultiOptions(search="none"), workload_pairs.random_plan(rng)))
    report: list[str] = []
    for name, rows in sliced_together(list(asked.values()), multi, table, cuts, rng).items():
        seen["rows of queries that share slices"] += rows.num_rows
        found = questions[name].read(rows.combine_chunks().to_batches()[0]) if rows.num_rows else None
        report += questions[name].differences(range(table.num_rows), None, found)
    return report and [f"together, cut at {cuts}, with {multi}", *report]


def _differences(question: Question, rng: Random, seen: Counter[str], *, arrival: bool) -> list[str]:
    table = sase_pairs.numbered(question.example)
    ts = time_values(table.column(question.bound.schema.time).combine_chunks(), question.unit)
    cuts = random_cuts(question.plan, ts, rng)
    by_key = question.plan.keys and (question.bound.count_window is not None or rng.random() < 0.3)
    tables = divided(question.plan, table) if by_key else [table]
    rows = pa.concat_tables([sliced(question.plan, own, cuts, rng, arrival=arrival) for own in tables])
    if by_key and question.kind == "rows of AGG" and len(set(ts.tolist())) < ts.size:
        return []  # of rows of an instant, those of different keys have no order
    if by_key and question.kind == "rows of AGG":
        rows = rows.sort_by("at")
    seen["hot keys"] += bool(by_key)
    found = question.read(rows.combine_chunks().to_batches()[0]) if rows.num_rows else None
    seen.update(_features(question))
    seen["rows"] += 0 if found is None else found.num_rows
    report = question.differences(range(table.num_rows), None, found)
    return report and [f"cut at {cuts} by {type(question.plan).__name__}, ties as they come: {arrival}", *report]


def _features(question: Question) -> list[str]:
    bound = question.bound
    parts = {
        question.kind: True,
        "a window of events": bound.count_window is not None,
        "NON-OVERLAP": question.non_overlap,
        "a negated end": question.postponed,
        "a negated start": any(not item.after for branch in bound.branches for item in branch.negatives),
        "a key": bool(bound.equivalences),
        "Kleene": any(event.is_kleene for event in bound.components),
        "AND": any(not branch.is_sequence for branch in bound.branches),
        "EMIT ON CHANGE": bound.query.emit_on_change,
        bound.query.strategy.value: True,
    }
    return [name for name, held in parts.items() if held]


def _check_ties(given: StreamExample, rng: Random, seen: Counter[str]) -> list[str]:
    """How the answer to events that tie differs from the oracle's, which may be an error."""
    ties = rng.choice(("error", "arrival"))
    events = nfa_pairs.tied(given.examples[0], rng).events
    changed = replace(given, examples=(replace(given.examples[0], events=events),))
    asked = questions_of(changed, rng, ties=ties)
    refused = any(question.is_refused() for question in asked.values() if obstacle(question.plan) is None)
    seen.update(("ties", f"ties={ties} {'refused' if refused else 'answered'}"))
    try:
        found = _check(asked, rng, seen, arrival=ties == "arrival") + (["a tie is not refused"] if refused else [])
    except DataError as error:
        found = [] if refused and "tie at timestamp" in str(error) else [str(error)]
    return found and [f"ties={ties}", *found, describe(changed)]


# --- sabotage: a test of the tests ------------------------------------------------------------------------------------

SABOTAGE: dict[str, Callable[[], None]] = {
    # What leads to a slice is too short, or not there.
    "short-lead": broken(operators, "reach_of", ") * bound.window", ") * bound.window - 1"),
    "short-lives": rewritten(MatchThenAggregate, "reach", "2 * self.bound.window", "self.bound.window - 1"),
    "short-counters": rewritten(CounterPlan, "reach", "self.bound.window + 1", "self.bound.window - 1"),
    "few-events": rewritten(slice_runs, "_low", "before[-counted]", "before[2 - counted]"),
    "one-slice-back": broken(slicing, "time_slices", "begins[first], range", "begins[max(first - 1, 0)], range"),
    "no-lead": rewritten(slice_blocks._Blocks, "_places", "if leading.any():", "if False:"),
    # Matches of a slice are reported by others too, or by none.
    "to-the-end": broken(time_slices, "match_slice", "matcher.advance(part.until)", "matcher.finish()"),
    "lead-reported": broken(time_slices, "divided", "events.slice(since)", "events.slice(low)"),
    "reported-again": rewritten(ReportingMatcher, "_resume", "self._reported = watermark", "self._reported = None"),
    # The same of queries that share slices.
    "short-shared-lead": rewritten(spark_workloads.RunningUnit, "begin", "part.since - plan.reach + 1", "part.since"),
    "shared-to-the-end": rewritten(spark_workloads.RunningUnit, "advance", "advance(until)", "finish()"),
    "shared-lead-reported": broken(spark_workloads, "match_slice", "own.to_batches()", "events.to_batches()"),
    # NON-OVERLAP within slices, or with what is not a candidate; the choice forgets, or does not see where things are.
    "apart-in-slices": rewritten(PlanDefaults, "needs_choice", "is Output.NON_OVERLAP", "is None"),
    "chosen-too-soon": broken(apart, "choose_apart", "first[best] if candidates else last[best]", "last[best]"),
    "all-chosen": broken(apart, "keep_apart", "state[0] == 0 or", "True or"),
    "new-in-each-batch": broken(candidates, "chosen", "if before is None:\n            new", "if True:\n            new"),
    "placeless": broken(candidates, "_places", "at - first", "at - at"),
    "overlapping-runs": broken(merging, "end_overlapping", "> ended", ">= ended"),
}

SUITE = Suite(slice_example, check_example, describe, SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE)
