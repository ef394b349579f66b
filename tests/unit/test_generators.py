"""Generators: distributions, determinism by seed, rows independent of the batch size, and the exact truth of the retail day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kleene.common.schema import schema_of_arrow
from kleene.generators import quotes, retail, sase, stock, updates
from kleene.generators.blocks import BLOCK_ROWS, rebatch
from kleene.generators.quotes import QuotesOptions
from kleene.generators.retail import RetailOptions
from kleene.generators.retail_stories import EVENT_TYPES, MISPLACED_WINDOW, SHOPLIFTING_WINDOW, STORIES
from kleene.generators.sase import SaseOptions
from kleene.generators.stock import StockOptions
from kleene.generators.updates import UpdatesOptions
from kleene.interfaces.commands import demo
from kleene.language.parser import parse
from kleene.pattern.bind import bind
from kleene.testing import oracle

TABLES: dict[str, tuple[Callable[[Any], pa.Table], Any]] = {
    "sase": (sase.table, SaseOptions(events=BLOCK_ROWS + 5_000, theta=0.5)),
    "sase-rate": (sase.table, SaseOptions(events=3_000, rate=1_000.0, attribute_type="int64")),
    "stock": (stock.table, StockOptions(events=BLOCK_ROWS + 5_000)),
    "quotes": (quotes.table, QuotesOptions(events=BLOCK_ROWS + 5_000)),
    "updates of stocks": (updates.table, UpdatesOptions(events=BLOCK_ROWS + 5_000)),
    "updates of roads": (updates.table, UpdatesOptions(events=BLOCK_ROWS + 5_000, kind="road")),
    "retail": (retail.table, RetailOptions(events=5_000)),
}


@pytest.fixture(params=TABLES)
def generator(request: pytest.FixtureRequest) -> tuple[Callable[[Any], pa.Table], Any]:
    return TABLES[request.param]


def test_same_seed_same_rows(generator: tuple[Callable[[Any], pa.Table], Any]) -> None:
    table, options = generator
    assert table(options).equals(table(options))
    assert not table(options).equals(table(replace(options, seed=1)))


@pytest.mark.parametrize("batch_size", [997, 10_000_000])
def test_batch_size_changes_nothing(generator: tuple[Callable[[Any], pa.Table], Any], batch_size: int) -> None:
    table, options = generator
    assert table(options).combine_chunks().equals(table(replace(options, batch_size=batch_size)).combine_chunks())


def test_batches_have_the_size_asked_for() -> None:
    sizes = [batch.num_rows for batch in sase.batches(SaseOptions(events=2_500, batch_size=1_000))]
    assert sizes == [1_000, 1_000, 500]


def test_number_and_order_of_events(generator: tuple[Callable[[Any], pa.Table], Any]) -> None:
    table, options = generator
    ts = table(options)["ts"].cast(pa.int64()).to_numpy()
    assert len(ts) == options.events
    assert (np.diff(ts) >= 0).all()


def test_no_events() -> None:
    assert sase.table(SaseOptions(events=0)).num_rows == 0
    assert stock.table(StockOptions(events=0)).schema == stock.schema(StockOptions())
    assert quotes.table(QuotesOptions(events=0)).schema == quotes.schema(QuotesOptions())


def test_rebatch_refuses_empty_batches() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        list(rebatch([], 0))


def test_sase_types_and_attributes_are_uniform() -> None:
    events = sase.table(SaseOptions(events=100_000, V=(10, 1_000)))
    counts = [row["counts"] for row in pc.value_counts(events["type"].combine_chunks()).to_pylist()]
    assert len(counts) == 20
    assert min(counts) > 4_500
    assert max(counts) < 5_500
    assert pc.min_max(events["attr1"]).as_py() == {"min": 1, "max": 10}
    assert pc.min_max(events["attr2"]).as_py() == {"min": 1, "max": 1_000}
    assert pc.mean(events["attr2"]).as_py() == pytest.approx(500.5, abs=5)
    assert events.schema.field("type").type == pa.dictionary(pa.int8(), pa.string())
    assert events.schema.field("attr1").type == pa.int32()


def test_sase_zipf() -> None:
    events = sase.table(SaseOptions(events=100_000, T=4, theta=1.0, V=()))
    share = pc.mean(pc.equal(events["type"].cast(pa.string()), "E1").cast(pa.int64())).as_py()
    assert share == pytest.approx(12 / 25, abs=0.01)
    assert events.schema.names == ["ts", "type"]


def test_sase_rate_gives_timestamps() -> None:
    ts = sase.table(SaseOptions(events=11, rate=10.0))["ts"]
    assert ts.type == pa.timestamp("us", tz="UTC")
    assert (ts[10].as_py() - ts[0].as_py()).total_seconds() == 1.0


def test_sase_many_types_need_wider_codes() -> None:
    assert sase.schema(SaseOptions(T=200)).field("type").type.index_type == pa.int16()


@pytest.mark.parametrize("p", [0.7, 0.55])
def test_stock_prices_walk(p: float) -> None:
    events = stock.table(StockOptions(events=2 * BLOCK_ROWS, p=p))
    symbol, price = (events[name].to_numpy() for name in ("symbol", "price"))
    assert set(np.unique(symbol)) == {1, 2}
    assert (price.min(), price.max()) == (1, 1_000)
    steps = np.concatenate([np.diff(price[symbol == s]) for s in (1, 2)])
    steps = np.where(np.abs(steps) == 999, -np.sign(steps), steps)
    assert set(np.unique(steps)) == {-1, 0, 1}
    assert (steps == 1).mean() == pytest.approx(p, abs=0.01)
    assert (steps == 0).mean() == pytest.approx((1 - p) / 2, abs=0.01)
    assert pc.min_max(events["volume"]).as_py() == {"min": 1, "max": 1_000}


def test_quotes_are_shared_out_and_finance_and_hi_tech_take_turns() -> None:
    options = QuotesOptions(events=BLOCK_ROWS, tickers=2)
    events = quotes.table(options)
    names = {
        row["values"]: row["counts"] / BLOCK_ROWS for row in pc.value_counts(events["ticker"].combine_chunks()).to_pylist()
    }
    assert set(names) == {"F1", "F2", "H1", "H2", "GOOG"}
    assert names.pop("GOOG") == pytest.approx(1 / 3, abs=0.01)
    assert all(share == pytest.approx(1 / 6, abs=0.02) for share in names.values())
    sector = np.array(events["sector"].to_pylist())
    half = options.sway_events // 2
    first, second = sector[:half], sector[half : 2 * half]
    assert (first == "Finance").sum() > 1.1 * (first == "Hi-Tech").sum()
    assert (second == "Hi-Tech").sum() > 1.1 * (second == "Finance").sum()


def test_finance_and_hi_tech_follow_the_market_and_google_does_not() -> None:
    options = QuotesOptions(events=20_000)
    events = quotes.table(options)
    ticker, price = np.array(events["ticker"].to_pylist()), events["price"].to_numpy()
    for name in ("F1", "H3"):
        rise, fall = (np.diff(price[rows][ticker[rows] == name]) for rows in (slice(0, options.turn), slice(5_000, 10_000)))
        assert rise.mean() == pytest.approx(options.trend, rel=0.3)
        assert fall.mean() == pytest.approx(-options.trend, rel=0.3)
    steps = np.diff(price[ticker == "GOOG"])
    assert abs(steps.mean()) < 0.1
    assert steps.std() == pytest.approx(1, abs=0.1)


def test_walks_go_on_from_block_to_block() -> None:
    events = quotes.table(QuotesOptions(events=BLOCK_ROWS + 100, trend=0.0))
    ticker, price = np.array(events["ticker"].to_pylist()), events["price"].to_numpy()
    for name in ("F1", "H1", "GOOG"):
        assert np.abs(np.diff(price[ticker == name])).max() < 7


@pytest.mark.parametrize("kind", updates.KINDS)
def test_updates_have_the_rates_and_selectivities_of_the_paper(kind: str) -> None:
    options = UpdatesOptions(kind=kind, events=100_000)
    events, attribute = updates.table(options), "diff" if kind == "stock" else "speed"
    ts, types = events["ts"].cast(pa.int64()).to_numpy(), events["type"].combine_chunks().indices.to_numpy()
    assert (np.diff(ts) > 0).all()
    seconds = (ts[-1] - ts[0]) / 1e6
    counts = np.bincount(types, minlength=options.types)
    assert counts / seconds == pytest.approx(updates.rates(options), rel=0.1)
    assert sorted(updates.rates(options))[:: options.types - 1] == [2, 47]
    values = [events[attribute].to_numpy()[types == one][:300] for one in np.argsort(updates.levels(options))]
    assert (values[-1][:, None] < values[0]).mean() == pytest.approx(0.003, abs=0.003)
    assert (values[0][:, None] < values[1]).mean() == pytest.approx(0.5, abs=0.1)


def test_stocks_come_in_bursts_and_roads_do_not() -> None:
    spread = {}
    for kind in updates.KINDS:
        gaps = np.diff(updates.table(UpdatesOptions(kind=kind, events=50_000))["ts"].cast(pa.int64()).to_numpy())
        spread[kind] = gaps.std() / gaps.mean()
    assert spread["stock"] > 1 > 2 * spread["road"]


def test_a_stock_reports_how_much_its_price_has_changed() -> None:
    events = updates.table(UpdatesOptions(events=BLOCK_ROWS + 1_000, types=3))
    types = events["type"].combine_chunks().indices.to_numpy()
    for one in range(3):
        price, diff = (events[name].to_numpy()[types == one] for name in ("price", "diff"))
        assert np.diff(price) == pytest.approx(diff[1:], abs=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SaseOptions(T=0),
        lambda: SaseOptions(V=(0,)),
        lambda: SaseOptions(attribute_type="float"),
        lambda: SaseOptions(rate=0),
        lambda: SaseOptions(events=-1),
        lambda: StockOptions(p=1.5),
        lambda: StockOptions(symbols=0),
        lambda: StockOptions(rate=-1),
        lambda: StockOptions(seed=-1),
        lambda: QuotesOptions(tickers=0),
        lambda: QuotesOptions(turn=0),
        lambda: QuotesOptions(sway=1.5),
        lambda: QuotesOptions(rate=0),
        lambda: QuotesOptions(events=-1),
        lambda: UpdatesOptions(kind="rail"),
        lambda: UpdatesOptions(types=0),
        lambda: UpdatesOptions(slowest=0),
        lambda: UpdatesOptions(slowest=50),
        lambda: UpdatesOptions(events=-1),
        lambda: RetailOptions(shelves=1),
        lambda: RetailOptions(events=100),
        lambda: RetailOptions(misplaced=-1),
    ],
)
def test_options_are_checked(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        make()


# The retail day against the two queries, written down naively, item by item.


def _by_item(events: pa.Table) -> dict[Any, list[dict[str, Any]]]:
    items: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    columns = events.select(["id", "type", "shelf_id"]).append_column("us", events["ts"].cast(pa.int64()))
    for row in columns.to_pylist():
        items[row["id"]].append(row)
    return items


def _shoplifting(events: pa.Table) -> list[tuple[Any, int, int]]:
    shelf, counter, exit_ = EVENT_TYPES
    return sorted(
        (item, x["us"], z["us"])
        for item, rows in _by_item(events).items()
        for x in rows
        for z in rows
        if x["type"] == shelf and z["type"] == exit_ and 0 < z["us"] - x["us"] < SHOPLIFTING_WINDOW
        if not any(y["type"] == counter and x["us"] < y["us"] < z["us"] for y in rows)
    )


def _misplaced(events: pa.Table) -> list[tuple[Any, int, int]]:
    shelf, counter, _ = EVENT_TYPES
    return sorted(
        (item, x["us"], y["us"])
        for item, rows in _by_item(events).items()
        for x in rows
        for y in rows
        if x["type"] == y["type"] == shelf and x["shelf_id"] != y["shelf_id"] and 0 < y["us"] - x["us"] < MISPLACED_WINDOW
        if not any(
            (z["type"] == counter or (z["type"] == shelf and z["shelf_id"] == x["shelf_id"]))
            and y["us"] < z["us"] < x["us"] + MISPLACED_WINDOW
            for z in rows
        )
    )


def _rows(truth: pa.Table) -> list[tuple[Any, int, int]]:
    first, second = (truth.column(index).cast(pa.int64()).to_pylist() for index in (1, 2))
    return sorted(zip(truth["id"].to_pylist(), first, second, strict=True))


@pytest.mark.parametrize(
    "options", [RetailOptions(events=3_000), RetailOptions(events=20_000, seed=7, shelves=2, string_ids=False)]
)
def test_retail_truth_is_exact(options: RetailOptions) -> None:
    day = retail.day(options)
    assert _rows(day.shoplifting) == _shoplifting(day.events)
    assert _rows(day.misplaced) == _misplaced(day.events)
    assert day.shoplifting.num_rows == 24 // 6 * 9
    assert day.misplaced.num_rows == 18 // 6 * 8


@pytest.mark.parametrize(("name", "variables"), demo.QUERIES.items())
def test_retail_truth_agrees_with_the_oracle(name: str, variables: tuple[str, str]) -> None:
    """Each story at least once, under the queries as the demo runs them."""
    day = retail.day(RetailOptions(events=120, shoplifting=6, misplaced=6, near_misses=5))
    types = {kind: frozenset(attributes) for kind, attributes in retail.ATTRIBUTES.items()}
    bound = bind(parse(demo.query_text(name)), schema_of_arrow(day.events.schema, time="ts", type="type", types=types))
    rows = day.events.to_pylist()
    us = day.events["ts"].cast(pa.int64()).to_pylist()
    found = [dict(match.bindings) for match in oracle.matches(bound, rows)]
    first, last = variables
    assert sorted((rows[m[first]]["id"], us[m[first]], us[m[last]]) for m in found) == _rows(getattr(day, name))


def test_retail_checker_sees_a_missing_reading() -> None:
    day = retail.day(RetailOptions(events=3_000))
    exits = pc.equal(day.events["type"].cast(pa.string()), "EXIT-READING")
    assert _rows(day.shoplifting) != _shoplifting(day.events.filter(pc.invert(exits)))


def test_retail_without_incidents_has_no_matches() -> None:
    day = retail.day(RetailOptions(events=3_000, shoplifting=0, misplaced=0))
    assert day.shoplifting.num_rows == day.misplaced.num_rows == 0
    assert _shoplifting(day.events) == _misplaced(day.events) == []


def test_retail_columns() -> None:
    options = RetailOptions(events=2_000)
    events = retail.table(options)
    assert events.schema == retail.schema(options)
    at_shelf = pc.equal(events["type"].cast(pa.string()), "SHELF-READING")
    assert pc.is_valid(events["shelf_id"]).equals(at_shelf)
    assert events["seq"].to_pylist() == list(range(2_000))
    assert set(retail.ATTRIBUTES) == set(EVENT_TYPES)
    assert set(retail.ATTRIBUTES["SHELF-READING"]) == set(events.schema.names)
    assert retail.ATTRIBUTES["COUNTER-READING"] == tuple(
        name for name in retail.ATTRIBUTES["SHELF-READING"] if name != "shelf_id"
    )


def test_stories_are_in_time_order() -> None:
    for story in STORIES:
        earliest: list[int] = []
        latest: list[int] = []
        for reading in story.readings:
            earliest.append(reading.low + (earliest[reading.since] if earliest else 0))
            latest.append(reading.high + (latest[reading.since] if latest else 0))
            assert reading.since < len(earliest) or reading.since == 0
        assert earliest == sorted(set(earliest)), story.name
        assert latest == sorted(set(latest)), story.name
