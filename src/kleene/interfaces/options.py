"""The options of a match: a record for each, and what is kept of them once they are checked.

`MatchOptions` is the record. The signatures and docstrings of what takes options come from it (`takes_options`), their checks
(`options_of`), the arguments of the commands (`kleene.interfaces.commands.arguments`), those of `kleene_match` in SQL
(`kleene.interfaces.sql`), and tables in the documentation. Editors and type checkers read names and types as they stand here.
"""

import datetime as dt
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Required, TypedDict, TypeVar, get_args, get_origin

from kleene.common.errors import BindingError, Problem, QuerySyntaxError, nearest

Said = TypeVar("Said")
Taker = TypeVar("Taker", bound=Callable[..., Any])

# --- what is said of an option ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """What an option does."""

    text: str = ""
    default: Any = None
    check: Callable[[Any], Any] = lambda given: given
    """What is kept of a value; a ValueError says that it is none."""
    hint: str = ""
    """How a value is written, for errors."""
    stream: bool = False
    """Whether it is of streams only."""
    page: str = ""
    """Where the documentation says more."""

    @property
    def sentence(self) -> str:
        return f"Of a stream: {self.text[0].lower()}{self.text[1:]}" if self.stream else self.text


@dataclass(frozen=True, slots=True)
class Flag:
    """How the command line has an option."""

    group: str
    """Under which title commands have it; empty for none."""
    metavar: str
    """What follows it, and so how that is read; empty where it is one of the allowed values."""
    help: str
    name: str = ""
    """Without the dashes; empty if it is the option's."""


@dataclass(frozen=True, slots=True)
class Argument:
    """How `kleene_match` has an option."""

    kind: str
    """Of its values, see `kleene.interfaces.sql`."""
    example: str
    text: str = ""
    """What it does, if that is not what the option does."""


def names_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """Names from one, or from several."""
    return (given,) if isinstance(given, str) else tuple(given)


def _types_of(given: Mapping[str, Collection[str]] | None) -> dict[str, frozenset[str]] | None:
    return None if given is None else {str(name): frozenset(attributes) for name, attributes in given.items()}


def _number(given: int | None) -> int | None:
    if given is not None and given < 1:
        raise ValueError
    return given


def _length(given: str | dt.timedelta | None) -> dt.timedelta | None:
    from kleene.pattern.durations import timedelta_of

    return None if given is None else timedelta_of(given)


EVENTS = "the events"
BAD_ROWS = "bad rows (no time, no key, no type, or a type that --schema does not list)"
LIMITS = "limits (of patterns that match far too much)"
PLAN = "the plan"
RUNNING = "how it runs"
"""Titles of the command line."""

NUMBER = "it is a number of at least 1"

# --- the record -------------------------------------------------------------------------------------------------------


