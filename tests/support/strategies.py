"""Random (query, stream) pairs: a cheap seeded core, and Hypothesis strategies around it.

`examples(seed, count)` yields pairs of the SASE fragment, `saseplus_examples` pairs of SASE+, `any_match_examples` pairs under
skip_till_any_match, `full_examples` pairs of the whole language; example number i of a seed is always the same. A stream has
the columns of `arrow_schema`: `ts` (integer, or timestamp in UTC), `type` in A..E, small-integer keys `k` and `k2`, `x`
(integer, NULLs sometimes), `y` (float, multiples of 1/4), `s` (short string, NULLs sometimes), `seq` (for `order_by`).
Events of the SASE fragment tie sometimes, those of SASE+ and under skip_till_any_match only where no total order is needed,
those of the full language never. Streams are in time order.

Cost: well under 0.3 ms an example.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from kleene.common.schema import EventSchema, schema_of_arrow
from kleene.pattern.bound import BoundQuery
from kleene.pattern.normalize import normalize
from kleene.pattern.operators import events as components
from kleene.pattern.policies import LogicalQuery, Output, Strategy, Unit
from kleene.pattern.predicates import conjunction, conjuncts
from support.random_full import full_query
from support.random_queries import Types, any_match_query, chance, sase_query, saseplus_query

if TYPE_CHECKING:
    import pyarrow as pa
    from hypothesis import strategies as st

Row = dict[str, Any]

START = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
STRINGS = ("a", "b", "ab", "c", "")


@dataclass(frozen=True, slots=True)
class Example:
    """A query, the keyword arguments that describe its events, and the events."""

    query: LogicalQuery
    schema_kwargs: Mapping[str, Any]
    """time, type, order_by and types, as `kleene.common.schema.schema_of_arrow` takes them."""
    events: list[Row] = field(hash=False)
    integer_time: bool = True

    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.integer_time)

    def table(self) -> pa.Table:
        """The events as an Arrow table with an explicit schema."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.events, schema=self.arrow_schema())

    def event_schema(self) -> EventSchema:
        return schema_of_arrow(self.arrow_schema(), **self.schema_kwargs)

    def bound(self) -> BoundQuery:
        from kleene.pattern.bind import bind

        return bind(self.query, self.event_schema())


def arrow_schema(integer_time: bool) -> pa.Schema:
    """The columns of a generated stream."""
    import pyarrow as pa

    time = pa.int64() if integer_time else pa.timestamp("us", tz="UTC")
    columns = [("ts", time), ("type", pa.string()), ("k", pa.int64()), ("k2", pa.int64()), ("x", pa.int64())]
    return pa.schema([*columns, ("y", pa.float64()), ("s", pa.string()), ("seq", pa.int64())])


# --- streams ----------------------------------------------------------------------------------------------------------


def _stream(rng: Random, query: LogicalQuery, size: int, integer_time: bool, tie: float, nulls: float) -> list[Row]:
    """Events in time order, most of them of types that the query names; `tie` is the chance that time stands still."""
    named = [event_type for event in components(query.pattern) if not event.negated for event_type in event.types]
    pool = [*named, *named, *named, *"ABCDE"]
    keys = rng.choice((1, 2, 2, 3))
    spread = rng.choice((1, 1, 2, 3))
    rows: list[Row] = []
    at = rng.randrange(5)
    random, count = rng.random, len(pool)
    for position in range(size):
        if position and random() >= tie:
            at += 1 + int(random() * spread)
        row: Row = {
            "ts": at if integer_time else START + dt.timedelta(seconds=at),
            "type": pool[int(random() * count)],
            "k": 1 + int(random() * keys),
            "k2": 1 + int(random() * 2),
            "x": None if random() < nulls else int(random() * 10),
            "y": int(random() * 40) / 4,
            "s": None if random() < nulls else STRINGS[int(random() * 5)],
            "seq": int(random() * 3) if tie else position,
        }
        rows.append(row)
    return rows


def _planted(rng: Random, query: LogicalQuery, rows: list[Row]) -> None:
    """Makes most events follow the pattern: component after component, several events of a Kleene one, with the same keys."""
    positives = [event for event in components(query.pattern) if not event.negated]
    contiguous = query.strategy in (Strategy.STRICT_CONTIGUITY, Strategy.PARTITION_CONTIGUITY)
    noise, index = (0.1 if contiguous else 0.3), 0
    keys = {name: rng.choice(rows)[name] for name in ("k", "k2")}
    for row in rows:
        if chance(rng, noise):
            continue
        event = positives[index]
        row.update(keys, type=rng.choice(event.types))
        if not event.is_kleene or chance(rng, 0.4):
            index = (index + 1) % len(positives)
            if index == 0 and chance(rng, 0.3):
                keys = {name: rng.choice(rows)[name] for name in keys}


