"""Texts that somebody may give for a query: those of the docs and tests, changed at random, and noise; what becomes of each.

Every text is a query or a KleeneError, within a second of CPU time. What is a query is printed to a text that is the same
query, and is checked, bound to columns and planned with the same outcome. Run as a script, it tries as many texts as asked:

    python tests/support/text_fuzz.py 200000
"""

# ruff: noqa: RUF001 - signs of the language
from __future__ import annotations

import ast
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pyarrow as pa

import kleene
from kleene.common.errors import KleeneError
from kleene.interfaces.options import options_of
from kleene.language.parser import parse
from kleene.language.printer import to_text

ROOT = Path(__file__).parents[2]
SECONDS, PLANNED_SECONDS = 1.0, 10.0
"""Of CPU time for one text, and for one that is planned, too: so much again for each `LONG` characters."""
LONG = 20_000
HANGS = 30.0
"""After so many seconds of CPU time a text is given up."""
LONGEST = 1 << 20
"""Characters of a mutant."""
PLANNED = 10
"""One of so many texts that are queries is also planned."""

_FLOATS, _TEXTS = ("price", "speed", "value", "amount"), ("s", "name", "tag_id", "user", "symbol", "city")

_TOKEN = re.compile(r"\s+|\w+|'[^']*'|.", re.DOTALL)
_FRAGMENTS = r"""
PATTERN EVENT SEQ( AND( OR( ANY( KL( NOT ! ~ ( ) [ ] { } < > <= = != , . .. + - * / % ? ; A a b[] WHERE WITHIN 5 80% 1.5
hours 'x' " ` ' /* */ -- // skip_till_next_match strict_contiguity partition_contiguity { } GROUP BY AGG COUNT (*) SUM(
AVG( HAVING EMIT ON CHANGE OUTPUT ALL NON-OVERLAP RETURN INTO AS IN BETWEEN LIKE IS NULL TRUE FALSE TIMESTAMP
'2024-01-01' ∧ ∨ ¬ ∈ ∉ ≠ ≤ ≥ − ‘ ’ “ ” [id] [k] a.x a[i].x a[i-1].x a[1].x a[a.LEN].x a[].x a[..i-1].x a.LEN sum( count(
avg( + * ? {2,3} {0,1} {1000000} A+ A* A? ANY(A,B) 0 1 -1 9223372036854775807 9223372036854775808 1e308 1e309 1e-400 0x1
.5 5. NaN '%' '%_%_%' '\' '' '0001-01-01T00:00:00+01:00' '9999-12-31T23:59:59' 1/0 1/3 days years ms nanoseconds $p :p
@x # ^ & |
"""
_WORDS = _FRAGMENTS.split()
_ODD = (*"\0\n\r\t\x1b\u200b\ufeff\u2028\u0660²ẞİא\u0301🙂", "\ud800", "\udcff")
"""Controls, ends of lines, digits and letters that change their length with their case, halves of characters."""
_NESTED = ("( )", "NOT|( )", "NOT| |", "- |", "SEQ( )", "AND( )", "OR( )", "!( )", "abs( )", "[ ]", "{ }", "< >", "/* */",
           "' '", "1+( )", "a.x|IN|( )")  # fmt: skip
"""What opens and what closes, between blanks; a bar is a blank."""


# --- texts ----------------------------------------------------------------------------------------------------------------


