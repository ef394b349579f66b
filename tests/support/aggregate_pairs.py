"""Random (AGG query, stream) pairs: counters with every method for windows, and matching first, against the oracle.

Each pair is answered by one plan or by all of them, on the whole stream or in random cuts, orders of delivery, encodings,
`run_rows` and `block`. Rows must be the oracle's in order of time, those of one instant and group in stream order: floats but
for rounding (relative to the sum of the absolute values that were added up), everything else exactly. Sums beyond 64 bits must
be refused. Some pairs run again with events that tie, which must be refused where the oracle refuses them. Workloads of queries
with parts in common must give each query its own rows, however much is shared.

As a script: `KLEENE_KERNELS=python python tests/support/aggregate_pairs.py SEED COUNT [--workloads]`, see `support.pair_runs`.
`--workloads` runs workloads instead of pairs.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

import kleene
from kleene.common.errors import DataError, PlanningError
from kleene.common.schema import schema_of_arrow
from kleene.engine.aggregation import kernels as live
from kleene.engine.build import build_matcher
from kleene.engine.counting import counters, pairs
from kleene.engine.counting import program as count_program
from kleene.engine.counting.kernels import counting, marking, totals
from kleene.engine.counting.kernels import pairs as pair_kernels
from kleene.interfaces.query import Query
from kleene.language.printer import to_text
from kleene.pattern.bind import bind
from kleene.pattern.operators import Disjunction, Pattern
from kleene.pattern.operators import events as components
from kleene.pattern.policies import LogicalQuery, MatchAggregate, Output, Strategy, Unit
from kleene.pattern.predicates import Comparison, Equivalence, conjuncts, variables
from kleene.plan.counting import shared_counters
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.optimizer import make_plan
from kleene.plan.options import CHOICES
from kleene.runtime.embedded import in_stream_order, rows_of
from kleene.testing import oracle
from kleene.testing.functions import plain
from support import sase_pairs
from support.nfa_pairs import call_options, tied
from support.pair_runs import Report, Suite, broken, main
from support.random_aggregate import (
    HUGE,
    AggregateExample,
    AggregateWorkload,
    aggregate_example,
    aggregate_workload,
)
from support.random_queries import chance
from support.sase_pairs import Setting

Row = dict[str, Any]
Plan = dict[str, Any] | None

PLANS: dict[str, Plan] = {
    "auto": None,
    "counters": {"mechanism": "counters"},
    **{value: {"mechanism": "counters", "window": value} for value in CHOICES["aggregate"]["window"] if value != "auto"},
    "matches": {"mechanism": "matches"},
}
COUNTED = tuple(name for name, plan in PLANS.items() if plan is not None and plan["mechanism"] == "counters")
SHARING = CHOICES["aggregate"]["sharing"]

SLACK = 1e-12
"""How far a float may be off, relative to the sum of the absolute values behind it."""


# --- what is wanted ---------------------------------------------------------------------------------------------------


def _slack_name(item: MatchAggregate) -> str:
    return f"slack of {item.alias}"


def _with_slack(example: AggregateExample) -> AggregateExample:
    """The example with a sum of absolute values for each sum that is inexact."""
    found = []
    for item in example.query.aggregates:
        if item.function in ("sum", "avg") and item.attribute == "z":
            found.append(MatchAggregate("sum", item.variable, f"{item.attribute}a", _slack_name(item)))
    return replace(example, query=replace(example.query, aggregates=(*example.query.aggregates, *found)))


class Pair:
    """An example, bound once and as a table, with the oracle's answer."""

    def __init__(self, example: AggregateExample) -> None:
        self.example = example
        self.table = example.table()
        self.schema = schema_of_arrow(self.table.schema, **example.schema_kwargs)
        self.bound = bind(example.query, self.schema)
        wider = _with_slack(example)
        bound = self.bound if wider.query == example.query else bind(wider.query, self.schema)
        self.overflows = False
        """Whether some sum does not fit 64 bits, so that it must be refused."""
        try:
            self.wanted = wanted_rows(example.query, oracle.aggregates(bound, example.events))
        except DataError:
            self.wanted, self.overflows = [], True
        self._plans: dict[str, Any] = {}

    @property
    def sums(self) -> list[MatchAggregate]:
        return [item for item in self.example.query.aggregates if item.function in ("sum", "avg") and item.attribute == "x"]

    @property
    def may_overflow(self) -> bool:
        """Whether parts of a sum may not fit, so that it may be refused where parts are all that is kept."""
        large = any(row["x"] is not None and abs(row["x"]) >= HUGE // 5 for row in self.example.events)
        return self.overflows or (large and bool(self.sums))

    def may_refuse(self, plan: Any, setting: Setting) -> bool:
        """Whether an error is no surprise: without a window counters that are carried on keep parts of sums, and no codes for
        the ends of 64 bits.
        """
        carried = isinstance(plan, CounterPlan) and plan.bound.window is None and setting.run_rows < len(self.example.events)
        at_the_end = any(row["x"] in (-(2**63), 2**63 - 1) for row in self.example.events)
        return self.overflows or (carried and (self.may_overflow or at_the_end))

    @property
    def in_total_order(self) -> bool:
        """Whether rows come in one order only: no two events tie, and no row is of expiry."""
        order = [(row["ts"], *(row[name] for name in self.schema.order_by)) for row in self.example.events]
        return len(set(order)) == len(order) and not self.example.query.emit_on_change

    def plan(self, name: str) -> Any:
        """The plan; None if the planner says that it does not support the query yet, or that counters cannot answer it."""
        if name not in self._plans:
            self._plans[name] = self._make_plan(name)
        return self._plans[name]

    def _make_plan(self, name: str) -> Any:
        try:
            return make_plan(self.bound, PLANS[name])
        except PlanningError as error:
            pushed = name in COUNTED and "cannot be pushed down" in str(error)
            if not pushed and not str(error).startswith("not supported yet: "):
                raise
            return None

    def answer(self, name: str, setting: Setting) -> pa.Table:
        """The engine's rows."""
        table = self.table
        if setting.dictionaries:
            for column in ("s", "type"):
                table = table.set_column(table.column_names.index(column), column, table.column(column).dictionary_encode())
        matcher = build_matcher(self.plan(name), table.schema, run_rows=setting.run_rows, block=setting.block)
        if setting.shuffle:
            order = list(range(table.num_rows))
            Random(setting.seed).shuffle(order)
            table = table.take(pa.array(order, pa.int64()))
        ordered = in_stream_order(table, self.schema).combine_chunks()
        with patch.multiple(pairs, FEWEST=1 + setting.seed % 8, STRETCH=1):  # blocks as short as they may be
            found = [rows for batch in setting.batches(ordered) for _, rows in matcher.feed(batch)]
            found += rows_of(matcher.finish())
        assert matcher.metrics.events == table.num_rows
        return pa.Table.from_batches(found, matcher.output_schemas[0])


def wanted_rows(query: LogicalQuery, rows: Sequence[oracle.AggregateRow]) -> list[Row]:
    """The oracle's rows as an engine gives them."""
    return [{**dict(zip(query.group_by, row.group, strict=True)), "at": row.at, **row.values} for row in rows]


# --- comparing --------------------------------------------------------------------------------------------------------


def type_differences(query: LogicalQuery, events: pa.Schema, found: pa.Schema) -> list[str]:
    """How the columns of an answer differ from what AGG promises."""
    wanted = {"query": pa.string(), **{name: events.field(name).type for name in query.group_by}}
    names = [*wanted, "at", *(item.alias for item in query.aggregates)]
    for item in query.aggregates:
        own = pa.int64() if item.attribute is None else events.field(item.attribute).type
        wanted[item.alias] = pa.float64() if item.function == "avg" else own
    report = [] if found.names == names else [f"columns {found.names}, expected {names}"]
    return report + [f"{name} is {found.field(name).type}" for name, kind in wanted.items() if found.field(name).type != kind]


def differences(query: LogicalQuery, wanted: Sequence[Row], found: Sequence[Row], in_total_order: bool) -> list[str]:
    """How rows differ from the oracle's: in time, or in those of one instant and group, which are in stream order."""
    times = [_plain(row["at"]) for row in found]
    report = [] if times == sorted(times) else [f"rows are not in order of time: {times}"]
    chunks, own = _chunks(query, wanted), _chunks(query, found)
    if in_total_order and not report and list(map(_place(query), wanted)) != list(map(_place(query), found)):
        report.append("rows are not in stream order, or others")
    for place in sorted({*chunks, *own}, key=repr):
        left, right = chunks.get(place, []), own.get(place, [])
        if len(left) != len(right) or any(not _same(query, one, two) for one, two in zip(left, right, strict=True)):
            shown = [{item.alias: row[item.alias] for item in query.aggregates} for row in left]
            report.append(f"at {place}: expected {shown}, found {[_values(query, row) for row in right]}")
    return report[:6]


def _plain(value: Any) -> Any:
    """A value as the oracle has it: timestamps in nanoseconds come as those of pandas."""
    found = plain(value)
    return found.to_pydatetime(warn=False) if hasattr(found, "to_pydatetime") else found


def _place(query: LogicalQuery) -> Callable[[Row], tuple[str, ...]]:
    return lambda row: (str(_plain(row["at"])), *(str(_plain(row[name])) for name in query.group_by))


def _chunks(query: LogicalQuery, rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(_place(query)(row), []).append(row)
    return found


def _values(query: LogicalQuery, row: Row) -> Row:
    return {item.alias: row[item.alias] for item in query.aggregates}


def _same(query: LogicalQuery, wanted: Row, found: Row) -> bool:
    return all(
        _same_value(_plain(wanted[item.alias]), _plain(found[item.alias]), wanted.get(_slack_name(item)))
        for item in query.aggregates
    )


def _same_value(wanted: Any, found: Any, slack: float | None) -> bool:
    if not isinstance(wanted, float) or not isinstance(found, float):
        return type(wanted) is type(found) and bool(wanted == found)
    if not math.isfinite(wanted) or not math.isfinite(found):
        return bool(wanted == found or (math.isnan(wanted) and math.isnan(found)))
    return bool(abs(wanted - found) <= SLACK * max(abs(wanted), slack or 0))


# --- settings ---------------------------------------------------------------------------------------------------------


def random_setting(rng: Random) -> Setting:
    """The whole stream or random cuts."""
    cut = asdict(sase_pairs.random_setting(rng)) if chance(rng, 0.5) else {}
    return Setting(**{**cut, "options": sase_pairs.DEFAULT})


def settings_of(rng: Random, number: int) -> list[tuple[str, Setting]]:
    """A plan, or for some numbers every one."""
    names = list(PLANS) if number % 10 == 0 else [rng.choice(list(PLANS))]
    return [(name, random_setting(rng)) for name in names]


def shown(name: str, setting: Setting) -> str:
    given = {field: value for field, value in asdict(setting).items() if field != "options"}
    return f"plan {name}, {given}"


def check(pair: Pair, settings: Sequence[tuple[str, Setting]], seen: Counter[str]) -> list[str]:
    """How the engine's answers differ from the oracle's; empty if they do not."""
    report: list[str] = []
    for name, setting in settings:
        plan = pair.plan(name)
        if plan is None:
            seen["not counted" if name in COUNTED else "refused"] += 1
            continue
        seen.update((f"plan: {name}", f"answered by {type(plan).__name__}", *setting_features(setting)))
        try:
            found = pair.answer(name, setting)
        except DataError as error:
            seen["overflow"] += 1
            if not pair.may_refuse(plan, setting) or "64 bits" not in str(error):
                report.append(f"{shown(name, setting)}: {error}")
            continue
        own = differences(pair.example.query, pair.wanted, found.to_pylist(), pair.in_total_order)
        if pair.overflows:
            own.append("a sum beyond 64 bits is not refused")
        own += type_differences(pair.example.query, pair.table.schema, found.schema)
        report += [f"{shown(name, setting)}: {line}" for line in own]
    return report


def check_ties(example: AggregateExample, rng: Random, seen: Counter[str]) -> list[str]:
    """How the engine's answer to events that tie differs from the oracle's, which may be an error."""
    ties: Any = rng.choice(("error", "error", "arrival"))
    changed = tied(example, rng)
    query = changed.query
    try:
        wanted = wanted_rows(query, oracle.aggregates(changed.bound(), changed.events, ties=ties))
    except DataError:
        wanted = None
    seen[f"ties={ties} {'refused' if wanted is None else 'answered'}"] += 1
    try:
        found = Query(query).match(changed.table(), **call_options(changed), ties=ties).to_pylist()
    except DataError as error:
        return [] if wanted is None and "tie at timestamp" in str(error) else [f"ties={ties}: {error}", describe(changed)]
    if wanted is None:
        return [f"ties={ties}: a tie is not refused", describe(changed)]
    report = differences(query, wanted, found, in_total_order=False)
    return report and [f"ties={ties}", *report, describe(changed)]


def needs_total_order(query: LogicalQuery) -> bool:
    counted = query.within is not None and query.within.unit is Unit.EVENTS
    return counted or query.strategy is not Strategy.SKIP_TILL_ANY_MATCH or query.output is not Output.ALL


# --- workloads --------------------------------------------------------------------------------------------------------


def check_workload(given: AggregateWorkload, rng: Random, seen: Counter[str]) -> list[str]:
    """How the rows of queries that run together differ from those of each alone, by the oracle."""
    pairs = {f"q{number}": Pair(example) for number, example in enumerate(given.examples)}
    work = kleene.workload({name: Query(pair.example.query) for name, pair in pairs.items()})
    counted = all(pair.plan("counters") is not None for pair in pairs.values())
    first = given.examples[0]
    report: list[str] = []
    for sharing in SHARING:
        plan: dict[str, Any] = {"sharing": sharing, "window": rng.choice(CHOICES["aggregate"]["window"])}
        if counted and chance(rng, 0.5):
            plan["mechanism"] = "counters"
        seen.update((f"sharing={sharing}", f"window={plan['window']}"))
        tables = work.match(first.table(), **call_options(first), plan=plan)
        for name, pair in pairs.items():
            own = differences(pair.example.query, pair.wanted, tables[name].to_pylist(), pair.in_total_order)
            own += type_differences(pair.example.query, pair.table.schema, tables[name].schema)
            report += [f"{plan}, {name}: {line}" for line in own]
    seen["workloads counted"] += counted
    seen[f"{len(pairs)} queries"] += 1
    seen["queries with values"] += sum(has_values(pair) for pair in pairs.values())
    return report


# --- what was seen ----------------------------------------------------------------------------------------------------


def has_values(pair: Pair) -> bool:
    """Whether some row is over some match."""
    items = pair.example.query.aggregates
    return any(row[item.alias] not in (None, 0) for row in pair.wanted for item in items)


def features(pair: Pair) -> Iterator[str]:
    """What a pair has, for the report."""
    example, query = pair.example, pair.example.query
    parts = list(components(query.pattern))
    if pair.wanted:
        yield "with rows"
    if has_values(pair):
        yield "with values"
    if any(row.get("count", 0) > 1 for row in pair.wanted):
        yield "with counts above one"
    if {str(_plain(row["at"])) for row in pair.wanted} - {str(_plain(row["ts"])) for row in example.events}:
        yield "with rows of expiry"
    yield f"{sum(not part.negated for part in parts)} components"
    yield from _clauses(query)
    yield from _events(example)
    yield from {feature for branch in pair.bound.branches for feature in _negation(branch)}
    if any(len(part.types) > 1 for part in parts):
        yield "with ANY"
    if len({part.types for part in parts if not part.negated}) < sum(not part.negated for part in parts):
        yield "a type at several places"
    if any(part.quantifier is not None and part.quantifier.low == 0 for part in parts):
        yield "optional"
    if _has_choice(query.pattern):
        yield "OR"
    tests = [item for item in conjuncts(query.where) if isinstance(item, Equivalence)]
    if tests:
        yield "[attr]"
    if {test.name for test in tests} - set(query.group_by):
        yield "partitions added up"
    equalities = [item for item in conjuncts(query.where) if isinstance(item, Comparison) and len(variables(item)) == 2]
    if equalities:
        yield "conditions between events"
    if any(len(variables(item)) == 1 for item in conjuncts(query.where)):
        yield "conditions on one event"


def _clauses(query: LogicalQuery) -> Iterator[str]:
    for item in query.aggregates:
        yield f"{item.function.upper()}({item.attribute or ''})"
    yield f"{min(len(query.aggregates), 3)} aggregates"
    yield f"GROUP BY {len(query.group_by)}"
    if query.having is not None:
        yield "HAVING"
    if query.emit_on_change:
        yield "EMIT ON CHANGE"
    if query.within is None:
        yield "without a window"
    elif query.within.unit is Unit.EVENTS:
        yield "count window"
    if query.output is not Output.ALL:
        yield "NON-OVERLAP"
    yield query.strategy.value
    if any(part.is_kleene for part in components(query.pattern)):
        yield "Kleene"


def _events(example: AggregateExample) -> Iterator[str]:
    times = [row["ts"] for row in example.events]
    if len(set(times)) < len(times):
        yield "with ties"
    if example.schema_kwargs.get("order_by"):
        yield "with order_by"
    if example.schema_kwargs["types"] is not None:
        yield "declared schema"
    yield f"time: {example.time_type}"
    if any(row[name] is None for row in example.events for name in ("x", "y", "z", "s", "t")):
        yield "with NULLs"
    if any(isinstance(row["z"], float) and not math.isfinite(row["z"]) for row in example.events):
        yield "NaN or infinity"


def _negation(branch: Any) -> Iterator[str]:
    gaps = Counter(max(negative.after, default=-1) for negative in branch.negatives if not negative.anywhere)
    for gap, count in gaps.items():
        yield "negated start" if gap < 0 else "negated end" if gap == len(branch.positives) - 1 else "negated middle"
        if count > 1:
            yield "several negative components in a gap"
    if not branch.is_sequence:
        yield "AND"


def _has_choice(pattern: Pattern) -> bool:
    return isinstance(pattern, Disjunction) or any(map(_has_choice, getattr(pattern, "parts", ())))


def setting_features(setting: Setting) -> Iterator[str]:
    yield from (f"{name}={getattr(setting, name)}" for name in ("batch_rows", "run_rows", "block"))
    if setting.dictionaries:
        yield "dictionaries"
    if setting.shuffle:
        yield "shuffled"


def describe(*examples: AggregateExample) -> str:
    """Queries over the same events, with the columns that they read."""
    first, texts = examples[0], [to_text(example.query) for example in examples]
    words = set(re.findall(r"\w+", "\n".join(texts))) | {"ts", "type", *first.schema_kwargs.get("order_by", ())}
    events = [str({name: value for name, value in row.items() if name in words}) for row in first.events]
    return "\n    ".join((*texts, f"time: {first.time_type}, {dict(first.schema_kwargs)}", *events))


def check_example(example: AggregateExample, number: int, rng: Random, report: Report) -> list[str]:
    """Checks an example by one plan or by all of them, some examples with ties too."""
    pair = Pair(example)
    report.matches += len(pair.wanted)
    report.seen.update(features(pair))
    plan = pair.plan("auto")
    report.seen["counted"] += isinstance(plan, CounterPlan)
    if isinstance(plan, CounterPlan) and plan.compared is not None:
        report.seen.update(("a comparison counted", f"a comparison counted: {len(plan.paths[0])} components", *_compared(plan)))
    found = check(pair, settings_of(rng, number), report.seen)
    if number % 4 == 0 and needs_total_order(example.query) and pair.plan("auto") is not None:
        found += check_ties(example, rng, report.seen)
    return found


def _compared(plan: CounterPlan) -> Iterator[str]:
    """What a plan that counts pairs has."""
    assert plan.compared is not None
    yield f"counted by {plan.compared.operator}"
    if plan.paths[0][plan.compared.place].negatives:
        yield "a comparison counted: negation"
    if plan.partition:
        yield "a comparison counted: partitions"
    if plan.window is None:
        yield "a comparison counted: no window"
    if len(plan.bound.query.aggregates) > 1:
        yield "a comparison counted: values"


def check_queries(given: AggregateWorkload, _number: int, rng: Random, report: Report) -> list[str]:
    """Checks a workload."""
    report.matches += len(given.examples)
    return check_workload(given, rng, report.seen)


# --- sabotage: a test of the tests ------------------------------------------------------------------------------------


RATIO = 9
"""An operation that no engine has: the sum of a shorter segment, times the ratio of the counts."""


def _ratio_sums() -> None:
    """Without a window, SUM by the ratio of counts that A-Seq section 5 sketches, instead of one sum for each prefix."""
    given = "self._on_last(of, (passed, cell, self.carried(rest, place, slot), slot.weight))"
    counts = "self.count(of) << 32 | self.count(rest)"
    kind = f"{RATIO} if slot.kind == k.TOTAL and not self._windowed else passed"
    wrong = f"self._on_last(of, ({kind}, cell, self.carried(rest, place, slot), {counts}))"
    broken(count_program.Cells, "carried", given, wrong)()
    last = "else:\n            cells[target] = NONE"
    ratio = "cells[source] * cells[table[k, 3] >> 32] // max(cells[table[k, 3] & 0xFFFFFFFF], 1)"
    broken(counting, "operate", last, f"elif kind == {RATIO}:\n            cells[target] = {ratio}\n        {last}")()


LEVELS = "for level in range(levels):\n        for place in range(first, last):"
EVENTS = "for place in range(first, last):\n        for level in range(levels):"

SABOTAGE: dict[str, Callable[[], None]] = {
    "wider-window": sase_pairs.SABOTAGE["wider-window"],
    "short-memory": sase_pairs.SABOTAGE["short-memory"],
    "ratio-sums": _ratio_sums,
    # A start event is let go of one instant late: from the front, or when the back is turned over.
    "late-expiry": broken(counting, "settle", "front.ts[oldest] <= limit", "front.ts[oldest] < limit"),
    "late-turn": broken(counting, "settle", "ts[first] > limit", "ts[first] >= limit"),
    # Simultaneous events extend one another; an event extends what it has just made itself.
    "arrival-order": broken(counting, "take_in", LEVELS, EVENTS),
    "self-extension": broken(count_program.Cells, "operations", "2 * (longest - length) + adds", "2 * length + adds"),
    # A negative event does not clear what waits for the next position, or clears what simultaneous events have just added.
    "no-reset": broken(counting, "operate", "cells[target] = 0", "pass"),
    "no-float-reset": broken(counting, "operate", "floats[target] = 0.0", "pass"),
    "late-reset": broken(count_program.Cells, "operations", "length) + adds", "length) + 1 - adds"),
    "wrapping-sums": broken(counting, "plus", "return CAP", "return left + right"),
    # A value is taken over where no match has it.
    "empty-values": broken(
        counting,
        "operate",
        "if cells[source] != 0:\n                cells[target] = max",
        "if True:\n                cells[target] = max",
    ),
    # The same for start events that are marked.
    "late-drop": broken(marking, "drop", "heads[ring]] <= limit", "heads[ring]] < limit"),
    "no-marked-reset": broken(marking, "run_over", "cells[target, s] = 0", "pass"),
    # Of pairs that are compared, a start event is let go of late, waits on behind a forbidden event, forgets earlier blocks.
    "late-pairs": broken(
        pair_kernels, "count_pairs", "due) and head < place and ts[head] <=", "due) and head < place and ts[head] <"
    ),
    "open-pairs": broken(pair_kernels, "count_pairs", "if forbidden:", "if False:"),
    "forgotten-pairs": broken(pair_kernels, "turn_to", "trees.kept[place] +=", "trees.kept[place] += 0 *"),
    # What a partition counted before stays in the total of its group.
    "stale-partitions": broken(totals, "put", " - into.current[slot, partition]", ""),
    # Expiry comes after the triggers of the same instant; its row stands beside theirs; simultaneous triggers come one by one.
    "late-totals": broken(totals, "add_up", "if due <= now:", "if due < now:"),
    "double-rows": broken(totals, "add_up", "if marks.triggered[group] != due:", "if True:"),
    "single-triggers": broken(totals, "add_up", " and stream.rank[triggers.rows[last]] == ", " and last == trigger or 0 > "),
    # Rows of an instant are written before all of its events have come.
    "hasty-rows": broken(counters.CounterMatcher, "_run", 'side="left"', 'side="right"'),
    # Of matches that are built: one that ends with the trigger is not yet there; half of those that are alive are overlooked.
    "late-birth": broken(live, "add_alive", "[born]] <= until[q]", "[born]] < until[q]"),
    "half-alive": broken(live, "_add_range", "if high & 1:", "if False:"),
}

WORKLOAD_SABOTAGE: dict[str, Callable[[], None]] = {
    # Queries with different windows are counted with the first one's.
    "one-window": broken(shared_counters, "together", "(bound.window, plan.partition", "(plan.partition"),
    # A snapshot counts for a start event that has expired, or not for the oldest one.
    "old-snapshots": broken(marking, "value_of", "alive(number, oldest, cell", "alive(number, max(oldest - 1, 0), cell"),
    "short-snapshots": broken(marking, "connect", "rings.heads[first] - 1, -1)", "rings.heads[first], -1)"),
    # Components with different conditions share a test.
    "one-test": broken(shared_counters, "_key", "frozenset(anonymous(item) for item in predicates)", "None"),
}


SUITE = Suite(aggregate_example, check_example, describe, SABOTAGE)
WORKLOADS = Suite(aggregate_workload, check_queries, lambda given: describe(*given.examples), WORKLOAD_SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE, workloads=WORKLOADS)
