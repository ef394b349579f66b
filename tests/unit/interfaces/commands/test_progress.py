"""Progress, where somebody watches."""

from __future__ import annotations

import io

import pytest

from kleene.interfaces.commands.progress import Progress


def test_progress_is_silent_unless_watched() -> None:
    unwatched = io.StringIO()
    with Progress("read", stream=unwatched) as progress:
        progress.add(5)
    assert (progress.rows, unwatched.getvalue()) == (5, "")


def test_progress_counts_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("kleene.interfaces.commands.progress._PATIENCE", 0.0)
    with Progress("read", total=10, stream=terminal) as progress:
        progress.add(5)
    assert "read 5 events (50%)" in terminal.getvalue()
