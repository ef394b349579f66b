"""Registered functions and histories on Spark; what Connect must answer too is in `support/spark_queries.py`."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kleene
from kleene.common.errors import BindingError, PlanningError
from support.spark import frame_of
from support.spark_queries import in_order

pytestmark = pytest.mark.spark

ROLES: dict[str, Any] = {"time": "ts", "type": "type"}


def ticks(count: int = 200, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.arange(count),
            "type": rng.choice(["A", "B"], count),
            "symbol": rng.choice(["p", "q", "r"], count),
            "price": pa.array(rng.normal(size=count).round(3), mask=rng.random(count) < 0.02),
        }
    )


def test_a_function_closes_over_what_it_needs(spark: Any) -> None:
    limit, table = 0.5, ticks()

    @kleene.function(returns="boolean")
    def far(x: pa.Array, y: pa.Array) -> pa.Array:
        return pc.greater(pc.abs(pc.subtract(x, y)), limit)

    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [symbol] AND Far(a.price, b.price) WITHIN 9", functions={"Far": far})
    wanted = in_order(query.match(table, **ROLES).to_pylist())
    assert in_order(query.match(frame_of(spark, table), **ROLES).toArrow().to_pylist()) == wanted
    assert wanted


def test_functions_are_not_pushed_down(spark: Any) -> None:
    frame = frame_of(spark, ticks()).cache()
    query = kleene.query(
        "PATTERN A a WHERE half(a.price) > 0.25 AND a.ts < 50 RETURN a.ts AS t",
        functions={"half": lambda x: pc.divide(x, 2.0)},
    )
    matches = query.match(frame, **ROLES)
    plan = matches._jdf.queryExecution().executedPlan().toString()
    assert "< 50" in plan
    assert "0.25" not in plan
    assert sorted(row["t"] for row in matches.collect()) == sorted(query.match(ticks(), **ROLES).column("t").to_pylist())


def test_an_error_in_a_function_reaches_the_driver(spark: Any) -> None:
    def broken(x: pa.Array) -> pa.Array:
        raise ValueError("no such price")

    query = kleene.query("PATTERN A a WHERE broken(a.price) > 0", functions={"broken": broken})
    matches = query.match(frame_of(spark, ticks()), **ROLES)
    with pytest.raises(Exception, match="the function 'broken' failed: ValueError: no such price"):
        matches.collect()


def test_a_function_that_cannot_travel_is_refused(spark: Any) -> None:
    lock = threading.Lock()

    def locked(x: pa.Array) -> pa.Array:
        with lock:
            return x

    query = kleene.query("PATTERN A a WHERE locked(a.price) > 0", functions={"locked": locked})
    with pytest.raises(
        PlanningError, match="the function 'locked' cannot be sent to Spark's workers: TypeError: cannot pickle"
    ):
        query.match(frame_of(spark, ticks()), **ROLES)
    assert query.match(ticks(), **ROLES).num_rows > 0


def test_functions_that_a_query_does_not_call_stay_at_home(spark: Any) -> None:
    query = kleene.query("PATTERN A a WHERE a.price > 0", functions={"locked": lambda x, lock=threading.Lock(): x})  # noqa: ARG005, B008
    assert query.match(frame_of(spark, ticks()), **ROLES).count() > 0


def test_a_file_of_functions_travels_with_the_command(tmp_path: Path) -> None:
    """In a process of its own, as Spark is started by the command."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_spark_functions.py").write_text(
        textwrap.dedent(
            """
            import kleene
            import pyarrow.compute as pc

            LIMIT = 0.5

            def difference(x, y):
                return pc.subtract(x, y)

            @kleene.function("Far", returns="boolean")
            def far(x, y):
                return pc.greater(pc.abs(difference(x, y)), LIMIT)
            """
        )
    )
    pq.write_table(ticks(), tmp_path / "ticks.parquet")
    text = "PATTERN SEQ(A a, B b) WHERE [symbol] AND Far(a.price, b.price) WITHIN 9 RETURN a.ts AS a, b.ts AS b"
    command = [sys.executable, "-m", "kleene.interfaces.cli", "match", "-q", text, "ticks.parquet", "--time", "ts"]
    command += ["--type", "type", "--functions", "mine/my_spark_functions.py"]
    found = []
    for engine in (["--engine", "embedded"], ["--engine", "spark", "--master", "local[2]"]):
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [*command, *engine], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(sorted((row["a"], row["b"]) for row in map(json.loads, done.stdout.splitlines())))
    assert found[0] == found[1]
    assert found[0]