class EventOptions(TypedDict, total=False):
    """How events are read."""

    time: Annotated[
        Required[str],
        Option("The column of timestamps (or of integers; the window is then a plain number)."),
        Flag(EVENTS, "COLUMN", "the time column"),
        Argument("text", "'ts'"),
    ]
    type: Annotated[
        str | None,
        Option("The column of event types; without it every row has the one type that the pattern names."),
        Flag(EVENTS, "COLUMN", "the column of event types; without it, every row has the pattern's one type"),
        Argument("text", "'type'"),
    ]
    partition_by: Annotated[
        str | Sequence[str],
        Option("Attributes on which all events of a match must agree, as `[attr]` in WHERE.", default=(), check=names_of),
        Flag(EVENTS, "COLUMNS", "match within equal values of these, as [a, b] does"),
        Argument("texts", "array('k', 'l')"),
    ]
    order_by: Annotated[
        str | Sequence[str],
        Option(
            "Columns that order events of equal time; without them such events are simultaneous.", default=(), check=names_of
        ),
        Flag(EVENTS, "COLUMNS", "the order of events at the same time"),
        Argument("texts", "array('k', 'l')"),
    ]
    ties: Annotated[
        Literal["error", "arrival"],
        Option(
            'Where a total order is needed and two events tie: "error", or "arrival" to take rows as they come.',
            default="error",
            page="semantics.md#ties",
        ),
        Flag(EVENTS, "", "accept the order of rows for events at the same time"),
    ]
    schema: Annotated[
        Mapping[str, Collection[str]] | None,
        Option("The attributes of each event type, as {type: [attribute, ...]}.", check=_types_of),
        Flag(EVENTS, "FILE", 'JSON: the attributes of each event type, {"Exit": ["tag_id"], ...}'),
        Argument("types", "map('A', array('x'), 'B', array('x', 'y'))"),
    ]
    bad_rows: Annotated[
        Literal["error", "quarantine", "drop"] | None,
        Option(
            "What to do with rows whose time, key or type is NULL, or whose type `schema` does not list: "
            '"error", "quarantine" (set aside, see `run`) or "drop". Without it "error", in a stream "quarantine".',
            page="bad-input.md",
        ),
        Flag(BAD_ROWS, "", "what to do with bad rows (default: error)"),
        Argument("text", "'drop'", "What to do with rows that cannot be read: 'error' (the default) or 'drop'."),
    ]
    params: Annotated[
        Mapping[str, object] | None,
        Option("Values of the names that the query leaves open."),
        Flag("", "NAME=VALUE", "a parameter of the query; may be repeated", "param"),
        Argument("values", "named_struct('low', 5)"),
    ]


