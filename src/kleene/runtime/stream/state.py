"""What a bucket of a stream keeps between micro-batches, as bytes: a header, and the log of its events.

The log has an Arrow stream for each segment, which is written once and never changed. The header says which segments there are,
how far the stream has come, and what the matchers know that events do not tell. It begins with a magic word and the number of
its format; a format that this version does not know is refused, never guessed.

The header has a digest of its own, and names the digests of all other blobs: bytes that were changed, cut off or exchanged are
noticed before anything reads them. In format 1 there are no digests; what can be checked there is form, not values.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from kleene.common.errors import FRESH, Problem, StateError, damaged
from kleene.engine.matcher import State
from kleene.runtime.units import Unit

MAGIC = b"KLEENE"
FORMAT = 2
"""Grows with every change of what is written; formats that are still read are in `READ`."""
READ = (1, 2)

DIGEST = 16
"""Bytes of a digest: enough that no two blobs of all streams have the same by chance."""

KINDS = ("patterns", "counters", "matches")
"""Of the state of a unit."""

UNREADABLE = AttributeError, LookupError, NotImplementedError, OSError, RecursionError, TypeError, ValueError, pa.ArrowException
"""Exceptions raised when reading corrupt bytes that no digest protects."""

_BEGIN = struct.Struct(f"<{len(MAGIC)}sH")
_LENGTH = struct.Struct("<I")
_INT64 = range(-(1 << 63), 1 << 63)


class Store(Protocol):
    """Where one bucket keeps its bytes."""

    def is_empty(self) -> bool: ...
    def header(self) -> bytes | None: ...
    def put_header(self, blob: bytes) -> None: ...
    def segment(self, number: int) -> bytes | None: ...
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
    digest: str | None = None
    """Of the bytes; None if a version wrote them that knew of none."""


@dataclass(frozen=True, slots=True)
class UnitState:
    """How far the queries of a unit have come."""

    keys: frozenset[str]
    """Of the queries."""
    born: int | None
    """The watermark at which the queries started; None if at the beginning."""
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
    """...number of buckets."""
    nonce: str
    """A new value each time the header is written: shows whether a process has cached the latest state."""
    watermark: int | None = None
    segments: tuple[Segment, ...] = ()
    units: tuple[UnitState, ...] = ()
    timer: int | None = None
    rules: str | None = None
    """The current rules, if they can change."""
    suspended: tuple[Suspended, ...] = ()

    group: int | None = None
    """The number of the bucket, that it is not taken for another; None if a version wrote it that did not say."""

    def encode(self) -> bytes:
        blobs = [_encode_columns(unit.state) for unit in self.units]
        described = {
            "format": FORMAT,
            "group": self.group,
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
            "suspended": [asdict(item) for item in self.suspended],
        }
        text = json.dumps(described).encode()
        return sealed(b"".join((_LENGTH.pack(len(text)), text, *blobs)))

    @staticmethod
    def decode(blob: bytes) -> Header:
        """Reads what `encode` wrote, in this version or one whose format is still read."""
        number, content = opened(blob)
        try:
            return _decoded(content, number)
        except UNREADABLE as error:
            raise damaged(f"{error}") from error


def _decoded(blob: bytes, number: int) -> Header:
    begin = _LENGTH.size
    end = begin + _LENGTH.unpack_from(blob.ljust(begin, b"\0"))[0]
    described = json.loads(blob[begin:end])
    suspended = described.pop("suspended", []) if number == 1 else described.pop("suspended")
    if number > 1 and described.pop("format") != number:
        raise ValueError("a header of another format")
    group = None if number == 1 else described.pop("group")
    wanted = {"keys", "buckets", "nonce", "watermark", "segments", "units", "timer", "rules"}
    if described.keys() != wanted:
        raise ValueError(", ".join(sorted(repr(name) for name in described.keys() ^ wanted)))
    length = end + sum(_number(size) for *_, size in described["units"])
    if length != len(blob):
        raise ValueError(f"{len(blob)} bytes, not {length}")
    units: list[UnitState] = []
    for keys, kind, born, horizon, size in described["units"]:
        known = frozenset(_texts(keys))
        _require(kind in KINDS, f"a state of {kind!r}")
        _require(len(known) == len(keys) and not any(known & unit.keys for unit in units), "a query is there twice")
        units.append(UnitState(known, _time(born), _time(horizon), _decode_columns(blob[end : end + size], number), kind))
        end += size
    segments = tuple(_segment(number, segment) for segment in described["segments"])
    numbers = [segment.number for segment in segments]
    _require(numbers == sorted(set(numbers)), "segments are not in order")
    _require(_number(described["buckets"]) > 0, "no buckets")
    _require(described["rules"] is None or isinstance(described["rules"], str), "rules that are no text")
    _require(isinstance(described["nonce"], str), "a nonce that is no text")
    return Header(
        _texts(described["keys"]),
        described["buckets"],
        described["nonce"],
        _time(described["watermark"]),
        segments,
        tuple(units),
        _time(described["timer"]),
        described["rules"],
        tuple(_suspended(item) for item in suspended),
        _time(group),
    )


def _segment(format: int, described: Mapping[str, Any]) -> Segment:
    found = Segment(**described)
    _require((found.digest is None) if format == 1 else isinstance(found.digest, str), "a digest that is none")
    _require(_number(found.rows) > 0 and _number(found.number) >= 0 and _number(found.size) >= 0, "a segment without rows")
    _require(_time(found.last) is not None, "a segment without a time")
    return found


def _suspended(described: Mapping[str, Any]) -> Suspended:
    found = Suspended(**described)
    _texts([found.key, found.query, found.message])
    _require(_number(found.version) is not None and _time(found.watermark) in (None, found.watermark), "a suspended query")
    return found


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    _require(isinstance(values, list) and all(isinstance(item, str) for item in values), f"{values!r} where names belong")
    return tuple(values)


def _number(value: Any) -> int:
    """A number that is not negative."""
    _require(type(value) is int and value in _INT64 and value >= 0, f"{value!r} where a number belongs")
    return int(value)


def _time(value: Any) -> int | None:
    _require(value is None or (type(value) is int and value in _INT64), f"{value!r} where a time belongs")
    return None if value is None else int(value)


def digest_of(blob: bytes) -> str:
    """What a blob is known by: another one for other bytes."""
    return hashlib.sha256(blob).digest()[:DIGEST].hex()


def require_digest(blob: bytes | None, digest: str, name: str) -> bytes:
    """A blob, if it is the one that was written."""
    if blob is None:
        raise damaged(f"{name} is missing")
    if digest_of(blob) != digest:
        raise damaged(f"{name} is not as it was written")
    return blob


def sealed(content: bytes) -> bytes:
    """A blob that stands for itself: with the magic word, the format and its digest."""
    return b"".join((_BEGIN.pack(MAGIC, FORMAT), bytes.fromhex(digest_of(content)), content))


def opened(blob: bytes) -> tuple[int, bytes]:
    """The format and the content of a blob, if it is as it was written; in format 1 nothing tells."""
    if blob[: len(MAGIC)] != MAGIC or len(blob) < _BEGIN.size:
        raise StateError(Problem("the checkpoint's state was not written by Kleene", hint=FRESH))
    _, number = _BEGIN.unpack_from(blob)
    if number not in READ:
        message = f"the checkpoint's state has format {number}, this version of Kleene reads {', '.join(map(str, READ))}"
        raise StateError(Problem(message, hint=f"run the version that wrote it, or {FRESH}"))
    if number == 1:
        return number, blob[_BEGIN.size :]
    begin = _BEGIN.size + DIGEST
    return number, require_digest(blob[begin:], blob[_BEGIN.size : begin].hex(), "its header")


def seal_of(blob: bytes) -> bytes:
    """The beginning of a sealed blob, which tells it from all others."""
    return blob[: _BEGIN.size + DIGEST]


def encode_events(*batches: pa.RecordBatch) -> bytes:
    """Batches of one schema as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def decode_events(blob: bytes) -> pa.Table:
    """The events of an Arrow stream."""
    return pa.ipc.open_stream(pa.py_buffer(blob)).read_all()


