"""Benchmarks: `python -m benchmarks sase` runs the experiments of the SASE paper; see docs/benchmarks.md.

One suite through the files: `harness.py` measures contenders and refuses to report any that disagree; `sase/streams.py` makes
the events and the queries; `sase/contenders.py` and `sase/joins.py` are what is compared; one file per group of experiments;
`sase/plots.py` and `sase/report.py` turn the results' JSON into figures and docs/benchmarks.md.
"""
