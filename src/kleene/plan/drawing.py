"""Plans as pictures: one self-contained SVG each, without dependencies, the same for the same plan.

An automaton is drawn as in SASE+ (Figure 2): states from left to right, solid begin and take edges, dashed ignore loops, and a
style of its own for proceed, which consumes no event. Formulas stand below, a row an edge, so that no label overlaps another
however long it is; hovering over an edge shows its formula too. A sequence plan is drawn as its operators, the events at the
bottom.

Colours follow the reader's scheme (light or dark). Widths are those of a monospaced font: 0.602 em a character.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from kleene.pattern.text import query_text
from kleene.plan.explain import operators
from kleene.plan.nfa import NfaPlan
from kleene.plan.sequence import SequencePlan
from kleene.plan.states import FINAL, Edge, EdgeKind, StateGraph, state_graph

MARGIN = 24
LINE = 18
"""Height of a line of text."""
CHARACTER = 12 * 0.602
"""Width of a character."""
WIDEST = 104
"""Characters in a line of a formula."""
GAP, WIDEST_GAP = 96, 170
"""Between two circles: at least, and where formulas are wide."""
SAMPLE = 44
"""The width of a sample of a line."""
LOOP = 52
"""How far a loop reaches above or below its circle."""

NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that an XML document cannot have."""

STYLE = """
    text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #24292f }
    .name { font-weight: bold; font-size: 14px; text-anchor: middle }
    .head { font-weight: bold }
    .kind { text-anchor: middle; fill: #57606a }
    .paper { fill: #ffffff }
    .state, .box { fill: #f6f8fa; stroke: #24292f; stroke-width: 1.5 }
    .inner { fill: none; stroke: #24292f; stroke-width: 1.5 }
    .edge { fill: none; stroke: #24292f; stroke-width: 1.5 }
    .ignore { stroke-dasharray: 6 4; stroke: #6e7781 }
    .proceed { stroke: #0969da; stroke-dasharray: 1.5 4; stroke-width: 2.5; stroke-linecap: round }
    .tip { fill: #24292f }
    .tip-ignore { fill: #6e7781 }
    .tip-proceed { fill: none; stroke: #0969da; stroke-width: 1.5 }
    .rule { stroke: #d0d7de }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .kind { fill: #9198a1 }
      .paper { fill: #0d1117 }
      .state, .box { fill: #161b22; stroke: #e6edf3 }
      .inner, .edge { stroke: #e6edf3 }
      .ignore { stroke: #9198a1 }
      .proceed { stroke: #58a6ff }
      .tip { fill: #e6edf3 }
      .tip-ignore { fill: #9198a1 }
      .tip-proceed { stroke: #58a6ff }
      .rule { stroke: #30363d }
    }
"""

TIPS = """
    <marker id="kleene-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse"
      orient="auto"><path class="tip" d="M0 0 10 5 0 10z"/></marker>
    <marker id="kleene-tip-ignore" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9"
      markerUnits="userSpaceOnUse" orient="auto"><path class="tip-ignore" d="M0 0 10 5 0 10z"/></marker>
    <marker id="kleene-tip-proceed" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="11" markerHeight="11"
      markerUnits="userSpaceOnUse" orient="auto"><path class="tip-proceed" d="M1 1 9 5 1 9"/></marker>
"""


def svg(plan: SequencePlan | NfaPlan, *, optimized: bool = True) -> str:
    """A plan as an SVG document; `optimized=False` draws automata as the basic compilation gives them (steps 1-4)."""
    if isinstance(plan, SequencePlan):
        picture = _operators(plan)
        title = f"Plan of {plan.bound.query.name}"
    else:
        graphs = [state_graph(plan.bound, branch, optimized=optimized) for branch in plan.bound.branches]
        picture = _automata(graphs)
        title = f"Automaton of {plan.bound.query.name}"
    described = [query_text(plan.bound.query), *picture.described]
    return picture.document(title, "\n".join(described))


