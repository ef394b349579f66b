"""SASE (2006): active instance stacks.

Each component has a stack of places. An entry of stack *s* knows how many entries of stack *s - 1* came before it (the paper's
RIP field, as a count), so its candidates are a range. From each event of the last component the search goes down level by
level. Conditions that become decidable at a level are applied to the whole range of candidates by one call of the block filter.
When the output block is full, the kernel returns and later continues where it stopped.
"""
