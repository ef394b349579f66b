"""Traces: the figures of SASE+ (4 to 6), and that a trace is what the engine does.

As a script it compares traces of random queries with the oracle, with plain-Python kernels: nothing has to be compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))  # for `support`

import kleene
from kleene.common.errors import DataError, PlanningError
from kleene.explain.trace import Trace, compatible, is_chain, trace
from kleene.pattern.policies import Output
from kleene.plan.optimizer import make_plan
from kleene.runtime.embedded import in_stream_order
from kleene.testing import oracle
from kleene.testing.case_routes import Outcome, differences
from kleene.testing.cases import Case, CaseError, load_all, parse_cases
from support.strategies import Example, saseplus_example

CASES = [
    case for case in load_all(Path(__file__).parents[2] / "cases") if case.expected.runs is not None or case.expected.buffer
]
ALGORITHMS = ("merging", "basic")


def trace_of(case: Case, algorithm: str = "merging") -> Trace:
    table = case.table()
    found = kleene.query(case.query_text).explain(
        table.schema, time=case.options.time, type=case.options.type, plan={"algorithm": algorithm}
    )
    plan = found.plan
    return trace(plan, in_stream_order(table, plan.bound.schema), label="event")


def outcome(case: Case, algorithm: str = "merging") -> Outcome:
    steps = trace_of(case, algorithm).steps
    accepted = [match.selected for step in steps for match in step.accepted]
    kleene_variables = {"a"} if "a[]" in case.query_text else set()
    return Outcome(
        matches=[{name: at if name in kleene_variables else at[0] for name, at in match.items()} for match in accepted],
        runs={step.event: [run.row() for run in step.runs] for step in steps},
        buffer={step.event: step.stacks() for step in steps},
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path.stem}:{case.line}")
def test_figures(case: Case) -> None:
    assert differences(case, outcome(case)) == []


def figure(stem: str) -> Case:
    return next(case for case in CASES if case.path.stem == stem)


def test_a_wrong_run_or_stack_is_seen() -> None:
    case = figure("figure4_versions")
    wrong = replace(case.expected, runs=("e1", ({"version": "1.1", "state": "a[i]"},)), buffer=("e1", ("a[1]: e1(2)",)))
    assert differences(replace(case, expected=wrong), outcome(case)) == [
        "  missing stack: a[1]: e1(2)",
        "  unexpected stack: a[1]: e1(1)",
        "  missing run: state=a[i] version=1.1",
        "  unexpected run: state=a[i] version=1.0",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("runs e9\n  version=1.0\n", "some.case:6: expected 'runs EVENT', but no event is labelled 'e9'"),
        ("runs a1\n  version=1.0\n  state=b\n", "some.case:6: the lines of a 'runs' block must all name the same"),
        ("runs a1\n  version\n", "some.case:7: expected name=value, found 'version'"),
        ("buffer a1\n", "some.case:6: the 'buffer' block is empty"),
        ("automaton\n  states a F\n", "some.case:6: expected 'automaton basic | optimized'"),
    ],
)
def test_mistakes_in_case_files_are_located(text: str, message: str) -> None:
    with pytest.raises(CaseError) as raised:
        list(parse_cases(f"case t\nevents\n  a1\nquery\n  PATTERN A a\n{text}", Path("some.case")))
    assert message in str(raised.value)


# --- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "ancestor", "expected"),
    [
        ((1, 0), (1, 0), True),
        ((1, 0, 0), (1, 0), True),
        ((1, 1), (1, 0), True),
        ((1, 0), (1, 1), False),
        ((2, 0, 0), (1, 0), False),
        ((2, 0), (1, 0), False),
        ((1, 0), (1, 0, 0), False),
        ((1, 1, 0), (1, 0), False),
    ],
)
def test_compatible(version: tuple[int, ...], ancestor: tuple[int, ...], expected: bool) -> None:
    assert compatible(version, ancestor) is expected


def test_the_wrong_match_of_section_5_1_has_incompatible_pointers() -> None:
    (stacks,) = trace_of(figure("figure4_versions")).after("e6").buffer
    pointers = {(state, entry.event): entry.pointers for state, stack in stacks.items() for entry in stack}
    to_e4 = next(item for item in pointers["b", "e6"] if item.predecessor == "e4")
    wrong = next(item for item in pointers["a[i]", "e4"] if item.stack == "a[i]")
    right = next(item for item in pointers["a[i]", "e4"] if item.stack == "a[1]")
    assert (to_e4.version, wrong.version, right.version) == ((2, 0, 0), (1, 0), (2, 0))
    assert not compatible(to_e4.version, wrong.version)
    assert compatible(to_e4.version, right.version)


def test_merged_runs_keep_their_histories() -> None:
    case = figure("figure6_merging")
    apart, merged = trace_of(case, "basic").after("e4"), trace_of(case).after("e4")
    assert {run.version: run.selected["a"] for run in apart.runs} == {(1, 0): ("e1", "e2", "e4"), (2, 0): ("e3", "e4")}
    (run,) = merged.runs
    assert [item.version for item in run.histories] == [(2, 0), (1, 0)]
    assert "merged=2 (2.0, 1.0)" in str(run)


# --- what is traced ---------------------------------------------------------------------------------------------------

SMALL = pa.table({"ts": [1, 2, 3, 4], "type": ["A", "X", "B", "B"], "k": [1, 1, 2, 1]})


def small(text: str, **plan: Any) -> Trace:
    query = kleene.query(text)
    return trace(query.explain(SMALL.schema, time="ts", type="type", plan={"mechanism": "nfa", **plan}).plan, SMALL)


def test_text() -> None:
    assert str(small("PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) { [k] } WITHIN 9")).split("\n") == [
        "e1",
        "  run 1.0 b start=e1 a=[e1] k=1",
        "e2",
        "  run 1.0 b start=e1 a=[e1] k=1",
        "e3",
        "  run 1.0 b start=e1 a=[e1] k=1",
        "e4",
        "  accepted 1.0: e1 e4",
        "buffer",
        "  a: e1(1)",
        "  b: e4(1.0->e1@a)",
    ]


def test_runs_end_with_contiguity_and_with_the_window() -> None:
    strict = small("PATTERN SEQ(A a, B b) WHERE strict_contiguity(a, b) {}")
    assert [len(step.runs) for step in strict.steps] == [1, 0, 0, 0]
    window = small("PATTERN SEQ(A a, B b) WITHIN 2")
    assert [len(step.runs) for step in window.steps] == [1, 1, 0, 0]


def test_any_match_splits_a_waiting_run() -> None:
    found = small("PATTERN SEQ(A a, B b)")
    assert [item.version for step in found.steps for item in step.accepted] == [(1, 0), (1, 1)]
    assert [run.version for run in found.steps[-1].runs] == [(1, 2)]


def test_alternatives_are_told_apart() -> None:
    found = small("PATTERN SEQ(A a, X? x, B b)")
    assert {run.alternative for run in found.after("e1").runs} == {1, 2}
    assert len(found.after("e1").buffer) == 2


def test_values_of_every_kind_are_named() -> None:
    table = pa.table({"ts": [1, 2, 3], "x": [1, 2, 3], "y": [0.5, 1.5, 2.5], "s": ["p", "q", "p"]})
    where = (
        "a[i].x >= min(a[..i-1].x) AND a[i].y > avg(a[..i-1].y) AND a[i].s != a[i-1].s AND a[1].y < b.y AND a.LEN < 9 "
        "AND stddev(a[].y) < 9"
    )
    query = kleene.query(f"PATTERN SEQ(T+ a[], T b) WHERE {where}")
    (run,) = [
        run for run in trace(query.explain(table.schema, time="ts").plan, table).after("e2").runs if len(run.selected["a"]) == 2
    ]
    expected = {
        "min(a.x)": 1,
        "sum(a.y)": 2.0,
        "last(a.s)": "q",
        "a[1].y": 0.5,
        "a.LEN": 2,
        "mean(a.y)": 1.0,
        "squares(a.y)": 0.5,
    }
    assert run.values.items() >= expected.items()


def test_nothing_to_trace() -> None:
    empty = SMALL.slice(0, 0)
    plan = kleene.query("PATTERN SEQ(A a, B+ b[])").explain(empty.schema, time="ts", type="type").plan
    assert trace(plan, empty) == Trace(())
    irrelevant = small("PATTERN SEQ(Y a, Z+ b[])")
    assert [step.runs for step in irrelevant.steps] == [(), (), (), ()]


def test_mistakes() -> None:
    query = kleene.query("PATTERN SEQ(A a, B b)")
    with pytest.raises(PlanningError, match="runs of an automaton"):
        trace(query.explain(SMALL.schema, time="ts", type="type").plan, SMALL)
    large = pa.table({"ts": range(1_001), "type": ["A"] * 1_001, "k": [1] * 1_001})
    with pytest.raises(DataError, match="1,000 events at most"):
        trace(query.explain(large.schema, time="ts", type="type", plan={"mechanism": "nfa"}).plan, large)


# --- random queries ---------------------------------------------------------------------------------------------------


def problems_of(example: Example) -> list[str] | None:
    """How the trace of an example differs from the oracle's matches; None if it cannot be compared."""
    query = example.query
    example = replace(example, query=replace(query, returns=(), into=None, output=Output.ALL))
    bound = example.bound()
    if any(event.negated for event in bound.components):
        return None
    table = example.table().append_column("row", pa.array(map(str, range(len(example.events)))))
    try:
        plans = [make_plan(bound, {"algorithm": algorithm}) for algorithm in ALGORITHMS]
        wanted = {
            tuple(sorted((name, tuple(map(str, at if isinstance(at, tuple) else (at,)))) for name, at in match.bindings))
            for match in oracle.matches(bound, example.events)
        }
        traces = [trace(plan, in_stream_order(table, bound.schema), label="row") for plan in plans]
    except (PlanningError, DataError):
        return None
    problems = []
    for algorithm, found in zip(ALGORITHMS, traces, strict=True):
        accepted = {tuple(sorted(item.selected.items())) for step in found.steps for item in step.accepted}
        if accepted != wanted:
            problems.append(f"{algorithm}: accepted {sorted(accepted)}, not {sorted(wanted)}")
        histories = [item for step in found.steps for run in step.runs for item in run.histories]
        if algorithm == "basic":
            histories += [item for step in found.steps for item in step.accepted]
            problems += [f"no chain: {item}" for item in histories if not is_chain(item.versions)]
    for one, other in zip(*(found.steps for found in traces), strict=True):
        together, apart = (sorted(item.events for run in step.runs for item in run.histories) for step in (one, other))
        if together != apart and all(run.merged < 100 for run in one.runs):
            problems.append(f"after {one.event}: merged {together}, apart {apart}")
    return problems


def main(seed: int, count: int) -> int:
    compared = 0
    for number in range(count):
        problems = problems_of(saseplus_example(seed, number))
        compared += problems is not None
        if problems:
            print(f"example {seed}, {number}:", *problems[:5], sep="\n")
            return 1
    print(compared)
    return 0


@pytest.mark.slow
def test_random_traces_are_what_the_oracle_says() -> None:
    command = [sys.executable, __file__, "11", "300"]
    environment = {**os.environ, "KLEENE_KERNELS": "python", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3_000:]
    assert int(done.stdout) > 100


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
