"""The explorer's page: what is embedded, what is left out and said, and that data stays data."""

from __future__ import annotations

import datetime as dt
import decimal
import html
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.interfaces.cli import main
from kleene.interfaces.explorer import document
from kleene.interfaces.explorer.encoding import LONGEST, Payload, encode
from kleene.interfaces.explorer.page import SCRIPTS
from support.explorer_page import read_page

ROLES = {"time": "ts", "type": "type"}
EVENTS = pa.table(
    {
        "ts": [1, 2, 3, 4, 5, 6, 7],
        "type": ["A", "A", "N", "B", "A", "B", "B"],
        "k": [1, 2, 1, 1, 2, 2, 1],
        "x": [1.5, None, math.nan, 2.0, -0.0, 4.0, 5.0],
    }
)


def shown(query: str, events: pa.Table = EVENTS, **options: Any) -> Any:
    return read_page(kleene.query(query).explore(events, **ROLES, **options).html())


# --- what is embedded -------------------------------------------------------------------------------------------------


def test_a_match_has_its_events_values_and_id() -> None:
    query = kleene.query("PATTERN SEQ(A+ a[], !(N n), B b) WHERE [k] WITHIN 10 RETURN a[].x AS xs, b.ts AS t")
    page = read_page(query.explore(EVENTS, **ROLES).html())
    rows = {row["match_id"]: row for row in query.match(EVENTS, **ROLES).to_pylist()}
    assert len(page.matches) == len(rows) == 3
    for match in page.matches:
        row = rows[match["match_id"]]
        assert match["returned"] == {"xs": row["xs"], "t": row["t"]}
        assert (match["start"] + 1, match["end"] + 1) == (row["match_start"], row["match_end"])
        assert page.events[match["bindings"]["b"]]["ts"] == row["t"]
        assert [page.events[event]["x"] for event in match["bindings"]["a"]] == row["xs"]
    starts = [match["start"] for match in page.matches]
    assert starts == sorted(starts)


def test_events_come_back_with_nulls_and_nan() -> None:
    page = shown("PATTERN A a")
    assert [event["x"] for event in page.events][:2] == [1.5, None]
    assert math.isnan(page.events[2]["x"])
    assert math.copysign(1, page.events[4]["x"]) == -1


def test_events_are_in_the_order_of_time_whatever_order_they_come_in() -> None:
    page = shown("PATTERN SEQ(A a, B b) WHERE [k]", EVENTS.take([6, 0, 3, 2, 5, 1, 4]))
    assert [event["ts"] for event in page.events] == [1, 2, 3, 4, 5, 6, 7]
    found = {(page.events[m["bindings"]["a"]]["ts"], page.events[m["bindings"]["b"]]["ts"]) for m in page.matches}
    assert found == {(1, 4), (1, 7), (2, 6), (5, 6)}


def test_a_variable_of_another_branch_has_no_event() -> None:
    page = shown("PATTERN SEQ(A a, OR(N n, B b)) WHERE a.ts = 1 WITHIN 4")
    assert [sorted(match["bindings"]) for match in page.matches] == [["a", "n"], ["a", "b"]]


def test_where_types_lack_attributes_events_still_have_their_rows() -> None:
    types = {"A": ["k"], "B": ["k", "x"], "N": []}
    page = shown("PATTERN SEQ(A a, B b) WHERE a.k = b.k", schema=types)
    assert len(page.matches) == 4


def test_a_column_that_has_the_name_of_the_row_column() -> None:
    events = EVENTS.append_column("row", pa.array(list("abcdefg")))
    query = kleene.query("PATTERN SEQ(A a, B b)")
    page = read_page(query.explore(events, **ROLES).html())
    assert page.events[0]["row"] == "a"
    assert sorted(match["match_id"] for match in page.matches) == sorted(query.match(events, **ROLES)["match_id"].to_pylist())


