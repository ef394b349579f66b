"""Case files: small text blocks with events, a query and the complete expected answer; `case_routes` runs them.

A file holds one or more cases. A line that starts at the margin opens a block; the lines of a block are indented. `#` starts a
comment line, blank lines are ignored.

    case two letters in order            the title; opens a case
    routes oracle                        only these routes (default: every route)
    events                               one event per line: label, then attributes; a1b is of type A at ts 1
      a1 k=1 x=2
      b2 k=1 x=NULL s='two words'
    options                              one per line, all optional
      time ts                            the time column (default ts)
      type type                          the type column (default type; `none`: the stream has one type)
      types s=Shelf e=Exit               what the letters of labels stand for (default: the letters in upper case)
      unit hours                         label numbers are hours after `start`, and ts is a timestamp
      start 2026-01-01T00:00:00
      columns x=float                    kinds of columns where inference from the values does not do
      order_by seq, x
      partition_by k
      ties arrival
      bad_rows drop
      params limit=3
      schema A: k, x                     attributes of a type, one line a type
    query
      PATTERN SEQ(A a, B+ b[]) WHERE [k] WITHIN 5
    matches                              every match; Kleene variables as lists; `none` if there is none
      a=a1 b=[b2]

Instead of `matches`, or besides it: `count 3`; `returns` with lines `name=value ...`; `aggregates` with lines `at=3 count=1`,
group columns included; `error BindingError: fragment | fragment`; `plan` with one fragment of the plan's text a line. Events
can also be a table: a header `| event | type | ts | k |` and rows in the same form; without an `event` column the labels are
e1, e2, ...

What can be seen of an automaton (SASE+, Figures 2 and 4 to 6), each as a complete list:

    automaton basic                      its states and edges as steps 1-4 give them; `optimized`: after steps 5 and 6
      states a b F
      a begin b: a.type = 'A'
    runs e4                              the live runs after an event; what a line names is compared, all lines name the same
      version=1.0 state=a[i] start=e1 a=[e1,e2] sum(a.price)=220 merged=1
    buffer e4                            the stacks after an event that are not empty: event(version->predecessor@stack ...)
      a[1]: e1(1)
      a[i]: e2(1.0->e1@a[1])

Several queries, and how they are planned together (multi-pattern paper, Figures 2 to 9); needs no events:

    workload                             instead of `query`, a query a line
      P1: PATTERN SEQ(A a, B b, C c) WITHIN 10
      P2: PATTERN SEQ(A x, B y, D z) WITHIN 20
    statistics                           events of each type per unit of time; shares that satisfy conditions
      A=1 B=2 C=1 D=3
      0.1 A.x < B.x
    graph                                all maximal common sub-patterns and who has them; `graph 1`: also of one component
      SEQ(A, B): P1 P2
    trees tree                           a plan, given as orders or trees (`multitree`), `apart` if nothing is shared
      P1: a b c
      P2: (x y) z
    search multitree annealing           or made by a search
    nodes                                all inner nodes of the plan, who uses them, their windows
      SEQ(A, B): P1 P2 within 20
    costs                                expected instances, as the paper counts them
      instances 9420
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Labels = dict[str, str | tuple[str, ...]]
"""A match: variable to the label of its event, to a tuple of labels for a Kleene variable."""

BLOCKS = ("events", "options", "query", "matches", "returns", "aggregates", "plan", "automaton", "runs", "buffer")
GIVEN = ("statistics", "trees", "search")
"""What a case says of a workload before it is planned."""
PLANNED = ("graph", "nodes", "costs")
"""What it expects of the plan."""
WORKLOAD_BLOCKS = ("workload", *GIVEN, *PLANNED)
STAGES = ("basic", "optimized")
LABEL = re.compile(r"([A-Za-z_]+?)(\d+)([a-z]*)")
RUN_PAIR = re.compile(r"(\S+?)=('(?:[^']|'')*'|\[[^\]]*\]|[^\s=]+)(?=\s|$)")
RUN_TEXTS = ("version", "state", "start")
"""What is text of a run, whatever it looks like."""
PAIR = re.compile(r"([A-Za-z_][\w.-]*)=('(?:[^']|'')*'|\[[^\]]*\]|[^\s=]+)(?=\s|$)")
UNITS = ("microseconds", "milliseconds", "seconds", "minutes", "hours", "days")
KINDS = ("int", "float", "string", "bool", "timestamp")


class CaseError(ValueError):
    """A case file is not well formed; the message starts with file:line."""


@dataclass(frozen=True, slots=True)
class Options:
    """How the events of a case are to be read, as the public API takes it."""

    time: str = "ts"
    type: str | None = "type"
    order_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    ties: str = "error"
    bad_rows: str = "error"
    params: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, frozenset[str]] | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a case says of the answer; None where it says nothing."""

    matches: tuple[Labels, ...] | None = None
    count: int | None = None
    returns: tuple[Row, ...] | None = None
    aggregates: tuple[Row, ...] | None = None
    error: tuple[str, tuple[str, ...]] | None = None
    """The name of the error class, and fragments of its text."""
    plan: tuple[str, ...] | None = None
    automaton: tuple[str, tuple[str, ...]] | None = None
    """A stage, and the lines of the automaton."""
    runs: tuple[str, tuple[Row, ...]] | None = None
    """An event, and what is said of each run that is alive after it."""
    buffer: tuple[str, tuple[str, ...]] | None = None
    """An event, and the stacks after it."""
    planned: Mapping[str, tuple[str, tuple[str, ...]]] | None = None
    """Of a workload, for each block of PLANNED: its heading and its lines."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a file."""

    title: str
    path: Path
    line: int
    routes: tuple[str, ...]
    """Names of the routes it is for; empty for every route."""
    events: tuple[Row, ...]
    """The events with their label in `event`."""
    columns: Mapping[str, str]
    """Columns in order, with their kinds."""
    options: Options
    query_text: str
    expected: Expected
    workload: Mapping[str, str] = field(default_factory=dict)
    """Queries by name, instead of one query."""
    given: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """Of a workload, for each block of GIVEN: its heading and its lines."""

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    def runs_on(self, route: str) -> bool:
        """Whether the case is for a route; `embedded` also stands for `embedded-split` and the like. A workload is for
        `workload` only.
        """
        if self.workload or route == "workload":
            return bool(self.workload) and route == "workload"
        return not self.routes or any(route == name or route.startswith(f"{name}-") for name in self.routes)

    def table(self) -> pa.Table:
        """The events as an Arrow table, in the order of the file."""
        import pyarrow as pa

        kinds = {
            "int": pa.int64(),
            "float": pa.float64(),
            "string": pa.string(),
            "bool": pa.bool_(),
            "timestamp": pa.timestamp("us", tz="UTC"),
        }
        schema = pa.schema([(name, kinds[kind]) for name, kind in self.columns.items()])
        return pa.Table.from_pylist([{name: row.get(name) for name in self.columns} for row in self.events], schema=schema)


