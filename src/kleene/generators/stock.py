"""The stock ticker of SASE+'08 section 6: one type, STOCK, with symbol, price and volume.

Symbol and volume are uniform. Per symbol, the price rises by one with probability p, and falls or stays with (1 - p) / 2 each.
The paper gives the range 1 to 1000 and no rule at its ends; here the price wraps around, so that with p = 0.7 it keeps rising
(and passes the starting condition `price % 500 = 0`) instead of sticking to the top.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kleene.generators.blocks import StreamOptions, block_ranges, random_of, rebatch, time_type, times

_START_OF_PRICES = 1 << 32
"""Number of the random generator that draws the first prices; no stream has that many blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StockOptions(StreamOptions):
    """Parameters of the ticker, with the paper's values."""

    symbols: int = 2
    p: float = 0.7
    """Probability that the price increases; the paper uses 0.7 and 0.55."""
    prices: int = 1_000
    volumes: int = 1_000
    start: dt.datetime = dt.datetime(2008, 6, 9, 9, 30, tzinfo=dt.UTC)

    def __post_init__(self) -> None:
        StreamOptions.__post_init__(self)
        if min(self.symbols, self.prices, self.volumes) < 1:
            raise ValueError("symbols, prices and volumes must be positive")
        if not 0 <= self.p <= 1:
            raise ValueError(f"p must be between 0 and 1, not {self.p}")


def schema(options: StockOptions) -> pa.Schema:
    """The columns: ts, type, symbol, price, volume."""
    kind = pa.dictionary(pa.int8(), pa.string())
    return pa.schema(
        [("ts", time_type(options.rate)), ("type", kind), ("symbol", pa.int32()), ("price", pa.int32()), ("volume", pa.int32())]
    )


def batches(options: StockOptions) -> Iterator[pa.RecordBatch]:
    """The ticker in batches of `options.batch_size` rows, in time order.

    >>> next(batches(StockOptions(events=10))).schema.names
    ['ts', 'type', 'symbol', 'price', 'volume']
    """
    return rebatch(_blocks(options), options.batch_size)


def table(options: StockOptions) -> pa.Table:
    """The whole ticker as one table."""
    return pa.Table.from_batches(batches(options), schema(options))


def _blocks(options: StockOptions) -> Iterator[pa.RecordBatch]:
    columns = schema(options)
    last = random_of(options.seed, _START_OF_PRICES).integers(0, options.prices, options.symbols)
    names = pa.array(["STOCK"])
    for number, first, end in block_ranges(options.events):
        random = random_of(options.seed, number)
        rows = end - first
        symbol = random.integers(0, options.symbols, rows, dtype=np.int32)
        price = _walk(symbol, _steps(random, rows, options.p), last, options.prices)
        volume = random.integers(1, options.volumes + 1, rows, dtype=np.int32)
        kind = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int8), names)
        arrays = [
            times(first, end, options.rate, options.start),
            kind,
            pa.array(symbol + 1),
            pa.array(price + 1),
            pa.array(volume),
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def _steps(random: np.random.Generator, rows: int, p: float) -> npt.NDArray[np.int64]:
    draw = random.random(rows)
    return (draw < p).astype(np.int64) - (draw >= p + (1 - p) / 2)


def _walk(
    symbol: npt.NDArray[np.int32], steps: npt.NDArray[np.int64], last: npt.NDArray[np.int64], prices: int
) -> npt.NDArray[np.int32]:
    """Prices (from 0) of a block, one walk per symbol; `last` is carried from block to block."""
    order = np.argsort(symbol, kind="stable")
    grouped = symbol[order]
    totals = np.cumsum(steps[order])
    starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
    lengths = np.diff(np.r_[starts, len(grouped)])
    before = totals[starts] - steps[order][starts]
    values = (last[grouped] + totals - np.repeat(before, lengths)) % prices
    last[grouped[starts]] = values[starts + lengths - 1]
    price = np.empty(len(symbol), dtype=np.int32)
    price[order] = values
    return price
