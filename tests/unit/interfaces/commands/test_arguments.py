"""Arguments of several commands: where a query comes from, types, settings of plans."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from kleene.interfaces.cli import main
from kleene.interfaces.commands.arguments import UsageError, event_types, query_text, settings

SEQUENCE = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10"
COLUMNS = ["--columns", "ts:int,type:string,id:int", "--time", "ts", "--type", "type"]


# Arguments.


def test_query_from_a_file_and_its_name(tmp_path: Path) -> None:
    path = tmp_path / "pairs.sase"
    path.write_text("\ufeff" + SEQUENCE, encoding="utf-8")
    assert query_text(None, str(path)) == ("pairs", SEQUENCE)


def test_query_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SEQUENCE.encode())))
    assert query_text(None, "-") == ("query", SEQUENCE)


def test_query_must_be_given() -> None:
    with pytest.raises(UsageError):
        query_text(None, None)


def test_query_file_that_is_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "query.sase"
    path.write_bytes(b"PATTERN \xff\xfe")
    assert main(["check", str(path)]) == 1
    assert "not UTF-8 text (byte 8 is 0xff)" in capsys.readouterr().err


def test_missing_query_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none.sase")]) == 1
    assert "none.sase: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", '{"A": "id"}', '{"A": [1]}'])
def test_types_file_is_checked(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "types.json"
    path.write_text(text, encoding="utf-8")
    assert main(["check", "-q", SEQUENCE, *COLUMNS, "--schema", str(path)]) == 1
    assert "types.json" in capsys.readouterr().err


def test_types_file(tmp_path: Path) -> None:
    path = tmp_path / "types.json"
    path.write_text('{"A": ["id"], "B": []}', encoding="utf-8")
    assert event_types(str(path)) == {"A": frozenset({"id"}), "B": frozenset()}


def test_plan_settings() -> None:
    assert settings("pushdown=false,depth=2") == {"pushdown": False, "depth": 2}
    for order in ("c+a+b", "c,a,b", "c + a, b"):
        assert settings(f"mechanism=chain,order={order},adaptive=true") == {
            "mechanism": "chain",
            "order": ["c", "a", "b"],
            "adaptive": True,
        }
    assert settings("order=true") == {"order": ["true"]}