def load(path: Path | str) -> list[Case]:
    """The cases of a file; raises CaseError with file:line."""
    return list(parse_cases(Path(path).read_text(encoding="utf-8"), Path(path)))


def load_all(folder: Path | str) -> list[Case]:
    """The cases of all `*.case` files under a folder, in order of their paths."""
    return [case for path in sorted(Path(folder).rglob("*.case")) for case in load(path)]


# --- blocks -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Block:
    """A heading at the margin and the indented lines under it, with their line numbers."""

    word: str
    rest: str
    number: int
    lines: list[tuple[int, str]]


def parse_cases(text: str, path: Path) -> Iterator[Case]:
    """The cases of a file's text."""
    blocks = _blocks(text, path)
    if blocks and blocks[0].word != "case":
        raise _error(path, blocks[0].number, f"expected 'case <title>', found '{blocks[0].word}'")
    starts = [index for index, block in enumerate(blocks) if block.word == "case"]
    for begin, end in zip(starts, [*starts[1:], len(blocks)], strict=True):
        yield _case(blocks[begin], blocks[begin + 1 : end], path)


def _blocks(text: str, path: Path) -> list[_Block]:
    blocks: list[_Block] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] in " \t":
            if not blocks:
                raise _error(path, number, "an indented line outside a block")
            blocks[-1].lines.append((number, line.strip()))
            continue
        word, _, rest = line.strip().partition(" ")
        if word not in (*BLOCKS, *WORKLOAD_BLOCKS, "case", "routes", "count", "error"):
            known = ", ".join(("case", "routes", *BLOCKS, *WORKLOAD_BLOCKS, "count", "error"))
            raise _error(path, number, f"unknown block '{word}'; known: {known}")
        blocks.append(_Block(word, rest.strip(), number, []))
    return blocks


