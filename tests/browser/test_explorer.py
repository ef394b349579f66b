"""The match explorer in a real browser: what it shows is what `match` finds, every control works by keys, axe finds nothing.

`KLEENE_SCREENSHOTS=docs/figures` writes the pictures of the documentation; otherwise they are only looked at for being drawn.
"""

from __future__ import annotations

import datetime as dt
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import kleene

pytestmark = pytest.mark.browser

ROLES = {"time": "ts", "type": "type"}
MANY = 317
"""Of as many A before as many B there are 100,489 matches."""

SHOPLIFTING = "PATTERN SEQ(Shelf a, !(Register b), Exit c) WHERE [tag] WITHIN 1 hour RETURN a.item AS item, c.ts - a.ts AS took"
HANDLED = """PATTERN SEQ(Shelf a, Scan+ s[], Exit c) WHERE skip_till_next_match(a, s[], c) { [tag] } WITHIN 30 minutes
RETURN a.item AS item, count(s[]) AS scans, avg(s[].weight) AS weight, s[].shelf AS shelves"""
NASTY = "</script><img src=x onerror=alert(1)>"

Open = Callable[..., Any]


def readings(items: int = 60) -> pa.Table:
    """Items that are picked, carried around, mostly paid for, and leave the store."""
    rng = Random(11)
    names = ["razor", "milk", "soap", "bread", "wine", "coffee", "batteries", "cheese"]
    rows: list[tuple[Any, ...]] = []
    for number in range(items):
        name = rng.choice(names)
        tag = f"{name}-{number:02d}"
        begin = dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC) + dt.timedelta(seconds=150 * number + rng.randrange(90))
        rows.append((begin, "Shelf", tag, name, rng.randrange(1, 9), None))
        for scan in range(rng.randrange(1, 5)):
            at = begin + dt.timedelta(seconds=75 * (scan + 1) + rng.randrange(40))
            rows.append((at, "Scan", tag, name, rng.randrange(1, 9), round(rng.uniform(0.2, 3), 2)))
        if rng.random() < 0.6:
            rows.append((begin + dt.timedelta(seconds=420 + rng.randrange(60)), "Register", tag, name, None, None))
        rows.append((begin + dt.timedelta(seconds=560 + rng.randrange(400)), "Exit", tag, name, None, None))
    rows.sort()
    ts, kinds, tags, items_, shelves, weights = zip(*rows, strict=True)
    time = pa.array(ts, pa.timestamp("us", "UTC"))
    return pa.table({"ts": time, "type": kinds, "tag": tags, "item": items_, "shelf": shelves, "weight": weights})


STORE = kleene.workload({"shoplifting": SHOPLIFTING, "handled": HANDLED})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return STORE.explore(readings(), **ROLES).save(tmp_path_factory.mktemp("store") / "store.html")


@pytest.fixture(scope="module")
def store_matches() -> dict[int, dict[str, Any]]:
    found = STORE.match(readings(), **ROLES)
    return {row["match_id"]: row for table in found.values() for row in table.to_pylist()}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    events = pa.table({"ts": range(2 * MANY), "type": ["A"] * MANY + ["B"] * MANY, "x": [i % 7 for i in range(2 * MANY)]})
    path = tmp_path_factory.mktemp("many") / "many.html"
    return kleene.query("PATTERN SEQ(A a, B b)").explore(events, **ROLES).save(path)


def facts(opened: Any, selector: str = "#details-body dl") -> dict[str, str]:
    names, texts = (opened.all_texts(f"{selector} {kind}") for kind in ("dt", "dd"))
    return dict(zip(names, texts, strict=True))


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_it_opens_on_the_first_match(opened: Open, store: Path, store_matches: dict[int, Any]) -> None:
    page = opened(store)
    assert page.page.title() == "shoplifting, handled · Kleene"
    assert page.text("#summary") == f"{len(store_matches)} matches in {readings().num_rows} events"
    assert page.text("#details-title") == f"Match 1 of {len(store_matches)}"
    assert page.page.is_hidden("#notices")


