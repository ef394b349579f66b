"""Updates: rates, bursts and selectivities of the paper."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kleene.generators import updates
from kleene.generators.blocks import BLOCK_ROWS
from kleene.generators.updates import UpdatesOptions


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
