"""What all generators have in common: rows are decided by the seed, not by the batch size, and options are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kleene.generators import quotes, retail, sase, stock, updates
from kleene.generators.blocks import BLOCK_ROWS
from kleene.generators.quotes import QuotesOptions
from kleene.generators.retail import RetailOptions
from kleene.generators.sase import SaseOptions
from kleene.generators.stock import StockOptions
from kleene.generators.updates import UpdatesOptions

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


def test_number_and_order_of_events(generator: tuple[Callable[[Any], pa.Table], Any]) -> None:
    table, options = generator
    ts = table(options)["ts"].cast(pa.int64()).to_numpy()
    assert len(ts) == options.events
    assert (np.diff(ts) >= 0).all()


def test_no_events() -> None:
    assert sase.table(SaseOptions(events=0)).num_rows == 0
    assert stock.table(StockOptions(events=0)).schema == stock.schema(StockOptions())
    assert quotes.table(QuotesOptions(events=0)).schema == quotes.schema(QuotesOptions())


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
