"""Plans as pictures: one self-contained SVG each, without dependencies, the same for the same plan.

An automaton is drawn as in SASE+ (Figure 2): states from left to right, solid begin and take edges, dashed ignore loops, and a
style of its own for proceed, which consumes no event. Formulas stand below, a row an edge, so that no label overlaps another
however long it is; hovering over an edge shows its formula too. The automata of lazy evaluation are drawn the same way (Figures
2, 5 and 6 of the lazy-NFA paper), a chain with its store loops above and its ignore loops below, a tree without loops. A
sequence plan, and a lazy one whose order is chosen while running, is drawn as its operators, the events at the bottom.

Colours follow the reader's scheme (light or dark). Widths are those of a monospaced font: 0.602 em a character.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from kleene.explain.automata import FINAL, Edge, EdgeKind, StateGraph, state_graph
from kleene.explain.lazy_automata import chain_graph, eager_graph, tree_graph
from kleene.explain.plans import operators
from kleene.pattern.text import query_text
from kleene.plan.contract import Plan
from kleene.plan.patterns import LazyPlan, is_lazy, runs_automata

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
SLOT = 62
"""Between the centres of two leaves of a tree."""
CURVE = 70
"""The width of the curves between two layers of a tree."""
NOTE = "each state stores events of components that it has not taken, and ignores those of components that it has"

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
    .store { stroke: #1a7f37; stroke-dasharray: 12 3 }
    .tip { fill: #24292f }
    .tip-ignore { fill: #6e7781 }
    .tip-proceed { fill: none; stroke: #0969da; stroke-width: 1.5 }
    .tip-store { fill: #1a7f37 }
    .rule { stroke: #d0d7de }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .kind { fill: #9198a1 }
      .paper { fill: #0d1117 }
      .state, .box { fill: #161b22; stroke: #e6edf3 }
      .inner, .edge { stroke: #e6edf3 }
      .ignore { stroke: #9198a1 }
      .proceed { stroke: #58a6ff }
      .store { stroke: #3fb950 }
      .tip { fill: #e6edf3 }
      .tip-ignore { fill: #9198a1 }
      .tip-proceed { stroke: #58a6ff }
      .tip-store { fill: #3fb950 }
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
    <marker id="kleene-tip-store" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9"
      markerUnits="userSpaceOnUse" orient="auto"><path class="tip-store" d="M0 0 10 5 0 10z"/></marker>
"""


@dataclass(frozen=True, slots=True)
class _Line:
    """An edge as it is drawn."""

    source: str
    target: str
    label: str
    """Beside the line."""
    name: str
    """In the row of its formula."""
    parts: tuple[str, ...]
    title: str
    style: str = ""
    """The class of the line, if it has one of its own."""
    above: bool = False
    """Whether a loop is above its state."""


@dataclass(frozen=True, slots=True)
class _Sketch:
    """An automaton as it is drawn."""

    states: tuple[str, ...]
    edges: tuple[_Line, ...]
    described: tuple[str, ...]
    is_tree: bool = False
    omitted: int = 0


def svg(plan: Plan, *, optimized: bool = True) -> str:
    """A plan as an SVG document; `optimized=False` draws automata as the basic compilation gives them (steps 1-4)."""
    sketches = _sketches(plan, optimized)
    picture = _automata(sketches) if sketches else _operators(plan)
    title = f"{'Automaton' if sketches else 'Plan'} of {plan.bound.query.name}"
    described = [query_text(plan.bound.query), *picture.described]
    return picture.document(title, "\n".join(described))


def _sketches(plan: Plan, optimized: bool) -> list[_Sketch]:
    """The automata of a plan, one for each branch; none of a plan that has no automaton."""
    if runs_automata(plan):
        return [_sketch(state_graph(plan.bound, branch, optimized=optimized)) for branch in plan.bound.branches]
    return _of_lazy(plan) if is_lazy(plan) else []


