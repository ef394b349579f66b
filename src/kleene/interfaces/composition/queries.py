"""Queries by name, some of which may read the matches of others: what the order of matching and the plans are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Unpack

from kleene.common.errors import BindingError, Problem, nearest
from kleene.interfaces.composition.composites import Composite, common_schema, composite_of, own_options, with_composites
from kleene.interfaces.composition.shared import naming, planned_query
from kleene.interfaces.inputs import arrow_schema_of, is_spark_frame
from kleene.interfaces.options import MatchOptions, Options, options_of
from kleene.pattern.operators import events as components

if TYPE_CHECKING:
    import pyarrow as pa

    from kleene.interfaces.query import Query
    from kleene.plan.contract import Plan
    from kleene.plan.multi.search import MultiOptions
    from kleene.runtime.units import PlannedQuery


@dataclass(frozen=True, slots=True)
class Tier:
    """Queries that read the same events."""

    read: tuple[Composite, ...]
    """The composite events among them."""
    events: pa.Schema
    """The columns of all of them."""
    queries: tuple[PlannedQuery, ...]

    def over(self, events: Any, base: pa.Schema, runs: Mapping[str, Any]) -> Any:
        """What is read, given the events and the runs of the queries that make others."""
        made = [replace(composite, matches=runs[composite.query].matches) for composite in self.read]
        return with_composites(events, base, made)


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries by name."""

    queries: Mapping[str, Query]

    def __post_init__(self) -> None:
        _ = self.order  # raises on a cycle

    def __getitem__(self, name: str) -> Query:
        if name not in self.queries:
            raise BindingError(Problem(f"the workload has no query '{name}'", hint=nearest(name, self.queries)))
        return self.queries[name]

    def producers(self, name: str) -> tuple[str, ...]:
        """The queries whose composite events a query reads."""
        read = {kind for event in components(self[name].logical.pattern) for kind in event.types}
        return tuple(other for other, item in self.queries.items() if item.logical.into in read)

    @property
    def order(self) -> tuple[str, ...]:
        """The names, producers before the queries that read them."""
        try:
            return tuple(TopologicalSorter({name: self.producers(name) for name in self.queries}).static_order())
        except CycleError as error:
            raise _cycle(error.args[1]) from None

    def tiers(self, base: pa.Schema, options: Options, multi: MultiOptions | None = None) -> tuple[Tier, ...]:
        """The queries with their plans, by what they read of events and composite events: makers come first."""
        self._require_composable(options)
        self._require_statistics_by_name(options.stats)
        made: dict[str, Composite] = {}
        tiers: dict[tuple[str, ...], list[PlannedQuery]] = {}
        for name in self.order:
            item, producers = self.queries[name], self.producers(name)
            with self.naming(name):
                read = [made[other] for other in producers]
                own, schema = own_options(item, options, read), common_schema(base, read)
                planned = planned_query(item, schema, own, multi)
                if item.logical.into is not None:
                    made[name] = composite_of(item, base, planned.schema(schema), options)
            tiers.setdefault(producers, []).append(planned)
        found = []
        for producers, queries in tiers.items():
            composites = tuple(made[name] for name in producers)
            found.append(Tier(composites, common_schema(base, composites), tuple(queries)))
        return tuple(found)

    def plans_for(self, events: Any, **options: Unpack[MatchOptions]) -> dict[str, Plan]:
        """The plan of every query for events of these columns, which knows the queries that it is counted with."""
        from kleene.runtime.units import QuerySet

        plans: dict[str, Plan] = {}
        for tier in self.tiers(arrow_schema_of(events), options_of(options)):
            apart = (item.alone for item in tier.queries)
            for unit in apart if is_spark_frame(events) else QuerySet(tier.queries).units():
                plans |= zip(unit.names, unit.plan.members, strict=True)
        return {name: plans[name] for name in self.queries}

    def naming(self, *names: str) -> AbstractContextManager[None]:
        """Lets errors say which of several queries they are about."""
        return naming(*names) if len(self.queries) > 1 else nullcontext()

    def _require_composable(self, options: Options) -> None:
        """That the matches of all queries with INTO can be events among the others."""
        problems: list[Problem] = []
        roles = {options.time: "time", options.type: "type"}
        for name, item in self.queries.items():
            into = item.logical.into
            if into is None:
                continue
            if options.type is None:
                message = f"query '{name}' makes events of type '{into}', but no type column was given"
                problems.append(Problem(message, hint="pass type=..., the column that tells the types apart"))
            for column in item.logical.returns:
                if column.alias in roles:
                    role = roles[column.alias]
                    hint = f"the {role} of a composite event is {'match_end' if role == 'time' else 'its INTO type'}: rename it"
                    message = f"query '{name}' returns '{column.alias}' into '{into}', but that is the {role} column"
                    problems.append(Problem(message, hint=hint))
        if problems:
            raise BindingError(problems)

    def _require_statistics_by_name(self, given: Any) -> None:
        if not isinstance(given, Mapping | None):
            raise BindingError(Problem("statistics are those of one query", hint="give them by its name: stats={'name': ...}"))
        problems = [
            Problem(f"statistics are given for '{name}', which is no query of the workload", hint=nearest(name, self.queries))
            for name in given or ()
            if name not in self.queries
        ]
        if problems:
            raise BindingError(problems)


def _cycle(names: Sequence[str]) -> BindingError:
    """`names` is a cycle: each makes events for the next, the last is the first."""
    if len(set(names)) == 1:
        message = f"query '{names[0]}' reads the events that it makes"
    else:
        message = f"queries read each other's events in a circle: {' -> '.join(repr(name) for name in names)}"
    return BindingError(Problem(message, hint="events INTO a type can only be read by queries that they do not depend on"))