def _error(path: Path, number: int, message: str) -> CaseError:
    return CaseError(f"{path}:{number}: {message}")


def _case(head: _Block, blocks: list[_Block], path: Path) -> Case:
    found: dict[str, _Block] = {}
    for block in blocks:
        if block.word in found:
            raise _error(path, block.number, f"a second '{block.word}' block in one case")
        found[block.word] = block
    for word in ("workload",) if "workload" in found else ("events", "query"):
        if word not in found:
            raise _error(path, head.number, f"case '{head.rest}' has no '{word}' block")
    expected = _expected(found, path)
    if expected == Expected():
        kinds = "matches, count, returns, aggregates, error, plan, automaton, runs, buffer, graph, nodes or costs"
        raise _error(path, head.number, f"case '{head.rest}' expects nothing: add {kinds}")
    settings = _settings(found.get("options"), path)
    listed = found.get("events", _Block("events", "", head.number, []))
    events = _events(listed, settings, path)
    case = Case(
        head.rest,
        path,
        head.number,
        tuple(re.split(r"[,\s]+", found["routes"].rest)) if "routes" in found else (),
        tuple(events),
        _columns(events, settings, path, listed.number),
        settings.options,
        "\n".join(line for _, line in found["query"].lines) if "query" in found else "",
        expected,
        _named_queries(found.get("workload"), path),
        _raw(found, GIVEN),
    )
    _check_labels(case, found)
    return case


def _named_queries(block: _Block | None, path: Path) -> dict[str, str]:
    queries: dict[str, str] = {}
    for number, line in block.lines if block else ():
        name, colon, text = line.partition(":")
        if not colon or name in queries:
            raise _error(path, number, f"expected 'name: query', each name once, found '{line}'")
        queries[name] = text.strip()
    return queries