def _of_lazy(plan: LazyPlan) -> list[_Sketch]:
    found = []
    for branch, pattern in zip(plan.branches, plan.bound.branches, strict=True):
        order = plan.order_of(branch)
        is_tree = plan.options.evaluation == "tree"
        if is_tree:
            graph = tree_graph(plan.bound, pattern)
        elif order is None:
            return []
        elif plan.options.evaluation == "eager" and pattern.is_sequence:
            graph = eager_graph(plan.bound, pattern)
        else:
            graph = chain_graph(plan.bound, pattern, [branch.variables[index] for index in order])
        found.append(_sketch(graph, is_tree))
    return found


def _sketch(graph: StateGraph, is_tree: bool = False) -> _Sketch:
    edges = [edge for edge in graph.takes if edge.target in graph.states] if is_tree else graph.edges
    return _Sketch(graph.states, tuple(map(_line, edges)), tuple(graph.lines()), is_tree, graph.omitted)


def _line(edge: Edge) -> _Line:
    kind = edge.kind.value
    names = f"({_short(', '.join(edge.names))})" if edge.names else ""
    parts = edge.parts() if edge.scope is None else (f"in {edge.scope}", *(part for part in edge.parts() if part != "TRUE"))
    label = kind + names if edge.kind is EdgeKind.TAKE else kind
    style = "" if edge.kind in (EdgeKind.BEGIN, EdgeKind.TAKE) else kind
    above = edge.kind in (EdgeKind.TAKE, EdgeKind.STORE)
    return _Line(edge.source, edge.target, label, f"{_short(edge.source)} {kind}{names}", parts, str(edge), style, above)


@dataclass(slots=True)
class Picture:
    """Shapes, and how much room they need."""

    shapes: list[str] = field(default_factory=list)
    width: float = 0
    height: float = MARGIN
    described: list[str] = field(default_factory=list)
    """The text alternative of the picture."""

    def reach(self, x: float) -> None:
        self.width = max(self.width, x + MARGIN)

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """A line of text; `kind` is its class."""
        style = f' class="{kind}"' if kind else ""
        self.shapes.append(f'<text x="{x:.1f}" y="{y:.1f}"{style}>{clean(text)}</text>')
        if kind in ("", "head"):
            self.reach(x + len(text) * CHARACTER)

    def arrow(self, path: str) -> None:
        """A line with a tip."""
        self.shapes.append(f'<path class="edge" d="{path}" marker-end="url(#kleene-tip)"/>')

    def document(self, title: str, description: str) -> str:
        width, height = round(self.width), round(self.height)
        size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        reader = 'role="img" aria-labelledby="kleene-title kleene-desc" xml:space="preserve"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {reader}>',
                f'  <title id="kleene-title">{clean(title)}</title>',
                f'  <desc id="kleene-desc">{clean(description)}</desc>',
                f"  <style>{STYLE}  </style>",
                f"  <defs>{TIPS}  </defs>",
                f'  <rect class="paper" width="{width}" height="{height}"/>',
                *(f"  {shape}" for shape in self.shapes),
                "</svg>\n",
            ]
        )


def clean(text: str) -> str:
    """Text for XML: escaped, without characters that XML does not have."""
    return escape(NOT_XML.sub("\ufffd", text))


# --- automata ---------------------------------------------------------------------------------------------------------


def _automata(sketches: Sequence[_Sketch]) -> Picture:
    picture = Picture()
    for number, sketch in enumerate(sketches, 1):
        if len(sketches) > 1:
            picture.height += LINE
            picture.text(MARGIN, picture.height - 4, f"alternative {number}", "head")
        if sketch.is_tree:
            _tree(picture, sketch)
        else:
            _chain(picture, sketch)
        _formulas(picture, sketch)
        picture.described += sketch.described
        picture.height += MARGIN if number == len(sketches) else 2 * MARGIN
    return picture


def _radius(state: str) -> float:
    return max(24.0, len(_short(state)) * 4.3 + 9)


def _short(state: str) -> str:
    return state if len(state) <= 18 else state[:8] + "\u2026" + state[-8:]