@cache
def corpus() -> tuple[str, ...]:
    """The queries of the docs, the cases and the tests."""
    found: dict[str, None] = {}
    for path in sorted((ROOT / "docs").glob("*.md")):
        for block in re.findall(r"```.*?```", path.read_text(encoding="utf-8"), re.DOTALL):
            found |= dict.fromkeys(_texts_in(block))
    for path in sorted((ROOT / "tests").rglob("*.case")):
        found |= dict.fromkeys(_texts_in(path.read_text(encoding="utf-8")))
    for path in sorted((ROOT / "tests").rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        strings = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        found |= dict.fromkeys(text for text in strings if re.search(r"(?i)\b(pattern|event)\b", text))
    return tuple(text for text in found if len(text) < 2_000 and is_query(text))


def _texts_in(text: str) -> Iterator[str]:
    """What begins with PATTERN or EVENT, to the end of its line, of its quotation, or of its paragraph."""
    for match in re.finditer(r"\b(?:PATTERN|EVENT)\b", text):
        rest = text[match.start() :]
        yield from {rest.partition(end)[0].strip() for end in ("\n", '"', "\n\n")}


def is_query(text: str) -> bool:
    try:
        parse(text)
    except KleeneError:
        return False
    return True


def texts(seed: int, count: int) -> Iterator[str]:
    """Changed queries, and now and then noise; the same for the same seed."""
    for number in range(count):
        rng = Random(f"{seed}/{number}")
        yield (_noise(rng) if rng.random() < 0.08 else _mutant(rng))[:LONGEST]


def _noise(rng: Random) -> str:
    kind = rng.randrange(4)
    length = rng.choice((1, 5, 40, 300))
    if kind == 0:
        return rng.randbytes(length).decode(rng.choice(("latin-1", "utf-8", "utf-16-le")), "replace")
    if kind == 1:
        return "".join(chr(rng.randrange(rng.choice((0x80, 0x3000, 0x110000)))) for _ in range(length))
    if kind == 2:
        return " ".join(rng.choice(_WORDS) for _ in range(length))
    return "PATTERN SEQ(A a, B b) WHERE " + " ".join(rng.choice(_WORDS) for _ in range(length))


def _mutant(rng: Random) -> str:
    text = rng.choice(corpus())
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 6))):
        text = rng.choices(_CHANGES, _WEIGHTS)[0](rng, text)[:LONGEST]
    return text


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _span(rng: Random, count: int) -> tuple[int, int]:
    begin = rng.randrange(count + 1)
    return begin, min(count, begin + rng.choice((0, 1, 1, 2, 3, 5, 9, 30)))


def _token_change(rng: Random, text: str) -> str:
    """Tokens deleted, replaced, inserted, moved or exchanged."""
    tokens = _tokens(text)
    begin, end = _span(rng, len(tokens))
    kind = rng.randrange(5)
    if kind == 0:
        tokens[begin:end] = []
    elif kind == 1:
        tokens[begin:end] = [rng.choice(_WORDS)]
    elif kind == 2:
        tokens[begin:begin] = [" ", rng.choice(_WORDS), " "]
    elif kind == 3:
        moved = tokens[begin:end]
        tokens[begin:end] = []
        at = rng.randrange(len(tokens) + 1)
        tokens[at:at] = moved
    elif tokens:
        one, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        tokens[one], tokens[other] = tokens[other], tokens[one]
    return "".join(tokens)


def _splice(rng: Random, text: str) -> str:
    """A piece of another query in the place of one of this."""
    tokens, others = _tokens(text), _tokens(rng.choice(corpus()))
    begin, end = _span(rng, len(tokens))
    first, last = _span(rng, len(others))
    tokens[begin:end] = others[first:last]
    return "".join(tokens)


_CLASSES = (
    re.compile(r"\d+"),
    re.compile(r"[a-z_]\w*"),
    re.compile(r"[A-Z]\w*"),
    re.compile(r"'.*"),
    re.compile(r"[-+*/%<>=]"),
)


def _alike(rng: Random, text: str) -> str:
    """Tokens replaced by others that look alike: a number by a number, a type by a type."""
    tokens, others = _tokens(text), _tokens(rng.choice(corpus())) + _tokens(text)
    for _ in range(rng.choice((1, 1, 2, 4))):
        kind = rng.choice(_CLASSES)
        places, among = ([item for item in enumerate(items) if kind.match(item[1])] for items in (tokens, others))
        if places and among:
            tokens[rng.choice(places)[0]] = rng.choice(among)[1]
    return "".join(tokens)


_CLAUSE = re.compile(r"(?i)\b(?=(?:where|within|group\s+by|agg|having|emit|output|return)\b)")


def _clauses(rng: Random, text: str) -> str:
    """Clauses of two queries, mixed."""
    own, others = _CLAUSE.split(text), _CLAUSE.split(rng.choice(corpus()))
    mixed = own[1:] + others[1:]
    rng.shuffle(mixed)
    return " ".join([own[0], *mixed[: rng.randrange(len(mixed) + 1)]])


