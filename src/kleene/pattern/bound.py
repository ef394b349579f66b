"""A query bound to the events it will read: every name resolved, every kind checked, the window in the unit of time."""

from __future__ import annotations

from dataclasses import dataclass, field

from kleene.common.schema import EventSchema
from kleene.pattern.normalize import Branch
from kleene.pattern.operators import Event, events
from kleene.pattern.policies import LogicalQuery
from kleene.pattern.predicates import Equivalence, Expression


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query bound to a schema, the input of planners and the oracle; only `kleene.pattern.bind.bind` makes it, so its
    invariants hold.

    In `conjuncts`, `equivalences` and RETURN no `Name` is left (in HAVING, names are aggregates and groups): parameters are
    literals, bare attributes are attributes, text compared with a timestamp is a datetime literal, and a call of a registered
    function has it.
    """

    query: LogicalQuery
    schema: EventSchema
    branches: tuple[Branch, ...]
    conjuncts: tuple[Expression, ...]
    """The top-level conjuncts of WHERE other than equivalence tests."""
    equivalences: tuple[Equivalence, ...]
    """The equivalence tests, those of `partition_by` first, each attribute once."""
    window: int | None
    """Length of the time window in the unit of the time column (schema.time_unit), or None."""
    count_window: int | None
    """Length of a window in events, or None."""
    _by_variable: dict[str, Event] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by_variable: dict[str, Event] = {}
        for event in self.components:
            by_variable.setdefault(event.variable, event)
        object.__setattr__(self, "_by_variable", by_variable)

    @property
    def components(self) -> tuple[Event, ...]:
        """All components of the pattern, negative ones included, in order of appearance."""
        return tuple(events(self.query.pattern))

    def component(self, variable: str) -> Event:
        """The component of a variable."""
        return self._by_variable[variable]

    def may_have(self, event: Event, attribute: str) -> bool:
        """Whether some type of a component has an attribute."""
        return not all(self.lacks(event_type, attribute) for event_type in event.types)

    def lacks(self, event_type: str, attribute: str) -> bool:
        """Whether a type is declared without an attribute: predicates that read it then hold (SASE section 2.2.2)."""
        return attribute not in self.schema.attributes_of(event_type)
