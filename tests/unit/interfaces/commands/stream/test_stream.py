"""`kleene stream` without a JVM: its arguments, and what it makes of them."""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kleene.interfaces.cli import build_parser, main
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.stream import stream
from kleene.interfaces.commands.stream.run import Stopping
from kleene.interfaces.commands.stream.view import View

QUERY = "PATTERN SEQ(A a, B b) WHERE [id] WITHIN 10"
NEEDED = ["--events", "events", "--time", "ts", "--watermark", "10 seconds", "--checkpoint", "state"]


def parsed(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(["stream", "-q", QUERY, *NEEDED, *arguments])


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["-q", QUERY], "--events"),
        (["-q", QUERY, "--events", "events", "--time", "ts", "--checkpoint", "state"], "--watermark"),
        (["-q", QUERY, "--events", "events", "--time", "ts", "--watermark", "1s"], "--checkpoint"),
        (NEEDED, "a query is required"),
        (["query.sase", "-q", QUERY, *NEEDED], "not both: found 'query.sase'"),
        (["-q", QUERY, *NEEDED, "--once", "--trigger", "1s"], "not allowed with"),
        (["-q", QUERY, *NEEDED, "--trigger", "soon"], "expected a length of time, as '10 seconds', found 'soon'"),
        (["-q", QUERY, *NEEDED, "--watermark", "5 events"], "expected a length of time"),
        (["-q", QUERY, *NEEDED, "--option", "maxFilesPerTrigger"], "expected NAME=VALUE"),
        (["-q", QUERY, *NEEDED, "--events", "rate:often"], "expected rate:N, a number of rows a second, found 'rate:often'"),
        (["-q", QUERY, *NEEDED, "--events", "socket:host"], "expected socket:HOST:PORT"),
        (["-q", QUERY, *NEEDED, "--events", "kafka:host:9092"], "as kafka:localhost:9092/readings"),
        (["-q", QUERY, *NEEDED, "--events", "kafka:host:9092/readings"], "--columns NAME:TYPE,... is required"),
        (["-q", QUERY, *NEEDED, "--events", "rate:5", "--columns", "ts:int"], "has the columns timestamp and value"),
        (["-q", QUERY, *NEEDED, "--bad-rows", "drop", "--bad-rows-to", "bad"], "needs --bad-rows quarantine"),
        (["-q", QUERY, *NEEDED, "-o", "state"], "need a folder each"),
        (["-q", QUERY, *NEEDED, "--reload"], "--reload is for one folder of queries"),
        ([".", *NEEDED, "--reload", "--timed-out"], "--timed-out cannot be given with --reload"),
        (["-q", QUERY, *NEEDED, "--max-events", "few"], "--max-events"),
    ],
)
def test_wrong_usage(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stream", *argv]) == 2
    assert message in capsys.readouterr().err


def test_an_error_of_a_query_is_found_before_spark_is_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.sase").write_text(QUERY)
    (tmp_path / "wrong.sase").write_text("PATTERN SEQ(A a, B b) WHERE z.id = 1")
    assert main(["stream", str(tmp_path), *NEEDED]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path}/wrong.sase: unknown variable 'z'")


def test_queries_of_one_name_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pairs.sase").write_text(QUERY)
    assert main(["stream", str(tmp_path / "one"), str(tmp_path / "two" / "pairs.sase"), *NEEDED]) == 1
    assert "several queries are named 'pairs'" in capsys.readouterr().err


def test_partial_matches_that_timed_out_are_queries_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(stream._fixed_queries(parsed("--timed-out")).queries) == ["query", "query_without_b"]
    assert main(["stream", "-q", "PATTERN A a WITHIN 10", *NEEDED, "--timed-out"]) == 1
    assert "time out of a sequence of single events, which the pattern is not" in capsys.readouterr().err


def test_lengths_of_time_are_written_as_spark_does() -> None:
    found = parsed("--watermark", "2min", "--trigger", "500 ms")
    assert (found.watermark, found.trigger) == ("2 minutes", "500 milliseconds")
    assert parsed("--watermark", "12").watermark == 12


# --- settings ---------------------------------------------------------------------------------------------------------


def settings(checkpoint: Path, *arguments: str) -> dict[str, str]:
    return stream._settings(parsed("--checkpoint", str(checkpoint), *arguments))


def test_there_are_as_many_shuffle_partitions_as_cores(tmp_path: Path) -> None:
    assert settings(tmp_path, "--master", "local[3]")[stream.PARTITIONS] == "3"
    assert settings(tmp_path, "--master", "local[3]", "--conf", f"{stream.PARTITIONS}=5")[stream.PARTITIONS] == "5"
    assert stream.PARTITIONS not in settings(tmp_path, "--master", "yarn")


def test_a_checkpoint_keeps_its_shuffle_partitions(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for number, count in ((9, 7), (10, 6)):
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{json.dumps({'conf': {stream.PARTITIONS: str(count)}})}\n{{}}")
    assert settings(tmp_path, "--master", "local[3]")[stream.PARTITIONS] == "6"
    with pytest.raises(UsageError, match="the checkpoint's state has 6 shuffle partitions"):
        settings(tmp_path, "--conf", f"{stream.PARTITIONS}=5")


def test_packages_and_settings_reach_spark(tmp_path: Path) -> None:
    found = settings(tmp_path, "--packages", "org.example:connector:1", "--conf", "spark.driver.memory=2g")
    assert found["spark.jars.packages"] == "org.example:connector:1"
    assert found["spark.driver.memory"] == "2g"
    assert found["spark.sql.streaming.stateStore.providerClass"].endswith("RocksDBStateStoreProvider")


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_signal_asks_for_a_stop_and_a_second_one_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stopping() as stopping:
        assert not stopping.asked
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


class Gone(View):
    """Standard output that nobody reads any more."""

    def print(self, text: str) -> None:
        raise BrokenPipeError(text)


def test_matches_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows: Any = SimpleNamespace(toArrow=lambda: pa.table({"query": ["q", "q"], "id": [7, 8]}))
    stream.Printed(View())(rows, 0)
    assert capsys.readouterr().out == '{"query": "q", "id": 7}\n{"query": "q", "id": 8}\n'
    printed = stream.Printed(Gone())
    with pytest.raises(BrokenPipeError):
        printed(rows, 1)
    assert printed.reader_left
