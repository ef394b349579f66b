"""The `kleene` command: exit codes, help, usage, and what becomes of errors. Each command has a test file in `commands`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kleene.interfaces.cli import main
from kleene.interfaces.commands import COMMANDS

SEQUENCE = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10"
COLUMNS = ["--columns", "ts:int,type:string,id:int", "--time", "ts", "--type", "type"]
ROLES = ["--time", "ts", "--type", "type"]
KLEENE = "PATTERN SEQ(A+ a[], B b) WITHIN 100"
RISE = "PATTERN SEQ(A a, B b) WHERE a.id < b.id WITHIN 10"


# Usage and help.


@pytest.mark.parametrize("argv", [["--help"], *([name, "--help"] for name in COMMANDS), ["generate", "sase", "--help"]])
def test_help(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    assert capsys.readouterr().out.startswith("usage: kleene")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("kleene ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "COMMAND"),
        (["frobnicate"], "invalid choice"),
        (["match", "query.sase", "--time", "ts"], "file of events is required"),
        (["match", "-q", SEQUENCE, "events.csv"], "--time"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "--limit", "many"], "expected a number"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "--param", "limit"], "NAME=VALUE"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "-o", "matches.xls"], "cannot tell the format"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "-o", "m.csv", "--format", "table"], "terminal"),
        (["match", "-q", SEQUENCE, "events.csv", *ROLES, "--quarantine", "bad.csv"], "--bad-rows quarantine"),
        (["match", "-q", KLEENE, "events.csv", *ROLES, "--compressed"], "give a Parquet or Arrow file"),
        (["match", "-q", KLEENE, "events.csv", *ROLES, "--compressed", "-o", "m.csv"], "give a Parquet or Arrow file"),
        (["match", "-q", KLEENE, "events.csv", *ROLES, "--limit-runs", "many"], "expected a number"),
        (["match", "-q", KLEENE, "events.csv", *ROLES, "--at-limit", "drop"], "invalid choice"),
        (["match", "-q", RISE, "events.csv", *ROLES, "--plan", "mechanism=chain,b"], "expected NAME=VALUE, found 'b'"),
        (["match", "-q", RISE, "events.csv", *ROLES, "--plan", "order=b++a"], "as order=c+a+b, found 'b++a'"),
        (["match", "-q", RISE, "events.csv", *ROLES, "--plan", "order="], "as order=c+a+b, found ''"),
        (["statistics", "query.sase", "--time", "ts"], "file of events is required"),
        (["statistics", "-q", RISE, "events.csv", *ROLES, "--fraction", "0.5"], "--engine spark"),
        (["statistics", "-q", RISE, "events.csv", *ROLES, "--fraction", "0"], "above 0 and at most 1, found '0'"),
        (["statistics", "-q", RISE, "events.csv", *ROLES, "--fraction", "half"], "above 0 and at most 1, found 'half'"),
        (["check"], "a query is required"),
        (["check", "query.sase", "-q", SEQUENCE], "not both"),
        (["check", "-q", SEQUENCE, "--columns", "ts:int"], "--time COLUMN is required"),
        (["check", "-q", SEQUENCE, "--columns", "ts:number", "--time", "ts"], "NAME:TYPE"),
        (["check", "-q", SEQUENCE, "--columns", "ts:int", "--events", "e.csv", "--time", "ts"], "not both"),
        (["check", SEQUENCE], "after -q"),
        (["explain", "-q", SEQUENCE, "--time", "ts"], "events or --columns"),
        (["explain", "--time", "ts"], "a query is required"),
        (["explain", "-q", SEQUENCE, "a.csv", "b.csv", "--time", "ts"], "one file"),
        (["generate", "sase"], "-o"),
        (["generate", "sase", "--values", "ten", "-o", "x.csv"], "numbers separated"),
        (["generate", "sase", "--types", "0", "-o", "x.csv"], "T must be"),
        (["generate", "stock", "--increase", "2", "-o", "x.csv"], "p must be"),
        (["generate", "retail", "--events", "10", "-o", "x.csv"], "events must be at least"),
        (["demo", "--events", "10"], "events must be at least"),
    ],
)
def test_wrong_usage_is_2(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_help_and_check_load_neither_spark_nor_numba() -> None:
    program = (
        "import sys; from kleene.interfaces.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'pyspark', 'numba', 'pandas'} & set(sys.modules); assert not heavy, heavy; sys.exit(code)"
    )
    for argv in (["--help"], ["check", "-q", SEQUENCE, *COLUMNS]):
        done = subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS["check"], "run", interrupted)
    assert main(["check", "-q", SEQUENCE]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_our_own_bugs_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(arguments: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(COMMANDS["check"], "run", broken)
    with pytest.raises(ZeroDivisionError):
        main(["check", "-q", SEQUENCE])
