"""Arguments that several commands share: the query, the roles of columns, parameters, the plan, and how values are written."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kleene.common.errors import DataError, Problem, decoded_text
from kleene.interfaces.options import FLAGS, LIMITS, OPTIONS, allowed

if TYPE_CHECKING:
    import pyarrow as pa

    from kleene.interfaces.workload.workload import Workload
    from kleene.pattern.registered import Function


class UsageError(Exception):
    """An error in the command line that argparse cannot detect."""


COLUMN_TYPES = ("int", "float", "string", "bool", "timestamp")
_ARROW_NAMES = {"int": "int64", "float": "float64", "string": "string", "bool": "bool"}


def add_inputs(parser: argparse.ArgumentParser, then: str = "then the events, in time order", **changes: Any) -> None:
    """The files of a query and of events as positional arguments, and `-q TEXT`; `changes` are what a command says of them."""
    said = {"metavar": "QUERY EVENTS", "nargs": "+", "help": f"the query's file (or -), unless -q is given; {then}"}
    parser.add_argument("inputs", **{**said, **changes})
    add_query(parser)


def add_query(parser: argparse.ArgumentParser) -> None:
    """`-q TEXT`; a query file is a positional argument."""
    parser.add_argument("-q", "--query", metavar="TEXT", help="the query itself, instead of a file")


def add_others(parser: argparse.ArgumentParser) -> None:
    """`--with FILE`: the queries that produce events for the query."""
    parser.add_argument(
        "--with",
        dest="others",
        metavar="FILE",
        action="append",
        default=[],
        help="a query whose RETURN ... INTO events the query reads; may be repeated",
    )


def add_functions(parser: argparse.ArgumentParser) -> None:
    """`--functions SOURCE`: Python functions that queries call."""
    parser.add_argument(
        "--functions",
        metavar="SOURCE",
        action="append",
        default=[],
        help="a Python file (file.py) or module (package.module) to import: queries may call what @kleene.function "
        "defines in it, or the one after a colon (file.py:name); may be repeated",
    )


def functions(arguments: argparse.Namespace) -> tuple[Function, ...]:
    """The functions of `--functions`, for `kleene.query`."""
    from kleene.interfaces.functions import functions_of, load_functions

    return functions_of([item for source in arguments.functions for item in load_functions(source)])


def add_limits(parser: argparse.ArgumentParser) -> argparse._ActionsContainer:
    """Bounds on what a query keeps and reports."""
    group = parser.add_argument_group(LIMITS)
    group.add_argument("--limit-runs", metavar="N", type=count, help="live runs of one partition (default 1000000)")
    group.add_argument("--limit-matches", metavar="N", type=count, help="matches that end at one event (default 1000000)")
    add_options(group, LIMITS)
    group.add_argument(
        "--at-limit",
        choices=["error", "keep-newest", "sample"],
        help="fail (default), keep the runs that started last, or keep a random sample",
    )
    return group


def statistics(path: str) -> dict[str, Any]:
    """The statistics for the query itself, not for those of `--with`."""
    found = _json(path)
    if not isinstance(found, dict):
        hint = 'write what `kleene statistics` prints, or for example {"rates": {"a": 20}}'
        raise DataError(Problem(f"{path}: statistics must be a JSON object", hint=hint))
    return found


def add_running(parser: argparse.ArgumentParser) -> None:
    """Options for reading events."""
    group = parser.add_argument_group("how it runs")
    group.add_argument(
        "--unsorted", action="store_true", help="the events are not in time order: read them all and sort them first"
    )
    add_engine(group, "in this process (default), or on Spark")


def add_engine(group: argparse._ActionsContainer, help: str) -> None:
    """`--engine` and `--master`."""
    group.add_argument("--engine", choices=["embedded", "spark"], default="embedded", help=help)
    add_master(group)


def add_master(group: argparse._ActionsContainer) -> None:
    """`--master`."""
    group.add_argument("--master", default="local[*]", help="Spark's master (default: local[*])")


def add_columns(parser: argparse._ActionsContainer, help: str = "the event columns, such as ts:timestamp,id:string") -> None:
    """`--columns`: the columns of events by name and type."""
    parser.add_argument("--columns", metavar="NAME:TYPE,...", type=columns, help=help)


def add_range(parser: argparse.ArgumentParser) -> None:
    """`--key`, `--since` and `--until`: a selection of events."""
    some = parser.add_argument_group("which events")
    key = partial(pair, form="COLUMN=VALUE")  # the value stays text, and is read as the column's type
    some.add_argument(
        "--key", metavar="COLUMN=VALUE", type=key, action="append", default=[], help="only this value; may be repeated"
    )
    some.add_argument("--since", metavar="TIME", help="from this time on")
    some.add_argument("--until", metavar="TIME", help="up to this time, itself included")


def described_events(arguments: argparse.Namespace) -> Any:
    """The events of the file, or the schema of the given columns; None without either."""
    if arguments.events is not None and arguments.columns is not None:
        raise UsageError("give a file of events or --columns, not both")
    if arguments.columns is not None:
        return arrow_schema(arguments.columns)
    if arguments.events is None:
        return None

    from kleene.runtime.files import open_events

    return open_events(arguments.events)


def range_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The selection of events, for `why_not` and `explore`."""
    return {"key": dict(arguments.key) or None, "since": arguments.since, "until": arguments.until}


