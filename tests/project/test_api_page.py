"""The API reference is what the code says."""

from __future__ import annotations

import inspect

import pytest

import kleene
from support import api_page

TEXT = api_page.PAGE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert api_page.page() == TEXT, f"docs/api.md is not what the code says any more; write it anew: {api_page.COMMAND}"


@pytest.mark.parametrize("name", [name for name in kleene.__all__ if name != "__version__"])
def test_every_public_name_has_its_place(name: str) -> None:
    item = getattr(kleene, name)
    kind = "class " if inspect.isclass(item) else "module " if inspect.ismodule(item) else ""
    call = "" if kind else "()"
    assert f"\n### {kind}`{name}{call}`\n" in TEXT, f"write the page anew: {api_page.COMMAND}"


def test_what_is_called_with_checked_options_is_no_part_of_it() -> None:
    assert "Query.match()" in TEXT
    assert "run_for" not in TEXT


def test_docstrings_become_markdown() -> None:
    def example(first: int, *, second: str = "x") -> int:
        """One line.

        Args:
            first: A number
                of its own.
            second: A text.

        >>> 1 + 1
        2
        """
        raise NotImplementedError(first, second)

    shown = api_page._function("example", example, "###")
    assert "example(first: int, *, second: str = 'x') -> int" in shown
    assert "- `first`: A number\n    of its own.\n- `second`: A text.\n" in shown
    assert "```python\n>>> 1 + 1\n2\n```" in shown
