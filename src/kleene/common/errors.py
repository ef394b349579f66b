"""Every error that Kleene raises on purpose: one base class, one subclass per phase of a query's life.

A message says what is wrong, where (line, column, a caret under the source) and what to do. Problems of one query are collected
and reported together: a `Problem` is one finding, an error carries all of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kleene.common.terminal import masked, printable


@dataclass(frozen=True, slots=True)
class Span:
    """Character offsets `[start, end)` of a piece of query text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding: what is wrong, where in the query text, and what would help."""

    message: str
    span: Span | None = None
    hint: str | None = None


MOST_RENDERED = 20
"""Number of problems in the text of an error; a query may have one for each word."""


class KleeneError(Exception):
    """Base of all errors that Kleene raises on purpose.

    >>> str(KleeneError("no such thing"))
    'no such thing'
    """

    def __init__(self, problems: str | Problem | Sequence[Problem], text: str | None = None) -> None:
        if isinstance(problems, str):
            problems = (Problem(problems),)
        elif isinstance(problems, Problem):
            problems = (problems,)
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.text = text
        rendered = [render(problem, text) for problem in self.problems[:MOST_RENDERED]]
        more = len(self.problems) - len(rendered)
        super().__init__("\n\n".join([*rendered, f"... and {more:,} more problems"] if more else rendered))

    def __reduce__(self) -> tuple[type[KleeneError], tuple[tuple[Problem, ...], str | None]]:
        return type(self), (self.problems, self.text)


class QuerySyntaxError(KleeneError):
    """The text is not a query of the language."""


class BindingError(KleeneError):
    """The query is well formed but does not fit itself or the events: unknown names, wrong kinds, forbidden combinations."""


class PlanningError(KleeneError):
    """The query is valid, but no plan can be made for it with the given options."""


class DataError(KleeneError):
    """The events cannot be processed as they are: NULL time or key, ties where order matters, unreadable files."""


class LimitError(DataError):
    """A query would keep or report more than its limits allow."""


class StateError(KleeneError):
    """Saved state cannot be used by this version or this query."""


MOST_TOLD = 2_000
"""Characters of an error that are shown where there may be many errors."""


def error_text(error: BaseException) -> str:
    """The class and the message of any exception, even if its `__str__` raises.

    >>> error_text(KeyError("x"))
    "KeyError: 'x'"
    """
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - user-defined errors may raise here
        return type(error).__name__


def described(error: Exception) -> str:
    """The text of an error, of bounded length: its beginning and its end, where the hint is. Unencodable characters are
    escaped.
    """
    text = str(error) if isinstance(error, KleeneError) else f"unexpected error: {error_text(error)}"
    if len(text) > MOST_TOLD:
        text = f"{text[: MOST_TOLD // 2]} ... {text[-MOST_TOLD // 2 :]}"
    return text.encode(errors="backslashreplace").decode()


def decoded_text(raw: bytes, source: str) -> str:
    """The text of a file, which must be UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: not UTF-8 text (byte {error.start} is 0x{raw[error.start]:02x})") from error


FRESH = "start with a new checkpoint folder"
"""The remedy for any unusable state."""


def damaged(reason: str) -> StateError:
    """The error for state that differs from what was written."""
    return StateError(Problem(f"the checkpoint's state is damaged: {reason}", hint=f"restore a copy of it, or {FRESH}"))


def locate(text: str, offset: int) -> tuple[int, int]:
    """The 1-based line and column of an offset.

    >>> locate("ab\\ncd", 4)
    (2, 2)
    """
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def render(problem: Problem, text: str | None) -> str:
    """A problem as the user reads it: message, place, caret under the source, hint.

    >>> print(render(Problem("unknown variable 'z'", Span(6, 7), "did you mean 'a'?"), "WHERE z.x = 1"))
    unknown variable 'z' at line 1, column 7
      WHERE z.x = 1
            ^
      hint: did you mean 'a'?
    """
    lines = [printable(problem.message)]
    if problem.span is not None and text is not None:
        start = min(problem.span.start, len(text))
        line, column = locate(text, start)
        lines[0] += f" at line {line}, column {column}"
        source = text.split("\n")[line - 1].rstrip("\r")
        width = max(1, min(problem.span.end - start, len(source) - column + 1))
        left, shown, offset = _excerpt(source, column - 1)
        lines.append(f"  {left}{masked(shown)}".replace("\t", " "))
        lines.append("  " + " " * (offset + len(left)) + "^" * min(width, max(1, len(shown) - offset)))
    if problem.hint:
        lines.append(f"  hint: {printable(problem.hint)}")
    return "\n".join(lines)


def _excerpt(source: str, offset: int, width: int = 120) -> tuple[str, str, int]:
    """The part of a long line around `offset`, as (ellipsis, text, offset within that text)."""
    if len(source) <= width:
        return "", source, offset
    begin = max(0, offset - width // 2)
    return ("..." if begin else ""), source[begin : begin + width], offset - begin


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A "did you mean" hint, or the list of what exists when nothing is near.

    >>> nearest("tagid", ["tag_id", "price"])
    "did you mean 'tag_id'?"
    >>> nearest("zzz", ["tag_id", "price"])
    "known: 'price', 'tag_id'"
    """
    names = sorted(set(known))
    by_fold = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold(), list(by_fold), n=1, cutoff=0.6)
    if close:
        return f"did you mean '{by_fold[close[0]]}'?"
    if not names:
        return None
    shown = ", ".join(f"'{candidate}'" for candidate in names[:12])
    return f"known: {shown}" + (", ..." if len(names) > 12 else "")
