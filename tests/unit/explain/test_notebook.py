"""What a notebook shows: the text of queries and plans, escaped and coloured, and a plan's picture."""

from __future__ import annotations

import re
from base64 import b64decode
from html import unescape
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

import kleene

SCHEMA = pa.schema({"ts": pa.int64(), "type": pa.string(), "k": pa.int64(), "x": pa.int64(), "s": pa.string()})
ROLES: dict[str, Any] = {"time": "ts", "type": "type"}
HOSTILE = '\'</pre><script>alert(1)</script>&amp;<img src="x" onerror="y">\''
ALLOWED = {"pre", "span", "div", "b", "img"}


class _Elements(HTMLParser):
    """The elements of a piece of HTML, its text, and its styled pieces."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.coloured: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style", "src", "alt"}
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "span":
            self.coloured.append(data)


def elements(shown: Any) -> _Elements:
    """The HTML of something, after asserting that it is well formed and that nothing in it is anybody's but ours."""
    found = _Elements(shown._repr_html_())
    assert found.open == []
    assert set(found.tags) <= ALLOWED
    return found


def pictures(shown: Any) -> list[str]:
    """The pictures in the HTML of something, after asserting that they are SVG documents."""
    encoded = re.findall(r'<img alt="[^"<>]*" src="data:image/svg\+xml;base64,([^"]*)">', shown._repr_html_())
    found = [b64decode(item, validate=True).decode() for item in encoded]
    for picture in found:
        assert ET.fromstring(picture).tag.endswith("svg")
    return found


def test_a_query_is_its_text_with_keywords_strings_and_numbers_coloured() -> None:
    query = kleene.query("PATTERN SEQ(A a, B b) WHERE skip_till_next_match(a, b) {a.s = 'AND 7' AND a.x > 1.5} WITHIN 10")
    shown = elements(query)
    assert shown.text == str(query)
    assert shown.coloured == ["PATTERN", "SEQ", "WHERE", "skip_till_next_match", "'AND 7'", "AND", "1.5", "WITHIN", "10"]


def test_a_keyword_is_no_keyword_in_a_quoted_name() -> None:
    shown = elements(kleene.query("PATTERN `OR` a1 WHERE a1.`it's AND 7` > 2"))
    assert shown.coloured == ["PATTERN", "WHERE", "2"]


@pytest.mark.parametrize(
    "text", [f"PATTERN A a WHERE a.s = {HOSTILE}", "PATTERN `</pre><script>x</script>` a", "PATTERN A a WHERE a.`<b>&` > 1"]
)
def test_what_a_user_wrote_is_escaped(text: str) -> None:
    query = kleene.query(text)
    shown = elements(query)
    assert shown.text == str(query)
    assert "<script" not in query._repr_html_()


PLANS = {
    "lazy": ("PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x AND a.s != {} WITHIN 10", None),
    "sequence": ("PATTERN SEQ(A a, !(C c), B b) WHERE [k] AND a.s != {} WITHIN 10", {"mechanism": "sequence"}),
    "nfa": ("PATTERN SEQ(A a, B+ b[]) WHERE [k] AND a.s != {} WITHIN 10", {"mechanism": "nfa"}),
    "counters": ("PATTERN SEQ(A a, B b) WHERE a.s != {} AGG COUNT AS n WITHIN 10", {"mechanism": "counters"}),
    "matches": ("PATTERN SEQ(A a, B b) WHERE a.s != {} AGG COUNT AS n WITHIN 10", {"mechanism": "matches"}),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_its_text_and_its_picture(name: str) -> None:
    text, forced = PLANS[name]
    plan = kleene.query(text.format(HOSTILE), name="<i>").explain(SCHEMA, plan=forced, **ROLES)
    shown = elements(plan)
    assert shown.text == str(plan)
    assert HOSTILE in shown.text
    assert pictures(plan) == [plan.svg()]


def test_an_analysis_is_its_text_and_the_picture_of_its_plan() -> None:
    rows = {"ts": [1, 2, 3], "type": ["A", "B", "B"], "k": [1, 1, 1], "x": [1, 2, 3], "s": ["a", "b", "c"]}
    found = kleene.query("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5").explain(
        pa.table(rows, schema=SCHEMA), analyze=True, **ROLES
    )
    assert elements(found).text == str(found)
    assert pictures(found) == [found.svg()]


def test_a_workload_is_its_queries_by_name_and_its_shared_plan_has_a_picture() -> None:
    pair = "PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x{} WITHIN 10"
    workload = kleene.workload({"<one>": pair.format(""), "two & more": pair.format(" AND b.x > 3"), "list": "PATTERN A+ a[]"})
    shown = elements(workload)
    for name, query in workload.queries.items():
        assert name + str(query) in shown.text
    explained = workload.explain_shared(SCHEMA, **ROLES)
    assert explained.plans
    assert elements(explained).text == str(explained)
    assert pictures(explained)[0] == explained.svg()


def test_a_workload_that_shares_nothing_has_a_text_and_no_picture() -> None:
    explained = kleene.workload({"list": "PATTERN A+ a[] WITHIN 3"}).explain_shared(SCHEMA, **ROLES)
    assert pictures(explained) == []
    assert "not in a shared plan: list" in unescape(explained._repr_html_())
