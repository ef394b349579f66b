"""Rules that change, good and hostile ones, step by step: what a soak of rules goes through, with Spark or without.

The good rules are sequences, closures, negation, aggregates and conjunctions whose constants change, and which are paused,
removed and brought back. The hostile ones fail in all ways that a rule can: when it is read, parsed, planned, built or run.
All is decided by the seed. Without Spark, the good rules' rows are what a bucket gives that never sees another rule.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kleene.runtime.stream.bucket import MATCHES, PROBLEM
from support.fault_events import DELAY, NO_GOOD, SCHEMA, arriving
from support.rule_buckets import Book, driven, rules_plan
from support.stream_runs import END, Step

TEMPLATES = (
    "PATTERN SEQ(A a, B b) WHERE a.x < b.x AND b.x > {} WITHIN 20 seconds",
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x + {} WITHIN 20 seconds",
    "PATTERN SEQ(D d, E e) WHERE d.x + e.x > {} WITHIN 30 seconds",
    "PATTERN SEQ(A a, !(N n), B b) WHERE a.x < {} WITHIN 20 seconds",
    "PATTERN SEQ(A a, B b, !(N n)) WHERE a.x < b.x + {} WITHIN 10 seconds",
    "PATTERN AND(D d, E e, C c) WHERE d.x < e.x + {} WITHIN 10 seconds",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match(a, b[], c) {{ b[i].x > b[i-1].x - {} }} WITHIN 20 seconds",
    "PATTERN SEQ(A a, B b) WHERE a.x > {} AGG COUNT, SUM(b.x) GROUP BY k WITHIN 15 seconds",
    "PATTERN SEQ(B b, C c) WHERE b.x IN ({}, 7, 11, 40) RETURN b.number AS b, c.number AS c WITHIN 30 seconds",
    "PATTERN OR(SEQ(A a, D d), SEQ(B b, E e)) WHERE a.x < {} WITHIN 10 seconds",
)
"""Of good rules: each has one constant."""

AGAINST = "PATTERN SEQ(A a, B b) WHERE {} WITHIN 20 seconds"
HOSTILE: Mapping[str, str | bytes | None] = {
    "overflow": AGAINST.format("a.x < b.x * 9223372036854775807"),
    "raising": AGAINST.format("raising(b.x) >= 0"),
    "leaving": AGAINST.format("leaving(b.x) >= 0"),
    "greedy": AGAINST.format("greedy(b.x) >= 0"),
    "short": AGAINST.format("short(b.x) >= 0"),
    "slow": AGAINST.format("slow(b.x) >= 0"),
    "many": "PATTERN SEQ(ANY(A, B, C, D) a, ANY(A, B, C, D) b, ANY(B, C, D, E) c, ANY(A, B, C, E) d) WITHIN 60 seconds",
    "pattern": AGAINST.format(f"a.type LIKE '{'%_' * 300_000}'"),
    "kinds": AGAINST.format("NULL IN (3, 'x')"),
    "unknown": AGAINST.format("a.nothing = 1"),
    "open": "PATTERN SEQ(A a,",
    "deep": AGAINST.format("NOT (" * 5_000 + "a.x = 1" + ")" * 5_000),
    "wide": f"PATTERN SEQ({', '.join(f'A? a{number}' for number in range(12))}, B b) WITHIN 20 seconds",
    "noise": bytes(range(256)) * 4,
    "long": b"PATTERN SEQ(A a, B b) WITHIN 1 hour -- " + b"x" * 1_000_000,
    "pipe": None,
}
"""Texts, bytes that are none, and (None) something that is no file."""

BUDGET = {"seconds": 2.0, "matches": 2_000}
"""What `slow` and `many` use more of, and no good rule comes near."""

FAIL = 40
"""From this value of `x` on, functions fail: so most hostile rules report something before they do."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a soak of rules goes."""

    good: int = 40
    hostile: int = 10
    """At a time, of all that there are, in turn."""
    steps: int = 50
    changes: int = 200
    """In all steps together."""
    settled: int = 10
    """So many good rules never change."""
    seed: int = 1


@dataclass(slots=True)
class RuleSet:
    """All rules at a step."""

    good: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """Their texts, and whether they are paused."""
    bad: dict[str, str] = field(default_factory=dict)
    """Their names in `HOSTILE`."""
    changes: int = 0
    """So many since the beginning."""

    def texts(self, *, hostile: bool = True) -> dict[str, tuple[str, bool]]:
        """Those that are texts."""
        contents = {name: HOSTILE[kind] for name, kind in self.bad.items()} if hostile else {}
        return {**self.good, **{name: (text, False) for name, text in contents.items() if isinstance(text, str)}}