def test_every_match_shows_its_events_and_values(opened: Open, store: Path, store_matches: dict[int, Any]) -> None:
    """Through all matches by the arrow key: the table and the values are those of `match`."""
    page = opened(store)
    events = {(row["type"], row["tag"], row["ts"].isoformat(" ")): row for row in readings().to_pylist()}
    page.page.focus("#list")
    seen: dict[int, int] = {}
    for _ in store_matches:
        known = facts(page, "#details-body dl:first-child")
        row = store_matches[int(known["Match id"])]
        assert known["Start"] == row["match_start"].isoformat(" ")
        assert known["End"] == row["match_end"].isoformat(" ")
        returned = facts(page, ".returned")
        assert returned["item"] == row["item"]
        assert known["Length"] == returned.get("took", known["Length"])
        shown = page.table("#details-body table")
        if row["query"] == "handled":
            assert returned["scans"] == str(row["scans"])
            assert returned["shelves"] == f"[{', '.join(map(str, row['shelves']))}]"
            assert float(returned["weight"]) == pytest.approx(row["weight"])
            assert [item["variable"] for item in shown] == ["a", *(f"s[{at + 1}]" for at in range(row["scans"])), "c"]
            assert [item["shelf"] for item in shown if item["variable"].startswith("s")] == list(map(str, row["shelves"]))
        else:
            assert [item["variable"] for item in shown] == ["a", "c"]
            assert f"no Register b between {known['Start'][:19]}" in page.text("#details-body")
        for item in shown:
            event = events[item["type"], item["tag"], item["ts"]]
            assert item["weight"] == ("NULL" if event["weight"] is None else repr(event["weight"]))
        seen[row["match_id"]] = len(shown)
        page.press("ArrowDown")
    assert seen.keys() == store_matches.keys()


def test_numbers_and_plans(opened: Open, store: Path, store_matches: dict[int, Any]) -> None:
    page = opened(store)
    counts = [sum(row["query"] == name for row in store_matches.values()) for name in ("shoplifting", "handled")]
    first = page.page.locator("#numbers table").first.locator("tbody tr")
    assert [first.nth(at).locator("td.number").text_content() for at in range(2)] == [str(count) for count in counts]
    assert page.all_texts("#numbers caption") == [
        "Matches by query",
        "Keys with most matches",
        "Matches over time",
        "Events by type",
    ]
    page.page.locator("#plans summary").first.click()
    assert "SEQ(Shelf a, !(Register b), Exit c)" in page.text("#plans details:first-child pre")
    assert page.page.evaluate("document.querySelector('#plans img').naturalWidth") > 50


@pytest.mark.parametrize("kinds", [14, 15, 60])
def test_of_many_types_all_have_a_colour_and_most_are_counted(opened: Open, tmp_path: Path, kinds: int) -> None:
    names = [f"T{number:02}" for number in range(kinds)]
    query = kleene.query(f"PATTERN ANY({', '.join(names)}) a")
    page = opened(query.explore(pa.table({"ts": range(kinds), "type": names}), **ROLES).save(tmp_path / "page.html"))
    page.page.focus("#list")
    page.press("End")
    # The last type is on the last of 14 lanes; its colour is at the lane's name, and in the table.
    lane = "[...document.getElementById('chart').getContext('2d').getImageData(5, 34 + 13.5 * 26, 1, 1).data].slice(0, 3)"
    dot = page.page.evaluate("getComputedStyle(document.querySelector('#details-body .dot')).backgroundColor")
    assert dot == f"rgb({', '.join(map(str, page.page.evaluate(lane)))})"
    rows = page.page.locator("#numbers table").last.locator("tbody tr")
    assert rows.count() == min(kinds, 50)
    cut = ", the 50 most frequent of 60" if kinds == 60 else ""
    assert page.all_texts("#numbers caption")[-1] == f"Events by type{cut}"


