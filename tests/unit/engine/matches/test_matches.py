"""Blocks of matches: what is selected of them keeps its events."""

from __future__ import annotations

import numpy as np

from kleene.engine.matches.matches import Matches
from support.match_worlds import Bindings, World, cases, flat_rows

# --- selection --------------------------------------------------------------------------------------------------------


def bindings_of(at: World, matches: Matches) -> list[Bindings]:
    rows = matches.mapped(at.groups.order)
    found: list[Bindings] = []
    for match in range(rows.count):
        bindings: Bindings = {variable: int(places[match]) for variable, places in rows.singles.items()}
        for variable, (offsets, places) in rows.lists.items():
            bindings[variable] = tuple(places[offsets[match] : offsets[match + 1]].tolist())
        found.append(bindings)
    return found


def test_selected_matches_keep_their_events() -> None:
    for rng, at, found in cases(20, 30):
        matches = at.matches(found)
        assert bindings_of(at, matches) == found
        held = np.array([rng.random() < 0.6 for _ in found])
        chosen = [match for match, stays in zip(found, held, strict=True) if stays]
        selected = matches.select(held)
        assert bindings_of(at, selected) == chosen
        assert selected.count == len(chosen) == selected.first.size
        extents = [(min(flat_rows(match)), max(flat_rows(match))) for match in chosen]
        assert [*zip(at.groups.order[selected.first], at.groups.order[selected.last], strict=True)] == extents
    assert matches.select(np.ones(matches.count, bool)) is matches


def test_sequences_are_not_copied() -> None:
    sequences = np.array([[0, 1], [2, 3]], np.int32)
    matches = Matches.of_sequences(["a", "b"], sequences)
    assert matches.singles["b"].base is sequences
    assert matches.first is matches.singles["a"]
    assert matches.last is matches.singles["b"]
