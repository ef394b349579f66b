"""Phrases that nobody in the field says, in sources, docs and README: each has a plain word.

Kernels' sources are left out: a change of one compiles all of them again.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

INSTEAD = {
    "lets? go of|letting go of": "drop, evict, free",
    "anew": "again, re-",
    "so many": "N, a number of, enough",
    "goes on|go on": "continue, resume",
    "at hand": "current",
    "events in hand": "current events",
    "of the user's": "user ..., your own",
    "in force": "current, apply, run",
    "is told": "is reported, receives",
    "not all there are": "incomplete",
    "comes? to nothing": "fail, be empty",
}

PAGES = list((ROOT / "docs").glob("*.md"))
SOURCES = [path for path in (ROOT / "src").rglob("*.py") if "kernels" not in path.parts and path.stem != "kernels"]
FILES = {str(path.relative_to(ROOT)): path for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES, *SOURCES]}


@pytest.mark.parametrize("phrase", INSTEAD)
def test_the_fields_own_words(phrase: str) -> None:
    pattern = re.compile(r"\b(" + phrase.replace(" ", r"\s+(?:# )?") + r")\b", re.IGNORECASE)
    texts = {name: path.read_text(encoding="utf-8") for name, path in FILES.items()}
    found = [f"{name}: '{match[1]}'" for name, text in texts.items() for match in pattern.finditer(text)]
    assert not found, f"write instead: {INSTEAD[phrase]}"