def test_values_are_text_whatever_they_hold(opened: Open, tmp_path: Path) -> None:
    moment = dt.datetime(2026, 3, 29, 0, 59, 59, 123456, tzinfo=dt.UTC)
    columns = {
        "ts": pa.array([moment, moment + dt.timedelta(seconds=1)], pa.timestamp("us", "Europe/Berlin")),
        "type": ["A", "B"],
        NASTY: [NASTY, "naïve 🦊"],
        "x": pa.array([float("nan"), None]),
        "y": pa.array([float("inf"), 1.0]),
        "big": pa.array([2**62 + 1, None]),
        "struct": pa.array([{"a": [1, None]}, None]),
        "flag": pa.array([True, False]),
        "lasts": pa.array([dt.timedelta(days=1, seconds=61, microseconds=500_000), -dt.timedelta(hours=3)]),
    }
    query = kleene.query("PATTERN SEQ(A a, B b) WITHIN 1 hour", name=NASTY)
    page = opened(query.explore(pa.table(columns), **ROLES).save(tmp_path / "page.html"))
    assert page.text("#title") == NASTY
    first, second = page.table("#details-body table")
    # The second event comes after the clocks of the zone went forward.
    assert (first["ts"], second["ts"]) == ("2026-03-29 01:59:59.123456+01:00", "2026-03-29 03:00:00.123456+02:00")
    assert (first[NASTY], second[NASTY]) == (NASTY, "naïve 🦊")
    assert (first["x"], second["x"]) == ("NaN", "NULL")
    assert (first["y"], second["y"]) == ("Infinity", "1.0")
    assert (first["big"], second["big"]) == (str(2**62 + 1), "NULL")
    assert (first["struct"], second["struct"]) == ("{a: [1, NULL]}", "NULL")
    assert (first["flag"], second["flag"]) == ("true", "false")
    assert (first["lasts"], second["lasts"]) == ("1 d 1 min 1.5 s", "-3 h")
    assert page.page.locator("img[src=x]").count() == 0


ABSENCES = {
    "SEQ(!(N n), A a, B b)": "no N n between -5 and 3",
    "SEQ(A a, !(N n), B b)": "no N n between 3 and 5",
    "SEQ(A a, B b, !(N n))": "no N n between 5 and 13",
    "AND(A a, B b, !(N n))": "no N n between -5 and 13",
    "SEQ(A a, !(N n), !(ANY(N, M) m), B b)": "no N n between 3 and 5; no N or M m between 3 and 5",
    "SEQ(A+ a[], !(N n), B b)": "no N n between 4 and 5",
}


@pytest.mark.parametrize("pattern", ABSENCES)
def test_where_nothing_was_allowed_to_occur(opened: Open, tmp_path: Path, pattern: str) -> None:
    times, types = (3, 4, 5, 40), "AABN" if "A+" in pattern else "ACBN"
    explorer = kleene.query(f"PATTERN {pattern} WITHIN 10").explore(pa.table({"ts": times, "type": list(types)}), **ROLES)
    page = opened(explorer.save(tmp_path / "page.html"))
    while len(page.table("#details-body table")) < 2 + ("A+" in pattern):
        page.press("n")
    assert page.all_texts("#details-body > p") == [ABSENCES[pattern]]


def test_very_long_matches_are_shown_in_part(opened: Open, tmp_path: Path) -> None:
    size = 2_000
    events = pa.table({"ts": range(size), "type": ["A"] * (size - 1) + ["B"]})
    query = kleene.query("PATTERN SEQ(A+ a[], B b) WHERE partition_contiguity(a[], b) { a[1].ts = 0 }")
    page = opened(query.explore(events, **ROLES).save(tmp_path / "page.html"))
    assert len(page.table("#details-body table")) == 300
    page.page.click("#details-body button")
    shown = page.table("#details-body table")
    assert [int(item["ts"]) for item in shown] == list(range(size))
    assert (shown[-2]["variable"], shown[-1]["variable"]) == (f"a[{size - 1}]", "b")


