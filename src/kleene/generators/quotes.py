"""The stock quotes of the lazy evaluation paper, section 7: one type, Stock, with ticker, sector, price and volume.

Tickers F1, F2, ... are in the sector Finance and H1, H2, ... in Hi-Tech; GOOG has its own sector. The three groups are equally
frequent, but Finance and Hi-Tech alternate in being slightly more frequent. Every price is a random walk. Finance and Hi-Tech
also follow the market, which alternately rises and falls; GOOG does not. Volumes are uniform.

The paper has recorded quotes, with the last h prices of its ticker in each of them: `kleene.history` adds those.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kleene.generators.blocks import StreamOptions, block_ranges, random_of, rebatch, time_type, times, walk

SECTORS = ("Finance", "Hi-Tech", "Internet")
START_PRICE = 1_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotesOptions(StreamOptions):
    """Parameters of the quotes."""

    tickers: int = 3
    """Number of tickers in Finance, and in Hi-Tech."""
    trend: float = 4.0
    """Market movement between two quotes of a ticker; the standard deviation of a walk's step is 1."""
    turn: int = 5_000
    """Events after which the market turns."""
    sway: float = 0.2
    """Relative amplitude of the frequency of Finance, and inversely of Hi-Tech, around its mean."""
    sway_events: int = 10_000
    """The period of these frequencies, in events."""
    volumes: int = 1_000
    start: dt.datetime = dt.datetime(2015, 6, 29, 9, 30, tzinfo=dt.UTC)

    def __post_init__(self) -> None:
        StreamOptions.__post_init__(self)
        if not 1 <= self.tickers <= 10_000:
            raise ValueError(f"tickers must be between 1 and 10000, not {self.tickers}")
        if min(self.turn, self.sway_events, self.volumes) < 1:
            raise ValueError("turn, sway_events and volumes must be positive")
        if not 0 <= self.sway <= 1:
            raise ValueError(f"sway must be between 0 and 1, not {self.sway}")

    @property
    def names(self) -> tuple[str, ...]:
        """The tickers: Finance, Hi-Tech, then GOOG.

        >>> QuotesOptions(tickers=2).names
        ('F1', 'F2', 'H1', 'H2', 'GOOG')
        """
        return (*(f"{letter}{number}" for letter in "FH" for number in range(1, self.tickers + 1)), "GOOG")


def schema(options: QuotesOptions) -> pa.Schema:
    """The columns: ts, type, ticker, sector, price, volume."""
    name, kind = pa.dictionary(pa.int16(), pa.string()), pa.dictionary(pa.int8(), pa.string())
    return pa.schema(
        [
            ("ts", time_type(options.rate)),
            ("type", kind),
            ("ticker", name),
            ("sector", kind),
            ("price", pa.float64()),
            ("volume", pa.int32()),
        ]
    )


def batches(options: QuotesOptions) -> Iterator[pa.RecordBatch]:
    """The quotes in batches of `options.batch_size` rows, in time order.

    >>> next(batches(QuotesOptions(events=10))).schema.names
    ['ts', 'type', 'ticker', 'sector', 'price', 'volume']
    """
    return rebatch(_blocks(options), options.batch_size)


def table(options: QuotesOptions) -> pa.Table:
    """All quotes as one table."""
    return pa.Table.from_batches(batches(options), schema(options))


def _blocks(options: QuotesOptions) -> Iterator[pa.RecordBatch]:
    columns = schema(options)
    walks = np.full(2 * options.tickers + 1, START_PRICE)
    dictionaries = [pa.array(names) for names in (["Stock"], options.names, SECTORS)]
    for number, first, end in block_ranges(options.events):
        random = random_of(options.seed, number)
        at = np.arange(first, end)
        sector = _sectors(random, at, options)
        ticker = np.where(
            sector == 2, 2 * options.tickers, sector * options.tickers + random.integers(0, options.tickers, at.size)
        )
        price = walk(ticker, random.normal(size=at.size), walks)
        price += np.where(sector == 2, 0.0, _market(at, options))
        codes = (np.zeros(at.size, np.int8), ticker.astype(np.int16), sector.astype(np.int8))
        named = [pa.DictionaryArray.from_arrays(one, names) for one, names in zip(codes, dictionaries, strict=True)]
        volume = random.integers(1, options.volumes + 1, at.size, dtype=np.int32)
        arrays = [times(first, end, options.rate, options.start), *named, pa.array(price.round(2)), pa.array(volume)]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)


def _sectors(random: np.random.Generator, at: npt.NDArray[np.int64], options: QuotesOptions) -> npt.NDArray[np.int64]:
    """The sector of each event, as an index into SECTORS."""
    finance = (1 + options.sway * np.sin(2 * np.pi * at / options.sway_events)) / 3
    draw = random.random(at.size)
    sector: npt.NDArray[np.int64] = (draw >= finance).astype(np.int64) + (draw >= 2 / 3)
    return sector


def _market(at: npt.NDArray[np.int64], options: QuotesOptions) -> npt.NDArray[np.float64]:
    """The market at each event: up for `turn` events, then down again."""
    phase = at % (2 * options.turn)
    height = np.minimum(phase, 2 * options.turn - phase)
    return height * (options.trend / (3 * options.tickers))