def _chain(picture: Picture, sketch: _Sketch) -> None:
    """The circles in a row, and the edges between them."""
    radii = {state: _radius(state) for state in sketch.states}
    loops = [edge for edge in sketch.edges if edge.source == edge.target]
    above, below = any(edge.above for edge in loops), any(not edge.above for edge in loops)
    y = picture.height + max(radii.values()) + (LOOP + LINE if above else 8)
    x, centres = MARGIN + 34.0, {}
    free = _formulas_width(sketch) - 34 - 2 * sum(radii.values())
    gap = max(min(WIDEST_GAP, max(GAP, free / (len(sketch.states) - 1))), _label_width(sketch) + 20)
    for state in sketch.states:
        centres[state] = x + radii[state]
        x = centres[state] + radii[state] + gap
    _entry(picture, centres[sketch.states[0]] - radii[sketch.states[0]], y)
    for edge in sketch.edges:
        if edge.source == edge.target:
            _loop(picture, edge, centres[edge.source], y, radii[edge.source])
        else:
            begin, end = centres[edge.source] + radii[edge.source] + 1, centres[edge.target] - radii[edge.target] - 1
            _shape(picture, edge, f"M{begin:.1f} {y:.1f} {end:.1f} {y:.1f}")
            picture.text((begin + end) / 2 - 3, y - 8, edge.label, "kind")
    for state, centre in centres.items():
        _state(picture, state, centre, y, radii[state])
    picture.reach(max(centres[state] + radii[state] for state in sketch.states))
    picture.height = y + max(radii.values()) + (LOOP + LINE if below else 8)


def _entry(picture: Picture, x: float, y: float) -> None:
    """The arrow to the first state, whose circle begins at x."""
    picture.arrow(f"M{x - 34:.1f} {y:.1f} {x - 1:.1f} {y:.1f}")


def _tree(picture: Picture, sketch: _Sketch) -> None:
    """A column of circles for each layer, the leaves a slot each, and a state halfway between those it leads to."""
    radius = max(map(_radius, sketch.states))
    label = _label_width(sketch) + 12
    depths, heights = _placed(sketch)
    step = 2 * radius + label + CURVE
    top = picture.height + radius + 8
    left = MARGIN + 34 + radius
    centres = {state: (left + depths[state] * step, top + heights[state] * SLOT) for state in depths}
    _entry(picture, centres[sketch.states[0]][0] - radius, centres[sketch.states[0]][1])
    for edge in sketch.edges:
        _branch(picture, edge, centres[edge.source], centres[edge.target], radius, label)
    for state, (x, y) in centres.items():
        _state(picture, state, x, y, radius)
        picture.reach(x + radius)
    picture.height = max(y for _, y in centres.values()) + radius + 8
    for note in (NOTE, *((f"and {sketch.omitted:,} more states",) if sketch.omitted else ())):
        picture.height += LINE
        picture.text(MARGIN, picture.height, note)


def _placed(sketch: _Sketch) -> tuple[dict[str, int], dict[str, float]]:
    """The layer of each state that is drawn, and its height in slots."""
    root = sketch.states[0]
    below: dict[str, list[str]] = {state: [] for state in sketch.states}
    for edge in sketch.edges:
        if edge.target != FINAL:
            below[edge.source].append(edge.target)
    depths = {root: 0}
    for state in sketch.states:
        depths |= dict.fromkeys(below[state], depths.get(state, 0) + 1)
    heights = {state: float(slot) for slot, state in enumerate(_leaves(root, below))}
    middle = (len(heights) - 1) / 2
    for state in reversed(depths):
        if below[state]:
            heights[state] = (heights[below[state][0]] + heights[below[state][-1]]) / 2
    if any(edge.target == FINAL for edge in sketch.edges):
        depths[FINAL], heights[FINAL] = max(depths.values()) + 1, middle
    return depths, heights


def _leaves(root: str, below: Mapping[str, list[str]]) -> list[str]:
    """The states that lead to no other, from the top down."""
    stack, found = [root], []
    while stack:
        state = stack.pop()
        stack.extend(reversed(below[state]))
        if not below[state]:
            found.append(state)
    return found


