"""Random (query, stream) pairs under skip_till_any_match: every mechanism and order of binding, against the oracle.

Each pair is answered by a chain in a random order or by another plan (the automatic one, eager, a tree, a planner), every third
by both, on the whole stream or in random cuts, orders of delivery, encodings, `run_rows` and `block`; every fifteenth by chains
in all orders, if there are at most six. Scopes are looked up, searched for, or first the one and then the other; candidates are
decided for partial matches one by one or together, or looked up by value. Some plans are made from statistics, those of the
events or random ones, however few events there are, and some runs change the order of binding at random rows. Matches must be
the oracle's, their ids unique and the same under every plan, and RETURN values the oracle's. Some pairs run again with events
that tie, which must be refused where the oracle refuses them. What the planner refuses as not supported yet is counted, no
more.

As a script: `KLEENE_KERNELS=python python tests/support/lazy_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

from kleene.common.errors import DataError, PlanningError
from kleene.common.schema import schema_of_arrow
from kleene.engine.build import build_matcher
from kleene.engine.events import ranking
from kleene.engine.events.kernels import windows
from kleene.engine.lazy import lazy_pass, look_up
from kleene.engine.lazy import order_planner as lazy_choice
from kleene.engine.lazy.kernels import chain as kernels
from kleene.engine.lazy.kernels import extension
from kleene.engine.lazy.lazy_pass import BranchRun, Stretch
from kleene.engine.lazy.order_planner import OrderPlanner
from kleene.engine.matches import forbidden, non_overlap
from kleene.engine.matches.negation import NegativeIndex
from kleene.interfaces.query import Query
from kleene.pattern.bind import bind
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Conjunction, Disjunction, Pattern
from kleene.pattern.operators import Sequence as Seq
from kleene.pattern.operators import events as components
from kleene.pattern.text import expression_text
from kleene.plan.lazy import lazy
from kleene.plan.optimizer import make_plan
from kleene.plan.options import CHOICES, LazyOptions
from kleene.plan.order.statistics import Statistics
from kleene.plan.patterns import LazyPlan, is_lazy
from kleene.runtime.embedded import in_stream_order, rows_of
from kleene.testing import oracle
from kleene.testing.case_routes import canonical
from support import nfa_pairs, sase_pairs
from support.nfa_pairs import Comparison, bare, call_options, tied
from support.pair_runs import Report, Suite, broken, main, rewritten
from support.random_queries import chance
from support.sase_pairs import Setting
from support.strategies import Example, any_match_example

PLANNERS = CHOICES["lazy"]["planner"]
MOST_ORDERS = 6


def plans() -> list[LazyOptions | None]:
    """Every way to evaluate lazily but a chain in a given order; None is the automatic plan."""
    found = [None, LazyOptions(), LazyOptions("eager"), LazyOptions(adaptive=False)]
    found += [LazyOptions("tree", selectivity=selectivity) for selectivity in CHOICES["lazy"]["selectivity"]]
    return found + [LazyOptions("chain", planner=planner) for planner in PLANNERS]


PLANS = plans()


def plan_name(options: LazyOptions | None) -> str:
    """What a plan is called in reports."""
    if options is None:
        return "auto"
    if options.evaluation == "tree":
        return f"tree by {options.selectivity}"
    if options.evaluation == "chain":
        return f"chain by {options.planner}" if options.order is None else "chain in an order"
    return options.evaluation if options.adaptive else "not adaptive"


def positives_of(example: Example) -> list[str]:
    return [event.variable for event in components(example.query.pattern) if not event.negated]


@dataclass(frozen=True, slots=True)
class LazySetting(Setting):
    """How a pair is run; none of it may change the answer."""

    tables: int = 0
    """How many partial matches make tables of scopes worth it."""
    shared: bool = True
    """Whether candidates are decided for several partial matches together, wherever that is possible."""
    ranked: bool = False
    """Whether candidates and negative events are looked up by value, wherever that is possible."""
    planned: bool = False
    """Whether a plan is made from statistics, though the events are few."""
    known: int | None = None
    """The seed of random statistics that a user gives."""
    turns: int | None = None
    """The seed of random rows at which another order is taken."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """What the engine takes from the number of events, as the setting has it."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(lazy_pass, "worth_tables", lambda partials, *_: partials >= self.tables))
            stack.enter_context(patch.object(lazy_pass, "WORTH_TRYING", 0))
            stack.enter_context(patch.object(lazy_pass, "WORTH_SHARING", -FAR if self.shared else FAR))
            if self.ranked:
                stack.enter_context(patch.multiple(look_up, **KEEN_RANKING))
                stack.enter_context(patch.multiple(ranking, SMALLEST_BLOCK=2))
                stack.enter_context(patch.multiple(forbidden, WORTH_RANKING=0))
            if self.planned:
                stack.enter_context(patch.multiple(lazy_choice, **KEEN_PLANNING))
            if self.turns is not None:
                stack.enter_context(patch.object(OrderPlanner, "stretches", turning(self.turns)))
            yield


