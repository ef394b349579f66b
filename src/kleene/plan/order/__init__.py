"""What an order of binding costs, by statistics, and the planners that look for the cheapest one (lazy evaluation, 2015).

`statistics` is what is known of the events, `cost` what an order takes by it, `orders` has the planners. They serve single
queries; plans for many patterns have their own cost and search (`kleene.plan.multi`), over the same statistics.
"""
