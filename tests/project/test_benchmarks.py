"""The benchmarks measure only what agrees, and report ratios. Nothing here looks at seconds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from benchmarks.__main__ import main
from benchmarks.aseq import paper, sharing
from benchmarks.aseq import streams as aseq_streams
from benchmarks.aseq import throughput as aseq_throughput
from benchmarks.aseq.contenders import MATCHES, construction, require_same
from benchmarks.aseq.report import PRESENTATION as ASEQ
from benchmarks.cliffs import between
from benchmarks.cliffs.line import SCALES as CLIFF_SCALES
from benchmarks.cliffs.line import Goal, checked, compared
from benchmarks.cliffs.report import PRESENTATION as CLIFFS
from benchmarks.harness import (
    DERIVED,
    Contender,
    Disagreement,
    Experiment,
    Measurement,
    Outcome,
    Point,
    from_json,
    measure,
    to_json,
)
from benchmarks.lazy import throughput
from benchmarks.lazy.choices import HOPELESS, ROUNDS, race
from benchmarks.lazy.contenders import AUTO, FINAL_ROUNDS, MOST_FINALS, evaluations, loss, noise
from benchmarks.lazy.report import PRESENTATION as LAZY
from benchmarks.lazy.streams import F_C, SCALES, correlated_events, stock_query, stocks
from benchmarks.lazy.workloads import AFFORDABLE, WORK_PER_EVENT, workload
from benchmarks.multi.report import PRESENTATION as MULTI
from benchmarks.peers.report import PRESENTATION as PEERS
from benchmarks.peers.suite import WHOLE
from benchmarks.real import relational
from benchmarks.real.flights import TYPES
from benchmarks.real.flights import events as flights
from benchmarks.real.questions import QUESTIONS
from benchmarks.real.report import PRESENTATION as REAL
from benchmarks.real.suite import experiment as asked
from benchmarks.real.suite import kleene as kleene_asked
from benchmarks.report import Presentation, write_report
from benchmarks.sase.report import PRESENTATION as SASE
from benchmarks.sase.streams import selectivity
from benchmarks.saseplus.contenders import complexity_of
from benchmarks.saseplus.report import PRESENTATION as SASEPLUS
from benchmarks.saseplus.speed import CASES, check_matches, kleene_matches, oracle_matches
from benchmarks.saseplus.streams import P, events, output_complexity, pattern_query, stream
from benchmarks.streaming.contenders import KLEENE, PACKED, STATELESS
from benchmarks.streaming.report import PRESENTATION as STREAMING
from benchmarks.streaming.streams import Files, closing, uniform
from benchmarks.streaming.throughput import require_all
from benchmarks.suite import load, run_suite, save

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.pattern.bind import bind
from kleene.testing import oracle

PRESENTATIONS = {"sase": SASE, "saseplus": SASEPLUS, "lazy": LAZY, "aseq": ASEQ, "multi": MULTI, "peers": PEERS}
PRESENTATIONS |= {"real": REAL, "cliffs": CLIFFS}

Results = dict[str, dict[str, Experiment]]

EXPERIMENTS = [
    (name, experiment)
    for name, presentation in PRESENTATIONS.items()
    for experiment in presentation.suite.experiments
    if experiment not in presentation.suite.only_jvm
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("results")
    found: Results = {}
    for name, presentation in PRESENTATIONS.items():
        suite = presentation.suite
        run_suite(suite, None, suite.scales["tiny"], folder, jvm=False, say=lambda _: None)
        found[name] = load(suite, folder)[0]
    return found


@pytest.mark.parametrize(("suite", "name"), EXPERIMENTS)
def test_contenders_agree_and_a_ratio_is_reported(suite: str, name: str, results: Results) -> None:
    experiment = results[suite][name]
    assert experiment.points
    for point in experiment.points:
        assert len({item.matches for item in point.measurements} - {None}) == 1
        assert len(point.measurements) >= 2 or point.parameters["group"] == WHOLE
        assert all(point.ratio(item.name, experiment.clock) > 0 for item in point.measurements)


@pytest.mark.parametrize(("suite", "name"), EXPERIMENTS)
def test_some_points_have_matches(suite: str, name: str, results: Results) -> None:
    assert any(item.matches for point in results[suite][name].points for item in point.measurements)


def test_active_instance_stacks_do_less_counted_work_than_the_basic_algorithm(results: Results) -> None:
    for point in results["sase"]["1"].points:
        assert point["ais"].work["visits"] <= point["basic"].work["visits"]


def test_dynamic_filtering_constructs_no_more_than_selection(results: Results) -> None:
    for point in results["sase"]["3"].points:
        assert point["dynamic"].work["sequences"] == point["dynamic"].matches
        assert (
            point["dynamic"].work["sequences"] <= point["multi_pais"].work["sequences"] <= point["selection"].work["sequences"]
        )


def test_merging_visits_no_more_runs_than_the_basic_algorithm(results: Results) -> None:
    for name in ("5", "6"):
        for point in results["saseplus"][name].points:
            assert point["merging"].work["visits"] <= point["basic"].work["visits"]


def test_enumerating_and_matching_count_the_same(results: Results) -> None:
    for point in results["saseplus"]["1"].points:
        assert point["enumerated"].work["complexity"] > (point["enumerated"].matches or 0)
        assert "complexity" not in point["matching"].work


def test_the_eager_automaton_is_the_chain_of_the_sequence(results: Results) -> None:
    for name in ("figure7", "figure8"):
        for point in results["lazy"][name].points:
            chain = f"chain {str(point.parameters['sequence']).replace(', ', '')}"
            assert evaluations(point[chain]) == evaluations(point["eager"])


def test_orders_that_begin_with_the_rare_event_save_evaluations(results: Results) -> None:
    rare = [point for point in results["lazy"]["figure7"].points if point.parameters["f_c"] == F_C[0]]
    assert len(rare) == 2
    for point in rare:
        assert 100 * evaluations(point["chain cba"]) < evaluations(point["eager"])


def test_chains_that_begin_with_the_last_event_hold_no_instances(results: Results) -> None:
    for point in results["lazy"]["figure9"].points:
        assert point["chain cba"].work["peak_instances"] == 0
        assert point["chain bca"].work["peak_instances"] < point["eager"].work["peak_instances"]


def test_the_best_chain_changes_with_the_rarest_type(results: Results) -> None:
    points = results["lazy"]["figure10"].points
    assert [point.parameters["rarest"] for point in points] == ["c", "c", "a", "a", "b", "b"]
    for rarest, good, bad in (
        ("c", "chain cba", "chain abc"),
        ("a", "chain abc", "chain cba"),
        ("b", "chain bac", "chain acb"),
    ):
        of_phase = [point for point in points if point.parameters["rarest"] == rarest]
        fewer, more = (sum(evaluations(point[name]) for point in of_phase) for name in (good, bad))
        assert 2 * fewer < more


def test_c_is_thinned_out_evenly_and_the_others_stay() -> None:
    everything, some = stocks(9_000, 1.0), stocks(9_000, 0.03)
    is_c = [pc.equal(table["ticker"], "GOOG") for table in (everything, some)]
    of_c = [table.filter(mask)["ts"].to_numpy() for table, mask in zip((everything, some), is_c, strict=True)]
    assert len(of_c[1]) == int(0.03 * len(of_c[0]))
    assert set(of_c[1]) <= set(of_c[0])
    assert np.diff(of_c[1]).max() < 3 * np.diff(of_c[1]).min()
    rest = [table.filter(pc.invert(mask)) for table, mask in zip((everything, some), is_c, strict=True)]
    assert rest[0].equals(rest[1])


def test_finance_and_hi_tech_are_correlated_and_google_is_not() -> None:
    table = stocks(9_000, 1.0, history=True)
    pairs = {"a, b": "a.sector = 'Finance' AND b.sector = 'Hi-Tech'", "b, c": "a.sector = 'Hi-Tech' AND b.ticker = 'GOOG'"}
    matches = {}
    for name, components in pairs.items():
        text = (
            f"PATTERN SEQ(Stock a, Stock b) WHERE {components} AND Corr(a.history, b.history) > 0.98 WITHIN 60 RETURN a.ts AS a"
        )
        query = stock_query("abc", "correlation")
        matches[name] = kleene.query(text, functions=query.logical.functions).match(table, time="ts", type="type").num_rows
    assert matches["a, b"] > 50 * matches["b, c"]


def test_streams_with_correlations_are_shorter_where_c_is_frequent() -> None:
    fewest, most = SCALES["full"].correlations
    lengths = [correlated_events(f_c, SCALES["full"]) for f_c in F_C]
    assert lengths == sorted(lengths, reverse=True)
    assert (lengths[0], lengths[-1]) == (most, fewest)


def test_random_workloads_can_be_afforded_and_have_the_matches_expected() -> None:
    scale = SCALES["quick"]
    found = [workload(number, scale) for number in range(200)]
    assert {len(one.rates) for one in found} == {3, 4, 5, 6}
    assert {one.operator for one in found} == {"SEQ", "AND"}
    assert any(max(one.rates) > 100 * min(one.rates) for one in found)
    assert all(one.model.best() <= 1.1 * WORK_PER_EVENT or one.window == 5 for one in found)
    assert any(one.work(one.variables) > AFFORDABLE for one in found)
    one = next(one for one in found if one.keys > 1 and one.conditions and expected_matches(one) > 3_000)
    assert one.query().match(one.table(), time="ts", type="type").num_rows == pytest.approx(expected_matches(one), rel=0.25)


def expected_matches(one) -> float:
    everything = (1 << len(one.rates)) - 1
    return one.events * one.model.tuples(everything, everything)


class Timed:
    """A contender that takes its time, and counts its runs."""

    def __init__(self, name: str, work: int, matches: int = 1) -> None:
        self.runs, self.name, self.work, self.matches = 0, name, work, matches

    def run(self) -> Outcome:
        self.runs += 1
        sum(range(self.work))
        return Outcome(self.matches, {"evaluations": self.work, "visits": 0})


def test_a_contender_without_hope_runs_once() -> None:
    auto, good, bad = (Timed(AUTO, 100_000), Timed("chain ab", 100_000), Timed("chain ba", int(20 * HOPELESS) * 100_000))
    point = race([auto, good, bad], 10, {"workload": 1})
    assert bad.runs == 1
    assert len(point["chain ba"].cpu) == 1
    finals = [ROUNDS + FINAL_ROUNDS * count for count in range(1, MOST_FINALS + 1)]  # how many depends on the clock
    assert len(point[AUTO].cpu) == len(point["chain ab"].cpu)
    assert len(point[AUTO].cpu) in finals
    assert noise(point) >= 1
    assert loss(point, "chain ba") > HOPELESS
    with pytest.raises(Disagreement, match="'chain ab': 2"):
        race([auto, Timed("chain ab", 10, matches=2)], 10, {"workload": 1})


def test_a_goal_is_a_ratio_or_a_time_for_each_of_something() -> None:
    seconds = {"base": 2.0, "other": 3.0}
    measured = tuple(Measurement(name, 10, 1, (own,), (own,), {}) for name, own in seconds.items())
    point = Point({"case": "made", "event": 10, "batch": 4.0}, "base", measured)
    for goal, value, said in (
        (Goal(contender="other", most=3), 1.5, "other / base: at most 3"),
        (Goal(contender="other", most=2e8, unit="ns", per="event"), 3e8, "other per event: at most 200,000,000 ns"),
        (Goal(contender="other", most=20, unit="µs", per="batch", beyond=True), 250_000, "other per batch: at most 20 µs more"),
        (Goal(contender="other", most=2, unit="s"), 3, "other: at most 2 s"),
    ):
        assert goal.measured(point, "cpu") == pytest.approx(value)
        assert goal.said(point) == said


def test_goals_are_told_with_what_was_measured(results: Results) -> None:
    for name, experiment in results["cliffs"].items():
        assert CLIFFS.suite.checks(experiment), name
        assert "at most" in experiment.headline
    page = CLIFFS.overview(results["cliffs"]) if CLIFFS.overview else ""
    assert page.count("at most") == sum(len(CLIFFS.suite.checks(one)) for one in results["cliffs"].values())


def test_a_cliff_with_other_matches_than_numpy_counts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = CLIFF_SCALES["tiny"]
    with pytest.raises(Disagreement, match="one finds 2 matches, not 3"):
        compared("made", [checked("one", lambda: 2, 3)], 10, scale, "one")
    monkeypatch.setattr(between, "alive", lambda *_, **__: 5)
    with pytest.raises(Disagreement, match="not 5"):
        list(between.counted(scale))


def test_flights_are_events_in_order() -> None:
    table = flights()
    kinds = dict(zip(*(column.to_pylist() for column in table["type"].value_counts().flatten()), strict=True))
    assert set(kinds) == set(TYPES)
    assert kinds["Departure"] == kinds["Arrival"] == 327_346
    assert kinds["Cancelled"] == 8_255
    assert table["id"].to_pylist() == list(range(table.num_rows))
    assert bool(np.all(np.diff(table["ts"].to_numpy()) >= 0))
    assert table["ts"].to_numpy()[0] == 5 * 60 + 317  # 5:17 in New York


def test_an_answer_with_another_match_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    question = QUESTIONS["turnaround"]
    real = relational.POLARS["turnaround"]
    monkeypatch.setitem(relational.POLARS, "turnaround", lambda frame, question: real(frame, question).slice(1))
    with pytest.raises(Disagreement):
        asked(question, REAL.suite.scales["tiny"], None, None)


def test_every_question_has_matches_and_is_for_flink_or_has_a_reason() -> None:
    for question in QUESTIONS.values():
        assert bool(question.steps) != bool(question.not_flink), question.name
        assert kleene_asked(question, flights(100_000)).run().matches, question.name


def test_contenders_that_disagree_are_refused() -> None:
    contenders = [Contender("right", lambda: Outcome(2)), Contender("wrong", lambda: Outcome(3))]
    with pytest.raises(Disagreement, match="'right': 2, 'wrong': 3"):
        measure(contenders, events=1, parameters={"L": 2}, baseline="right", repeats=1)


def test_a_job_without_matches_may_stand_beside_others() -> None:
    contenders = [Contender("some", lambda: Outcome(2)), Contender("left out", lambda: Outcome(None))]
    assert measure(contenders, events=1, parameters={}, baseline="left out", repeats=1)["left out"].matches is None


def test_a_contender_may_bring_its_own_clocks() -> None:
    contenders = [Contender("own", lambda: Outcome(1, {}, {"wall": 4.0, "cpu": 8.0})), Contender("ours", lambda: Outcome(1))]
    own = measure(contenders, events=16, parameters={}, baseline="ours", repeats=2)["own"]
    assert (own.throughput("wall"), own.throughput("cpu")) == (4, 2)


def test_work_is_that_of_the_median_round_and_not_of_the_warm_up() -> None:
    waits = iter((900, 30, 10, 20))
    found = measure(
        [Contender("own", lambda: Outcome(3, {"waits": next(waits)}))], events=1, parameters={}, baseline="own", repeats=3
    )
    assert found["own"].work == {"waits": 20}


def test_the_baseline_has_ratio_one_and_embedded_is_against_the_fastest_join(results: Results) -> None:
    for point in results["sase"]["embedded"].points:
        assert point.ratio(point.baseline, "cpu") == 1
        joins = [item for item in point.measurements if item.name.startswith("duckdb")]
        assert point[point.baseline].seconds("cpu") == min(item.seconds("cpu") for item in joins)


def test_selectivity_is_what_the_stream_shows() -> None:
    # W events of which 1 in T starts, 1 in T triggers; pairs of the same key.
    assert selectivity(2, 100) == pytest.approx(10_000 / (20 * 100) / 20)


def test_the_output_complexity_is_about_what_the_stream_shows() -> None:
    W = 100
    table = stream(W, windows=100, complexity=10**9)
    assert table.num_rows == 2 * W * 100
    matches = pattern_query("p1s3", W).match(table, time="ts", type="type")
    assert complexity_of(matches) / table.num_rows == pytest.approx(output_complexity(W), rel=0.4)


def test_the_price_rises_as_often_as_the_paper_says() -> None:
    one = [row["price"] for row in events(4_000).to_pylist() if row["symbol"] == 1]
    rises = sum((later - earlier) % 1_000 == 1 for earlier, later in pairwise(one))
    assert rises / len(one) == pytest.approx(P, abs=0.05)


class AnotherSystem:
    """Stands for Flink: writes given matches."""

    def __init__(self, matches: list[tuple[int, ...]]) -> None:
        self.matches = matches

    def run(self, _pattern: str, _events: Path, *, matches: Path, **_options: object) -> None:
        matches.write_text("".join(f"{' '.join(map(str, match))}\n" for match in reversed(self.matches)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_peers_are_compared_match_by_match(case) -> None:
    table, W = events(6_000), 30
    expected = oracle_matches(case.pattern_query(W), table)
    assert expected
    assert kleene_matches(case, W, table) == expected
    check_matches(case, W, table, expected, AnotherSystem(expected))
    with pytest.raises(Disagreement, match=r"such as \[\("):
        check_matches(case, W, table, expected, AnotherSystem([*expected[1:], (1, 2, 3)]))


@pytest.mark.parametrize(
    "case", throughput.CASES[:3] + throughput.CASES[6:9], ids=lambda case: f"{case.predicates}, {case.place}"
)
def test_rising_events_are_compared_match_by_match(case, tmp_path: Path) -> None:
    table = case.table(400 if case.predicates == "ordinary" else 2_500)
    x = table["x"].to_pylist()
    a_s, b_s, c_s = ([at for at, kind in enumerate(table["type"].to_pylist()) if kind == wanted] for wanted in "ABC")
    pairs = [(b, c) for c in c_s for b in b_s if b < c < b + throughput.WINDOW and x[b] < x[c]]
    expected = sorted((a, b, c) for b, c in pairs for a in a_s if c - throughput.WINDOW < a < b and x[a] < x[b])
    assert expected
    assert throughput.kleene_matches(table) == expected
    throughput.check_matches(table, AnotherSystem(expected), tmp_path)
    with pytest.raises(Disagreement, match=r"such as \[\("):
        throughput.check_matches(table, AnotherSystem(expected[1:]), tmp_path)


def test_construction_holds_more_objects_the_longer_the_pattern(results: Results) -> None:
    points = [point for point in results["aseq"]["figure12"].points if point.parameters["stream"] == "compared"]
    assert len(points) == 2
    for point in points:
        assert point[MATCHES].work["objects"] > point["marking"].work["objects"] > 0
    shorter, longer = (point[MATCHES].work["objects"] / point[MATCHES].events for point in points)
    assert longer > shorter


def test_queries_that_are_compared_by_their_rows_are_different_queries(results: Results) -> None:
    for point in results["aseq"]["figure14a"].points:
        assert point["auto"].work["total"] > point["auto, length 2"].work["total"] > 0
    for point in results["aseq"]["figure14b"].points:
        plan = point.baseline.partition(",")[0]
        assert 0 < point[f"{plan}, q2"].work["total"] < point[f"{plan}, q1"].work["total"]


def test_sums_are_compared_where_rows_are_as_many() -> None:
    contenders = [
        Contender(name, lambda value=value: Outcome(1, {"total": value})) for name, value in (("a", 5), ("b", 5), ("c", 6))
    ]
    point = measure(contenders, events=1, parameters={"live": 3}, baseline="a", repeats=1)
    require_same(point, "a", "b")
    with pytest.raises(Disagreement, match=r"'c': {'total': 6}"):
        require_same(point, "a", "b", "c")


@pytest.mark.parametrize(("length", "window"), [(3, 1_000), (4, 400)])
def test_construction_builds_about_as_many_matches_as_are_allowed(length: int, window: int) -> None:
    events = aseq_streams.affordable(120_000, 300_000, length, window)
    assert window / 2 < events < 120_000
    table = aseq_streams.trades(events)
    pattern = aseq_streams.pattern_text(aseq_streams.tickers_of(length))
    matches = kleene.query(f"{pattern} WITHIN {window} ms RETURN e1.ts AS first").match(table, time="ts", type="type").num_rows
    assert matches == pytest.approx(300_000, rel=0.3)
    built = construction("construction", [aseq_streams.tickers_of(length)], f"{window} ms", table).run()
    assert built.work["matches"] == matches


def test_the_shortest_streams_end_within_the_first_window() -> None:
    events = aseq_streams.affordable(120_000, 1_000, 5, 1_000)
    assert events < 1_000
    assert aseq_streams.live_matches(5, events) == pytest.approx(1_000, rel=0.1)


@pytest.mark.parametrize("case", [case for case in aseq_throughput.cases(aseq_streams.SCALES["tiny"]) if case.peer])
def test_duckdb_counts_what_the_oracle_counts(case) -> None:
    case = replace(case, live=case.live and 5)
    table = case.table(60)
    if case.group_by:
        table = table.set_column(2, "key", pa.array([place % 2 for place in range(60)], pa.int32()))
    bound = bind(case.query().logical, schema_of_arrow(table.schema, time="ts", type="type"))
    expected = [row.values["count"] for row in oracle.aggregates(bound, table.to_pylist())]
    assert max(expected) > 10
    answer = aseq_throughput.duckdb(case, table).run()
    assert (answer.matches, answer.work["rows"]) == (sum(expected), len(expected))


@pytest.mark.parametrize("kind", ["prefix", "chop"])
def test_queries_share_what_they_are_said_to_share(kind: str) -> None:
    found = sharing.patterns(kind, 6, 3)
    assert len(found) == 6
    assert len(sharing.types_of(found)) == 6 + 3
    assert len({types[:3] if kind == "prefix" else types[1:] for types in found.values()}) == 1


def test_a_window_holds_at_most_so_many_events() -> None:
    table = aseq_streams.trades(3_000)
    kinds = table["type"].to_pylist()
    counted = [sum(kind == "DELL" for kind in kinds[begin : begin + 100]) for begin in range(2_901)]
    assert paper.most_in_window(table, ("DELL",), 100) == max(counted)
    assert paper.most_in_window(table, ("DELL",), 5_000) == kinds.count("DELL")


@pytest.mark.parametrize("presentation", PRESENTATIONS.values(), ids=list(PRESENTATIONS))
def test_results_and_report_round_trip(presentation: Presentation, results: Results, tmp_path: Path) -> None:
    suite, experiments = presentation.suite, results[presentation.suite.name]
    for experiment in experiments.values():
        document = to_json(experiment)
        for point in document["points"]:
            for key in DERIVED:
                assert point.pop(key)["cpu"]
        assert from_json(document) == experiment
        save(suite, experiment, suite.scales["tiny"], tmp_path)
    assert load(suite, tmp_path)[0] == experiments
    page = write_report(presentation, tmp_path, tmp_path / "docs").read_text()
    assert f"## {presentation.title}\n" in page
    for experiment in experiments.values():
        assert f": {experiment.title}\n" in page
    for figure in (tmp_path / "docs" / "figures").iterdir():
        assert figure.name in page


def test_each_suite_writes_its_own_part_of_the_page(results: Results, tmp_path: Path) -> None:
    for name, experiment in (("saseplus", "3"), ("sase", "embedded"), ("saseplus", "3")):
        suite = PRESENTATIONS[name].suite
        save(suite, results[name][experiment], suite.scales["tiny"], tmp_path)
        page = write_report(PRESENTATIONS[name], tmp_path, tmp_path / "docs").read_text()
    assert page.count("# Benchmarks\n") == 1
    assert page.count("<!-- end of ") == 3  # with the headlines
    assert "Kleene / fastest DuckDB join" in page
    assert "basic / backtrack" in page


def test_files_of_a_stream_are_read_in_its_order(tmp_path: Path) -> None:
    batches = [*uniform(3, 1_000, 10, ("A", "B")), closing(3_000)]
    coming = Files.write(batches, tmp_path / "files").begin(tmp_path)
    found = [sorted((tmp_path / "stream").rglob("*.parquet"), key=lambda path: path.stat().st_mtime)]
    coming()
    found.append(sorted((tmp_path / "stream").rglob("*.parquet"), key=lambda path: path.stat().st_mtime))
    times = [[time for path in paths for time in pq.read_table(path)["ts"].to_pylist()] for paths in found]
    assert times == [list(range(1_000)), [*range(3_000), 30_000]]


def test_an_operator_that_misses_events_is_refused() -> None:
    seen = {KLEENE: 10, PACKED: 10, STATELESS: 9}
    point = Point({}, KLEENE, tuple(Measurement(name, 10, None, (1,), (1,), {"events": seen[name]}) for name in seen))
    with pytest.raises(Disagreement, match="'stateless': 9"):
        require_all(point, 10)


def streamed(cpu: float, grown: float) -> list[Experiment]:
    """Results of streaming experiments: so much CPU time beside a second of the pass-through's, so much memory at the end."""
    points = [
        Point(
            {"types": 3, "keys": keys, "window": 5},
            PACKED,
            tuple(Measurement(name, 10, 1, (1,), (used,), {}) for name, used in ((KLEENE, cpu), (PACKED, 1), (STATELESS, 0.5))),
        )
        for keys in (1_000, 1_000_000)
    ]
    held = [
        Measurement(KLEENE, 10, 1, (1,), (1,), {"jvm": size, "python": size, "state_bytes": 5, "state_rows": 5})
        for size in (100, 100, 100, 100 * grown)
    ]
    soak = [Point({"case": "once", "events": 10 * number}, KLEENE, (item,)) for number, item in enumerate(held)]
    late = [Point({"trigger": "1 second", "watermark": "0 seconds", "changelog": "on"}, STATELESS, latencies())]
    return [
        Experiment("throughput", "Throughput", "keys", "asked", "cpu", tuple(points), "types"),
        Experiment("memory", "Memory", "events", "asked", "cpu", tuple(soak), "case"),
        Experiment("latency", "Latency", "trigger", "asked", "wall", tuple(late), "watermark"),
    ]


def latencies() -> tuple[Measurement, ...]:
    times = (2.0, 1.0, 3.0)
    return tuple(Measurement(name, 9, 3, times, times, {"trigger": 500}) for name in (STATELESS, KLEENE))


@pytest.mark.parametrize(("cpu", "grown", "reached"), [(1.4, 1, 3), (1.6, 1, 1), (1.4, 1.5, 2)])
def test_streams_are_held_against_what_is_asked(cpu: float, grown: float, reached: int, tmp_path: Path) -> None:
    for experiment in streamed(cpu, grown):
        save(STREAMING.suite, experiment, STREAMING.suite.scales["tiny"], tmp_path)
    page = write_report(STREAMING, tmp_path, tmp_path / "docs").read_text()
    assert page.count("| yes |") == reached
    assert page.count("| no |") == 3 - reached
    assert "| 1 second | 0 seconds | on | 3 | 2.00 |" in page


def test_a_report_without_results_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run `kleene bench saseplus` first"):
        write_report(SASEPLUS, tmp_path, tmp_path)


def test_an_unknown_experiment_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["saseplus", "--experiment", "7"])
    assert "has no experiment '7': choose from 1, 2" in capsys.readouterr().err
