"""Every scalar operation gives the oracle's value on ordinary and odd operands, computed and compared, in every place."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.common.schema import schema_of_arrow
from kleene.pattern.bind import bind
from kleene.plan.options import PRESETS
from kleene.testing import oracle

DAY = dt.datetime(2024, 2, 29, 23, 59, 58, 750_000, tzinfo=dt.UTC)
ROWS: list[dict[str, Any]] = [
    {
        "ts": 1,
        "i": 7,
        "j": -3,
        "f": 2.5,
        "g": -0.0,
        "s": "Straße",
        "r": "a%b",
        "t": DAY,
        "u": DAY,
        "d": dt.timedelta(seconds=3),
    },
    {
        "ts": 2,
        "i": -7,
        "j": 0,
        "f": math.nan,
        "g": 4.0,
        "s": "",
        "r": "x_y",
        "t": DAY,
        "u": None,
        "d": dt.timedelta(microseconds=5),
    },
    {"ts": 3, "i": None, "j": 2, "f": math.inf, "g": None, "s": None, "r": " pad ", "t": None, "u": DAY, "d": None},
    {
        "ts": 4,
        "i": 2**53 + 1,
        "j": 5,
        "f": -4.0,
        "g": 1e300,
        "s": "ΑΣ",
        "r": "q",
        "t": DAY,
        "u": DAY,
        "d": dt.timedelta(days=-1),
    },
]
SCHEMA = pa.schema(
    [
        ("ts", pa.int64()),
        ("i", pa.int64()),
        ("j", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float64()),
        ("s", pa.string()),
        ("r", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("u", pa.timestamp("us", "UTC")),
        ("d", pa.duration("us")),
    ]
)
EXPRESSIONS = """
    i + j|i - j|i * j|i / j|i % j|-i|i + f|f - i|f * g|f / g|f % g|g % 3|j % 2.5|i / 0|j / 2|abs(i)|abs(f)|abs(d)
    floor(f)|ceil(f)|floor(i)|sqrt(f)|sqrt(i)|ln(f)|ln(j)|exp(f)|exp(g)|power(f, 2)|power(j, -1)|power(f, 0.5)|lower(s)
    upper(s)|length(s)|trim(r)|substr(s, 2)|substr(s, 2, 3)|substr(s, 0, 2)|substr(s, -1, 3)|substr(s, 9)
    concat(s, '-', r)|coalesce(i, j)|coalesce(s, r, 'none')|coalesce(NULL, f)|coalesce(f, 1)|least(i, j)|greatest(f, g)
    least(f, g, 1)|least(s, r)|greatest(t, u)|least(t, u)|least(i, NULL)|upper(NULL)|abs(NULL)|i + NULL|year(t)|month(t)
    day(t)|hour(t)|minute(t)|second(t)|t - u|t + d|t - d|t + 5 minutes|d * 2|d * 1.5|2.5 * d|d / 2|d / 3|d / 2 seconds
    d + d|d - 1 second|-d
""".replace("\n", "|")
CONDITIONS = """
    i = j|i < f|f = f|f != f|f >= g|g = 0|i > 9007199254740992|i = 9007199254740992.0|s = 'Straße'|s < r|s >= ''
    r LIKE 'a\\%%'|r LIKE '_\\_y'|r LIKE '%'|s LIKE 'Stra_e'|s LIKE NULL|i IN (7, 8)|i IN (7, NULL)|NOT i IN (7, NULL)
    NOT i IN (1, 2, 3, 4)|f IN (2.5, 1)|i BETWEEN -7 AND 7|j BETWEEN i AND f|s IS NULL|NOT s IS NULL|i IS NULL OR j > 1
    NOT (i > 0 AND f > 0)|i > 0 OR NULL|t = u|t < '2024-03-01'|t >= TIMESTAMP '2024-02-29'|t - u < 1 second|d > 1 second
    d * 2 > 5 seconds|d / 2 = 1.5 seconds|length(s) = 6|upper(r) = 'Q'|i % 2 = 1|f / g < 1|sqrt(f) > 1|NULL = 1
""".replace("\n", "|")


def listed(text: str) -> list[str]:
    return [item.strip() for item in text.split("|") if item.strip()]


def both(text: str, plan: str = "optimized") -> tuple[list[Any], list[Any]]:
    """(engine, oracle) rows of a query over the table."""
    query = kleene.query(text)
    table = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    bound = bind(query.logical, schema_of_arrow(SCHEMA, time="ts"))
    expected = [(oracle.returns(bound, ROWS, match)) for match in oracle.matches(bound, ROWS)]
    found = query.match(table, time="ts", plan=plan).to_pylist()
    shown = [{name: row[name] for name in expected[0]} for row in found] if expected else found
    return sorted(map(canonical, shown)), sorted(map(canonical, expected))


def canonical(row: dict[str, Any]) -> str:
    return str({name: plain(value) for name, value in row.items()})


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.14g}") + 0.0
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat()
    return value


@pytest.mark.parametrize("expression", listed(EXPRESSIONS))
def test_values(expression: str):
    found, expected = both(f"PATTERN E a RETURN ts AS at, {expression} AS value")
    assert found == expected
    assert len(found) == len(ROWS)


@pytest.mark.parametrize("condition", listed(CONDITIONS))
@pytest.mark.parametrize("plan", sorted(PRESETS))
def test_conditions_on_one_event(condition: str, plan: str):
    found, expected = both(f"PATTERN E a WHERE {condition} RETURN ts AS at", plan)
    assert found == expected


BETWEEN_EVENTS = """
    a.i + b.j > 3|a.i * 2 < b.i|a.f < b.f|a.f != b.g|a.s < b.s|a.s = b.r OR a.j < b.j|a.t <= b.t|a.t - b.u <= 0 seconds
    a.i % b.j = 1|a.i / b.j > 0.5|NOT (a.i > b.j)|a.i IN (b.i, b.j, 7)|a.j BETWEEN b.j AND b.i
    (a.s LIKE 'S%' OR a.j < b.j) AND b.j > 0|a.d * 2 > b.d|a.d / b.d > 0.5|-a.j < b.j|length(a.s) > b.j
    upper(a.r) != b.s|a.i IS NULL OR a.i < b.i|a.f + b.f > 0|concat(a.s, b.s) LIKE '%S%'|least(a.i, b.i) > 0
    a.d - b.d < 2 seconds|a.s = 'Straße' OR a.s < b.s|b.s >= 'M' AND a.r <= b.r|a.i = b.f|a.g = b.j
""".replace("\n", "|")


@pytest.mark.parametrize("condition", listed(BETWEEN_EVENTS))
@pytest.mark.parametrize("plan", sorted(PRESETS))
def test_conditions_between_events(condition: str, plan: str):
    found, expected = both(f"PATTERN SEQ(E a, E b) WHERE {condition} RETURN a.ts AS first, b.ts AS second", plan)
    assert found == expected
