"""`kleene demo`: what it finds is compared with the truth of the generator."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kleene.generators import retail
from kleene.interfaces.cli import main
from kleene.interfaces.commands import demo

# demo.


def test_demo_compares_with_the_truth() -> None:
    truth = retail.truth(retail.RetailOptions(shoplifting=2)).shoplifting
    rows = truth.to_pylist()
    found = pa.table(
        {
            "x": [{"id": row["id"], "ts": row["x_ts"]} for row in rows],
            "z": [{"id": row["id"], "ts": row["z_ts"]} for row in rows],
        }
    )
    assert demo.compare(found, truth, ("x", "z")) == ([], [])
    missing, unexpected = demo.compare(found.slice(1), truth, ("x", "z"))
    assert (len(missing), unexpected) == (1, [])
    missing, unexpected = demo.compare(found, truth.slice(1), ("x", "z"))
    assert (missing, len(unexpected)) == ([], 1)


def test_demo_spares_other_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").touch()
    assert main(["demo", "--data", str(tmp_path)]) == 1
    assert "holds other files" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.spark
def test_the_demo_on_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data"
    assert main(["demo", "--events", "5000", "--data", str(folder), "--master", "local[2]", "--keep"]) == 0
    assert capsys.readouterr().out.count("exactly these were found") == 2
    assert (folder / "events.parquet").exists()
