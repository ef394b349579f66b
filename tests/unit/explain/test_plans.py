"""What explain says of lazy plans and of aggregates, and what it measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.engine.matcher import Metrics
from kleene.explain.drawing import svg
from kleene.explain.plans import explain
from kleene.interfaces import analyze as analysis
from kleene.interfaces.analyze import Analysis, analyze
from kleene.interfaces.cli import main
from kleene.interfaces.options import options_of
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.plan.aggregation import MatchThenAggregate
from kleene.plan.counting.counters import CounterPlan
from kleene.plan.optimizer import make_plan
from kleene.plan.order.statistics import Statistics
from kleene.plan.patterns import LazyPlan, is_lazy

COLUMNS = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64()), ("s", pa.string())])
ROLES = {"time": "ts", "type": "type"}
RISE = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AND c.k = 1 WITHIN 9"


def plan_of(text: str, plan: Any = None, statistics: Statistics | None = None) -> LazyPlan:
    bound = bind(parse(text, name="q"), schema_of_arrow(COLUMNS, **ROLES))  # type: ignore[arg-type]
    made = make_plan(bound, plan, statistics=statistics)
    assert is_lazy(made)
    return made


def part(plan: Any, heading: str) -> list[str]:
    """The lines of the operators with a heading, without it."""
    found: list[str] = []
    inside = False
    for line in explain(plan).split("\n"):
        if not line.startswith("  "):
            inside = line.startswith(heading)
        elif inside:
            found.append(line.removeprefix("    "))
    return found


# Plans.


def test_a_chain_in_full() -> None:
    text = "PATTERN SEQ(A a, !(N n), B b, C c) WHERE [k] AND a.x < b.x AND b.x < c.x AND a.s = 'u' WITHIN 9"
    assert explain(plan_of(text, {"order": ["c", "a", "b"]})) == (
        "plan of 'q'\n"
        "  | PATTERN SEQ(A a, !(N n), B b, C c)\n"
        "  | WHERE [k] AND a.x < b.x AND b.x < c.x AND a.s = 'u'\n"
        "  | WITHIN 9\n"
        "TF  transformation\n"
        "    one struct per variable: a, b, c\n"
        "NG  negation (index by key)\n"
        "    no N n in (a, b)\n"
        "      of the same k\n"
        "BN  binding (chain)\n"
        "    window: 9\n"
        "    take c in (start, finish)\n"
        "    take a in (start, c) where a.x < c.x (implied through b)\n"
        "    take b in (a, c) where a.x < b.x AND b.x < c.x\n"
        "SS  scan\n"
        "    A a where a.s = 'u'\n"
        "    B b\n"
        "    C c\n"
        "    !(N n)\n"
        "    partitioned by k\n"
        "EV  events\n"
        "    columns: ts, type, k, x, s\n"
        "    rows: relevant ones only\n"
        "    order: partial (events that tie are simultaneous)\n"
        "    distribution: by k"
    )


def test_an_implied_condition_is_not_asked_when_the_events_between_are_bound() -> None:
    assert [line for line in part(plan_of(RISE, {"order": ["c", "b", "a"]}), "BN") if "implied" in line] == []
    assert "condition: a.x < c.x (implied through b)" in part(plan_of(RISE), "BN")


CHOSEN = "chosen while running, from the rates and selectivities of the events"
CONDITIONS = ["condition: a.x < b.x", "condition: b.x < c.x", "condition: a.x < c.x (implied through b)"]


@pytest.mark.parametrize(
    ("plan", "mechanism", "lines"),
    [
        (
            None,
            "chain, or active instance stacks if they cost less",
            [f"order: {CHOSEN}, and again when they change (planner: dynamic)", *CONDITIONS],
        ),
        (
            {"mechanism": "chain", "planner": "rate", "adaptive": False},
            "chain",
            [f"order: {CHOSEN} (planner: rate)", *CONDITIONS],
        ),
        (
            {"mechanism": "tree", "selectivity": "counts", "adaptive": False},
            "tree",
            [
                f"first: {CHOSEN}",
                "next, for every partial match: the component with the fewest candidates in scope",
                "states: 11",
                *CONDITIONS,
            ],
        ),
        (
            {"mechanism": "eager"},
            "eager: in order of appearance",
            ["take a in (start, finish)", "take b in (a, finish) where a.x < b.x", "take c in (b, finish) where b.x < c.x"],
        ),
    ],
)
def test_where_the_order_comes_from(plan: Any, mechanism: str, lines: list[str]) -> None:
    made = plan_of(RISE, plan)
    assert f"BN  binding ({mechanism})" in explain(made).split("\n")
    assert part(made, "BN") == ["window: 9", *lines]


def test_partial_orders_kleene_functions_and_alternatives() -> None:
    text = (
        "PATTERN OR(SEQ(AND(A a, A+ b[], C c), D{2,3} d[]), D e) "
        "WHERE a.x < c.x AND b[i].x > b[i-1].x AND abs(a.x - c.x) > 2 AND sum(b[].x) > 1 WITHIN 10 EVENTS OUTPUT NON-OVERLAP"
    )
    plan = plan_of(text, {"order": ["d", "a", "b", "c", "e"]})
    assert [line for line in explain(plan).split("\n") if line.startswith("BN")] == [
        "BN  binding (chain) of alternative 1",
        "BN  binding (chain) of alternative 2",
    ]
    assert part(plan, "BN") == [
        "window: 10 events",
        "take d[] in (start, finish)",
        "take a in (start, d[1])",
        "take b[] in (start, d[1]) where b[i].x > b[i-1].x AND sum(b[].x) > 1 (not compiled) AND distinct from a",
        "take c in (start, d[1]) where a.x < c.x AND abs(a.x - c.x) > 2 (not compiled)",
        "window: 10 events",
        "take e in (start, finish)",
    ]
    assert part(plan, "SS")[1] == "A b[]"
    assert "rows: all, for they count in a window of events" in part(plan, "EV")
    assert part(plan, "NO")[1] == "chosen among the matches"


def test_statistics_and_estimated_costs() -> None:
    known = Statistics({"a": 10.0, "b": 20.0, "c": 0.1}, {"a.x < b.x": 0.5, "b.x < c.x": 0.25, "a.x < c.x": 0.125})
    plan = plan_of(RISE, statistics=known)
    assert part(plan, "ST") == [
        "rate of a: 10 per unit of time",
        "rate of b: 20 per unit of time",
        "rate of c: 0.1 per unit of time",
        "selectivity 0.5: a.x < b.x",
        "selectivity 0.25: b.x < c.x",
        "selectivity 0.125: a.x < c.x",
    ]
    head, *rows = part(plan, "CH")
    assert head.split() == ["estimated", "per", "unit", "of", "time", "order", "evaluations", "partial", "matches", "time"]
    names = [row.split("  ")[0] for row in rows]
    assert {"eager", "tree", "active instance stacks"} < set(names)
    assert names[-1] == "eager", "the dearest comes last"
    assert next(row for row in rows if row.startswith("eager")).split()[1:4] == ["a,", "b,", "c"]
    assert "from the statistics" in explain(plan)


# Aggregates.


def aggregate_plan(text: str, plan: Any = None) -> CounterPlan | MatchThenAggregate:
    made = make_plan(bind(parse(text, name="q"), schema_of_arrow(COLUMNS, **ROLES)), plan)  # type: ignore[arg-type]
    assert isinstance(made, CounterPlan | MatchThenAggregate)
    return made


def test_counters_in_full() -> None:
    text = """PATTERN SEQ(A a, !(N n), B b) WHERE a.s = 'u' GROUP BY k AGG COUNT, SUM(b.x) AS total HAVING total > 3
              EMIT ON CHANGE WITHIN 9"""
    assert explain(aggregate_plan(text)) == (
        "plan of 'q'\n"
        "  | PATTERN SEQ(A a, !(N n), B b)\n"
        "  | WHERE a.s = 'u'\n"
        "  | GROUP BY k\n"
        "  | AGG COUNT, SUM(b.x) AS total\n"
        "  | HAVING total > 3\n"
        "  | EMIT ON CHANGE\n"
        "  | WITHIN 9\n"
        "AG  aggregation (no match is built)\n"
        "    count = COUNT\n"
        "    total = SUM(b.x)\n"
        "    for each k\n"
        "    a row at every b, and when expiry changes a value\n"
        "    having total > 3\n"
        "PC  prefix counters\n"
        "    prefixes of a, no n, b\n"
        "    window of 9: counts of segments on two stacks, or start events marked one by one if that costs less\n"
        "    counters for each k\n"
        "SS  scan\n"
        "    A a where a.s = 'u'\n"
        "    !(N n)\n"
        "    B b\n"
        "    partitioned by k\n"
        "EV  events\n"
        "    columns: ts, type, k, x, s\n"
        "    rows: relevant ones only\n"
        "    distribution: by k"
    )


@pytest.mark.parametrize(
    ("text", "plan", "lines"),
    [
        ("PATTERN SEQ(A a, B b) AGG COUNT", None, ["prefixes of a, b", "no window: one set of counters, nothing expires"]),
        (
            "PATTERN SEQ(A a, B b) WHERE [k] AGG COUNT WITHIN 9",
            {"window": "marking"},
            [
                "prefixes of a, b",
                "window of 9: start events marked one by one, each with its own counters",
                "counters for each k, whose values are added up",
            ],
        ),
        (
            "PATTERN SEQ(A a, B? b, C c, !(N n)) AGG COUNT WITHIN 9",
            {"window": "stacks"},
            [
                "prefixes of a, b, c, no n",
                "prefixes of a, c, no n",
                "window of 9: counts of segments on two stacks: the cost of an event does not grow with the live start events",
            ],
        ),
        (
            "PATTERN SEQ(A a, B b, !(N n), C c) WHERE c.x > b.x AND [k] AGG COUNT WITHIN 9",
            None,
            [
                "prefixes of a, b, no n, c",
                "sums over pairs with b.x < c.x, by the order of the values",
                "window of 9: what a start event adds to the sums is taken back when it expires",
                "counters for each k, whose values are added up",
            ],
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE a.x != b.k AGG COUNT",
            None,
            [
                "prefixes of a, b",
                "sums over pairs with a.x != b.k, by the order of the values",
                "no window: one set of counters, nothing expires",
            ],
        ),
    ],
)
def test_what_counters_count(text: str, plan: Any, lines: list[str]) -> None:
    assert part(aggregate_plan(text, plan), "PC") == lines


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        (
            "PATTERN SEQ(A a, B b) WHERE a.x < b.x + 1 AGG COUNT WITHIN 9",
            ["a.x < b.x + 1 compares events, and a.x < b.x + 1 may leave 64 bits"],
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE b.x * 2.5 - a.x > 1 AGG COUNT WITHIN 9",
            ["b.x * 2.5 - a.x > 1 compares events, not one value of each"],
        ),
        (
            "PATTERN SEQ(A a, B b, C c) WHERE a.k = c.k AGG COUNT WITHIN 9",
            ["a.k = c.k compares events, not one value of each of two neighbours"],
        ),
        (
            "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x AGG COUNT WITHIN 9",
            ["a.x < b.x compares events, and so does another", "b.x < c.x compares events, and so does another"],
        ),
        (
            "PATTERN SEQ(A a, B b, !(N n)) WHERE a.x < b.x AGG COUNT, MAX(b.x) AS m WITHIN 9",
            [
                "a.x < b.x compares events, and 'n' is forbidden elsewhere than between these",
                "a.x < b.x compares events, and of MAX(b.x) no part can be taken back",
            ],
        ),
        (
            "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match(a[], b) { } AGG COUNT WITHIN 9 EVENTS",
            [
                "skip_till_next_match selects among events by what was selected before",
                "a window of events is counted in positions",
                "'a' binds several events",
            ],
        ),
        ("PATTERN AND(A a, B b) AGG COUNT OUTPUT NON-OVERLAP", ["NON-OVERLAP chooses among", "AND leaves the order open"]),
        ("PATTERN SEQ(!(N n), B b) AGG COUNT WITHIN 9", ["'n' is forbidden before the first event"]),
        (
            "PATTERN SEQ(B b, !(N n)) AGG COUNT, MAX(b.x) AS m EMIT ON CHANGE WITHIN 9",
            ["'n' may end matches at the instant at which others expire, and of MAX(b.x)"],
        ),
    ],
)
def test_why_matches_are_built(text: str, reasons: list[str]) -> None:
    plan = aggregate_plan(text)
    assert isinstance(plan, MatchThenAggregate)
    found = [line.removeprefix("not pushed into counters: ") for line in part(plan, "AG") if line.startswith("not pushed")]
    assert len(found) == len(reasons)
    assert all(line.startswith(reason) for line, reason in zip(found, reasons, strict=True))
    with pytest.raises(kleene.PlanningError, match="cannot be pushed down") as refused:
        aggregate_plan(text, {"mechanism": "counters"})
    assert [problem.message.partition(": ")[2] for problem in refused.value.problems] == found


@pytest.mark.parametrize(
    ("plan", "heading"),
    [("paper", "SC"), ({"mechanism": "nfa"}, "RN"), ({"order": ["b", "a"]}, "BN"), ({"mechanism": "matches"}, "BN")],
)
def test_matches_that_are_asked_for(plan: Any, heading: str) -> None:
    made = aggregate_plan("PATTERN SEQ(A a, B b) AGG COUNT WITHIN 9", plan)
    assert part(made, "AG") == ["not pushed into counters: the plan asks for matches", "count = COUNT", "a row at every b"]
    assert part(made, heading)
    assert svg(made).startswith("<svg")


def test_queries_that_are_counted_together_say_so() -> None:
    queries = kleene.workload(
        {
            "first": "PATTERN SEQ(A a, B b) AGG COUNT WITHIN 9",
            "second": "PATTERN SEQ(A a, B b, C c) AGG COUNT WITHIN 9",
            "other": "PATTERN SEQ(A a, B b) AGG COUNT WITHIN 8",
        }
    )
    shown = {name: part(plan, "PC")[2:] for name, plan in queries.plans_for(COLUMNS, **ROLES).items()}
    assert shown == {
        "first": ["in one pass with second: what they have in common is counted once, as far as that costs less"],
        "second": ["in one pass with first: what they have in common is counted once, as far as that costs less"],
        "other": [],
    }
    assert not part(queries.plans_for(COLUMNS, **ROLES, plan={"sharing": "none"})["first"], "PC")[2:]


# Alternatives compared.


def events(rows: int = 300) -> pa.Table:
    """One C in 50."""
    types = ["C" if i % 50 == 49 else "AB"[i % 2] for i in range(rows)]
    columns = {"ts": range(rows), "type": types, "k": [i % 2 for i in range(rows)], "x": [i * 37 % 101 for i in range(rows)]}
    return pa.table({**columns, "s": ["u"] * rows})


def compare(text: str, table: Any, **options: Any) -> Analysis:
    return analyze(kleene.query(text, name="q"), table, options_of({**ROLES, **options}))


def test_every_alternative_is_run_and_estimated() -> None:
    found = compare(RISE, events())
    names = [item.name for item in found.compared]
    assert names[0] == "as planned"
    assert {"eager", "tree", "active instance stacks", "automaton"} < set(names)
    assert len({item.measured.matches for item in found.compared if item.measured}) == 1
    assert found.matches == kleene.query(RISE).match(events(), **ROLES).num_rows > 0
    by_name = {item.name: item for item in found.compared}
    eager = by_name["eager"]
    assert eager.measured is not None
    assert eager.measured.evaluations == kleene.query(RISE).run(events(), **ROLES, plan=eager.plan).metrics.evaluations
    assert eager.estimated is not None
    assert 0.5 < eager.estimated.evaluations / eager.measured.evaluations < 2
    estimates = [item.estimated.seconds for item in found.compared if item.estimated]
    assert estimates == sorted(estimates)
    assert found.statistics is not None
    assert found.statistics.rates["c"] == pytest.approx(1 / 50, rel=0.1)


def test_an_analysis_as_text() -> None:
    text = str(compare(RISE, events()))
    assert text.startswith("plan of 'q'\n")
    lines = text.split("\n")
    assert "ST  statistics of the events" in lines
    table = lines[lines.index(next(line for line in lines if line.startswith("AN"))) :]
    assert table[1].split() == ["order", "evaluations", "estimated", "partial", "matches", "estimated", "time", "estimated"]
    assert [line.startswith("    *") for line in table[2:]].count(True) == 1


def test_and_has_no_automaton_and_chains_take_their_order() -> None:
    found = compare("PATTERN AND(A a, B b, C c) WHERE a.x < b.x WITHIN 9", events())
    by_name = {item.name: item for item in found.compared}
    assert {"automaton", "active instance stacks"}.isdisjoint(by_name)
    chains = [item for item in found.compared if item.name.startswith("chain")]
    assert chains
    assert all(item.plan == {"mechanism": "chain", "order": item.order.split(", ")} for item in chains)


def test_alternatives_of_the_pattern_are_added_up() -> None:
    found = compare("PATTERN SEQ(A a, B? b, C c) WHERE a.x < c.x WITHIN 9", events())
    eager = next(item for item in found.compared if item.name == "eager")
    assert eager.order == "a, b, c; a, c"
    assert eager.estimated is not None
    assert eager.measured is not None
    assert eager.measured.evaluations is not None
    assert 0.5 < eager.estimated.evaluations / eager.measured.evaluations < 2


def test_other_strategies_compare_the_algorithms_of_automata() -> None:
    found = compare("PATTERN SEQ(A+ a[], C c) WHERE skip_till_next_match { a[i].x > a[i-1].x } WITHIN 20", events())
    assert [item.name for item in found.compared] == [
        "as planned",
        "automaton (merging)",
        "automaton (basic)",
        "automaton (backtrack)",
    ]
    assert found.statistics is None


def test_aggregates_compare_counters_and_matches() -> None:
    text = "PATTERN SEQ(A a, B b, C c) AGG COUNT, SUM(a.x) WITHIN 20"
    found = compare(text, events())
    names = [item.name for item in found.compared]
    assert names[:3] == ["as planned", "counters (two stacks)", "counters (marking)"]
    assert {"eager", "tree", "active instance stacks"} < set(names)
    assert found.matches == kleene.query(text).match(events(), **ROLES).num_rows == 6
    assert {item.measured.matches for item in found.compared if item.measured} == {6}
    eager = next(item for item in found.compared if item.name == "eager")
    assert eager.measured is not None
    assert eager.measured.partial_matches == kleene.query(text).run(events(), **ROLES, plan=eager.plan).metrics.instances
    assert "AN  alternatives over 300 events: 6 rows each" in str(found)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("PATTERN SEQ(A a, C c) AGG COUNT", ["counters (no window)"]),
        ("PATTERN SEQ(A a, C c) WHERE a.x < c.x AGG COUNT WITHIN 20", ["counters (pairs)"]),
        ("PATTERN SEQ(A a, C c) WHERE a.x < c.x AGG MAX(a.x) WITHIN 20", ["eager"]),
        ("PATTERN SEQ(A+ a[], C c) WHERE skip_till_next_match { a[i].x > a[i-1].x } AGG COUNT WITHIN 20", ["matches"]),
    ],
)
def test_alternatives_of_aggregates_are_those_that_can_answer(text: str, names: list[str]) -> None:
    found = [item.name for item in compare(text, events()).compared]
    assert set(names) <= set(found)
    assert any(name.startswith("counters") for name in found) is names[0].startswith("counters")


def test_what_would_take_too_long_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "LONGEST", 0.0)
    found = compare(RISE, events())
    assert [item.name for item in found.compared if item.measured] == ["as planned", "automaton"]
    assert "not run" in str(found)


def test_only_the_first_events_are_run() -> None:
    query, options = kleene.query(RISE), options_of(ROLES)
    shuffled = events().take(list(range(299, -1, -1)))
    for source in (shuffled, pa.RecordBatchReader.from_batches(COLUMNS, events().cast(COLUMNS).to_batches(max_chunksize=7))):
        found = analyze(query, source, options, most=150)
        assert found.events == 150
        assert found.matches == query.match(events(150), **ROLES).num_rows


def test_plans_that_disagree_are_our_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter(range(100))
    run = analysis._run

    def miscounted(*arguments: Any) -> Any:
        matcher, seconds, rows = run(*arguments)
        matcher.metrics = Metrics(matches=next(counted), relevant=0)
        return matcher, seconds, rows

    monkeypatch.setattr(analysis, "_run", miscounted)
    with pytest.raises(AssertionError, match="disagree"):
        compare(RISE, events())


def test_the_command_analyzes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.parquet"
    pyarrow.parquet.write_table(events(), file)
    roles = ["--time", "ts", "--type", "type"]
    picture = tmp_path / "plan.svg"
    assert main(["explain", "-q", RISE, str(file), *roles, "--analyze", "--svg", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("plan of 'query'")
    assert "AN  alternatives over 300 events" in shown
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert main(["explain", "-q", RISE, "--columns", "ts:int,type:string,k:int,x:int", *roles, "--analyze"]) == 2
    assert "--analyze runs one query over a file of events" in capsys.readouterr().err
