"""`kleene stream` without a JVM: its arguments, its sources, what it shows, and what it makes of Spark's errors."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from kleene.common.errors import DataError, KleeneError
from kleene.interfaces.cli import build_parser, main
from kleene.interfaces.commands.arguments import UsageError
from kleene.interfaces.commands.stream import sources as stream_sources
from kleene.interfaces.commands.stream import stream
from kleene.interfaces.commands.stream.errors import stream_error
from kleene.interfaces.commands.stream.log import java_started_in_the_block_writes_to
from kleene.interfaces.commands.stream.progress import Batch, Totals, batch_of
from kleene.interfaces.commands.stream.run import Stopping
from kleene.interfaces.commands.stream.view import Lines, View, Watch, summary, view_of

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


# --- sources ----------------------------------------------------------------------------------------------------------


def test_sources_are_told_apart() -> None:
    source = stream_sources.source
    assert source("socket:localhost:9999").options == {"host": "localhost", "port": "9999"}
    brokers = source("kafka:one:9092,two:9092/readings").options
    assert (brokers["kafka.bootstrap.servers"], brokers["subscribe"]) == ("one:9092,two:9092", "readings")
    assert [(source(text).kind, source(text).place) for text in ("ndjson:in/x", "csv", "C:\\events", "hdfs://n/x")] == [
        ("json", "in/x"),
        ("", "csv"),
        ("", "C:\\events"),
        ("", "hdfs://n/x"),
    ]


def test_files_tell_their_format(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"ts": [1]}), tmp_path / "day=1" / "part-0.snappy.parquet")
    for name in ("_SUCCESS", ".part-0.crc"):
        (tmp_path / name).touch()
    assert stream_sources._format_of(str(tmp_path)) == "parquet"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no files yet"),
        (["a.csv", "b.parquet"], "found csv, parquet"),
        (["a.csv", "notes.txt"], "found csv, txt"),
        (["a"], r"found \(no suffix\)"),
    ],
)
def test_files_that_do_not_tell_their_format(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=message):
        stream_sources._format_of(str(tmp_path))


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        stream_sources._format_of(str(tmp_path / "events"))
    (tmp_path / "events.csv").touch()
    with pytest.raises(DataError, match="is a file, and a stream is read from a folder"):
        stream_sources._format_of(str(tmp_path / "events.csv"))


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


def test_an_error_of_ours_is_dug_out_of_sparks() -> None:
    text = (
        "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "run.py", line 121, in write_batch\n'
        "pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:\n"
        "Traceback (most recent call last):\n"
        '  File "streaming.py", line 318, in _set_aside\n'
        "    raise DataError(refused)\n"
        "kleene.common.errors.DataError: key attribute 'id' is NULL: {'ts': 2}\n"
        "  hint: drop such rows\n"
        "\n"
        "the time is NULL\n"
        " SQLSTATE: 39000\n"
        "\tat org.apache.spark.Sink.write(Sink.scala:60)\n"
        "=== Streaming Query ===\n"
        "kleene.common.errors.StateError: of the plan\n"
    )
    found = stream_error(RuntimeError(text))
    assert type(found) is DataError
    assert str(found) == "key attribute 'id' is NULL: {'ts': 2}\n  hint: drop such rows\n\nthe time is NULL"
    assert isinstance(found.__cause__, RuntimeError)


UNREADABLE = """[STREAM_FAILED] Return Message: Traceback (most recent call last):
  File "a.py", line 1, in f
py4j.protocol.Py4JJavaError: An error occurred while calling o801.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE] Encountered error.  SQLSTATE: KD001
\tat org.apache.spark.Files.read(Files.scala:920)
Caused by: org.apache.spark.SparkIllegalArgumentException: CSV header does not conform.
\tat org.apache.spark.Csv.check(Csv.scala:1)
\t... 20 more
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Connection refused\n=== Streaming Query ===\nIdentifier: [id = 1]", "Connection refused"),
        ("[CODE] No such thing. SQLSTATE: 42K03", "No such thing."),
        (UNREADABLE, "CSV header does not conform."),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: too long\n', "ValueError: too long"),
    ],
)
def test_other_errors_are_shown_as_what_began_them(text: str, message: str) -> None:
    found = stream_error(RuntimeError(text))
    assert type(found) is KleeneError
    assert str(found).split("\n")[0] == f"the stream failed: {message}"


def test_what_java_says_goes_to_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "spark.log"
    for text in (b"one\n", b"two\n"):
        with java_started_in_the_block_writes_to(str(log)):
            os.write(2, text)
        os.write(2, b"own\n")
    assert log.read_bytes() == b"one\ntwo\n"
    assert capfd.readouterr().err == "own\nown\n"


def test_what_java_says_is_shown_if_it_cannot_be_started(capfd: pytest.CaptureFixture[str]) -> None:
    def start() -> None:
        with java_started_in_the_block_writes_to(None):
            os.write(2, b"no such package\n")
            raise DataError("Spark could not start Java")

    with pytest.raises(DataError):
        start()
    assert capfd.readouterr().err == "no such package\n"
