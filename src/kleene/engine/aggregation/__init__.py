"""AGG over the matches of another plan: from when to when each match counts, and what it contributes.

A match counts from its last event until its first event leaves the window, or until a forbidden event ends it. `live_pass`
puts events and expiries on one axis and says which matches are alive where; `values` adds up what they contribute; `expiring`
is for NON-OVERLAP, where the end of one match lets another be chosen. `matcher` runs the passes of any evaluation and needs
nothing else of it, so how matches are found does not belong here, nor how rows look
(`kleene.engine.matches.aggregate_output`).
"""
