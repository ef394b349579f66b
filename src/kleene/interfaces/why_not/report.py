"""The report of `why_not`, as an object, text, HTML and JSON."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from kleene.common.terminal import plural
from kleene.pattern.relax import Constraint, Demand
from kleene.pattern.text import value_text

ELEMENTS_SHOWN = 4
"""Number of events shown of one variable; of more, the first ones and the last one."""

_SAYS = {
    Demand.CONDITION: "condition",
    Demand.HAVING: "HAVING",
    Demand.NEGATION: "negation",
    Demand.REPETITION: "repetition",
    Demand.WINDOW: "window",
    Demand.ORDER: "order",
    Demand.STRATEGY: "strategy",
    Demand.OVERLAP: "output",
    Demand.KEY: "equivalence test",
}


@dataclass(frozen=True, slots=True)
class Count:
    """A count: exact, or a lower bound if the search was bounded."""

    number: int
    exact: bool = True

    def words(self, one: str, many: str) -> str:
        """The number with its noun.

        >>> Count(1200, exact=False).words("near miss", "near misses"), Count(0).words("match", "matches")
        ('at least 1,200 near misses', 'no match')
        """
        if self.number == 0:
            return f"no {one}" if self.exact else f"no {one} found, but not all were looked at"
        return ("" if self.exact else "at least ") + plural(self.number, one, many)


@dataclass(frozen=True, slots=True)
class Found:
    """A combination of events: a near miss, or the beginning of a match. With AGG, a row that HAVING removes."""

    events: Mapping[str, tuple[Mapping[str, Any], ...]]
    """The events of each variable, with all of their columns."""
    shown: Mapping[str, tuple[tuple[str, ...], ...]]
    """The same in words: the type and time of each event, and the attributes that the query reads."""
    reasons: tuple[str, ...] = ()
    """Why it breaks each constraint of its cause."""
    amounts: tuple[Any, ...] = ()
    """By how much: a number or a duration; None if it is neither."""
    row: Mapping[str, Any] | None = None
    """The row of AGG."""


@dataclass(frozen=True, slots=True)
class Component:
    """A component, with the number of its events."""

    variable: str
    text: str
    negated: bool
    optional: bool
    """Whether a match may have no event of it."""
    events: int
    """The number of events of its types."""
    passing: int
    """The number of those that satisfy the conditions on this component's event alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """The pattern up to one of its parts, with the number of matches so far."""

    text: str
    """The pattern so far."""
    part: str
    """Its last part."""
    demands: tuple[str, ...]
    """The conditions on this part and earlier ones."""
    window: str | None
    """The window that it shares with earlier parts."""
    matches: Count
    latest: Found | None
    """The match that ends last."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Constraints without which some events would be a match; if there are several, neither alone suffices."""

    constraints: tuple[Constraint, ...]
    count: Count
    """The number of near misses: combinations of events that break these constraints and no other."""
    nearest: tuple[Found, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the constraints: condition, window, negation, order, key, ..."""
        return tuple(item.demand.value for item in self.constraints)

    @property
    def text(self) -> str:
        """The constraints as written in the query."""
        return " and ".join(item.text for item in self.constraints)


@dataclass(frozen=True, slots=True)
class WhyNot:
    """How far a query got over some events, what stopped it, and the nearest misses; `str()` gives the report as text."""

    query: str
    """The query's name."""
    scope: str
    """The selection of events, in words that follow "events"; empty for all."""
    events: int
    bad_rows: int
    first: Any
    """The time of the first event."""
    last: Any
    aggregates: bool
    """Whether the query has AGG: the result is rows, and matches are those that they aggregate."""
    rows: Count | None
    """The number of rows of AGG."""
    matches: Count
    components: tuple[Component, ...]
    progress: tuple[tuple[Step, ...], ...]
    """For each alternative of a top-level OR (else for the pattern), part by part, up to the first without a match."""
    causes: tuple[Cause, ...]
    """One constraint each; two only if no single one suffices."""
    untried: tuple[tuple[str, str], ...] = ()
    """Constraints that may be causes too, with the reason why that is unknown: the relaxed query failed or was cut short."""

    @property
    def is_matched(self) -> bool:
        """Whether the query has an answer in these events."""
        return (self.matches if self.rows is None else self.rows).number > 0

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        """The report for a notebook. Everything in it is escaped: values come from events."""
        parts = [f"<b>{escape(head)}</b><pre>{escape(chr(10).join(lines))}</pre>" for head, lines in self._sections() if lines]
        return f"<div>{''.join(parts)}</div>"

    def _lines(self) -> Iterator[str]:
        for number, (head, lines) in enumerate(self._sections()):
            if lines:
                yield from ([""] if number else []) + [head]
                yield from (f"  {line}".rstrip() for line in lines)

    def _sections(self) -> Iterator[tuple[str, list[str]]]:
        yield f"why not: {self.query}", list(self._summary())
        yield "events for each component", _aligned([(item.text, *_available(item)) for item in self.components])
        for number, steps in enumerate(self.progress, 1):
            head = "how far it got" if len(self.progress) == 1 else f"how far it got, alternative {number}"
            yield head, list(_progress(steps))
        head = "what stopped others" if self.is_matched else "what stopped it"
        if self.causes and len(self.causes[0].constraints) > 1:
            head += ": two constraints at once" + ("" if self.untried else ", none alone")
        yield head, list(self._stopped())

    def _summary(self) -> Iterator[str]:
        found = plural(self.events, "event")
        if self.scope:
            found += f" {self.scope}"
        if self.events:
            found += f", from {value_text(self.first)} to {value_text(self.last)}"
        yield found
        if self.bad_rows:
            yield f"{self.bad_rows:,} bad rows were left out"
        if self.rows is not None:
            yield f"{self.rows.words('row', 'rows')} of AGG, over {self.matches.words('match', 'matches')}"
        else:
            yield self.matches.words("match", "matches")

    def _stopped(self) -> Iterator[str]:
        missing = [item.text for item in self.components if not (item.negated or item.optional or item.passing)]
        for text in missing:
            yield f"no event for {text}"
        for cause in self.causes:
            kinds = " and ".join(_SAYS[item.demand] for item in cause.constraints)
            yield f"{cause.text} ({kinds}): {cause.count.words('near miss', 'near misses')}"
            for found in cause.nearest:
                yield from (f"  {line}" for line in _found(found))
        if not (self.causes or missing or self.untried):
            broken = "one constraint only" if self.is_matched else "one constraint only, or two"
            yield f"nothing: no combination of events breaks {broken}"
        for text, reason in self.untried:
            yield f"not settled without {text}: {reason}"

    def to_dict(self) -> dict[str, Any]:
        """The report as data for JSON: moments in ISO 8601, durations in seconds."""
        return {
            "query": self.query,
            "scope": self.scope,
            "events": self.events,
            "bad_rows": self.bad_rows,
            "first": _plain(self.first),
            "last": _plain(self.last),
            "rows": None if self.rows is None else asdict(self.rows),
            "matches": asdict(self.matches),
            "components": [asdict(item) for item in self.components],
            "progress": [[_step(step) for step in steps] for steps in self.progress],
            "causes": [
                {
                    "constraints": [{"kind": item.demand.value, "text": item.text} for item in cause.constraints],
                    "near_misses": asdict(cause.count),
                    "nearest": [_plain_found(found) for found in cause.nearest],
                }
                for cause in self.causes
            ],
            "untried": [{"constraint": text, "reason": reason} for text, reason in self.untried],
        }


def _available(item: Component) -> tuple[str, ...]:
    events = plural(item.events, "event")
    if item.passing == item.events:
        return (events,)
    return events, f"{plural(item.passing, 'meets', 'meet')} the conditions on one event"


def _progress(steps: Sequence[Step]) -> Iterator[str]:
    yield from _aligned([(step.text, step.matches.words("match", "matches")) for step in steps])
    if not steps or steps[-1].matches.number:
        return
    reached = [step for step in steps if step.matches.number]
    if reached and reached[-1].latest is not None:
        yield "the latest that got so far:"
        yield from (f"  {line}" for line in _found(reached[-1].latest))
    wanted = " AND ".join(steps[-1].demands)
    within = f" within {steps[-1].window}" if steps[-1].window else ""
    yield f"waited for {steps[-1].part}" + (f" where {wanted}" if wanted else "") + within


def _found(found: Found) -> Iterator[str]:
    if found.row is not None:
        yield " ".join(f"{name}={value_text(value)}" for name, value in found.row.items())
    rows = []
    for name, held in found.shown.items():
        for number, words in enumerate(held, 1):
            if number < ELEMENTS_SHOWN or number == len(held):
                rows.append((name if len(held) == 1 else f"{name}[{number}]", *words))
    yield from _aligned(rows)
    yield from (f"-> {reason}" for reason in found.reasons)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, in columns."""
    widths = [max(len(row[place]) for row in rows if len(row) > place) for place in range(max(map(len, rows), default=0))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]


def _step(step: Step) -> dict[str, Any]:
    return {
        "pattern": step.text,
        "part": step.part,
        "conditions": list(step.demands),
        "window": step.window,
        "matches": asdict(step.matches),
        "latest": None if step.latest is None else _plain_found(step.latest),
    }


def _plain_found(found: Found) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "events": {name: [_plain(event) for event in events] for name, events in found.events.items()},
        "reasons": list(found.reasons),
        "amounts": [_plain(amount) for amount in found.amounts],
    }
    return plain if found.row is None else {**plain, "row": _plain(found.row)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, int | float | str | bool) else str(value)
