"""Benchmarks: `kleene bench SUITE` runs experiments: of a paper (sase, saseplus, lazy, aseq, multi), streaming, scale, peers.

Results are in docs/benchmarks.md.

One suite through the files: `harness.py` measures contenders and refuses to report any that disagree; `suite.py` runs a suite's
experiments and keeps their results; `plots.py` and `report.py` turn the results' JSON into figures and docs/benchmarks.md.

A suite's folder has its events and queries (`streams.py`), what is compared (`contenders.py`), one file per group of
experiments, and what its tables, figures and remarks say (`report.py`, `plots.py`, `remarks.py`). `peers` holds other systems
that need a program of their own.
"""