def test_what_is_left_out_is_on_the_page(opened: Open, tmp_path: Path) -> None:
    explorer = STORE.explore(readings(), **ROLES, show_matches=3)
    page = opened(explorer.save(tmp_path / "page.html"))
    assert page.all_texts("#notices li") == list(explorer.notices)
    assert page.page.is_visible("#notices")


def test_no_matches(opened: Open, tmp_path: Path) -> None:
    explorer = kleene.query("PATTERN SEQ(Exit a, Exit b) WITHIN 1 second").explore(readings().slice(0, 4), **ROLES)
    page = opened(explorer.save(tmp_path / "page.html"))
    assert page.text("#none") == "No match passes the filters."
    assert page.text("#details-title") == "No match selected"
    page.press("n", "p")


def test_a_notebook_shows_it_in_its_frame(opened: Open, store: Path, tmp_path: Path) -> None:
    explorer = STORE.explore(readings(), **ROLES)
    path = tmp_path / "notebook.html"
    path.write_text(f'<!doctype html><html data-ready lang="en"><title>n</title>{explorer._repr_html_()}', encoding="utf-8")
    frame = opened(path).page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for()
    assert frame.locator("#details-title").inner_text() == f"Match 1 of {explorer.shown['matches']}"
    frame.locator("#next").click()
    assert frame.locator("#details-title").inner_text() == f"Match 2 of {explorer.shown['matches']}"


# --- filters and links ------------------------------------------------------------------------------------------------


def test_filters_by_query_key_and_time(opened: Open, store: Path, store_matches: dict[int, Any]) -> None:
    page = opened(store)
    page.page.select_option("#query", label="shoplifting")
    own = [row for row in store_matches.values() if row["query"] == "shoplifting"]
    assert page.text("#list-count") == f"{len(own)} of {len(store_matches)}"
    assert page.text("#live") == f"{len(own)} matches with these filters."
    page.page.select_option("#query", label="all queries")

    tag = facts(page)["Key"].removeprefix("tag=")
    page.page.fill("#key", tag)
    page.page.keyboard.press("Tab")
    assert page.page.input_value("#key") == f"tag={tag}"
    known = {int(facts(page)["Match id"])}
    page.press("n")
    known.add(int(facts(page)["Match id"]))
    events = {row["tag"]: row["item"] for row in readings().to_pylist()}
    assert {store_matches[match]["item"] for match in known} == {events[tag]}
    page.page.click("#reset")
    assert page.text("#list-count") == str(len(store_matches))

    page.page.fill("#from", "2026-03-02 09:30")
    page.page.fill("#until", "2026-03-02 10:00:00")
    page.page.keyboard.press("Enter")
    begin, end = (dt.datetime(2026, 3, 2, *clock, tzinfo=dt.UTC) for clock in ((9, 30), (10, 0)))
    inside = [row for row in store_matches.values() if row["match_start"] >= begin and row["match_end"] < end]
    assert page.text("#list-count") == f"{len(inside)} of {len(store_matches)}"


def test_what_cannot_be_a_filter_is_said(opened: Open, store: Path) -> None:
    page = opened(store)
    count = page.text("#list-count")
    page.page.fill("#from", "soon")
    page.page.keyboard.press("Enter")
    assert "“soon” is no time: write it as 2026-03-02" in page.text("#filter-error")
    page.page.fill("#from", "")
    page.page.fill("#key", "tag=nothing")
    page.page.keyboard.press("Enter")
    assert page.text("#filter-error") == "no event has the key “tag=nothing”"
    assert page.text("#list-count") == count


def test_a_link_leads_to_the_same_match_and_filters(opened: Open, store: Path) -> None:
    page = opened(store)
    page.page.select_option("#query", label="handled")
    page.page.select_option("#lanes", "variable")
    page.page.focus("#list")
    page.press("ArrowDown", "ArrowDown", "ArrowDown")
    link = page.page.evaluate("location.hash")
    known = facts(page)
    other = opened(store, link)
    assert facts(other) == known
    assert other.page.input_value("#lanes") == "variable"
    assert other.text("#details-title") == page.text("#details-title")
    # A link followed on a page that is open.
    other.page.evaluate("location.hash = '#query=shoplifting'")
    other.page.wait_for_function("document.getElementById('query').value === '0'")
    assert facts(other)["Query"] == "shoplifting"