FAR = 1 << 40

KEEN_RANKING = {
    "WORTH_RANGING": 0,
    "WORTH_ASKING": 0,
    "WORTH_RANKING": 0,
    "WORTH_SAVING": -1.0,
    "FEW_OF": 0,
    "NOTHING": look_up.NOTHING._replace(few_of=0),
}
"""Settings under which few candidates are looked up by value, however many are found."""

KEEN_PLANNING = {
    "FEW_ROWS": 1,
    "SLICE_ROWS": 1,
    "TOGETHER": 2,
    "BY_CHANCE": 0.0,
    "FEWEST_WINDOWS": 0,
    "MEASURED": ((64, 0.0), (256, 0.0)),
}
"""Settings of the planner under which few events are enough for it."""


def turning(seed: int) -> Callable[[OrderPlanner, int], tuple[Stretch, ...]]:
    """A chooser that takes another order from some row on."""
    rng, original = Random(seed), OrderPlanner.stretches

    def stretches(self: OrderPlanner, index: int) -> tuple[Stretch, ...]:
        found: list[Stretch] = []
        for stretch in original(self, index):
            row = rng.randint(stretch.first, stretch.last)
            order = tuple(rng.sample(stretch.order, len(stretch.order)))
            found += [replace(stretch, last=row), replace(stretch, first=row, order=order)]
        return tuple(found)

    return stretches


def random_setting(rng: Random) -> LazySetting:
    """The whole stream or random cuts; mostly large blocks, for small ones cost most."""
    cut = asdict(sase_pairs.random_setting(rng)) if chance(rng, 0.5) else {"options": None}
    planned = chance(rng, 0.25)
    return LazySetting(
        **{**cut, "block": rng.choice((1, 2, 3, 3, 8, 1000, 1000, 1000))},
        tables=rng.choice((0, rng.randint(1, 30), FAR)),
        shared=chance(rng, 0.5),
        ranked=chance(rng, 0.5),
        planned=planned,
        known=rng.randrange(1 << 30) if planned and chance(rng, 0.5) else None,
        turns=rng.randrange(1 << 30) if chance(rng, 0.2) else None,
    )


def settings_of(rng: Random, example: Example, number: int) -> list[LazySetting]:
    """A chain in a random order (for some numbers, in every one) or another plan; for every third number both."""
    names = positives_of(example)
    orders = [tuple(rng.sample(names, len(names)))]
    if number % 15 == 0:
        every = list(permutations(names))
        orders = every if len(every) <= MOST_ORDERS else orders
    settings = [replace(random_setting(rng), options=LazyOptions("chain", order)) for order in orders]
    settings.append(replace(random_setting(rng), options=rng.choice(PLANS)))
    return settings if number % 3 == 0 else [rng.choice(settings)]


class Pair:
    """An example, bound once and as a table, with the oracle's answer."""

    def __init__(self, example: Example) -> None:
        self.example = example
        self.table = sase_pairs.numbered(example)
        self.schema = schema_of_arrow(self.table.schema, **example.schema_kwargs)
        self.bound = bind(example.query, self.schema)
        self.bare = bind(bare(example).query, self.schema) if example.query.returns else self.bound
        self.wanted = oracle.matches(self.bound, example.events)

    def plan(self) -> LazyPlan | None:
        """The lazy plan; None if the planner says that it does not support the query yet."""
        try:
            plan = make_plan(self.bound, LazyOptions())
        except PlanningError as error:
            if not str(error).startswith("not supported yet: "):
                raise
            return None
        assert is_lazy(plan)
        return plan

    def _statistics(self, seed: int | None) -> Statistics | None:
        """Random statistics."""
        if seed is None:
            return None
        rng, plan = Random(seed), self.plan()
        assert plan is not None
        rates = {event.variable: rng.choice((0.0, 0.1, 1.0, 1.0, 100.0)) for event in plan.positives if chance(rng, 0.8)}
        known = {expression_text(item): rng.choice((0.0, 0.01, 0.5, 1.0)) for item in plan.conditions if chance(rng, 0.8)}
        return Statistics(rates, known, span=rng.choice((0.0, 10.0)))

    def answer(self, setting: LazySetting, *, with_returns: bool = False) -> list[dict[str, Any]]:
        """The engine's match rows."""
        bound = self.bound if with_returns else self.bare
        plan = make_plan(bound, setting.options, statistics=self._statistics(setting.known))
        table = self.table
        if setting.dictionaries:
            table = table.set_column(*_encoded(table, "s")).set_column(*_encoded(table, "type"))
        matcher = build_matcher(plan, table.schema, run_rows=setting.run_rows, block=setting.block)
        if setting.shuffle:
            order = list(range(table.num_rows))
            Random(setting.seed).shuffle(order)
            table = table.take(pa.array(order, pa.int64()))
        ordered = in_stream_order(table, self.schema).combine_chunks()
        with setting.applied():
            found = [rows for batch in setting.batches(ordered) for _, rows in matcher.feed(batch)]
            found += rows_of(matcher.finish())
        assert matcher.metrics.matches == sum(rows.num_rows for rows in found)
        assert matcher.metrics.events == table.num_rows
        return [row for rows in found for row in rows.to_pylist()]


