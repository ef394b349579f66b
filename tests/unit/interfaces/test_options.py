"""An option of `match` is the same wherever it can be given: in Python, at the command line, in SQL, in the documentation."""

from __future__ import annotations

import argparse
import inspect
from dataclasses import fields
from typing import Any, get_type_hints

import pyarrow as pa
import pytest

import kleene
from kleene.interfaces import cli
from kleene.interfaces.commands import arguments as shared
from kleene.interfaces.options import (
    ARGUMENTS,
    DESCRIBED,
    FLAGS,
    OPTIONS,
    EventOptions,
    ExploreOptions,
    MatchOptions,
    Options,
    allowed,
    options_of,
)
from kleene.interfaces.rules import Rules
from kleene.interfaces.sql import KINDS
from support import api_page

TAKERS: dict[Any, Any] = {
    kleene.Query.match: MatchOptions,
    kleene.Query.run: MatchOptions,
    kleene.Query.explain: MatchOptions,
    kleene.Query.statistics: MatchOptions,
    kleene.Query.why_not: EventOptions,
    kleene.Query.explore: ExploreOptions,
    kleene.Query.trace: MatchOptions,
    kleene.statistics: MatchOptions,
    kleene.Workload.match: MatchOptions,
    kleene.Workload.run: MatchOptions,
    kleene.Workload.explain: MatchOptions,
    kleene.Workload.explain_shared: MatchOptions,
    kleene.Workload.explore: ExploreOptions,
    Rules.match: MatchOptions,
    Rules.run: MatchOptions,
}
COMMANDS = ("check", "explain", "explore", "match", "statistics", "stream", "why-not")
DEFAULTS = options_of({"time": "ts"})


def parser_of(command: str) -> argparse.ArgumentParser:
    (commands,) = (action for action in cli.build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices[command]
    return found


# --- Python -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taker", TAKERS, ids=lambda taker: taker.__qualname__)
def test_what_takes_options_names_them(taker: Any) -> None:
    record = TAKERS[taker]
    assert taker.__annotations__["options"] == f"Unpack[{record.__name__}]"  # what editors and type checkers read
    parameters = inspect.signature(taker).parameters
    assert [name for name in parameters if name in MatchOptions.__annotations__] == [
        name for name in OPTIONS if name in record.__annotations__
    ]
    for name in record.__annotations__:
        default = inspect.Parameter.empty if name == "time" else DESCRIBED[name].default
        assert (parameters[name].kind, parameters[name].default) == (inspect.Parameter.KEYWORD_ONLY, default)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_is_explained_where_matches_are_asked_for(name: str) -> None:
    text = " ".join((inspect.getdoc(kleene.Query.match) or "").split())
    assert f" {name}: {OPTIONS[name].sentence}" in text


def test_what_is_kept_is_what_can_be_given() -> None:
    assert [field.name for field in fields(Options)] == list(MatchOptions.__annotations__) == list(OPTIONS)
    kept = get_type_hints(Options)
    for name, option in OPTIONS.items():
        assert getattr(DEFAULTS, name) == ("ts" if name == "time" else option.default)
        assert not allowed(name) or kept[name] in (str, str | None)


@pytest.mark.parametrize("name", [name for name in OPTIONS if allowed(name)])
def test_allowed_values_are_taken_and_others_are_not(name: str) -> None:
    for value in allowed(name):
        assert getattr(options_of({"time": "ts", name: value}), name) == value
    with pytest.raises(kleene.BindingError, match=f"{name} cannot be 'errors'"):
        options_of({"time": "ts", name: "errors"})


def test_an_option_that_is_none_is_named() -> None:
    query, events = kleene.query("PATTERN A a"), pa.table({"ts": [1]})
    with pytest.raises(kleene.BindingError, match=r"unknown option 'tim'\n.*did you mean 'time'"):
        query.match(events, tim="ts")  # type: ignore[call-arg]
    with pytest.raises(kleene.BindingError, match="the option 'time' is missing"):
        query.match(events)  # type: ignore[call-arg]


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_is_there_once_in_every_command_that_has_its_group(name: str) -> None:
    flag = FLAGS[name]
    written = "--" + (flag.name or name).replace("_", "-")
    actions = [(command, action) for command in COMMANDS for action in parser_of(command)._actions]
    found = {command: action for command, action in actions if written in action.option_strings}
    assert found, f"no command has {written}: no command has the group '{flag.group}'"
    assert set(found) == {"stream"} if OPTIONS[name].stream else {"stream", "match"} <= set(found)
    for action in found.values():
        assert action.metavar == (flag.metavar or None)
        if action.choices is not None:
            assert set(action.choices) <= set(allowed(name))


def test_flags_become_options() -> None:
    line = ["q.sase", "e.csv", "--time", "ts", "--partition-by", "k, l", "--ties", "arrival", "--param", "n=5"]
    line += ["--plan", "mechanism=chain,order=c+a", "--plan", "adaptive=false", "--limits", "runs=3,total=9", "--compressed"]
    given = shared.options(parser_of("match").parse_args([*line, "--limit-runs", "4", "--bad-rows", "drop"]))
    assert given == {
        "time": "ts",
        "partition_by": ("k", "l"),
        "ties": "arrival",
        "bad_rows": "drop",
        "params": {"n": 5},
        "plan": {"mechanism": "chain", "order": ["c", "a"], "adaptive": False},
        "output": "compressed",
        "limits": {"runs": 4, "total": 9},
    }
    assert shared.options(parser_of("match").parse_args(["q.sase", "e.csv", "--time", "ts"])) == {"time": "ts"}


# --- SQL and the documentation ----------------------------------------------------------------------------------------


def test_every_argument_of_sql_has_a_kind_that_is_checked() -> None:
    assert {argument.kind for argument in ARGUMENTS.values()} == set(KINDS)


@pytest.mark.parametrize("path", api_page.TABLES, ids=lambda path: path.name)
def test_tables_of_options_are_up_to_date(path: Any) -> None:
    text = path.read_text(encoding="utf-8")
    assert api_page.with_tables(text) == text, f"write the table again: {api_page.COMMAND}"
    assert api_page.FLAG_TABLE in text or api_page.ARGUMENT_TABLE in text