# --- keys and readers -------------------------------------------------------------------------------------------------


def test_every_control_is_reached_by_the_tab_key(opened: Open, store: Path) -> None:
    page = opened(store)
    wanted = set(
        page.page.evaluate(
            "[...document.querySelectorAll('button, select, input, summary, #list, #plot, [tabindex=\"0\"]')]"
            ".filter((e) => e.checkVisibility() && !e.disabled && !e.closest('dialog'))"
            ".map((e, at) => (e.dataset.reach = at))"
        )
    )
    reached: set[int] = set()
    for _ in range(len(wanted) + 6):
        page.page.keyboard.press("Tab")
        at = page.page.evaluate("Number(document.activeElement.dataset.reach ?? -1)")
        outline = page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        if at >= 0:
            reached.add(at)
            assert outline != "none", page.page.evaluate("document.activeElement.outerHTML.slice(0, 80)")
    assert reached == wanted


def test_the_list_by_keys_and_what_a_reader_hears(opened: Open, store: Path, store_matches: dict[int, Any]) -> None:
    page = opened(store)
    size = len(store_matches)
    page.page.focus("#list")
    page.press("ArrowDown")
    assert page.text("#live").startswith(f"Match 2 of {size}, ")
    option = page.page.locator(f"#{page.page.get_attribute('#list', 'aria-activedescendant')}")
    assert option.get_attribute("aria-selected") == "true"
    assert option.get_attribute("aria-posinset") == "2"
    assert option.get_attribute("aria-setsize") == str(size)
    page.press("End")
    assert page.text("#details-title") == f"Match {size} of {size}"
    page.press("ArrowDown")
    assert page.text("#details-title") == f"Match {size} of {size}"
    page.press("Home", "PageDown")
    assert int(re.findall(r"\d+", page.text("#details-title"))[0]) > 5
    page.press("Enter")
    assert page.page.evaluate("document.activeElement.id") == "details-title"


def view(page: Any) -> list[float]:
    """What the timeline shows, by the marks of its axis: read from a picture it cannot be, so from the filter that takes it."""
    page.page.click("#use-view")
    found = [page.page.input_value(f"#{side}") for side in ("from", "until")]
    page.page.click("#reset")
    return [dt.datetime.fromisoformat(text).timestamp() for text in found]


def test_the_timeline_by_keys(opened: Open, store: Path) -> None:
    def after(*keys: str) -> list[float]:
        page = opened(store)
        page.page.focus("#plot")
        page.press(*keys)
        return view(page)

    whole, closer, moved, match = after("0"), after("+"), after("+", "ArrowRight"), after("f")
    assert whole[0] < closer[0] < closer[1] < whole[1]
    assert moved[0] > closer[0]
    assert moved[1] - moved[0] == pytest.approx(closer[1] - closer[0], abs=1)
    assert match[1] - match[0] < (whole[1] - whole[0]) / 4
    page = opened(store)
    page.page.focus("#plot")
    page.press("ArrowDown")
    assert page.text("#details-title").startswith("Match 2 of")


def test_shortcuts_are_listed_and_can_be_turned_off(opened: Open, store: Path) -> None:
    page = opened(store)
    page.press("?")
    assert page.page.is_visible("#shortcuts")
    page.page.click("#letters")
    page.press("Escape")
    assert page.page.is_hidden("#shortcuts")
    page.press("n")
    assert page.text("#details-title").startswith("Match 1 of")


