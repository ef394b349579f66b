"""Query text to tokens, one at a time, given what the grammar accepts next.

The meaning of a word depends on its context: `SHELF-READING` is one type in a pattern and a difference in a condition, `from`
is an attribute after a dot, `80%` a number unless an operand follows. The scanner therefore knows the terminals that the
parser's state accepts. It also matches brackets, and drops A-Seq's decoration: `<...>` around a clause's body, `[...]` around a
clause. Every token has its position in the text. Cost: one regular expression per token.
"""

# ruff: noqa: RUF001 - the papers' own signs and quotation marks are part of the language
from __future__ import annotations

import re
from collections.abc import Container

from lark import Token

from kleene.common.errors import Problem, QuerySyntaxError, Span
from kleene.pattern.limits import MAX_DEPTH
from kleene.pattern.text import KEYWORDS

CLAUSE_WORDS = ("WHERE", "GROUP", "AGG", "HAVING", "EMIT", "WITHIN", "OUTPUT", "RETURN")

_BLANK = re.compile(r"(?:[\s\ufeff\u200b]+|--[^\n]*|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[^\W\d]\w*")
_HYPHENATED = re.compile(r"[^\W\d]\w*(?:-\w+)*")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_STRATEGY = re.compile(r"""[^\W\d][\w-]*(?=\s*(?:\((?:[^(){}`"]|`[^`]*`|"[^"]*")*\)\s*)?\{)""")
_SYMBOL = re.compile(r"\.\.|&&|\|\||==|<>|<=|>=|!=|[-+*/%?.,;(){}\[\]<>=!~∧∨¬≠≥≤∈∉−]")
_CLAUSE_AHEAD = re.compile(rf"(?:{'|'.join(CLAUSE_WORDS)})\b\s*(?![\],=])", re.IGNORECASE)

