"""From queries and events to the explorer's page, in the order of the calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kleene.common.errors import BindingError, Problem
from kleene.interfaces.options import Options, options_of

if TYPE_CHECKING:
    from kleene.interfaces.composition.queries import Queries
    from kleene.interfaces.explorer.page import Explorer

SHOWN_MATCHES = 100_000
SHOWN_EVENTS = 200_000


def explore(
    queries: Queries,
    events: Any,
    *,
    key: Any = None,
    since: Any = None,
    until: Any = None,
    show_matches: int = SHOWN_MATCHES,
    show_events: int = SHOWN_EVENTS,
    **options: Any,
) -> Explorer:
    """The explorer of the matches of some queries in events; see `Query.explore`."""
    from kleene.interfaces.explorer.document import document
    from kleene.interfaces.explorer.found import find
    from kleene.interfaces.explorer.page import Explorer
    from kleene.interfaces.explorer.selection import select

    given = _checked(options, show_matches, show_events)
    table, selected = select(queries, events, given, key, since, until)
    found = find(queries, table, given)
    return Explorer(document(found, selected, show_matches=show_matches, show_events=show_events))


def _checked(options: Mapping[str, Any], show_matches: int, show_events: int) -> Options:
    counts = {"show_matches": show_matches, "show_events": show_events}
    hint = "give a number of at least 1"
    problems = [Problem(f"{name} cannot be {count!r}", hint=hint) for name, count in counts.items() if count < 1]
    if problems:
        raise BindingError(problems)
    # Matches are shown one by one, so each has a row, with all columns.
    return replace(options_of(options), output="verbose", columns=())