@dataclass(slots=True)
class _Picture:
    """Shapes, and how much room they need."""

    shapes: list[str] = field(default_factory=list)
    width: float = 0
    height: float = MARGIN
    described: list[str] = field(default_factory=list)
    """What a reader who does not see the picture is told."""

    def reach(self, x: float) -> None:
        self.width = max(self.width, x + MARGIN)

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """A line of text; `kind` is its class."""
        style = f' class="{kind}"' if kind else ""
        self.shapes.append(f'<text x="{x:.1f}" y="{y:.1f}"{style}>{_clean(text)}</text>')
        if kind in ("", "head"):
            self.reach(x + len(text) * CHARACTER)

    def document(self, title: str, description: str) -> str:
        width, height = round(self.width), round(self.height)
        size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        reader = 'role="img" aria-labelledby="kleene-title kleene-desc" xml:space="preserve"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {reader}>',
                f'  <title id="kleene-title">{_clean(title)}</title>',
                f'  <desc id="kleene-desc">{_clean(description)}</desc>',
                f"  <style>{STYLE}  </style>",
                f"  <defs>{TIPS}  </defs>",
                f'  <rect class="paper" width="{width}" height="{height}"/>',
                *(f"  {shape}" for shape in self.shapes),
                "</svg>\n",
            ]
        )


def _clean(text: str) -> str:
    """Text for XML: escaped, without characters that XML does not have."""
    return escape(NOT_XML.sub("\ufffd", text))


# --- automata ---------------------------------------------------------------------------------------------------------


def _automata(graphs: Sequence[StateGraph]) -> _Picture:
    picture = _Picture()
    for number, graph in enumerate(graphs, 1):
        if len(graphs) > 1:
            picture.height += LINE
            picture.text(MARGIN, picture.height - 4, f"alternative {number}", "head")
        _automaton(picture, graph)
        _formulas(picture, graph)
        picture.described += graph.lines()
        picture.height += MARGIN if number == len(graphs) else 2 * MARGIN
    return picture


def _radius(state: str) -> float:
    return max(24.0, len(_short(state)) * 4.3 + 9)


def _short(state: str) -> str:
    return state if len(state) <= 18 else state[:8] + "\u2026" + state[-8:]


def _automaton(picture: _Picture, graph: StateGraph) -> None:
    """The circles in a row, and the edges between them."""
    radii = {state: _radius(state) for state in graph.states}
    above = any(edge.kind is EdgeKind.TAKE for edge in graph.edges)
    below = any(edge.kind is EdgeKind.IGNORE for edge in graph.edges)
    y = picture.height + max(radii.values()) + (LOOP + LINE if above else 8)
    x, centres = MARGIN + 34.0, {}
    free = _formulas_width(graph) - 34 - 2 * sum(radii.values())
    gap = min(WIDEST_GAP, max(GAP, free / (len(graph.states) - 1)))
    for state in graph.states:
        centres[state] = x + radii[state]
        x = centres[state] + radii[state] + gap
    start = graph.states[0]
    picture.shapes.append(_path("edge", centres[start] - radii[start] - 34, y, centres[start] - radii[start] - 1))
    for edge in graph.edges:
        if edge.source == edge.target:
            _loop(picture, edge, centres[edge.source], y, radii[edge.source])
        else:
            begin, end = centres[edge.source] + radii[edge.source] + 1, centres[edge.target] - radii[edge.target] - 1
            _shape(picture, edge, f"M{begin:.1f} {y:.1f} {end:.1f} {y:.1f}")
            picture.text((begin + end) / 2 - 3, y - 8, edge.kind.value, "kind")
    for state, centre in centres.items():
        _state(picture, state, centre, y, radii[state])
    picture.reach(max(centres[state] + radii[state] for state in graph.states))
    picture.height = y + max(radii.values()) + (LOOP + LINE if below else 8)


def _path(style: str, begin: float, y: float, end: float) -> str:
    return f'<path class="{style}" d="M{begin:.1f} {y:.1f} {end:.1f} {y:.1f}" marker-end="url(#kleene-tip)"/>'


def _loop(picture: _Picture, edge: Edge, x: float, y: float, radius: float) -> None:
    """A loop above its state (take) or below it (ignore)."""
    side = -1 if edge.kind is EdgeKind.TAKE else 1
    # From the circle at 60 degrees out and back in.
    dx, dy = radius * 0.5 + 0.5, side * (radius * 0.866 + 1)
    out = side * (radius + LOOP * 1.2)
    shape = f"M{x - dx:.1f} {y + dy:.1f}C{x - 34:.1f} {y + out:.1f} {x + 34:.1f} {y + out:.1f} {x + dx:.1f} {y + dy:.1f}"
    _shape(picture, edge, shape)
    picture.text(x, y + side * (radius + LOOP) + (0 if side < 0 else 8), edge.kind.value, "kind")


