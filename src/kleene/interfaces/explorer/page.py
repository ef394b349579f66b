"""The page: one HTML document that loads nothing, with its style, its script and its data.

Its content security policy forbids every connection and every script except its own, which is identified by its hash. User text
is data in the manifest, which scripts insert into the page as text; only the title is written into HTML, escaped.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from kleene.interfaces.explorer.document import Document

SCRIPTS = ("data.js", "format.js", "state.js", "timeline.js", "list.js", "details.js", "main.js")
"""The scripts, in the order in which they are joined."""
FRAME_HEIGHT = 860


class Explorer:
    """The match explorer of a query or a workload: `save` it, or show it in a notebook."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._html: str | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """The notices about what the page does not show."""
        return tuple(self._document.manifest["notices"])

    @property
    def shown(self) -> dict[str, int]:
        """The number of `events` and `matches` on the page."""
        return {name: int(self._document.manifest[name]["count"]) for name in ("events", "matches")}

    def html(self) -> str:
        """The page: a whole HTML document."""
        if self._html is None:
            self._html = _page(self._document.manifest, self._document.payload.text())
        return self._html

    def save(self, path: str | Path) -> Path:
        """Writes the page to a file, and returns its path."""
        target = Path(path)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        """The page for a notebook, in a frame that can only run its own script."""
        document = html.escape(self.html(), quote=True)
        style = f"width: 100%; height: {FRAME_HEIGHT}px; border: 0"
        return f'<iframe title="Kleene match explorer" sandbox="allow-scripts" style="{style}" srcdoc="{document}"></iframe>'

    def __repr__(self) -> str:
        shown = self.shown
        return f"<Explorer: {shown['matches']:,} matches, {shown['events']:,} events; save(path) writes it>"


def _page(manifest: dict[str, Any], payload: str) -> str:
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    # Data in a script element must not contain "<": it might start the closing tag.
    data = json.dumps(manifest, allow_nan=False).replace("<", "\\u003c")
    parts = {
        "title": html.escape(f"{manifest['title']} · Kleene"),
        "script_hash": digest,
        "style": _text("style.css"),
        "manifest": data,
        "payload": payload,
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _text("page.html"))


@cache
def _script() -> str:
    """All scripts as one, in its own scope."""
    return "\n".join(['"use strict";', "(() => {", *(_text(name) for name in SCRIPTS), "})();"])


@cache
def _text(name: str) -> str:
    return files("kleene.interfaces.explorer").joinpath("assets", name).read_text(encoding="utf-8")
