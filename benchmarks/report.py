"""docs/benchmarks.md from the results of runs: tables of ratios beside what the papers say, and the figures.

Every number in the page comes from results files. The remarks explain how to read a table; they hold no measured numbers. The
part of a suite stands between two comments, so that each suite writes its own part and leaves the others as they are; and
the sections of experiments that the results do not have stay, too.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import Experiment, Point
from benchmarks.plots import Figures, draw
from benchmarks.suite import Check, Suite, load

Rows = list[list[str]]

HEADLINES = "headlines"
"""The part of the page before those of the suites."""
MOST_NAMED = 8
"""Contenders whose memory is told one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A number that a paper is known for, or a goal, and ours beside it."""

    experiment: str
    figure: str
    said: str
    """What the paper says, or what is asked."""
    ours: Callable[[Experiment], tuple[str, bool] | None]
    """What was measured, and whether it is enough; None where the experiment lacks the point."""
    reason: str
    """Why it is not, if it is not."""


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
    overview: Callable[[Mapping[str, Experiment]], str] | None = None
    """What is shown of all experiments that have results, before them."""
    measured: Mapping[str, str] = field(default_factory=dict)
    """By experiment what its numbers are, where they are not ratios of medians."""
    paper: str = ""
    """Its name and year in the table of headlines."""
    headlines: Sequence[Headline] = ()


def write_report(presentation: Presentation, results: Path, docs: Path, note: str = "") -> Path:
    """Writes a suite's part of the page, and its figures; the note says what else a reader should know of the run."""
    suite = presentation.suite
    experiments, context = load(suite, results)
    if not experiments:
        raise ValueError(f"{results / suite.results} holds no experiment: run `kleene bench {suite.name}` first")
    page = docs / "benchmarks.md"
    before = page.read_text() if page.exists() else ""
    sections = sections_of(parts_of(before).get(suite.name, ""))
    for name, experiment in experiments.items():
        sections[heading_of(name)] = section(presentation, experiment, context[name], docs / "figures")
    shown = [sections[heading] for heading in map(heading_of, suite.experiments) if heading in sections]
    parts = [f"## {presentation.title}", presentation.opening, _context(context), *([note] if note else [])]
    parts += [*([presentation.overview(experiments)] if presentation.overview else []), *shown]
    text = put_part(before, suite.name, "\n\n".join(parts))
    rows = headline_rows(presentation, experiments, context)
    if rows:
        text = put_part(text, HEADLINES, put_headlines(parts_of(text).get(HEADLINES, ""), rows))
    page.write_text(text)
    return page


def headline_rows(presentation: Presentation, experiments: Mapping[str, Experiment], context: Mapping[str, Any]) -> Rows:
    """The rows of a suite in the table of headlines, as far as there are results."""
    rows = []
    for headline in presentation.headlines:
        if headline.experiment not in experiments:
            continue
        found = headline.ours(experiments[headline.experiment])
        if found is None:
            continue
        scale = context[headline.experiment]["scale"]["name"]
        ours, reached = found
        shown = ours if scale == "full" else f"{ours} ({scale} scale)"
        rows.append([presentation.paper, headline.figure, headline.said, shown, "yes" if reached else f"no: {headline.reason}"])
    return rows


def put_headlines(part: str, rows: Rows) -> str:
    """The part of the headlines with rows of one paper in their place, or at the end; other figures and papers stay.

    >>> part = put_headlines("", [["One, 2001", "Figure 1", "x2", "2.1", "yes"]])
    >>> part = put_headlines(part, [["Two, 2002", "Figure 9", "x3", "2.9", "no: why"]])
    >>> print(put_headlines(part, [["One, 2001", "Figure 1", "x2", "2.2", "yes"]]).partition("\\n\\n")[2])
    | paper | figure | it says | measured here | reached |
    |---|---|---|---|---|
    | One, 2001 | Figure 1 | x2 | 2.2 | yes |
    | Two, 2002 | Figure 9 | x3 | 2.9 | no: why |
    """
    lines = [line for line in part.splitlines() if line.startswith("| ")][1:]
    papers: dict[str, dict[str, str]] = {}
    for line in [*lines, *(f"| {' | '.join(row)} |" for row in rows)]:
        own, figure = line.removeprefix("| ").split(" | ")[:2]
        papers.setdefault(own, {})[figure] = line
    head = ["| paper | figure | it says | measured here | reached |", "|---|---|---|---|---|"]
    return HEADLINES_OPENING + "\n\n" + "\n".join([*head, *(line for own in papers.values() for line in own.values())])


def put_part(page: str, name: str, text: str) -> str:
    """The page with the part of a suite in its place, or at the end; parts of other suites stay.

    >>> page = put_part(put_part("", "one", "## 1"), "two", "## 2")
    >>> put_part(page, "one", "## 1 again").replace(OPENING, "# Opening").split()
    ['#', 'Opening', '<!--', 'one', '-->', '##', '1', 'again', '<!--', 'end', 'of', 'one', '-->', '<!--', 'two', '-->', \
'##', '2', '<!--', 'end', 'of', 'two', '-->']
    """
    parts = ({HEADLINES: ""} if name == HEADLINES else {}) | parts_of(page) | {name: text}
    return "\n\n".join([OPENING, *(f"<!-- {key} -->\n\n{part}\n\n<!-- end of {key} -->" for key, part in parts.items())]) + "\n"


def parts_of(page: str) -> dict[str, str]:
    """The parts of a page by name."""
    return dict(re.findall(r"^<!-- (\w+) -->\n\n(.*?)\n\n<!-- end of \1 -->$", page, re.DOTALL | re.MULTILINE))


