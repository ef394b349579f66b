"""A broken promise: a ticket that nobody answers in time. One event, followed by the absence of another.

The limit is a parameter of the query, given when it runs.
"""

import datetime as dt

import pyarrow as pa

import kleene

OPENED_AND_ANSWERED = ((9, 0), (9, 10), (9, 20), (12, 59), (13, 10))

query = kleene.query("""
    PATTERN SEQ(Opened o, !(Answered a))
    WHERE   [ticket] AND o.priority IN urgent
    WITHIN  limit
    RETURN  o.ticket AS ticket, o.ts AS opened
""")

events = pa.table(
    {
        "ts": [dt.datetime(2026, 3, 2, hour, minute, tzinfo=dt.UTC) for hour, minute in OPENED_AND_ANSWERED],
        "type": ["Opened", "Opened", "Opened", "Answered", "Answered"],
        "ticket": [1, 2, 3, 1, 2],
        "priority": ["high", "high", "low", None, None],
    }
)

found = query.match(events, time="ts", type="type", params={"limit": dt.timedelta(hours=4), "urgent": ["high", "critical"]})
for match in found.to_pylist():
    print(f"ticket {match['ticket']}, opened at {match['opened']:%H:%M}, had no answer for 4 hours")
