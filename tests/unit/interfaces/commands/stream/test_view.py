"""What is shown while a stream runs, and at its end."""

from __future__ import annotations

import argparse
import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from kleene.interfaces.cli import build_parser
from kleene.interfaces.commands.stream import stream
from kleene.interfaces.commands.stream.progress import Batch, Totals, batch_of
from kleene.interfaces.commands.stream.view import Lines, Watch, summary, view_of

QUERY = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10"
NEEDED = ["--events", "events", "--time", "ts", "--watermark", "10 seconds", "--checkpoint", "state"]


def parsed(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(["stream", "-q", QUERY, *NEEDED, *arguments])


# --- what is shown ----------------------------------------------------------------------------------------------------

FIRST = Batch(0, 2500, 3000, 400.0, 1200.0, None, {"matches": 2, "late": 0, "bad": 1, "waiting": 250, "kept": 0})

SECOND = Batch(
    1,
    800,
    1000,
    None,
    1250.0,
    "2026-01-01T00:16:15.000Z",
    {
        "matches": 40,
        "late": 3,
        "bad": 0,
        "waiting": 120,
        "kept": 87,
        "state_rows": 1100,
        "state_bytes": 18_432,
        "watermark_lag_ms": 5_100,
        "runs": 12,
        "matches_pairs": 38,
        "matches_triples": 2,
    },
)


def console(width: int = 80) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=width, color_system=None), text


def test_counts_are_added_and_what_is_held_is_the_last() -> None:
    totals = Totals().after(FIRST).after(SECOND)
    assert (totals.batches, totals.rows, totals.matches, totals.late, totals.bad) == (2, 4000, 42, 3, 1)
    assert totals.by_query == {"pairs": 38, "triples": 2}
    assert totals.held["waiting"] == 120
    assert totals.after(Batch(2)).held == totals.held


def test_the_view() -> None:
    shown, text = console()
    shown.print(view_of(Totals().after(FIRST).after(SECOND), "waiting for data to arrive", "rules over in", 95.4))
    assert text.getvalue() == (
        "╭─ rules over in: waiting for data to arrive, 1 min 35 s ────────────────╮\n"
        "│ batch      1 in 800 ms              matches   42                       │\n"
        "│ input      -                        late      3                        │\n"
        "│ processed  1,250 rows/s             bad rows  1                        │\n"
        "│ rows       4,000                    waiting   120 events               │\n"
        "│ watermark  2026-01-01 00:16:15      kept      87 events, 12 runs       │\n"
        "│ lag        5.1 s                    state     1,100 events, 18.4 kB    │\n"
        "│                                                                        │\n"
        "│ query    matches                                                       │\n"
        "│ pairs         38                                                       │\n"
        "│ triples        2                                                       │\n"
        "╰────────────────────────────────────────────────────────────────────────╯\n"
    )


def test_the_view_of_nothing_yet_and_of_many_queries() -> None:
    shown, text = console()
    shown.print(view_of(Totals(), "starting", "q over rate:5", 0))
    assert "batch      - " in text.getvalue()
    many = Batch(0, metrics={f"matches_q{number:02}": number for number in range(20)})
    shown.print(view_of(Totals().after(many), "running", "q", 1))
    assert "8 more       28" in text.getvalue()


def test_a_line_for_every_batch_where_there_is_no_terminal() -> None:
    shown, text = console()
    with Lines(shown) as view:
        for batch in (FIRST, SECOND):
            view.added(batch)
            view.show(Totals(), "running")
    assert text.getvalue().split("\n")[:-1] == [
        "batch 0: 3,000 rows in 2.5 s (1,200 rows/s), 2 matches, 1 bad, 250 waiting",
        "batch 1: 1,000 rows in 800 ms (1,250 rows/s), 40 matches, 3 late, 120 waiting, 87 kept, watermark 2026-01-01 00:16:15",
    ]


def test_matches_pass_above_the_view_of_the_same_terminal() -> None:
    text = io.StringIO()
    shown = Console(file=text, width=80, force_terminal=True, color_system=None)
    with Watch(shown, "q over in", prints=True) as view:
        view.print('{"query": "q[1]"}\n')
        view.warn("'x' is not in force")
    assert '{"query": "q[1]"}' in text.getvalue()
    assert "warning: 'x' is not in force" in text.getvalue()


def test_the_summary() -> None:
    assert summary(Totals().after(FIRST), 1) == "1 batch, 3,000 rows, 2 matches, 1 bad row, 1.00 s"


def test_the_report_says_where_things_are_and_what_was_let_go_of(capsys: pytest.CaptureFixture[str]) -> None:
    stream._report(parsed("-o", "out"), Totals().after(FIRST).after(SECOND), 2)
    assert capsys.readouterr().err.split("\n")[1:-1] == [
        "  pairs: 38 matches",
        "  triples: 2 matches",
        "matches are in out",
        "late events were only counted; --late DIR writes them",
        "bad rows were only counted; --bad-rows-to DIR writes them",
        "the checkpoint is in state; the same command goes on from there",
    ]


def test_a_micro_batch_from_spark() -> None:
    """Its watermark is Kleene's own: Spark's is that of times that were moved."""
    moment = "2026-01-01T00:00:00.000Z"
    observed = SimpleNamespace(asDict=lambda: {"matches": 3, "watermark": moment})
    progress: Any = SimpleNamespace(
        batchId=4,
        durationMs={"triggerExecution": 120},
        numInputRows=7,
        inputRowsPerSecond=float("nan"),
        processedRowsPerSecond=58.3,
        eventTime={"watermark": "6026-01-01T00:00:00.000Z"},
        observedMetrics={"kleene": observed},
    )
    assert batch_of(progress) == Batch(4, 120, 7, None, 58.3, moment, {"matches": 3, "watermark": moment})
    progress.observedMetrics = {}
    assert batch_of(progress).metrics == {}
