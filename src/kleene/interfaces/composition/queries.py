"""Queries by name, some of which may read the matches of others: what the order of matching and the plans are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, Problem, nearest
from kleene.interfaces.composition.composites import Composite, common_schema, composite_of, own_options
from kleene.interfaces.composition.shared import (
    beside,
    counter_plan,
    naming,
)
from kleene.interfaces.inputs import arrow_schema_of, is_spark_frame
from kleene.interfaces.options import Options, options_of
from kleene.pattern.operators import events as components

if TYPE_CHECKING:
    from kleene.interfaces.query import Query
    from kleene.plan.contract import Plan
    from kleene.plan.counting.counters import CounterPlan


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

    def plans_for(self, events: Any, **options: Any) -> dict[str, Plan]:
        """The plan of every query for events of these columns."""
        given = options_of(options)
        self._require_composable(given)
        self._require_statistics_by_name(given.stats)
        base = arrow_schema_of(events)
        made: dict[str, Composite] = {}
        plans: dict[str, Plan] = {}
        counted: dict[tuple[str, ...], dict[str, CounterPlan]] = {}
        for name in self.order:
            with self._naming(name):
                item, producers = self.queries[name], self.producers(name)
                read = [made[other] for other in producers]
                schema = common_schema(base, read)
                own = own_options(item, given, read)
                plan = None if is_spark_frame(events) else counter_plan(item, schema, own)
                if plan is not None:
                    counted.setdefault(producers, {})[name] = plan
                plans[name] = plan or item.plan_for(schema, own)
                if item.logical.into is not None:
                    from kleene.engine.build import build_matcher

                    made[name] = composite_of(item, base, build_matcher(plans[name], schema).output_schema, given)
        for own_plans in counted.values():
            plans.update(beside(own_plans))
        return {name: plans[name] for name in self.queries}

    def _naming(self, name: str) -> AbstractContextManager[None]:
        return naming(name) if len(self.queries) > 1 else nullcontext()

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
