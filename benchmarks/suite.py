"""A suite of experiments: how it is run, and where its results go. What it measures is in the suite's own folder."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Experiment, from_json, to_json
from benchmarks.machine import describe, source_digest

SOURCE = source_digest()
"""Of the source as it was when this process began."""


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
    experiments: tuple[str, ...]
    only_jvm: frozenset[str] = frozenset()
    """Experiments of which nothing is left without a JVM."""
    scales: Mapping[str, Any]
    """By name: "full", "quick" and "tiny"; each a `Scale`."""
    packages: tuple[str, ...]
    """Whose versions matter."""
    seed: int
    parameters: Mapping[str, float]
    """What all experiments have in common, with the paper's symbols."""
    run: Callable[[Sequence[str], Any, Path, bool], Iterator[Experiment]]
    """(names, scale, folder for files of events, whether a JVM may be started) to the experiments, one after the other."""

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
) -> None:
    """Runs experiments and writes each result as it comes; experiments not named keep their earlier results."""
    chosen = names or [name for name in suite.experiments if jvm or name not in suite.only_jvm]
    for experiment in suite.run(chosen, scale, folder / "events", jvm):
        save(suite, experiment, scale, folder)
        say(summary(experiment))


def save(suite: Suite, experiment: Experiment, scale: Scale, folder: Path) -> None:
    """Puts an experiment's result among those of the suite's file."""
    path = folder / suite.results
    document = json.loads(path.read_text()) if path.exists() else {}
    document[experiment.name] = {
        "measured": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": describe(suite.packages),
        "scale": asdict(scale),
        "source": SOURCE,
        "seed": suite.seed,
        "parameters": dict(suite.parameters),
        "experiment": to_json(experiment),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


def load(suite: Suite, folder: Path) -> tuple[dict[str, Experiment], dict[str, Any]]:
    """(experiments by name, the rest of the document) of a suite's results."""
    path = folder / suite.results
    document = json.loads(path.read_text()) if path.exists() else {}
    experiments = {}
    for name in suite.experiments:
        if name in document:
            written = document[name].pop("experiment")
            for point in written["points"]:
                del point["ratios"]
            experiments[name] = from_json(written)
    return experiments, document


def summary(experiment: Experiment) -> str:
    """Ratios as text, one line per point."""
    lines = [f"experiment {experiment.name}: {experiment.title}", f"  expected: {experiment.headline}"]
    for point in experiment.points:
        setting = ", ".join(f"{key}={_short(value)}" for key, value in point.parameters.items())
        ratios = ", ".join(
            f"{item.name} {point.ratio(item.name, experiment.clock):.2f}"
            for item in point.measurements
            if item.name != point.baseline
        )
        lines.append(f"  {setting}: {ratios} x {point.baseline}")
    return "\n".join(lines)


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
