"""Matches for people: one row per match, one column per variable, at the terminal's width."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from kleene.common.terminal import plural, printable

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

_ELEMENTS_SHOWN = 3


def show(matches: pa.Table, console: Console, title: str | None = None) -> None:
    """Prints a table of matches; all rows given are shown."""
    from rich.table import Table
    from rich.text import Text

    names = [name for name in matches.schema.names if name not in ("query", "match_id")]
    shown = Table(title=title, title_justify="left", header_style="bold", show_lines=_has_events(matches))
    for name in names:
        shown.add_column(Text(printable(name)), overflow="fold")
    for row in matches.select(names).to_pylist():
        shown.add_row(*(Text(printable(cell(row[name]))) for name in names))
    console.print(shown)


def cell(value: Any) -> str:
    """One value as text.

    >>> cell({"id": "t1", "shelf_id": None, "price": 2})
    'id=t1 price=2'
    >>> print(cell([{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}, {"x": 5}]))
    5 events
    x=1
    x=2
    ...
    x=5
    >>> cell([1, 2, 3, 4, 5])
    '1, 2, ..., 5 (5 values)'
    """
    if value is None:
        return ""
    if isinstance(value, dict):
        return " ".join(f"{name}={cell(item)}" for name, item in value.items() if item is not None)
    if isinstance(value, list):
        return _elements(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(" ", "auto")
    return str(value)


def _elements(items: list[Any]) -> str:
    """The events of a Kleene variable, one per line; list values of RETURN on one line."""
    texts = [cell(item) for item in items]
    many = len(items) > _ELEMENTS_SHOWN
    if many:
        texts = [*texts[: _ELEMENTS_SHOWN - 1], "...", texts[-1]]
    if items and isinstance(items[0], dict):
        return "\n".join([plural(len(items), "event"), *texts])
    return ", ".join(texts) + (f" ({len(items):,} values)" if many else "")


def _has_events(matches: pa.Table) -> bool:
    import pyarrow.types as pat

    return any(pat.is_nested(field.type) for field in matches.schema)
