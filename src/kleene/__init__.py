"""Kleene: complex event processing for Apache Spark.

Finds patterns in streams of events — sequences, absences, repetitions, any-order combinations, within time windows — with the
same query and the same answer in a DataFrame, an Arrow table and a stream.

One query through the files: `interfaces/query.py` calls the others in this order. `language/parser.py` turns text into a
pattern, `pattern/validate.py` checks it, and `pattern/bind.py` binds it to the columns of the events. `plan/optimizer.py`
decides which mechanism answers it (`plan/lazy/lazy.py` for most queries), `engine/build.py` makes the matcher
(`engine/lazy/evaluation.py`), and `runtime/embedded.py` or `runtime/spark/batch.py` feeds it where the events are.
`testing/oracle.py` says, slowly and plainly, what the answer must be. `docs/architecture.md` has the whole walk; each package
says in its docstring how it works.

Importing the package loads neither pyspark nor numba: names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "kleene.interfaces.query": ("Query", "query", "statistics"),
    "kleene.interfaces.history": ("history",),
    "kleene.interfaces.compressed": ("count", "expand", "matches", "sample"),
    "kleene.interfaces.rules": ("Rules", "rules"),
    "kleene.interfaces.sql": ("register",),
    "kleene.interfaces.workload.workload": ("Workload", "workload"),
    "kleene.interfaces.why_not.report": ("WhyNot",),
    "kleene.common.errors": (
        "KleeneError",
        "QuerySyntaxError",
        "BindingError",
        "PlanningError",
        "DataError",
        "LimitError",
        "StateError",
    ),
    "kleene.pattern.builder": ("all_of", "any_of", "event", "one_of", "param", "same", "seq", "var"),
    "kleene.pattern.registered": ("Function", "function"),
    "kleene.plan.order.statistics": ("Statistics",),
    "kleene.runtime.files": ("open_events",),
}
_MODULES = ("functions",)
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from kleene import functions as functions
    from kleene.common.errors import BindingError as BindingError
    from kleene.common.errors import DataError as DataError
    from kleene.common.errors import KleeneError as KleeneError
    from kleene.common.errors import LimitError as LimitError
    from kleene.common.errors import PlanningError as PlanningError
    from kleene.common.errors import QuerySyntaxError as QuerySyntaxError
    from kleene.common.errors import StateError as StateError
    from kleene.interfaces.compressed import count as count
    from kleene.interfaces.compressed import expand as expand
    from kleene.interfaces.compressed import matches as matches
    from kleene.interfaces.compressed import sample as sample
    from kleene.interfaces.history import history as history
    from kleene.interfaces.query import Query as Query
    from kleene.interfaces.query import query as query
    from kleene.interfaces.query import statistics as statistics
    from kleene.interfaces.rules import Rules as Rules
    from kleene.interfaces.rules import rules as rules
    from kleene.interfaces.sql import register as register
    from kleene.interfaces.why_not.report import WhyNot as WhyNot
    from kleene.interfaces.workload.workload import Workload as Workload
    from kleene.interfaces.workload.workload import workload as workload
    from kleene.pattern.builder import all_of as all_of
    from kleene.pattern.builder import any_of as any_of
    from kleene.pattern.builder import event as event
    from kleene.pattern.builder import one_of as one_of
    from kleene.pattern.builder import param as param
    from kleene.pattern.builder import same as same
    from kleene.pattern.builder import seq as seq
    from kleene.pattern.builder import var as var
    from kleene.pattern.registered import Function as Function
    from kleene.pattern.registered import function as function
    from kleene.plan.order.statistics import Statistics as Statistics
    from kleene.runtime.files import open_events as open_events

__all__ = ["__version__", *sorted([*_HOME_OF, *_MODULES])]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"kleene.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'kleene' has no attribute '{name}'")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
