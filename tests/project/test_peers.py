"""The suite of peers: who can express what, equal matches, and systems that are not there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from benchmarks.harness import Contender, Disagreement, Measurement, Outcome, Point
from benchmarks.peers import engines, jars, relational
from benchmarks.peers.contenders import FACTOR, KLEENE, answer_of, digest, kleene, longest, require_same_matches, timed
from benchmarks.peers.on_spark import FORMULATIONS
from benchmarks.peers.streams import SCALES, WORKLOADS
from benchmarks.peers.suite import SUITE, experiment
from benchmarks.real.questions import QUESTIONS
from benchmarks.real.suite import SUITE as REAL
from benchmarks.suite import load, run_suite


@pytest.mark.parametrize("engine", engines.ENGINES, ids=lambda engine: engine.name)
def test_what_an_engine_does_not_do_has_a_reason(engine: engines.Engine) -> None:
    assert set(engine.jobs) | set(engine.not_expressible) == set(WORKLOADS)
    assert not set(engine.jobs) & set(engine.not_expressible)
    assert all(source.exists() for source in engine.sources)


def test_what_no_table_can_say_has_a_reason() -> None:
    said = {name for name, workload in WORKLOADS.items() if relational.formulations(workload)}
    assert said == set(relational.POLARS) == set(FORMULATIONS)
    assert said | set(relational.NOT_RELATIONAL) == set(WORKLOADS)


def test_a_digest_tells_matches_apart() -> None:
    found = [pa.table({"t1": [1, 2], "t3": [5, 6]}), pa.table({"t1": [3], "t3": [9]})]
    assert answer_of(found, counted=False) == Outcome(3, {"digest": FACTOR * 6 + 20 + 17 + 27})
    swapped = pa.table({"t1": [2, 1], "t3": [5, 6]})
    assert answer_of([swapped], counted=False).work != answer_of(found[:1], counted=False).work
    big = pa.table({"t1": [2**62, 2**62], "t3": [1, 1]})
    assert -(2**63) <= digest(*(big.column(name).to_numpy() for name in ("t1", "t3"))) < 2**63
    counts = pa.table({"attr1": [1, 1, 2], "count": [3, 7, 5]})
    assert answer_of([counts], counted=True).matches == 12


def test_other_matches_are_refused_even_if_as_many() -> None:
    def point(*digests: int) -> Point:
        found = tuple(Measurement(f"{place}", 1, 3, (1,), (1,), {"digest": own}) for place, own in enumerate(digests))
        return Point({"group": "made"}, "0", found)

    require_same_matches(point(4, 4))
    with pytest.raises(Disagreement, match="as many matches, but others"):
        require_same_matches(point(4, 5))


def test_a_slow_system_has_fewer_events() -> None:
    def maker(seconds_per_event: float):
        return lambda events: Contender("one", lambda: Outcome(1, {}, {"wall": events * seconds_per_event, "cpu": 1.0}))

    assert longest({"fast": maker(1e-9)}, 100, 50_000, 1.0) == 50_000
    slow = longest({"fast": maker(1e-9), "slow": maker(1e-3)}, 100, 50_000, 1.0)
    assert 1_000 < slow <= 1_500
    assert longest({"hopeless": maker(1.0)}, 100, 50_000, 1.0) == 100


def test_a_cold_start_does_not_decide_on_the_length() -> None:
    runs: list[int] = []

    def cold(events: int) -> Contender:
        def run() -> Outcome:
            runs.append(events)
            return Outcome(1, {}, {"wall": 5.0 if len(runs) < 3 else events * 1e-5, "cpu": 1.0})

        return Contender("cold", run)

    assert longest({"cold": cold}, 100, 50_000, 1.0) == 50_000
    assert runs[:3] == [100, 100, 100]


def test_a_workload_by_another_formulation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kleene finds one match more than a broken join."""
    workload = WORKLOADS["next"]
    table = workload.stream(8_000)
    ours = kleene(workload, table).run()
    assert ours.matches
    real = relational.polars(workload, table).run()
    assert (real.matches, real.work) == (ours.matches, ours.work)

    def without_one(frame, workload):
        return relational._polars_next(frame, workload).slice(1)

    monkeypatch.setattr(relational, "POLARS", {"next": without_one})
    with pytest.raises(Disagreement):
        experiment(workload, SCALES["tiny"], None, None)


def test_a_system_that_cannot_be_had_is_absent_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLEENE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(relational, "makers", lambda *_: {})
    with engines.Running(fetch=False) as running:
        found = experiment(WORKLOADS["contiguity"], SCALES["tiny"], running, None)
    absent = [note for note in found.notes if note.startswith("Absent: ")]
    assert len(absent) == len(engines.ENGINES)
    assert absent[0] == (
        f"Absent: flink: Flink {jars.FLINK} is not on this machine, and a quick run fetches nothing: `kleene bench peers` does."
    )
    assert [item.name for point in found.points for item in point.measurements] == [KLEENE]


def test_a_failing_program_says_why() -> None:
    with pytest.raises(jars.Unavailable, match="--no-jvm leaves out what needs it"):
        jars.run(["ls", "--no-such-option"])


def test_answers_are_looked_at_once() -> None:
    tables = iter([[pa.table({"t1": [1], "t3": [2]})], [pa.table({"t1": [7], "t3": [8]})]])
    contender = timed("made", lambda: next(tables), counted=False)
    first, second = contender.run(), contender.run()
    assert first.work == second.work
    assert second.seconds is not None


@pytest.mark.spark
@pytest.mark.long
def test_all_systems_find_the_same_matches(tmp_path: Path) -> None:
    """Fetches Flink, Esper and Siddhi if they are not there, and fails if one cannot be had."""
    run_suite(SUITE, None, SCALES["tiny"], tmp_path, say=lambda _: None)
    found = load(SUITE, tmp_path)[0]
    for name, result in found.items():
        systems = {item.name for point in result.points for item in point.measurements}
        assert not any(note.startswith("Absent") for note in result.notes), result.notes
        assert {engine.name for engine in engines.ENGINES if name in engine.jobs} <= systems
        assert "kleene on spark" in systems
        assert all(item.matches for point in result.points for item in point.measurements)


@pytest.mark.spark
@pytest.mark.long
def test_all_systems_have_the_same_answers_about_flights(tmp_path: Path) -> None:
    """Fetches Flink if it is not there, and fails if it cannot be had."""
    run_suite(REAL, None, REAL.scales["tiny"], tmp_path, say=lambda _: None)
    for name, result in load(REAL, tmp_path)[0].items():
        systems = {item.name for point in result.points for item in point.measurements}
        assert not any(note.startswith("Absent") for note in result.notes), result.notes
        assert "kleene on spark" in systems
        assert ("flink" in systems) == bool(QUESTIONS[name].steps)
        assert all(item.matches for point in result.points for item in point.measurements)
