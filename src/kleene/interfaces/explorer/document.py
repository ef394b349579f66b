"""The data of the page: events, matches, keys, plans, and notices of everything that is left out.

Matches are ordered by start, and cut at a limit; all events of these matches are embedded, then others of the same keys, then
the rest, up to a limit. Nothing is left out without a notice.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kleene.common.arrays import Array
from kleene.common.columns import decoded, time_values, whole
from kleene.common.schema import EventSchema
from kleene.explain.drawing import svg
from kleene.explain.plans import explain
from kleene.interfaces.explorer.encoding import Payload, encode
from kleene.interfaces.explorer.found import Found, Matched
from kleene.pattern.normalize import Branch

VERSION = 1
REFERENCES = 5_000_000
"""Maximum number of embedded events of matches, counting an event once per match."""


@dataclass(frozen=True, slots=True)
class Document:
    """A manifest, which is JSON, and the buffers that it refers to."""

    manifest: dict[str, Any]
    payload: Payload


@dataclass(frozen=True, slots=True)
class _Matches:
    """Matches of all queries, as columns; times are those of the engine."""

    query: Array
    ordinal: Array
    """The number of a match among those of its query."""
    start: Array
    end: Array
    ids: Array
    offsets: Array
    rows: Array
    variables: Array


def document(found: Found, selected: str | None, *, show_matches: int, show_events: int) -> Document:
    """The document for the found matches."""
    payload = Payload()
    matches = _cut(_merged(found), show_matches)
    time = whole(found.events.column(found.schema.time))
    timed = np.flatnonzero(time.is_valid().to_numpy(zero_copy_only=False))
    times = time_values(time.drop_null(), found.schema.time_unit)
    families = list(dict.fromkeys(item.keys for item in found.matched if item.keys))
    kept = _kept(found, matches, timed, times, families, show_events)
    rows = timed[kept]
    events = found.events.take(pa.array(rows))
    at = times[kept]
    origin = int(at.min()) if at.size else 0
    places = np.full(found.events.num_rows, -1, np.int64)
    places[rows] = np.arange(rows.size)
    keys = [_codes(found, events, family) for family in families]
    shown = replace(matches, rows=places[matches.rows])
    zone = getattr(time.type, "tz", None)
    manifest = {
        "version": VERSION,
        "title": ", ".join(item.query.name for item in found.matched[:3]) + (" …" if len(found.matched) > 3 else ""),
        "time": {"name": found.schema.time, "unit": found.schema.time_unit, "zone": zone, "origin": str(origin)},
        "events": _events(found, events, rows, at - origin, payload),
        "families": [
            {"attributes": family, "codes": payload.add(codes, "i32"), "first": payload.add(first, "i32")}
            for family, (codes, first) in zip(families, keys, strict=True)
        ],
        "queries": [
            _query(item, families, shown.ordinal[shown.query == number], payload) for number, item in enumerate(found.matched)
        ],
        "matches": _match_columns(shown, origin, found, families, keys, payload),
        "totals": {"events": found.given, "matches": sum(item.count for item in found.matched)},
        "notices": _notices(found, selected, matches, show_matches, rows.size, timed.size),
    }
    return Document(manifest, payload)


def _merged(found: Found) -> _Matches:
    """The matches of all queries, one query after the other."""
    unit = found.schema.time_unit
    heads = [[whole(item.heads.column(place)) for place in range(3)] for item in found.matched]
    counts = [item.count for item in found.matched]
    lengths = np.concatenate([np.diff(item.offsets) for item in found.matched])
    return _Matches(
        query=np.repeat(np.arange(len(counts)), counts),
        ordinal=np.concatenate([np.arange(count) for count in counts]),
        start=np.concatenate([time_values(start, unit) for _, start, _ in heads]),
        end=np.concatenate([time_values(end, unit) for _, _, end in heads]),
        ids=np.concatenate([ids.to_numpy(zero_copy_only=False) for ids, _, _ in heads]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        rows=np.concatenate([item.rows for item in found.matched]),
        variables=np.concatenate([item.variables for item in found.matched]),
    )


def _cut(matches: _Matches, most: int) -> _Matches:
    """The first matches ordered by start, up to the limit."""
    order = np.lexsort((matches.ordinal, matches.query, matches.end, matches.start))
    lengths = np.diff(matches.offsets)[order]
    fitting = int(np.searchsorted(np.cumsum(lengths), REFERENCES, side="right"))
    order = order[: min(most, max(1, fitting))]
    lengths = lengths[: order.size]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.repeat(matches.offsets[:-1][order] - offsets[:-1], lengths) + np.arange(offsets[-1])
    heads = {name: getattr(matches, name)[order] for name in ("query", "ordinal", "start", "end", "ids")}
    return _Matches(**heads, offsets=offsets, rows=matches.rows[places], variables=matches.variables[places])


def _kept(found: Found, matches: _Matches, timed: Array, times: Array, families: list[tuple[str, ...]], most: int) -> Array:
    """The embedded events, as indices into the events with a time, in time order."""
    order = np.argsort(times, kind="stable")
    if timed.size <= most:
        return order
    in_match = np.zeros(found.events.num_rows, bool)
    in_match[matches.rows] = True
    near = np.zeros(timed.size, bool)
    for family in families:
        codes = _codes(found, found.events, family)[0][timed]
        near |= (codes >= 0) & np.isin(codes, codes[in_match[timed]])
    rank = np.where(in_match[timed], 0, np.where(near, 1, 2))[order]
    chosen = np.argsort(rank, kind="stable")[: max(most, int((rank == 0).sum()))]
    return order[np.sort(chosen)]


def _codes(found: Found, events: pa.Table, family: tuple[str, ...]) -> tuple[Array, Array]:
    """A number for each combination of values, -1 if one is NULL or missing in the event's type; and the first row of each
    combination.
    """
    size = events.num_rows
    combined, known = np.zeros(size, np.int64), _having(found.schema, events, family)
    for name in family:
        column = decoded(whole(events.column(name)))
        codes = pc.fill_null(column.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
        known &= codes >= 0
        pairs = combined * (int(codes.max(initial=0)) + 2) + codes + 1
        combined = np.unique(pairs, return_inverse=True)[1]
    rows = np.flatnonzero(known)
    _, first, inverse = np.unique(combined[rows], return_index=True, return_inverse=True)
    keys = np.full(size, -1, np.int64)
    keys[rows] = inverse
    return keys, rows[first]


def _having(schema: EventSchema, events: pa.Table, family: tuple[str, ...]) -> Array:
    """The events whose type has the attributes: all except those of types declared without one."""
    lacking = [name for name in schema.types or () if not schema.attributes_of(name).issuperset(family)]
    if schema.type is None or not lacking:
        return np.ones(events.num_rows, bool)
    lack = pc.is_in(_type_names(events, schema.type), pa.array(lacking, pa.string()))
    return ~np.asarray(lack.to_numpy(zero_copy_only=False), bool)


def _type_names(events: pa.Table, name: str) -> pa.Array:
    return pc.cast(decoded(whole(events.column(name))), pa.string())


def _events(found: Found, events: pa.Table, rows: Array, times: Array, payload: Payload) -> dict[str, Any]:
    return {
        "count": int(rows.size),
        "times": payload.add(times, "f64"),
        "rows": payload.add(rows, "i32"),
        "types": _types(found, events, payload),
        "columns": [{"name": name, "column": encode(whole(events.column(name)), payload)} for name in events.schema.names],
    }


def _types(found: Found, events: pa.Table, payload: Payload) -> dict[str, Any]:
    """The type of each event; without a type column the only one that patterns name."""
    if found.schema.type is None:
        name = found.matched[0].plan.bound.components[0].types[0]
        return {"names": [name], "codes": payload.add(np.zeros(events.num_rows), "i32")}
    encoded = _type_names(events, found.schema.type).dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return {"names": encoded.dictionary.to_pylist(), "codes": payload.add(codes, "i32")}


def _query(item: Matched, families: list[tuple[str, ...]], ordinals: Array, payload: Payload) -> dict[str, Any]:
    bound = item.plan.bound
    components = bound.components
    numbers = {event.variable: number for number, event in enumerate(components)}
    shown = item.returned.take(pa.array(ordinals))
    return {
        "name": item.query.name,
        "text": str(item.query),
        "total": item.count,
        "family": families.index(item.keys) if item.keys else -1,
        "window": bound.window,
        "components": [
            {"variable": event.variable, "types": event.types, "kleene": event.is_kleene, "negated": event.negated}
            for event in components
        ],
        "branches": [_branch(branch, numbers) for branch in bound.branches],
        "returns": [{"name": name, "column": encode(whole(shown.column(name)), payload)} for name in shown.schema.names],
        "plan": {"text": explain(item.plan), "svg": base64.b64encode(svg(item.plan).encode()).decode("ascii")},
    }


def _branch(branch: Branch, numbers: dict[str, int]) -> dict[str, Any]:
    """The components of an alternative, and between which of them others must not occur."""
    own = [numbers[event.variable] for event in branch.positives]
    return {
        "positives": own,
        "negatives": [
            {
                "component": numbers[negative.event.variable],
                "after": sorted(own[place] for place in negative.after),
                "before": sorted(own[place] for place in negative.before),
            }
            for negative in branch.negatives
        ],
    }


def _match_columns(
    matches: _Matches,
    origin: int,
    found: Found,
    families: list[tuple[str, ...]],
    keys: list[tuple[Array, Array]],
    payload: Payload,
) -> dict[str, Any]:
    family = np.array([families.index(item.keys) if item.keys else -1 for item in found.matched])
    key = np.full(matches.query.size, -1, np.int64)
    for number, (codes, _) in enumerate(keys if key.size else ()):
        own = family[matches.query] == number
        # All events of a match that have the key have the same; some may be of a type without it.
        key[own] = np.maximum.reduceat(codes[matches.rows], matches.offsets[:-1])[own]
    # Among those of its query that are embedded, for the RETURN values.
    ordinal = np.empty(matches.query.size, np.int64)
    for number in range(len(found.matched)):
        own = matches.query == number
        ordinal[own] = np.arange(int(own.sum()))
    return {
        "count": int(matches.query.size),
        "query": payload.add(matches.query, "i32"),
        "ordinal": payload.add(ordinal, "i32"),
        "start": payload.add(matches.start - origin, "f64"),
        "end": payload.add(matches.end - origin, "f64"),
        "key": payload.add(key, "i32"),
        "id": payload.add(matches.ids, "i64"),
        "offsets": payload.add(matches.offsets, "i32"),
        "rows": payload.add(matches.rows, "i32"),
        "variables": payload.add(matches.variables, "i32"),
    }


def _notices(found: Found, selected: str | None, matches: _Matches, show_matches: int, events: int, timed: int) -> list[str]:
    total = sum(item.count for item in found.matched)
    notices = []
    if selected is not None:
        notices.append(f"Only events {selected} were read: a match that needs others is not found.")
    if matches.query.size < total:
        kept = f"The first {matches.query.size:,} of {total:,} matches are shown, ordered by start"
        if matches.query.size == show_matches:
            notices.append(f"{kept}: explore a part of the events, or raise the limit (show_matches).")
        else:
            notices.append(f"{kept}: a page holds {REFERENCES:,} events of matches. Explore a part of the events.")
    if events < timed:
        kept = f"{events:,} of {timed:,} events are shown: those of matches, then others with the same keys, then the rest"
        notices.append(f"{kept}. Raise the limit (show_events) to see more.")
    if timed < found.events.num_rows:
        notices.append(f"{found.events.num_rows - timed:,} events without a time are not shown.")
    for item in found.matched:
        if item.bad:
            notices.append(f"{item.bad:,} bad rows (no time, key or type) took no part in '{item.query.name}'.")
        if item.dropped:
            notices.append(f"'{item.query.name}': {item.dropped}; the result is incomplete.")
    notices += [f"'{name}' has AGG, so it has no matches to show." for name in found.aggregates]
    return notices
