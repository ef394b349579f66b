"""Multi-pattern plans (2019): relations of partial matches, joined from the leaves to the roots of all queries.

The relation of a node holds its partial matches as columns of places. A leaf's is the list of its events. A join streams the
blocks of one child and looks up the other, which is sorted by last event: what lies in the window and in order is a range. The
child that is looked up is made as a whole first, unless it is a leaf; then blocks go depth first from the leaves upwards, each
to all nodes and queries above it. A tree of leaves that are looked up one after the other, a chain, therefore holds a block per
node and no more; if the relations of a bushier plan outgrow their memory, the pass is made by chains. Conditions are
comparisons of columns, read from tables of numbers, so hundreds of queries compile nothing.
"""
