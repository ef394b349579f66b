"""The benchmarks measure only what agrees, and report ratios. Nothing here looks at seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.harness import Contender, Disagreement, Outcome, from_json, measure, to_json
from benchmarks.sase.report import write_report
from benchmarks.sase.streams import SCALES, selectivity
from benchmarks.sase.suite import EMBEDDED, RESULTS, load, run_experiment, save


@pytest.fixture(scope="module")
def results() -> dict:
    return {name: run_experiment(name, SCALES["tiny"], None, Path()) for name in EMBEDDED}


@pytest.mark.parametrize("name", EMBEDDED)
def test_contenders_agree_and_a_ratio_is_reported(name: str, results: dict) -> None:
    experiment = results[name]
    assert experiment.points
    for point in experiment.points:
        assert len({item.matches for item in point.measurements}) == 1
        assert len(point.measurements) >= 2
        assert all(point.ratio(item.name, experiment.clock) > 0 for item in point.measurements)


def test_some_points_have_matches(results: dict) -> None:
    for experiment in results.values():
        assert any(point.measurements[0].matches for point in experiment.points), experiment.name


def test_active_instance_stacks_do_less_counted_work_than_the_basic_algorithm(results: dict) -> None:
    for point in results["1"].points:
        assert point["ais"].work["visits"] <= point["basic"].work["visits"]


def test_dynamic_filtering_constructs_no_more_than_selection(results: dict) -> None:
    for point in results["3"].points:
        assert point["dynamic"].work["sequences"] == point["dynamic"].matches
        assert (
            point["dynamic"].work["sequences"] <= point["multi_pais"].work["sequences"] <= point["selection"].work["sequences"]
        )


def test_contenders_that_disagree_are_refused() -> None:
    contenders = [Contender("right", lambda: Outcome(2)), Contender("wrong", lambda: Outcome(3))]
    with pytest.raises(Disagreement, match="'right': 2, 'wrong': 3"):
        measure(contenders, events=1, parameters={"L": 2}, baseline="right", repeats=1)


def test_a_job_without_matches_may_stand_beside_others() -> None:
    contenders = [Contender("some", lambda: Outcome(2)), Contender("left out", lambda: Outcome(None))]
    assert measure(contenders, events=1, parameters={}, baseline="left out", repeats=1)["left out"].matches is None


def test_the_baseline_has_ratio_one_and_embedded_is_against_the_fastest_join(results: dict) -> None:
    for point in results["embedded"].points:
        assert point.ratio(point.baseline, "cpu") == 1
        joins = [item for item in point.measurements if item.name.startswith("duckdb")]
        assert point[point.baseline].seconds("cpu") == min(item.seconds("cpu") for item in joins)


def test_selectivity_is_what_the_stream_shows() -> None:
    # W events of which 1 in T starts, 1 in T triggers; pairs of the same key.
    assert selectivity(2, 100) == pytest.approx(10_000 / (20 * 100) / 20)


def test_results_and_report_round_trip(results: dict, tmp_path: Path) -> None:
    for experiment in results.values():
        document = to_json(experiment)
        for point in document["points"]:
            assert point["ratios"]["cpu"]
            del point["ratios"]
        assert from_json(document) == experiment
        save(experiment, SCALES["tiny"], tmp_path / RESULTS)
    assert load(tmp_path / RESULTS)[0] == results
    page = write_report(tmp_path / RESULTS, tmp_path / "docs").read_text()
    assert "Kleene / fastest DuckDB join" in page
    for figure in (tmp_path / "docs" / "figures").iterdir():
        assert figure.name in page
