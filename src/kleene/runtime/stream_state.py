"""What a bucket of a stream keeps between micro-batches, as bytes: a header, and the log of its events.

The log has an Arrow stream for each segment, which is written once and never changed. The header says which segments there are,
how far the stream has come, and what the matchers know that events do not tell. It begins with a magic word and the number of
its format; a format that this version does not know is refused, never guessed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

import pyarrow as pa

from kleene.common.errors import Problem, StateError

MAGIC = b"KLEENE"
FORMAT = 1
"""Grows with every change of what is written; formats that are still read are in `READ`."""
READ = (1,)


class Store(Protocol):
    """Where one bucket keeps its bytes."""

    def header(self) -> bytes | None: ...
    def put_header(self, blob: bytes) -> None: ...
    def segment(self, number: int) -> bytes: ...
    def put_segment(self, number: int, blob: bytes) -> None: ...
    def drop_segment(self, number: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Segment:
    """Events of the log that were written together."""

    number: int
    """Segments with smaller numbers came earlier."""
    last: int
    """The time of the latest event."""
    rows: int
    size: int
    """In bytes."""


@dataclass(frozen=True, slots=True)
class UnitState:
    """How far the queries of a unit have come."""

    keys: frozenset[str]
    """Of the queries."""
    born: int | None
    """The watermark at which they came in force; None if they were there from the beginning."""
    horizon: int | None
    """Events at or before this time do not matter to them."""
    state: Mapping[str, pa.Array] = field(default_factory=dict)
    kind: str = "patterns"
    """What the state consists of."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A query that failed, and is not matched any more in this bucket."""

    key: str
    query: str
    version: int
    watermark: int | None
    """That had been reached before the micro-batch in which it failed."""
    message: str


@dataclass(frozen=True, slots=True)
class Header:
    """Everything but the events."""

    keys: tuple[str, ...]
    """By which the events are spread..."""
    buckets: int
    """...over so many buckets."""
    nonce: str
    """Another one each time the header is written: tells whether what a process remembers is what was written last."""
    watermark: int | None = None
    segments: tuple[Segment, ...] = ()
    units: tuple[UnitState, ...] = ()
    timer: int | None = None
    rules: str | None = None
    """The rules in force, where they can change."""
    suspended: tuple[Suspended, ...] = ()

    def encode(self) -> bytes:
        blobs = [_encode_columns(unit.state) for unit in self.units]
        described = {
            "keys": self.keys,
            "buckets": self.buckets,
            "nonce": self.nonce,
            "watermark": self.watermark,
            "segments": [asdict(segment) for segment in self.segments],
            "units": [
                [sorted(unit.keys), unit.kind, unit.born, unit.horizon, len(blob)]
                for unit, blob in zip(self.units, blobs, strict=True)
            ],
            "timer": self.timer,
            "rules": self.rules,
        }
        if self.suspended:
            described["suspended"] = [asdict(item) for item in self.suspended]
        text = json.dumps(described).encode()
        return b"".join((MAGIC, struct.pack("<HI", FORMAT, len(text)), text, *blobs))

    @staticmethod
    def decode(blob: bytes) -> Header:
        """Reads what `encode` wrote, in this version or one whose format is still read."""
        begin = len(MAGIC) + struct.calcsize("<HI")
        if blob[: len(MAGIC)] != MAGIC or len(blob) < begin:
            raise StateError(Problem("the checkpoint's state was not written by Kleene", hint=_FRESH))
        number, length = struct.unpack("<HI", blob[len(MAGIC) : begin])
        if number not in READ:
            message = f"the checkpoint's state has format {number}, this version of Kleene reads {', '.join(map(str, READ))}"
            raise StateError(Problem(message, hint=f"run the version that wrote it, or {_FRESH}"))
        try:
            return _decoded(blob, begin, begin + length)
        except (KeyError, OSError, TypeError, ValueError) as error:
            raise damaged(str(error)) from error


def _decoded(blob: bytes, begin: int, end: int) -> Header:
    described = json.loads(blob[begin:end])
    length = end + sum(size for *_, size in described["units"])
    if length != len(blob):
        raise ValueError(f"{len(blob)} bytes, not {length}")
    units = []
    for keys, kind, born, horizon, size in described["units"]:
        units.append(UnitState(frozenset(keys), born, horizon, _decode_columns(blob[end : end + size]), kind))
        end += size
    segments = tuple(Segment(**segment) for segment in described["segments"])
    return Header(
        tuple(described["keys"]),
        described["buckets"],
        described["nonce"],
        described["watermark"],
        segments,
        tuple(units),
        described["timer"],
        described["rules"],
        tuple(Suspended(**item) for item in described.get("suspended", ())),
    )


def damaged(reason: str) -> StateError:
    """The error of a state that is not as it was written."""
    return StateError(Problem(f"the checkpoint's state is damaged: {reason}", hint=f"bring back a copy of it, or {_FRESH}"))


_FRESH = "begin with a new checkpoint folder"


def encode_events(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def decode_events(blob: bytes) -> pa.Table:
    """The events of an Arrow stream."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()


def _encode_columns(columns: Mapping[str, pa.Array]) -> bytes:
    """Columns of any lengths, each as the one list of a column."""
    if not columns:
        return b""
    lists = [pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column) for column in columns.values()]
    return encode_events(pa.RecordBatch.from_arrays(lists, list(columns)))


def _decode_columns(blob: bytes) -> dict[str, pa.Array]:
    if not blob:
        return {}
    table = decode_events(blob).combine_chunks()
    return {name: table.column(name).chunk(0).flatten() for name in table.schema.names}
