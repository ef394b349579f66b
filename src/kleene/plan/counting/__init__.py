"""A-Seq (2014): what can be counted without matches, what is counted together, and where paths are chopped (Chop-Connect)."""