def pair(text: str, form: str = "NAME=VALUE") -> tuple[str, str]:
    """A name and a value, both text.

    >>> pair("maxFilesPerTrigger=10")
    ('maxFilesPerTrigger', '10')
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"expected {form}, found {text!r}")
    return name, value


def query_and_events(arguments: argparse.Namespace) -> tuple[str | None, list[str]]:
    """The query's file, if it is not after `-q`, and those of the events."""
    source, *paths = arguments.inputs if arguments.query is None else (None, *arguments.inputs)
    if not paths:
        raise UsageError("a file of events is required after the query")
    return source, paths


def query_text(text: str | None, source: str | None) -> tuple[str, str]:
    """The query's name and text, from `-q`, a file, or standard input for `-`."""
    if text is not None:
        return "query", text
    if source is None:
        raise UsageError("a query is required: a file, `-` for standard input, or -q TEXT")
    if source == "-":
        return "query", decoded_text(sys.stdin.buffer.read(), "standard input")
    path = Path(source)
    if not path.exists() and source.lstrip()[:7].upper().startswith(("PATTERN", "EVENT ")):
        raise UsageError(f"there is no file {source!r}; a query on the command line goes after -q")
    return path.stem, decoded_text(path.read_bytes(), source)


def run_queries(name: str, text: str, others: list[str], functions: Sequence[Function] = ()) -> Workload:
    """The query and those of `--with`, each of which must produce events for it; all may call the functions."""
    from kleene.interfaces.query import query
    from kleene.interfaces.workload.workload import workload

    sources = [query_text(None, other) for other in others]
    given = [query(text, name=name), *(query(source, name=own) for own, source in sources)]
    found = workload(given, functions=functions)
    needed, waiting = set[str](), [name]
    while waiting:
        producers = set(found.producers(waiting.pop())) - needed
        needed |= producers
        waiting += producers
    for own, _ in sources:
        into = found[own].logical.into
        if into is None:
            raise UsageError(f"--with takes queries that produce events, but '{own}' has no RETURN ... INTO")
        if own not in needed:
            raise UsageError(f"--with: '{own}' produces events of type '{into}', which '{name}' does not read")
    return found


