"""Values as a terminal shows them."""

from __future__ import annotations

from kleene.generators import retail
from kleene.interfaces.commands import display


def test_display_of_values() -> None:
    assert display.cell(None) == ""
    assert display.cell([]) == ""
    assert display.cell([1, None, 3]) == "1, , 3"
    assert display.cell([{"x": 1}]) == "1 event\nx=1"
    assert display.cell(retail.RetailOptions().opening) == "2006-06-27 06:00:00"
