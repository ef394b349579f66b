"""Brute force: three failed logins in a row, then a login that works, for one user from one address within five minutes.

`SEQ` alone binds any three failures. The negative components between them leave only failures that follow one another directly,
so every such login is reported once.
"""

import pyarrow as pa

import kleene

EVENTS = [
    (0, "Failed", "ann", "10.0.0.7"),
    (20, "Failed", "ann", "10.0.0.7"),
    (25, "Failed", "bob", "10.0.0.9"),
    (40, "Failed", "ann", "10.0.0.7"),
    (55, "Failed", "ann", "10.0.0.7"),
    (60, "Login", "bob", "10.0.0.9"),
    (70, "Login", "ann", "10.0.0.7"),
]

query = kleene.query("""
    PATTERN SEQ(Failed a, !(Failed x), Failed b, !(Failed y), Failed c, !(ANY(Failed, Login) z), Login d)
    WHERE   [user, address]
    WITHIN  300
    RETURN  d.user AS user, d.address AS address, a.second AS first_failure, d.second AS login
""")

names = ("second", "kind", "user", "address")
events = pa.table({name: [event[index] for event in EVENTS] for index, name in enumerate(names)})

for match in query.match(events, time="second", type="kind").to_pylist():
    print("{user} from {address}: failures from second {first_failure}, login at {login}".format(**match))
