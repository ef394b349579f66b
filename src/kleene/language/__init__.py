"""From text to `kleene.pattern`: a scanner that knows what the grammar can take next, the grammar, and syntax errors in words.

Nothing here knows events or plans.
"""
