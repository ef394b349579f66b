"""Random queries and workloads of every kind as streams: out of order, in micro-batches, with restarts, against the oracle.

An example is a query of the SASE fragment, of SASE+, under skip_till_any_match or with AGG, or a workload of some, under random
plans, in one bucket. Its events arrive out of order, in micro-batches of any size; watermarks are at and beside the instants at
which something happens; the bucket is made anew from its state, and micro-batches are lost and done again, at random. In some
examples events are late, the bucket stays behind the watermark, is called only by its timer, or the rules change.

Every query must have the oracle's matches of the events that it saw, with the ids of a batch run, each in the micro-batch whose
watermark made it certain, no later and no earlier. Each late event leaves as such, once. When all is over, nothing is kept for
a window. Some examples run again with events that tie, which must be refused where the oracle refuses them.

As a script: `KLEENE_KERNELS=python python tests/support/stream_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

from kleene.common.columns import time_values
from kleene.common.errors import DataError, PlanningError
from kleene.engine.aggregation.expiring import Lives
from kleene.engine.aggregation.live_pass import Cells, LivePass
from kleene.engine.aggregation.matcher import MatchAggregator
from kleene.engine.counting.carried import Carried
from kleene.engine.counting.counters import CounterMatcher
from kleene.engine.passes.reporting import ReportingMatcher
from kleene.engine.passes.working_matcher import WorkingMatcher
from kleene.engine.shared.matcher import SharedMatcher
from kleene.pattern.operators import events as components
from kleene.pattern.policies import Strategy
from kleene.plan.multi.search import MultiOptions
from kleene.runtime.stream.bucket import LATE, MATCHES, PROBLEM, Bucket, Compiled, Labelled
from kleene.runtime.stream.log import FEW_MERGED, EventLog
from kleene.runtime.stream.pieces import Pieces
from kleene.runtime.units import QuerySet
from support import aggregate_pairs, lazy_pairs, nfa_pairs, sase_pairs, strategies, workload_pairs
from support.pair_runs import Report, Suite, main, rewritten
from support.random_aggregate import HUGE, aggregate_example, aggregate_workload
from support.random_queries import chance
from support.random_workloads import match_workload, needs_total_order
from support.sase_pairs import ROW
from support.strategies import Example
from support.stream_questions import NEVER, Aggregated, Compressed, Question, Returned, Shown
from support.stream_runs import Drive, Step, Way, bucket_plan, schedule, with_late

KINDS = ("sase", "saseplus", "any match", "aggregate", "workload", "aggregate workload")


@dataclass(frozen=True, slots=True)
class StreamExample:
    """Queries of one kind over the same events."""

    kind: str
    examples: tuple[Example, ...]


def stream_example(seed: int, number: int = 0) -> StreamExample:
    """Example `number` of a seed; kinds take turns."""
    kind = KINDS[number % len(KINDS)]
    single = {
        "sase": strategies.example,
        "saseplus": strategies.saseplus_example,
        "any match": strategies.any_match_example,
        "aggregate": aggregate_example,
    }
    if kind in single:
        return StreamExample(kind, (single[kind](seed, number),))
    made: Any = match_workload(seed, number) if kind == "workload" else aggregate_workload(seed, number)
    return StreamExample(kind, made.examples)


# --- questions --------------------------------------------------------------------------------------------------------


def questions_of(given: StreamExample, rng: Random, **options: Any) -> dict[str, Question]:
    """The queries under random plans; those that the planner does not support yet are left out."""
    table = sase_pairs.numbered(given.examples[0])
    found: dict[str, Question] = {}
    for number, example in enumerate(given.examples):
        for kind, further in _ways(given.kind, example, rng):
            name = f"q{number}{kind.__name__.lower()}"
            try:
                found[name] = kind(name, example, table, **further, **options)
            except PlanningError as error:
                if "not supported yet: " not in str(error) and "cannot be pushed down" not in str(error):
                    raise
    return found


def _ways(kind: str, example: Example, rng: Random) -> Iterator[tuple[type[Question], dict[str, Any]]]:
    """How a query is asked: as matches or rows of AGG, some of them compressed, and with its RETURN as well."""
    if example.query.aggregates:
        plan = rng.choice((*aggregate_pairs.PLANS, "matches")) if kind == "aggregate" or chance(rng, 0.3) else "auto"
        ends_negated = list(components(example.query.pattern))[-1].negated
        yield Aggregated, {"plan": aggregate_pairs.PLANS["matches" if ends_negated and chance(rng, 0.7) else plan]}
        return
    if kind == "workload":
        yield Shown, {"shares": example.query.strategy is Strategy.SKIP_TILL_ANY_MATCH and chance(rng, 0.9)}
    elif kind == "saseplus":
        plan = {"algorithm": rng.choice(nfa_pairs.ALGORITHMS)}
        yield Shown, {"plan": plan}
        if chance(rng, 0.3):
            yield Compressed, {"plan": plan}
    elif kind == "any match":
        names = lazy_pairs.positives_of(example)
        chain = lazy_pairs.LazyOptions("chain", tuple(rng.sample(names, len(names))))
        yield Shown, {"plan": rng.choice((*lazy_pairs.PLANS, chain, chain))}
    else:
        yield Shown, {"plan": rng.choice((None, sase_pairs.random_setting(rng).options))}
    if example.query.returns:
        yield Returned, {}


def is_huge(example: Example) -> bool:
    """Whether sums may leave 64 bits, which is an error of the whole stream."""
    return bool(example.query.aggregates) and any(abs(row["x"] or 0) >= HUGE // 5 for row in example.events)


# --- rules ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Term:
    """From the end of one step to the end of another, a version of a query is in force."""

    name: str
    version: int
    begin: int = -1
    end: int | None = None


class Rulebook:
    """Rules that change at random steps: queries are added, replaced, removed and brought back."""

    def __init__(self, names: Sequence[str], rng: Random) -> None:
        self._rng = rng
        self._versions = dict.fromkeys(names, 1)
        self._running = {name: Term(name, 1) for name in names if chance(rng, 0.6)}
        self._number = 0
        self._wrong: list[str] = []
        self.first = tuple(self._running)
        self.terms: list[Term] = []
        self.problems: dict[int, list[str]] = {}
        """By step what is wrong that was not before."""

    def applied(self, steps: Sequence[Step]) -> Iterator[Step]:
        """The steps with the rules of each; some say again what holds."""
        text: str | None = None
        for number, step in enumerate(steps):
            if chance(self._rng, 0.3):
                text = self._changed(number)
                yield replace(step, rules=text)
            else:
                yield replace(step, rules=text if chance(self._rng, 0.2) else None)
        self.terms += self._running.values()

    def _changed(self, number: int) -> str:
        for name in self._rng.sample(list(self._versions), min(len(self._versions), self._rng.choice((1, 1, 2, 3)))):
            term = self._running.pop(name, None)
            if term is not None:
                self.terms.append(replace(term, end=number))
            if chance(self._rng, 0.5):
                self._versions[name] += 1
            if term is None or chance(self._rng, 0.5):
                self._versions[name] += term is not None and self._versions[name] == term.version
                self._running[name] = Term(name, self._versions[name], number)
        self._number += 1
        problems = [f"no. {place}" for place in range(2) if chance(self._rng, 0.3)]
        self.problems[number] = [text for text in problems if text not in self._wrong]
        self._wrong = problems
        running = [[term.name, term.version] for term in self._running.values()]
        return json.dumps({"number": self._number, "running": running, "problems": problems})


# --- comparing --------------------------------------------------------------------------------------------------------


class Stream:
    """An example as a stream, and what left it."""

    def __init__(self, given: StreamExample, rng: Random, seen: Counter[str], *, ties: str | None = None) -> None:
        """With `ties` no event is late or made by others, and all queries see all events."""
        self._rng, self._seen = rng, seen
        self.questions = questions_of(given, rng, ties=ties or "error")
        first = given.examples[0]
        self._table, self._schema = sase_pairs.numbered(first), first.event_schema()
        self._ts = time_values(self._table.column("ts").combine_chunks(), self._schema.time_unit)
        self._multi = rng.choice((None, *2 * (MultiOptions(search="none"), workload_pairs.random_plan(rng))))
        span = int(self._ts.max() - self._ts.min()) if self._ts.size else 0
        plain = ties is not None
        self._lag = rng.choice((1, span // 3 + 1, 2 * span + 1)) if not plain and chance(rng, 0.25) else 0
        windows = sorted({item.window for item in self.questions.values() if item.window is not None})
        steps = list(schedule(self._ts, rng, windows=windows, lag=self._lag, keeps_ties=ties == "arrival"))
        self._late: dict[int, int] = {}
        if not plain and chance(rng, 0.3):
            steps, self._late = with_late(steps, self._ts, rng)
        self._rules = Rulebook(list(self.questions), rng) if not plain and chance(rng, 0.3) else None
        self._terms = [Term(name, 1) for name in self.questions]
        if self._rules is not None:
            steps = list(self._rules.applied(steps))
            self._terms = self._rules.terms
        self._steps = steps
        self._watermarks = [None if step.watermark is None else step.watermark - self._lag for step in steps]
        self._drive = self._made_drive()

    def _made_drive(self) -> Drive:
        rng, rules = self._rng, self._rules
        queries = self._queries([(name, 1) for name in (self.questions if rules is None else rules.first)])
        whole = bucket_plan(self._queries([(name, 1) for name in self.questions]), self._table.schema, self._schema)
        further: dict[str, Any] = {"lag": self._lag, "delivers_late": chance(rng, 0.9)}
        if rules is not None:
            further["compile"] = self._compiled
        plan = replace(whole, queries=queries, **further)
        few = rng.choice((FEW_MERGED, FEW_MERGED, FEW_MERGED, 4))
        way = Way(rng, *rng.choice(((0.3, 0.2), (0.0, 0.0), (1.0, 0.0))), timers=chance(rng, 0.4), few=few)
        return Drive(plan, self._table, way, self._count)

    def _count(self, feature: str) -> None:
        self._seen[feature] += 1

    def _queries(self, running: Sequence[tuple[str, int]]) -> QuerySet:
        return QuerySet(tuple(self.questions[name].asked(version) for name, version in running), self._multi)

    def _compiled(self, text: str) -> Compiled:
        described = json.loads(text)
        return Compiled(self._queries(described["running"]), tuple(("wrong", 7, problem) for problem in described["problems"]))

    def run(self) -> list[str]:
        """What differs."""
        self._see()
        left = self._drive.run(self._steps)
        report = self._late_differences([(step, item) for step, item in left if item.kind == LATE])
        report += self._problem_differences([(step, item) for step, item in left if item.kind == PROBLEM])
        found = self._by_term((step, item) for step, item in left if item.kind == MATCHES)
        for term in self._terms:
            report += [f"{self._shown(term)}: {line}" for line in self._term_differences(term, found.pop(term, []))]
        report += [f"{name}: rows of a version that is not in force" for name in found]
        report += self._left_behind()
        return report and [*report, self._told()]

    def _by_term(self, items: Iterator[tuple[int, Labelled]]) -> dict[Any, list[tuple[int, Labelled]]]:
        found: dict[Any, list[tuple[int, Labelled]]] = {}
        for step, item in items:
            terms = [term for term in self._terms if (term.name, term.version) == (item.query, item.version)]
            inside = [term for term in terms if term.begin < step and (term.end is None or step <= term.end)]
            found.setdefault(inside[0] if inside else (item.query, item.version, step), []).append((step, item))
        return found

    def _term_differences(self, term: Term, items: Sequence[tuple[int, Labelled]]) -> list[str]:
        question = self.questions[term.name]
        since = self._watermarks[term.begin] if term.begin >= 0 else None
        until = None
        if term.end is not None:
            until = NEVER if self._watermarks[term.end] is None else self._watermarks[term.end]
        rows = [r for r, at in enumerate(self._ts.tolist()) if r not in self._late and (since is None or at >= since)]
        read = [(step, question.read(item.rows)) for step, item in items]
        self._seen[question.kind] += bool(read)
        self._seen["rows"] += sum(table.num_rows for _, table in read)
        report = [line for step, table in read for line in self._times_differences(question, step, table)]
        return report + question.differences(rows, until, pa.concat_tables([table for _, table in read]) if read else None)

    def _times_differences(self, question: Question, step: int, rows: pa.Table) -> Iterator[str]:
        """Rows leave in the first micro-batch whose watermark has passed their time, or is at it where that is enough."""
        times = question.times(rows)
        before, now = self._watermarks[step - 1] if step else None, self._watermarks[step]
        if not question.is_certain(times, now).all():
            yield f"at watermark {now} there are rows of {times.max()}"
        if before is not None and (times < before).any():
            yield f"at watermark {now}, after {before}, there are rows of {times.min()}"

    def _late_differences(self, items: Sequence[tuple[int, Labelled]]) -> list[str]:
        found = Counter((row, step) for step, item in items for row in item.rows.column(ROW).to_pylist())
        wanted = Counter(self._late.items() if self._drive.plan.delivers_late else ())
        return [] if found == wanted else [f"late events {found}, expected {wanted}"]

    def _problem_differences(self, items: Sequence[tuple[int, Labelled]]) -> list[str]:
        found = Counter(
            (step, item.query, item.version, text) for step, item in items for text in item.rows.column("problem").to_pylist()
        )
        told = self._rules.problems if self._rules is not None and self._drive.plan.delivers_late else {}
        wanted = Counter((step, "wrong", 7, text) for step, texts in told.items() for text in texts)
        return [] if found == wanted else [f"problems {found}, expected {wanted}"]

    def _left_behind(self) -> list[str]:
        """Where all windows have passed, no event is kept."""
        running = [self.questions[term.name] for term in self._terms if term.end is None]
        windowed = all(item.window is not None for item in running)
        self._seen["all windows passed"] += windowed
        kept = len(self._drive.store.segments)
        return [f"{kept} segments are kept after all windows have passed"] if windowed and kept else []

    # For the report

    def _see(self) -> None:
        self._seen.update(
            feature
            for feature, there in (
                ("late events", bool(self._late)),
                ("a lag", self._lag > 0),
                ("timers", self._drive.way.timers),
                ("rules", self._rules is not None),
                ("together", self._multi is not None and len(self.questions) > 1),
                ("waiting for the window", any(item.postponed for item in self.questions.values())),
            )
            if there
        )
        self._seen["terms"] += len(self._terms)
        self._seen["terms from a watermark on"] += sum(
            term.begin >= 0 and self._watermarks[term.begin] is not None for term in self._terms
        )
        self._seen["terms that end"] += sum(term.end is not None for term in self._terms)

    def _shown(self, term: Term) -> str:
        return f"{term} by {type(self.questions[term.name].plan).__name__}"

    def _told(self) -> str:
        lines = [f"lag {self._lag}, late {self._late}, {self._drive.way}, {self._multi}", *map(str, self._steps)]
        return "\n    ".join(lines)


def check_example(given: StreamExample, number: int, rng: Random, report: Report) -> list[str]:
    """Checks an example as a stream; where order matters, some with ties too."""
    if any(map(is_huge, given.examples)):
        report.seen["huge"] += 1
        return []
    report.seen[given.kind] += 1
    stream = Stream(given, rng, report.seen)
    report.seen["refused"] += not stream.questions
    found = stream.run()
    report.matches = report.seen["rows"]
    if number % 5 < 2 and any(needs_total_order(item.query) for item in given.examples):
        found += check_ties(given, rng, report.seen)
    return found


def check_ties(given: StreamExample, rng: Random, seen: Counter[str]) -> list[str]:
    """How the answer to events that tie differs from the oracle's, which may be an error."""
    ties = rng.choice(("error", "arrival"))
    events = nfa_pairs.tied(given.examples[0], rng).events
    changed = replace(given, examples=tuple(replace(item, events=events) for item in given.examples))
    stream = Stream(changed, rng, seen, ties=ties)
    refused = any(question.is_refused() for question in stream.questions.values())
    seen.update(("ties", f"ties={ties} {'refused' if refused else 'answered'}"))
    try:
        found = stream.run() if not refused else [*stream.run(), "a tie is not refused"]
    except DataError as error:
        found = [] if refused and "tie at timestamp" in str(error) else [str(error)]
    return found and [f"ties={ties}", *found, describe(changed)]


