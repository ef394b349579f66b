"""Any text is a query or a KleeneError, soon; see `support/text_fuzz.py`. The long test takes some ten minutes:

python -m pytest -m long tests/property/test_any_text.py
"""

from __future__ import annotations

import pytest

from support.text_fuzz import corpus, fuzz

FEW, MANY = 1_500, 200_000


def test_a_few_texts() -> None:
    report = fuzz(2, FEW)
    assert report.found == []
    assert report.texts == FEW
    assert report.outcomes["query"] > FEW // 8


@pytest.mark.long
def test_many_texts() -> None:
    report = fuzz(1, MANY)
    print(f"{report.texts:,} texts, {report.seconds:.0f} s of CPU time, the slowest {report.slowest:.2f} s: {report.outcomes}")
    assert report.found == []
    assert report.texts == MANY
    assert report.outcomes["planned"] > MANY // 200


def test_what_is_changed_are_many_queries() -> None:
    assert len(corpus()) > 1_000
