"""What a planner knows of the events: how often each component finds one, and how often conditions between events hold.

The numbers come from a user, from a sample (`kleene.engine.passes.observe`, `kleene.runtime.spark.statistics`) or from the
events that a run has seen. They decide how much work a query is, never what it finds. What is not known is left out of the
mappings; `rate` and `selectivity` say what is assumed then.

Rates are per second of a timestamp column, per unit of an integer time column, and per event under `WITHIN n EVENTS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

from kleene.common.errors import KleeneError, PlanningError, Problem, nearest
from kleene.common.schema import EventSchema
from kleene.pattern.bound import BoundQuery
from kleene.pattern.predicates import Comparison, Expression, mirrored
from kleene.pattern.text import expression_text

UNKNOWN_SELECTIVITY = 0.5
"""Assumed of a condition that nothing is known of: of elements of a Kleene variable before the current one, say."""

FINEST_SELECTIVITY = 1 / 1024
"""Selectivities below this one are alike: a sample hardly tells them apart."""

_QUOTED = re.compile(r"('(?:[^']|'')*'|`(?:[^`]|``)*`)")


@dataclass(frozen=True, slots=True)
class Statistics:
    """Rates and selectivities.

    >>> known = Statistics({"a": 10.0, "b": 2.0}, {"a.x < b.x": 0.1})
    >>> known.rate("c"), known.decayed(Statistics({"a": 20.0}), 0.5).rates["a"]
    (6.0, 15.0)
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    """Per positive variable: the events that it can bind as far as its own predicates go, of all partitions."""
    selectivities: Mapping[str, float] = field(default_factory=dict)
    """Per condition between events, by its text: the share of the tuples in scope (in one partition, inside the window, in
    order) that satisfy it.
    """
    same_partition: float = 1.0
    """The probability that two events within a window are of one partition."""
    span: float = 0.0
    """How much time was observed, in the unit of the rates; 0 if unknown."""
    events: int = 0
    """How many events were observed that some positive component can bind."""

    def rate(self, variable: str) -> float:
        """The rate of a variable; if unknown the mean of the others, so that it counts as neither rare nor frequent."""
        if variable in self.rates:
            return self.rates[variable]
        return sum(self.rates.values()) / len(self.rates) if self.rates else 1.0

    def selectivity(self, condition: Expression | str) -> float:
        """The selectivity of a condition, or of its text."""
        text = condition if isinstance(condition, str) else expression_text(condition)
        return self.selectivities.get(text, UNKNOWN_SELECTIVITY)

    def decayed(self, newer: Statistics, weight: float) -> Statistics:
        """`weight * newer + (1 - weight) * self`, number by number; what only one of them knows stays as it is."""
        assert 0 <= weight <= 1
        seen = _blended(_observed(self), _observed(newer), weight)
        return Statistics(
            _blended(self.rates, newer.rates, weight),
            _blended(self.selectivities, newer.selectivities, weight),
            seen.get("same_partition", self.same_partition),
            seen.get("span", self.span),
            round(seen.get("events", 0.0)),
        )

    def differs(self, other: Statistics, factor: float) -> bool:
        """Whether a rate or a selectivity that both know is more than `factor` times that of the other.

        >>> Statistics({"a": 10.0}).differs(Statistics({"a": 19.0}), 2.0)
        False
        >>> Statistics({"a": 0.0}, span=60.0).differs(Statistics({"a": 0.01}, span=60.0), 2.0)
        False

        Rates below one event in the time observed are alike.
        """
        assert factor >= 1
        least = max((1 / item.span for item in (self, other) if item.span), default=0.0)
        return any(
            apart(mine[name], theirs[name], floor, factor)
            for mine, theirs, floor in (
                (self.rates, other.rates, least),
                (self.selectivities, other.selectivities, FINEST_SELECTIVITY),
            )
            for name in mine.keys() & theirs.keys()
        )

    def to_json(self) -> dict[str, Any]:
        """The statistics as a JSON object."""
        return {
            "rates": dict(self.rates),
            "selectivities": dict(self.selectivities),
            "same_partition": self.same_partition,
            "span": self.span,
            "events": self.events,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Statistics:
        """What `to_json` gave; numbers are checked, names are not.

        >>> Statistics.from_json({"rates": {"a": 3}}).rates
        {'a': 3.0}
        """
        problems: list[Problem] = []
        found = _read(data, problems)
        if problems:
            raise PlanningError(problems)
        return found

    @staticmethod
    def from_mapping(
        given: Mapping[str, Any],
        variables: Iterable[str],
        conditions: Iterable[Expression],
        canonical: Callable[[str], str] | None = None,
    ) -> Statistics:
        """What a user gave, as `{"rates": {"a": 20}, "selectivities": {"a.x < b.x": 0.1}}`, for a query with these variables
        and conditions.

        A condition is known by its text, whatever the white space and whichever side of a comparison comes first; `canonical`
        makes a text that of the language's printer. All problems are reported together.
        """
        problems: list[Problem] = []
        found = _read(given, problems)
        names = list(variables)
        for name in found.rates:
            if name not in names:
                problems.append(
                    Problem(f"a rate is given for '{name}', which is no positive variable", hint=nearest(name, names))
                )
        texts = _texts(conditions)
        selectivities: dict[str, float] = {}
        for text, value in found.selectivities.items():
            known = texts.get(_compact(_canonical(text, canonical)))
            if known is None:
                message = f"a selectivity is given for '{text}', which is no condition between events"
                problems.append(Problem(message, hint=nearest(text, texts.values()) or "the query has none"))
            else:
                selectivities[known] = value
        if problems:
            raise PlanningError(problems)
        return replace(found, selectivities=selectivities)


def ticks_per_unit(schema: EventSchema) -> int:
    """How many steps of the engine's times make a unit of the rates: a second of timestamps, one of integers.

    >>> ticks_per_unit(EventSchema({}, "ts")), ticks_per_unit(EventSchema({}, "ts", time_unit=None))
    (1000000, 1)
    """
    return {"us": 1_000_000, "ns": 1_000_000_000, None: 1}[schema.time_unit]


def window_in_units(bound: BoundQuery) -> float | None:
    """The length of the window in the unit of the rates; None without a window."""
    if bound.count_window is not None:
        return float(bound.count_window)
    return None if bound.window is None else bound.window / ticks_per_unit(bound.schema)


def _read(given: Any, problems: list[Problem]) -> Statistics:
    """Statistics with every number checked; what is wrong becomes a problem and is left out."""
    checks: dict[str, Callable[[Any], Any]] = {
        "rates": lambda item: _numbers(item, "rate", math.inf, problems),
        "selectivities": lambda item: _numbers(item, "selectivity", 1.0, problems),
        "same_partition": lambda item: _number(item, "'same_partition'", 1.0, problems),
        "span": lambda item: _number(item, "'span'", math.inf, problems),
        "events": lambda item: round(_number(item, "'events'", math.inf, problems)),
    }
    if not isinstance(given, Mapping):
        problems.append(Problem(f"statistics are a mapping, not {type(given).__name__}", hint='write {"rates": {"a": 20}}'))
        return Statistics()
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in checks:
            found[name] = checks[name](value)
        else:
            problems.append(Problem(f"unknown statistic '{name}'", hint=nearest(str(name), checks)))
    return Statistics(**found)


def _numbers(given: Any, what: str, most: float, problems: list[Problem]) -> dict[str, float]:
    if not isinstance(given, Mapping):
        keyed = "variable" if what == "rate" else "condition"
        problems.append(Problem(f"a {what} is given for each {keyed}, as a mapping, not as {type(given).__name__}"))
        return {}
    return {str(name): _number(value, f"the {what} of '{name}'", most, problems) for name, value in given.items()}


def _number(given: Any, what: str, most: float, problems: list[Problem]) -> float:
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if is_number and math.isfinite(given) and 0 <= given <= most:
        return float(given)
    wanted = "a number from 0 to 1" if most == 1 else "a finite number, 0 or more"
    problems.append(Problem(f"{what} must be {wanted}, not {given!r}"))
    return 0.0


def _texts(conditions: Iterable[Expression]) -> dict[str, str]:
    """The texts by which conditions are found, without white space, with the text of the condition meant."""
    found: dict[str, str] = {}
    for condition in conditions:
        text = expression_text(condition)
        found[_compact(text)] = text
        if isinstance(condition, Comparison):
            found.setdefault(_compact(expression_text(mirrored(condition))), text)
    return found


def _canonical(text: str, canonical: Callable[[str], str] | None) -> str:
    if canonical is None:
        return text
    try:
        return canonical(text)
    except KleeneError:
        return text


def _compact(text: str) -> str:
    """A text without white space, except inside quotes."""
    parts = _QUOTED.split(text)
    return "".join(part if place % 2 else "".join(part.split()) for place, part in enumerate(parts))


def _observed(statistics: Statistics) -> dict[str, float]:
    """The numbers that only events tell; none of statistics without any."""
    if not statistics.events:
        return {}
    return {name: float(getattr(statistics, name)) for name in ("same_partition", "span", "events")}


def _blended(older: Mapping[str, float], newer: Mapping[str, float], weight: float) -> dict[str, float]:
    both = {name: weight * newer[name] + (1 - weight) * older[name] for name in older.keys() & newer.keys()}
    return {name: both[name] if name in both else mapping[name] for mapping in (older, newer) for name in mapping}


def apart(one: float, other: float, floor: float, factor: float) -> bool:
    """Whether of two numbers one is more than `factor` times the other; those below a floor are alike."""
    low, high = sorted((max(one, floor), max(other, floor)))
    return high > factor * low
