"""A browser for the tests of pages, and the pages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.browser import ARGUMENTS, find_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium or Chrome, without a window."""
    path = find_browser()
    if path is None:
        reason = "no Chromium or Chrome was found: `make browser` says how to get one"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


@dataclass(slots=True)
class Opened:
    """A page that was opened, and what it did that it must not."""

    page: Any
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def all_texts(self, selector: str) -> list[str]:
        """The texts of elements as they are in the document, whatever their style makes of them."""
        return [str(text) for text in self.page.locator(selector).all_text_contents()]

    def table(self, selector: str) -> list[dict[str, str]]:
        """A table as rows by the names in its head."""
        rows = "(table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
        head, *body = self.page.locator(selector).evaluate(rows)
        return [dict(zip(head, row, strict=True)) for row in body]

    def drawn(self) -> None:
        """Waits until what has been asked for is drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.drawn()


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Opens files: `opened(path, hash="", **options of the context)`; fails if one connects, or logs an error."""
    pages: list[Opened] = []

    def open_page(path: Path, hash: str = "", **options: Any) -> Opened:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", **options})
        found = Opened(context.new_page())
        pages.append(found)
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.on("console", lambda message: message.type in ("error", "warning") and found.errors.append(message.text))
        found.page.on("pageerror", lambda error: found.errors.append(str(error)))
        found.page.goto(path.as_uri() + hash)
        found.page.wait_for_selector("html[data-ready]")
        found.drawn()
        return found

    yield open_page
    for found in pages:
        assert [url for url in found.requests if not url.startswith(("file:", "data:"))] == []
        assert found.errors == []
        found.page.context.close()
