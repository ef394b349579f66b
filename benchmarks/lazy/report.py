"""The tables of the lazy evaluation experiments."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from benchmarks.harness import Experiment, Measurement, Point
from benchmarks.lazy.contenders import (
    AUTO,
    DOUBTFUL,
    FINAL_ROUNDS,
    FINALISTS,
    MOST_FINALS,
    best_chain,
    evaluations,
    forced,
    loss,
    noise,
    shortest,
)
from benchmarks.lazy.plots import FIGURES
from benchmarks.lazy.remarks import OPENING, REMARKS
from benchmarks.lazy.suite import SUITE
from benchmarks.plots import of_series, series_values
from benchmarks.report import Headline, Presentation, Rows, table, times

RARE_F_C = 0.01
"""Up to this f_c, lazy evaluation is asked to save two orders of magnitude."""
NEAR = 1.2
"""How many times the time of the best forced choice is close to it."""


def _checks(rows: Iterable[tuple[str, str, bool]]) -> str:
    """What was asked, what was measured, and whether that is enough."""
    return table(["asked", "measured", "reached"], [[*row, "yes" if reached else "no"] for *row, reached in rows])


def _per_event(item: Measurement) -> str:
    return f"{evaluations(item) / item.events:.3g}"


def _fewer(point: Point, item: Measurement) -> float:
    """How many times as many evaluations the eager automaton needs."""
    return evaluations(point["eager"]) / max(1, evaluations(item))


def _tree_to_best(point: Point) -> float:
    """The evaluations of the tree over those of the best chain."""
    return evaluations(point["tree"]) / max(1, evaluations(best_chain(point)))


def _along_f_c(experiment: Experiment) -> str:
    counted, timed = [], []
    names = [item.name for item in experiment.points[0].measurements]
    for series in series_values(experiment):
        for point in of_series(experiment, series):
            head = [str(series), f"{point.parameters['f_c']:g}"]
            others = [times(_fewer(point, point[name])) for name in names if name not in ("eager", "sequence")]
            counted.append(
                [*head, f"{point['eager'].matches:,}", _per_event(point["eager"]), *others, f"{_tree_to_best(point):.2f}"]
            )
            ratios = [times(point.ratio(name, experiment.clock)) for name in names if name != "eager"]
            timed.append([*head, *ratios, f"{loss(point):.2f}"])
    header = [experiment.series or "", "f_c"]
    counts = [*header, "matches", "eager: evaluations per event"]
    counts += [f"eager / {name}" for name in names if name not in ("eager", "sequence")]
    speeds = [*header, *(f"{name} / eager" for name in names if name != "eager"), "auto's time / best forced"]
    return "\n\n".join(
        [
            "Evaluations:",
            table([*counts, "tree / best chain"], counted),
            "Throughput:",
            table(speeds, timed),
        ]
    )


def _figure_7(experiment: Experiment) -> str:
    rare = [point for point in experiment.points if float(point.parameters["f_c"]) <= RARE_F_C]
    saved = {"best chain": [_fewer(point, best_chain(point)) for point in rare]}
    saved["tree"] = [_fewer(point, point["tree"]) for point in rare]
    trees, autos = [_tree_to_best(point) for point in experiment.points], [loss(point) for point in experiment.points]
    rows = [
        (f"eager / {name}, evaluations at f_c up to {RARE_F_C}: at least 100", times(min(found)), min(found) >= 100)
        for name, found in saved.items()
    ]
    rows.append(("tree / best chain, evaluations: at most 1.05", f"{max(trees):.2f}", max(trees) <= 1.05))
    rows.append((f"auto's time / best forced choice: at most {NEAR}", f"{max(autos):.2f}", max(autos) <= NEAR))
    return _along_f_c(experiment) + "\n\n" + _checks(rows)


def _peaks(experiment: Experiment) -> str:
    names = [item.name for item in experiment.points[0].measurements]
    rows = [
        [
            f"{point.parameters['quotes']:,}",
            f"{point['eager'].work['peak_buffered']:,}",
            *(f"{point[name].work['peak_instances']:,}" for name in names),
        ]
        for point in experiment.points
    ]
    return table(["quotes", "events buffered", *names], rows)


def _changing(experiment: Experiment) -> str:
    phases = list(dict.fromkeys(point.parameters["phase"] for point in experiment.points))
    names = [item.name for item in experiment.points[0].measurements]
    rows: Rows = []
    losses: dict[str, list[float]] = {name: [] for name in names}
    for phase in phases:
        points = [point for point in experiment.points if point.parameters["phase"] == phase]
        totals = {name: sum(evaluations(point[name]) for point in points) for name in names}
        best = min((name for name in names if name.startswith("chain")), key=totals.__getitem__)
        for name in names:
            losses[name].append(totals[name] / max(1, totals[best]))
        shown = [times(losses[name][-1]) for name in names]
        rows.append([f"{phase:,}", str(points[0].parameters["rarest"]), best, f"{totals[best] / len(points):,.0f}", *shown])
    header = ["phase", "rarest", "best chain", "its evaluations per step", *(f"{name} / best chain" for name in names)]
    best_fixed = min(max(losses[name]) for name in names if name.startswith("chain"))
    checks = [
        (f"{name} / best chain of each phase: at most 2", times(max(losses[name])), max(losses[name]) <= 2)
        for name in ("tree", AUTO)
    ]
    checks.append(("every chain / best chain, in its worst phase: at least 10", times(best_fixed), best_fixed >= 10))
    return table(header, rows) + "\n\n" + _checks(checks)


def _random(experiment: Experiment) -> str:
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in experiment.points:
        key = (str(point.parameters["operator"]), f"{point.parameters['components']}")
        groups.setdefault(key, []).append(point)
    rows = [
        [*key, *_distribution(points)]
        for key, points in sorted(groups.items(), key=lambda item: (item[0][0] != "SEQ", item[0]))
    ]
    rows.append(["all", "", *_distribution(experiment.points)])
    header = ["operator", "components", "workloads", "median of auto / best", "9 in 10 below", "largest", f"above {NEAR}"]
    best = Counter(_kind(min(forced(point), key=shortest).name) for point in experiment.points)
    chosen = ", ".join(f"{name} {count}" for name, count in best.most_common())
    above = sum(loss(point) > NEAR for point in experiment.points)
    floor = sorted(noise(point) for point in experiment.points)
    twice = f"Auto's odd rounds against its even ones: {statistics.median(floor):.2f} (median), {floor[-1]:.2f} (largest)."
    checks = [(f"auto's time / best forced choice: at most {NEAR}", f"{above} of {len(experiment.points)} above", above == 0)]
    return "\n\n".join(
        [table(header, rows), f"Best forced choice: {chosen}. {twice}", "The largest:", _worst(experiment), _checks(checks)]
    )


def _kind(name: str) -> str:
    return "a chain" if name.startswith("chain") else name


def _distribution(points: Sequence[Point]) -> list[str]:
    found = sorted(loss(point) for point in points)
    ninth = found[min(len(found) - 1, int(0.9 * len(found)))]
    shown = [f"{value:.2f}" for value in (statistics.median(found), ninth, found[-1])]
    return [f"{len(found)}", *shown, f"{sum(value > NEAR for value in found)}"]


def _worst(experiment: Experiment) -> str:
    rows = []
    for point in sorted(experiment.points, key=loss, reverse=True)[:5]:
        best = min(forced(point), key=shortest)
        given = point.parameters
        rows.append(
            [
                f"{given['workload']}",
                f"{given['operator']} of {given['components']}",
                str(given["keyed"]),
                f"{given['window']:,}",
                f"{loss(point):.2f}",
                best.name,
                f"{1e3 * shortest(best):.3g}",
                times(evaluations(point[AUTO]) / max(1, evaluations(best))),
            ]
        )
    header = ["workload", "pattern", "keyed", "window", "auto / best", "best", "its CPU ms", "evaluations, auto / best"]
    return table(header, rows)


def _throughput(experiment: Experiment) -> str:
    clock, rows = experiment.clock, []
    losses, small = [], []
    shorts = {_case(point): point for point in experiment.points if point.parameters["stream"] == "short"}
    for point in experiment.points:
        if point.parameters["stream"] == "short":
            continue
        short = shorts.get(_case(point))
        auto = point[AUTO].throughput(clock)
        row = [
            str(point.parameters["predicates"]),
            str(point.parameters["rare"]),
            f"{100 * float(point.parameters['share']):g}",
            f"{point[AUTO].events:,}",
            f"{point[AUTO].matches:,}",
            _rounded(auto),
            times(auto / point["sequence"].throughput(clock)),
            f"{loss(point):.2f}",
        ]
        losses.append(loss(point))
        small += [auto] if point[AUTO].matches < point[AUTO].events else []
        rows.append(row + (_beside_flink(short, auto, clock) if short else [""] * 5))
    header = [
        "predicates",
        "rare",
        "share, %",
        "events",
        "matches",
        "auto: events per CPU second",
        "auto / sequence",
        "auto's time / best forced",
    ]
    beside = ["Flink's events", "its matches", "its events per CPU second", "auto / Flink", "on Flink's events"]
    checks = [(f"auto's time / best forced choice: at most {NEAR}", f"{max(losses):.2f}", max(losses) <= NEAR)]
    if small:
        asked = "events per CPU second where there are fewer matches than events: at least 10,000,000"
        checks.append((asked, _rounded(min(small)), min(small) >= 10e6))
    return table([*header, *beside], rows) + "\n\n" + _checks(checks)


def _rounded(value: float) -> str:
    """A throughput, to three digits."""
    return f"{float(f'{value:.3g}'):,.10g}"


def _case(point: Point) -> tuple[float | str, ...]:
    return tuple(point.parameters[name] for name in ("predicates", "rare", "share"))


def _beside_flink(short: Point, auto: float, clock: str) -> list[str]:
    flink = short["flink"]
    return [
        f"{flink.events:,}",
        f"{flink.matches:,}",
        _rounded(flink.throughput(clock)),
        times(auto / flink.throughput(clock)),
        times(short.ratio(AUTO, clock)),
    ]


TABLES: dict[str, Callable[[Experiment], str]] = {
    "figure7": _figure_7,
    "figure8": _along_f_c,
    "figure9": _peaks,
    "figure10": _changing,
    "random200": _random,
    "throughput": _throughput,
}


def _rare_first(experiment: Experiment) -> tuple[str, bool]:
    rare = [_fewer(point, best_chain(point)) for point in experiment.points if float(point.parameters["f_c"]) <= 0.1]
    return f"{times(min(rare))} to {times(max(rare))} times fewer", min(rare) >= 10


def _throughout(experiment: Experiment) -> tuple[str, bool]:
    worst = 0.0
    for phase in {point.parameters["phase"] for point in experiment.points}:
        points = [point for point in experiment.points if point.parameters["phase"] == phase]
        names = [item.name for item in points[0].measurements]
        totals = {name: sum(evaluations(point[name]) for point in points) for name in names}
        best = min(value for name, value in totals.items() if name.startswith("chain"))
        worst = max(worst, totals["tree"] / max(1, best))
    return f"at most {worst:.2f} times the best chain of each phase", worst <= NEAR


HEADLINES = (
    Headline(
        experiment="figure7",
        figure="Figure 7",
        said="one to three orders of magnitude fewer evaluations with the rare event first (f_c up to 0.1)",
        ours=_rare_first,
        reason="see the table",
    ),
    Headline(
        experiment="figure10",
        figure="Figure 10",
        said="the tree is the best throughout while the rarest type changes",
        ours=_throughout,
        reason="see the table",
    ),
)

PRESENTATION = Presentation(
    suite=SUITE,
    title="Lazy evaluation",
    paper="Lazy evaluation, 2015",
    headlines=HEADLINES,
    opening=OPENING,
    tables=TABLES,
    figures=FIGURES,
    remarks=REMARKS,
    measured={
        **dict.fromkeys(
            ("figure7", "figure8", "throughput"),
            f"median CPU time, auto / best of the best round of each; {FINAL_ROUNDS} rounds more of these and the baseline, "
            f"up to {MOST_FINALS * FINAL_ROUNDS} where the first had auto above {DOUBTFUL}",
        ),
        "random200": f"CPU time, the best round of each; {FINAL_ROUNDS} rounds more of auto and the {FINALISTS} fastest, "
        f"up to {MOST_FINALS * FINAL_ROUNDS} where the first had auto above {DOUBTFUL}",
    },
)
