"""A real browser for tests: Chromium or Chrome, wherever it is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
APPLICATION = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--force-device-scale-factor=1"]
"""Containers have no room for the sandbox, and the pages are our own."""


def find_browser() -> str | None:
    """The path of a browser: the one that KLEENE_BROWSER names, or one that is installed."""
    named = os.environ.get("KLEENE_BROWSER")
    if named:
        return shutil.which(named)
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    return found or (str(APPLICATION) if APPLICATION.exists() else None)