def heading_of(name: str) -> str:
    """What the title of an experiment's section begins with.

    >>> heading_of("5"), heading_of("figure16a"), heading_of("cores")
    ('### Experiment 5:', '### Figure 16a:', '### Cores:')
    """
    words = name.capitalize().replace("_", " ")
    return f"### Experiment {name}:" if name.isdigit() else "### " + re.sub(r"(\d+[a-z]?)$", r" \1", words) + ":"


def sections_of(part: str) -> dict[str, str]:
    """The sections of a suite's part by what their titles begin with.

    >>> sections_of("## One\\n\\nopening\\n\\n### Cores: two\\n\\ntable\\n\\n### Many: memory")
    {'### Cores:': '### Cores: two\\n\\ntable', '### Many:': '### Many: memory'}
    """
    found = re.split(r"\n\n(?=### )", part)[1:]
    return {text.partition(":")[0] + ":": text for text in found}


def section(presentation: Presentation, experiment: Experiment, context: dict[str, Any], figures: Path) -> str:
    """One experiment: what was expected, the table, the figures, how to read them."""
    name, title = experiment.name, experiment.title
    parts = [f"{heading_of(name)} {title}", f"Expected: {experiment.headline}.", presentation.tables[name](experiment)]
    drawn = draw(presentation.figures, presentation.suite.name, experiment, figures)
    parts += [f"![{title}](figures/{path.name})" for path in drawn]
    parts += [presentation.remarks[name], *experiment.notes]
    clock = "CPU time" if experiment.clock == "cpu" else "wall-clock time"
    measured = presentation.measured.get(name, f"ratios of median {clock}, {_rounds(experiment)} rounds{_spread(experiment)}")
    parts += [line for line in [memory_line(experiment)] if line]
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


def checks(rows: Iterable[Check]) -> str:
    """What was asked, what was measured, and whether that is enough."""
    return table(["asked", "measured", "reached"], [[*row, "yes" if reached else "no"] for *row, reached in rows])


def times(value: float) -> str:
    """A ratio, with a decimal below 100: 17.7 must not read as a target of 18 reached."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def matches_per_event(point: Point) -> str:
    item = point.measurements[0]
    return f"{(item.matches or 0) / item.events:.3g}"


def _rounds(experiment: Experiment) -> str:
    counts = {len(item.wall) for point in experiment.points for item in point.measurements}
    return " or ".join(str(count) for count in sorted(counts))


def _spread(experiment: Experiment) -> str:
    """How much ratios differ between rounds: by half of what lies between the lowest and the highest."""
    found = []
    for point in experiment.points:
        for item in point.measurements:
            low, high = point.spread(item.name, experiment.clock)
            if item.name != point.baseline and len(item.wall) > 1:
                found.append((high - low) / 2 / point.ratio(item.name, experiment.clock))
    if not found:
        return ""
    return f", which differ by ±{100 * statistics.median(found):.0f} % (median; at most {100 * max(found):.0f} %)"


def memory_line(experiment: Experiment) -> str:
    """The most memory that each contender had at any point, or the range where they are many; empty if it was not seen."""
    most: dict[str, int] = {}
    for point in experiment.points:
        for item in point.measurements:
            if item.memory is not None:
                most[item.name] = max(most.get(item.name, 0), item.memory)
    if not most:
        return ""
    if len(most) > MOST_NAMED:
        return f"Peak memory of a contender: {megabytes(min(most.values()))} to {megabytes(max(most.values()))}."
    return f"Peak memory, at most: {', '.join(f'{name} {megabytes(size)}' for name, size in most.items())}."


def megabytes(size: int) -> str:
    """A size of memory.

    >>> megabytes(3 << 20)
    '3 MB'
    """
    return f"{size / (1 << 20):,.0f} MB"


def _context(context: dict[str, Any]) -> str:
    latest = max(context.values(), key=lambda item: item["measured"])
    machine = latest["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    hardware = f"{machine['cores']} cores, {machine['memory_gb']} GB of memory, {machine['system']}"
    made = "" if latest["seed"] is None else f"Events are made from seed {latest['seed']}; time is the event number.\n"
    return f"{made}This run: {hardware}, Python {machine['python']}; {versions}."


HEADLINES_OPENING = """\
What the papers are known for, with their parameters, and what was measured here. How each is measured, and the whole of it, is
in the papers' parts below."""

OPENING = """# Benchmarks

The experiments of the papers that Kleene implements, with the papers' parameters, and comparisons with today's engines. This
page is written by `kleene bench SUITE --report` from the results of a run; the suites are `sase`, `saseplus`, `lazy`, `aseq`,
`multi`, `streaming`, `scale`, `peers`, `real` (questions about real flights) and `cliffs` (ordinary queries that cost much more
than their neighbours).

```
pip install -e '.[spark,bench]'
kleene bench --list                        # suites and experiments; the starred ones make a quick run
kleene bench --quick                       # the headlines of all suites over few events, in minutes
kleene bench sase                          # everything of one suite; results in artifacts/bench/sase.json
kleene bench sase --experiment 1 embedded  # some of it
kleene bench sase --no-jvm                 # without Spark (saseplus, lazy, peers, real: without Flink)
kleene bench sase --compare                # what changed since the run before, beyond the spread of the rounds
kleene bench sase --report                 # the suite's part of this page, from the results
```

How it is measured: contenders take turns in every round, after a warm-up in which **their match counts must
be equal**, or nothing is reported. Numbers are ratios of medians to a named contender of the same rounds. CPU time is that of
the process (on Spark, of the JVM and its Python workers; on Flink, of the JVM). Peak memory is resident memory: of a run in
this process what it took beyond what was there, of a JVM all it has, which its heap settings decide more than the work does."""
