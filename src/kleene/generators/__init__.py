"""Seeded event streams to try queries on: the workloads of the papers, made in batches so that any length fits in memory.

`sase` is the generator of SASE'06 section 5.1, `stock` that of SASE+'08 section 6; `quotes` stands for the recorded prices of
the lazy evaluation paper, section 7, `updates` for the stocks and roads of the multi-pattern paper, section 6; `retail` is the
RFID store of SASE'06 section 2 with planted incidents and the exact matches they must give. Each module has a frozen options
class, `batches(options)` and `table(options)`. The same options give the same rows on every machine; the batch size never
changes them.
"""
