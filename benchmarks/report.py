"""docs/benchmarks.md from the results of runs: tables of ratios beside what the papers say, and the figures.

Every number in the page comes from results files. The remarks explain how to read a table; they hold no measured numbers. The
part of a suite stands between two comments, so that each suite writes its own part and leaves the others as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import Experiment, Point
from benchmarks.plots import Figures, draw
from benchmarks.suite import Suite, load

Rows = list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """How the results of a suite are shown."""

    suite: Suite
    title: str
    opening: str
    """What was measured and how, before the first experiment; no numbers."""
    tables: Mapping[str, Callable[[Experiment], str]]
    figures: Figures
    remarks: Mapping[str, str]
    measured: Mapping[str, str] = field(default_factory=dict)
    """By experiment what its numbers are, where they are not ratios of medians."""


def write_report(presentation: Presentation, results: Path, docs: Path, note: str = "") -> Path:
    """Writes a suite's part of the page, and its figures; the note says what else a reader should know of the run."""
    suite = presentation.suite
    experiments, context = load(suite, results)
    if not experiments:
        raise ValueError(f"{results / suite.results} holds no experiment: run `python -m benchmarks {suite.name}` first")
    sections = [section(presentation, experiment, context[name], docs / "figures") for name, experiment in experiments.items()]
    parts = [f"## {presentation.title}", presentation.opening, _context(context), *([note] if note else []), *sections]
    page = docs / "benchmarks.md"
    page.write_text(put_part(page.read_text() if page.exists() else "", suite.name, "\n\n".join(parts)))
    return page


def put_part(page: str, name: str, text: str) -> str:
    """The page with the part of a suite in its place, or at the end; parts of other suites stay.

    >>> page = put_part(put_part("", "one", "## 1"), "two", "## 2")
    >>> put_part(page, "one", "## 1 again").replace(OPENING, "# Opening").split()
    ['#', 'Opening', '<!--', 'one', '-->', '##', '1', 'again', '<!--', 'end', 'of', 'one', '-->', '<!--', 'two', '-->', \
'##', '2', '<!--', 'end', 'of', 'two', '-->']
    """
    parts = dict(re.findall(r"^<!-- (\w+) -->\n\n(.*?)\n\n<!-- end of \1 -->$", page, re.DOTALL | re.MULTILINE))
    parts[name] = text
    return "\n\n".join([OPENING, *(f"<!-- {key} -->\n\n{part}\n\n<!-- end of {key} -->" for key, part in parts.items())]) + "\n"


def section(presentation: Presentation, experiment: Experiment, context: dict[str, Any], figures: Path) -> str:
    """One experiment: what was expected, the table, the figures, how to read them."""
    name, title = experiment.name, experiment.title
    heading = f"Experiment {name}" if name.isdigit() else re.sub(r"(\d+[a-z]?)$", r" \1", name.capitalize())
    parts = [f"### {heading}: {title}", f"Expected: {experiment.headline}.", presentation.tables[name](experiment)]
    drawn = draw(presentation.figures, presentation.suite.name, experiment, figures)
    parts += [f"![{title}](figures/{path.name})" for path in drawn]
    parts += [presentation.remarks[name], *experiment.notes]
    clock = "CPU time" if experiment.clock == "cpu" else "wall-clock time"
    measured = presentation.measured.get(name, f"ratios of median {clock}, {_rounds(experiment)} rounds")
    parts.append(f"*{context['scale']['name']} scale, {context['measured']}; {measured}.*")
    return "\n\n".join(parts)


def table(header: Sequence[str], rows: Rows) -> str:
    """A Markdown table; columns that are empty in every row are left out.

    >>> print(table(["V1", "unknown", "ratio"], [["100", "", "2.0"]]))
    | V1 | ratio |
    |---|---|
    | 100 | 2.0 |
    """
    kept = [column for column in range(len(header)) if any(row[column] for row in rows)]
    lines = [f"| {' | '.join(header[column] for column in kept)} |", "|" + "---|" * len(kept)]
    return "\n".join([*lines, *(f"| {' | '.join(row[column] for column in kept)} |" for row in rows)])


def times(value: float) -> str:
    """A ratio, with a decimal below 100: 17.7 must not read as a target of 18 reached."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def matches_per_event(point: Point) -> str:
    item = point.measurements[0]
    return f"{(item.matches or 0) / item.events:.3g}"


def _rounds(experiment: Experiment) -> str:
    counts = {len(item.wall) for point in experiment.points for item in point.measurements}
    return " or ".join(str(count) for count in sorted(counts))


def _context(context: dict[str, Any]) -> str:
    latest = max(context.values(), key=lambda item: item["measured"])
    machine = latest["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    hardware = f"{machine['cores']} cores, {machine['memory_gb']} GB of memory, {machine['system']}"
    return (
        f"Events are made from seed {latest['seed']}; time is the event number.\n"
        f"This run: {hardware}, Python {machine['python']}; {versions}."
    )


OPENING = """# Benchmarks

The experiments of the papers that Kleene implements, with the papers' parameters, and comparisons with today's engines. This
page is written by `python -m benchmarks SUITE --report` from the results of a run; the suites are `sase`, `saseplus`, `lazy`,
`aseq`, `multi`, `streaming` and `scale`.

```
pip install -e '.[spark,bench]'
python -m benchmarks sase                         # everything; results in artifacts/bench/sase.json
python -m benchmarks sase --quick                 # a fifth of the events or fewer
python -m benchmarks sase --experiment 1 embedded # some of it
python -m benchmarks sase --no-jvm                # without Spark (saseplus, lazy: without Flink)
python -m benchmarks sase --report                # the suite's part of this page, from the results
```

How it is measured: contenders take turns in every round, after a warm-up in which **their match counts must
be equal**, or nothing is reported. Numbers are ratios of medians to a named contender of the same rounds. CPU time is that of
the process (on Spark, of the JVM and its Python workers; on Flink, of the JVM)."""