def _character(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    odd = rng.choice((*_ODD, chr(rng.randrange(32, 127)), chr(rng.randrange(0x110000))))
    return text[:at] + rng.choice(("", odd)) + text[at + rng.randrange(2) :]


def _nested(rng: Random, text: str) -> str:
    """A piece inside many brackets, or signs."""
    tokens = _tokens(text)
    begin, end = _span(rng, len(tokens))
    opens, closes = (sign.replace("|", " ") for sign in rng.choice(_NESTED).split())
    depth = rng.choice((1, 2, 5, 49, 98, 101, 300))
    if rng.random() < 0.02:
        depth = 30_000
    return "".join(tokens[:begin]) + opens * depth + "".join(tokens[begin:end]) + closes * depth + "".join(tokens[end:])


def _repeated(rng: Random, text: str) -> str:
    """A piece many times, with or without something between."""
    tokens = _tokens(text)
    begin, end = _span(rng, len(tokens))
    times = rng.choice((2, 3, 10, 30, 70, 200))
    if rng.random() < 0.02:
        times = 20_000
    between = rng.choice(("", "", " ", ", ", " AND ", " OR ", " + ", " - ", " AND NOT ", ") OR ("))
    return "".join(tokens[:begin]) + between.join(["".join(tokens[begin:end])] * times) + "".join(tokens[end:])


def _alternatives(rng: Random, text: str) -> str:
    """A condition more: ORs of ANDs, ANDs of ORs, long lists, NOTs around them."""
    count, width = rng.choice((2, 5, 20, 60)), rng.choice((2, 3, 8))
    names = sorted(set(re.findall(r"\b[a-z]\b(?=\.|\[|\)|,| )", text))) or ["a"]

    def atom() -> str:
        operators = (" = ", " < ", " != ", " IN (1, 2, 3) OR 1 = ", " LIKE '%a' AND 1 = ", " IS NULL OR 2 > ")
        return f"{rng.choice(names)}.x{rng.choice(operators)}{rng.choice((rng.choice(names) + '.x', str(rng.randrange(9))))}"

    inner, outer = rng.choice(((" OR ", " AND "), (" AND ", " OR ")))
    condition = outer.join("(" + inner.join(atom() for _ in range(width)) + ")" for _ in range(count))
    condition = f"NOT ({condition})" if rng.random() < 0.3 else condition
    before, where, after = text.partition("WHERE ")
    return f"{before}WHERE {condition} AND {after}" if where else f"{text} WHERE {condition}"


def _components(rng: Random, text: str) -> str:
    """A pattern more: many optional components, alternatives, repetitions."""
    count = rng.choice((2, 6, 12, 30, 61))
    shapes = ("A v#", "A? v#", "A* v#[]", "A+ v#[]", "OR(A v#, B w#)", "!(A v#)", "A{2,9} v#[]", "AND(A v#, B w#)")
    parts = ", ".join(rng.choice(shapes).replace("#", str(number)) for number in range(count))
    begin = text.find("(") + 1
    return text[:begin] + parts + ", " + text[begin:]


def _number(rng: Random, text: str) -> str:
    numbers = list(re.finditer(r"\d+(?:\.\d+)?", text))
    if not numbers:
        return text
    match = rng.choice(numbers)
    strange = (
        "0",
        "-1",
        "1e400",
        "1e-400",
        "9" * rng.choice((18, 19, 20, 400, 401, 5000)),
        "0.1",
        "1/3",
        "1e999999999",
        "٣",
        "00",
    )
    return text[: match.start()] + rng.choice(strange) + text[match.end() :]


def _cut(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] if rng.random() < 0.7 else text[at:]


Change = Callable[[Random, str], str]
_CHANGES: tuple[Change, ...] = (
    _alike, _token_change, _splice, _clauses, _character, _nested, _repeated, _alternatives, _components, _number, _cut
)  # fmt: skip
_WEIGHTS = (50, 20, 15, 10, 12, 6, 5, 5, 4, 8, 4)


@cache
def schemas() -> tuple[pa.Schema, pa.Schema]:
    """Columns for the attributes that these queries read, with times and with integers as times."""
    named = {name for text in corpus() for name in re.findall(r"(?:\.|\[)([a-z]\w*)", text)} - {"ts", "type", "flag"}
    kinds = {name: pa.float64() if name in _FLOATS else pa.string() if name in _TEXTS else pa.int64() for name in sorted(named)}
    times = (pa.timestamp("us"), pa.int64())
    one, other = (pa.schema([("ts", kind), ("type", pa.string()), *kinds.items(), ("flag", pa.bool_())]) for kind in times)
    return one, other


# --- what becomes of them -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Report:
    """What was tried."""

    texts: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    """By phase: how far texts came, and the errors that they ended with."""
    slowest: float = 0.0
    """CPU seconds of the slowest text..."""
    slow_text: str = ""
    found: list[str] = field(default_factory=list)
    """...and all that should not be."""
    seconds: float = 0.0


class _HangsError(BaseException):
    """Nobody catches it."""


def fuzz(seed: int, count: int, *, planned: int = PLANNED, most: int = 20, told: Callable[[str], Any] | None = None) -> Report:
    """Tries so many texts."""
    report, began = Report(), time.process_time()

    def gives_up(_: int, frame: FrameType | None) -> None:
        raise _HangsError("".join(traceback.format_stack(frame)[-6:]))

    before = signal.signal(signal.SIGVTALRM, gives_up)
    try:
        for text in texts(seed, count):
            report.texts += 1
            plans = report.texts % planned == 0
            seconds, wrong = _timed(text, report.outcomes, plans=plans)
            most_seconds = (PLANNED_SECONDS if plans else SECONDS) * (1 + len(text) / LONG)
            if wrong is None and seconds > most_seconds:  # on a busy machine perhaps
                seconds, wrong = min((_timed(text, Counter(), plans=plans) for _ in range(2)), key=lambda item: item[0])
                wrong = wrong or (f"{seconds:.1f} s" if seconds > most_seconds else None)
            if seconds > report.slowest:
                report.slowest, report.slow_text = seconds, text[:500]
            if wrong is not None:
                report.found.append(f"{wrong}\n{text[:300]!r}{f'... ({len(text)})' if len(text) > 300 else ''}")
                if told is not None:
                    told(report.found[-1])
                if len(report.found) >= most:
                    break
    finally:
        signal.signal(signal.SIGVTALRM, before)
    report.seconds = time.process_time() - began
    return report


def _timed(text: str, outcomes: Counter[str], *, plans: bool) -> tuple[float, str | None]:
    """The CPU seconds that a text takes, and what is wrong with what becomes of it."""
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS)
    began = time.thread_time()
    try:
        outcomes[outcome(text, plans=plans)] += 1
        wrong = None
    except _HangsError as error:
        wrong = f"hangs: {error}"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        wrong = f"{type(error).__name__}: {str(error)[:300]}\n{''.join(traceback.format_tb(error.__traceback__)[-4:])}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.thread_time() - began, wrong


