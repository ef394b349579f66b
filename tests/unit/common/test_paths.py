"""Names and values come from anywhere: as parts of paths they stay in their folder, and at a terminal they are only shown."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import kleene
from kleene.common.errors import BindingError, KleeneError
from kleene.common.paths import LONGEST, path_segment, path_segments
from kleene.common.terminal import printable
from kleene.interfaces.cli import main
from kleene.interfaces.commands import display, output
from kleene.interfaces.commands.stream.progress import Totals
from kleene.interfaces.commands.stream.view import view_of
from kleene.runtime.spark.stream.run import StreamRun

HOSTILE = "\x1b]0;owned\x07\x9b2J\u202e\u2066evil\r"
"""Sets a title, clears the screen, turns the direction of writing."""
OBEYED = "\x1b\x07\x9b\u202e\u2066\r"

# --- parts of paths ---------------------------------------------------------------------------------------------------

ESCAPING = [
    "../../escaped",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/../../b",
    "\\\\host\\share",
    "C:\\x",
    ".hidden",
    "_hidden",
    "a\0b",
    "*",
]


@pytest.mark.parametrize("name", ["pairs", "über 3 Räume", "a-b_c.d", "x (new)", "数", "pairs_without_b", "a=b+c,d"])
def test_ordinary_names_are_as_they_are(name: str) -> None:
    assert path_segment(name) == name


@pytest.mark.parametrize("name", ESCAPING)
def test_a_name_stays_in_its_folder_and_is_seen(name: str, tmp_path: Path) -> None:
    path = tmp_path / path_segment(name)
    path.write_text("here")
    assert path.parent.resolve() == tmp_path.resolve()
    (found,) = tmp_path.glob("*")
    assert found.name[0] not in "._"


@given(st.text(), st.text())
def test_different_names_have_different_parts(one: str, other: str) -> None:
    first, second = path_segment(one), path_segment(other)
    assert (first == second) == (one == other)
    assert first.isprintable()
    assert not set(first) & set('/\\:*?"<>|')
    assert 0 < len(first.encode()) <= LONGEST


def test_a_long_name_is_cut_and_told_apart_by_its_digest() -> None:
    one, other = path_segment("é" * 400 + "a"), path_segment("é" * 400 + "b")
    assert one != other
    assert one.startswith("é" * 80)
    assert len(one.encode()) <= LONGEST


def test_names_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(BindingError, match="'Pairs' and 'pairs' would be written to the same place where case does not count"):
        path_segments(["Pairs", "other", "pairs"])


def test_the_matches_of_a_stream_stay_in_their_folder() -> None:
    run = StreamRun((), {"../../escaped": pa.schema([]), "plain": pa.schema([])}, None)
    assert [item.sink for item in run._targets({"matches": "out"})] == ["out/%2E.%2F..%2Fescaped", "out/plain"]


def test_files_of_a_workload_stay_in_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kleene.interfaces.commands import workload

    named = kleene.workload({"../escaped": "PATTERN SEQ(A a, B b) WITHIN 5"})
    monkeypatch.setattr(workload, "_queries", lambda _: named)
    events = tmp_path / "events.parquet"
    pq.write_table(pa.table({"ts": [1, 2], "type": ["A", "B"]}), events)
    out = tmp_path / "deep" / "out"
    assert main(["workload", "match", "folder", str(events), "--time", "ts", "--type", "type", "--out", str(out)]) == 0
    assert [item.name for item in out.iterdir()] == ["%2E.%2Fescaped.parquet"]
    assert not (tmp_path / "deep" / "escaped.parquet").exists()


# --- at a terminal ----------------------------------------------------------------------------------------------------


class Terminal(io.TextIOWrapper):
    """Standard output or error as a terminal has it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


def at_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[str, str]:
    out, err = Terminal(), Terminal()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", err)
        patched.setenv("NO_COLOR", "1")
        patched.setenv("TERM", "dumb")
        patched.setenv("COLUMNS", "200")
        main(list(arguments))
        return out.text, err.text


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = tmp_path / "events.parquet"
    columns = {"ts": [1, 2], "type": ["A", "B"], "k": [HOSTILE, f"[red]{HOSTILE}"], HOSTILE: [1, 2]}
    pq.write_table(pa.table(columns), path)
    return str(path)


