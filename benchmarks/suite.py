"""A suite of experiments: how it is run, and where its results go. What it measures is in the suite's own folder."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import DERIVED, Experiment, Point, from_json, to_json
from benchmarks.machine import describe, source_digest

SOURCE = source_digest()
"""Of the source as it was when this process began."""

Check = tuple[str, str, bool]
"""What is asked, what was measured, and whether that is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How big a run is; suites add their own sizes."""

    name: str
    repeats: int
    thin: bool = False
    """Only the ends of every axis, to check the experiments themselves."""

    def along(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """The values of an axis that are measured."""
        return (values[0], values[-1]) if self.thin else values


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The experiments of one paper."""

    name: str
    about: str
    """In a line, for `kleene bench --list`."""
    experiments: tuple[str, ...]
    headlines: tuple[str, ...]
    """Those that a quick run has, unless others are named: what the suite is known for, in seconds."""
    only_jvm: frozenset[str] = frozenset()
    """Experiments of which nothing is left without a JVM."""
    scales: Mapping[str, Any]
    """By name: "full", "quick" and "tiny"; each a `Scale`."""
    packages: tuple[str, ...]
    """Whose versions matter."""
    seed: int | None
    """Of the events, unless they are data."""
    parameters: Mapping[str, float]
    """What all experiments have in common, with the paper's symbols."""
    run: Callable[[Sequence[str], Any, Path, bool], Iterator[Experiment]]
    """(names, scale, folder for files of events, whether a JVM may be started) to the experiments, one after the other."""
    checks: Callable[[Experiment], Sequence[Check]] = lambda _: ()
    """What is asked of an experiment's results, told after each."""

    @property
    def results(self) -> str:
        """The name of the file of results."""
        return f"{self.name}.json"


def run_suite(
    suite: Suite,
    names: Sequence[str] | None,
    scale: Scale,
    folder: Path,
    *,
    jvm: bool = True,
    say: Callable[[str], None] = print,
    begun: float | None = None,
) -> None:
    """Runs experiments and writes each result as it comes; experiments not named keep their earlier results.

    `begun` is when the whole run began, if this suite is not all of it: progress is told with the time since.
    """
    wanted = names or (suite.headlines if scale.name == "quick" else suite.experiments)
    chosen = [name for name in wanted if jvm or name not in suite.only_jvm]
    left_out = [name for name in wanted if name not in chosen]
    if left_out:
        say(f"{suite.name}: left out without a JVM: {', '.join(left_out)}")
    begun = time.perf_counter() if begun is None else begun
    found = suite.run(chosen, scale, folder / "events", jvm)
    for number, name in enumerate(chosen, 1):
        say(f"{suite.name} {name}: {number} of {len(chosen)} at {scale.name} scale, {elapsed(begun)} so far")
        experiment = next(found)
        assert experiment.name == name
        earlier = save(suite, experiment, scale, folder)
        say(summary(experiment))
        for asked, measured, reached in suite.checks(experiment):
            say(f"  {'reached' if reached else 'NOT reached'}: {asked}; measured {measured}")
        if earlier is not None:
            say(comparison(suite.name, experiment, earlier))
    for _ in found:  # lets go of what the last experiment held
        raise AssertionError("an experiment that was not asked for")
    say(f"{suite.name}: done, {elapsed(begun)} so far")


def elapsed(begun: float) -> str:
    """Minutes and seconds since a time of `time.perf_counter`."""
    seconds = round(time.perf_counter() - begun)
    return f"{seconds // 60}:{seconds % 60:02}"


def save(suite: Suite, experiment: Experiment, scale: Scale, folder: Path) -> Experiment | None:
    """Puts an experiment's result among those of the suite's file; the one it replaces stays there too, and is returned.

    Only a result of the same sizes can be compared with: one of others is not kept.
    """
    path = folder / suite.results
    document = json.loads(path.read_text()) if path.exists() else {}
    written = {
        "measured": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": describe(suite.packages),
        "scale": asdict(scale),
        "source": SOURCE,
        "seed": suite.seed,
        "repeats": scale.repeats,
        "parameters": dict(suite.parameters),
        "experiment": to_json(experiment),
    }
    written = json.loads(json.dumps(written))  # as it will be read: tuples are lists
    earlier = document.get(experiment.name)
    if earlier is not None and earlier["scale"] == written["scale"]:
        earlier.pop("earlier", None)
        written["earlier"] = earlier
    document[experiment.name] = written
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))
    return _experiment(written["earlier"]["experiment"]) if "earlier" in written else None


def load(suite: Suite, folder: Path) -> tuple[dict[str, Experiment], dict[str, Any]]:
    """(experiments by name, the rest of the document) of a suite's results."""
    path = folder / suite.results
    document = json.loads(path.read_text()) if path.exists() else {}
    experiments = {name: _experiment(document[name].pop("experiment")) for name in suite.experiments if name in document}
    return experiments, document


def load_earlier(suite: Suite, folder: Path) -> dict[str, Experiment]:
    """By name, the results that those on file replaced."""
    path = folder / suite.results
    document = json.loads(path.read_text()) if path.exists() else {}
    return {name: _experiment(entry["earlier"]["experiment"]) for name, entry in document.items() if "earlier" in entry}


def _experiment(written: dict[str, Any]) -> Experiment:
    for point in written["points"]:
        for key in DERIVED:
            point.pop(key, None)
    return from_json(written)


def comparison(suite: str, now: Experiment, earlier: Experiment) -> str:
    """Which ratios are others than in an earlier run: those whose rounds then and now have no ratio in common."""
    clock, changes, compared = now.clock, [], 0
    before = {_setting(point): point for point in earlier.points}
    for point in now.points:
        then = before.get(_setting(point))
        if then is None or then.baseline != point.baseline:
            continue
        for item in point.measurements:
            if item.name == point.baseline or item.name not in {one.name for one in then.measurements}:
                continue
            compared += 1
            (low, high), (old_low, old_high) = point.spread(item.name, clock), then.spread(item.name, clock)
            if low > old_high or high < old_low:
                changes.append(
                    f"  {_setting(point)}: {item.name} / {point.baseline} {then.ratio(item.name, clock):.2f} "
                    f"({old_low:.2f} to {old_high:.2f}), now {point.ratio(item.name, clock):.2f} ({low:.2f} to {high:.2f})"
                )
    opening = f"{suite} {now.name}, beside the run before: {len(changes)} of {compared} ratios changed beyond their spread"
    return "\n".join([opening, *changes])


def summary(experiment: Experiment) -> str:
    """Ratios as text, one line per point."""
    lines = [f"experiment {experiment.name}: {experiment.title}", f"  expected: {experiment.headline}"]
    for point in experiment.points:
        ratios = ", ".join(
            f"{item.name} {point.ratio(item.name, experiment.clock):.2f}{_range(*point.spread(item.name, experiment.clock))}"
            for item in point.measurements
            if item.name != point.baseline
        )
        lines.append(f"  {_setting(point)}: {ratios} x {point.baseline}")
    return "\n".join(lines)


def _range(low: float, high: float) -> str:
    """The spread, where there was more than one round."""
    return f" ({low:.2f} to {high:.2f})" if low < high else ""


def _setting(point: Point) -> str:
    return ", ".join(f"{key}={_short(value)}" for key, value in point.parameters.items())


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
