"""Shoplifting: an item is picked at a shelf and leaves the store, and nobody paid for it (SASE 2006, query Q2)."""

import pyarrow as pa

import kleene

READINGS = [
    ("09:00", "Shelf", "razor"),
    ("09:05", "Shelf", "milk"),
    ("09:20", "Register", "milk"),
    ("09:25", "Exit", "milk"),
    ("09:30", "Exit", "razor"),
]

query = kleene.query("""
    PATTERN SEQ(Shelf a, !(Register b), Exit c)
    WHERE   [item]
    WITHIN  12 hours
    RETURN  a.item AS item, a.ts AS picked, c.ts AS left
""")

events = pa.table(
    {
        "ts": pa.array([f"2026-03-02T{at}:00" for at, _, _ in READINGS]).cast(pa.timestamp("us")),
        "type": [kind for _, kind, _ in READINGS],
        "item": [item for _, _, item in READINGS],
    }
)

for match in query.match(events, time="ts", type="type").to_pylist():
    print(f"{match['item']}: picked at {match['picked']:%H:%M}, left at {match['left']:%H:%M}")