def _encoded(table: pa.Table, name: str) -> tuple[int, str, pa.ChunkedArray]:
    return table.column_names.index(name), name, table.column(name).dictionary_encode()


# --- comparing --------------------------------------------------------------------------------------------------------


def check(pair: Pair, settings: list[LazySetting], rng: Random) -> list[str]:
    """How the engine's answers differ from the oracle's and from one another; empty if they do not."""
    comparison = Comparison(pair.example, pair.wanted)
    for setting in settings:
        comparison.add(setting, pair.answer(setting))
    if pair.example.query.returns:
        comparison.report += _returned(pair, rng.choice(settings))
    return comparison.report


def _returned(pair: Pair, setting: LazySetting) -> list[str]:
    names = [item.alias for item in pair.example.query.returns]
    rows = pair.answer(setting, with_returns=True)
    found = Counter(canonical({name: row[name] for name in names}) for row in rows)
    expected = Counter(canonical(oracle.returns(pair.bound, pair.example.events, match)) for match in pair.wanted)
    report = [] if found == expected else [f"{setting}: RETURN gives {found - expected}, expected {expected - found}"]
    if len({row["match_id"] for row in rows}) < len(rows):
        report.append(f"{setting}: RETURN rows share a match id")
    return report


def check_ties(example: Example, rng: Random, seen: Counter[str]) -> list[str]:
    """How the engine's answer to events that tie differs from the oracle's, which may be an error."""
    shown, ties = tied(bare(example), rng), rng.choice(("error", "error", "arrival"))
    try:
        wanted = oracle.matches(shown.bound(), shown.events, ties=ties)
    except DataError:
        wanted = None
    seen[f"ties={ties} {'refused' if wanted is None else 'answered'}"] += 1
    options = {**call_options(shown), "ties": ties, "plan": rng.choice(PLANS)}
    comparison = Comparison(shown, wanted or [])
    try:
        comparison.add(options, Query(shown.query).match(sase_pairs.numbered(shown), **options).to_pylist())
        if wanted is None:
            comparison.report.append(f"{options}: a tie is not refused")
    except DataError as error:
        if wanted is not None or "tie at timestamp" not in str(error):
            comparison.report.append(f"{options}: {error}")
    return comparison.report and [*comparison.report, sase_pairs.describe(shown)]


# --- what was seen ----------------------------------------------------------------------------------------------------


OPERATORS = {Seq: "SEQ", Conjunction: "AND", Disjunction: "OR"}


def features(pair: Pair) -> Iterator[str]:
    """What a pair has, for the report."""
    yield from nfa_pairs.features(pair.example, pair.wanted)
    yield from {OPERATORS[type(node)] for node in _nodes(pair.example.query.pattern) if type(node) in OPERATORS}
    yield f"depth {_depth(pair.example.query.pattern)}"
    yield from {feature for branch in pair.bound.branches for feature in _branch_features(branch)}


def _branch_features(branch: Branch) -> Iterator[str]:
    events = branch.positives
    pairs = [(one, other) for other in range(len(events)) for one in range(other)]
    shared = [pair for pair in pairs if set(events[pair[0]].types) & set(events[pair[1]].types)]
    apart = [pair for pair in shared if pair not in branch.order]
    if apart:
        yield "distinct events"
    if any(events[one].is_kleene or events[other].is_kleene for one, other in apart):
        yield "distinct elements"
    if 0 < len(branch.order) < len(pairs):
        yield "partial order"
    if any(negative.anywhere for negative in branch.negatives):
        yield "negation under AND"
    if any(len(negative.after) > 1 or len(negative.before) > 1 for negative in branch.negatives):
        yield "negation with several neighbours"


def plan_features(plan: LazyPlan) -> Iterator[str]:
    """What a plan has to decide."""
    conditions = [item for branch in plan.branches for item in branch.conditions]
    if any(item.via for item in conditions):
        yield "implied comparison"
    if any(not item.compiled for item in conditions):
        yield "decided on blocks"
    if any(len(item.condition.variables) > 2 for item in conditions):
        yield "three events in a condition"
    if plan.tests:
        yield "test that does not divide"
    if plan.partition:
        yield "partitions"


