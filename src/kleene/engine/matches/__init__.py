"""What is done with matches, whoever found them: negation, NON-OVERLAP, values, ids, and rows of output or of aggregates."""