def read_events(blob: bytes | None, segment: Segment) -> pa.Table:
    """The events of a segment, if they are as they were written."""
    name = f"segment {segment.number} of its events"
    if segment.digest is not None:
        return decode_events(require_digest(blob, segment.digest, name))
    if blob is None:
        raise damaged(f"{name} is missing")
    if len(blob) != segment.size:
        raise damaged(f"{len(blob)} bytes of events, not {segment.size}")
    try:
        table = decode_events(blob)
        table.validate(full=True)
    except UNREADABLE as error:
        raise damaged(f"{name}: {error}") from error
    if not all(item.nullable for item in table.schema):
        raise damaged(f"{name} has columns that are never NULL, which are not written")
    own = pa.table([_own(column.combine_chunks()) for column in table.columns], table.schema.names)
    if own.num_rows != segment.rows:
        raise damaged(f"{name} has {own.num_rows} rows, not {segment.rows}")
    return own


def _encode_columns(columns: Mapping[str, pa.Array]) -> bytes:
    """Columns of any lengths, each as the one list of a column."""
    if not columns:
        return b""
    lists = [pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column) for column in columns.values()]
    return encode_events(pa.RecordBatch.from_arrays(lists, list(columns)))


def _decode_columns(blob: bytes, number: int) -> dict[str, pa.Array]:
    if not blob:
        return {}
    table = decode_events(blob)
    table.validate(full=True)
    table = table.combine_chunks()
    _require(table.num_rows == 1 and len(set(table.schema.names)) == table.num_columns, "columns that are no lists")
    _require(all(pa.types.is_list(item.type) for item in table.schema), "columns that are no lists")
    _require(not any(column.null_count for column in table.columns), "columns that are NULL")
    columns = {name: table.column(name).chunk(0).flatten() for name in table.schema.names}
    return {name: _own(column) for name, column in columns.items()} if number == 1 else columns