def outcome(text: str, *, plans: bool = False) -> str:
    """How far a text comes, and the error that it ends with; raises what should not be."""
    try:
        query = parse(text)
    except KleeneError as error:
        return f"parse: {type(error).__name__}"
    printed = to_text(query)
    again = parse(printed)
    assert again == query, f"it is printed as another query: {printed[:500]}"
    assert to_text(again) == printed
    try:
        made = kleene.query(text)
    except KleeneError as error:
        return f"check: {type(error).__name__}"
    return _planned(made) if plans else "query"


def _planned(made: kleene.Query) -> str:
    """How far it comes with one of the schemas."""
    found = "plan"
    for schema in schemas():
        options = {"time": "ts", "type": "type", "params": {"p": 1}}
        try:
            made.plan_for(schema, options_of(options))
            str(made.explain(schema, **options))
        except KleeneError as error:
            found = f"plan: {type(error).__name__}"
        else:
            return "planned"
    return found


def main() -> int:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    planned = int(sys.argv[3]) if len(sys.argv) > 3 else PLANNED
    report = fuzz(seed, count, planned=planned, most=200, told=lambda text: print(text, "\n", flush=True))
    print(f"{report.texts:,} texts in {report.seconds:.0f} s of CPU time, the slowest {report.slowest:.2f} s:")
    print(f"{report.slow_text!r}")
    for name, number in sorted(report.outcomes.items()):
        print(f"{number:8,} {name}")
    print(f"{len(report.found):8,} wrong")
    return 1 if report.found else 0


if __name__ == "__main__":
    sys.exit(main())
