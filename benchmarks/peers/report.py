"""The tables of the suite of peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.harness import Experiment, Measurement, Point
from benchmarks.peers.contenders import KLEENE
from benchmarks.peers.on_spark import KLEENE as ON_SPARK
from benchmarks.peers.suite import ASKED, SPARK, SUITE, WHOLE
from benchmarks.plots import Figures, Panel
from benchmarks.report import Headline, Presentation, checks, megabytes, table, times

OPENING = """\
The same events by every system that can express the query, in one run. Systems find the same matches, or have no row: as many,
and the same sum over their first and last events; or their counts are equal. What a system cannot express is said below the
table.

Kleene, DuckDB and Polars read tables in memory on one thread. Spark has two cores, and reads Parquet to the noop sink; Kleene
on Spark gives the columns of RETURN, as SQL does (in *rare* and *strict*; the other tables were measured when it gave ids and
times besides). Flink runs at parallelism 2 with object reuse and without checkpoints, on events from arrays in its JVM;
*prefiltered* drops events of other types by hand before they are divided by key. Esper and Siddhi take the same events in one
thread. Programs on a JVM are timed inside it, warm, from the first event to the end of the last operator.

Systems are given as many events as they take a second or two for (longer where they manage so few that a run of Kleene would
be its fixed cost). Spark has five times the whole stream (the stream itself where a page was measured before 2026-11-17):
over the stream a job takes less than a second, 0.2 of which Kleene needs before it begins, to look for keys that are much
larger than others. *Kleene / it, on its events* compares the two over those, in the same rounds, with the lowest and the
highest ratio of any round; *at its own length* has Kleene's throughput over the whole stream instead, where the fixed cost of
a run does not count. Where all events have the same type, no system is given it. Times are those of the clock."""

REMARKS = {
    "keyed": "`SEQ(E1 a, E2 b, E3 c) WHERE [key] WITHIN 10 seconds`, 20 types, 1,000 keys, an event per millisecond.",
    "next": "As before, with `skip_till_next_match(a, b, c)`: one match for each first event at most.",
    "rare": """\
`WHERE a.x < b.x AND b.x < c.x WITHIN 1 second`: A and B are frequent, and one event in a thousand is a C. A system that binds
events in the order in which they come keeps every pair that may still find its C.""",
    "lists": "`SEQ(E1 a, E2+ b[], E3 c) WHERE [key]`: every choice of the events between is a match.",
    "rising": """\
`SEQ(E1+ a[], E1 c)` with `a[1].x % 500 = 0`, `a[i].x > a[i-1].x` and `c.y < 150`. Flink's own relaxed contiguity has other
matches; its pattern selects all events up to c, and the rising ones are picked out of each match.""",
    "contiguity": "The same list, ended by the first event of the key that does not rise: one match for each start.",
    "strict": "One symbol, so that the events between are all events. Engines that need a key have that symbol.",
    "negation": "`SEQ(E1 a, !(E2 n), E3 c) WHERE [key]`. In SQL, as many n came before a as before c.",
    "many": "Random types. Kleene shares what the patterns have in common; Flink and Esper run all of them in one job.",
    "counting": """\
