"""Card fraud: a purchase of next to nothing, then large ones, worth more than 10,000 together in ten minutes.

No match is built: the aggregate is counted as the purchases come. EMIT ON CHANGE also says when the sum falls again.
"""

import pyarrow as pa

import kleene

query = kleene.query("""
    PATTERN  SEQ(Purchase probe, Purchase large)
    WHERE    probe.value < 5 AND large.value >= 1000
    GROUP BY card
    AGG      COUNT, SUM(large.value) AS total
    HAVING   total > 10000
    EMIT ON CHANGE
    WITHIN   10
""")

events = pa.table(
    {
        "minute": [0, 1, 2, 3, 4, 6, 7],
        "card": [7, 7, 8, 7, 7, 7, 8],
        "value": [1, 4_000, 9_000, 7_000, 2, 12_000, 3_000],
    }
)

for row in query.match(events, time="minute").to_pylist():
    print("minute {at}: card {card}, a large purchase after a small one {count} times, {total:,} in all".format(**row))
