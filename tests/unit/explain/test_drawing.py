"""Pictures of plans: well-formed, complete, readable aloud, and without labels that overlap."""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kleene
from kleene.explain.drawing import CHARACTER, LINE
from kleene.interfaces.cli import main

EVENTS = pa.schema([("ts", pa.int64()), ("type", pa.string()), ("k", pa.int64()), ("x", pa.int64()), ("s", pa.string())])
SVG = "{http://www.w3.org/2000/svg}"
STOCK = pa.schema([("ts", pa.timestamp("us")), ("symbol", pa.string()), ("price", pa.int64()), ("volume", pa.int64())])
QUERY_3 = """
    PATTERN SEQ(Stock+ a[], Stock b)
    WHERE skip_till_next_match(a[], b) {
      [symbol] AND a[1].volume > 1000 AND a[i].price > avg(a[..i-1].price) AND b.volume < 80%*a[a.LEN].volume }
    WITHIN 1 hour
"""
QUERIES = [
    "PATTERN SEQ(A a, B b)",
    "PATTERN SEQ(A a, !(N n), B b) WHERE [k] AND a.x < b.x AND a.s != '<&>\"' WITHIN 5",
    "PATTERN A+ a[]",
    "PATTERN SEQ(A+ a[], B? b, C{2,3} c[]) WHERE partition_contiguity(a[], b, c[]) { [k] AND a[].x > 3 } WITHIN 5",
    "PATTERN SEQ(A some_very_long_name_of_a_variable, B+ another_long_name_of_a_variable[]) WHERE strict_contiguity { [k] }",
    "PATTERN OR(SEQ(A a, B b), C c) OUTPUT NON-OVERLAP",
    f"PATTERN SEQ(A a, B+ b[]) WHERE b[i].s != '{'long ' * 60}' AND b[1].s = 'é\U0001f600' AND a.s = '\x01'",
]


def plan_of(text: str, **options: Any) -> Any:
    return kleene.query(text, name="a <name>").explain(EVENTS, time="ts", type="type", **options)


def texts(root: ET.Element) -> list[tuple[float, float, float, str]]:
    """(left, baseline, right, text) of every text; bold and larger ones are at most as wide as reckoned here."""
    found = []
    for item in root.iter(f"{SVG}text"):
        x, y, text, kind = float(item.attrib["x"]), float(item.attrib["y"]), item.text or "", item.get("class", "")
        width = len(text) * CHARACTER * (14 / 12 if kind == "name" else 1)
        left = x - width / 2 if kind in ("name", "kind") else x
        found.append((left, y, left + width, text))
    return found


@pytest.mark.parametrize("text", QUERIES)
def test_pictures_are_well_formed_and_nothing_overlaps(text: str) -> None:
    require_readable(plan_of(text).svg())


def require_readable(document: str) -> None:
    root = ET.fromstring(document)
    assert root.attrib["role"] == "img"
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert "a <name>" in (title.text or "")
    assert (description.text or "").startswith("PATTERN ")
    assert root.attrib["aria-labelledby"].split() == [title.attrib["id"], description.attrib["id"]]
    assert "prefers-color-scheme: dark" in document
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    shown = texts(root)
    assert all(left >= 0 and right <= width and LINE / 2 < y < height for left, y, right, _ in shown)
    for one, other in itertools.combinations(shown, 2):
        apart = abs(one[1] - other[1]) >= 12 or one[2] <= other[0] or other[2] <= one[0]
        assert apart, (one, other)


def test_an_automaton_has_a_circle_a_state_and_a_path_an_edge() -> None:
    plan = kleene.query(QUERY_3).explain(STOCK, time="ts")
    root = ET.fromstring(plan.svg())
    assert [text for *_, text in texts(root) if text in ("a[1]", "a[i]", "b", "F")] == ["a[1]", "a[i]", "b", "F"]
    edges = {path.findtext(f"{SVG}title"): path.attrib["class"] for path in root.iter(f"{SVG}path") if len(path)}
    kinds = {str(title).split(":")[0]: style for title, style in edges.items()}
    assert kinds == {
        "a[1] begin a[i]": "edge",
        "a[i] take a[i]": "edge",
        "a[i] ignore a[i]": "edge ignore",
        "a[i] proceed b": "edge proceed",
        "b begin F": "edge",
        "b ignore b": "edge ignore",
    }
    assert "TRUE" in [text for *_, text in texts(ET.fromstring(plan.svg(optimized=False)))]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [({"mechanism": "sequence"}, ["TF", "NG", "SC", "SS", "EV"]), ({"mechanism": "chain"}, ["TF", "NG", "BN", "SS", "EV"])],
)
def test_a_plan_without_an_automaton_is_its_operators(plan: dict[str, str], expected: list[str]) -> None:
    root = ET.fromstring(plan_of(QUERIES[1], plan=plan).svg())
    heads = [text for *_, text in texts(root) if text[2:4] == "  " and text[:2].isupper()]
    assert [head[:2] for head in heads] == expected
    assert len([item for item in root.iter(f"{SVG}rect") if item.get("class") == "box"]) == 5


# Lazy plans.

