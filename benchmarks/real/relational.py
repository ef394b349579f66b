"""The questions as SQL, for DuckDB and Spark, and in Polars: written by hand, on one thread each in this process.

A window is a join of buckets, as in the suite `peers`: an event of bucket g can only follow events of g and g - 1. What comes
next is an ASOF join or a window function. Counts of pairs that are alive come from the pairs: those that have ended by now,
without those whose first event has left the window; a pair that has begun before has ended by then.

SQL has names in braces for what dialects say differently: `{bucket:e}` is e by the window, `{both:e}` both buckets of e.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Contender, Outcome
from benchmarks.peers.contenders import answer_of, looked_at
from benchmarks.peers.relational import polars as _one_thread  # noqa: F401 - sets the number of Polars' threads before its import
from benchmarks.real.questions import QUESTIONS, Question

DIALECTS: dict[str, Callable[[str, str, int], str]] = {
    "duckdb": lambda what, value, W: f"{value} // {W}" if what == "bucket" else f"unnest([{value} // {W}, {value} // {W} + 1])",
    "spark": lambda what, value, W: (
        f"{value} div {W}" if what == "bucket" else f"explode(array({value} div {W}, {value} div {W} + 1))"
    ),
}


def written(sql: str, dialect: str, question: Question) -> str:
    """SQL in a dialect."""
    return re.sub(
        r"\{(bucket|both):(\w+)\}", lambda found: DIALECTS[dialect](found[1], found[2], question.window), sql
    ).replace("{W}", str(question.window))


def answer(rows: Sequence[pa.Table], question: Question) -> Outcome:
    """The number of matches and their digest; of counts their sum, and how many there are."""
    if question.returned is not None:
        return answer_of(rows, counted=False)
    return Outcome(
        sum(pc.sum(table["count"]).as_py() or 0 for table in rows), {"digest": sum(table.num_rows for table in rows)}
    )


# SQL


def _order(question: Question) -> str:
    return "id" if question.ordered else "ts"


def joined(question: Question, *steps: str, where: str = "", columns: str = "") -> str:
    """Steps one after the other within the window, by key and bucket, from the last down; e1 is the first of them."""
    last, order = len(steps), _order(question)
    kept = ", ".join(dict.fromkeys(("ts", "id", "delay", *question.keys)))
    parts = []
    for place, condition in enumerate(steps, 1):
        bucket = "{bucket:ts}" if place == last else "{both:ts}"
        parts.append(f"e{place} AS (SELECT {kept}, {bucket} AS g FROM events WHERE {condition})")
    joins = []
    for place in range(last - 1, 0, -1):
        same = "".join(f" AND e{place}.{key} = e{last}.{key}" for key in question.keys)
        inside = f"e{place}.{order} < e{place + 1}.{order} AND e{place}.ts > e{last}.ts - {{W}}"
        joins.append(
            f"JOIN e{place} ON e{place}.g = e{last}.g{same} AND {inside}{f' AND {where}' if where and place == 1 else ''}"
        )
    returned = columns or f"e1.id AS t1, e{last}.id AS t3"
    return f"WITH {', '.join(parts)} SELECT {returned} FROM e{last} {' '.join(joins)}"


def _growing(question: Question) -> str:  # noqa: ARG001
    steps = range(1, 5)
    ahead = ", ".join(
        f"lead({name}, {step}) OVER same AS {name}{step}" for step in steps for name in ("id", "ts", "type", "delay")
    )
    kinds = ("Departure", "Arrival", "Departure", "Arrival", "Departure")
    tests = " AND ".join(f"type{step} = '{kinds[step]}'" for step in steps)
    return (
        f"SELECT id AS t1, id4 AS t3 FROM (SELECT *, {ahead} FROM events WHERE tailnum IS NOT NULL "
        f"WINDOW same AS (PARTITION BY tailnum ORDER BY id)) AS found WHERE type = 'Departure' AND {tests} AND delay > 10 "
        "AND delay2 > delay AND delay4 > delay2 AND ts4 < ts + {W}"
    )


def _streak(question: Question) -> str:  # noqa: ARG001
    return (
        "WITH steps AS (SELECT id, ts, type, tailnum, delay, row_number() OVER same AS n, CASE WHEN type = 'Cancelled' "
        "OR delay <= lag(delay) OVER same THEN 1 ELSE 0 END AS falls FROM events WHERE tailnum IS NOT NULL "
        "WINDOW same AS (PARTITION BY tailnum ORDER BY id)), runs AS (SELECT *, sum(falls) OVER (PARTITION BY tailnum "
        "ORDER BY id) AS run FROM steps), ends AS (SELECT id, ts, n, type, tailnum, run FROM runs WHERE falls = 1) "
        "SELECT runs.id AS t1, ends.id AS t3 FROM runs JOIN ends ON runs.tailnum = ends.tailnum AND ends.run = runs.run + 1 "
        "WHERE runs.type <> 'Cancelled' AND ends.type <> 'Cancelled' AND runs.delay > 30 AND ends.n >= runs.n + 3 "
        "AND ends.ts < runs.ts + {W}"
    )


def _no_return_asof(question: Question) -> str:  # noqa: ARG001
    return (
        "SELECT a.id AS t1, a.id AS t3 FROM (SELECT * FROM events WHERE type = 'Arrival') AS a ASOF LEFT JOIN "
        "(SELECT ts, tailnum FROM events WHERE type = 'Departure') AS b ON a.tailnum = b.tailnum AND a.ts < b.ts "
        "WHERE b.ts IS NULL OR b.ts >= a.ts + {W}"
    )


def _no_return_window(question: Question) -> str:
    ahead = f"(PARTITION BY tailnum ORDER BY ts RANGE BETWEEN 1 FOLLOWING AND {question.window - 1} FOLLOWING)"
    return (
        f"SELECT id AS t1, id AS t3 FROM (SELECT id, type, sum(CASE WHEN type = 'Departure' THEN 1 END) OVER {ahead} AS later "
        "FROM events WHERE type <> 'Cancelled') AS found WHERE type = 'Arrival' AND later IS NULL"
    )


def _next_asof(question: Question) -> str:  # noqa: ARG001
    return (
        "SELECT a.id AS t1, b.id AS t3 FROM (SELECT * FROM events WHERE type = 'Cancelled') AS a ASOF JOIN "
        "(SELECT id, ts, origin, dest FROM events WHERE type = 'Departure' AND delay <= 0) AS b "
        "ON a.origin = b.origin AND a.dest = b.dest AND a.id < b.id WHERE b.ts < a.ts + {W}"
    )


def _next_window(question: Question) -> str:  # noqa: ARG001
    ahead = "PARTITION BY origin, dest ORDER BY id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING"
    first = "min(CASE WHEN type = 'Departure' THEN {} END) OVER same"
    return (
        f"SELECT id AS t1, t3 FROM (SELECT id, ts, type, {first.format('id')} AS t3, {first.format('ts')} AS later FROM events "
        f"WHERE type = 'Cancelled' OR (type = 'Departure' AND delay <= 0) WINDOW same AS ({ahead})) AS found "
        "WHERE type = 'Cancelled' AND later < ts + {W}"
    )


def _in_a_row(question: Question) -> str:  # noqa: ARG001
    ahead = ", ".join(
        f"lead({name}, {step}) OVER same AS {name}{step}" for step in (1, 2) for name in ("id", "ts", "type", "delay")
    )
    return (
        f"SELECT id AS t1, id2 AS t3 FROM (SELECT *, {ahead} FROM events WINDOW same AS (PARTITION BY airport ORDER BY id)) "
        "AS found WHERE type = 'Arrival' AND type1 = 'Arrival' AND type2 = 'Arrival' AND delay > 45 AND delay1 > 45 "
        "AND delay2 > 45 AND ts2 < ts + {W}"
    )


def _either_order(question: Question) -> str:  # noqa: ARG001
    # Whichever comes first is in its own bucket or in the one before: one more bucket on the other side.
    late = LATE.format(120)
    return (
        "WITH a AS (SELECT *, {bucket:ts} AS g FROM events WHERE type = 'Cancelled'), "
        f"before AS (SELECT *, ts - {{W}} AS past FROM events WHERE {late}), "
        "b AS (SELECT id, ts, origin, dest, {both:past} AS g FROM before "
        f"UNION ALL SELECT id, ts, origin, dest, {{bucket:ts}} + 1 AS g FROM events WHERE {late}) "
        "SELECT a.id AS t1, b.id AS t3 FROM a JOIN b ON a.origin = b.origin AND a.dest = b.dest AND a.g = b.g "
        "AND abs(a.ts - b.ts) < {W}"
    )


def _spared(question: Question) -> str:
    before = "sum(CASE WHEN type = 'Cancelled' THEN 1 ELSE 0 END) OVER (PARTITION BY airport ORDER BY id) AS before"
    counted = f"(SELECT id, ts, airport, type, delay, {before} FROM events WHERE type <> 'Arrival') AS counted"
    kept = "type = 'Departure' AND delay > 180"
    return (
        joined(question, kept, kept, where="e1.before = e2.before")
        .replace("delay, airport,", "delay, before, airport,")
        .replace("FROM events", f"FROM {counted}")
    )


def alive(question: Question, pairs: str, last: str) -> str:
    """At each event of `last`, the pairs that are alive; pairs have the times t1 and t3 and places i3."""
    keys = ", ".join(question.keys)
    same = f"PARTITION BY {keys}"
    return (
        f"WITH pairs AS ({pairs}), changes AS ("
        f"SELECT {keys}, i3 AS id, t3 AS moment, 0 AS kind, count(*) AS n FROM pairs GROUP BY {keys}, i3, t3 "
        f"UNION ALL SELECT {keys}, -1 AS id, t1 + {{W}} AS moment, 0 AS kind, -count(*) AS n FROM pairs GROUP BY {keys}, t1 "
        f"UNION ALL SELECT {keys}, id, ts AS moment, 1 AS kind, 0 AS n FROM events WHERE {last}) "
        "SELECT CAST(alive AS BIGINT) AS count FROM "
        f"(SELECT kind, sum(n) OVER ({same} ORDER BY moment, id, kind) AS alive FROM changes) AS found WHERE kind = 1"
    )


def _pairs(question: Question, first: str, last: str, where: str = "") -> str:
    keys = ", ".join(f"e2.{key}" for key in question.keys)
    return alive(
        question, joined(question, first, last, where=where, columns=f"{keys}, e1.ts AS t1, e2.ts AS t3, e2.id AS i3"), last
    )


LATE = "type = 'Departure' AND delay > {}"
LEFT = "type = 'Departure' AND origin = '{}'"

SQL: dict[str, dict[str, Callable[[Question], str]]] = {
    "turnaround": {"join": lambda question: joined(question, "type = 'Arrival'", "type = 'Departure'")},
    "made_up": {
        "join": lambda question: joined(question, "type = 'Departure' AND delay >= 30", "type = 'Arrival' AND delay < 0")
    },
    "growing": {"window functions": _growing},
    "streak": {"window functions": _streak},
    "no_return": {"ASOF join": _no_return_asof, "window function": _no_return_window},
    "after_cancelled": {"join": lambda question: joined(question, "type = 'Cancelled'", LATE.format(30), LATE.format(30))},
    "next_on_time": {"ASOF join": _next_asof, "window functions": _next_window},
    "airports": {"join": lambda question: joined(question, *(LEFT.format(name) for name in ("EWR", "LGA", "JFK")))},
    "in_a_row": {"window functions": _in_a_row},
    "worse": {
        "join": lambda question: joined(question, LEFT.format("JFK"), LEFT.format("LGA"), where="e2.delay > e1.delay + 240")
    },
    "either_order": {"join": _either_order},
    "spared": {"join and window function": _spared},
    "pairs": {"join and window function": lambda question: _pairs(question, LATE.format(60), LATE.format(60))},
    "rising_pairs": {
        "join and window function": lambda question: _pairs(
            question, LATE.format(0), "type = 'Departure'", where="e2.delay > e1.delay"
        )
    },
}
"""By question, its formulations."""


def duckdb(
    name: str, question: Question, table: pa.Table, formulation: str = "", *, loaded: bool = False, count_only: bool = False
) -> Contender:
    """DuckDB over the Arrow table, or over its own copy, to an Arrow table or to a count."""
    import duckdb as database

    connection = database.connect()
    connection.sql("SET threads = 1")
    connection.sql("SET preserve_insertion_order = false")
    connection.register("given" if loaded else "events", table)
    if loaded:
        connection.sql("CREATE TABLE events AS SELECT * FROM given")
    written_for = SQL[question.name]
    sql = written(written_for[formulation or next(iter(written_for))](question), "duckdb", question)
    if count_only:
        return Contender(name, lambda: Outcome(connection.sql(f"SELECT count(*) FROM ({sql})").fetchall()[0][0]))
    return looked_at(name, lambda: [connection.sql(sql).to_arrow_table()], lambda rows: answer(rows, question))


# Polars


def _steps(frame: Any, question: Question, *steps: str, where: str = "", columns: Sequence[str] = ()) -> Any:
    """The join of `joined`; the columns of e1 end in 1, and so on."""
    import polars as pl

    W, last, order = question.window, len(steps), _order(question)
    keys = list(question.keys)

    def source(place: int) -> Any:
        kept = frame.filter(pl.sql_expr(steps[place - 1])).select(
            *keys, *(pl.col(name).alias(f"{name}{place}") for name in ("ts", "id", "delay"))
        )
        bucketed = kept.with_columns(g=pl.col(f"ts{place}") // W)
        return bucketed if place == last else pl.concat([bucketed, bucketed.with_columns(g=pl.col("g") + 1)])

    found = source(last)
    for place in range(last - 1, 0, -1):
        before, after = f"{order}{place}", f"{order}{place + 1}"
        inside = (pl.col(before) < pl.col(after)) & (pl.col(f"ts{place}") > pl.col(f"ts{last}") - W)
        found = found.join(source(place), on=[*keys, "g"]).filter(inside)
    found = found.filter(pl.sql_expr(where)) if where else found
    return found.select(*columns) if columns else found.select(t1=pl.col("id1"), t3=pl.col(f"id{last}"))


def _polars_growing(frame: Any, question: Question) -> Any:
    import polars as pl

    kinds = ("Departure", "Arrival", "Departure", "Arrival", "Departure")

    def ahead(name: str, step: int) -> Any:
        return pl.col(name).shift(-step).over("tailnum")

    known = frame.filter(pl.col("tailnum").is_not_null())
    found = known.with_columns(
        t3=ahead("id", 4),
        end=ahead("ts", 4),
        delay2=ahead("delay", 2),
        delay4=ahead("delay", 4),
        **{f"type{step}": ahead("type", step) for step in range(1, 5)},
    )
    tests = [pl.col(f"type{step}" if step else "type") == kind for step, kind in enumerate(kinds)]
    return found.filter(
        *tests,
        pl.col("delay") > 10,
        pl.col("delay2") > pl.col("delay"),
        pl.col("delay4") > pl.col("delay2"),
        pl.col("end") < pl.col("ts") + question.window,
    ).select(t1="id", t3="t3")


def _polars_streak(frame: Any, question: Question) -> Any:
    import polars as pl

    is_cancelled = pl.col("type") == "Cancelled"
    falls = is_cancelled | (pl.col("delay") <= pl.col("delay").shift())
    known = frame.filter(pl.col("tailnum").is_not_null()).select("id", "ts", "type", "tailnum", "delay")
    steps = known.with_columns(n=pl.int_range(pl.len()).over("tailnum"), falls=falls.over("tailnum").fill_null(value=False))
    ends = {
        name: pl.when(pl.col("falls")).then(pl.col(name)).shift(-1).backward_fill().over("tailnum")
        for name in ("id", "ts", "n")
    }
    gone = pl.when(pl.col("falls")).then(is_cancelled).shift(-1).backward_fill().over("tailnum")
    found = steps.with_columns(t3=ends["id"], end=ends["ts"], stop=ends["n"], gone=gone)
    return found.filter(
        ~is_cancelled,
        ~pl.col("gone"),
        pl.col("delay") > 30,
        pl.col("stop") >= pl.col("n") + 3,
        pl.col("end") < pl.col("ts") + question.window,
    ).select(t1="id", t3="t3")


def _forward(first: Any, last: Any, keys: Sequence[str], on: str) -> Any:
    """For each first event the next one after it."""
    options = {"by": list(keys), "strategy": "forward", "allow_exact_matches": False, "check_sortedness": False}
    return first.join_asof(last, left_on=on, right_on="later", coalesce=False, **options)


def _polars_no_return(frame: Any, question: Question) -> Any:
    import polars as pl

    first = frame.filter(pl.col("type") == "Arrival").select("id", "ts", "tailnum")
    last = frame.filter(pl.col("type") == "Departure").select(pl.col("ts").alias("later"), "tailnum")
    found = _forward(first, last, ["tailnum"], "ts")
    return found.filter(pl.col("later").is_null() | (pl.col("later") >= pl.col("ts") + question.window)).select(
        t1="id", t3="id"
    )


def _polars_next(frame: Any, question: Question) -> Any:
    import polars as pl

    first = frame.filter(pl.col("type") == "Cancelled").select("id", "ts", "origin", "dest")
    last = frame.filter(pl.col("type") == "Departure", pl.col("delay") <= 0)
    last = last.select(pl.col("id").alias("later"), pl.col("ts").alias("end"), "origin", "dest")
    found = _forward(first, last, ["origin", "dest"], "id")
    return found.filter(pl.col("end") < pl.col("ts") + question.window).select(t1="id", t3="later")


def _polars_in_a_row(frame: Any, question: Question) -> Any:
    import polars as pl

    fits = (pl.col("type") == "Arrival") & (pl.col("delay") > 45)
    marked = frame.select("id", "ts", "airport", fits=fits)
    found = marked.with_columns(
        t3=pl.col("id").shift(-2).over("airport"),
        end=pl.col("ts").shift(-2).over("airport"),
        second=pl.col("fits").shift(-1).over("airport"),
        third=pl.col("fits").shift(-2).over("airport"),
    )
    rows = found.filter(pl.col("fits"), pl.col("second"), pl.col("third"), pl.col("end") < pl.col("ts") + question.window)
    return rows.select(t1="id", t3="t3")


def _polars_either_order(frame: Any, question: Question) -> Any:
    import polars as pl

    W, keys = question.window, ["origin", "dest"]
    first = frame.filter(pl.col("type") == "Cancelled").select("id", "ts", *keys, g=pl.col("ts") // W)
    late = frame.filter(pl.col("type") == "Departure", pl.col("delay") > 120)
    late = late.select(pl.col("id").alias("t3"), pl.col("ts").alias("other"), *keys, g=pl.col("ts") // W)
    last = pl.concat([late.with_columns(g=pl.col("g") + more) for more in (-1, 0, 1)])
    found = first.join(last, on=[*keys, "g"]).filter((pl.col("ts") - pl.col("other")).abs() < W)
    return found.select(t1="id", t3="t3")


def _polars_spared(frame: Any, question: Question) -> Any:
    import polars as pl

    counted = frame.filter(pl.col("type") != "Arrival").select(
        "ts", "id", "airport", "type", "delay", before=(pl.col("type") == "Cancelled").cum_sum().over("airport")
    )
    late = counted.filter(pl.col("type") == "Departure", pl.col("delay") > 180)
    keys = ["airport", "before"]
    first = late.select(pl.col("ts").alias("ts1"), pl.col("id").alias("t1"), *keys, g=pl.col("ts") // question.window)
    last = late.select("ts", pl.col("id").alias("t3"), *keys, g=pl.col("ts") // question.window)
    both = pl.concat([first, first.with_columns(g=pl.col("g") + 1)])
    found = last.join(both, on=[*keys, "g"]).filter(pl.col("t1") < pl.col("t3"), pl.col("ts1") > pl.col("ts") - question.window)
    return found.select("t1", "t3")


def _polars_pairs(frame: Any, question: Question, first: str, last: str, where: str = "") -> Any:
    import polars as pl

    keys = list(question.keys)
    pairs = _steps(frame, question, first, last, where=where, columns=[*keys, "ts1", "id2", "ts2"])
    ended = pairs.select(*keys, at="ts2", id="id2", kind=pl.lit(0), n=pl.lit(1))
    left = pairs.select(*keys, at=pl.col("ts1") + question.window, id=pl.lit(-1, pl.Int64), kind=pl.lit(0), n=pl.lit(-1))
    asked = frame.filter(pl.sql_expr(last)).select(*keys, at="ts", id="id", kind=pl.lit(1), n=pl.lit(0))
    changes = pl.concat([ended, left, asked]).sort("at", "id", "kind")
    return changes.with_columns(count=pl.col("n").cum_sum().over(keys)).filter(pl.col("kind") == 1).select("count")


POLARS: dict[str, Callable[[Any, Question], Any]] = {
    "turnaround": lambda frame, question: _steps(frame, question, "type = 'Arrival'", "type = 'Departure'"),
    "made_up": lambda frame, question: _steps(
        frame, question, "type = 'Departure' AND delay >= 30", "type = 'Arrival' AND delay < 0"
    ),
    "growing": _polars_growing,
    "streak": _polars_streak,
    "no_return": _polars_no_return,
    "after_cancelled": lambda frame, question: _steps(frame, question, "type = 'Cancelled'", LATE.format(30), LATE.format(30)),
    "next_on_time": _polars_next,
    "airports": lambda frame, question: _steps(frame, question, *(LEFT.format(name) for name in ("EWR", "LGA", "JFK"))),
    "in_a_row": _polars_in_a_row,
    "worse": lambda frame, question: _steps(
        frame, question, LEFT.format("JFK"), LEFT.format("LGA"), where="delay2 > delay1 + 240"
    ),
    "either_order": _polars_either_order,
    "spared": _polars_spared,
    "pairs": lambda frame, question: _polars_pairs(frame, question, LATE.format(60), LATE.format(60)),
    "rising_pairs": lambda frame, question: _polars_pairs(
        frame, question, LATE.format(0), "type = 'Departure'", where="delay2 > delay1"
    ),
}


def polars(name: str, question: Question, table: pa.Table, *, count_only: bool = False) -> Contender:
    """Polars over a frame in memory, to an Arrow table or to a count."""
    import polars as pl

    plan = POLARS[question.name](pl.from_arrow(table).lazy(), question)
    if count_only:
        return Contender(name, lambda: Outcome(plan.select(pl.len()).collect().item()))
    return looked_at(name, lambda: [plan.collect().to_arrow()], lambda rows: answer(rows, question))


def contenders(question: Question, table: pa.Table) -> list[Contender]:
    """DuckDB's formulations, over the table and over its own copy of it, and Polars."""
    found = [
        duckdb(f"duckdb: {name}{', loaded' if loaded else ''}", question, table, name, loaded=loaded)
        for name in SQL[question.name]
        for loaded in (False, True)
    ]
    return [*found, polars("polars", question, table)]


assert set(SQL) == set(POLARS) == set(QUESTIONS)
