"""Queries that change while a stream runs: a folder or table that is watched, and its snapshots.

`files` reads them, `watch` notices changes, `snapshot` numbers all of them, so that a micro-batch that is run again sees what
it saw. A query that cannot be read stays as it was, and is reported. What a rule does to a stream is in
`kleene.runtime.stream`.
"""
