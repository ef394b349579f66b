"""Syntax errors in the reader's words: what was expected, what was found, and the word that was probably meant."""

from __future__ import annotations

import difflib

from lark import Token

from kleene.common.errors import Problem, QuerySyntaxError, Span
from kleene.language.scanner import CLAUSE_WORDS, Scanner, is_quoted, span_of
from kleene.pattern.text import KEYWORDS


def _terminals(words: str) -> frozenset[str]:
    return frozenset(words.split())


_GROUPS: tuple[tuple[str, str, frozenset[str]], ...] = (
    (
        "STRING",
        "a value or condition",
        _terminals("NAME NUMBER PERCENT STRING TRUE FALSE NULL TIMESTAMP LPAR LBRACKET MINUS PLUS NOT STRATEGY"),
    ),
    ("SEQ", "an event type or SEQ, AND, OR", _terminals("SEQ AND OR ANY KL NOT HNAME LPAR")),
    ("ANY", "an event type", _terminals("ANY HNAME")),
    ("COMPARE", "an operator", _terminals("COMPARE PLUS MINUS STAR SLASH MOD AND OR NOT IN BETWEEN LIKE IS")),
    ("STAR", "an operator", _terminals("PLUS MINUS STAR SLASH MOD AND OR")),
    ("LBRACE", "a repetition (+, *, ?, {n,m})", _terminals("PLUS STAR QUESTION LBRACE")),
    ("WITHIN", "a clause (WHERE, WITHIN, RETURN, ...)", frozenset((*CLAUSE_WORDS, "$END", "SEMICOLON", "LBRACKET"))),
    ("$END", "the end of the query", frozenset(("$END", "SEMICOLON"))),
)
_WORDS = {
    "NAME": "a name", "HNAME": "a name", "NUMBER": "a number", "STRING": "a string", "PERCENT": "a number",
    "PATTERN": "PATTERN or EVENT", "_COMMA": "','", "LPAR": "'('", "RPAR": "')'", "LBRACKET": "'['", "RBRACKET": "']'",
    "LBRACE": "'{'", "RBRACE": "'}'", "DOT": "'.'", "DOTDOT": "'..'", "STAR": "'*'", "PLUS": "'+'", "MINUS": "'-'",
    "SLASH": "'/'", "MOD": "'%'", "QUESTION": "'?'", "COMPARE": "a comparison", "SEMICOLON": "';'",
    "STRATEGY": "a selection strategy", "BY": "BY (after GROUP)",
}  # fmt: skip


def explain(scanner: Scanner, accepted: set[str], found: Token | None, previous: Token | None) -> QuerySyntaxError:
    """The error for a token (None: the end of the text) that the grammar cannot take after `previous`."""
    at_end = found is None or found.type in CLAUSE_WORDS
    if at_end and scanner.brackets and accepted & {"RPAR", "RBRACKET", "RBRACE"} and "STRING" not in accepted:
        return scanner.unclosed("the end of the query" if found is None else f"'{_source(scanner, found)}'")
    wanted = expected_words(accepted)
    if found is None:
        end = len(scanner.text.rstrip())
        problem = Problem(f"expected {wanted}, found the end of the query", Span(end, end + 1))
        return QuerySyntaxError(problem, scanner.text)
    hint = _hint(accepted, found, previous)
    return QuerySyntaxError(
        Problem(f"expected {wanted}, found '{_source(scanner, found)}'", span_of(found), hint), scanner.text
    )


def expected_words(accepted: set[str]) -> str:
    """What the grammar accepts next, in words.

    >>> expected_words({"_COMMA", "RPAR"})
    "')' or ','"
    """
    rest, words = set(accepted), []
    for sign, word, group in _GROUPS:
        if sign in rest:
            words.append(word)
            rest -= group
    words += sorted({_WORDS.get(terminal, terminal) for terminal in rest})
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _source(scanner: Scanner, token: Token) -> str:
    span = span_of(token)
    text = scanner.text[span.start : span.end]
    return text if len(text) <= 40 else text[:37] + "..."


def _hint(accepted: set[str], found: Token, previous: Token | None) -> str | None:
    keywords = {word for word in KEYWORDS if word in accepted} | ({"EVENT"} if "PATTERN" in accepted else set())
    if found.type in ("NAME", "HNAME") and not is_quoted(found):
        near = _nearest(found, keywords, 0.6)
        if near:
            return f"did you mean '{near}'?"
    if previous is not None and previous.type in ("NAME", "HNAME") and not is_quoted(previous):
        near = _nearest(previous, set(KEYWORDS), 0.75)
        if near:
            return f"'{previous}' was read as a name; did you mean '{near}'?"
    if found.type in KEYWORDS and {"NAME", "HNAME"} & accepted and "STRING" not in accepted and found.isalpha():
        return f"to use the keyword '{found}' as a name, write `{found}`"
    if found.type in ("PLUS", "STAR", "QUESTION", "LBRACE") and previous is not None and previous.type == "RPAR":
        return "repetition applies to one component: write T+ a[]"
    if found.type in ("PLUS", "STAR", "QUESTION", "LBRACE") and previous is not None and previous.type in ("NAME", "RBRACKET"):
        return "repetition follows the type: write T+ a[]"
    return None


def _nearest(word: str, known: set[str], cutoff: float) -> str | None:
    close = difflib.get_close_matches(word.upper(), sorted(known), n=1, cutoff=cutoff)
    return close[0] if close and close[0] != word.upper() else None