def _own(column: pa.Array) -> pa.Array:
    """A column in buffers of our own, which are as long as they should be."""
    return pa.concat_arrays([column, column.slice(0, 0)])


def joined(known: Sequence[UnitState], unit: Unit, watermark: int) -> tuple[int | None, State]:
    """Where the queries of a unit resume, and their state; if they ran apart, their events suffice."""
    for state in known:
        _require_kind(unit, state, watermark)
    if all(state is known[0] for state in known) and known[0].kind == unit.plan.kind:
        return known[0].horizon, known[0].state
    horizons = [state.horizon for state in known if state.horizon is not None]
    return (min(horizons) if len(horizons) == len(known) else None), {}


def _require_kind(unit: Unit, known: UnitState, watermark: int) -> None:
    if not _goes_on_from(unit, known, watermark):
        name = unit.queries[0].name
        message = f"query '{name}': the checkpoint holds the state of {known.kind}, but the plan needs that of {unit.plan.kind}"
        raise StateError(
            Problem(message, hint=f"give plan={{'mechanism': '{known.kind}'}}, or begin with a new checkpoint folder")
        )


def _goes_on_from(unit: Unit, known: UnitState, watermark: int) -> bool:
    """Whether a unit can resume from the kept state of its queries at a watermark.

    Counters of a window are rebuilt from its events, so these suffice.
    """
    if known.kind == unit.plan.kind:
        return True
    whole = unit.plan.window is not None and (known.horizon is None or known.horizon < watermark - unit.plan.window)
    return whole and unit.plan.kind == "counters" and known.kind == "matches"
