"""What is done with matches, whoever found them: negation, NON-OVERLAP, values, ids, and rows of output or of aggregates.

Every mechanism yields blocks of `Matches`: columns of places, for each variable. `negation` removes those with a forbidden
event, which `forbidden` finds if conditions say which one, `non_overlap` chooses among those that overlap, `candidates` lets
several tasks choose together, `match_values` evaluates conditions and RETURN over blocks, `output` writes rows with ids,
`aggregate_output` those of AGG. Nothing here knows how a match was found; what is about single events belongs to
`kleene.engine.expressions`.
"""
