"""The life of a pass over the working set.

`feed` scans a batch for relevant rows and adds them to the working set. It does not match at once: a pass waits until as many
new rows have come as are kept from before (and a quarter of a million at least). It matches over the whole working set, reports
what the new rows complete, and drops the rows that have fallen out of the window. So there is no state of partial matches that
could grow; rebuilding at most doubles the work; and memory is bounded by the window. A match with a negated end belongs to the
pass in which its window has passed.

Nothing but events has to be saved, and what is saved means the same to every later version, and to every other plan: an order
of binding can change from pass to pass.
"""