def test_every_type_of_column_is_shown() -> None:
    moment = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC)
    columns: dict[str, tuple[pa.DataType, list[Any], list[Any] | None]] = {
        "big": (pa.int64(), [2**62, None], None),
        "small": (pa.int8(), [-7, 7], None),
        "unsigned": (pa.uint64(), [2**63, 1], ["9223372036854775808", "1"]),
        "single": (pa.float32(), [0.1, math.inf], ["0.1", "inf"]),
        "bool": (pa.bool_(), [True, None], None),
        "naive": (pa.timestamp("ns"), [1, None], None),
        "zoned": (pa.timestamp("us", "Europe/Berlin"), [moment, None], None),
        "length": (pa.duration("ms"), [dt.timedelta(hours=-2), None], None),
        "date": (pa.date32(), [dt.date(2026, 3, 2), None], ["2026-03-02", None]),
        "decimal": (pa.decimal128(9, 2), [decimal.Decimal("1.50"), None], ["1.50", None]),
        "binary": (pa.binary(), [b"\x00\xff", None], ["00ff", None]),
        "unicode": (pa.large_string(), ["naïve 🦊 \u2028", ""], None),
        "coded": (pa.dictionary(pa.int32(), pa.string()), ["x", None], None),
        "list": (pa.list_(pa.int32()), [[1, None], None], None),
        "views": (pa.list_view(pa.timestamp("ns")), [[1, None], None], None),
        "empty_list": (pa.list_(pa.string()), [[], ["a"]], None),
        "fixed": (pa.list_(pa.float64(), 2), [[1.0, 2.0], None], None),
        "struct": (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": 1, "b": None}, None], None),
        "map": (pa.map_(pa.string(), pa.int32()), [[("k", 1)], None], [[{"key": "k", "value": 1}], None]),
        "null": (pa.null(), [None, None], None),
        "no_text": (pa.string(), [None, None], None),
    }
    events = pa.table(
        {"ts": [1, 2], "type": ["A", "A"], **{name: pa.array(values, kind) for name, (kind, values, _) in columns.items()}}
    )
    page = shown("PATTERN A a", events)
    for name, (_, values, words) in columns.items():
        expected = events.column(name).to_pylist() if words is None else words
        assert [event[name] for event in page.events] == expected, (name, values)


def test_of_a_long_text_the_beginning_is_shown_and_how_much_is_left_out() -> None:
    payload = Payload()
    column = encode(pa.array(["ä" * (LONGEST + 5), "short"]), payload)
    assert column["kind"] == "text"
    page = shown("PATTERN A a", pa.table({"ts": [1], "type": ["A"], "x": ["ä" * (LONGEST + 5)]}))
    assert page.events[0]["x"] == "ä" * LONGEST + "… (5 more characters)"


def test_times_are_exact_in_the_unit_of_the_column() -> None:
    base = 1_772_442_000_000_000_001
    events = pa.table({"ts": pa.array([base, base + 1], pa.timestamp("ns")), "type": ["A", "B"]})
    page = shown("PATTERN SEQ(A a, B b) WITHIN 1 second", events)
    assert page.manifest["time"] == {"name": "ts", "unit": "ns", "zone": None, "origin": str(base)}
    assert (page.matches[0]["start"], page.matches[0]["end"]) == (0, 1)


def test_keys_are_those_of_the_equivalence_tests() -> None:
    page = shown("PATTERN SEQ(A a, B b) WHERE [k]")
    assert [family["attributes"] for family in page.manifest["families"]] == [["k"]]
    values = {match["key"]: page.events[match["bindings"]["a"]]["k"] for match in page.matches}
    assert sorted(values.values()) == [1, 2]


def test_the_key_of_a_match_is_that_of_the_events_that_have_it() -> None:
    """What an A has in a column that is no attribute of its type is no key."""
    types, ids = ["A", "B", "A", "B"], [9, 1, None, 2]
    events = pa.table({"ts": [1, 2, 3, 4], "type": types, "x": [0] * 4, "id": ids})
    page = shown("PATTERN SEQ(A a, B b) WHERE [id]", events, schema={"A": ["x"], "B": ["id"]})
    (family,) = page.families
    assert family["codes"].tolist() == [-1, 0, -1, 1]
    assert [(match["bindings"]["b"], match["key"]) for match in page.matches] == [(1, 0), (3, 1), (3, 1)]


def test_without_a_type_column_every_event_is_of_the_patterns_type() -> None:
    events = pa.table({"ts": [1, 2, 3], "x": [1, 2, 3]})
    page = read_page(kleene.query("PATTERN SEQ(Tick a, Tick b) WHERE a.x < b.x").explore(events, time="ts").html())
    assert page.manifest["events"]["types"]["names"] == ["Tick"]
    assert len(page.matches) == 3


def test_no_match_and_no_event() -> None:
    assert shown("PATTERN SEQ(B a, N b) WITHIN 1").matches == []
    empty = shown("PATTERN SEQ(A a, B b) WHERE [k]", EVENTS.slice(0, 0))
    assert (empty.events, empty.matches) == ([], [])


# --- workloads --------------------------------------------------------------------------------------------------------


def test_a_workload_shows_composite_events_and_the_queries_that_read_them() -> None:
    queries = {
        "failing": "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 4 RETURN b.k AS k, b.ts - a.ts AS lag INTO Failing",
        "followed": "PATTERN SEQ(Failing f, B x) WHERE f.lag < 9 WITHIN 10",
        "alone": "PATTERN SEQ(A a, N n)",
        "counted": "PATTERN SEQ(A a, B b) AGG COUNT WITHIN 5",
    }
    pumps = kleene.workload(queries)
    explorer = pumps.explore(EVENTS, **ROLES)
    page = read_page(explorer.html())
    found = pumps.match(EVENTS, **ROLES)
    for name in ("failing", "followed", "alone"):
        ids = [match["match_id"] for match in page.matches if match["query"] == name]
        assert sorted(ids) == sorted(found[name]["match_id"].to_pylist()), name
    rows = {row["match_id"]: row for row in found["followed"].to_pylist()}
    for match in page.matches:
        if match["query"] == "followed":
            event, row = page.events[match["bindings"]["f"]], rows[match["match_id"]]
            assert (event["type"], event["ts"], event["lag"]) == ("Failing", row["f"]["ts"], row["f"]["lag"])
    assert explorer.notices == ("'counted' has AGG, and so no matches to show.",)
    assert page.manifest["totals"]["events"] == EVENTS.num_rows


def test_composite_events_with_attributes_of_different_kinds() -> None:
    queries = {
        "one": "PATTERN A a WHERE a.ts = 1 RETURN a.k AS v INTO One",
        "two": "PATTERN A a WHERE a.ts = 2 RETURN a.type AS v INTO Two",
        "reads_one": "PATTERN SEQ(One o, B b) WHERE o.v = b.k",
        "reads_two": "PATTERN SEQ(Two o, B b) WHERE o.v = 'A'",
    }
    page = read_page(kleene.workload(queries).explore(EVENTS, **ROLES).html())
    assert {(event["type"], event["v"], event["Two.v"]) for event in page.events if event["type"] in ("One", "Two")} == {
        ("One", 1, None),
        ("Two", None, "A"),
    }


# --- limits and choices -----------------------------------------------------------------------------------------------


def test_what_is_left_out_is_said() -> None:
    explorer = kleene.query("PATTERN SEQ(A a, B b)").explore(EVENTS, **ROLES, show_matches=2, show_events=3)
    page = read_page(explorer.html())
    assert explorer.shown == {"events": 3, "matches": 2}
    assert [page.events[match["bindings"]["a"]]["ts"] for match in page.matches] == [1, 1]
    assert explorer.notices[0].startswith("The first 2 of 8 matches are shown")
    assert explorer.notices[1].startswith("3 of 7 events are shown")
    assert page.manifest["notices"] == list(explorer.notices)


def test_the_events_of_shown_matches_are_kept_and_then_those_of_their_keys() -> None:
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [k] AND a.ts = 5")
    page = read_page(query.explore(EVENTS, **ROLES, show_events=3).html())
    assert [event["ts"] for event in page.events] == [2, 5, 6]
    assert len(read_page(query.explore(EVENTS, **ROLES, show_events=1).html()).events) == 2


def test_matches_with_very_many_events_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "REFERENCES", 5)
    explorer = kleene.query("PATTERN SEQ(A a, B b)").explore(EVENTS, **ROLES)
    assert explorer.shown["matches"] == 2
    assert "of 8 matches" in explorer.notices[0]
    assert "5 events" in explorer.notices[0]
    assert "show_matches" not in explorer.notices[0]


