"""From queries and events to the explorer's page, in the order of the calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kleene.interfaces.options import ExploreOptions, Options, checked

if TYPE_CHECKING:
    from kleene.interfaces.composition.queries import Queries
    from kleene.interfaces.explorer.page import Explorer


def explore(queries: Queries, events: Any, options: Mapping[str, Any]) -> Explorer:
    """The explorer of the matches of some queries in events; see `Query.explore`."""
    from kleene.interfaces.explorer.document import document
    from kleene.interfaces.explorer.found import find
    from kleene.interfaces.explorer.page import Explorer
    from kleene.interfaces.explorer.selection import select

    asked = checked(ExploreOptions, options)
    key, since, until, show_matches, show_events = (
        asked.pop(name) for name in ("key", "since", "until", "show_matches", "show_events")
    )
    # Every match is looked at by itself, so there is a row for each of them, with all columns.
    given = Options(**{**asked, "output": "verbose", "columns": ()})
    table, selected = select(queries, events, given, key, since, until)
    found = find(queries, table, given)
    return Explorer(document(found, selected, show_matches=show_matches, show_events=show_events))
