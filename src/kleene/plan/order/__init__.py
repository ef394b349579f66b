"""What an order of binding costs, by statistics, and the planners that look for the cheapest one (lazy evaluation, 2015)."""