def rule_sets(course: Course) -> Iterator[RuleSet]:
    """The rules of step after step."""
    rng = Random(course.seed)
    names = [f"good{number:02}" for number in range(course.good)]
    templates = {name: TEMPLATES[number % len(TEMPLATES)] for number, name in enumerate(names)}
    kinds = sorted(HOSTILE)
    rng.shuffle(kinds)
    now = RuleSet({name: (text.format(rng.randrange(100)), False) for name, text in templates.items()})
    turn = 0
    for step in range(course.steps):
        while len(now.bad) < course.hostile:
            now.bad[f"bad{turn:03}"] = kinds[turn % len(kinds)]
            turn += 1
        yield RuleSet(dict(now.good), dict(now.bad), now.changes)
        due = course.changes * (step + 1) // (course.steps - 1) - now.changes
        for name in rng.sample(sorted(now.bad), min(due // 2, len(now.bad))):
            del now.bad[name]
            if rng.random() < 0.5:  # corrected, under its own name, by another bad text
                now.bad[name] = kinds[turn % len(kinds)]
                turn += 1
        free = names[course.settled :]
        for name in rng.sample(free, min(due - due // 2, len(free))):
            _change(now.good, name, templates[name].format(rng.randrange(100)), rng)
        now.changes += due


def _change(good: dict[str, tuple[str, bool]], name: str, text: str, rng: Random) -> None:
    """Another constant, or gone, or paused, or back."""
    chance = rng.random()
    if name not in good or chance < 0.6:
        good[name] = (text, False)
    elif chance < 0.8:
        good[name] = (good[name][0], not good[name][1])
    else:
        del good[name]


# --- what the hostile ones call -------------------------------------------------------------------------------------------


def functions() -> dict[str, Any]:
    """By name; made here, so that they travel to workers by value."""

    def failing(error: Any, *told: object) -> Any:
        def fails(values: pa.Array) -> pa.Array:
            if max(values.to_pylist()) >= FAIL:
                raise error(*told)  # a new one each time: one that is kept would keep all that failed
            return values

        return fails

    def short(values: pa.Array) -> pa.Array:
        return values[1:] if max(values.to_pylist()) >= FAIL else values

    def slow(values: pa.Array) -> pa.Array:
        began = time.thread_time()
        while time.thread_time() - began < BUDGET["seconds"]:
            pass
        return values

    made = {"raising": (ValueError, "not with this one"), "leaving": (SystemExit, 1), "greedy": (MemoryError,)}
    return {**{name: failing(*error) for name, error in made.items()}, "short": short, "slow": slow}


def named(problems: Sequence[str], sets: Sequence[RuleSet]) -> tuple[set[str], set[str]]:
    """The kinds of hostile rules that problems name, and rules that are named though they are none."""
    kinds: dict[str, set[str]] = {}
    for item in sets:
        for name, kind in item.bad.items():
            kinds.setdefault(name, set()).add(kind)
    told = {kind for name in problems for kind in kinds.get(name, ())}
    return told, {name for name in problems if name not in kinds}


# --- without Spark --------------------------------------------------------------------------------------------------------


def in_process(course: Course, *, hostile: bool, rows: int = 40, seed: int | None = None) -> tuple[list[str], list[str]]:
    """The rows that one bucket gives, and the rules that its problems name."""
    plan = rules_plan(SCHEMA, functions(), time="at", order_by="number", partition_by="k", budget=BUDGET)
    tables = [table.filter(pc.not_equal(table["fate"], NO_GOOD)) for table in islice(arriving(course.seed, rows), course.steps)]
    book, steps = Book(), []
    first, watermark = 0, None
    for now, table in zip(rule_sets(course), tables, strict=True):
        texts = now.texts(hostile=hostile)
        paused = [name for name, (_, is_paused) in texts.items() if is_paused]
        steps.append(Step((), watermark, book.write({name: text for name, (text, _) in texts.items()}, paused)))
        steps.append(Step(tuple(range(first, first + table.num_rows)), watermark))
        first += table.num_rows
        latest = pc.max(table["at"]).cast(pa.int64()).as_py() - DELAY * 1_000
        watermark = latest if watermark is None else max(watermark, latest)
        steps.append(Step((), watermark))
    left = driven(plan, pa.concat_tables(tables), [*steps, Step((), END)], seed)
    told = [item.query for _, item in left if item.kind == PROBLEM]
    return sorted(f"{item.query} {row}" for _, item in left if item.kind == MATCHES for row in item.rows.to_pylist()), told
