"""Loops of the counters: without a window, on two stacks, by marking, by tries; sums over partitions and slices of time."""
