"""The suite: which experiments there are, how they are run, and where their results go."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness import Experiment, from_json, to_json
from benchmarks.machine import describe, source_digest
from benchmarks.sase import construction, embedded, equivalence, peers
from benchmarks.sase.streams import SEED, Scale, T, W

EMBEDDED: dict[str, Callable[[Scale], Experiment]] = {
    "1": construction.experiment_1,
    "2": construction.experiment_2,
    "3": equivalence.experiment_3,
    "5": peers.experiment_5,
    "6": peers.experiment_6,
    "embedded": embedded.embedded,
}
"""Experiments that need no JVM (5 adds Spark when there is one)."""

Say = Callable[[str], None]

NAMES = (*EMBEDDED, "spark")
RESULTS = "sase.json"
SOURCE = source_digest()
"""Of the source as it was when this process began."""


def run_suite(
    names: Sequence[str], scale: Scale, folder: Path, *, jvm: bool = True, say: Callable[[str], None] = print
) -> None:
    """Runs experiments and writes each result as it comes; experiments not named keep their earlier results."""
    session = None
    try:
        for name in names:
            if jvm and session is None and name in ("5", "spark"):
                from benchmarks.sase.on_spark import start_session

                session = start_session()
            experiment = run_experiment(name, scale, session, folder / "events")
            save(experiment, scale, folder / RESULTS)
            say(summary(experiment))
    finally:
        if session is not None:
            session.stop()


def run_experiment(name: str, scale: Scale, session: Any, events_folder: Path) -> Experiment:
    """One experiment by name."""
    if name == "spark":
        from benchmarks.sase.on_spark import spark

        return spark(scale, session, events_folder)
    if name == "5":
        return peers.experiment_5(scale, session, events_folder)
    return EMBEDDED[name](scale)


def save(experiment: Experiment, scale: Scale, path: Path) -> None:
    """Puts an experiment's result among those of the file."""
    document = json.loads(path.read_text()) if path.exists() else {}
    document[experiment.name] = {
        "measured": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": describe(),
        "scale": asdict(scale),
        "source": SOURCE,
        "seed": SEED,
        "parameters": {"T": T, "W": W},
        "experiment": to_json(experiment),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


def load(path: Path) -> tuple[dict[str, Experiment], dict[str, Any]]:
    """(experiments by name, the rest of the document) of a results file."""
    document = json.loads(path.read_text())
    experiments = {}
    for name in NAMES:
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
