"""Quotes: sectors, and walks that are correlated."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from kleene.generators import quotes
from kleene.generators.blocks import BLOCK_ROWS
from kleene.generators.quotes import QuotesOptions


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
