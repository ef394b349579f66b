"""Streams in blocks: batches of the size asked for, none of them empty."""

from __future__ import annotations

import pytest

from kleene.generators import sase
from kleene.generators.blocks import rebatch
from kleene.generators.sase import SaseOptions


def test_batches_have_the_size_asked_for() -> None:
    sizes = [batch.num_rows for batch in sase.batches(SaseOptions(events=2_500, batch_size=1_000))]
    assert sizes == [1_000, 1_000, 500]


def test_rebatch_refuses_empty_batches() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        list(rebatch([], 0))
