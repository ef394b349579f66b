"""What Java says goes to the log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kleene.common.errors import DataError
from kleene.interfaces.commands.stream.log import java_started_in_the_block_writes_to


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
