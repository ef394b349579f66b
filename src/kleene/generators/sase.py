"""The event generator of SASE'06 section 5.1, Table 1: T types with Zipf(theta) frequencies and A uniform attributes.

The time of an event is its number in the stream (the paper's windows count events), or a timestamp at a constant rate.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kleene.generators.blocks import StreamOptions, block_ranges, random_of, rebatch, time_type, times

ATTRIBUTE_TYPES = {"int32": pa.int32(), "int64": pa.int64()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaseOptions(StreamOptions):
    """Parameters of the stream, with the paper's symbols and values."""

    T: int = 20
    """Number of event types, E1 to ET."""
    theta: float = 0.0
    """Zipf exponent of the type frequencies: 0 is uniform, larger makes E1 more frequent."""
    V: tuple[int, ...] = (10, 100, 1_000, 5_000, 10_000)
    """Number of values of each attribute: attr1 takes 1 to V[0]. Their number is the paper's A."""
    attribute_type: str = "int32"
    start: dt.datetime = dt.datetime(2006, 6, 27, tzinfo=dt.UTC)

    def __post_init__(self) -> None:
        StreamOptions.__post_init__(self)
        if not 1 <= self.T <= 32_767:
            raise ValueError(f"T must be between 1 and 32767, not {self.T}")
        if any(size < 1 for size in self.V):
            raise ValueError(f"every domain size in V must be positive: {self.V}")
        if self.attribute_type not in ATTRIBUTE_TYPES:
            raise ValueError(f"attribute_type must be one of {', '.join(ATTRIBUTE_TYPES)}, not {self.attribute_type!r}")


def schema(options: SaseOptions) -> pa.Schema:
    """The columns: ts, type, attr1 ... attrA."""
    codes = pa.int8() if options.T <= 128 else pa.int16()
    attribute = ATTRIBUTE_TYPES[options.attribute_type]
    attributes = [(f"attr{i}", attribute) for i in range(1, len(options.V) + 1)]
    return pa.schema([("ts", time_type(options.rate)), ("type", pa.dictionary(codes, pa.string())), *attributes])


def batches(options: SaseOptions) -> Iterator[pa.RecordBatch]:
    """The stream in batches of `options.batch_size` rows, in time order.

    >>> batch = next(batches(SaseOptions(events=1_000, T=3, V=(2,))))
    >>> batch.num_rows, batch.schema.names
    (1000, ['ts', 'type', 'attr1'])
    """
    return rebatch(_blocks(options), options.batch_size)


def table(options: SaseOptions) -> pa.Table:
    """The whole stream as one table."""
    return pa.Table.from_batches(batches(options), schema(options))


def type_probabilities(T: int, theta: float) -> npt.NDArray[np.float64]:
    """Zipf: the i-th type has probability proportional to 1 / i**theta.

    >>> type_probabilities(2, 1.0).round(3).tolist()
    [0.667, 0.333]
    """
    weights = 1.0 / np.arange(1, T + 1, dtype=np.float64) ** theta
    probabilities: npt.NDArray[np.float64] = weights / weights.sum()
    return probabilities


def _blocks(options: SaseOptions) -> Iterator[pa.RecordBatch]:
    columns = schema(options)
    names = pa.array([f"E{i}" for i in range(1, options.T + 1)])
    cumulative = np.cumsum(type_probabilities(options.T, options.theta))
    attribute = columns.field("attr1").type.to_pandas_dtype() if options.V else np.int32
    for number, first, end in block_ranges(options.events):
        random = random_of(options.seed, number)
        codes = np.searchsorted(cumulative, random.random(end - first) * cumulative[-1], side="right")
        codes = codes.astype(columns.field("type").type.index_type.to_pandas_dtype())
        arrays: list[pa.Array] = [times(first, end, options.rate, options.start), pa.DictionaryArray.from_arrays(codes, names)]
        arrays += [pa.array(random.integers(1, size + 1, end - first, dtype=attribute)) for size in options.V]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)
