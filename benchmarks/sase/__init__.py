"""The experiments of SASE'06, section 5, and the two that compare with today's engines."""
