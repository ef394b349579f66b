"""Random (query, stream) pairs of SASE+: the automata, under every algorithm and cut of the stream, against the oracle.

Each pair is answered by `basic`, `merging` and `backtrack`, in random cuts, orders of delivery, encodings, `run_rows` and
`block`, and once more in compressed form, which is counted and expanded. Matches must be the oracle's, their ids unique and the
same under every setting, and RETURN values the oracle's. Some pairs run again with events that tie, which must be refused where
the oracle refuses them. What the planner refuses as not supported yet is counted, no more.

As a script: `KLEENE_KERNELS=python python tests/support/nfa_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

import kleene
import kleene.plan.optimizer
from kleene.common.errors import DataError, PlanningError
from kleene.engine.automaton import automaton_pass, run_buffer
from kleene.engine.automaton.automaton_pass import AutomatonPass
from kleene.engine.automaton.kernels import edges, match_buffer, merging
from kleene.engine.automaton.kernels import nfa as kernels
from kleene.engine.matches import non_overlap
from kleene.interfaces.options import options_of
from kleene.interfaces.query import Query
from kleene.pattern.operators import Disjunction
from kleene.pattern.operators import Sequence as Seq
from kleene.pattern.operators import events as components
from kleene.pattern.policies import Output, Unit
from kleene.pattern.predicates import Aggregate, Attribute, Element, Length, conjuncts, variables, walk
from kleene.plan.options import CHOICES, NfaOptions
from kleene.runtime.embedded import in_stream_order, rows_of
from kleene.testing import oracle
from kleene.testing.functions import plain
from support import sase_pairs
from support.pair_runs import Report, Suite, main, rewritten
from support.sase_pairs import ROW, Setting
from support.strategies import Example, saseplus_example

ALGORITHMS = CHOICES["nfa"]["algorithm"]
Bindings = tuple[tuple[str, int | tuple[int, ...]], ...]


# --- the engine -------------------------------------------------------------------------------------------------------


def call_options(example: Example) -> dict[str, Any]:
    """How an example's events are read, as keyword arguments of `Query.match`."""
    options = {name: value for name, value in example.schema_kwargs.items() if name != "types"}
    return {**options, "schema": example.schema_kwargs["types"]}


def bare(example: Example) -> Example:
    """The example without RETURN: its matches show their events."""
    return replace(example, query=replace(example.query, returns=(), into=None))


def refused(example: Example) -> bool:
    """Whether the planner says that it does not support the query yet."""
    try:
        kleene.plan.optimizer.make_plan(example.bound(), NfaOptions())
    except PlanningError as error:
        if not str(error).startswith("not supported yet: "):
            raise
        return True
    return False


def compressed(example: Example, setting: Setting) -> pa.Table:
    """The engine's answer in compressed form, from a stream that is cut."""
    table, algorithm = sase_pairs.numbered(example), setting.options.algorithm
    options = options_of({**call_options(example), "plan": {"algorithm": algorithm}, "output": "compressed"})
    matcher = Query(example.query).matcher(table.schema, options, run_rows=setting.run_rows, block=setting.block)
    ordered = in_stream_order(table, example.event_schema()).combine_chunks()
    found = [rows for batch in setting.batches(ordered) for _, rows in matcher.feed(batch)]
    return pa.Table.from_batches([*found, *rows_of(matcher.finish())], matcher.output_schemas[0])


def settings_of(rng: Random) -> list[Setting]:
    """Every algorithm: one of them in random cuts, the others mostly on the whole stream, which costs least."""
    cut = rng.choice(ALGORITHMS)
    settings = []
    for algorithm in ALGORITHMS:
        setting = sase_pairs.random_setting(rng) if algorithm == cut or rng.random() < 0.1 else Setting()
        settings.append(replace(setting, options=NfaOptions(algorithm)))
    return settings


# --- comparing --------------------------------------------------------------------------------------------------------


def bindings_of(row: dict[str, Any], variables: list[str]) -> Bindings:
    """The events of a match row as the oracle gives them: absent variables left out, a tuple for a Kleene variable."""
    found = {name: row[name] for name in variables if row[name] is not None}
    return tuple(
        (name, tuple(item[ROW] for item in value) if isinstance(value, list) else value[ROW])
        for name, value in sorted(found.items())
    )


def identities(example: Example, rows: list[dict[str, Any]]) -> Counter[tuple[Bindings, Any, Any]]:
    """Match rows as bindings, start and end."""
    names = [event.variable for event in components(example.query.pattern) if not event.negated]
    return Counter((bindings_of(row, names), plain(row["match_start"]), plain(row["match_end"])) for row in rows)