def test_a_key_and_a_range_of_time() -> None:
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE [k]")
    explorer = query.explore(EVENTS, **ROLES, key={"k": 1}, since=1, until=4)
    assert explorer.shown == {"events": 3, "matches": 1}
    (notice,) = explorer.notices
    assert notice.startswith("Only events ")
    assert notice.endswith(" were read: a match that needs others is not found.")
    assert all(word in notice for word in ("k=1", "since 1", "until 4"))


def test_bad_rows_are_counted() -> None:
    events = pa.table({"ts": [1, None, 3], "type": ["A", "A", "B"]})
    explorer = kleene.query("PATTERN SEQ(A a, B b)").explore(events, **ROLES, bad_rows="drop")
    assert explorer.shown == {"events": 2, "matches": 1}
    assert len(explorer.notices) == 2
    with pytest.raises(kleene.DataError):
        kleene.query("PATTERN SEQ(A a, B b)").explore(events, **ROLES)


def test_what_cannot_be_explored_is_refused() -> None:
    with pytest.raises(kleene.PlanningError, match="a query with AGG has rows of values"):
        kleene.query("PATTERN SEQ(A a, B b) AGG COUNT").explore(EVENTS, **ROLES)
    with pytest.raises(kleene.BindingError, match="show_matches cannot be 0"):
        kleene.query("PATTERN A a").explore(EVENTS, **ROLES, show_matches=0)
    with pytest.raises(kleene.BindingError, match="unknown option 'tiem'"):
        kleene.query("PATTERN A a").explore(EVENTS, time="ts", tiem=1)


