"""Random (query, stream) pairs: what the explorer's page holds, against the oracle and against `match`.

The page is read back from its HTML (`support.explorer_page`). The events of every match must be the oracle's, variable by
variable, its RETURN values those of the oracle, and its ids those of `match`.

As a script: `KLEENE_KERNELS=python python tests/support/explorer_pairs.py SEED COUNT`, see `support.pair_runs`.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # for `support`

from kleene.common.errors import PlanningError
from kleene.interfaces.explorer import document, found
from kleene.interfaces.query import Query
from kleene.testing import oracle
from kleene.testing.case_routes import canonical
from support import sase_pairs
from support.explorer_page import Page, read_page
from support.nfa_pairs import call_options
from support.pair_runs import Report, Suite, main, rewritten
from support.sase_pairs import ROW
from support.strategies import Example, any_match_example, saseplus_example


def example(seed: int, number: int = 0) -> Example:
    """SASE+ and the default strategy by turns."""
    return saseplus_example(seed, number) if number % 2 else any_match_example(seed, number)


def _bindings(page: Page, match: dict[str, Any]) -> oracle.Match:
    """A match as the oracle writes it: events by their numbers in the stream."""

    def rows(event: Any) -> Any:
        return tuple(map(rows, event)) if isinstance(event, list) else page.events[event][ROW]

    return oracle.Match(tuple(sorted((name, rows(event)) for name, event in match["bindings"].items())))


def check(pair: Example, number: int, rng: Random, report: Report) -> list[str]:
    """How the page differs from the oracle and from `match`; empty if it does not."""
    wanted = oracle.matches(pair.bound(), pair.events)
    query, table, options = Query(pair.query), sase_pairs.numbered(pair), call_options(pair)
    try:
        rows = query.match(table, **options).to_pylist()
    except PlanningError as error:
        if not str(error).startswith("not supported yet: "):
            raise
        report.seen["refused"] += 1
        return []
    report.matches += len(wanted)
    report.seen["with RETURN"] += bool(pair.query.returns and wanted)
    report.seen["declared schema"] += bool(pair.schema_kwargs["types"] and wanted)
    report.seen["with matches"] += bool(wanted)
    report.seen["with Kleene"] += any(isinstance(at, tuple) for match in wanted for _, at in match.bindings)
    order = list(range(table.num_rows))
    rng.shuffle(order)
    page = read_page(query.explore(table.take(order) if number % 3 == 0 else table, **options).html())
    problems = []
    found_matches = Counter(_bindings(page, match) for match in page.matches)
    for what, difference in (("missing", Counter(wanted) - found_matches), ("unexpected", found_matches - Counter(wanted))):
        if difference:
            problems.append(f"{difference.total()} {what}: {list(difference.elements())[:3]}")
    if sorted(match["match_id"] for match in page.matches) != sorted(row["match_id"] for row in rows):
        problems.append("other match ids")
    if pair.query.returns and not problems:
        by_match = {_bindings(page, match): match["returned"] for match in page.matches}
        for match in wanted:
            expected = canonical(oracle.returns(pair.bound(), pair.events, match))
            if canonical(by_match[match]) != expected:
                problems.append(f"{match} returns {by_match[match]}, expected {expected}")
    return problems


SABOTAGE = {
    # The events of a Kleene variable lose their match.
    "shifted-lists": rewritten(found, "_references", "np.arange(len(values))", "np.arange(len(values))[::-1]"),
    # Matches are put in order, their events are not.
    "unsorted-events": rewritten(document, "_cut", "rows=matches.rows[places]", "rows=matches.rows[: places.size]"),
    # The values of another match.
    "other-returns": rewritten(document, "_match_columns", "np.arange(int(own.sum()))", "np.arange(int(own.sum()))[::-1]"),
}

SUITE = Suite(example, check, sase_pairs.describe, SABOTAGE)

if __name__ == "__main__":
    main(__doc__, SUITE)
