"""Random (query, stream) pairs whose integers lie about the ends of 64 bits: every plan gives the oracle's answer, or an error
exactly where the oracle has one.

Queries are those of the other suites with a condition or two that compute with integers. Each pair is answered by active
instance stacks, lazily and by every algorithm of automata, as far as they answer it, in random cuts.

As a script: `KLEENE_KERNELS=python python tests/support/overflow_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

import kleene
from kleene.common.errors import BindingError, DataError, PlanningError
from kleene.engine.passes.reporting import ReportingMatcher
from kleene.language.parser import parse
from kleene.pattern.operators import Event
from kleene.pattern.operators import events as components
from kleene.pattern.policies import Strategy
from kleene.pattern.predicates import Expression, conjunction
from kleene.plan.options import CHOICES, LazyOptions, NfaOptions
from kleene.testing import oracle
from support import aggregate_pairs, nfa_pairs, sase_pairs
from support.nfa_pairs import bare
from support.pair_runs import Report, Suite, main, rewritten
from support.random_aggregate import AggregateExample, aggregate_example
from support.random_queries import chance
from support.sase_pairs import Setting
from support.strategies import Example, any_match_example, example, saseplus_example

MAKERS = (example, saseplus_example, any_match_example)

LEAST, GREATEST = -(2**63), 2**63 - 1

LARGE = (LEAST, LEAST + 1, -(2**62) - 1, -(2**62), -7, 0, 1, 3, 2**62 - 1, 2**62, 2**62 + 1, GREATEST - 2, GREATEST)

SINGLE = (
    "{a}.x + 1 > {b}.x", "{a}.x + {b}.x > 0", "{a}.x - {b}.x < 5", "-{a}.x < {b}.x", "abs({a}.x) > 3", "{a}.x * 2 > {b}.x",
    "NOT ({a}.x + {b}.x > 0)", "({a}.y > 4 OR {a}.x + {b}.x > 0)", "NOT ({a}.y > 7 AND {b}.x * 3 > {a}.x)",
    "{a}.x + 5 > 0", "{a}.x * 3 IS NOT NULL", "{b}.x BETWEEN {a}.x - 9 AND {a}.x + 9", "abs({a}.x) + {b}.x != 7",
    "({a}.x + 1 > 0) = ({b}.y > 3)",
)  # fmt: skip
"""Conditions on two single events, which may be the same."""

KLEENE = (
    "sum({a}[].x) > 0", "sum({a}[].x) > {b}.x", "avg({a}[].x) > 0", "{a}[].x + 1 > 0", "{a}[1].x + {b}.x > 0",
    "({a}.LEN < 2 OR sum({a}[].x) < 7)", "{a}[i].x - {a}[i-1].x > 0", "{a}[i].x > sum({a}[..i-1].x)", "{a}[i].x + {b}.x != 3",
    "{a}[].x * 2 != {b}.x", "{a}[{a}.LEN].x + 1 > {b}.x", "avg({a}[..i-1].x) < {a}[i].x",
)  # fmt: skip
"""Conditions on a Kleene variable and a single event."""


def overflow_example(seed: int, number: int = 0) -> Example:
    """Example `number` of a seed."""
    rng = Random(f"{seed}:{number}:overflow")
    found = MAKERS[number % len(MAKERS)](seed, number)
    events = [{**row, "x": row["x"] if row["x"] is None else _value(rng)} for row in found.events]
    query = found.query
    further = [
        condition for _ in range(rng.choice((1, 1, 2))) if (condition := _condition(rng, list(components(query.pattern))))
    ]
    asked = [item for item in (query.where, *further) if item is not None]
    made = replace(found, events=events, query=replace(query, where=conjunction(asked), returns=(), into=None))
    try:
        made.bound()
    except BindingError:  # no type of a component has x
        return replace(made, query=query)
    return made


def _value(rng: Random) -> int:
    return rng.choice(LARGE) if chance(rng, 0.35) else rng.randrange(10)


def _condition(rng: Random, parts: list[Event]) -> Expression | None:
    singles = [event for event in parts if not event.is_kleene]
    positive = [event for event in singles if not event.negated]
    repeated = [event for event in parts if event.is_kleene]
    if repeated and chance(rng, 0.6):
        one, other = rng.choice(repeated), rng.choice(positive or [None])  # type: ignore[list-item]
        texts = [text for text in KLEENE if other is not None or "{b}" not in text]
    elif singles and positive:
        one, other = rng.choice(singles), rng.choice(positive)
        texts = list(SINGLE)
    else:
        return None
    text = rng.choice(texts).format(a=one.variable, b=other.variable if other else "")
    written = f"{one.types[0]}{'+' if one.is_kleene else ''} {one.variable}{'[]' if one.is_kleene else ''}"
    pattern = written if other in (None, one) else f"SEQ({written}, {other.types[0]} {other.variable})"
    return parse(f"PATTERN {pattern} WHERE {text}").where


# --- answers ----------------------------------------------------------------------------------------------------------


def settings_of(rng: Random, found: Example) -> Iterator[Setting]:
    """Every mechanism, some of them in random cuts."""
    plans: list[Any] = [NfaOptions(algorithm) for algorithm in CHOICES["nfa"]["algorithm"]]
    if found.query.strategy is Strategy.SKIP_TILL_ANY_MATCH:
        plans += [
            LazyOptions(),
            LazyOptions("eager"),
            LazyOptions("chain", planner=rng.choice(CHOICES["lazy"]["planner"])),
        ]
        plans += [LazyOptions("tree"), sase_pairs.random_setting(rng).options, sase_pairs.random_setting(rng).options]
    for options in plans:
        setting = sase_pairs.random_setting(rng) if chance(rng, 0.3) else Setting()
        yield replace(setting, options=options)


def outcome(answer: Callable[[], Any]) -> Any:
    """An answer, "error" for integers that leave 64 bits, None where there is no such plan."""
    try:
        return answer()
    except PlanningError:
        return None
    except DataError as error:
        if "64 bits" not in str(error):
            raise
        return "error"


def check(found: Example, number: int, rng: Random, report: Report) -> list[str]:
    """How the engine's answers differ from the oracle's."""
    shown = bare(found)
    bound = shown.bound()
    wanted = outcome(lambda: nfa_pairs.wanted_identities(shown, oracle.matches(bound, shown.events)))
    report.seen["error" if wanted == "error" else "matches" if wanted else "no match"] += 1
    seen: Counter[str] = Counter()
    audited = ReportingMatcher._audit
    try:
        ReportingMatcher._audit = _counting(audited, seen)  # type: ignore[method-assign]
        differences = list(_differences(shown, rng, wanted))
    finally:
        ReportingMatcher._audit = audited  # type: ignore[method-assign]
    report.seen["audited"] += bool(seen)
    report.seen["audited without error"] += bool(seen) and wanted != "error"
    report.seen[shown.query.strategy.value + (" error" if wanted == "error" else "")] += 1
    return differences


def _differences(shown: Example, rng: Random, wanted: Any) -> Iterator[str]:
    for setting in settings_of(rng, shown):
        given = outcome(lambda: nfa_pairs.identities(shown, sase_pairs.answer(shown, setting)))  # noqa: B023 - called at once
        if given is not None and given != wanted:
            yield f"{setting}: {_short(given)}, not {_short(wanted)}"
        if isinstance(setting.options, NfaOptions) and chance(rng, 0.2):
            packed = outcome(lambda: kleene.count(nfa_pairs.compressed(shown, setting)))  # noqa: B023 - called at once
            count = wanted if wanted == "error" else wanted.total()
            if packed is not None and packed != count:
                yield f"compressed, {setting}: {packed}, not {count}"


def _counting(audited: Any, seen: Counter[str]) -> Any:
    def counted(self: Any, watermark: int | None) -> None:
        seen["audited"] += bool(self.audit is not None and self._working.noticed.concerns(self._working.ts))
        audited(self, watermark)

    return counted


def _short(given: Any) -> str:
    return given if given == "error" else f"{given.total()} matches: {list(given)[:3]}"


SABOTAGE = {"no-audit": rewritten(ReportingMatcher, "_audit", "self.audit is not None and", "False and")}

SUITE = Suite(overflow_example, check, sase_pairs.describe, SABOTAGE)


# --- AGG --------------------------------------------------------------------------------------------------------------


def aggregate_overflow_example(seed: int, number: int = 0) -> AggregateExample:
    """Example `number` of a seed, with AGG."""
    rng = Random(f"{seed}:{number}:aggregates")
    found = aggregate_example(seed, number)
    events = []
    for row in found.events:
        x = row["x"] if row["x"] is None else _value(rng)
        events.append({**row, "x": x, "xa": x if x is None else min(abs(x), GREATEST)})
    return replace(found, events=events)


def check_aggregates(found: AggregateExample, number: int, rng: Random, report: Report) -> list[str]:
    """How the rows of every plan differ from the oracle's."""
    pair = aggregate_pairs.Pair(found)
    report.seen["error" if pair.overflows else "rows"] += 1
    settings = [(name, aggregate_pairs.random_setting(rng)) for name in aggregate_pairs.PLANS]
    return aggregate_pairs.check(pair, settings, report.seen)


AGGREGATES = Suite(aggregate_overflow_example, check_aggregates, aggregate_pairs.describe, {})

if __name__ == "__main__":
    main(__doc__, SUITE, aggregates=AGGREGATES)
