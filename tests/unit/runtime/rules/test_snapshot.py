"""Snapshots of rules: versions, pausing, removal, and snapshots as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kleene.common.errors import StateError
from kleene.runtime.rules.snapshot import Rule, Rules, Seen, parse_rules, query_core, rules_after

PAIRS = "PATTERN SEQ(A a, B b) WITHIN 5"
LATE = "PATTERN SEQ(A a, C c) WITHIN 9"
OTHER = "PATTERN SEQ(A a, D d) WITHIN 9"


# --- snapshots --------------------------------------------------------------------------------------------------------


def seen(**queries: str) -> Seen:
    return Seen({name: (text, False) for name, text in queries.items()})


def test_versions_count_the_changes_of_a_text() -> None:
    first = rules_after(Rules(), seen(pairs=PAIRS, late=LATE))
    assert first == Rules(1, {"late": Rule(LATE), "pairs": Rule(PAIRS)})
    assert list(first.queries) == ["late", "pairs"]
    second = rules_after(first, seen(pairs=OTHER, late=LATE))
    assert second == Rules(2, {"late": Rule(LATE), "pairs": Rule(OTHER, 2)})
    assert rules_after(second, seen(pairs=PAIRS, late=LATE)).queries["pairs"] == Rule(PAIRS, 3), "an old text is a change too"


def test_nothing_changed_is_the_same_snapshot() -> None:
    first = rules_after(Rules(), seen(pairs=PAIRS))
    assert rules_after(first, seen(pairs=PAIRS)) is first
    assert rules_after(first, seen(pairs=f"-- pairs\n  {PAIRS}  /* of a and b */\n")) is first
    empty = Rules()
    assert rules_after(empty, seen()) is empty, "without rules there is no first snapshot"


def test_pausing_is_no_change_of_the_text() -> None:
    first = rules_after(Rules(), seen(pairs=PAIRS))
    paused = rules_after(first, Seen({"pairs": (PAIRS, True)}))
    assert paused == Rules(2, {"pairs": Rule(PAIRS, 1, paused=True)})
    assert rules_after(paused, seen(pairs=PAIRS)) == replace(first, version=3)
    assert rules_after(paused, Seen({"pairs": (LATE, True)})).queries["pairs"] == Rule(LATE, 2, paused=True)


def test_versions_go_on_after_a_removal() -> None:
    rules = rules_after(rules_after(Rules(), seen(pairs=PAIRS, late=LATE)), seen(pairs=OTHER, late=LATE))
    rules = rules_after(rules, seen(late=LATE))
    assert rules == Rules(3, {"late": Rule(LATE)}, {"pairs": 2})
    rules = rules_after(rules, seen(late=LATE, pairs=OTHER))
    assert rules == Rules(4, {"late": Rule(LATE), "pairs": Rule(OTHER, 3)}), "the same text, but what it had seen is gone"


def test_what_is_held_stays() -> None:
    first = rules_after(Rules(), seen(pairs=PAIRS, late=LATE))
    held = rules_after(first, Seen({}, frozenset(["pairs", "new"]), problems={"pairs": "not text"}))
    assert held == Rules(2, {"pairs": Rule(PAIRS)}, {"late": 1}, {"pairs": "not text"})
    partial = rules_after(first, Seen({"other": (OTHER, False)}, partial=True))
    assert partial == Rules(2, {**first.queries, "other": Rule(OTHER)})


@pytest.mark.parametrize(
    ("text", "core"),
    [
        ("", ""),
        (" -- only\n/* comments */ ", ""),
        ("\ufeff\n// a\nA\n", "A"),
        ("A -- b\nC", "A -- b\nC"),
        ("x = '-- a'", "x = '-- a'"),
        ("x = 'it''s' -- a", "x = 'it''s'"),
        ("x = “-- a” -- b", "x = “-- a”"),
        ("`-- a` -- b", "`-- a`"),
        ("a - b / c -- d", "a - b / c"),
        ("A /* open", "A /* open"),
        ("x = 'open -- a", "x = 'open -- a"),
    ],
)
def test_the_core_of_a_text(text: str, core: str) -> None:
    assert query_core(text) == core


@pytest.mark.parametrize("piece", ["/*", "“", "'a", "`", "-", "*/"])
def test_the_core_of_a_text_is_found_in_linear_time(piece: str) -> None:
    query_core(piece * 400_001)  # in quadratic time this would not end


def test_a_snapshot_is_read_back_from_json() -> None:
    rules = Rules(7, {"late": Rule("PATTERN A ü -- \n", 3, paused=True)}, {"pairs": 2}, {"odd": "not text"})
    assert parse_rules(json.dumps(rules.as_dict())) == rules
    assert parse_rules(json.dumps(Rules().as_dict())) == Rules()


def first_format(**changes: Any) -> str:
    return json.dumps({"format": 1, "version": 1, "queries": {}, "removed": {}, "problems": {}, **changes})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("7", "its format is None"),
        ('{"version": 1}', "its format is None, and this version of Kleene reads 1, 2"),
        ('{"format": 3}', "its format is 3"),
        ('{"format": true}', "its format is True"),
        ("[" * 100_000, "maximum recursion"),
        ('{"format": 2, "version": 1}', "it is damaged: it is not as it was written"),
        ('{"format": 1, "version": 1}', r"it is damaged \(.*'queries'"),
        (first_format(version="1"), r"it is damaged \(a version is no number"),
        (first_format(removed={"a": None}), r"it is damaged \(a version is no number"),
        (first_format(queries={"a": {"text": 5}}), r"it is damaged \(a query or a problem is no text"),
        (first_format(problems={"a": 1}), r"it is damaged \(a query or a problem is no text"),
        (first_format(queries={"a": {"text": "", "paused": 1}}), r"it is damaged \(what tells .* neither true nor false"),
        (first_format(queries={"a": {"txt": ""}}), "it is damaged"),
        (first_format(queries=[]), "it is damaged"),
    ],
)
def test_other_snapshots_are_refused(text: str, reason: str) -> None:
    with pytest.raises(StateError, match=f"cannot read the snapshot of rules: {reason}(.|\n)*hint: use the version"):
        parse_rules(text)


def test_every_sign_of_a_snapshot_counts() -> None:
    """Its JSON may be written in another way, as Spark does, but says the same or is refused."""
    rules = Rules(3, {"pairs": Rule(PAIRS, 2), "late": Rule(LATE, paused=True)}, {"other": 4}, {"broken": "why"})
    text = json.dumps(rules.as_dict(), separators=(",", ":"))
    assert parse_rules(text) == rules
    for place, sign in enumerate(text):
        changed = f"{text[:place]}{chr(ord(sign) ^ 1)}{text[place + 1 :]}"
        with pytest.raises(StateError, match="cannot read the snapshot of rules"):
            parse_rules(changed)


def test_a_snapshot_of_the_first_format_is_read() -> None:
    rules = Rules(3, {"pairs": Rule(PAIRS, 2)}, {"other": 4}, {"broken": "why"})
    known = rules.as_dict()
    del known["digest"]
    assert parse_rules(json.dumps({**known, "format": 1})) == rules