def test_a_click_on_an_event_selects_its_match(opened: Open, store: Path) -> None:
    page = opened(store)
    page.page.focus("#list")
    page.press("End")
    page.page.focus("#plot")
    page.press("f", "0")
    box = page.page.locator("#chart").bounding_box()
    before = page.text("#details-title")
    for x in range(int(box["width"] * 0.2), int(box["width"]), 6):
        page.page.mouse.click(box["x"] + x, box["y"] + 34 + 18)
        page.drawn()
        if page.text("#details-title") != before:
            return
    pytest.fail("no event of the first lane could be clicked")


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened: Open, store: Path, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(store, color_scheme=scheme)
    page.page.locator("#plans summary").first.click()
    for dialog in (False, True):
        if dialog:
            page.press("?")
        results = Axe().run(page.page, options={"runOnly": RULES})
        assert results.violations_count == 0, results.generate_report()


# --- size -------------------------------------------------------------------------------------------------------------


def test_a_hundred_thousand_matches(opened: Open, many: Path) -> None:
    page = opened(many)
    assert page.text("#summary").startswith(f"100,000 of {MANY * MANY:,} matches")
    assert page.text("#notices").startswith("The first 100,000 of 100,489 matches are shown")
    elements = page.page.evaluate("document.querySelectorAll('*').length")
    assert page.page.locator("#rows > *").count() < 40
    page.page.focus("#list")
    page.press("End")
    assert page.text("#details-title") == "Match 100,000 of 100,000"
    assert page.page.locator("#rows .row").last.get_attribute("aria-posinset") == "100000"
    page.page.evaluate("document.getElementById('list').scrollTop = 2400000")
    page.drawn()
    middle = int(page.page.locator("#rows .row").first.get_attribute("aria-posinset"))
    assert 49_980 < middle < 50_010
    # However far one scrolls, there are as many elements as at the beginning, give or take a few rows.
    assert page.page.locator("#rows > *").count() < 40
    assert abs(page.page.evaluate("document.querySelectorAll('*').length") - elements) < 250
    page.page.locator("#rows .row").nth(8).click()
    assert page.text("#details-title") == f"Match {middle + 8:,} of 100,000"
    first, second = page.table("#details-body table")
    assert (first["type"], second["type"]) == ("A", "B")
    assert int(first["ts"]) == (middle + 7) // MANY


# --- how it looks -----------------------------------------------------------------------------------------------------

LOOKS = {
    "light": {"viewport": {"width": 1280, "height": 940}},
    "dark": {"viewport": {"width": 1280, "height": 940}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 1300}},
}


@pytest.mark.parametrize("look", LOOKS)
def test_it_is_drawn(opened: Open, store: Path, store_matches: dict[int, Any], look: str) -> None:
    query = "handled" if look == "dark" else "shoplifting"
    own = [row for row in store_matches.values() if row["query"] == query]
    middle = dt.datetime(2026, 3, 2, 10, tzinfo=dt.UTC)
    chosen = max(own, key=lambda row: (row.get("scans", 0), -abs(row["match_start"] - middle)))
    page = opened(store, f"#query={query}&match={chosen['match_id']}", **LOOKS[look])
    page.page.click("#zoom-match")
    page.page.click("#zoom-out")
    page.page.evaluate("document.activeElement.blur()")
    page.page.mouse.move(0, 0)
    page.drawn()
    assert page.page.evaluate("document.documentElement.scrollWidth") <= LOOKS[look]["viewport"]["width"]
    picture = page.page.screenshot()
    folder = os.environ.get("KLEENE_SCREENSHOTS")
    if folder:
        (Path(folder) / f"explorer-{look}.png").write_bytes(picture)
    assert colours(picture) > 200
    assert colours(page.page.locator("#chart").screenshot()) > 100


def test_the_theme_can_be_chosen(opened: Open, store: Path) -> None:
    page = opened(store)

    def paper() -> str:
        return str(page.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = paper()
    page.page.click("#theme")
    assert (page.text("#theme"), paper()) == ("Theme: light", light)
    page.page.click("#theme")
    assert page.text("#theme") == "Theme: dark"
    assert paper() != light
    page.page.click("#theme")
    assert (page.text("#theme"), paper()) == ("Theme: system", light)


def colours(picture: bytes) -> int:
    """How many colours a picture has: a blank one has one."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    return len(image.getcolors(image.width * image.height) or ())
