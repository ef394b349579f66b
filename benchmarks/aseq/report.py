"""The tables of the A-Seq experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchmarks.aseq.contenders import AUTO, CONSTRUCTION, MARKING, MATCHES, STACKS
from benchmarks.aseq.on_spark import EMBEDDED, SHUFFLED, SPARK
from benchmarks.aseq.plots import FIGURES, case_name, gain, microseconds, over_shortest, overhead
from benchmarks.aseq.remarks import OPENING, REMARKS
from benchmarks.aseq.sharing import ALONE, SHARED
from benchmarks.aseq.suite import SUITE
from benchmarks.aseq.throughput import DUCKDB, SCAN
from benchmarks.harness import Experiment, Point
from benchmarks.plots import of_series
from benchmarks.report import Headline, Presentation, table, times

PAPER_GAIN = 16_736
"""How many times faster than construction the paper's counters are at length 5."""

COUNTERS = (MARKING, AUTO)
FLAT = 1.5
"""How many times the cost at the beginning of an axis counts as the same."""


def _checks(rows: Iterable[tuple[str, str, bool]]) -> str:
    """What was asked, what was measured, and whether that is enough."""
    return table(["asked", "measured", "reached"], [[*row, "yes" if reached else "no"] for *row, reached in rows])


def _against_construction(experiment: Experiment) -> str:
    compared, whole = of_series(experiment, "compared"), of_series(experiment, "whole")
    first = {name: microseconds(whole[0][name]) for name in (CONSTRUCTION, *COUNTERS)}
    timed, counted = [], []
    for beside, alone in zip(compared, whole, strict=True):
        at = f"{beside.parameters[experiment.axis]:,}"
        timed.append(
            [
                at,
                f"{alone[AUTO].events:,}",
                *(f"{microseconds(alone[name]) / first[name]:,.3g}" for name in first),
                *(times(alone.ratio(name, experiment.clock)) for name in COUNTERS),
                f"{beside[AUTO].events:,}",
                *(times(beside.ratio(name, experiment.clock)) for name in (*COUNTERS, CONSTRUCTION)),
            ]
        )
        built, counters = beside[MATCHES].work["objects"], beside[MARKING].work["objects"]
        counted.append([at, f"{beside[AUTO].events:,}", f"{built:,}", f"{counters:,}", times(built / max(1, counters))])
    start = f"{experiment.axis} {compared[0].parameters[experiment.axis]}"
    header = [experiment.axis, "events", *(f"{name}: CPU per event / {start}" for name in first)]
    header += [f"{name} / construction" for name in COUNTERS]
    header += ["fewer events", *(f"{name} / matches" for name in (*COUNTERS, CONSTRUCTION))]
    objects = table([experiment.axis, "events", "matches: objects", "counters: objects", "matches / counters"], counted)
    return "\n\n".join(["Time:", table(header, timed), "Objects at the peak:", objects])


def _figure_12(experiment: Experiment) -> str:
    rows = []
    for stream in ("whole", "compared"):
        last = of_series(experiment, stream)[-1]
        asked = f"{last.baseline} at length {last.parameters['length']}, {last[AUTO].events:,} events: at least {PAPER_GAIN:,}"
        for name in COUNTERS:
            ratio = last.ratio(name, experiment.clock)
            rows.append((f"{name} / {asked}", times(ratio), ratio >= PAPER_GAIN))
    return _against_construction(experiment) + "\n\n" + _checks(rows)


def _long(experiment: Experiment) -> str:
    rows = [
        [
            f"{point.parameters['length']}",
            *(f"{1 / over_shortest(point, name):.2f}" for name in (AUTO, MARKING)),
            *(f"{_per_relevant(point, name):.2f}" for name in (AUTO, MARKING)),
            times(point[MARKING].seconds("cpu") / point[AUTO].seconds("cpu")),
            f"{point[AUTO].work['total'] / point[AUTO].work['rows']:.2g}",
        ]
        for point in experiment.points
    ]
    header = ["length", *(f"{name}: CPU / length 2" for name in (AUTO, MARKING))]
    header += [f"{name}: CPU per event of the pattern / length 2" for name in (AUTO, MARKING)]
    shown = table([*header, "auto / marking", "matches in a window, mean"], rows)
    worst = max(1 / over_shortest(point, AUTO) for point in experiment.points)
    return shown + "\n\n" + _checks([(f"auto: CPU / length 2: at most {FLAT}", f"{worst:.2f}", worst <= FLAT)])


