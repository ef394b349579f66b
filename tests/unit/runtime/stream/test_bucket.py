"""A query of a stream that fails is suspended: it is named, with the event and what to do, and no other notices it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.errors import DataError, LimitError
from kleene.engine.kernels import COMPILED, compile_filter, compiling_seconds
from kleene.runtime.stream.bucket import Bucket, BucketPlan, Labelled
from kleene.runtime.stream.state import Header
from support.fault_state import plan_of
from support.rule_buckets import Book, driven, problems_of, rows_of, rules_plan
from support.stream_runs import END, MemoryStore, Step

COUNT = 60
BAD = 37
"""The event with which those fail that fail with an event."""
EVENTS = pa.table(
    {
        "ts": [at // 2 * 2 if at == BAD else at for at in range(COUNT)],
        "type": ["ABC"[at % 3] for at in range(COUNT)],
        "k": [at % 2 for at in range(COUNT)],
        "x": [(1 << 62) + at if at == BAD else at * 7 % 10 for at in range(COUNT)],
        "s": [None if at % 5 == 0 else f"s{at}" for at in range(COUNT)],
        "b": [b"\xff" if at == BAD else b"b" for at in range(COUNT)],
    }
)
STEPS = [Step(tuple(range(begin, begin + 10)), begin or None) for begin in range(0, COUNT, 10)] + [Step((), END)]

GOOD = {
    "pair": "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 9",
    "triple": "PATTERN SEQ(A a, B b, C c) WHERE a.k = b.k WITHIN 9",
    "other": "PATTERN SEQ(B b, C c) WHERE b.k = c.k WITHIN 12",
    "silent": "PATTERN SEQ(A a, B b, !(C c)) WITHIN 4",
    "rising": "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match(a, b[], c) { b[i].s > b[i-1].s } WITHIN 12",
    "counted": "PATTERN SEQ(A a, B b) AGG COUNT WITHIN 9",
    "summed": "PATTERN SEQ(B a, C b) AGG COUNT WITHIN 9",
}


def broken(values: pa.Array) -> pa.Array:
    if any(value.as_py() > 1 << 61 for value in values):
        raise ZeroDivisionError("not with this one")
    return values


def greedy(values: pa.Array) -> pa.Array:
    raise MemoryError


def slow(values: pa.Array) -> pa.Array:
    began = time.thread_time()
    while time.thread_time() - began < 0.3:
        pass
    return values


class OddError(Exception):
    def __str__(self) -> str:
        raise OddError


def fails_with(error: BaseException) -> Callable[[pa.Array], pa.Array]:
    def fails(values: pa.Array) -> pa.Array:
        if any(value.as_py() > 1 << 61 for value in values):
            raise error
        return values

    return fails


FUNCTIONS = {
    "broken": broken,
    "greedy": greedy,
    "slow": slow,
    "leaving": fails_with(SystemExit(3)),
    "odd": fails_with(OddError()),
    "talking": fails_with(ValueError("y\udcff" * 100_000)),
}

AT_EVENT = {
    "an overflow": ("PATTERN SEQ(A a, B b) WHERE a.k = b.k AND a.x < b.x * 4 WITHIN 9", "overflow"),
    "a function": ("PATTERN SEQ(A a, B b) WHERE broken(b.x) > 1 WITHIN 9", "ZeroDivisionError: not with this one"),
    "a function that ends the process": (
        "PATTERN SEQ(A a, B b) WHERE leaving(b.x) > 1 WITHIN 9",
        "'leaving' failed: SystemExit: 3",
    ),
    "an error without words": ("PATTERN SEQ(A a, B b) WHERE odd(b.x) > 1 WITHIN 9", "'odd' failed: OddError"),
    "an error of many words": ("PATTERN SEQ(A a, B b) WHERE talking(b.x) > 1 WITHIN 9", r"(?s)'talking' failed: .*udcffy"),
    "a tie": ("PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { a.x > 0 } WITHIN 9", "simultaneous|same time|tie"),
    "no text": ("PATTERN SEQ(A a, B b) WITHIN 9 RETURN b.b AS raw", "(?i)utf"),
}
WITHOUT_EVENT = {
    "no memory": ("PATTERN SEQ(A a, B b) WHERE greedy(b.x) > 1 WITHIN 9", "MemoryError"),
    "too many matches": ("PATTERN SEQ(A a, B b) WHERE a.k >= 0 AND b.k >= 0 WITHIN 60", "more than 40 matches"),
    "too much": (
        f"PATTERN SEQ(A a, B b) WITHIN 9 RETURN '{'y' * 200_000}' AS y",
        "matches of 'bad' of more than 0.5 MB",
    ),
    "too slow": ("PATTERN SEQ(A a, B b) WHERE slow(b.x) > 1 WITHIN 9", "more than 0.25 seconds of CPU time"),
}
HOSTILE = AT_EVENT | WITHOUT_EVENT


def budget(name: str) -> dict[str, float]:
    return {"too many matches": {"matches": 40}, "too slow": {"seconds": 0.25}, "too much": {"megabytes": 0.5}}.get(name, {})


def stream_of(
    rules: Callable[[int, Book], str | None], plan: BucketPlan, seed: int | None = None
) -> list[tuple[int, Labelled]]:
    book = Book()
    steps = [replace(step, rules=rules(number, book)) for number, step in enumerate(STEPS)]
    return driven(plan, EVENTS, steps, seed)


def always(**texts: str) -> Callable[[int, Book], str | None]:
    return lambda number, book: book.write(texts) if number == 0 else None


@pytest.fixture(scope="module")
def plain() -> list[str]:
    """What the good rules find without others."""
    found = rows_of(stream_of(always(**GOOD), rules_plan(EVENTS.schema)))
    assert {line.split()[1] for line in found} == set(GOOD)
    return found


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "too slow")) for name in HOSTILE])
def test_a_rule_that_fails_does_not_touch_the_others(name: str, shared: bool, plain: list[str]) -> None:
    text, told = HOSTILE[name]
    plan = rules_plan(EVENTS.schema, FUNCTIONS, plan=None if shared else {}, budget=budget(name))
    good = {key: value for key, value in GOOD.items() if name != "too many matches" or key == "silent"}
    for seed in (None, 1):
        left = stream_of(always(**good, bad=text), plan, seed)
        assert rows_of(left, list(good)) == [line for line in plain if line.split()[1] in good]
        ((step, rule, version, problem),) = problems_of(left)
        assert (rule, version) == ("bad", 1)
        assert problem.startswith("'bad' is suspended: ")
        assert len(problem) < 3_000
        assert re.search(told, problem), problem
        assert "correct it, or remove it" in problem
        assert not [line for line in rows_of(left, ["bad"]) if int(line.split()[0]) >= step]
        if name in AT_EVENT:
            assert f"at the event ts = {EVENTS['ts'][BAD].as_py()}" in problem
            assert step == 4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("PATTERN SEQ(A a, B b) WHERE NULL IN (3, 'x') WITHIN 9", "cannot compare 3, an integer, with 'x', a string"),
        (f"PATTERN SEQ(A a, B b) WHERE a.s LIKE '{'%_' * 300_000}' WITHIN 9", "the pattern of LIKE has 600,000 characters"),
        (f"PATTERN SEQ(A a, B b) WHERE a.{'x' * 300_000} = 1 WITHIN 9", "(?s)unknown attribute 'xxx.*hint: known: 'b', 'k'"),
        (f"PATTERN SEQ(A a, B b) WHERE {'NOT (' * 30_000}a.x = 1{')' * 30_000} WITHIN 9", "nested deeper"),
        ("PATTERN SEQ(A a,", "not closed"),
    ],
    ids=["mixed kinds", "a long pattern", "a long name", "deep", "no query"],
)
def test_a_rule_that_cannot_be_built_or_run_at_all(text: str, told: str, plain: list[str]) -> None:
    left = stream_of(always(**GOOD, bad=text), rules_plan(EVENTS.schema))
    assert rows_of(left, list(GOOD)) == plain
    for _, rule, version, problem in problems_of(left):
        assert (rule, version) == ("bad", 1)
        assert re.search(told, problem)
        assert len(problem) < 3_000
    assert len(problems_of(left)) <= 1


def test_several_rules_that_share_a_plan_fail_at_once(plain: list[str]) -> None:
    texts = [AT_EVENT["an overflow"][0], AT_EVENT["a function"][0], WITHOUT_EVENT["no memory"][0]]
    bad = {f"bad{number}": text for number, text in enumerate(texts)}
    for seed in (None, 3):
        left = stream_of(always(**bad, **GOOD), rules_plan(EVENTS.schema, FUNCTIONS), seed)
        assert rows_of(left, list(GOOD)) == plain
        assert sorted(rule for _, rule, _, _ in problems_of(left)) == sorted(bad)


def test_the_search_for_the_event_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kleene.runtime.stream.bucket.SEARCH_SECONDS", 0.0)
    left = stream_of(always(**GOOD, bad=AT_EVENT["a function"][0]), rules_plan(EVENTS.schema, FUNCTIONS))
    ((_, _, _, problem),) = problems_of(left)
    assert "not with this one" in problem
    assert "at the event" not in problem


def test_a_limit_names_the_event_at_which_it_is_met(plain: list[str]) -> None:
    bad = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match(a, b[], c) { a.k >= 0 } WITHIN 60"
    good = {name: text for name, text in GOOD.items() if name not in ("counted", "summed")}
    left = stream_of(always(**good, bad=bad), rules_plan(EVENTS.schema, limits={"matches": 50}))
    assert rows_of(left, list(good)) == [line for line in plain if line.split()[1] in good]
    ((_, rule, _, problem),) = problems_of(left)
    assert rule == "bad"
    assert re.search(r"at the event ts = \d+, type = C", problem), problem


def test_queries_whose_shared_plan_fails_are_matched_alone(plain: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise IndexError("a mistake in the shared plan")

    monkeypatch.setattr("kleene.engine.shared.matcher.SharedMatcher.advance", fails)
    shared = {name: text for name, text in GOOD.items() if name not in ("counted", "summed")}
    wanted = [line for line in plain if line.split()[1] in shared]
    left = stream_of(always(**shared), rules_plan(EVENTS.schema))
    assert (rows_of(left), problems_of(left)) == (wanted, [])
    plan, store, rules = rules_plan(EVENTS.schema), MemoryStore(), Book().write(shared)
    left = []
    for number, step in enumerate(STEPS):  # restarted after each micro-batch
        arrived = [EVENTS.slice(step.rows[0], len(step.rows))] if step.rows else []
        left += [(number, item) for item in Bucket(plan, store).process(store, arrived, step.watermark, rules)]
    assert (rows_of(left), problems_of(left)) == (wanted, [])


def test_a_rule_that_is_corrected_removed_or_resumed_starts_again() -> None:
    bad, good = AT_EVENT["a function"][0], GOOD["pair"]
    plan = rules_plan(EVENTS.schema, FUNCTIONS)
    store, book = MemoryStore(), Book()

    def step(begin: int, end: int, watermark: int, *given: Any, **rules: str) -> list[str]:
        text = book.write(rules, *given) if rules or given else None
        bucket = Bucket(plan, store)
        left = list(bucket.process(store, [EVENTS.slice(begin, end - begin)], watermark, text))
        assert store.blob is not None
        assert Header.decode(store.blob).suspended == bucket.header.suspended
        return [f"{item.kind} {item.query} {item.version}" for item in left]

    def suspended() -> list[tuple[str, int]]:
        assert store.blob is not None
        return [(item.query, item.version) for item in Header.decode(store.blob).suspended]

    step(0, 30, 0, bad=bad, pair=good)
    assert "matches bad 1" in step(30, 40, 30)
    left = step(40, 45, 40)
    assert "problem bad 1" in left
    assert "matches bad 1" not in left
    assert suspended() == [("bad", 1)]
    assert "matches bad 1" not in step(45, 46, 45), "it stays suspended, and says so once"
    step(46, 47, 46, ["bad"], bad=bad, pair=good)
    assert suspended() == []
    step(47, 54, 47, bad=bad, pair=good)
    assert "matches bad 1" in step(54, 60, 54, bad=f"{bad} RETURN a.x AS x", pair=good), "resumed"
    left = step(60, 60, 60)
    assert "matches bad 2" in left
    assert not any(line.startswith("problem") for line in left)


def test_a_rule_that_is_removed_leaves_no_trace() -> None:
    bad, store, book = AT_EVENT["an overflow"][0], MemoryStore(), Book()
    bucket = Bucket(rules_plan(EVENTS.schema), store)
    list(bucket.process(store, [EVENTS], 0, book.write({"bad": bad})))
    list(bucket.process(store, [], 50))
    assert len(bucket.header.suspended) == 1
    list(bucket.process(store, [], 50, book.write({})))
    assert bucket.header.suspended == bucket.header.units == ()


def test_a_rule_without_a_window_does_not_fill_the_log() -> None:
    texts = {"pair": GOOD["pair"], "ever": "PATTERN SEQ(A a, B b) WHERE a.x > 5 AND b.x < 0"}
    left = stream_of(always(**texts), rules_plan(EVENTS.schema, max_events=39))
    ((_, rule, _, problem),) = problems_of(left)
    assert rule == "ever"
    assert "has no window" in problem
    assert rows_of(left, ["pair"]) == rows_of(stream_of(always(pair=GOOD["pair"]), rules_plan(EVENTS.schema)))
    with pytest.raises(LimitError, match="a bucket of the stream would keep"):
        stream_of(always(pair=GOOD["pair"]), rules_plan(EVENTS.schema, max_events=9))


def test_a_suspended_query_whose_matches_are_events_says_so() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { a.x > 0 } WITHIN 9 RETURN a.x AS x INTO Pair"
    plan, store = replace(plan_of({"bad": text}), suspends=True), MemoryStore()
    bucket = Bucket(plan, store)
    rows = EVENTS.select(["ts", "type", "k", "x"])
    (left,) = [*bucket.process(store, [rows], None), *bucket.process(store, [], END)]
    assert "no more events 'Pair' are made" in left.rows["problem"][0].as_py()


def test_a_rule_that_fails_when_it_starts_is_told_by_the_bucket_in_which_it_had_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new rule fails in all buckets alike; one that had begun fails because of what this bucket has seen."""
    plan, store, book = rules_plan(EVENTS.schema), MemoryStore(), Book()
    bucket = Bucket(plan, store)
    list(bucket.process(store, [EVENTS], 30, book.write({name: GOOD[name] for name in ("pair", "other")})))
    list(bucket.process(store, [], 40))

    def fails(*_: Any) -> Any:
        raise ValueError("not now")

    monkeypatch.setattr(Bucket, "_started", fails)
    left = list(bucket.process(store, [], 40, book.write({name: GOOD[name] for name in ("pair", "silent")})))
    assert {item.query: item.everywhere for item in left if item.kind == "problem"} == {"pair": False, "silent": True}