class MatchOptions(EventOptions, total=False):
    """How events are read and a query is run: the options of `Query.match`, and of what else matches."""

    plan: Annotated[
        Any,
        Option("Forces the plan's choices, see `kleene.plan.options`.", page="plans.md#options"),
        Flag(PLAN, "KEY=VALUE,...", "force parts of the plan, as mechanism=chain,order=c+a+b; may be repeated"),
        Argument("plan", "'optimized'"),
    ]
    output: Annotated[
        Literal["verbose", "compressed"],
        Option(
            '"verbose" has a row per match; "compressed" the shared match buffer as data, to be counted, sampled and read '
            "with `kleene.count`, `kleene.sample`, `kleene.matches` and `kleene.expand`.",
            default="verbose",
        ),
        Argument("text", "'compressed'", "'verbose', a row per match (the default), or 'compressed'."),
    ]
    columns: Annotated[
        str | Sequence[str],
        Option(
            "The columns that matches are to have, in this order; all of them unless said. Others are not computed: where "
            "matches are many, their ids take as long as finding them, and on Spark receiving all columns takes longer.",
            default=(),
            check=names_of,
        ),
    ]
    scan: Annotated[
        Literal["auto", "direct", "spark"],
        Option(
            'Who reads the Parquet files of a Spark DataFrame: "direct", the tasks that match, by time and without a shuffle; '
            '"spark", which then shuffles; or "auto", the tasks where the answer is sure to be the same.',
            default="auto",
            page="spark.md#files-read-by-the-tasks",
        ),
    ]
    limits: Annotated[
        Any,
        Option(
            "Bounds on live runs, on matches per event and per run, on partial matches, on memory and on the size of "
            'conditions, and what happens at the first two, as {"runs": ..., "matches": ..., "policy": "error" | '
            '"keep_newest" | "sample"}; see `kleene.plan.limits`.',
            page="quickstart.md#9-limits",
        ),
        Flag(
            LIMITS,
            "NAME=N,...",
            "any limits: runs, matches, total, partials, memory (bytes), nodes, condition; may be repeated",
        ),
        Argument("limits", "named_struct('runs', 1000)", "Bounds on runs, matches and memory."),
    ]
    stats: Annotated[
        Any,
        Option(
            'What is known of the events, for the planner: from `statistics`, or as {"rates": {"a": 20}, '
            '"selectivities": {"a.x < b.x": 0.1}}. Without it the planner looks at the events as they come.',
            page="statistics.md",
        ),
        Flag(
            PLAN,
            "FILE",
            'JSON: what is known of the events, as `kleene statistics` writes it, or {"rates": {"a": 20}}',
            "statistics",
        ),
    ]
    watermark: Annotated[
        str | int | None,
        Option(
            'How much later than others events may come, as Spark\'s `withWatermark` has it ("10 seconds"), or a number '
            "where time is one. An event that comes later still is late, see `run`.",
            stream=True,
        ),
        Flag(RUNNING, "TIME", "how much later than others events may come, as '10 seconds'; a number where time is one"),
    ]
    buckets: Annotated[
        int | None,
        Option(
            "Over how many buckets keys are spread; without it as many as there are shuffle partitions.",
            check=_number,
            hint=NUMBER,
            stream=True,
        ),
        Argument("number", "128", "Over how many buckets keys are spread, 128 by default."),
    ]
    max_events: Annotated[
        int,
        Option(
            "How many events, and keys with counters, one bucket may keep. A stream that needs more stops, and loses nothing.",
            default=50_000_000,
            check=_number,
            hint=NUMBER,
            stream=True,
        ),
        Flag(LIMITS, "N", "events that one bucket of keys keeps; a stream that needs more stops (default 50000000)"),
    ]
    on_error: Annotated[
        Literal["stop", "suspend"] | None,
        Option(
            'What a query that fails does: "stop" the stream, or "suspend" that query, which is a row of `problems`, '
            'while the others run on. Without it "stop"; of rules "suspend".',
            stream=True,
        ),
    ]
    budget: Annotated[
        Any,
        Option(
            "What each query may use in one bucket and micro-batch; one that uses more fails. The default is "
            '{"seconds": 60, "matches": 1_000_000, "megabytes": 1_000}; where a failure stops the stream, there is none unless '
            "given.",
            stream=True,
        ),
    ]
    max_ahead: Annotated[
        str | dt.timedelta | None,
        Option(
            'How far ahead of the clock the time of a row may be, as "1 day". One that is further ahead is a bad row and '
            "does not move the watermark. Without it every time counts, as in a table.",
            check=_length,
            hint="give a length of time: max_ahead='1 day'",
            stream=True,
        ),
        Flag(
            RUNNING,
            "TIME",
            "how far ahead of the clock an event may be, as '1 day'; one that is further ahead is a bad row, and does not move "
            "the watermark (default: any time counts)",
        ),
    ]