def wanted_identities(example: Example, wanted: list[oracle.Match]) -> Counter[tuple[Bindings, Any, Any]]:
    times = [plain(row["ts"]) for row in example.events]
    spans = [[times[position] for position in match.positions] for match in wanted]
    return Counter((match.bindings, min(span), max(span)) for match, span in zip(wanted, spans, strict=True))


class Comparison:
    """The answers to one example, each against the oracle's and against the ids of the first."""

    def __init__(self, example: Example, wanted: list[oracle.Match]) -> None:
        self.report: list[str] = []
        self._example = example
        self._expected = wanted_identities(example, wanted)
        self._ids: list[int] | None = None

    def add(self, how: object, rows: list[dict[str, Any]]) -> None:
        found = identities(self._example, rows)
        for what, difference in (("missing", self._expected - found), ("unexpected", found - self._expected)):
            if difference:
                self.report.append(f"{how}: {difference.total()} {what}: {list(difference.elements())[:5]}")
        ids = sorted(row["match_id"] for row in rows)
        if len(set(ids)) < len(ids):
            self.report.append(f"{how}: {len(ids)} matches have {len(set(ids))} ids")
        if self._ids is None:
            self._ids = ids
        elif ids != self._ids:
            self.report.append(f"{how}: other match ids")


def check(example: Example, settings: list[Setting], rng: Random, wanted: list[oracle.Match]) -> list[str]:
    """How the engine's answers differ from the oracle's and from one another; empty if they do not."""
    shown = bare(example)
    comparison = Comparison(shown, wanted)
    for setting in settings:
        comparison.add(setting, sase_pairs.answer(shown, setting))
    other = rng.choice(settings)
    packed = compressed(shown, other)
    if kleene.count(packed) != len(wanted):
        comparison.report.append(f"compressed, {other}: counts {kleene.count(packed)} matches of {len(wanted)}")
    comparison.add(f"compressed, {other}", kleene.expand(packed).to_pylist())
    if example.query.returns:
        comparison.report += sase_pairs._returned(example, wanted, rng.choice(settings))
    return comparison.report


def tied(example: Example, rng: Random) -> Example:
    """The example with some events at the time of the one before."""
    rows: list[dict[str, Any]] = []
    for row in example.events:
        rows.append({**row, "ts": rows[-1]["ts"]} if rows and rng.random() < 0.15 else row)
    return replace(example, events=rows)


def check_ties(example: Example, rng: Random, seen: Counter[str]) -> list[str]:
    """How the engine's answer to events that tie differs from the oracle's, which may be an error."""
    shown, ties = tied(bare(example), rng), rng.choice(("error", "error", "arrival"))
    try:
        wanted = oracle.matches(shown.bound(), shown.events, ties=ties)
    except DataError:
        wanted = None
    seen[f"ties={ties} {'refused' if wanted is None else 'answered'}"] += 1
    options = {**call_options(shown), "ties": ties, "plan": {"algorithm": rng.choice(ALGORITHMS)}}
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


def features(example: Example, wanted: list[oracle.Match]) -> Iterator[str]:
    """What an example has, for the report."""
    query, parts = example.query, list(components(example.query.pattern))
    yield from sase_pairs.features(example, len(wanted))
    yield query.strategy.value
    if wanted:
        yield f"{query.strategy.value} with matches"
    if any(isinstance(at, tuple) and len(at) > 1 for match in wanted for _, at in match.bindings):
        yield "longer arrays"
    yield f"{sum(part.is_kleene for part in parts)} Kleene"
    if any(part.quantifier is not None and part.quantifier.low == 0 for part in parts):
        yield "optional"
    branches = [query.pattern, *(query.pattern.parts if isinstance(query.pattern, Seq) else ())]
    if any(isinstance(part, Disjunction) for part in branches):
        yield "OR"
    if query.within is not None and query.within.unit is Unit.EVENTS:
        yield "count window"
    if query.output is Output.NON_OVERLAP:
        yield "NON-OVERLAP"
    yield from dict.fromkeys(_condition_features(example))


