"""Run as a script: writes the answers of the oracle into case files, where they are missing or differ.

    python tests/support/complete_cases.py tests/cases/sase/ties.case ...   these files; without any, all
    python tests/support/complete_cases.py --check                          write nothing, tell what differs

Write the events and the query of a case, complete it, then read what it says: the oracle knows what the language means, not
what was meant. Blocks about plans and automata are left alone.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from kleene.testing.case_routes import Outcome, differences, oracle_route, plain, run
from kleene.testing.cases import BLOCKS, PLANNED, Case, parse_cases

CASES = Path(__file__).parents[1] / "cases"
ANSWERS = ("matches", "count", "returns", "aggregates", "error")
OTHERS = {*BLOCKS[BLOCKS.index("plan") :], *PLANNED, "workload"}
"""Blocks that say something else about a case: it needs no answer."""


def completed(text: str, path: Path) -> str:
    """The text of a case file with the oracle's answers."""
    lines = text.splitlines()
    parts = list(_parts(lines))
    head = lines[: parts[0].start] if parts else lines
    return "\n".join([*head, *(line for part in parts for line in _completed(lines[part.start : part.stop], path))]) + "\n"


def _parts(lines: Sequence[str]) -> Iterator[range]:
    """The lines of each case."""
    starts = [number for number, line in enumerate(lines) if line.split(" ")[0] == "case"]
    return map(range, starts, [*starts[1:], len(lines)])


def _completed(lines: list[str], path: Path) -> list[str]:
    words = {line.split(" ")[0] for line in lines if line and not line[0].isspace()}
    answered = words & set(ANSWERS)
    if "query" not in words or (not answered and words & OTHERS):
        return lines
    bare = list(_without_answers(lines))
    (case,) = parse_cases("\n".join([*bare, "count 0"]), path)
    outcome = run(case, oracle_route)
    if answered:
        (written,) = parse_cases("\n".join(lines), path)
        if not differences(written, outcome):
            return lines
    blank = len(bare) - len("\n".join(bare).rstrip("\n").split("\n"))
    body = bare[: len(bare) - blank]
    return [*body, *_answer(case, outcome, answered), *[""] * blank]


def _without_answers(lines: Sequence[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        if line and not line[0].isspace():
            inside = line.split(" ")[0] in ANSWERS
        if not inside or not line.strip():
            yield line


def _answer(case: Case, outcome: Outcome, answered: set[str]) -> Iterator[str]:
    """The blocks of an answer: those that were there, or those that the query calls for."""
    if outcome.error is not None:
        yield f"error {type(outcome.error).__name__}: {str(outcome.error).splitlines()[0]}"
        return
    if outcome.matches is None:
        yield from _block("aggregates", [_row(row) for row in outcome.rows or ()])
        return
    wanted = answered & {"matches", "count", "returns"} or {"matches", *(["returns"] if outcome.rows is not None else [])}
    if "matches" in wanted:
        yield from _block(
            "matches", [" ".join(f"{name}={_labels(at)}" for name, at in item.items()) for item in outcome.matches]
        )
    if "count" in wanted:
        yield f"count {len(outcome.matches)}"
    if "returns" in wanted:
        yield from _block("returns", [_row(row) for row in outcome.rows or ()])


def _block(word: str, lines: Sequence[str]) -> Iterator[str]:
    yield word
    yield from (f"  {line}" for line in lines or ("none",))


def _labels(at: str | tuple[str, ...]) -> str:
    return f"[{', '.join(at)}]" if isinstance(at, tuple) else at


def _row(row: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_value(plain(value))}" for name, value in row.items())


def _value(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_value, value))}]"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    changed = 0
    for path in given.files or sorted(CASES.rglob("*.case")):
        before = path.read_text(encoding="utf-8")
        after = completed(before, path)
        if after == before:
            continue
        changed += 1
        print("\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="")))
        if not given.check:
            path.write_text(after, encoding="utf-8")
    return 1 if changed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
