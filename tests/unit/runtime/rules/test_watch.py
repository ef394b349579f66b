"""A folder, a file or a table of rules that is watched: what changes, and files that are half-written or unreadable."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kleene.common.errors import DataError
from kleene.runtime.rules.files import MOST_TEXT
from kleene.runtime.rules.snapshot import Rule, Rules, parse_rules
from kleene.runtime.rules.watch import YOUNG, RuleWatch, rule_paths

PAIRS = "PATTERN SEQ(A a, B b) WITHIN 5"
LATE = "PATTERN SEQ(A a, C c) WITHIN 9"
OTHER = "PATTERN SEQ(A a, D d) WITHIN 9"
LONG_AGO = 1_000_000.0
"""When files were changed, unless a test says otherwise."""


def write(path: Path, text: str | bytes, at: float = LONG_AGO) -> Path:
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    os.utime(path, (at, at))
    return path


def folder(path: Path, **texts: str) -> Path:
    for name, text in texts.items():
        write(path / f"{name}.sase", text)
    return path


class Clock:
    """The time that a watch sees: long after the files were changed."""

    def __init__(self) -> None:
        self.now = LONG_AGO + 1000

    def __call__(self) -> float:
        return self.now


class Stream:
    """A watch and the snapshot that it has come to."""

    def __init__(self, source: Path, rules: Rules | None = None) -> None:
        self.clock = Clock()
        self.watch = RuleWatch(str(source), self.clock)
        self.rules = rules or Rules()

    def next(self) -> Rules:
        self.rules = self.watch.next(self.rules)
        return self.rules

    def versions(self) -> dict[str, int]:
        return {name: rule.version for name, rule in self.next().queries.items()}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that are read, in order."""
    found: list[str] = []
    read = Path.read_bytes

    def counted(path: Path) -> bytes:
        found.append(path.name)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    return found


# --- folders ----------------------------------------------------------------------------------------------------------


def test_a_folder_as_it_changes(tmp_path: Path) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS, _draft="?", **{".hidden": "?"}))
    (tmp_path / "below.sase").mkdir()
    write(tmp_path / "notes.paused", "?")
    assert stream.next() == Rules(1, {"pairs": Rule(PAIRS)})
    folder(tmp_path, late=LATE)
    assert stream.next() == Rules(2, {"late": Rule(LATE), "pairs": Rule(PAIRS)})
    folder(tmp_path, pairs=OTHER + " ")
    assert stream.versions() == {"late": 1, "pairs": 2}
    (tmp_path / "late.sase").rename(tmp_path / "late.sase.paused")
    assert stream.next().queries["late"] == Rule(LATE, 1, paused=True)
    (tmp_path / "late.sase.paused").rename(tmp_path / "late.sase")
    assert stream.next().queries["late"] == Rule(LATE)
    (tmp_path / "pairs.sase").unlink()
    assert stream.next() == Rules(6, {"late": Rule(LATE)}, {"pairs": 2})
    (tmp_path / "late.sase").unlink()
    assert stream.next() == Rules(7, removed={"late": 1, "pairs": 2}), "an empty folder has no rules"
    folder(tmp_path, pairs=PAIRS)
    assert stream.next() == Rules(8, {"pairs": Rule(PAIRS, 3)}, {"late": 1})


def test_files_are_read_only_when_they_have_changed(tmp_path: Path, reads: list[str]) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS, late=LATE))
    first = stream.next()
    assert reads == ["late.sase", "pairs.sase"]
    assert stream.next() is first
    assert reads == ["late.sase", "pairs.sase"]
    write(tmp_path / "pairs.sase", PAIRS, LONG_AGO + 1)
    assert stream.next() is first
    assert len(reads) == 4


def test_times_that_are_too_recent_are_not_relied_on(tmp_path: Path, reads: list[str]) -> None:
    stream = Stream(tmp_path)
    write(tmp_path / "pairs.sase", PAIRS, stream.clock.now)
    assert stream.versions() == {"pairs": 1}
    write(tmp_path / "pairs.sase", OTHER, stream.clock.now)
    assert len(OTHER) == len(PAIRS), "neither size nor time tells that the file is another"
    assert stream.versions() == {"pairs": 2}
    stream.clock.now += YOUNG
    stream.next()
    assert len(reads) == 3
    stream.next()
    assert len(reads) == 3


def test_a_file_that_is_replaced_by_one_of_the_same_time_and_size(tmp_path: Path) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS))
    stream.next()
    write(tmp_path / "_new", OTHER).replace(tmp_path / "pairs.sase")
    assert stream.versions() == {"pairs": 2}


