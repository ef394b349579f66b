"""The display of a stream while it runs and when it ends: a live view on a terminal, else a line per micro-batch."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

from kleene.common.terminal import plural, printable
from kleene.interfaces.commands.stream.progress import Batch, Totals
from kleene.interfaces.commands.terminal import put, say

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

QUERIES_SHOWN = 12
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


class View:
    """Shows no progress; warnings and output are lines."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the display, keeping what it has shown."""

    def added(self, batch: Batch) -> None:
        """Shows a finished micro-batch."""

    def show(self, totals: Totals, state: str) -> None:
        """Shows the totals of the stream, and its current activity."""

    def print(self, text: str) -> None:
        """Writes text to standard output."""
        put(text, end="")
        sys.stdout.flush()

    def warn(self, text: str) -> None:
        """Reports a problem while the stream continues."""
        say(f"warning: {text}")


class Lines(View):
    """A line per micro-batch, without a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def added(self, batch: Batch) -> None:
        self._console.print(batch_line(batch), markup=False, highlight=False, soft_wrap=True)


class Watch(View):
    """The live view on a terminal, redrawn a few times a second; other lines scroll above it."""

    def __init__(self, console: Console, title: str, *, prints: bool) -> None:
        """`prints`: whether standard output is the same terminal."""
        from rich.live import Live

        self._console = console
        self._title = title
        self._prints = prints
        self._begin = time.monotonic()
        self._shown: tuple[Totals, str] = Totals(), "starting"
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, totals: Totals, state: str) -> None:
        self._shown = totals, state

    def print(self, text: str) -> None:
        if self._prints:
            self._above(text)
        else:
            super().print(text)

    def warn(self, text: str) -> None:
        self._above(f"warning: {text}\n")

    def _above(self, text: str) -> None:
        self._console.print(printable(text), end="", markup=False, highlight=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        totals, state = self._shown
        return view_of(totals, state, self._title, time.monotonic() - self._begin)


def view_of(totals: Totals, state: str, title: str, seconds: float) -> RenderableType:
    """The view: rates, output, state."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    last = totals.last or Batch(-1)
    grid = Table.grid(padding=(0, 2))
    for style, width in (("dim", 9), ("", 23), ("dim", 8), ("", 24)):
        grid.add_column(style=style, no_wrap=True, min_width=width)
    held = totals.held
    for left, right in zip(
        (
            ("batch", "-" if totals.last is None else f"{last.number:,} in {span(last.milliseconds)}"),
            ("input", _rate(last.input_rate)),
            ("processed", _rate(last.processed_rate)),
            ("rows", f"{totals.rows:,}"),
            ("watermark", _moment(totals.watermark)),
            ("lag", "-" if "watermark_lag_ms" not in held else span(held["watermark_lag_ms"])),
        ),
        (
            ("matches", f"{totals.matches:,}"),
            ("late", f"{totals.late:,}"),
            ("bad rows", f"{totals.bad:,}"),
            ("waiting", _events(held.get("waiting"))),
            ("kept", _events(held.get("kept")) + (f", {plural(held['runs'], 'run')}" if held.get("runs") else "")),
            ("state", "-" if "state_rows" not in held else f"{_events(held['state_rows'])}, {size(held['state_bytes'])}"),
        ),
        strict=True,
    ):
        grid.add_row(*left, *right)
    parts: list[Any] = [grid, *_query_lines(totals)]
    return Panel(
        Group(*parts),
        title=Text(f"{printable(title)}: {state}, {span(1_000 * int(seconds))}"),
        title_align="left",
        expand=False,
    )


def _query_lines(totals: Totals) -> list[Any]:
    """The matches of each query, most first."""
    from rich.table import Table
    from rich.text import Text

    if not totals.by_query:
        return []
    ordered = sorted(totals.by_query.items(), key=lambda item: (-item[1], item[0]))
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("\nquery")
    table.add_column("\nmatches", justify="right")
    for name, count in ordered[:QUERIES_SHOWN]:
        table.add_row(Text(printable(name)), f"{count:,}")
    if len(ordered) > QUERIES_SHOWN:
        table.add_row(f"{len(ordered) - QUERIES_SHOWN} more", f"{sum(count for _, count in ordered[QUERIES_SHOWN:]):,}")
    return [table]


def batch_line(batch: Batch) -> str:
    """A micro-batch in one line.

    >>> batch_line(Batch(3, 1500, 3000, 100.0, 2000.0, "2026-01-01T00:01:40.000Z", {"matches": 2, "late": 1, "kept": 40}))
    'batch 3: 3,000 rows in 1.5 s (2,000 rows/s), 2 matches, 1 late, 40 kept, watermark 2026-01-01 00:01:40'
    """
    metrics = batch.metrics
    parts = [f"{plural(batch.rows, 'row')} in {span(batch.milliseconds)}"]
    if batch.rows and batch.processed_rate is not None:
        parts[0] += f" ({_rate(batch.processed_rate)})"
    parts.append(plural(metrics.get("matches") or 0, "match", "matches"))
    parts += [f"{metrics[name]:,} {name}" for name in ("late", "bad", "waiting", "kept") if metrics.get(name)]
    if batch.watermark is not None:
        parts.append(f"watermark {_moment(batch.watermark)}")
    return f"batch {batch.number}: {', '.join(parts)}"


def summary(totals: Totals, seconds: float) -> str:
    """The whole run in one line.

    >>> summary(Totals(None, 12, 3000, 95, 2, 0), 14.21)
    '12 batches, 3,000 rows, 95 matches, 2 late, 14.21 s'
    """
    parts = [plural(totals.batches, "batch", "batches"), plural(totals.rows, "row"), plural(totals.matches, "match", "matches")]
    parts += [f"{totals.late:,} late"] if totals.late else []
    parts += [plural(totals.bad, "bad row")] if totals.bad else []
    return f"{', '.join(parts)}, {seconds:.2f} s"


def span(milliseconds: int) -> str:
    """A length of time for people.

    >>> span(250), span(1500), span(95_000), span(90_000_000)
    ('250 ms', '1.5 s', '1 min 35 s', '1 d 1 h')
    """
    if abs(milliseconds) < 1_000:
        return f"{milliseconds} ms"
    if abs(milliseconds) < 60_000:
        return f"{milliseconds / 1_000:.1f} s"
    parts, left = [], abs(milliseconds)
    for unit, word in _UNITS:
        amount, left = divmod(left, unit)
        if amount:
            parts.append(f"{amount} {word}")
    return ("-" if milliseconds < 0 else "") + " ".join(parts[:2])


def size(count: int) -> str:
    """A number of bytes for people.

    >>> size(950), size(12_345), size(7_000_000_000)
    ('950 B', '12.3 kB', '7.0 GB')
    """
    if count < 1_000:
        return f"{count} B"
    shown = float(count)
    for unit in ("kB", "MB", "GB"):
        shown /= 1_000
        if shown < 1_000:
            return f"{shown:.1f} {unit}"
    return f"{shown / 1_000:.1f} TB"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f} rows/s"


def _events(count: int | None) -> str:
    return "-" if count is None else plural(count, "event")


def _moment(text: str | None) -> str:
    """A timestamp in UTC without redundant parts.

    >>> _moment("2026-01-01T00:01:40.000Z"), _moment("2026-01-01T00:01:40.250Z"), _moment(None)
    ('2026-01-01 00:01:40', '2026-01-01 00:01:40.250', '-')
    """
    return "-" if text is None else text.replace("T", " ").removesuffix("Z").removesuffix(".000")
