"""Stock events: walks of prices."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from kleene.generators import stock
from kleene.generators.blocks import BLOCK_ROWS
from kleene.generators.stock import StockOptions


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