def _per_relevant(point: Point, name: str) -> float:
    """CPU per event that the pattern has a component for, over that of the shortest pattern."""
    long, short = point[name], point[f"{name}, length 2"]
    return short.work["relevant"] / long.work["relevant"] / over_shortest(point, name)


def _negation(experiment: Experiment) -> str:
    rows = []
    for built, counted in zip(of_series(experiment, "compared"), of_series(experiment, "whole"), strict=True):
        shown = [f"{overhead(point, name):.3f}" for point, name in _overheads(built, counted)]
        rows.append([f"{built.parameters['window']:,}", *shown])
    header = ["window, ms", *(f"{name}: q2 / q1" for name in (CONSTRUCTION, MATCHES, *COUNTERS))]
    whole = of_series(experiment, "whole")
    checks = []
    for name in (MARKING, AUTO):
        most = max(overhead(point, name) for point in whole)
        checks.append((f"{name}: CPU of q2 / q1: at most 1.05", f"{most:.3f}", most <= 1.05))
    return table(header, rows) + "\n\n" + _checks(checks)


def _overheads(built: Point, counted: Point) -> list[tuple[Point, str]]:
    return [(built, CONSTRUCTION), (built, MATCHES), *((counted, name) for name in COUNTERS)]


def _three(experiment: Experiment) -> str:
    names = [item.name for item in experiment.points[0].measurements if item.name not in (MATCHES, CONSTRUCTION)]
    rows = [
        [
            f"{point.parameters['window']:,}",
            f"{point[MATCHES].events:,}",
            *(times(point.ratio(name, experiment.clock)) for name in (CONSTRUCTION, *names)),
            *(f"{gain(point, method):.2f}" for method in (MARKING, STACKS)),
        ]
        for point in experiment.points
    ]
    header = ["window, ms", "events", *(f"{name} / matches" for name in (CONSTRUCTION, *names))]
    header += [f"{method}: {SHARED} / {ALONE}" for method in (MARKING, STACKS)]
    last = experiment.points[-1]
    slowest = min(last.ratio(name, experiment.clock) for name in names)
    asked = f"counters / matches at {last.parameters['window']:,} ms: at least 100"
    return table(header, rows) + "\n\n" + _checks([(asked, times(slowest), slowest >= 100)])


def _gains(experiment: Experiment) -> str:
    rows = [
        [
            f"{point.parameters[experiment.axis]}",
            *(f"{gain(point, method):.2f}" for method in (MARKING, STACKS)),
            *(
                f"{point[AUTO].throughput('cpu') / point[f'{method}, {ALONE}'].throughput('cpu'):.2f}"
                for method in (STACKS, MARKING)
            ),
        ]
        for point in experiment.points
    ]
    label = "queries" if experiment.axis == "queries" else "types in common"
    header = [label, *(f"{method}: {SHARED} / {ALONE}" for method in (MARKING, STACKS))]
    shown = table([*header, *(f"auto / {method}, {ALONE}" for method in (STACKS, MARKING))], rows)
    if experiment.axis != "queries":
        return shown
    last = experiment.points[-1]
    checks = [
        (
            f"{method}: {SHARED} / {ALONE} at {last.parameters['queries']} queries: at least 2",
            f"{gain(last, method):.2f}",
            gain(last, method) >= 2,
        )
        for method in (MARKING, STACKS)
    ]
    return shown + "\n\n" + _checks(checks)


def _windows(experiment: Experiment) -> str:
    rows, flat, apart = [], 0.0, {}
    for point in experiment.points:
        live = int(point.parameters["live"])
        growth = 1 / point.ratio(STACKS, "cpu")
        apart[live] = point[MARKING].seconds("cpu") / point[STACKS].seconds("cpu")
        flat = max(flat, growth)
        rows.append([f"{live:,}", f"{growth:.2f}", times(1 / point.ratio(MARKING, "cpu")), times(apart[live])])
    header = ["live starts", "stacks: CPU / at 100 live", "marking: CPU / stacks at 100 live", "stacks / marking"]
    checks = [(f"stacks: CPU / at 100 live: at most {FLAT}", f"{flat:.2f}", flat <= FLAT)]
    if 10_000 in apart:
        checks.append(("stacks / marking at 10,000 live starts: at least 10", times(apart[10_000]), apart[10_000] >= 10))
    return table(header, rows) + "\n\n" + _checks(checks)


def _millions(value: float) -> str:
    return f"{value / 1e6:.3g}"