LONG = "PATTERN SEQ(A some_very_long_name_of_a_variable, B another_long_name_of_a_variable) WHERE [k] WITHIN 5"


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x WITHIN 5", {"mechanism": "eager"}),
        ("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x WITHIN 5", {"order": ["b", "c", "a"]}),
        ("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.x < b.x WITHIN 5", {"mechanism": "tree"}),
        ("PATTERN AND(A a, A+ b[], B c)", {"mechanism": "eager"}),
        ("PATTERN AND(A a, A+ b[], B c, B d, C e)", {"mechanism": "tree"}),
        ("PATTERN OR(SEQ(A a, B b), C c)", {"mechanism": "tree"}),
        ("PATTERN A a", {"mechanism": "tree"}),
        (LONG, {"order": ["another_long_name_of_a_variable", "some_very_long_name_of_a_variable"]}),
        (LONG, {"mechanism": "tree"}),
    ],
)
def test_pictures_of_lazy_automata(text: str, plan: dict[str, Any]) -> None:
    require_readable(plan_of(text, plan=plan).svg())


def test_a_chain_has_store_loops_above_and_ignore_loops_below() -> None:
    root = ET.fromstring(plan_of("PATTERN SEQ(A a, B b, C c)", plan={"order": ["c", "b", "a"]}).svg())
    edges = {path.findtext(f"{SVG}title"): path.attrib["class"] for path in root.iter(f"{SVG}path") if len(path)}
    assert {str(title).split(":")[0]: style for title, style in edges.items()} == {
        "q1 store(a, b) q1": "edge store",
        "q1 take(c) q2 (start, finish)": "edge",
        "q2 ignore(c) q2": "edge ignore",
        "q2 store(a) q2": "edge store",
        "q2 take(b) q3 (start, c)": "edge",
        "q3 ignore(b, c) q3": "edge ignore",
        "q3 take(a) F (start, b)": "edge",
    }
    (line,) = {y for _, y, _, text in texts(root) if text == "take(c)"}
    assert {y < line for _, y, _, text in texts(root) if text == "store"} == {True}
    assert {y > line for _, y, _, text in texts(root) if text == "ignore"} == {True}


def test_a_tree_has_its_take_edges_and_every_state_once() -> None:
    plan = plan_of("PATTERN SEQ(A a, B b, C c)", plan={"mechanism": "tree"})
    root = ET.fromstring(plan.svg())
    shown = texts(root)
    states = {text: (left + right) / 2 for left, _, right, text in shown if re.fullmatch(r"q\d+|F", text)}
    assert sorted(states) == ["F", "q0", "q1", "q12", "q13", "q2", "q21", "q23", "q3", "q31", "q32"]
    layers = [{round(x) for state, x in states.items() if len(state) == length} for length in (3, 1)]
    assert all(len(layer) == 1 for layer in layers), "a column for each layer"
    assert [text for *_, text in shown if re.fullmatch(r"take\(.\)", text)].count("take(a)") == 5
    assert len([path for path in root.iter(f"{SVG}path") if len(path)]) == 15


def test_a_large_tree_is_cut() -> None:
    text = f"PATTERN SEQ({', '.join(f'A v{number}' for number in range(6))})"
    document = plan_of(text, plan={"mechanism": "tree"}).svg()
    require_readable(document)
    shown = [text for *_, text in texts(ET.fromstring(document))]
    assert "and 1,200 more states" in shown
    assert "F" not in shown


def test_the_same_plan_gives_the_same_picture() -> None:
    assert plan_of(QUERIES[3]).svg() == plan_of(QUERIES[3]).svg()


def test_explain_svg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.svg"
    columns = ["--columns", "ts:int,type:string", "--time", "ts", "--type", "type"]
    assert main(["explain", "-q", "PATTERN SEQ(A+ a[], B b)", *columns, "--svg", str(file)]) == 0
    assert "NFA automaton" in capsys.readouterr().out
    assert ET.parse(file).getroot().tag == f"{SVG}svg"
    assert main(["explain", "-q", "PATTERN SEQ(A a, B b)", *columns, "--svg", str(tmp_path / "no" / "plan.svg")]) == 1
    assert "plan.svg" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "query", "figure"), [("plans", "query3", "query3-automaton"), ("lazy", "rise", "lazy-tree")])
def test_the_pictures_of_the_documentation_are_those_of_its_commands(
    name: str, query: str, figure: str, tmp_path: Path
) -> None:
    docs = Path(__file__).parents[3] / "docs"
    page = (docs / f"{name}.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"```sase {query}\.sase\n(.*?)```", page, re.DOTALL)
    (command,) = re.findall(rf"^kleene (explain {query}\.sase .*--svg.*)$", page, re.MULTILINE)
    (tmp_path / f"{query}.sase").write_text(text, encoding="utf-8")
    with contextlib.chdir(tmp_path):
        assert main(shlex.split(command)) == 0
    drawn, shown = tmp_path / f"{figure}.svg", docs / "figures" / f"{figure}.svg"
    assert drawn.read_text(encoding="utf-8") == shown.read_text(encoding="utf-8"), f"run the command of the page into {shown}"
