"""Figures 10 to 12 and 14: throughput over that of the written plan, along what workloads are made from.

Basic sharing and basic reordering, which the paper compares with in Figure 12, stand beside the searches in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from benchmarks.harness import Experiment, Point
from benchmarks.multi.contenders import COMPARED, EVERY_SEARCH, SEARCHES, WRITTEN, compared
from benchmarks.multi.streams import DATASETS, Scale
from benchmarks.multi.workloads import Spec, counted, workload
from kleene.plan.multi.search import MultiOptions

SHORT = 500
"""Milliseconds: in longer windows, long conjunctions have more matches than anyone would look at."""
WINDOWS = (250, 500, 1_000, 2_000)
"""Milliseconds."""
TYPE_COUNTS = (80, 40, 20, 12)
DIFFERENCES = (0.25, 0.5, 0.75, 1.0)


def _specs(scale: Scale) -> list[Spec]:
    """The default workload of each dataset."""
    return [Spec(dataset, scale.default_patterns) for dataset in DATASETS]


def _experiment(name: str, title: str, axis: str, headline: str, points: Iterable[Point]) -> Experiment:
    return Experiment(name, title, axis=axis, series="dataset", headline=headline, clock="cpu", points=tuple(points))


def figure_10(scale: Scale) -> Experiment:
    return _experiment(
        "figure10",
        "Workload size: searches, neighbourhoods, prefixes (also Figure 12a, e)",
        "patterns",
        "at least 20 times the written plan at 100 patterns, more for larger workloads; multitrees ahead of prefixes; local "
        "search ahead of sharing alone and of reordering alone",
        (
            compared(replace(spec, patterns=patterns), scale, EVERY_SEARCH, {"patterns": patterns})
            for spec in _specs(scale)
            for patterns in scale.along(scale.patterns)
        ),
    )


def figure_11a(scale: Scale) -> Experiment:
    return _experiment(
        "figure11a",
        "Pattern size (also Figure 12b, f)",
        "size",
        "more for longer patterns, up to two orders of magnitude",
        (
            compared(replace(spec, size=size, window=SHORT, drawn_for=SHORT), scale, COMPARED, {"size": size})
            for spec in _specs(scale)
            for size in scale.along(scale.sizes)
        ),
    )


def figure_11b(scale: Scale) -> Experiment:
    return _experiment(
        "figure11b",
        "Time for the search",
        "seconds",
        "better plans in more time; annealing converges, Tabu search keeps improving",
        (_searched(spec, scale) for spec in _specs(scale)),
    )


def _searched(spec: Spec, scale: Scale) -> Point:
    """All limits of time over one stream, so that the written plan runs once."""
    plans: dict[str, MultiOptions] = {WRITTEN: COMPARED[WRITTEN]}
    for name, options in SEARCHES.items():
        plans |= {f"{name}, {seconds:g} s": replace(options, seconds=seconds) for seconds in scale.along(scale.searches)}
    return compared(spec, replace(scale, search_seconds=max(scale.searches)), plans, {"seconds": max(scale.searches)})


def figure_11c(scale: Scale) -> Experiment:
    return _experiment(
        "figure11c",
        "Time window (also Figure 12c, g)",
        "window",
        "more for longer windows; at least 1.25 times the second-best method",
        (
            compared(replace(spec, window=window), scale, COMPARED, {"window": window})
            for spec in _specs(scale)
            for window in scale.along(WINDOWS)
        ),
    )


def figure_11d(scale: Scale) -> Experiment:
    return _experiment(
        "figure11d",
        "Count window (also Figure 12d, h)",
        "window",
        "more for longer windows; for stocks, whose events come in bursts, more than with windows of time",
        (
            compared(replace(spec, window=counted(window), counted=True), scale, COMPARED, {"window": counted(window)})
            for spec in _specs(scale)
            for window in scale.along(WINDOWS)
        ),
    )


def figure_14a(scale: Scale) -> Experiment:
    """The fewer types there are to choose from, the more patterns have something in common."""
    specs = [replace(spec, types=types) for spec in _specs(scale) for types in scale.along(TYPE_COUNTS)]
    return _experiment(
        "figure14a",
        "Density of the multi-pattern graph (Figure 14a, b)",
        "density",
        "local search ahead of the better of sharing and reordering at every density",
        (compared(spec, scale, COMPARED, {"density": workload(spec).density(), "types": spec.types}) for spec in specs),
    )


def figure_14c(scale: Scale) -> Experiment:
    return _experiment(
        "figure14c",
        "Difference between the rates of a pattern's types (Figure 14c, d)",
        "difference",
        "local search ahead of the better of sharing and reordering at every difference",
        (
            compared(replace(spec, difference=difference), scale, COMPARED, {"difference": difference})
            for spec in _specs(scale)
            for difference in (DIFFERENCES[:: len(DIFFERENCES) - 1] if scale.thin else DIFFERENCES)
        ),
    )
