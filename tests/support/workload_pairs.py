"""Random workloads: every query's matches by a shared plan, against the oracle and against the query alone.

Each workload is answered by the API, which leaves the plan open, and by shared plans of random kinds and searches, every tenth
by all of them: made by the API, for what is seen or for random statistics, once or anew in every pass; in random cuts, orders
of delivery, encodings, `run_rows` and `block`. The matches of every query must be the oracle's, their ids unique and those of
the query alone, its columns those of the query alone, RETURN values and rows of AGG the oracle's. Some workloads run again with
events that tie, which must be refused, naming the query, where the oracle refuses them.

As a script: `KLEENE_KERNELS=python python tests/support/workload_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

import kleene
from kleene.common.errors import DataError, PlanningError
from kleene.engine.audit import audit
from kleene.engine.events.working_set import WorkingSet
from kleene.engine.shared import completion as multitree_completion
from kleene.engine.shared import kernels
from kleene.engine.shared import planner as multitree_choice
from kleene.engine.shared import shared_pass as multitree_pass
from kleene.engine.shared.leaf_scan import LeafScan
from kleene.engine.shared.matcher import SharedMatcher
from kleene.engine.shared.planner import Planner
from kleene.interfaces.options import options_of
from kleene.interfaces.query import Query
from kleene.interfaces.workload.workload import Workload
from kleene.language.printer import to_text
from kleene.pattern.operators import Conjunction, Disjunction, Pattern
from kleene.pattern.operators import Sequence as Seq
from kleene.pattern.operators import events as components
from kleene.pattern.policies import LogicalQuery, Output, Strategy, Unit
from kleene.pattern.predicates import Arithmetic, Attribute, Comparison, Equivalence, conjuncts, variables, walk
from kleene.plan.multi import clauses, nodes
from kleene.plan.multi.cost import SharedStatistics, condition_key
from kleene.plan.multi.groups import PatternGroup, grouped
from kleene.plan.multi.nodes import SharedPlan
from kleene.plan.multi.search import CHOICES, MultiOptions, plan_shared
from kleene.plan.patterns import LazyPlan, is_lazy
from kleene.runtime.embedded import in_stream_order
from kleene.testing import oracle
from kleene.testing.case_routes import canonical
from support import aggregate_pairs, lazy_pairs, nfa_pairs, sase_pairs
from support.nfa_pairs import bare, call_options, tied
from support.pair_runs import Report, Suite, broken, main, rewritten
from support.random_queries import chance
from support.random_workloads import MatchWorkload, match_workload, needs_total_order
from support.sase_pairs import Setting
from support.strategies import Example

KINDS, SEARCHES = CHOICES["kind"], CHOICES["search"]
WAYS = tuple(product(KINDS, SEARCHES))
STEPS = (0, 3, 30, 100)
PLANNERS = ("api", "observed", "random", "turning", "adaptive")
"""Plans come from the API; are made once for what the first pass sees, or for random statistics; are others in every pass, by
chance or because what is seen has changed.
"""


@dataclass(frozen=True, slots=True)
class SharedSetting(Setting):
    """How a workload is run; none of it may change the answer."""

    plan: MultiOptions | None = None
    """None leaves it to the API."""
    planner: str = "api"
    """Who makes plans: see PLANNERS."""
    tables: bool = True
    """Whether scopes are looked up in tables."""
    room: int = multitree_completion.ROOM
    """How many lists of elements, and candidates for them, are made at a time."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """What the engine takes from the number of events, as the setting has it."""
        most = multitree_pass.MOST_TABLES if self.tables else 0
        with (
            patch.object(multitree_pass, "MOST_TABLES", most),
            patch.multiple(multitree_completion, ROOM=self.room, PAIRS=self.room),
            patch.multiple(multitree_choice, CHANGED=1.0, FEWEST=1, SHORTEST=0.0, SHARE=1e6, expected_seconds=lambda _: 1e6),
        ):
            yield


def random_plan(rng: Random, kind: str | None = None, search: str | None = None) -> MultiOptions:
    """A way to plan, of a kind and by a search if they are given."""
    return MultiOptions(
        kind=kind or rng.choice(KINDS),
        search=search or rng.choice(SEARCHES),
        neighbourhood=rng.choice(CHOICES["neighbourhood"]),
        k=rng.choice((2, 3, 4)),
        steps=rng.choice(STEPS),
        seed=rng.randrange(1 << 16),
    )


def random_setting(rng: Random, plan: MultiOptions | None) -> SharedSetting:
    """The whole stream or random cuts."""
    cut = asdict(sase_pairs.random_setting(rng)) if chance(rng, 0.6) else {}
    return SharedSetting(
        **{**cut, "options": sase_pairs.DEFAULT},
        plan=plan,
        planner="api" if plan is None else rng.choice(PLANNERS),
        tables=chance(rng, 0.5),
        room=rng.choice((2, 5, multitree_completion.ROOM)),
    )


def settings_of(rng: Random, number: int) -> list[SharedSetting]:
    """What the API makes of it, and two plans, or for every tenth number all kinds and searches."""
    chosen = rng.sample(WAYS, len(WAYS) if number % 10 == 0 else 2)
    plans = [None, *(random_plan(rng, kind, search) for kind, search in chosen)]
    return [random_setting(rng, plan) for plan in plans]


def answers(queries: Mapping[str, Query], table: pa.Table, setting: SharedSetting, **options: Any) -> dict[str, pa.Table]:
    """What the engine finds in one run: for all queries by the API, for those that share a plan by their matchers."""
    if setting.dictionaries:
        for column in ("s", "type"):
            table = table.set_column(table.column_names.index(column), column, table.column(column).dictionary_encode())
    if setting.shuffle:
        order = list(range(table.num_rows))
        Random(setting.seed).shuffle(order)
        table = table.take(pa.array(order, pa.int64()))
    with setting.applied():
        if setting.plan is None:
            return kleene.workload(queries).match(table, **options)
        if setting.planner == "api":
            return kleene.workload(queries).match(table, **options, plan={"mechanism": "multi", **asdict(setting.plan)})
        groups = groups_of(queries, table.schema, options)
        return {name: rows for group in groups for name, rows in fed(group, table, setting).items()}


def groups_of(queries: Mapping[str, Query], schema: pa.Schema, options: Mapping[str, Any]) -> list[PatternGroup]:
    """The queries that can share a plan."""
    given = options_of({**options, "plan": {"mechanism": "lazy"}})
    plans: dict[str, LazyPlan] = {}
    for name, query in queries.items():
        if query.logical.strategy is Strategy.SKIP_TILL_ANY_MATCH and not query.logical.aggregates:
            plan = query.plan_for(schema, given)
            assert is_lazy(plan)
            plans[name] = plan
    return list(grouped(plans))


def fed(group: PatternGroup, table: pa.Table, setting: SharedSetting) -> dict[str, pa.Table]:
    """What a matcher of the group finds in batches."""
    planner = planner_of(group, setting)
    matcher = SharedMatcher(group, planner, table.schema, run_rows=setting.run_rows, block=setting.block)
    matcher.audit = audit
    found: list[list[pa.RecordBatch]] = [[] for _ in group.plans]
    for batch in setting.batches(in_stream_order(table, group.bound.schema).combine_chunks()):
        for query, rows in matcher.feed(batch):
            found[query].append(rows)
        planner.wait()
    for query, rows in matcher.finish():
        found[query].append(rows)
    assert matcher.metrics.events == table.num_rows
    tables = map(pa.Table.from_batches, found, matcher.output_schemas)
    return dict(zip(group.plans, tables, strict=True))


def planner_of(group: PatternGroup, setting: SharedSetting) -> Planner:
    assert setting.plan is not None
    rng = Random(setting.seed)
    if setting.planner == "turning":
        return Turning(group, setting.plan, rng)
    plan = planned(group, setting.plan, rng) if setting.planner == "random" else None
    return Planner(group, replace(setting.plan, adaptive=setting.planner == "adaptive"), plan=plan)


class Turning(Planner):
    """Gives every pass another plan."""

    def __init__(self, group: PatternGroup, options: MultiOptions, rng: Random) -> None:
        super().__init__(group, options)
        self._rng = rng

    def plan_for(self, _scan: LeafScan, _working: WorkingSet) -> SharedPlan:
        return planned(self._group, random_plan(self._rng), self._rng)


def planned(group: PatternGroup, options: MultiOptions, rng: Random) -> SharedPlan:
    """A plan for random statistics."""
    rates = tuple(rng.choice((0.0, 0.1, 1.0, 1.0, 10.0)) for _ in group.leaves)
    keys = {condition_key(item, clause.leaves): None for clause in group.clauses for item in clause.conditions}
    shares = {key: rng.choice((0.0, 0.01, 0.5, 1.0)) for key in keys if chance(rng, 0.8)}
    statistics = SharedStatistics(rates, shares, span=rng.choice((0.0, 10.0)))
    return plan_shared(group.leaves, group.clauses, statistics, options)


# --- what is wanted ---------------------------------------------------------------------------------------------------


class Wanted:
    """One query of a workload: what the oracle finds, and what the engine finds for the query alone."""

    def __init__(self, name: str, example: Example, table: pa.Table) -> None:
        self.example, self.shown, self.bound = example, bare(example), example.bound()
        self.query = kleene.query(self.shown.query, name=name)
        self.whole = kleene.query(example.query, name=name)
        self.wanted = oracle.matches(self.bound, example.events)
        self._alone = self.query.match(table, **call_options(example))

    def differences(self, how: object, found: pa.Table) -> list[str]:
        """How an answer differs from what is wanted."""
        if found.schema == self._alone.schema:
            return self.row_differences(how, found)
        return [f"{how}: columns {found.schema}, alone {self._alone.schema}"]

    def row_differences(self, how: object, found: pa.Table) -> list[str]:
        """The same, whatever the types of columns."""
        comparison = nfa_pairs.Comparison(self.shown, self.wanted)
        comparison.add("alone", self._alone.to_pylist())
        comparison.add(how, found.to_pylist())
        return comparison.report

    def returned_differences(self, how: object, found: pa.Table) -> list[str]:
        """The same of an answer to the query with its RETURN, if it has one."""
        names = [item.alias for item in self.example.query.returns]
        if not names:
            return []
        values = Counter(canonical({name: row[name] for name in names}) for row in found.to_pylist())
        expected = Counter(canonical(oracle.returns(self.bound, self.example.events, match)) for match in self.wanted)
        report = [] if values == expected else [f"{how}: RETURN gives {values - expected}, expected {expected - values}"]
        if len(set(found.column("match_id").to_pylist())) < found.num_rows:
            report.append(f"{how}: RETURN rows share a match id")
        return report


class WantedRows(Wanted):
    """Of a query with AGG."""

    def __init__(self, name: str, example: Example, table: pa.Table) -> None:
        super().__init__(name, example, table)
        self._pair = aggregate_pairs.Pair(example)  # type: ignore[arg-type] - it asks for nothing more of an example

    def row_differences(self, how: object, found: pa.Table) -> list[str]:
        rows = aggregate_pairs.differences(self.example.query, self._pair.wanted, found.to_pylist(), self._pair.in_total_order)
        return [f"{how}: {line}" for line in rows]


class Given:
    """A workload with what is wanted of every query; queries that the planner does not support yet are left out."""

    def __init__(self, workload: MatchWorkload) -> None:
        self.workload = workload
        self.table = sase_pairs.numbered(workload.examples[0])
        self.options = call_options(workload.examples[0])
        self.wanted: dict[str, Wanted] = {}
        self.refused = 0
        for number, example in enumerate(workload.examples):
            kind = WantedRows if example.query.aggregates else Wanted
            try:
                self.wanted[f"q{number}"] = kind(f"q{number}", example, self.table)
            except PlanningError as error:
                if not str(error).startswith("not supported yet: "):
                    raise
                self.refused += 1

    def answers(self, setting: SharedSetting, *, with_returns: bool = False) -> dict[str, pa.Table]:
        queries = {name: item.whole if with_returns else item.query for name, item in self.wanted.items()}
        return answers(queries, self.table, setting, **self.options)


# --- comparing --------------------------------------------------------------------------------------------------------


def check(given: Given, settings: Sequence[SharedSetting], rng: Random, seen: Counter[str]) -> list[str]:
    """How the engine's answers differ from the oracle's, and from those of each query alone; empty if they do not."""
    report: list[str] = []
    for setting in settings:
        found = given.answers(setting)
        if setting.planner == "api" and list(found) != list(given.wanted):
            report.append(f"{setting}: answers for {list(found)}, queries {list(given.wanted)}")
        seen["answers of shared plans"] += len(found) if setting.planner != "api" else 0
        for name, rows in found.items():
            wanted = given.wanted[name]
            # Texts that come as categories leave as categories.
            compare = wanted.row_differences if setting.dictionaries else wanted.differences
            report += compare(f"{name}, {setting}", rows)
    if any(item.example.query.returns for item in given.wanted.values()):
        setting = rng.choice(settings)
        for name, rows in given.answers(setting, with_returns=True).items():
            report += given.wanted[name].returned_differences(f"{name}, {setting}", rows)
    return report


def check_ties(workload: MatchWorkload, rng: Random, seen: Counter[str]) -> list[str]:
    """How the engine's answer to events that tie differs from the oracle's, which may be an error."""
    ties: Any = rng.choice(("error", "error", "arrival"))
    events = tied(workload.examples[0], rng).events
    examples = [bare(replace(example, events=events)) for example in workload.examples]
    wanted: dict[str, list[oracle.Match] | None] = {}
    for number, example in enumerate(examples):
        try:
            wanted[f"q{number}"] = oracle.matches(example.bound(), events, ties=ties)
        except DataError:
            wanted[f"q{number}"] = None
    refused = [name for name, matches in wanted.items() if matches is None]
    seen[f"ties={ties} {'refused' if refused else 'answered'}"] += 1
    setting = replace(random_setting(rng, random_plan(rng)), planner="api", shuffle=False)
    queries = {name: kleene.query(example.query, name=name) for name, example in zip(wanted, examples, strict=True)}
    table, options = sase_pairs.numbered(examples[0]), {**call_options(examples[0]), "ties": ties}
    try:
        found = answers(queries, table, setting, **options)
    except DataError as error:
        named = any(f"'{name}'" in str(error) for name in refused)
        return [] if named and "tie at timestamp" in str(error) else [f"ties={ties}, {setting}: {error}", f"{events}"]
    if refused:
        return [f"ties={ties}, {setting}: a tie is not refused", f"{events}"]
    report: list[str] = []
    for (name, matches), example in zip(wanted.items(), examples, strict=True):
        comparison = nfa_pairs.Comparison(example, matches or [])
        comparison.add(f"ties={ties}, {name}, {setting}", found[name].to_pylist())
        report += comparison.report
    return report and [*report, f"{events}"]


# --- what was seen ----------------------------------------------------------------------------------------------------


OPERATORS = {Seq: "SEQ", Conjunction: "AND", Disjunction: "OR"}


def features(workload: MatchWorkload) -> Iterator[str]:
    """What a workload has, for the report."""
    queries, rows = [example.query for example in workload.examples], workload.events
    kwargs = workload.examples[0].schema_kwargs
    yield f"{len(queries)} queries"
    yield from {feature for example in workload.examples for feature in query_features(example)}
    keys = [frozenset(item.name for item in conjuncts(query.where) if isinstance(item, Equivalence)) for query in queries]
    yield from {f"{len(names)} keys" for names in keys}
    if len(set(keys)) > 1:
        yield "different keys"
    if len({query.within for query in queries}) > 1:
        yield "different windows"
    if len(set(queries)) < len(queries):
        yield "a query twice"
    if len({row["ts"] for row in rows}) < len(rows):
        yield "with ties"
    if any(row["x"] is None or row["s"] is None for row in rows):
        yield "with NULLs"
    if any(row["y"] != row["y"] for row in rows):
        yield "with NaN"
    if kwargs.get("order_by"):
        yield "with order_by"
    if kwargs["types"] is not None:
        yield "declared schema"
    if not workload.examples[0].integer_time:
        yield "timestamps"


def query_features(example: Example) -> Iterator[str]:
    """What one query has."""
    query, parts = example.query, list(components(example.query.pattern))
    yield from (OPERATORS[type(node)] for node in lazy_pairs._nodes(query.pattern) if type(node) in OPERATORS)
    yield f"{sum(not part.negated for part in parts)} components"
    if lazy_pairs._depth(query.pattern) > 1:
        yield "nested"
    if any(part.is_kleene for part in parts):
        yield "Kleene"
    if any(part.quantifier is not None and part.quantifier.low == 0 for part in parts):
        yield "optional"
    if any(len(part.types) > 1 for part in parts):
        yield "with ANY"
    yield from _clauses(query)
    yield from _negation(query.pattern, example)
    yield from _conditions(query)


def _clauses(query: LogicalQuery) -> Iterator[str]:
    if query.within is None:
        yield "without a window"
    elif query.within.unit is Unit.EVENTS:
        yield "count window"
    if query.returns:
        yield "with RETURN"
    if query.aggregates:
        yield "AGG"
    if query.output is Output.NON_OVERLAP:
        yield "NON-OVERLAP"
    if query.strategy is not Strategy.SKIP_TILL_ANY_MATCH:
        yield "another strategy"


def _negation(pattern: Pattern, example: Example) -> Iterator[str]:
    parts = list(components(pattern))
    if any(negative.anywhere for branch in example.bound().branches for negative in branch.negatives):
        yield "negation under AND"
    elif parts[0].negated:
        yield "negated start"
    elif parts[-1].negated:
        yield "negated end"
    elif any(part.negated for part in parts):
        yield "negated middle"


def _conditions(query: LogicalQuery) -> Iterator[str]:
    """What conditions between events read."""
    for item in conjuncts(query.where):
        count = len(variables(item))
        if count == 2 and isinstance(item, Comparison):
            plain = isinstance(item.left, Attribute) and isinstance(item.right, Attribute)
            yield "plain comparison" if plain else "comparison with arithmetic"
        if count == 3:
            yield "three events in a condition"
        if count > 1 and any(isinstance(node, Attribute) and node.name == "s" for node in walk(item)):
            yield "texts compared"
        if count > 1 and not isinstance(item, Comparison):
            yield "alternatives between events"
        if count == 1:
            yield "arithmetic on one event" if any(isinstance(node, Arithmetic) for node in walk(item)) else "own predicate"


def sharing_features(given: Given) -> Iterator[str]:
    """What there is to share."""
    queries = {name: item.query for name, item in given.wanted.items()}
    groups = groups_of(queries, given.table.schema, given.options)
    if len(groups) > 1:
        yield "several groups"
    for group in groups:
        plan = planned(group, MultiOptions(search="sharing"), Random(0))
        users = [len(own) for node, own in zip(plan.nodes, plan.users(), strict=True) if not node.is_leaf]
        yield from (f"shared by {'two' if count == 2 else 'more than two'}" for count in set(users) if count > 1)
        if any(node.left == node.right for node in plan.nodes if not node.is_leaf):
            yield "two sides that are the same"
        if len({clause.window for clause in group.clauses}) > 1:
            yield "different windows in a plan"
        if len(group.tests) > len(group.leaves):
            yield "tests beside leaves"


def setting_features(setting: SharedSetting) -> Iterator[str]:
    yield "plan: auto" if setting.plan is None else f"plan: {setting.plan.kind} by {setting.plan.search}"
    if setting.plan is not None:
        yield f"planner: {setting.planner}"
    yield "scopes looked up" if setting.tables else "scopes searched for"
    yield from aggregate_pairs.setting_features(setting)


def describe(workload: MatchWorkload) -> str:
    texts = [f"q{number}: {to_text(example.query)}" for number, example in enumerate(workload.examples)]
    events = [f"  {row}" for row in workload.events]
    return "\n    ".join((*texts, f"{dict(workload.examples[0].schema_kwargs)}", *events))


def check_example(workload: MatchWorkload, number: int, rng: Random, report: Report) -> list[str]:
    """Checks a workload by some plans, some workloads with ties too."""
    given, settings = Given(workload), settings_of(rng, number)
    report.matches += sum(len(item.wanted) for item in given.wanted.values())
    report.seen.update(features(workload))
    report.seen.update(set(sharing_features(given)))
    report.seen["queries"] += len(workload.examples)
    report.seen["refused"] += given.refused
    report.seen["queries with matches"] += sum(bool(item.wanted) for item in given.wanted.values())
    report.seen.update(feature for setting in settings for feature in setting_features(setting))
    found = check(given, settings, rng, report.seen)
    queries = [example.query for example in workload.examples]
    if number % 2 == 0 and not given.refused and not any(query.aggregates for query in queries):
        if any(map(needs_total_order, queries)) or number % 20 == 0:
            found += check_ties(workload, rng, report.seen)
    return found


# --- sabotage: a test of the tests ------------------------------------------------------------------------------------


def _exchanged() -> None:
    """A workload that gives the matches of each query to the next one."""
    original = Workload.match

    def match(self: Workload, events: Any, **options: Any) -> dict[str, Any]:
        found = original(self, events, **options)
        return dict(zip(found, [*list(found.values())[1:], *list(found.values())[:1]], strict=True))

    Workload.match = match  # type: ignore[method-assign]


CROSS = "tuple(sorted(conditions))"
SWAPPED = '_settled(form) == _settled(renamed(form, {"$0": "$1", "$1": "$0"}))'
PREDICATES = "frozenset(oriented(anonymous(item)) for item in predicates)"

SABOTAGE: dict[str, Callable[[], None]] = {
    "exchanged-queries": _exchanged,
    # Queries with different windows share a node that has the smaller one; the wider window is every query's.
    "narrow-nodes": broken(nodes, "_larger", "max(one, other)", "min(one, other)"),
    "one-window": rewritten(multitree_completion.Completion, "_in_window", "if not self._narrower:", "if True:"),
    # Components with different predicates are one leaf; a condition holds whichever of its events is which.
    "one-leaf": broken(clauses, "leaf_of", PREDICATES, "frozenset()"),
    "either-way": broken(clauses, "is_symmetric", SWAPPED, "True"),
    # Sub-patterns with different conditions, or different orders, are one node.
    "one-condition": rewritten(nodes.Nodes, "_cross", f"tuple(precedes), {CROSS}", f"tuple(precedes), {CROSS}[:1]"),
    "one-order": rewritten(nodes.Nodes, "_cross", "elif numbered.after[other] >> one & 1:", "elif False:"),
    "mixed-slots": broken(nodes, "_root", "enumerate(placed.arrangements[0])", "enumerate(sorted(placed.arrangements[0]))"),
    # Joins: an event that is bound twice, simultaneous events in order, NULL equal to what stands there, a block that was full.
    "shared-events": broken(kernels, "without", "int(other != place)", "1"),
    "arrival-order": broken(kernels, "follows", " and (not tied or rank[later] != rank[earlier])", ""),
    "known-nulls": broken(kernels, "compared", "valid[column, right] != 0 and", "valid[column, right] == 0 or"),
    "lost-remainder": broken(kernels, "join", "state[CANDIDATE] = j\n", "state[CANDIDATE] = j + 1\n"),
    # A match that ended before the batch is reported again.
    "stale-matches": rewritten(multitree_completion.Completion, "_fresh", "matches.last >= since", "matches.last >= since - 1"),
    "no-negation": rewritten(multitree_completion.Completion, "negated", "in self._indexes:", "in ():"),
    "shared-elements": rewritten(
        multitree_completion.Completion, "_overlapping", "set(item.types) & set(event.types)", "False"
    ),
    "short-memory": sase_pairs.SABOTAGE["short-memory"],
}

SUITE = Suite(match_workload, check_example, describe, SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE)