def _shape(picture: _Picture, edge: Edge, path: str) -> None:
    kind = edge.kind.value
    special = edge.kind in (EdgeKind.IGNORE, EdgeKind.PROCEED)
    style, tip = (f"edge {kind}", f"tip-{kind}") if special else ("edge", "tip")
    picture.shapes.append(
        f'<path class="{style}" d="{path}" marker-end="url(#kleene-{tip})"><title>{_clean(str(edge))}</title></path>'
    )


def _state(picture: _Picture, state: str, x: float, y: float, radius: float) -> None:
    picture.shapes.append(
        f'<g aria-label={quoteattr(_clean(state))}><circle class="state" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/></g>'
    )
    if state == FINAL:
        picture.shapes.append(f'<circle class="inner" cx="{x:.1f}" cy="{y:.1f}" r="{radius - 4:.1f}"/>')
    picture.text(x, y + 5, _short(state), "name")


def _formulas(picture: _Picture, graph: StateGraph) -> None:
    """A row an edge: a sample of its line, its name, its formula."""
    picture.height += MARGIN / 2
    top = picture.height
    column = MARGIN + SAMPLE
    formulas = column + _names_width(graph)
    for edge in graph.edges:
        y = picture.height + LINE
        kind = edge.kind.value
        style = f"edge {kind}" if edge.kind in (EdgeKind.IGNORE, EdgeKind.PROCEED) else "edge"
        picture.shapes.append(f'<path class="{style}" d="M{MARGIN} {y - 4:.1f} {MARGIN + 30} {y - 4:.1f}"/>')
        picture.text(column, y, _edge_name(edge), "head")
        for line in _wrapped(edge.formula.parts()):
            picture.height += LINE
            picture.text(formulas, picture.height, line)
        picture.height += 4
    rule = f'<path class="rule" d="M{MARGIN} {top:.1f} {picture.width - MARGIN:.1f} {top:.1f}"/>'
    picture.shapes.append(rule)


def _names_width(graph: StateGraph) -> float:
    return (max(len(_edge_name(edge)) for edge in graph.edges) + 2) * CHARACTER


def _formulas_width(graph: StateGraph) -> float:
    longest = max(len(line) for edge in graph.edges for line in _wrapped(edge.formula.parts()))
    return SAMPLE + _names_width(graph) + longest * CHARACTER


def _edge_name(edge: Edge) -> str:
    return f"{_short(edge.source)} {edge.kind.value}"


def _wrapped(parts: Iterable[str]) -> list[str]:
    """Conjuncts in lines, broken before AND where that does.

    >>> _wrapped(["x = 1", "y = 2"])
    ['x = 1 AND y = 2']
    """
    lines: list[str] = []
    for position, part in enumerate(parts):
        text = f"AND {part}" if position else part
        if lines and len(lines[-1]) + len(text) + 1 <= WIDEST:
            lines[-1] += f" {text}"
        else:
            lines += textwrap.wrap(text, WIDEST, subsequent_indent="    ", break_long_words=True) or [""]
    return lines


# --- operators --------------------------------------------------------------------------------------------------------


def _operators(plan: SequencePlan) -> _Picture:
    """Boxes from the result at the top down to the events, with arrows in the direction of the data."""
    picture = _Picture()
    boxes = [
        (head, [line for detail in details for line in textwrap.wrap(detail, WIDEST, subsequent_indent="    ")])
        for head, details in operators(plan)
    ]
    longest = max(len(line) for head, details in boxes for line in (head, *details))
    width = longest * CHARACTER + 24
    for number, (head, details) in enumerate(boxes):
        height = LINE * (1 + len(details)) + 14
        top = picture.height
        if number:
            middle = MARGIN + width / 2
            shape = f"M{middle:.1f} {top:.1f} {middle:.1f} {top - 25:.1f}"
            picture.shapes.append(f'<path class="edge" d="{shape}" marker-end="url(#kleene-tip)"/>')
        picture.shapes.append(
            f'<rect class="box" x="{MARGIN}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6"/>'
        )
        picture.text(MARGIN + 12, top + LINE + 2, head, "head")
        for index, line in enumerate(details):
            picture.text(MARGIN + 12, top + LINE * (index + 2) + 2, line)
        picture.described += [head, *details]
        picture.height = top + height + 26
    picture.reach(MARGIN + width)
    picture.height += MARGIN - 26
    return picture
