"""Queries and plans in a notebook: HTML with their text, and a plan's picture below it.

All text is escaped. A picture is a separate image: its styles and ids cannot clash with those of the page or of other pictures,
and nothing in it can run. Colours are readable on light and on dark pages.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from html import escape
from typing import Protocol

from kleene.pattern.policies import Strategy
from kleene.pattern.text import KEYWORDS

_STYLES = {"text": "color:#2da44e", "number": "color:#bf8700", "word": "color:#2f81f7;font-weight:bold"}
_WORDS = frozenset((*KEYWORDS, *(item.value.upper() for item in Strategy)))
_TOKEN = re.compile(
    r"(?P<text>'(?:[^']|'')*')|(?P<name>`(?:[^`]|``)*`)|(?P<number>\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>\w+)"
)
"""The tokens of a printed query that have colours, and quoted names, in which nothing is a keyword or a string."""


def query_html(text: str) -> str:
    """The text of a query, as it is printed, with its keywords, strings and numbers coloured.

    >>> query_html("PATTERN A a")
    '<pre><span style="color:#2f81f7;font-weight:bold">PATTERN</span> A a</pre>'
    """
    parts, end = [], 0
    for token in _TOKEN.finditer(text):
        parts += [escape(text[end : token.start()]), _coloured(token)]
        end = token.end()
    return f"<pre>{''.join(parts)}{escape(text[end:])}</pre>"


def _coloured(token: re.Match[str]) -> str:
    kind, text = str(token.lastgroup), token.group()
    if kind == "name" or (kind == "word" and text.upper() not in _WORDS):
        return escape(text)
    return f'<span style="{_STYLES[kind]}">{escape(text)}</span>'


def queries_html(texts: Iterable[tuple[str, str]]) -> str:
    """Several queries, (name, text) each, below each other."""
    return "".join(f"<div><b>{escape(name)}</b>{query_html(text)}</div>" for name, text in texts)


def plan_html(text: str, *pictures: str) -> str:
    """The text of a plan, and its pictures, SVG documents, below it."""
    encoded = (b64encode(svg.encode()).decode() for svg in pictures)
    images = (f'<img alt="the plan as a picture" src="data:image/svg+xml;base64,{image}">' for image in encoded)
    return f"<div><pre>{escape(text)}</pre>{''.join(images)}</div>"


class _Drawn(Protocol):
    def svg(self) -> str: ...


class Shown:
    """Base of what a notebook shows as text with a picture."""

    __slots__ = ()

    def _repr_html_(self: _Drawn) -> str:
        return plan_html(str(self), self.svg())
