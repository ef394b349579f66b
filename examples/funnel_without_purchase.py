"""An abandoned cart: a product is viewed and put into the cart, and not bought within an hour of the view.

The negative component at the end makes a match certain only when the hour has passed. At the end of the input it has.
"""

import pyarrow as pa

import kleene

CLICKS = [
    (0, "View", "u1", "lamp"),
    (5, "Cart", "u1", "lamp"),
    (7, "View", "u2", "lamp"),
    (9, "Cart", "u2", "lamp"),
    (30, "Purchase", "u1", "lamp"),
    (66, "Purchase", "u2", "chair"),
    (67, "Purchase", "u2", "lamp"),
]

query = kleene.query("""
    PATTERN SEQ(View v, Cart c, !(Purchase p))
    WHERE   [user, product]
    WITHIN  60
    RETURN  v.user AS user, v.product AS product, c.minute AS in_cart_since
""")

names = ("minute", "type", "user", "product")
events = pa.table({name: [click[index] for click in CLICKS] for index, name in enumerate(names)})

for match in query.match(events, time="minute", type="type").to_pylist():
    print("{user} left the {product} in the cart at minute {in_cart_since}".format(**match))