def _affordable(query: LogicalQuery, rows: list[Row]) -> list[Row]:
    """As many events as Kleene components under skip_till_any_match can bear, whose matches double with each event."""
    repeated = [event.types for event in components(query.pattern) if event.is_kleene]
    if query.strategy is not Strategy.SKIP_TILL_ANY_MATCH or not repeated:
        return rows
    left = 8 if len(repeated) == 1 else 6
    for position, row in enumerate(rows[:12]):
        left -= any(row["type"] in types for types in repeated)
        if left < 0:
            return rows[:position]
    return rows[:12]


def _saseplus_stream(rng: Random, query: LogicalQuery, integer_time: bool) -> list[Row]:
    """A stream for a query of SASE+, which ties only where no total order is needed; short under skip_till_any_match."""
    counted = query.within is not None and query.within.unit is Unit.EVENTS
    simultaneous = query.strategy is Strategy.SKIP_TILL_ANY_MATCH and query.output is Output.ALL and not counted
    tie = rng.choice((0.0, 0.1, 0.3)) if simultaneous else 0.0
    rows = _stream(rng, query, rng.randrange(6, 21), integer_time, tie, rng.choice((0.0, 0.0, 0.15)))
    if chance(rng, 0.7):
        _planted(rng, query, rows)
    return _affordable(query, rows)


MOST_ASSIGNMENTS = 600


def assignments(query: LogicalQuery, rows: Sequence[Row]) -> int:
    """How many assignments of events there are at most, order and conditions aside."""
    total = 0
    for branch in normalize(query.pattern):
        product = 1
        for event in branch.positives:
            own = sum(row["type"] in event.types for row in rows)
            product *= (1 << own) if event.is_kleene else own
        total += product
    return total


def _any_match_stream(rng: Random, query: LogicalQuery, integer_time: bool) -> list[Row]:
    """A stream for a query under skip_till_any_match, as long as the enumeration of all assignments can bear."""
    counted = query.within is not None and query.within.unit is Unit.EVENTS
    tie = rng.choice((0.0, 0.1, 0.3)) if query.output is Output.ALL and not counted else 0.0
    rows = _stream(rng, query, rng.randrange(6, 15), integer_time, tie, rng.choice((0.0, 0.0, 0.15)))
    if chance(rng, 0.3):
        _planted(rng, query, rows)
    forbidden = [event for event in components(query.pattern) if event.negated]
    for row in rows if forbidden else ():
        if chance(rng, 0.1):
            row["type"] = rng.choice(rng.choice(forbidden).types)
    while assignments(query, rows) > MOST_ASSIGNMENTS:
        rows.pop()
    return rows


def _declared(rng: Random, keyless: float = 0.05) -> Types:
    """Attributes per type: each type may lack some; keys are lacked rarely."""
    declared: dict[str, frozenset[str]] = {}
    for event_type in "ABCDE":
        declared[event_type] = frozenset(
            name for name in ("k", "k2", "x", "y", "s", "seq") if not chance(rng, keyless if name in ("k", "k2") else 0.2)
        )
    return declared


def _schema_kwargs(rng: Random, types: Types) -> dict[str, Any]:
    kwargs: dict[str, Any] = {"time": "ts", "type": "type", "types": types}
    if chance(rng, 0.25):
        kwargs["order_by"] = ("seq",)
    return kwargs


def example(seed: int, number: int = 0) -> Example:
    """Example `number` of a seed, of the SASE fragment."""
    rng = Random(seed * 1_000_003 + number)
    integer_time = chance(rng, 0.7)
    types = _declared(rng) if chance(rng, 0.15) else None
    query = sase_query(rng, types, integer_time)
    tie = rng.choice((0.0, 0.0, 0.1, 0.3))
    rows = _stream(rng, query, rng.randrange(8, 25), integer_time, tie, rng.choice((0.0, 0.0, 0.15)))
    return Example(query, _schema_kwargs(rng, types), rows, integer_time)


def saseplus_example(seed: int, number: int = 0) -> Example:
    """Example `number` of a seed, of SASE+."""
    rng = Random(seed * 1_000_003 + number)
    integer_time = chance(rng, 0.7)
    types = _declared(rng, keyless=0.15) if chance(rng, 0.15) else None
    query = saseplus_query(rng, types, integer_time)
    return Example(query, _schema_kwargs(rng, types), _saseplus_stream(rng, query, integer_time), integer_time)


