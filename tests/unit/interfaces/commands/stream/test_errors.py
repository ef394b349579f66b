"""What is made of Spark's errors."""

from __future__ import annotations

import pytest

from kleene.common.errors import DataError, KleeneError
from kleene.interfaces.commands.stream.errors import stream_error


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
