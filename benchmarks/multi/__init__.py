"""The experiments of the multi-pattern paper (2019), section 6 and appendix D: sharing and reordering chosen together."""