# --- the page ---------------------------------------------------------------------------------------------------------

NASTY = "</script><script>alert(1)</script><!-- ]]> \"'&{{payload}}"


def test_data_cannot_leave_its_element() -> None:
    events = pa.table({"ts": [1], "type": [NASTY], NASTY: [NASTY]})
    query = kleene.query("PATTERN A a", name=NASTY)
    page = query.explore(events.set_column(1, "type", pa.array(["A"])), **ROLES).html()
    assert page.count("</script>") == 3
    assert read_page(page).events == [{"ts": 1, "type": "A", NASTY: NASTY}]
    assert f"<title>{html.escape(NASTY)} · Kleene</title>" in page


def test_the_page_forbids_everything_but_its_own_script() -> None:
    page = kleene.query("PATTERN A a").explore(EVENTS, **ROLES).html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy[1]
    own = [line for line in page.split("\n") if "http://" in line or "https://" in line]
    assert own == []
    assert "{{" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_the_same_matches_give_the_same_page() -> None:
    query = kleene.query("PATTERN SEQ(A a, B b)")
    assert query.explore(EVENTS, **ROLES).html() == query.explore(EVENTS, **ROLES).html()


def test_in_a_notebook_the_page_is_a_frame_that_can_only_run_its_script() -> None:
    explorer = kleene.query("PATTERN A a").explore(EVENTS, **ROLES)
    frame = explorer._repr_html_()
    assert 'sandbox="allow-scripts"' in frame
    source = re.search(r'srcdoc="([^"]*)"', frame)
    assert source is not None
    assert html.unescape(source[1]) == explorer.html()


def test_all_files_of_the_page_are_part_of_it() -> None:
    folder = Path(document.__file__).parent / "assets"
    assert {file.name for file in folder.iterdir()} == {*SCRIPTS, "page.html", "style.css"}


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("events.csv").write_text("ts,type,k\n3,B,1\n1,A,1\n2,A,2\n", encoding="utf-8")
    Path("rules").mkdir()
    Path("rules/pairs.sase").write_text("PATTERN SEQ(A a, B b)", encoding="utf-8")
    Path("rules/keyed.sase").write_text("PATTERN SEQ(A a, B b) WHERE [k]", encoding="utf-8")
    return tmp_path


def test_the_command_writes_a_page(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "rules/pairs.sase", "events.csv", "--time", "ts", "--type", "type", "-o", "out.html"]) == 0
    assert capsys.readouterr().err == "2 matches, 3 events: out.html\n"
    assert len(read_page((files / "out.html").read_text(encoding="utf-8")).matches) == 2


def test_the_command_takes_a_folder_and_says_what_is_left_out(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--time", "ts", "--type", "type", "-o", "out.html", "--show-matches", "1", "--key", "k=1"]
    assert main(["explore", "rules", "events.csv", *options]) == 0
    said = capsys.readouterr().err.split("\n")
    assert said[0] == "1 match, 2 events: out.html"
    assert said[1].startswith("note: Only events of k=1 were read")
    assert said[2].startswith("note: The first 1 of 2 matches are shown")


def test_wrong_usage_of_the_command(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["explore", "rules", "events.csv", "--time", "ts", "--type", "type", "-o", "out.html"]
    assert main([*folder, "--with", "rules/pairs.sase"]) == 2
    assert main([*folder, "--key", "k"]) == 2
    assert main(folder[:-2]) == 2
    assert "a folder has all of its queries already" in capsys.readouterr().err
