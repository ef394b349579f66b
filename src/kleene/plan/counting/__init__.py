"""A-Seq (2014): what can be counted without matches, what is counted together, and where paths are chopped (Chop-Connect).

`counters` says what stands in the way of counting and plans the rest, `comparison` which condition between events does not,
`shared_counters` puts plans together, `chopping` cuts patterns by cost. What needs matches is planned in
`kleene.plan.aggregation`.
"""