`GROUP BY key AGG COUNT`. SQL has sums of cumulative sums; engines that only match build every match to count it.""",
}


def whole(experiment: Experiment) -> Measurement:
    """Kleene over the whole stream."""
    return next(point for point in experiment.points if point.parameters["group"] == WHOLE)[KLEENE]


def rivals(experiment: Experiment) -> list[tuple[Point, Measurement]]:
    """All contenders but Kleene, and Kleene on Spark among them, with their points."""
    return [(point, item) for point in experiment.points for item in point.measurements if item.name != KLEENE]


def _table(experiment: Experiment) -> str:
    own, clock = whole(experiment), experiment.clock
    head = [KLEENE, f"{own.events:,}", f"{own.matches:,}", _rounded(own.throughput("wall")), _rounded(own.throughput("cpu"))]
    rows = [[*head, "", "", _memory(own)]]
    for point, item in rivals(experiment):
        low, high = (1 / value for value in reversed(point.spread(item.name, clock)))
        ratio = 1 / point.ratio(item.name, clock)
        rows.append(
            [
                item.name,
                f"{item.events:,}",
                f"{item.matches:,}",
                _rounded(item.throughput("wall")),
                _rounded(item.throughput("cpu")),
                f"{times(ratio)} ({times(low)} to {times(high)})" if low < high else times(ratio),
                times(own.throughput(clock) / item.throughput(clock)),
                _memory(item),
            ]
        )
    header = ["system", "events", "matches", "events per second", "per CPU second", "Kleene / it, on its events"]
    shown = table([*header, "Kleene / it, at its own length", "peak memory"], rows)
    found = _checks(experiment)
    return f"{shown}\n\n{checks(found)}" if found else shown


def _memory(item: Measurement) -> str:
    return "" if item.memory is None else megabytes(item.memory)


def _rounded(value: float) -> str:
    """A throughput, to three digits."""
    return f"{float(f'{value:.3g}'):,.10g}"


def over_flink(experiment: Experiment, variant: str = "flink") -> tuple[float, int] | None:
    """Kleene over Flink's Pattern API on the same events, and how many these are."""
    found = [(point, item) for point, item in rivals(experiment) if item.name == variant]
    if not found:
        return None
    ((point, item),) = found
    return 1 / point.ratio(variant, "wall"), item.events


def _over_tables(experiment: Experiment) -> float | None:
    """Kleene over the fastest of DuckDB's formulations and Polars, on the events of each."""
    found = [
        point[KLEENE].throughput("wall") / item.throughput("wall")
        for point, item in rivals(experiment)
        if item.name.startswith(("duckdb", "polars"))
    ]
    return min(found, default=None)


def _over_spark_sql(experiment: Experiment) -> float | None:
    """Kleene on Spark over the fastest of Spark SQL's formulations."""
    point = next((point for point in experiment.points if point.parameters["group"] == SPARK), None)
    others = [item.throughput("wall") for item in point.measurements if item.name.startswith("spark sql")] if point else []
    return point[ON_SPARK].throughput("wall") / max(others) if point and others else None


def _checks(experiment: Experiment) -> list[tuple[str, str, bool]]:
    rows = []
    asked, flink = ASKED.get(experiment.name), over_flink(experiment)
    if asked is not None and flink is not None:
        rows.append((f"Kleene / Flink, on its events: at least {asked:,}", times(flink[0]), flink[0] >= asked))
    for asked_for, ratio in (
        ("Kleene / the fastest of DuckDB and Polars: above 1", _over_tables(experiment)),
        ("Kleene on Spark / the fastest Spark SQL: above 1", _over_spark_sql(experiment)),
    ):
        if ratio is not None:
            rows.append((asked_for, times(ratio), ratio > 1))
    return rows


def _headline(name: str, figure: str, reason: str = "see the table") -> Headline:
    def ours(experiment: Experiment) -> tuple[str, bool] | None:
        found, filtered = over_flink(experiment), over_flink(experiment, "flink, prefiltered")
        if found is None:
            return None
        ratio, events = found
        shown = f"{times(ratio)} times, on {events:,} events"
        return shown + (f"; {times(filtered[0])} with a prefilter by hand" if filtered else ""), ratio >= ASKED[name]

    said = f"{ASKED[name]:,} times Flink's Pattern API (a goal of ours)"
    return Headline(experiment=name, figure=figure, said=said, ours=ours, reason=reason)


def _bars(experiment: Experiment) -> Sequence[Panel]:
    bars = [(item.name, 1 / point.ratio(item.name, "wall")) for point, item in rivals(experiment)]
    return [Panel("Kleene's throughput / that of the system, on its events", bars=bars, reference=1.0)]


FIGURES: Figures = {name: {"": _bars} for name in SUITE.experiments}
TABLES_BY_NAME: dict[str, Callable[[Experiment], str]] = dict.fromkeys(SUITE.experiments, _table)

PRESENTATION = Presentation(
    suite=SUITE,
    title="Peers",
    opening=OPENING,
    tables=TABLES_BY_NAME,
    figures=FIGURES,
    remarks=REMARKS,
    paper="Peers, today",
    headlines=(
        _headline("keyed", "a keyed sequence"),
        _headline("rising", "Kleene plus, skip till next match"),
        _headline("rare", "any match without a key", "over so few events a run of Kleene is its fixed cost; see the table"),
    ),
)
