"""The streams of the multi-pattern paper, section 6.1: updates of many sources, each of which is a separate type.

A *stock* reports its price and the difference from the previous one (`diff`); updates come in bursts. A *road* sensor reports
the number of vehicles and their average speed, which falls as their number grows; observations are evenly spaced.

The paper has recorded data with 2 to 47 events of a type per second, and conditions that 0.3 to 92 percent of pairs satisfy.
Here rates are spread evenly over that range on a logarithmic scale. Every source has its own level, and reports normally
distributed values around it, so the distance of two levels determines how often a comparison between the sources holds.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kleene.generators.blocks import DEFAULT_BATCH_ROWS, block_ranges, microseconds, random_of, rebatch, time_type, walk

KINDS = ("stock", "road")
LEVELS = 3.9
"""The highest level minus the lowest, in standard deviations of the values."""
BURST = 5.0
"""Speed-up of stock updates within a burst."""
BURST_SHARE = 0.3
"""The share of events that come in bursts."""
BURST_EVENTS = 500
CORRELATION = -0.6
"""Correlation of the number of vehicles with their speed."""
_OF_TYPES = 1 << 32
"""Number of the random generator that draws rates and levels; no stream has that many blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesOptions:
    """Parameters of the updates."""

    kind: str = "stock"
    events: int = 100_000
    seed: int = 0
    types: int = 20
    slowest: float = 2.0
    """Events per second of the rarest type."""
    fastest: float = 47.0
    start: dt.datetime = dt.datetime(2019, 6, 30, 9, 30, tzinfo=dt.UTC)
    batch_size: int = DEFAULT_BATCH_ROWS

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if self.events < 0 or self.seed < 0:
            raise ValueError("events and seed must not be negative")
        if not 1 <= self.types <= 10_000:
            raise ValueError(f"types must be between 1 and 10000, not {self.types}")
        if not 0 < self.slowest <= self.fastest:
            raise ValueError("slowest must be positive and not above fastest")

    @property
    def names(self) -> tuple[str, ...]:
        """The types.

        >>> UpdatesOptions(types=3).names
        ('S1', 'S2', 'S3')
        """
        letter = self.kind[0].upper()
        return tuple(f"{letter}{number}" for number in range(1, self.types + 1))


def rates(options: UpdatesOptions) -> npt.NDArray[np.float64]:
    """Events per second of each type.

    >>> sorted(rates(UpdatesOptions(types=3, slowest=1, fastest=100)).round(6).tolist())
    [1.0, 10.0, 100.0]
    """
    found = np.geomspace(options.slowest, options.fastest, options.types)
    random_of(options.seed, _OF_TYPES).shuffle(found)
    return found


def levels(options: UpdatesOptions) -> npt.NDArray[np.float64]:
    """The level of each type, in standard deviations."""
    found = np.linspace(-LEVELS / 2, LEVELS / 2, options.types)
    random_of(options.seed, _OF_TYPES + 1).shuffle(found)
    return found


def schema(options: UpdatesOptions) -> pa.Schema:
    """The columns: ts, type, and price, diff or vehicles, speed."""
    values = ("price", "diff") if options.kind == "stock" else ("vehicles", "speed")
    head = [("ts", time_type(1.0)), ("type", pa.dictionary(pa.int16(), pa.string()))]
    return pa.schema([*head, *((name, pa.float64()) for name in values)])


def batches(options: UpdatesOptions) -> Iterator[pa.RecordBatch]:
    """The updates in batches of `options.batch_size` rows, in time order; no two have the same time.

    >>> next(batches(UpdatesOptions(kind="road", events=10))).schema.names
    ['ts', 'type', 'vehicles', 'speed']
    """
    return rebatch(_blocks(options), options.batch_size)


def table(options: UpdatesOptions) -> pa.Table:
    """All updates as one table."""
    return pa.Table.from_batches(batches(options), schema(options))


def _blocks(options: UpdatesOptions) -> Iterator[pa.RecordBatch]:
    columns, names = schema(options), pa.array(options.names)
    frequency, level = rates(options), levels(options)
    at, prices = microseconds(options.start), np.full(options.types, 1_000.0)
    for number, first, end in block_ranges(options.events):
        random = random_of(options.seed, number)
        kinds = random.choice(options.types, end - first, p=frequency / frequency.sum())
        ts = at + np.cumsum(_gaps(random, np.arange(first, end), frequency.sum(), options.kind))
        at = int(ts[-1])
        typed = pa.DictionaryArray.from_arrays(kinds.astype(np.int16), names)
        values = _stock(random, kinds, level, prices) if options.kind == "stock" else _road(random, kinds, level)
        yield pa.RecordBatch.from_arrays([pa.array(ts).cast(columns.field("ts").type), typed, *values], schema=columns)


def _gaps(random: np.random.Generator, at: npt.NDArray[np.int64], rate: float, kind: str) -> npt.NDArray[np.int64]:
    """Microseconds between events, for `rate` events per second on average."""
    mean = np.full(at.size, 1e6 / rate)
    if kind == "stock":
        calm = 1 / (1 - BURST_SHARE + BURST_SHARE / BURST)
        mean *= np.where(at % BURST_EVENTS < BURST_SHARE * BURST_EVENTS, calm / BURST, calm)
    gaps = random.exponential(mean) if kind == "stock" else mean * random.uniform(0.5, 1.5, at.size)
    found: npt.NDArray[np.int64] = np.maximum(gaps, 1).astype(np.int64)
    return found


def _stock(
    random: np.random.Generator,
    kinds: npt.NDArray[np.int64],
    level: npt.NDArray[np.float64],
    prices: npt.NDArray[np.float64],
) -> list[pa.Array]:
    """Prices and differences; `prices` is carried from block to block."""
    diff = (level[kinds] + random.normal(size=kinds.size)).round(4)
    price = walk(kinds, diff, prices)
    return [pa.array(price.round(4)), pa.array(diff)]


def _road(random: np.random.Generator, kinds: npt.NDArray[np.int64], level: npt.NDArray[np.float64]) -> list[pa.Array]:
    """Vehicles and speed; a road with a high level is both busy and fast."""
    many, own = random.normal(size=(2, kinds.size))
    slow = CORRELATION * many + np.sqrt(1 - CORRELATION**2) * own
    vehicles = 100 + 10 * (level[kinds] + many)
    speed = 80 + 5 * (level[kinds] + slow)
    return [pa.array(vehicles.round(3)), pa.array(speed.round(3))]