def test_a_query_of_a_workload_stops_the_stream_or_is_suspended() -> None:
    queries = {
        "pair": "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 9",
        "bad": "PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) { a.x > 0 } WITHIN 9",
    }
    rows = EVENTS.select(["ts", "type", "k", "x"])

    def found(**further: Any) -> list[Labelled]:
        store = MemoryStore()
        bucket = Bucket(replace(plan_of(queries), **further), store)
        return [*bucket.process(store, [rows], None), *bucket.process(store, [], END)]

    with pytest.raises(DataError, match="query 'bad': "):
        found()
    left = found(suspends=True)
    assert {(item.kind, item.query) for item in left} == {("matches", "pair"), ("problem", "bad")}
    wanted = kleene.query(queries["pair"], name="pair").match(rows, time="ts", type="type")
    assert sum(item.rows.num_rows for item in left if item.kind == "matches") == wanted.num_rows


def test_the_use_of_the_budget_is_told() -> None:
    plan, store, book = rules_plan(EVENTS.schema, budget={"matches": 1000}), MemoryStore(), Book()
    bucket = Bucket(plan, store)
    list(bucket.process(store, [EVENTS], 0, book.write({"pair": GOOD["pair"]})))
    left = list(bucket.process(store, [], END))
    (spent,) = bucket.spent
    assert spent.matches["pair"] == sum(item.rows.num_rows for item in left) > 0
    assert spent.share >= spent.matches["pair"] / 1000
    assert (spent.busiest, spent.seconds > 0) == ("pair", True)


