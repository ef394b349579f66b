"""A price spike: a trade at least 10 % above another one of the same symbol less than ten minutes before.

The stream has one kind of event, so there is no type column: every row is a Trade.
"""

import pyarrow as pa

import kleene

query = kleene.query("""
    PATTERN SEQ(Trade a, Trade b)
    WHERE   [symbol] AND b.price >= 110% * a.price
    WITHIN  10
    RETURN  a.symbol AS symbol, a.minute AS from_minute, b.minute AS to_minute, 100 * (b.price / a.price - 1) AS percent
""")

events = pa.table(
    {
        "minute": [0, 1, 4, 6, 9, 10, 30],
        "symbol": ["X", "Y", "X", "X", "Y", "X", "Y"],
        "price": [100.0, 50.0, 104.0, 115.0, 51.0, 112.0, 70.0],
    }
)

for match in query.match(events, time="minute").sort_by("from_minute").to_pylist():
    print("{symbol}: +{percent:.1f} % from minute {from_minute} to {to_minute}".format(**match))
