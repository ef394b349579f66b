"""SASE+ (2008): an NFA^b for each alternative, with every condition on the edge where it is decided."""
