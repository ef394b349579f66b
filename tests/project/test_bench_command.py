"""`kleene bench` and what all suites share: spreads, memory, earlier runs, headlines, figures. Seconds are not looked at."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from benchmarks.command import SUITES
from benchmarks.harness import Contender, Experiment, Measurement, Outcome, Point, measure
from benchmarks.plots import Panel, draw, with_dark_look
from benchmarks.report import HEADLINES, Headline, Presentation, parts_of, put_part, write_report
from benchmarks.suite import Scale, Suite, comparison, load, load_earlier, run_suite, save

from kleene.interfaces import cli
from kleene.interfaces.commands import bench

ROOT = Path(__file__).resolve().parents[2]
QUICK = Scale(name="quick", repeats=3)


def point(ours: tuple[float, ...], theirs: tuple[float, ...] = (1.0, 1.0, 1.0), **parameters: float) -> Point:
    """Two contenders by their seconds."""
    timed = {"ours": ours, "theirs": theirs}
    return Point(parameters or {"V": 1}, "theirs", tuple(Measurement(name, 10, 3, own, own, {}) for name, own in timed.items()))


def experiment(*points: Point, name: str = "one") -> Experiment:
    return Experiment(name, "Title", axis="V", headline="something", clock="cpu", points=points)


def suite(*results: Experiment) -> Suite:
    """A suite whose experiments have known results."""
    names = tuple(result.name for result in results)
    return Suite(
        name="made",
        about="made up",
        experiments=names,
        headlines=names[:1],
        only_jvm=frozenset(names[2:]),
        scales={"quick": QUICK},
        packages=(),
        seed=1,
        parameters={},
        run=lambda wanted, *_: iter([result for result in results if result.name in wanted]),
    )


def test_the_spread_is_that_of_the_ratios_of_rounds() -> None:
    assert point((0.5, 0.25, 0.5), (1.0, 1.0, 2.0)).spread("ours", "cpu") == (2, 4)
    assert point((0.5, 0.25), (1.0, 1.0, 2.0)).spread("ours", "cpu") == (2, 8)
    assert point((0.5, 0.25, 0.5)).spread("theirs", "wall") == (1, 1)


def test_memory_is_what_a_run_took() -> None:
    size = 64 << 20

    def much() -> Outcome:
        return Outcome(int(np.ones(size, np.int8)[-1]))

    found = measure(
        [Contender("much", much), Contender("little", lambda: Outcome(1)), Contender("own", lambda: Outcome(1, memory=5))],
        events=1,
        parameters={},
        baseline="much",
        repeats=1,
    )
    assert found["much"].memory is not None
    assert found["little"].memory is not None
    assert 0.9 * size < found["much"].memory < 2 * size
    assert found["little"].memory < size / 4
    assert found["own"].memory == 5


@pytest.mark.parametrize(
    ("now", "changed"), [((0.5, 0.45, 0.55), 0), ((0.52, 0.6, 0.7), 0), ((0.2, 0.21, 0.22), 1), ((0.9, 0.95, 1.0), 1)]
)
def test_ratios_that_changed_beyond_their_spread_are_named(now: tuple[float, ...], changed: int) -> None:
    before, unchanged = point((0.5, 0.45, 0.55), V=1), point((0.5, 0.5, 0.5), V=2)
    said = comparison("made", experiment(point(now, V=1), unchanged), experiment(before, unchanged)).splitlines()
    assert said[0] == f"made one, beside the run before: {changed} of 2 ratios changed beyond their spread"
    assert [line.strip().partition(":")[0] for line in said[1:]] == ["V=1"] * changed


def test_a_run_is_compared_with_the_last_of_the_same_sizes(tmp_path: Path) -> None:
    fast, slow = experiment(point((0.1, 0.1, 0.1))), experiment(point((0.5, 0.5, 0.5)))
    said: list[str] = []
    for result in (fast, slow, slow):
        run_suite(suite(result), None, QUICK, tmp_path, say=said.append)
    compared = [line for line in said if "beside the run before" in line]
    assert [line.partition(": ")[2].partition(" ratios")[0] for line in compared] == ["1 of 1", "0 of 1"]
    assert load_earlier(suite(slow), tmp_path) == {"one": slow}
    assert save(suite(fast), fast, replace(QUICK, repeats=5), tmp_path) is None
    assert load(suite(fast), tmp_path)[0] == {"one": fast}
    assert load_earlier(suite(fast), tmp_path) == {}


def test_a_quick_run_has_the_headlines_and_progress_is_told(tmp_path: Path) -> None:
    made = suite(*(experiment(point((0.5, 0.5, 0.5)), name=name) for name in ("one", "two", "three")))
    said: list[str] = []
    run_suite(made, None, QUICK, tmp_path, say=said.append)
    assert said[0].startswith("made one: 1 of 1 at quick scale, 0:0")
    assert list(load(made, tmp_path)[0]) == ["one"]
    run_suite(made, ["two", "three"], QUICK, tmp_path, jvm=False, say=said.append)
    assert "made: left out without a JVM: three" in said
    assert list(load(made, tmp_path)[0]) == ["one", "two"]
    assert "ours 2.00 x theirs" in said[1]


def headline(reason: str = "because") -> Headline:
    return Headline(
        experiment="one",
        figure="Figure 1",
        said="twice",
        ours=lambda found: (f"{found.points[0].ratio('ours', 'cpu'):.1f}", found.points[0].ratio("ours", "cpu") >= 2),
        reason=reason,
    )


def presentation(made: Suite, paper: str) -> Presentation:
    return Presentation(
        suite=made,
        title="Made",
        opening="Opening.",
        tables={"one": lambda _: "table"},
        figures={"one": {"": lambda _: [Panel("x", bars=[("ours", 2.0)])]}},
        remarks={"one": "Remark."},
        paper=paper,
        headlines=[headline()],
    )


def test_headlines_are_written_from_results_and_those_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.md").write_text(put_part("", "other", "## Other"))
    for seconds, paper in ((0.5, "One, 2001"), (0.8, "Two, 2002"), (0.25, "One, 2001")):
        result = experiment(point((seconds, seconds, 2 * seconds)))
        save(suite(result), result, QUICK, tmp_path)
        page = write_report(presentation(suite(result), paper), tmp_path, tmp_path).read_text()
    assert list(parts_of(page)) == [HEADLINES, "other", "made"]
    assert [line for line in parts_of(page)[HEADLINES].splitlines() if line.startswith("|")][2:] == [
        "| One, 2001 | Figure 1 | twice | 4.0 (quick scale) | yes |",
        "| Two, 2002 | Figure 1 | twice | 1.2 (quick scale) | no: because |",
    ]
    assert "3 rounds, which differ by ±25 % (median; at most 25 %)" in page


def test_what_was_not_measured_again_stays_on_the_page(tmp_path: Path) -> None:
    made = suite(experiment(point((0.5, 0.5, 1.0))))
    save(made, experiment(point((0.5, 0.5, 1.0))), QUICK, tmp_path)
    earlier = "## Made\n\nOpening.\n\n### Two: another\n\nits table\n\n### Three: is no more\n\nnothing"
    (tmp_path / "benchmarks.md").write_text(put_part("", "made", earlier))
    page = write_report(presentation(replace(made, experiments=("one", "two")), ""), tmp_path, tmp_path).read_text()
    assert [line for line in page.splitlines() if line.startswith("### ")][-1] == "### Two: another"
    assert page.count("### ") == 2
    assert "its table" in page
    assert "is no more" not in page


def test_a_figure_has_a_light_and_a_dark_look(tmp_path: Path) -> None:
    result = experiment(point((0.5, 0.5, 0.5)))
    (path,) = draw(presentation(suite(result), "").figures, "made", result, tmp_path)
    drawn = path.read_text()
    assert drawn.count("prefers-color-scheme: dark") == 1
    assert with_dark_look(drawn) == drawn


def test_all_figures_of_the_page_have_a_dark_look() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    figures = [path for path in (ROOT / "docs" / "figures").glob("*.svg") if f"(figures/{path.name})" in page]
    assert figures
    assert [path.name for path in figures if "prefers-color-scheme" not in path.read_text()] == []


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_has_headlines_and_scales(name: str) -> None:
    found: Suite = import_module(f"benchmarks.{name}.suite").SUITE
    shown: Presentation = import_module(f"benchmarks.{name}.report").PRESENTATION
    assert found.name == name
    assert found.headlines
    assert set(found.headlines) <= set(found.experiments)
    assert set(found.scales) == {"full", "quick", "tiny"}
    assert set(shown.tables) == set(shown.remarks) == set(found.experiments)
    assert {item.experiment for item in shown.headlines} <= set(found.experiments)
    assert bool(shown.headlines) == bool(shown.paper)


def test_the_page_names_every_suite_and_has_its_part() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    assert all(f"`{name}`" in page.partition("```")[0] for name in SUITES)
    assert set(SUITES) | {HEADLINES} == set(parts_of(page))


def test_the_command_lists_suites(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "saseplus", "--list"]) == 0
    assert "4*, 5*, 6, speed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nothing"], "there is no suite 'nothing': choose from sase,"),
        (["sase", "--experiment", "7"], "sase has no experiment '7': choose from 1, 2"),
        (["--experiment", "1"], "--experiment needs one suite"),
        (["sase", "--compare", "--output", "empty"], "run it twice"),
        (["--report", "--output", "empty"], "has no results"),
    ],
)
def test_a_wrong_call_says_what_is_right(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *argv]) == cli.WRONG_USAGE
    assert said in capsys.readouterr().err


def test_results_are_compared_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made: Suite = import_module("benchmarks.sase.suite").SUITE
    for seconds in (0.5, 0.1):
        result = experiment(point((seconds, seconds, seconds)), name="1")
        save(made, result, made.scales["quick"], tmp_path / "quick")
    assert cli.main(["bench", "sase", "--quick", "--compare", "--output", str(tmp_path)]) == 0
    assert "sase 1, beside the run before: 1 of 1 ratios changed" in capsys.readouterr().out


def test_without_a_clone_the_command_says_where_benchmarks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.clone([tmp_path, ROOT]) == ROOT
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "command.py").write_text("raise AssertionError")
    assert bench.clone([tmp_path]) is None  # something else has a folder of that name
    monkeypatch.setattr(bench, "clone", lambda _: None)
    assert cli.main(["bench"]) == cli.WRONG_USAGE
    assert "clone Kleene's repository" in capsys.readouterr().err
