"""The clauses around a pattern: selection strategy, window, aggregation, output; and the query that holds them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from fractions import Fraction

from kleene.pattern.operators import Pattern
from kleene.pattern.predicates import Expression
from kleene.pattern.registered import Function


class Strategy(enum.Enum):
    """Event selection strategies (SASE+ section 2)."""

    SKIP_TILL_ANY_MATCH = "skip_till_any_match"
    SKIP_TILL_NEXT_MATCH = "skip_till_next_match"
    PARTITION_CONTIGUITY = "partition_contiguity"
    STRICT_CONTIGUITY = "strict_contiguity"


class Unit(enum.Enum):
    """Units of a window: a word and, for units of time, the length in microseconds."""

    MICROSECONDS = ("microseconds", 1)
    MILLISECONDS = ("milliseconds", 1_000)
    SECONDS = ("seconds", 1_000_000)
    MINUTES = ("minutes", 60_000_000)
    HOURS = ("hours", 3_600_000_000)
    DAYS = ("days", 86_400_000_000)
    WEEKS = ("weeks", 604_800_000_000)
    NUMBER = ("", None)
    """A plain number, for integer time columns."""
    EVENTS = ("events", None)

    def __init__(self, word: str, microseconds: int | None) -> None:
        self.word = word
        self.microseconds = microseconds


@dataclass(frozen=True, slots=True)
class Window:
    """`WITHIN amount unit`; the amount is a number, or the name of a parameter given with the query."""

    amount: int | Fraction | str
    unit: Unit


class Output(enum.Enum):
    """Which matches are reported (semantics, section 6)."""

    ALL = "all"
    NON_OVERLAP = "non_overlap"


@dataclass(frozen=True, slots=True)
class MatchAggregate:
    """One item of `AGG`: an aggregate over matches. COUNT has no argument."""

    function: str
    """count, sum, avg, min or max."""
    variable: str | None
    attribute: str | None
    alias: str


@dataclass(frozen=True, slots=True)
class ReturnItem:
    """One column of `RETURN`."""

    expression: Expression
    alias: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalQuery:
    """A whole query as data. `name` and `text`, which say where it came from, are ignored in comparisons."""

    pattern: Pattern
    where: Expression | None = None
    strategy: Strategy = Strategy.SKIP_TILL_ANY_MATCH
    strategy_variables: tuple[str, ...] = ()
    """The variables listed after the strategy's name, as written; they carry no meaning."""
    within: Window | None = None
    group_by: tuple[str, ...] = ()
    aggregates: tuple[MatchAggregate, ...] = ()
    having: Expression | None = None
    emit_on_change: bool = False
    returns: tuple[ReturnItem, ...] = ()
    into: str | None = None
    output: Output = Output.ALL
    functions: tuple[Function, ...] = ()
    """User functions that conditions and RETURN may call; the text only names them."""
    name: str = field(default="query", compare=False)
    text: str | None = field(default=None, compare=False, repr=False)