@pytest.mark.slow
def test_compiling_is_not_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `slow` did nothing but compile."""
    monkeypatch.setattr("kleene.runtime.stream.budget.compiling_seconds", time.thread_time)
    text, _ = WITHOUT_EVENT["too slow"]
    left = stream_of(always(slow=text), rules_plan(EVENTS.schema, FUNCTIONS, budget=budget("too slow")))
    assert problems_of(left) == []
    assert rows_of(left)


def test_what_is_compiled_is_timed() -> None:
    before = compiling_seconds()
    source = "def last(level, bound, stack, selected, n, ints, floats, valid, constants): return n - 1"
    compile_filter(source)
    assert compiling_seconds() > before or not COMPILED


def test_a_process_does_not_take_the_functions_or_types_of_another_stream() -> None:
    """The options and the text are the same, the functions and the kind of a column are not."""
    text = {"pair": "PATTERN SEQ(A a, B b) WHERE bad(b.x) > 5 WITHIN 9 RETURN b.x AS x"}
    other = EVENTS.set_column(EVENTS.schema.get_field_index("x"), "x", EVENTS["x"].cast(pa.string()))
    zero, same = (
        rules_plan(EVENTS.schema, {"bad": lambda x: pa.array([0] * len(x))}),
        rules_plan(EVENTS.schema, {"bad": lambda x: x}),
    )
    assert rows_of(stream_of(always(**text), zero)) == []
    assert rows_of(stream_of(always(**text), same))
    book = Book()
    rules = book.write({"pair": "PATTERN SEQ(A a, B b) WHERE b.x = '3' WITHIN 9"})
    numbers, texts = rules_plan(EVENTS.schema), rules_plan(other.schema)
    assert numbers.compile is not None
    assert texts.compile is not None
    assert numbers.compile(rules).problems
    assert not texts.compile(rules).problems