def test_a_watch_that_starts_anew_goes_on_from_the_snapshot(tmp_path: Path) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS, late=LATE))
    before = parse_rules(json.dumps(stream.next().as_dict()))
    assert Stream(tmp_path, before).next() is before
    folder(tmp_path, pairs=OTHER, new=PAIRS)
    (tmp_path / "late.sase").unlink()
    after = Stream(tmp_path, before).next()
    assert after == Rules(2, {"new": Rule(PAIRS), "pairs": Rule(OTHER, 2)}, {"late": 1})
    assert stream.watch.next(after) is after
    assert stream.watch.next(before) == after, "the same step from the same snapshot, however often it is asked for"


@pytest.mark.parametrize("text", ["", " \n", "-- nothing yet"])
def test_a_file_that_is_being_written(text: str, tmp_path: Path) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS, late=LATE))
    before = stream.next()
    write(tmp_path / "pairs.sase", text, stream.clock.now)
    write(tmp_path / "new.sase", text, stream.clock.now)
    assert stream.next() is before
    write(tmp_path / "pairs.sase", OTHER, stream.clock.now)
    assert stream.versions() == {"late": 1, "pairs": 2}
    stream.clock.now += YOUNG
    after = stream.next()
    assert list(after.queries) == ["late", "pairs"]
    assert list(after.problems) == ["new"]
    assert "new.sase: there is no query in it\n  hint: to remove a query, remove its file" in after.problems["new"]


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS, late=LATE))
    stream.next()
    write(tmp_path / "pairs.sase", b"PATTERN \xff")
    folder(tmp_path, late=OTHER)
    after = stream.next()
    assert after.queries == {"late": Rule(OTHER, 2), "pairs": Rule(PAIRS)}
    assert after.problems == {"pairs": f"{tmp_path / 'pairs.sase'}: not UTF-8 text (byte 8 is 0xff)"}
    assert stream.next() is after, "a problem that stays is no change"
    write(tmp_path / "pairs.sase", OTHER)
    assert stream.next() == Rules(3, {"late": Rule(OTHER, 2), "pairs": Rule(OTHER, 2)})


def guarded(error: type[OSError], number: int) -> Callable[[Path], bytes]:
    read = Path.read_bytes

    def reading(path: Path) -> bytes:
        if path.name.startswith("late"):
            raise error(number, os.strerror(number), str(path))
        return read(path)

    return reading


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS, late=LATE))
    stream.next()
    folder(tmp_path, late=OTHER + " ")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", guarded(PermissionError, errno.EACCES))
        after = stream.next()
        assert after.queries["late"] == Rule(LATE)
        assert after.problems == {"late": f"cannot read '{tmp_path / 'late.sase'}': Permission denied"}
    assert stream.next().problems == {}, "it is tried again though its size and time are the same"
    assert stream.rules.queries["late"].version == 2


def forbidden(path: Path) -> None:
    """A link to a place that nobody may look at."""
    path.symlink_to("/proc/1/cwd/nowhere" if os.geteuid() else path.parent / "missing" / "place")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (os.mkfifo, "not a file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a file"),
        (lambda path: path.symlink_to(path.parent / "nowhere"), "No such file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (forbidden, "cannot read"),
        (lambda path: write(path, PAIRS + " " * MOST_TEXT), "bytes, and a query has at most 1,000,000"),
        (lambda path: write(path, os.urandom(10_000) + b"\xff"), "not UTF-8 text"),
        (lambda path: write(path.parent / os.fsdecode(b"b\xffd.sase"), PAIRS), "the name is not UTF-8 text"),
    ],
    ids=["a pipe", "a device", "a dangling link", "a link to itself", "a forbidden link", "long", "noise", "a name"],
)
def test_what_is_no_file_of_a_query_does_not_hinder_others(make: Callable[[Path], Any], told: str, tmp_path: Path) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS))
    stream.next()
    make(tmp_path / "bad.sase")
    (tmp_path / "folder.sase").mkdir()
    folder(tmp_path, pairs=LATE)
    after = stream.next()
    assert after.queries == {"pairs": Rule(LATE, 2)}
    (problem,) = after.problems.values()
    assert told in problem
    json.dumps(after.as_dict()).encode()
    "".join(after.problems).encode()


def test_a_folder_behind_a_link_that_may_not_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path, pairs=PAIRS, late=LATE)
    is_dir = Path.is_dir

    def guarded_dir(path: Path) -> bool:
        if path.name == "late.sase":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", guarded_dir)
    assert set(Stream(tmp_path).next().queries) == {"late", "pairs"}