def setting_features(setting: LazySetting) -> Iterator[str]:
    yield f"plan: {plan_name(setting.options)}"  # type: ignore[arg-type] - the options of a lazy plan
    yield {0: "scopes looked up", FAR: "scopes searched for"}.get(setting.tables, "scopes searched for, then looked up")
    yield "decided together" if setting.shared else "decided one by one"
    if setting.ranked:
        yield "looked up by value"
    if setting.planned:
        yield "planned" if setting.known is None else "planned from random statistics"
    if setting.turns is not None:
        yield "turns to another order"
    yield from (f"{name}={getattr(setting, name)}" for name in ("batch_rows", "run_rows", "block"))
    if setting.dictionaries:
        yield "dictionaries"
    if setting.shuffle:
        yield "shuffled"


def _nodes(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    for part in getattr(pattern, "parts", ()):
        yield from _nodes(part)


def _depth(pattern: Pattern) -> int:
    return max((1 + _depth(part) for part in getattr(pattern, "parts", ())), default=0)


def check_example(example: Example, number: int, rng: Random, report: Report) -> list[str]:
    """Checks an example under some plans, some examples with ties too."""
    pair = Pair(example)
    report.matches += len(pair.wanted)
    report.seen.update(features(pair))
    plan = pair.plan()
    if plan is None:
        report.seen["refused"] += 1
        return []
    settings = settings_of(rng, example, number)
    report.seen.update(plan_features(plan))
    report.seen.update(feature for setting in settings for feature in setting_features(setting))
    found = check(pair, settings, rng)
    often = 5 if plan.total_order else 20
    return found + check_ties(example, rng, report.seen) if number % often == 0 else found


# --- sabotage: a test of the tests ------------------------------------------------------------------------------------


BACKWARDS = "[((right, left), path) for (left, right), path in sorted(paths.items()) if (left, right) not in direct]"

SABOTAGE: dict[str, Callable[[], None]] = {
    "wider-window": sase_pairs.SABOTAGE["wider-window"],
    "short-memory": sase_pairs.SABOTAGE["short-memory"],
    "unsteady-ids": sase_pairs.SABOTAGE["unsteady-ids"],
    # Events that are simultaneous follow one another, in a scope that is looked up, or in one that is searched for.
    "wider-scope": broken(windows, "first_after", "bounds[AFTER, place]", "place + 1"),
    "wider-search": broken(windows, "first_after", "following = place + 1", "return place + 1"),
    "narrower-scope": rewritten(windows, "prepare", "bounds[HIGH, low] = place", "bounds[HIGH, low] = place - 1"),
    "shared-events": rewritten(extension, "extend", "if apart:", "if False:"),
    "shared-elements": rewritten(BranchRun, "_finished", "in program.apart", "in ()"),
    # A match that ends with the last event of the batch before is reported again.
    "stale-matches": rewritten(windows, "ask", "else first_row", "else first_row - 1"),
    # A match that ends beyond a stretch is reported with it, and again with its own.
    "endless-stretches": rewritten(windows, "ask", "last_row if side", "last_row + 1 if side"),
    # Candidates are skipped where a block was full.
    "lost-remainder": rewritten(extension, "extend", "low[partial] + state[OFFSET]", "low[partial] + 2 * state[OFFSET]"),
    # What is decided together reads different events.
    "careless-sharing": rewritten(extension, "_alike", "if not same:", "if False:"),
    "implied-backwards": rewritten(lazy, "implied_comparisons", "sorted(paths.items())", BACKWARDS),
    "implied-strictly": rewritten(lazy, "implied_comparisons", '"<" if path.strict else "<="', '"<"'),
    # Of the components around a negative one, one is enough.
    "any-neighbour": rewritten(NegativeIndex, "_neighbours", "np.maximum.reduce(after)", "np.minimum.reduce(after)"),
    # Negation under AND looks no further than the last event.
    "hasty-negation": rewritten(NegativeIndex, "_times", "(matches.first)) + self._window", "(matches.last)) + 1"),
    "tests-forgotten": rewritten(lazy_pass, "_agree", "(lowest == highest)", "(lowest <= highest)"),
    # A tree gives up where a component has one candidate left.
    "hasty-tree": rewritten(kernels, "choose_scopes", "if size == 0:", "if size <= 1:"),
    "undecided-tree": rewritten(BranchRun, "_decide_in_tree", "if need & self._kleene:", "if need:"),
    # Which of several matches with the same events is reported depends on the order of binding.
    "any-of-overlapping": rewritten(non_overlap, "choose_apart", "range(length)", "range(sizes[best])"),
}


SUITE = Suite(any_match_example, check_example, sase_pairs.describe, SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE)