class ExploreOptions(MatchOptions, total=False):
    """What the explorer takes besides: which events, and how much is on its page."""

    key: Annotated[Any, Option()]
    since: Annotated[Any, Option()]
    until: Annotated[Any, Option()]
    show_matches: Annotated[int, Option(default=100_000, check=_number, hint=NUMBER)]
    show_events: Annotated[int, Option(default=200_000, check=_number, hint=NUMBER)]


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options: what is kept of each."""

    time: str
    type: str | None
    partition_by: tuple[str, ...]
    order_by: tuple[str, ...]
    ties: str
    schema: Mapping[str, frozenset[str]] | None
    bad_rows: str | None
    params: Mapping[str, object] | None
    plan: Any
    output: str
    columns: tuple[str, ...]
    scan: str
    limits: Any
    stats: Any
    watermark: str | int | None
    buckets: int | None
    max_events: int
    on_error: str | None
    budget: Any
    max_ahead: dt.timedelta | None


# --- what follows from it ---------------------------------------------------------------------------------------------

_HINTS: dict[str, Any] = ExploreOptions.__annotations__


def _said(kind: type[Said]) -> dict[str, Said]:
    return {name: said for name, hint in _HINTS.items() for said in hint.__metadata__ if isinstance(said, kind)}


DESCRIBED = _said(Option)
OPTIONS = {name: option for name, option in DESCRIBED.items() if name in MatchOptions.__annotations__}
"""The options of `match`."""
FLAGS = _said(Flag)
"""Those that the command line has."""
ARGUMENTS = _said(Argument)
"""Those that SQL has."""


@cache
def allowed(name: str) -> tuple[Any, ...]:
    """The values of an option that has few.

    >>> allowed("ties"), allowed("time")
    (('error', 'arrival'), ())
    """
    kind = _HINTS[name].__origin__
    return next((get_args(part) for part in (kind, *get_args(kind)) if get_origin(part) is Literal), ())


def options_of(given: Mapping[str, object]) -> Options:
    """Checked options from what a user gave.

    >>> options_of({"time": "ts", "partition_by": "k"}).partition_by
    ('k',)
    """
    return Options(**checked(MatchOptions, given))


def checked(record: type, given: Mapping[str, object]) -> dict[str, Any]:
    """What is kept of all options of a record, from those that were given."""
    known = record.__annotations__
    for name in given:
        if name not in known:
            raise BindingError(Problem(f"unknown option '{name}'", hint=nearest(name, known)))
    if "time" not in given:
        raise BindingError(Problem("the option 'time' is missing", hint="name the column of timestamps: time='ts'"))
    kept: dict[str, Any] = {}
    problems: list[Problem] = []
    for name in known:
        option, values = DESCRIBED[name], allowed(name)
        value = given.get(name, option.default)
        if values and value != option.default and value not in values:
            problems.append(Problem(f"{name} cannot be {value!r}", hint=nearest(str(value), values)))
        try:
            kept[name] = option.check(value)
        except ValueError as error:
            why = f": {error}" if str(error) else ""
            problems.append(Problem(f"{name} cannot be {value!r}{why}", hint=option.hint))
    if given.get("columns") and given.get("output", "verbose") != "verbose":
        message = f"columns= cannot be combined with output={given['output']!r}"
        problems.append(Problem(message, hint="leave out columns="))
    if problems:
        raise BindingError(problems)
    return kept


def takes_options(record: type) -> Callable[[Taker], Taker]:
    """Says of a function with `**options: Unpack[record]` which these are, to `help`, `inspect.signature` and notebooks.

    A docstring that ends with a list of arguments continues with the options.
    """

    def described(taker: Taker) -> Taker:
        signature = inspect.signature(taker)
        own = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
        options = [_PARAMETERS[name] for name in record.__annotations__]
        taker.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
        if "Args:" in (taker.__doc__ or ""):
            taker.__doc__ = "\n".join([inspect.cleandoc(taker.__doc__ or ""), *map(_described, record.__annotations__)])
        return taker

    return described


def _parameter(name: str) -> inspect.Parameter:
    kind, default = _HINTS[name].__origin__, DESCRIBED[name].default
    if get_origin(kind) is Required:
        kind, default = get_args(kind)[0], inspect.Parameter.empty
    shown = re.sub(r"Optional\[(.*)\]$", r"\1 | None", inspect.formatannotation(kind))
    shown = shown.replace("collections.abc.", "").replace("datetime.", "dt.")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown)


_PARAMETERS = {name: _parameter(name) for name in DESCRIBED}


def _described(name: str) -> str:
    return textwrap.fill(f"{name}: {DESCRIBED[name].sentence}", 120, initial_indent=" " * 4, subsequent_indent=" " * 8)


def known_statistics(given: Any) -> Any:
    """Statistics as a user wrote them, with conditions as the language prints them."""
    if not isinstance(given, Mapping) or not isinstance(given.get("selectivities"), Mapping):
        return given
    return {**given, "selectivities": {_canonical(str(text)): value for text, value in given["selectivities"].items()}}


def _canonical(text: str) -> str:
    from kleene.language.parser import parse
    from kleene.pattern.text import expression_text

    try:
        condition = parse(f"PATTERN A a WHERE {text}").where
    except QuerySyntaxError:
        return text
    return text if condition is None else expression_text(condition)