_KINDS = {
    "..": "DOTDOT", "&&": "AND", "||": "OR", "∧": "AND", "∨": "OR", "¬": "NOT", "!": "NOT", "~": "NOT",
    "+": "PLUS", "-": "MINUS", "−": "MINUS", "*": "STAR", "/": "SLASH", "%": "MOD", "?": "QUESTION", ".": "DOT",
    ",": "_COMMA", ";": "SEMICOLON", "(": "LPAR", ")": "RPAR", "{": "LBRACE", "}": "RBRACE", "[": "LBRACKET",
    "]": "RBRACKET", "∈": "IN", "=": "COMPARE", "==": "COMPARE", "!=": "COMPARE", "<>": "COMPARE", "≠": "COMPARE",
    "<": "COMPARE", ">": "COMPARE", "<=": "COMPARE", ">=": "COMPARE", "≤": "COMPARE", "≥": "COMPARE",
}  # fmt: skip
_CANONICAL = {"==": "=", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">=", "−": "-"}
_CLOSES = {")": "(", "]": "[", "}": "{"}
_OPENS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_QUOTES = {"'": "'", "‘": "’", "“": "”", "`": "`", '"': '"'}
_NAME_QUOTES = ("`", '"')
_CLAUSE_HEADS = frozenset(("PATTERN", "WHERE", "BY", "AGG", "HAVING", "WITHIN", "OUTPUT", "RETURN"))
_INFIX_WORDS = frozenset(("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "AS", "INTO", *CLAUSE_WORDS))
_CALLED = frozenset(("SEQ", "AND", "OR", "ANY", "KL"))
_ODD_CHARACTERS = {
    "^": "write AND (or ∧)", "&": "write AND", "|": "write OR", ":": "a label before a query is not part of it",
    "@": "quote odd names with backticks", "#": "comments start with -- or //", "$": "quote odd names with backticks",
    "’": "open the string with ‘ or '", "”": "open the string with “ or '",
}  # fmt: skip


class Scanner:
    """The tokens of one query text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.last: Token | None = None
        self.brackets: list[tuple[str, int]] = []
        self._position = 0
        self._pending: list[Token] = []

    def next(self, choices: Container[str]) -> Token | None:
        """The next token, given the terminals that the grammar accepts; None at the end of the text."""
        if self._pending:
            return self._pending.pop()
        while True:
            self._skip_blank()
            start = self._position
            if start >= len(self.text):
                return None
            token = self._scan(self.text[start], start, choices)
            if token is not None:
                self.last = token
                return token

    def finish(self) -> None:
        """Checks at the end of the text that every bracket was closed."""
        if self.brackets:
            raise self.unclosed("the end of the query")

    def unclosed(self, before: str) -> QuerySyntaxError:
        """The error for the innermost open bracket."""
        bracket, place = self.brackets[-1]
        hint = f"expected '{_OPENS[bracket[0]]}' before {before}"
        return self.error(f"'{bracket[0]}' is not closed", place, place + 1, hint)

    def error(self, message: str, start: int, end: int, hint: str | None = None) -> QuerySyntaxError:
        return QuerySyntaxError(Problem(message, Span(start, end), hint), self.text)

    def _scan(self, char: str, start: int, choices: Container[str]) -> Token | None:
        if char in _QUOTES:
            return self._quoted(char, start, choices)
        number = _NUMBER.match(self.text, start)
        if number:
            return self._number(start, number.end())
        if _WORD.match(char):
            return self._word(start, choices)
        return self._symbol(start)

    def _token(self, kind: str, value: str, start: int, end: int) -> Token:
        self._position = end
        return Token(kind, value, start_pos=start, end_pos=end)

    def _skip_blank(self) -> None:
        start = self._position = self._after_blank(self._position)
        if self.text.startswith("/*", start):
            raise self.error("the comment is not closed", start, start + 2, "close it with */")

    def _after_blank(self, start: int) -> int:
        match = _BLANK.match(self.text, start)
        assert match is not None
        return match.end()

    def _quoted(self, quote: str, start: int, choices: Container[str]) -> Token:
        closing = _QUOTES[quote]
        is_name = quote in _NAME_QUOTES
        parts, begin = [], start + 1
        while True:
            end = self.text.find(closing, begin)
            if end < 0:
                what = "the quoted name" if is_name else "the string"
                raise self.error(f"{what} is not closed", start, start + 1, f"close it with {closing}")
            parts.append(self.text[begin:end])
            if not self.text.startswith(closing, end + 1):
                break
            parts.append(closing)
            begin = end + 2
        value = "".join(parts)
        if is_name and not value:
            raise self.error("a quoted name is empty", start, end + 1)
        kind = ("HNAME" if "HNAME" in choices else "NAME") if is_name else "STRING"
        return self._token(kind, value, start, end + 1)

    def _number(self, start: int, end: int) -> Token:
        if self.text.startswith("%", end) and not self._operand_at(end + 1):
            return self._token("PERCENT", self.text[start:end], start, end + 1)
        return self._token("NUMBER", self.text[start:end], start, end)

    def _operand_at(self, start: int) -> bool:
        start = self._after_blank(start)
        word = _WORD.match(self.text, start)
        if word:
            return word.group().upper() not in _INFIX_WORDS
        return bool(_NUMBER.match(self.text, start)) or self.text[start : start + 1] in ("(", *_QUOTES)

    def _word(self, start: int, choices: Container[str]) -> Token:
        if "STRATEGY" in choices:
            strategy = _STRATEGY.match(self.text, start)
            if strategy and strategy.group().upper() != "NOT":
                return self._token("STRATEGY", strategy.group(), start, strategy.end())
        match = (_HYPHENATED if "HNAME" in choices else _WORD).match(self.text, start)
        assert match is not None
        word, end = match.group(), match.end()
        keyword = word.upper()
        if keyword == "EVENT":
            keyword = "PATTERN"
        if keyword in KEYWORDS and self._is_keyword(keyword, end, choices):
            return self._token(keyword, word, start, end)
        return self._token("HNAME" if "HNAME" in choices else "NAME", word, start, end)

    def _is_keyword(self, keyword: str, end: int, choices: Container[str]) -> bool:
        """Whether a word that could be a keyword is one here, rather than a name."""
        nameable = "NAME" in choices or "HNAME" in choices
        after = self._after_blank(end)
        if keyword == "TIMESTAMP":
            return "TIMESTAMP" in choices and self.text[after : after + 1] in ("'", "‘", "“")
        if keyword in _CALLED and "HNAME" in choices:
            return keyword in choices and self.text.startswith("(", after)
        if keyword in choices or not nameable:
            return True
        # WITHIN where a value is required: a keyword, so that the error says so, if the following text only fits a keyword.
        following = _WORD.match(self.text, after) or _NUMBER.match(self.text, after)
        stands_alone = following is not None and following.group().upper() not in _INFIX_WORDS
        return keyword in CLAUSE_WORDS and stands_alone and "STRING" in choices

    def _symbol(self, start: int) -> Token | None:
        match = _SYMBOL.match(self.text, start)
        if match is None:
            char = self.text[start]
            raise self.error(f"unexpected character '{char}'", start, start + 1, _ODD_CHARACTERS.get(char))
        symbol, end = match.group(), match.end()
        if self._is_decoration(symbol, start, end):
            self._position = end
            return None
        if symbol in "([{":
            self._open(symbol, start)
        elif symbol in _CLOSES:
            self._close(symbol, start)
        if symbol == "∉":
            self._pending.append(self._token("IN", symbol, start, end))
            return self._token("NOT", symbol, start, end)
        return self._token(_KINDS[symbol], _CANONICAL.get(symbol, symbol), start, end)

    def _is_decoration(self, symbol: str, start: int, end: int) -> bool:
        if symbol == "<" and self.last is not None and self.last.type in _CLAUSE_HEADS:
            self._open("<", start)
            return True
        if symbol == "[" and all(bracket == "<" for bracket, _ in self.brackets):
            if _CLAUSE_AHEAD.match(self.text, self._after_blank(end)):
                self._open("[clause", start)
                return True
        if not self.brackets:
            return False
        top = self.brackets[-1][0]
        if (symbol == "]" and top == "[clause") or (symbol == ">" and top == "<" and self._clause_ends_at(end)):
            self.brackets.pop()
            return True
        return False

    def _clause_ends_at(self, place: int) -> bool:
        place = self._after_blank(place)
        if place >= len(self.text) or self.text[place] in ";]":
            return True
        if self.text[place] == "[":
            place = self._after_blank(place + 1)
        return bool(_CLAUSE_AHEAD.match(self.text, place))

    def _open(self, bracket: str, start: int) -> None:
        if len(self.brackets) >= MAX_DEPTH:
            raise self.error(f"expression nested deeper than {MAX_DEPTH}", start, start + 1, "remove parentheses")
        self.brackets.append((bracket, start))

    def _close(self, bracket: str, start: int) -> None:
        if not self.brackets:
            raise self.error(f"'{bracket}' has no opening bracket", start, start + 1)
        if self.brackets[-1][0] != _CLOSES[bracket]:
            raise self.unclosed(f"'{bracket}'")
        self.brackets.pop()


def is_quoted(token: Token) -> bool:
    """Whether a name was quoted: `LEN`, keywords and aggregates are only recognized unquoted."""
    return span_of(token).end - span_of(token).start != len(token)


def span_of(token: Token) -> Span:
    """The position of a token."""
    assert token.start_pos is not None
    assert token.end_pos is not None
    return Span(token.start_pos, token.end_pos)