def by_name(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options for several queries, of which statistics are known of the one that is asked."""
    return {**options, "stats": {name: options["stats"]}} if "stats" in options else options


def event_types(path: str) -> dict[str, frozenset[str]]:
    """The attributes of each event type, from a JSON file."""
    found = _json(path)
    lists = isinstance(found, dict) and all(isinstance(item, list) for item in found.values())
    if not lists or not all(isinstance(name, str) for item in found.values() for name in item):
        hint = 'for example {"Exit": ["tag_id"], "Shelf": ["tag_id", "shelf_id"]}'
        raise DataError(Problem(f"{path}: expected an object with a list of attribute names per event type", hint=hint))
    return {name: frozenset(attributes) for name, attributes in found.items()}


def names(text: str) -> tuple[str, ...]:
    """Column names separated by commas.

    >>> names("a, b")
    ('a', 'b')
    """
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise argparse.ArgumentTypeError(f"expected column names separated by commas, found {text!r}")
    return parts


def setting(text: str) -> tuple[str, Any]:
    """`name=value`, the value read by `value_of`.

    >>> setting("limit=10")
    ('limit', 10)
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    return name.strip(), value_of(value)


def settings(text: str) -> dict[str, Any]:
    """`name=value,name=value`; the variables of `order` are separated by plus signs or by commas.

    >>> settings("mechanism=chain,order=c+a+b"), settings("order=c,a,b,adaptive=false")
    ({'mechanism': 'chain', 'order': ['c', 'a', 'b']}, {'order': ['c', 'a', 'b'], 'adaptive': False})
    """
    found: dict[str, Any] = {}
    name = ""
    for part in (piece.strip() for piece in text.split(",")):
        if name == "order" and "=" not in part:
            found[name] += _variables(part)
        elif part:
            name, value = setting(part)
            found[name] = _variables(part.partition("=")[2]) if name == "order" else value
    return found


def _variables(text: str) -> list[str]:
    found = [name.strip() for name in text.split("+")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"expected an order of variables such as order=c+a+b, found {text.strip()!r}")
    return found


def value_of(text: str) -> Any:
    """A number, true, false, null, a list or a quoted string in JSON; anything else is plain text.

    >>> value_of("0.5"), value_of("true"), value_of("[1, 2]"), value_of("food")
    (0.5, True, [1, 2], 'food')
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def columns(text: str) -> list[tuple[str, str]]:
    """`name:type` pairs separated by commas.

    >>> columns("ts:timestamp,id:string")
    [('ts', 'timestamp'), ('id', 'string')]
    """
    pairs = []
    for part in text.split(","):
        name, colon, kind = (piece.strip() for piece in part.rpartition(":"))
        if not colon or not name or kind not in COLUMN_TYPES:
            expected = f"NAME:TYPE with a type of {', '.join(COLUMN_TYPES)}"
            raise argparse.ArgumentTypeError(f"expected {expected}, found {part.strip()!r}")
        pairs.append((name, kind))
    return pairs


def arrow_schema(pairs: list[tuple[str, str]]) -> pa.Schema:
    """The Arrow schema of `columns`."""
    import pyarrow as pa

    timestamp = pa.timestamp("us", tz="UTC")
    return pa.schema([(name, timestamp if kind == "timestamp" else _ARROW_NAMES[kind]) for name, kind in pairs])


def number(expected: str, accepts: Callable[[float], bool]) -> Callable[[str], float]:
    """Reads numbers of a kind; NaN is of none.

    >>> number("a number of seconds", lambda seconds: seconds >= 0)("2.5")
    2.5
    """

    def read(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = float("nan")
        if not accepts(found):
            raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}")
        return found

    return read


def count(text: str) -> int:
    """A non-negative number.

    >>> count("12")
    12
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}")
    return int(text)


def _merged(given: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for item in given for name, value in item.items()}


# --- the options of `match` -------------------------------------------------------------------------------------------

_READ: dict[str, dict[str, Any]] = {
    "COLUMNS": {"type": names},
    "N": {"type": count},
    "NAME=VALUE": {"type": setting, "action": "append", "default": []},
    "NAME=N,...": {"type": settings, "action": "append", "default": []},
    "KEY=VALUE,...": {"type": settings, "action": "append", "default": []},
}
"""How what follows a flag is read, by what the help calls it; otherwise it is text."""

_MADE: dict[str, Callable[[Any], Any]] = {
    "schema": event_types,
    "stats": statistics,
    "params": dict,
    "plan": _merged,
    "limits": _merged,
}
"""What an option is of what was read, if that is not the option itself."""


def add_options(
    parser: argparse._ActionsContainer, title: str = "", *, stream: bool = False, **changes: dict[str, Any]
) -> argparse._ActionsContainer:
    """The options of `match` under a title: those of streams, or the others; `changes` are what a command says of some."""
    group = parser.add_argument_group(title) if title and isinstance(parser, argparse.ArgumentParser) else parser
    for option, flag in FLAGS.items():
        if flag.group == title and OPTIONS[option].stream == stream:
            read = {"metavar": flag.metavar, **_READ.get(flag.metavar, {})} if flag.metavar else {"choices": allowed(option)}
            words = (flag.name or option).replace("_", "-")
            group.add_argument(f"--{words}", **{"help": flag.help, **read, **changes.get(option, {})})
    return group


def options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of `match` that were given, as it takes them."""
    found: dict[str, Any] = {}
    for name, flag in FLAGS.items():
        value = getattr(arguments, flag.name or name, None)
        if value is not None and value != []:
            found[name] = _MADE[name](value) if name in _MADE else value
    if getattr(arguments, "compressed", False):
        found["output"] = "compressed"
    if hasattr(arguments, "at_limit"):
        policy = arguments.at_limit and arguments.at_limit.replace("-", "_")
        own = {"runs": arguments.limit_runs, "matches": arguments.limit_matches, "policy": policy}
        given = {name: value for name, value in own.items() if value is not None}
        if given:
            found["limits"] = {**found.get("limits", {}), **given}
    return found


def _json(path: str) -> Any:
    try:
        return json.loads(decoded_text(Path(path).read_bytes(), path))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