def _raw(found: dict[str, _Block], words: tuple[str, ...]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Blocks as they are written, by their words."""
    return {word: (found[word].rest, tuple(line for _, line in _content(found[word]))) for word in words if word in found}


def _check_labels(case: Case, found: dict[str, _Block]) -> None:
    labels = [row["event"] for row in case.events]
    for label in labels:
        if labels.count(label) > 1:
            raise _error(case.path, found["events"].number, f"two events are labelled '{label}'")
    for (number, _), match in zip(_content(found.get("matches")), case.expected.matches or (), strict=True):
        for value in match.values():
            for label in value if isinstance(value, tuple) else (value,):
                if label not in labels:
                    raise _error(case.path, number, f"no event is labelled '{label}'")
    for word in ("runs", "buffer"):
        if word in found and found[word].rest not in labels:
            raise _error(
                case.path, found[word].number, f"expected '{word} EVENT', but no event is labelled '{found[word].rest}'"
            )


# --- values and rows --------------------------------------------------------------------------------------------------


def value_of(text: str) -> Any:
    """A value as written: NULL, true, a number, 'text', a timestamp (UTC), or bare text.

    >>> value_of("NULL"), value_of("2.5"), value_of("'a b'"), value_of("food")
    (None, 2.5, 'a b', 'food')
    """
    if text == "NULL":
        return None
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text.startswith("["):
        return [value_of(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    for make in (int, float, _timestamp):
        try:
            return make(text)
        except ValueError:
            continue
    return text


def _timestamp(text: str) -> dt.datetime:
    if not re.match(r"\d{4}-\d\d-\d\dT", text):
        raise ValueError(text)
    moment = dt.datetime.fromisoformat(text)
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _pairs(text: str, path: Path, number: int, form: re.Pattern[str] = PAIR) -> dict[str, str]:
    """`a=1 b='x y'` as raw texts by name."""
    left = form.sub("", text).strip()
    if left:
        raise _error(path, number, f"expected name=value, found '{left}'")
    return {match[1]: match[2] for match in form.finditer(text)}


def _events(block: _Block, settings: _Settings, path: Path) -> list[Row]:
    if block.lines and block.lines[0][1].startswith("|"):
        return _table_events(block, path)
    return [_labelled_event(line, settings, path, number) for number, line in block.lines]


def _table_events(block: _Block, path: Path) -> list[Row]:
    rows: list[Row] = []
    names = _cells(block.lines[0][1])
    for number, line in block.lines[1:]:
        cells = _cells(line)
        if len(cells) != len(names):
            raise _error(path, number, f"expected {len(names)} cells ({', '.join(names)}), found {len(cells)}")
        row = {name: value_of(cell) for name, cell in zip(names, cells, strict=True)}
        row["event"] = str(row.get("event", f"e{len(rows) + 1}"))
        rows.append(row)
    return rows


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _labelled_event(line: str, settings: _Settings, path: Path, number: int) -> Row:
    label, _, rest = line.partition(" ")
    parts = LABEL.fullmatch(label)
    if parts is None:
        raise _error(path, number, f"expected a label such as a1 (type A, ts 1), found '{label}'")
    options = settings.options
    row: Row = {"event": label}
    if options.type is not None:
        row[options.type] = settings.types.get(parts[1], parts[1].upper())
    row[options.time] = settings.moment(int(parts[2]))
    row.update({name: value_of(value) for name, value in _pairs(rest, path, number).items()})
    return row


def _columns(events: list[Row], settings: _Settings, path: Path, number: int) -> dict[str, str]:
    """The kind of every column, declared or inferred from its values."""
    columns: dict[str, str] = {"event": "string"}
    options = settings.options
    roles = [options.time, *([options.type] if options.type else []), *options.order_by]
    names = dict.fromkeys([*roles, *settings.columns, *(name for row in events for name in row)])
    for name in names:
        values = [row[name] for row in events if row.get(name) is not None]
        columns[name] = settings.columns.get(name) or _kind_of(name, values, path, number)
        if name == options.time and not values and settings.unit:
            columns[name] = "timestamp"
        if name == options.type and not values:
            columns[name] = "string"
        if columns[name] == "float":
            for row in events:
                row[name] = None if row.get(name) is None else float(row[name])
    return columns


def _kind_of(name: str, values: list[Any], path: Path, number: int) -> str:
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return "float"
    if len(kinds) > 1:
        raise _error(path, number, f"column '{name}' mixes {', '.join(sorted(kind.__name__ for kind in kinds))}")
    by_type = {int: "int", float: "float", str: "string", bool: "bool", dt.datetime: "timestamp"}
    return by_type[kinds.pop()] if kinds else "int"


# --- options ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Settings:
    """Options of a case, with those that only say how the file is to be read."""

    options: Options
    types: dict[str, str]
    columns: dict[str, str]
    unit: str | None
    start: dt.datetime

    def moment(self, number: int) -> int | dt.datetime:
        return number if self.unit is None else self.start + dt.timedelta(**{self.unit: number})


def _settings(block: _Block | None, path: Path) -> _Settings:
    chosen: dict[str, Any] = {}
    settings = _Settings(Options(), {}, {}, None, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    schema: dict[str, frozenset[str]] = {}
    for number, line in block.lines if block else ():
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if word in ("order_by", "partition_by"):
            chosen[word] = _names(rest)
        elif word in ("time", "ties", "type", "bad_rows"):
            chosen[word] = None if (word, rest) == ("type", "none") else rest
        elif word == "params":
            chosen[word] = {name: value_of(text) for name, text in _pairs(rest, path, number).items()}
        elif word == "schema":
            event_type, colon, names = rest.partition(":")
            if not colon:
                raise _error(path, number, "expected 'schema Type: attribute, attribute'")
            schema[event_type.strip()] = frozenset(_names(names))
        elif word == "types":
            settings.types.update(_pairs(rest, path, number))
        elif word == "columns":
            settings.columns.update(_chosen_kinds(_pairs(rest, path, number), path, number))
        elif word == "unit" and rest in UNITS:
            settings.unit = rest
        elif word == "start":
            settings.start = _timestamp(rest)
        else:
            raise _error(path, number, f"unknown option '{line}'")
    if schema:
        chosen["schema"] = schema
    settings.options = Options(**chosen)
    return settings


def _chosen_kinds(columns: dict[str, str], path: Path, number: int) -> dict[str, str]:
    for name, kind in columns.items():
        if kind not in KINDS:
            raise _error(path, number, f"column '{name}' has unknown kind '{kind}'; known: {', '.join(KINDS)}")
    return columns


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in re.split(r"[,\s]+", text.strip()) if name)


# --- expectations -----------------------------------------------------------------------------------------------------


def _content(block: _Block | None) -> list[tuple[int, str]]:
    return [] if block is None else [item for item in block.lines if item[1] not in ("none", "(none)")]


def _expected(found: dict[str, _Block], path: Path) -> Expected:
    known: dict[str, Any] = {}
    for word, block in found.items():
        if word in READ and not block.lines:
            raise _error(path, block.number, f"the '{word}' block is empty; write 'none' if nothing is expected")
        if word in READ:
            known[word] = tuple(READ[word](line, path, number) for number, line in _content(block))
    if "count" in found:
        if not found["count"].rest.isdigit():
            raise _error(path, found["count"].number, f"expected 'count N', found 'count {found['count'].rest}'")
        known["count"] = int(found["count"].rest)
    if "automaton" in found and found["automaton"].rest not in STAGES:
        message = f"expected 'automaton {' | '.join(STAGES)}', found 'automaton {found['automaton'].rest}'"
        raise _error(path, found["automaton"].number, message)
    runs = known.get("runs", ())
    if any(run.keys() != runs[0].keys() for run in runs):
        raise _error(path, found["runs"].number, "the lines of a 'runs' block must all name the same")
    known |= {word: (found[word].rest, known[word]) for word in INSPECTED if word in found}
    error = _expected_error(found["error"]) if "error" in found else None
    return Expected(**known, error=error, planned=_raw(found, PLANNED) or None)


def _values(line: str, path: Path, number: int) -> Row:
    return {name: value_of(text) for name, text in _pairs(line, path, number).items()}


def _line(line: str, _path: Path, _number: int) -> str:
    return line


def _run_pairs(line: str, path: Path, number: int) -> Row:
    pairs = _pairs(line, path, number, RUN_PAIR).items()
    return {name: text if name in RUN_TEXTS else value_of(text) for name, text in pairs}


def _labels(line: str, path: Path, number: int) -> Labels:
    match: Labels = {}
    for name, text in _pairs(line, path, number).items():
        match[name] = tuple(_names(text[1:-1])) if text.startswith("[") else text
    return match


READ: dict[str, Callable[[str, Path, int], Any]] = {
    "matches": _labels,
    "returns": _values,
    "aggregates": _values,
    "plan": _line,
    "automaton": _line,
    "runs": _run_pairs,
    "buffer": _line,
}
"""How a line of each block is read."""
INSPECTED = ("automaton", "runs", "buffer")
"""The blocks about an automaton and its runs, whose headings name something."""


def _expected_error(block: _Block) -> tuple[str, tuple[str, ...]]:
    kind, _, fragments = block.rest.partition(":")
    return kind.strip(), tuple(part.strip() for part in fragments.split("|") if part.strip())
