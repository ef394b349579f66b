"""How tests are shared out between processes (`-n 2`): what shares something costly is a part, and one process does all of it.

The parts that take longest come first, so that the processes end together; a process asks for another part when it has done the
last one. Tests that need a Spark session of the process are two parts, so that two are started: the cases, and all others.
"""

from __future__ import annotations

import re

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

SESSION = "the Spark session"
ALONE = re.compile(r"tests/spark/test_(connect|kafka)\.py|tests/test_docs\.py")
"""Files with Spark in processes of their own."""
ON_SESSION = re.compile(r"tests/spark/|tests/fault/test_restarts\.py|.*::(test_spark|.*_on_spark|.*_a_spark_frame)")
ROUTE = re.compile(r"tests/test_cases\.py::test_case\[.*?:\d+-(.*)\]")
LONGEST = (
    SESSION,
    "tests/test_cases.py on spark",
    "tests/test_docs.py::test_every_spark_block",
    "tests/cluster/",
    "tests/spark/",
    "tests/fault/",
    "tests/project/test_benchmarks.py",
    "tests/property/",
    "tests/architecture/",
    "tests/browser/",
    "tests/unit/interfaces/commands/pack/",
    "tests/project/",
    "tests/test_cases.py",
)
"""What parts begin with, in the order in which they are begun; then all others."""


def part_of(test: str) -> str:
    """The part that a test is in: its file, unless it is one of those that are cut up or put together."""
    file = test.partition("::")[0]
    if ON_SESSION.match(test) and not ALONE.match(test):
        return SESSION
    if route := ROUTE.fullmatch(test):
        return f"{file} on {route[1]}"
    return test if file.startswith("tests/property/") or file == "tests/test_docs.py" else file


def turn_of(test: str) -> int:
    """When the part of a test is begun."""
    part = part_of(test)
    return next((place for place, begin in enumerate(LONGEST) if part.startswith(begin)), len(LONGEST))


class Parts(LoadScopeScheduling):
    """Gives parts to processes, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return part_of(nodeid)
