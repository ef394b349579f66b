"""`kleene generate`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kleene.generators import retail
from kleene.interfaces.cli import main

# generate.


@pytest.mark.parametrize("kind", ["sase", "stock", "retail"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".ndjson", ".arrow", ""])
def test_generate(kind: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"events{suffix}"
    assert main(["generate", kind, "--events", "2000", "--seed", "3", "-o", str(path)]) == 0
    assert "2,000 events" in capsys.readouterr().err
    assert _rows(path) == 2_000


def test_generate_into_a_full_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main(["generate", "sase", "--events", "10", "-o", str(tmp_path / "full")]) == 1
    assert "not empty" in capsys.readouterr().err


def test_generate_into_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "sase", "--events", "10", "-o", str(tmp_path / "none" / "x.csv")]) == 1
    assert "no such directory" in capsys.readouterr().err


def test_generate_truth(tmp_path: Path) -> None:
    assert main(["generate", "retail", "--events", "2000", "-o", str(tmp_path / "day.csv"), "--truth", str(tmp_path)]) == 0
    options = retail.RetailOptions(events=2_000)
    assert pq.read_table(tmp_path / "shoplifting-truth.parquet").equals(retail.truth(options).shoplifting)
    assert json.loads((tmp_path / "types.json").read_text(encoding="utf-8"))["EXIT-READING"] == list(
        retail.ATTRIBUTES["EXIT-READING"]
    )


def _rows(path: Path) -> int:
    if path.is_dir() or path.suffix == ".parquet":
        return int(pq.read_table(path).num_rows)
    if path.suffix == ".arrow":
        return int(pa.ipc.open_file(path).read_all().num_rows)
    return path.read_text(encoding="utf-8").count("\n") - (path.suffix == ".csv")
