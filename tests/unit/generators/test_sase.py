"""The events of SASE: distributions of types and attributes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kleene.generators import sase
from kleene.generators.sase import SaseOptions


def test_sase_types_and_attributes_are_uniform() -> None:
    events = sase.table(SaseOptions(events=100_000, V=(10, 1_000)))
    counts = [row["counts"] for row in pc.value_counts(events["type"].combine_chunks()).to_pylist()]
    assert len(counts) == 20
    assert min(counts) > 4_500
    assert max(counts) < 5_500
    assert pc.min_max(events["attr1"]).as_py() == {"min": 1, "max": 10}
    assert pc.min_max(events["attr2"]).as_py() == {"min": 1, "max": 1_000}
    assert pc.mean(events["attr2"]).as_py() == pytest.approx(500.5, abs=5)
    assert events.schema.field("type").type == pa.dictionary(pa.int8(), pa.string())
    assert events.schema.field("attr1").type == pa.int32()


def test_sase_zipf() -> None:
    events = sase.table(SaseOptions(events=100_000, T=4, theta=1.0, V=()))
    share = pc.mean(pc.equal(events["type"].cast(pa.string()), "E1").cast(pa.int64())).as_py()
    assert share == pytest.approx(12 / 25, abs=0.01)
    assert events.schema.names == ["ts", "type"]


def test_sase_rate_gives_timestamps() -> None:
    ts = sase.table(SaseOptions(events=11, rate=10.0))["ts"]
    assert ts.type == pa.timestamp("us", tz="UTC")
    assert (ts[10].as_py() - ts[0].as_py()).total_seconds() == 1.0


def test_sase_many_types_need_wider_codes() -> None:
    assert sase.schema(SaseOptions(T=200)).field("type").type.index_type == pa.int16()