# --- histories --------------------------------------------------------------------------------------------------------


def same_histories(spark: Any, table: pa.Table, column: str, length: int, **options: Any) -> None:
    """Spark's histories are those of this process; `row` tells events apart."""
    wanted = kleene.history(table, column, length, **options).select(["row", f"{column}_history"])
    frame = kleene.history(frame_of(spark, table).repartition(3), column, length, **options)
    assert frame.columns == [*table.column_names, f"{column}_history"]
    found = frame.select("row", f"{column}_history").toArrow().sort_by("row").to_pylist()
    np.testing.assert_equal(found, wanted.sort_by("row").to_pylist())
    assert any(row[f"{column}_history"] is not None for row in found)


def test_histories_are_those_of_this_process(spark: Any) -> None:
    rng = np.random.default_rng(2)
    count = 300
    order = rng.permutation(count)
    moments = [dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=int(number // 3)) for number in order]
    table = pa.table(
        {
            "row": np.arange(count),
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "odd `name`": pa.array(order % 3 - 1.0, from_pandas=False),
            "k": pa.array(rng.choice([0.0, -0.0, 1.0, math.nan], count), mask=rng.random(count) < 0.1),
            "j": rng.choice(["x", "y"], count),
            "price": pa.array(rng.normal(size=count), mask=rng.random(count) < 0.2),
            "name": rng.choice(["a", "b", ""], count),
        }
    )
    options: dict[str, Any] = {"partition_by": ["k", "j"], "time": "ts", "order_by": "odd `name`"}
    for column, length in (("price", 3), ("name", 1), ("ts", 2)):
        same_histories(spark, table, column, length, **options)
    same_histories(spark, table, "price", 5, partition_by=(), time="ts", order_by="odd `name`")


def test_nulls_and_nan_are_ordered_alike(spark: Any) -> None:
    table = pa.table(
        {"row": [0, 1, 2, 3], "ts": [1, 1, 1, 1], "s": [math.nan, None, 1.0, -1.0], "x": [1, 2, 3, 4], "k": [1] * 4}
    )
    same_histories(spark, table, "x", 2, partition_by="k", time="ts", order_by="s")


def test_events_without_time_or_key_belong_nowhere(spark: Any) -> None:
    table = pa.table({"row": range(6), "ts": [1, None, None, 3, 4, 4], "k": [1, 1, 1, None, 1, 2], "x": [1, 2, 3, 4, 5, 6]})
    same_histories(spark, table, "x", 2, partition_by="k", time="ts")


def test_ties_are_refused(spark: Any) -> None:
    table = pa.table({"ts": [1, 1], "k": ["v", "v"], "x": [1, 2]})
    frame = kleene.history(frame_of(spark, table), "x", 2, partition_by="k", time="ts")
    with pytest.raises(Exception, match="two events tie at time 1 in partition k = v: a history needs them in order"):
        frame.collect()


def test_wrong_arguments(spark: Any) -> None:
    with pytest.raises(BindingError, match="did you mean 'price'"):
        kleene.history(frame_of(spark, ticks()), "pric", 2, partition_by="symbol", time="ts")


def test_correlated_histories(spark: Any) -> None:
    table = ticks(400)
    text = "PATTERN SEQ(A a, B b) WHERE [symbol] AND Corr(a.h, b.h) > 0.8 WITHIN 30 RETURN a.ts AS a, Corr(a.h, b.h) AS c"
    query = kleene.query(text, functions={"Corr": kleene.functions.corr})
    roles: dict[str, Any] = {"partition_by": ["symbol", "type"], "time": "ts", "name": "h"}
    wanted = query.match(kleene.history(table, "price", 4, **roles), **ROLES)
    found = query.match(kleene.history(frame_of(spark, table), "price", 4, **roles), **ROLES).toArrow()
    assert in_order(found.to_pylist()) == in_order(wanted.to_pylist())
    assert wanted.num_rows > 5
