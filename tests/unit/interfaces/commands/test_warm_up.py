"""`kleene warm-up`: compiles what queries need, and says where it is kept. What that is, is tested with `kleene pack`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kleene.engine import kernels
from kleene.interfaces.cli import main
from kleene.interfaces.commands.pack import warm_up


@pytest.mark.parametrize("kept", [Path("/somewhere/kernels"), None])
def test_kernels_are_compiled_and_kept(
    kept: Path | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    monkeypatch.setattr(kernels, "cache_folder", lambda: kept)
    monkeypatch.setattr(warm_up, "warm_up", lambda tell: (tell("compiling"), told.append("compiled")))
    assert main(["warm-up"]) == 0
    assert told == ["compiled"]
    said = capsys.readouterr().err
    assert f"kernels are compiled and {f'kept in {kept}' if kept else 'not kept'}; " in said