def _condition_features(example: Example) -> Iterator[str]:
    """How conditions read Kleene variables, and what they compare them with."""
    places = {event.variable: event for event in components(example.query.pattern)}
    order = list(places)
    for conjunct in conjuncts(example.query.where):
        nodes = [node for node in walk(conjunct) if isinstance(node, Attribute | Aggregate | Length)]
        yield from (feature for node in nodes for feature in _node_features(node))
        read = sorted(variables(conjunct), key=order.index)
        repeated = [name for name in read if places[name].is_kleene]
        if repeated and any(places[name].negated for name in read):
            yield "negation reads Kleene"
        elif len(repeated) > 1:
            yield "Kleene against Kleene"
        elif repeated and len(read) > 1:
            yield "Kleene before single" if repeated[0] == read[0] else "single before Kleene"
        looked_back = [node for node in nodes if getattr(node, "element", None) in (Element.CURRENT, Element.EACH)]
        if any(isinstance(node, Attribute) and node.variable != read[-1] for node in looked_back):
            yield "quantified over an earlier variable"


def _node_features(node: Attribute | Aggregate | Length) -> Iterator[str]:
    if isinstance(node, Length):
        yield "a.LEN"
    elif isinstance(node, Attribute) and node.element is not Element.SINGLE:
        yield node.element.value
    elif isinstance(node, Aggregate):
        yield f"{node.function.value}({'a[..i-1]' if node.element is Element.SO_FAR else 'a[]'})"
        if node.name is None:
            yield "count without attribute"


def check_example(example: Example, number: int, rng: Random, report: Report) -> list[str]:
    """Checks an example under every algorithm, every fifth with ties too."""
    settings, wanted = settings_of(rng), oracle.matches(example.bound(), example.events)
    # Little room, so that the buffer is pruned and grows, in half of the pairs.
    run_buffer.NODES, run_buffer.RUNS = (16, 4) if number % 2 else (1 << 16, 1 << 10)
    # Indexes over as few runs as have one, in two thirds of the pairs.
    automaton_pass.FEW = 64 if number % 3 == 0 else 2
    report.matches += len(wanted)
    report.seen.update(features(example, wanted))
    if refused(example):
        report.seen["refused"] += 1
        return []
    report.seen.update(feature for setting in settings for feature in sase_pairs.setting_features(setting))
    found = check(example, settings, rng, wanted)
    return found + check_ties(example, rng, report.seen) if number % 5 == 0 else found


# --- sabotage: a test of the tests ------------------------------------------------------------------------------------


SPLIT = "if begun or (took and policy.strategy == ANY):"
LEAVES_EARLY = """if took and policy.strategy == NEXT and component + 1 < nfa.components.shape[1]:
            copy_run(runs, s, k, component + 1, runs.counts[component + 1])
            runs.counts[component + 1] += 1
            state[LIVE] += 1
        """

SABOTAGE: dict[str, Callable[[], None]] = {
    "wider-window": sase_pairs.SABOTAGE["wider-window"],
    "short-memory": sase_pairs.SABOTAGE["short-memory"],
    "unsteady-ids": sase_pairs.SABOTAGE["unsteady-ids"],
    "no-negation": rewritten(AutomatonPass, "negated", "in self._indexes[index]", "in ()"),
    # The ignore edge of skip_till_next_match is that of skip_till_any_match.
    "next-is-any": rewritten(edges, "_ignores", "return not selected", "return True"),
    # A run may leave a Kleene state on an event that does not begin the next component.
    "no-peeking": rewritten(edges, "_move", SPLIT, LEAVES_EARLY + SPLIT),
    "one-element-more": rewritten(edges, "_enable", "size < nfa.components[HIGH", "size <= nfa.components[HIGH"),
    # Runs are merged that differ in the last value that conditions read.
    "careless-merging": rewritten(merging, "_equivalent", "merge_bounds[s + 1])", "merge_bounds[s + 1] - 1)"),
    # What a detection has in common with an earlier one is copied though it has left the window, or with what comes after.
    "stale-copies": rewritten(match_buffer, "read_matches", "now - clock[begun[source]] >= window:", "now < 0:"),
    "long-copies": rewritten(match_buffer, "_copy", "(written[AFTER, node] if component == own else 0)", "0"),
    # A match may start with the last event of the one reported before it.
    "touching-matches": rewritten(non_overlap, "choose_apart", "first[best] > ended", "first[best] >= ended"),
    # A match that starts later is not preferred.
    "any-of-overlapping": rewritten(kernels, "prefer", "nodes[YOUNGEST, node] > nodes", "nodes[YOUNGEST, node] < nodes"),
}


SUITE = Suite(saseplus_example, check_example, sase_pairs.describe, SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE)
