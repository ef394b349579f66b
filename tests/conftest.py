"""Routes for case files, and the Spark session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `support`, in this process and under xdist

from kleene.plan import optimizer
from kleene.testing.case_routes import routes
from support import engine_routes, parts, slice_runs, stream_routes, workload_routes
from support import spark as spark_support

optimizer.VERIFIES = True
routes.update(engine_routes.embedded_routes())
routes.update(stream_routes.stream_routes())
routes.update(slice_runs.slice_routes())
routes["workload"] = workload_routes.workload_route
routes["spark"] = engine_routes.spark_route(spark_support.classic_session)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--routes", help="case files run on these routes only, of all that there are: oracle,embedded,spark,...")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Case files, on the routes that are asked for."""
    if {"case", "route"} <= set(metafunc.fixturenames):
        given = metafunc.config.getoption("--routes")
        chosen = routes.keys() if given is None else given.split(",")
        if unknown := set(chosen) - routes.keys():
            raise pytest.UsageError(f"no routes: {', '.join(sorted(unknown))}; there are {', '.join(routes)}")
        metafunc.parametrize(("case", "route"), list(metafunc.module.runs(chosen)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup` shares out parts of our own."""
    return parts.Parts(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest parts come first, where there are parts. What the oldest Spark lacks is not tested on it, and said."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: parts.turn_of(item.nodeid))
    for item in items:
        marker = item.get_closest_marker("since")
        if marker is not None and marker.args > spark_support.VERSION:
            item.add_marker(pytest.mark.skip(reason=f"needs Spark {'.'.join(map(str, marker.args))}"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One classic session per pytest process."""
    yield spark_support.classic_session()
    spark_support.classic_session().stop()
    spark_support.classic_session.cache_clear()
