"""Output of commands: whole files or none, nested values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from kleene.interfaces.commands import output

# Output.


def test_unfinished_files_leave_nothing_behind(tmp_path: Path) -> None:
    def failing() -> Any:
        yield pa.record_batch({"x": [1]})
        raise ZeroDivisionError

    path = tmp_path / "x.csv"
    with pytest.raises(ZeroDivisionError):
        output.write(failing(), pa.schema([("x", pa.int64())]), str(path), "csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_is_whole(unbuffered: str) -> None:
    """A pipe takes a few kilobytes at a time; unbuffered, Python would write the first of them and drop the rest."""
    program = (
        "import sys, pyarrow as pa; from kleene.interfaces.commands import output;"
        "batch = pa.record_batch({'x': list(range(200_000))}); output.write([batch], batch.schema, None, 'ndjson')"
    )
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=True)
    assert done.stdout.count(b"\n") == 200_000


def test_nested_values_as_csv_and_json(tmp_path: Path) -> None:
    table = pa.table({"a": [{"x": 1}], "b": [[{"y": float("nan")}]]})
    for name in ("t.csv", "t.ndjson"):
        output.write(table.to_batches(), table.schema, str(tmp_path / name), output.format_of(name))
    assert pacsv.read_csv(tmp_path / "t.csv").to_pylist() == [{"a.x": 1, "b": '[{"y": null}]'}]
    assert json.loads((tmp_path / "t.ndjson").read_text(encoding="utf-8")) == {"a": {"x": 1}, "b": [{"y": None}]}