def test_a_file_that_is_renamed_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS, late=LATE))
    before = stream.next()
    listed = [tmp_path / "late.sase", tmp_path / "pairs.sase"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", lambda _: iter(listed))
        (tmp_path / "late.sase").rename(tmp_path / "late.sase.paused")
        assert stream.next() is before
    assert stream.next().queries["late"] == Rule(LATE, 1, paused=True)


def test_a_file_that_a_listing_misses_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is renamed while a folder is listed may be found under neither name."""
    stream = Stream(folder(tmp_path, pairs=PAIRS, late=LATE))
    stream.next()
    (tmp_path / "late.sase").rename(tmp_path / "late.sase.paused")
    listings = [[tmp_path / "pairs.sase"], sorted(tmp_path.iterdir()), sorted(tmp_path.iterdir())]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", lambda _: iter(listings.pop(0)))
        assert stream.next().queries["late"] == Rule(LATE, 1, paused=True)
    (tmp_path / "late.sase.paused").unlink()
    assert set(stream.next().queries) == {"pairs"}


def test_a_file_that_takes_the_place_of_another_under_a_new_name(tmp_path: Path) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS))
    before = stream.next()
    write(tmp_path / "pairs.sase.paused", PAIRS, stream.clock.now)
    assert stream.next() is before
    stream.clock.now += YOUNG
    assert "pairs" in stream.next().problems
    (tmp_path / "pairs.sase").unlink()
    after = stream.next()
    assert after.queries == {"pairs": Rule(PAIRS, 1, paused=True)}
    assert not after.problems


def test_two_files_of_one_name(tmp_path: Path) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS))
    stream.next()
    write(tmp_path / "pairs.sase.paused", LATE)
    after = stream.next()
    assert after.queries == {"pairs": Rule(PAIRS)}
    assert after.problems["pairs"].startswith("several queries are named 'pairs': pairs.sase, pairs.sase.paused\n  hint: give")
    (tmp_path / "pairs.sase").unlink()
    assert stream.next() == Rules(3, {"pairs": Rule(LATE, 2, paused=True)})


@pytest.mark.parametrize("lasts", [False, True])
def test_a_folder_that_is_gone(lasts: bool, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    stream = Stream(folder(rules, pairs=PAIRS))
    before = stream.next()
    rules.rename(tmp_path / "elsewhere")
    assert stream.next() is before
    if lasts:
        stream.clock.now += YOUNG
        gone = stream.next()
        assert gone.queries == before.queries
        assert list(gone.problems) == [str(rules)]
        assert f"cannot read '{rules}': no such file or folder" in gone.problems[str(rules)]
        assert stream.next() is gone
    (tmp_path / "elsewhere").rename(rules)
    back = stream.next()
    assert back == (replace(before, version=3) if lasts else before)
    stream.clock.now += YOUNG
    rules.rename(tmp_path / "elsewhere")
    assert stream.next() is back, "the seconds are counted anew"


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS))
    before = stream.next()

    def denied(path: Path) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", denied)
    assert stream.next() is before
    stream.clock.now += YOUNG
    assert f"cannot read '{tmp_path}': Permission denied" in stream.next().problems[str(tmp_path)]


def test_the_last_look(tmp_path: Path) -> None:
    stream = Stream(folder(tmp_path, pairs=PAIRS))
    stream.watch.look_for_the_last_time()
    folder(tmp_path, late=LATE)
    assert stream.versions() == {"pairs": 1}
    assert Stream(tmp_path).versions() == {"late": 1, "pairs": 1}


# --- one file ---------------------------------------------------------------------------------------------------------


def test_one_file(tmp_path: Path) -> None:
    folder(tmp_path, pairs=PAIRS, late=LATE)
    stream = Stream(tmp_path / "pairs.sase")
    assert stream.next() == Rules(1, {"pairs": Rule(PAIRS)})
    (tmp_path / "pairs.sase").rename(tmp_path / "pairs.sase.paused")
    assert stream.next().queries == {"pairs": Rule(PAIRS, 1, paused=True)}


def test_paths_that_are_no_rules(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder\n  hint: rules are in a folder of"):
        rule_paths(tmp_path / "missing.csv")
    with pytest.raises(DataError, match=r"notes\.txt': its name has none of the known endings\n  hint: rules are in"):
        rule_paths(write(tmp_path / "notes.txt", "?"))


# --- tables -----------------------------------------------------------------------------------------------------------

ROWS = [{"name": "pairs", "query": PAIRS, "paused": False}, {"name": "late", "query": f"{LATE}\n-- late", "paused": True}]

SNAPSHOT = {"late": Rule(f"{LATE}\n-- late", 1, paused=True), "pairs": Rule(PAIRS)}


def as_csv(rows: list[dict[str, Any]]) -> str:
    quoted = [
        ",".join(f'"{value}"' if isinstance(value, str) else str(value).lower() for value in row.values()) for row in rows
    ]
    return "\n".join((",".join(rows[0]), *quoted)) + "\n"


def as_json(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(("name", "written"), [("rules.csv", as_csv), ("rules.JSON", as_json)])
def test_a_table_as_it_changes(name: str, written: Callable[[list[dict[str, Any]]], str], tmp_path: Path) -> None:
    stream = Stream(write(tmp_path / name, written(ROWS)))
    assert stream.next() == Rules(1, SNAPSHOT)
    write(tmp_path / name, written([{**ROWS[0], "query": OTHER + " "}, ROWS[1]]))
    assert stream.versions() == {"late": 1, "pairs": 2}
    write(tmp_path / name, written([{**ROWS[1], "paused": False}]))
    assert stream.next() == Rules(3, {"late": replace(SNAPSHOT["late"], paused=False)}, {"pairs": 2})


def test_a_folder_of_parquet_files_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "rules.parquet").mkdir()
    write(tmp_path / "rules.parquet" / "_SUCCESS", "")
    stream = Stream(tmp_path / "rules.parquet")
    for number, row in enumerate(ROWS):
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rules.parquet" / f"part-{number}.snappy.parquet")
    assert stream.next() == Rules(1, SNAPSHOT)


def test_rows_that_are_switched_off_and_tables_without_pauses(tmp_path: Path) -> None:
    rows = [{"name": "pairs", "query": PAIRS, "enabled": True}, {"name": "late", "query": LATE, "enabled": False}]
    assert Stream(write(tmp_path / "rules.csv", as_csv(rows))).next() == Rules(1, {"pairs": Rule(PAIRS)})


def test_a_table_that_is_being_written_removes_nothing(tmp_path: Path) -> None:
    table = tmp_path / "rules.csv"
    stream = Stream(write(table, as_csv(ROWS)))
    before = stream.next()
    write(table, as_csv(ROWS[:1]), stream.clock.now)
    assert stream.next() is before
    write(table, "", stream.clock.now)
    assert stream.next() is before
    write(table, as_csv([ROWS[0], {**ROWS[1], "name": "new"}]), stream.clock.now)
    assert list(stream.next().queries) == ["late", "new", "pairs"]
    stream.clock.now += YOUNG
    assert stream.next() == Rules(3, {"new": SNAPSHOT["late"], "pairs": Rule(PAIRS)}, {"late": 1})


def test_rows_that_are_no_queries(tmp_path: Path) -> None:
    table = tmp_path / "rules.jsonl"
    stream = Stream(write(table, as_json(ROWS)))
    stream.next()
    wrong = [{**ROWS[0], "query": ""}, {**ROWS[1], "name": None}, *({**ROWS[1], "name": "twice"} for _ in range(2))]
    write(table, as_json(wrong))
    after = stream.next()
    assert after.queries == {"pairs": Rule(PAIRS)}
    assert after.removed == {"late": 1}
    assert after.problems == {
        "pairs": "row 1 of the table of queries ('pairs'): query is empty",
        "row 2": "row 2 of the table of queries: name is NULL",
        "twice": "several queries are named 'twice': row 3, row 4\n  hint: give every query a name of its own",
    }


def test_a_table_whose_text_is_none(tmp_path: Path) -> None:
    """Nothing that a table may hold stops the stream of rules."""
    path = tmp_path / "rules.parquet"
    pq.write_table(pa.table({"name": ["pairs"], "query": [PAIRS]}), path)
    stream = Stream(path)
    before = stream.next()
    offsets, texts = pa.array([0, 6], pa.int32()).buffers()[1], pa.py_buffer(b"A a \xff\xfe")
    pq.write_table(pa.table({"name": ["pairs"], "query": pa.StringArray.from_buffers(1, offsets, texts)}), path)
    stream.next()
    stream.clock.now += YOUNG
    after = stream.next()
    assert after.queries == before.queries
    assert "utf-8" in after.problems[str(path)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name,text\na,b\n", "the table of queries has no column 'query'"),
        ("name,query\n1,b\n", "column 'name' of the table of queries holds int64 values, not text"),
        (
            'name,query,paused\na,"PATTERN A a",maybe\n',
            "column 'paused' of the table of queries holds string values, not booleans",
        ),
        ("name,query\na,b,c\n", "Expected 2 columns, got 3"),
    ],
)
def test_a_table_that_cannot_be_read(text: str, problem: str, tmp_path: Path) -> None:
    table = tmp_path / "rules.csv"
    stream = Stream(write(table, as_csv(ROWS)))
    before = stream.next()
    write(table, text)
    assert stream.next() is before
    stream.clock.now += YOUNG
    assert problem in stream.next().problems[str(table)]
    assert stream.rules.queries == SNAPSHOT
    assert problem in Stream(table).next().problems[str(table)], (
        "at first there is nothing to go on with, and no reason to wait"
    )
    write(table, as_csv(ROWS))
    assert stream.next() == replace(before, version=3)