def saseplus_streams(seed: int, count: int) -> Iterator[Example]:
    """The first SASE+ example of a seed with `count` streams, for a query that is dear to compile."""
    first = saseplus_example(seed)
    rng = Random(seed)
    return (replace(first, events=_saseplus_stream(rng, first.query, first.integer_time)) for _ in range(count))


def any_match_example(seed: int, number: int = 0) -> Example:
    """Example `number` of a seed, under skip_till_any_match."""
    rng = Random(seed * 1_000_003 + number)
    integer_time = chance(rng, 0.7)
    types = _declared(rng, keyless=0.3) if chance(rng, 0.2) else None
    query = any_match_query(rng, types, integer_time)
    return Example(query, _schema_kwargs(rng, types), _any_match_stream(rng, query, integer_time), integer_time)


def any_match_streams(seed: int, count: int) -> Iterator[Example]:
    """The first example of a seed under skip_till_any_match with `count` streams, for a query that is dear to compile."""
    first = any_match_example(seed)
    rng = Random(seed)
    return (replace(first, events=_any_match_stream(rng, first.query, first.integer_time)) for _ in range(count))


def full_example(seed: int, number: int = 0) -> Example:
    """Example `number` of a seed, of the full language; shorter, because Kleene plus has exponentially many matches."""
    rng = Random(seed * 1_000_003 + number)
    integer_time = chance(rng, 0.7)
    types = _declared(rng) if chance(rng, 0.1) else None
    query = full_query(rng, types, integer_time)
    kleene = any(event.is_kleene for event in components(query.pattern))
    rows = _stream(rng, query, rng.randrange(5, 11 if kleene else 15), integer_time, 0.0, rng.choice((0.0, 0.0, 0.15)))
    return Example(query, _schema_kwargs(rng, types), rows, integer_time)


def examples(seed: int, count: int) -> Iterator[Example]:
    """Pairs of the SASE fragment; at least two in five have a match."""
    return (example(seed, number) for number in range(count))


def saseplus_examples(seed: int, count: int) -> Iterator[Example]:
    """Pairs of SASE+: Kleene, optional and negative components, OR, every strategy and window; two in five have a match."""
    return (saseplus_example(seed, number) for number in range(count))


def any_match_examples(seed: int, count: int) -> Iterator[Example]:
    """Pairs under skip_till_any_match: SEQ, AND and OR nested, Kleene, optional and negative components, every window."""
    return (any_match_example(seed, number) for number in range(count))


def full_examples(seed: int, count: int) -> Iterator[Example]:
    """Pairs of the full language: Kleene, strategies, AND, OR, optional parts, count windows, NON-OVERLAP, aggregates."""
    return (full_example(seed, number) for number in range(count))


# --- Hypothesis -------------------------------------------------------------------------------------------------------


def _thinned(found: Example, keep_events: list[int], keep_conjuncts: list[int]) -> Example:
    """The example without the events and conjuncts whose number is 0 (so shrinking drops them)."""
    kept = [row for row, keep in zip(found.events, keep_events, strict=True) if keep]
    conditions = [item for item, keep in zip(conjuncts(found.query.where), keep_conjuncts, strict=True) if keep]
    return replace(found, query=replace(found.query, where=conjunction(conditions)), events=kept)


def _shrinkable(make: Callable[[int], Example]) -> st.SearchStrategy[Example]:
    from hypothesis import strategies as st

    @st.composite
    def build(draw: st.DrawFn) -> Example:
        found = make(draw(st.integers(0, 2**32 - 1)))

        def numbers(size: int) -> list[int]:
            return draw(st.lists(st.integers(0, 7), min_size=size, max_size=size))

        return _thinned(found, numbers(len(found.events)), numbers(len(conjuncts(found.query.where))))

    return build()


def sase_examples() -> st.SearchStrategy[Example]:
    """SASE-fragment examples for Hypothesis: a seed, then events and conjuncts that shrinking removes one by one."""
    return _shrinkable(example)


def saseplus_shrinking_examples() -> st.SearchStrategy[Example]:
    """SASE+ examples for Hypothesis."""
    return _shrinkable(saseplus_example)


def any_match_shrinking_examples() -> st.SearchStrategy[Example]:
    """Examples under skip_till_any_match for Hypothesis."""
    return _shrinkable(any_match_example)


def full_language_examples() -> st.SearchStrategy[Example]:
    """Full-language examples for Hypothesis."""
    return _shrinkable(full_example)
