"""A shared plan as a picture, like Figure 9: leaves at the bottom, joins above their children, queries at their last node.

A node that several queries use has a double border. Parts of the plan without a common inner node are drawn below each other. A
layer with many nodes takes several rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from kleene.explain.drawing import CHARACTER, LINE, MARGIN, Picture, clean
from kleene.explain.shared_plans import condition_text, described, explain_shared, labels, named, pattern_of, root_labels
from kleene.plan.multi.nodes import SharedPlan

MOST_IN_ROW = 12
ROW_GAP = 46
"""Between two rows of boxes."""
BOX_GAP = 18
LONGEST = 34
"""Characters in a line of a box."""


def shared_svg(plan: SharedPlan) -> str:
    """A shared plan as an SVG document."""
    picture = Picture()
    texts = _texts(plan)
    for group in _groups(plan):
        _group(picture, plan, group, texts)
        picture.height += MARGIN
    picture.text(MARGIN, picture.height, "a double border: several queries use the node")
    picture.height += MARGIN
    queries = len({root.clause.query for root in plan.roots})
    return picture.document(f"Shared plan of {queries} queries", explain_shared(plan))


def _texts(plan: SharedPlan) -> list[tuple[list[str], str]]:
    """For each node the lines in its box, and its pattern with conditions."""
    ends: dict[int, list[str]] = {}
    for label, root in zip(root_labels(plan), plan.roots, strict=True):
        ends.setdefault(root.node, []).append(label)
    found = []
    for node, item in zip(plan.nodes, described(plan), strict=True):
        lines = [_short(f"#{node.number} {pattern_of(plan, item)}")]
        if node.number in ends:
            lines.append(_short(f"= {named(ends[node.number])}"))
        names = labels(plan.leaves, node.leaves)
        decides = [pattern_of(plan, item), *(condition_text(condition, names) for condition in node.conditions)]
        found.append((lines, " AND ".join(decides)))
    return found


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\u2026"


def _groups(plan: SharedPlan) -> list[list[int]]:
    """The nodes in groups without common inner nodes; a leaf may be in several."""
    groups: list[set[int]] = []
    for root in plan.roots:
        own = set(plan.below(root.node))
        inner = {number for number in own if not plan.nodes[number].is_leaf} or own
        joined = [group for group in groups if group & inner]
        groups = [group for group in groups if group not in joined]
        groups.append(own.union(*joined))
    return [sorted(group) for group in groups]


def _group(picture: Picture, plan: SharedPlan, group: Sequence[int], texts: Sequence[tuple[list[str], str]]) -> None:
    """One group: a layer for each depth, the deepest at the bottom."""
    depths: dict[int, int] = {}
    for number in group:
        node = plan.nodes[number]
        depths[number] = 0 if node.is_leaf else 1 + max(depths[node.left], depths[node.right])
    width = (max(len(line) for number in group for line in texts[number][0]) + 2) * CHARACTER
    places: dict[int, tuple[float, int]] = {}
    rows: list[list[int]] = []
    for depth in range(max(depths.values()) + 1):
        layer = [number for number in _by_use(plan, group) if depths[number] == depth]
        layer.sort(key=lambda number: _middle(plan, number, places))
        for first in range(0, len(layer), MOST_IN_ROW):
            rows.append(layer[first : first + MOST_IN_ROW])
            aside = max(len(rows[0]) - len(rows[-1]), 0) / 2
            places |= {number: ((place + aside) * (width + BOX_GAP), len(rows) - 1) for place, number in enumerate(rows[-1])}
    heights = [max(len(texts[number][0]) for number in row) * LINE + 10 for row in rows]
    tops = [picture.height + sum(heights[row + 1 :]) + ROW_GAP * (len(rows) - 1 - row) for row in range(len(rows))]
    corners = {number: (MARGIN + x, tops[row]) for number, (x, row) in places.items()}
    _lines(picture, plan, group, corners, {number: heights[row] for number, (_, row) in places.items()}, width)
    users = plan.users()
    for number, (x, y) in corners.items():
        _box(picture, x, y, width, heights[places[number][1]], texts[number], several=len(users[number]) > 1)
    picture.height = tops[0] + heights[0]


def _by_use(plan: SharedPlan, group: Sequence[int]) -> list[int]:
    """The nodes of a group, children before their parents and next to each other."""
    found: dict[int, None] = {}

    def visit(number: int) -> None:
        node = plan.nodes[number]
        if number not in found and not node.is_leaf:
            visit(node.left)
            visit(node.right)
        found.setdefault(number)

    for number in reversed(group):
        visit(number)
    return list(found)


def _middle(plan: SharedPlan, number: int, places: dict[int, tuple[float, int]]) -> float:
    """The horizontal position of a node, midway between its children."""
    node = plan.nodes[number]
    return 0.0 if node.is_leaf else (places[node.left][0] + places[node.right][0]) / 2


def _lines(
    picture: Picture,
    plan: SharedPlan,
    group: Sequence[int],
    corners: dict[int, tuple[float, float]],
    heights: dict[int, float],
    width: float,
) -> None:
    for number in group:
        node = plan.nodes[number]
        if node.is_leaf:
            continue
        (x, y), bottom = corners[number], heights[number]
        left, right = sorted((node.left, node.right), key=lambda child: corners[child][0])
        for child, aside in ((left, -0.2), (right, 0.2)):
            begin, top = corners[child][0] + width / 2, corners[child][1]
            end, low = x + width * (0.5 + aside), y + bottom + 1
            bend = (top + low) / 2
            picture.arrow(f"M{begin:.1f} {top:.1f}C{begin:.1f} {bend:.1f} {end:.1f} {bend:.1f} {end:.1f} {low:.1f}")


def _box(
    picture: Picture, x: float, y: float, width: float, height: float, texts: tuple[list[str], str], *, several: bool
) -> None:
    lines, title = texts
    size = f'width="{width:.1f}" height="{height:.1f}" rx="6"'
    label = quoteattr(clean(lines[0]))
    picture.shapes.append(
        f'<g aria-label={label}><rect class="box" x="{x:.1f}" y="{y:.1f}" {size}/><title>{clean(title)}</title></g>'
    )
    if several:
        size = f'width="{width - 6:.1f}" height="{height - 6:.1f}" rx="4"'
        picture.shapes.append(f'<rect class="inner" x="{x + 3:.1f}" y="{y + 3:.1f}" {size}/>')
    for place, line in enumerate(lines):
        picture.text(x + width / 2, y + LINE * (place + 1), line, "kind" if place == 0 else "name")
    picture.reach(x + width)