def describe(given: StreamExample) -> str:
    if given.kind.startswith("aggregate"):
        return aggregate_pairs.describe(*given.examples)  # type: ignore[arg-type]
    return workload_pairs.describe(workload_pairs.MatchWorkload(given.examples))


# --- sabotage: a test of the tests ------------------------------------------------------------------------------------

SABOTAGE: dict[str, Callable[[], None]] = {
    # Timers that are not set, or an instant late.
    "no-timer": rewritten(WorkingMatcher, "due", "min(found, default=None)", "None"),
    "late-timer": rewritten(WorkingMatcher, "due", "+ window + 1", "+ window + 2"),
    "nothing-waits": rewritten(Bucket, "_due", "for table in self._waiting", "for table in ()"),
    # What is kept for too short a time, or too long.
    "short-memory": sase_pairs.SABOTAGE["short-memory"],
    "short-log": rewritten(EventLog, "prune", "segment.last > horizon", "segment.last > horizon + 1"),
    "quiet-log": rewritten(Bucket, "_due", "if self._log.last is not None:", "if False:"),
    "long-lives": rewritten(LivePass, "unexpired", "if window is None", "if True"),
    "many-segments": rewritten(EventLog, "_write", "segments[-1].rows <= 2 * events.num_rows and", "False and"),
    # What a restart forgets: the marks of NON-OVERLAP, what is alive, counters, and how far things have been reported.
    "forgotten-marks": rewritten(WorkingMatcher, "restore", 'self._marks(state) if "masks" in state else None', "None"),
    "forgotten-cells": rewritten(Cells, "of", "if not columns:", "if True:"),
    "forgotten-lives": rewritten(Lives, "of", "if not columns:", "if True:"),
    "forgotten-counters": rewritten(Carried, "of", 'if "cells" not in state:', "if True:"),
    "forgotten-pieces": rewritten(Pieces, "of", "if NUMBERS not in state:", "if True:"),
    "reported-again": rewritten(ReportingMatcher, "_resume", "self._reported = watermark", "self._reported = None"),
    "shared-again": rewritten(SharedMatcher, "_resume", "self._reported = watermark", "self._reported = None"),
    "counted-again": rewritten(CounterMatcher, "_resume", "self._written = watermark", "self._written = -EVER"),
    "one-more-event": rewritten(Bucket, "_started", 'horizon, side="right"', 'horizon, side="left"'),
    # Events at the watermark are there already, or late; rows of expiry do not wait for the events of their instant.
    "early-release": rewritten(Bucket, "_release", "(waiting), watermark)", '(waiting), watermark, side="right")'),
    "early-lateness": rewritten(Bucket, "_sorted_out", "(events), watermark)", '(events), watermark, side="right")'),
    "early-expiry": rewritten(MatchAggregator, "advance", "watermark - 1", "watermark"),
    "late-events-fed": rewritten(Bucket, "_sorted_out", "[events.slice(late)]", "[events]"),
    "late-events-lost": rewritten(Bucket, "process", "if late is not None and", "if False and"),
    "no-lag": rewritten(Bucket, "process", "watermark -= self._plan.lag", "pass"),
    # The order of arrival counts.
    "arrival-order": rewritten(
        Bucket,
        "_release",
        "self._log.ordered(self._waiting)",
        "pa.concat_tables(self._waiting)",
    ),
    # Queries that came later are matched together with those that were there; queries that stay begin anew, or under the
    # name of another version.
    "one-cohort": rewritten(Bucket, "_run", "in known else self.header.watermark for", "in known else None for"),
    "fresh-start": rewritten(Bucket, "_change", "units=self._states()", "units=()"),
    "first-version": rewritten(Bucket, "_shaped", "query.name, query.version,", "query.name, 1,"),
}

SUITE = Suite(stream_example, check_example, describe, SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE)