def _branch(
    picture: Picture, edge: _Line, source: tuple[float, float], target: tuple[float, float], radius: float, label: float
) -> None:
    """An edge between two layers: a curve, and a straight part below its label, where no other edge of the tree is."""
    (x, y), (end, height) = (source[0] + radius + 1, source[1]), (target[0] - radius - 1, target[1])
    if edge.target == FINAL:
        bend = (x + label + end) / 2
        path = f"M{x:.1f} {y:.1f}L{x + label:.1f} {y:.1f}C{bend:.1f} {y:.1f} {bend:.1f} {height:.1f} {end:.1f} {height:.1f}"
        picture.text(x + label / 2, y - 7, edge.label, "kind")
    else:
        bend = (x + end - label) / 2
        path = (
            f"M{x:.1f} {y:.1f}C{bend:.1f} {y:.1f} {bend:.1f} {height:.1f} {end - label:.1f} {height:.1f}L{end:.1f} {height:.1f}"
        )
        picture.text(end - label / 2, height - 7, edge.label, "kind")
    _shape(picture, edge, path)


def _loop(picture: Picture, edge: _Line, x: float, y: float, radius: float) -> None:
    """A loop above its state or below it."""
    side = -1 if edge.above else 1
    # From the circle at 60 degrees out and back in.
    dx, dy = radius * 0.5 + 0.5, side * (radius * 0.866 + 1)
    out = side * (radius + LOOP * 1.2)
    shape = f"M{x - dx:.1f} {y + dy:.1f}C{x - 34:.1f} {y + out:.1f} {x + 34:.1f} {y + out:.1f} {x + dx:.1f} {y + dy:.1f}"
    _shape(picture, edge, shape)
    picture.text(x, y + side * (radius + LOOP) + (0 if side < 0 else 8), edge.label, "kind")


def _shape(picture: Picture, edge: _Line, path: str) -> None:
    style, tip = (f"edge {edge.style}", f"tip-{edge.style}") if edge.style else ("edge", "tip")
    picture.shapes.append(
        f'<path class="{style}" d="{path}" marker-end="url(#kleene-{tip})"><title>{clean(edge.title)}</title></path>'
    )


def _state(picture: Picture, state: str, x: float, y: float, radius: float) -> None:
    picture.shapes.append(
        f'<g aria-label={quoteattr(clean(state))}><circle class="state" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/></g>'
    )
    if state == FINAL:
        picture.shapes.append(f'<circle class="inner" cx="{x:.1f}" cy="{y:.1f}" r="{radius - 4:.1f}"/>')
    picture.text(x, y + 5, _short(state), "name")


def _formulas(picture: Picture, sketch: _Sketch) -> None:
    """A row an edge: a sample of its line, its name, its formula."""
    picture.height += MARGIN / 2
    top = picture.height
    column = MARGIN + SAMPLE
    formulas = column + _names_width(sketch)
    for edge in sketch.edges:
        y = picture.height + LINE
        style = f"edge {edge.style}" if edge.style else "edge"
        picture.shapes.append(f'<path class="{style}" d="M{MARGIN} {y - 4:.1f} {MARGIN + 30} {y - 4:.1f}"/>')
        picture.text(column, y, edge.name, "head")
        for line in _wrapped(edge.parts):
            picture.height += LINE
            picture.text(formulas, picture.height, line)
        picture.height += 4
    picture.shapes.append(f'<path class="rule" d="M{MARGIN} {top:.1f} {picture.width - MARGIN:.1f} {top:.1f}"/>')


def _names_width(sketch: _Sketch) -> float:
    return (max(len(edge.name) for edge in sketch.edges) + 2) * CHARACTER


def _formulas_width(sketch: _Sketch) -> float:
    longest = max(len(line) for edge in sketch.edges for line in _wrapped(edge.parts))
    return SAMPLE + _names_width(sketch) + longest * CHARACTER


def _label_width(sketch: _Sketch) -> float:
    """The width of the longest label between two states."""
    return max(len(edge.label) for edge in sketch.edges if edge.source != edge.target) * CHARACTER


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


def _operators(plan: Plan) -> Picture:
    """Boxes from the result at the top down to the events, with arrows in the direction of the data."""
    picture = Picture()
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
            picture.arrow(f"M{middle:.1f} {top:.1f} {middle:.1f} {top - 25:.1f}")
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