PAIRS = "PATTERN SEQ(A a, B b) WITHIN 5"
ROLES = ("--time", "ts", "--type", "type")


@pytest.mark.parametrize("form", ["table", "csv", "ndjson"])
def test_values_are_shown_and_not_obeyed(form: str, events: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = at_terminal(monkeypatch, "match", "-q", PAIRS, events, *ROLES, "--format", form)
    assert "evil" in out
    assert "[red]" in out
    assert not set(out) & set(OBEYED), repr(out)


@pytest.mark.parametrize(
    "arguments",
    [
        ("match", "-q", f"PATTERN SEQ(A a, '{HOSTILE}", "EVENTS", *ROLES),
        ("match", "-q", PAIRS, "EVENTS", "--time", HOSTILE),
        ("match", "-q", PAIRS, f"missing{HOSTILE}.parquet", *ROLES),
        ("match", "-q", f"PATTERN SEQ(A a, B b) WHERE a.k > '{HOSTILE}' AND a.ts + a.k > 1 WITHIN 5", "EVENTS", *ROLES),
        ("check", "-q", f"PATTERN SEQ(A a, B b) WHERE a.k = '{HOSTILE}' WITHIN 5"),
        ("explain", "-q", f"PATTERN SEQ(A a, B b) WHERE a.k = '{HOSTILE}' WITHIN 5", "EVENTS", *ROLES),
        ("why-not", "-q", "PATTERN SEQ(A a, B b) WHERE a.k = 'x' WITHIN 5", "EVENTS", *ROLES),
    ],
)
def test_what_is_said_is_not_obeyed(arguments: tuple[str, ...], events: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = at_terminal(monkeypatch, *(events if item == "EVENTS" else item for item in arguments))
    assert out or err
    assert not set(out + err) & set(OBEYED), repr(out + err)


def test_an_error_is_readable_wherever_it_is_raised() -> None:
    with pytest.raises(KleeneError) as raised:
        kleene.query(f"PATTERN SEQ(A a, B b) WHERE a.x = '{HOSTILE.strip()}' +")
    text = str(raised.value)
    assert not set(text) & set(OBEYED)
    _, source, caret = text.split("\n")[:3]
    assert len(source) == caret.index("^"), "the caret is below the end of the query"


def test_text_for_programs_is_as_it_is(events: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["match", "-q", PAIRS, events, *ROLES, "--format", "ndjson"]) == 0
    (row,) = map(json.loads, capfdbinary.readouterr().out.splitlines())
    assert row["a"]["k"] == HOSTILE
    assert main(["match", "-q", PAIRS, events, *ROLES, "--format", "csv"]) == 0
    assert HOSTILE.encode() in capfdbinary.readouterr().out


def test_json_escapes_what_terminals_obey() -> None:
    sink = io.BytesIO()
    rows = pa.table({"k": [HOSTILE, "Käse", "\ud83e\udd14".encode("utf-16", "surrogatepass").decode("utf-16")]})
    output.WRITERS["ndjson"](sink, rows.schema, rows.to_batches())
    text = sink.getvalue().decode()
    assert "Käse" in text
    assert not set(text) & set(OBEYED)
    assert [json.loads(line)["k"] for line in text.splitlines()] == rows.column("k").to_pylist()


def test_the_view_of_a_stream_shows_names() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    totals = Totals(None, 1, 10, 3, by_query={f"[bold]{HOSTILE}": 3})
    console.print(view_of(totals, "running", f"[red]{HOSTILE}", 1.0))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[bold]" in shown
    assert "[red]" in shown
    assert not set(shown) & set(OBEYED)


def test_tables_show_names_and_values() -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=False)
    display.show(pa.table({HOSTILE: [f"[b]{HOSTILE}"]}), console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count("evil") == 2
    assert not set(shown) & set(OBEYED)


@given(st.text())
def test_only_characters_that_are_obeyed_change(text: str) -> None:
    shown = printable(text)
    assert len(shown.encode()) >= len(text)
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


def test_ends_of_lines_stay() -> None:
    any_text: Any = "one\n\ttwo\x0c"
    assert printable(any_text) == "one\n\ttwo\\x0c"
