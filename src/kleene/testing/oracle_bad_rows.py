"""Bad rows, which are quarantined or dropped before anything else is decided, and are not part of the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kleene.pattern.bound import BoundQuery
from kleene.testing.functions import Value


def good_rows(bound: BoundQuery, events: Sequence[Mapping[str, Value]]) -> list[int]:
    """The positions of the rows that are events: they have a time, and no defect that matters to the query."""
    return [place for place, event in enumerate(events) if event[bound.schema.time] is not None and not _is_bad(bound, event)]


def _is_bad(bound: BoundQuery, event: Mapping[str, Value]) -> bool:
    """Whether a row has no type, one that no schema declares, or no value of a key that events of its type have."""
    schema = bound.schema
    named = {name for component in bound.components for name in component.types}
    if schema.type is None:
        kind = next(iter(named))
    else:
        if event[schema.type] is None:
            return True
        kind = str(event[schema.type])
        if schema.types is not None and kind not in schema.types:
            return True
    return kind in named and any(event.get(key) is None and not bound.lacks(kind, key) for key in _keys(bound))


def _keys(bound: BoundQuery) -> list[str]:
    """The attributes of equivalence tests that every positive component has; a test of a fixed value does not partition."""
    positives = [kind for component in bound.components if not component.negated for kind in component.types]
    open_tests = [test.name for test in bound.equivalences if test.value is None]
    return [name for name in open_tests if not any(bound.lacks(kind, name) for kind in positives)]
