"""How plans may be cut for tasks: slices of time, and the fewest passes over data for queries of different keys."""