def _throughput(experiment: Experiment) -> str:
    rows = []
    for point in experiment.points:
        auto, target = point[AUTO].throughput("cpu"), point.parameters["target"]
        rows.append(
            [
                case_name(point),
                f"{point[AUTO].work['rows'] / point[AUTO].events:.2g}",
                _millions(auto),
                f"{target}",
                ("yes" if auto >= float(target) * 1e6 else "no") if target else "",
                f"{auto / point[SCAN].throughput('cpu'):.2g}",
                times(point.ratio(AUTO, "cpu")) if point.baseline == DUCKDB else "",
            ]
        )
    header = ["query and stream", "rows per event", "million events per CPU second", "asked", "reached", "auto / scan"]
    return table([*header, "auto / DuckDB"], rows)


def _spark(experiment: Experiment) -> str:
    rows = []
    for point in experiment.points:
        kleene, other = point[SPARK], point[SHUFFLED]
        one = next(item for item in of_series(experiment, point.parameters["case"]) if item.parameters["cores"] == 1)
        rows.append(
            [
                f"{point.parameters['case']}",
                f"local[{point.parameters['cores']}]",
                *(f"{kleene.seconds(clock) / other.seconds(clock):.2f}" for clock in ("wall", "cpu")),
                f"{one[SPARK].seconds('wall') / kleene.seconds('wall'):.2f}",
                f"{one[SHUFFLED].seconds('wall') / other.seconds('wall'):.2f}",
                f"{kleene.seconds('wall') / point[EMBEDDED].seconds('wall'):.2f}",
                _millions(kleene.throughput("wall")),
            ]
        )
    header = ["query", "master", "time / read and shuffle, wall", "CPU", "local[1] / this, wall"]
    header += ["the same of read and shuffle", "time / embedded, wall", "million events per second"]
    return table(header, rows)


TABLES: dict[str, Callable[[Experiment], str]] = {
    "figure12": _figure_12,
    "figure13": _against_construction,
    "figure14a": _long,
    "figure14b": _negation,
    "figure15": _three,
    "figure16a": _gains,
    "figure16b": _gains,
    "figure16c": _gains,
    "figure16d": _gains,
    "windows": _windows,
    "throughput": _throughput,
    "spark": _spark,
}


def _longest(experiment: Experiment) -> tuple[str, bool]:
    last = of_series(experiment, "whole")[-1]
    ratio = last.ratio(AUTO, experiment.clock)
    return f"{times(ratio)} times, over {last[AUTO].events:,} events", ratio >= PAPER_GAIN


def _slowest_counters(experiment: Experiment) -> tuple[str, bool]:
    last = experiment.points[-1]
    names = [item.name for item in last.measurements if item.name not in (MATCHES, CONSTRUCTION)]
    slowest = min(last.ratio(name, experiment.clock) for name in names)
    return f"{times(slowest)} times at least", slowest >= 100


def _shared(method: str, asked: float) -> Callable[[Experiment], tuple[str, bool]]:
    def ours(experiment: Experiment) -> tuple[str, bool]:
        found = gain(experiment.points[-1], method)
        return f"{found:.2f} times ({method})", found >= asked

    return ours


_ROWS = "writing rows, which costs the same either way, is in the time"
HEADLINES = (
    Headline(
        experiment="figure12",
        figure="Figure 12",
        said=f"{PAPER_GAIN:,} times construction at length 5",
        ours=_longest,
        reason="see the table",
    ),
    Headline(
        experiment="figure15",
        figure="Figure 15",
        said="three queries 100 times construction",
        ours=_slowest_counters,
        reason="see the table",
    ),
    Headline(
        experiment="figure16a",
        figure="Figure 16a",
        said="6 queries with a common prefix about 2 times faster when it is shared",
        ours=_shared(MARKING, 2),
        reason=_ROWS,
    ),
    Headline(
        experiment="figure16b",
        figure="Figure 16b",
        said="5 times with a common prefix of 6",
        ours=_shared(MARKING, 5),
        reason=_ROWS,
    ),
    Headline(
        experiment="figure16c",
        figure="Figure 16c",
        said="2.6 times with a common substring of 6",
        ours=_shared(STACKS, 2.6),
        reason=_ROWS,
    ),
)

PRESENTATION = Presentation(
    suite=SUITE,
    title="A-Seq",
    paper="A-Seq, 2014",
    headlines=HEADLINES,
    opening=OPENING,
    tables=TABLES,
    figures=FIGURES,
    remarks=REMARKS,
)
