"""How to read each experiment. Measured numbers have no place here: they come from the results."""

from __future__ import annotations

from benchmarks.aseq.paper import LONG_WINDOW, WINDOWS_LENGTH
from benchmarks.aseq.sharing import COMMON_FIXED, QUERIES_FIXED, THREE
from benchmarks.aseq.streams import TICKERS, WINDOW
from benchmarks.aseq.throughput import KEYS, LENGTH, USUAL

OPENING = f"""\
The experiments of section 6 of the paper of 2014, such as:

```
PATTERN SEQ(DELL a, IPIX b, AMAT c) AGG COUNT WITHIN {WINDOW} ms
```

The paper has a recorded trace of 120,000 trades; ours is generated, with one trade per millisecond and {len(TICKERS)}
tickers of equal frequency. A row is written for every event of the last type, with the number of matches that are alive.

*Matches* is `plan={{"mechanism": "matches"}}`: every match is built, then counted, as the paper's state of the art does it.
*Construction* is the floor of that: active instance stacks build every match, and nothing is done with it. *Marking* is the
paper's own method, a set of prefix counters for each live start event; *stacks* keeps counts of segments on two stacks, at
a cost that does not depend on the number of live start events. *Auto* is the plan without any option. Contenders of one
query must give the same sum of all counts of all rows. Queries are planned before the clock starts, workloads after."""

_OBJECTS = """\
*Objects* are counted as the paper counts them, at the peak: where matches are built the events on the stacks, their
pointers and the matches that are alive; for counters the sets of prefix counters of marking, one per live start event.
Kleene adds matches up as it finds them, so that they are counted here but not kept."""

REMARKS: dict[str, str] = {
    "figure12": f"""\
The windows have {WINDOW:,} ms. Construction alone is run over the whole stream, counters beside it. Where *matches* would take
too long, it and all beside it are given the first events of the stream only (*fewer events*), and the ratios are those of
the CPU time per event on these same events, the first window included, in which there are fewer matches. Counters pay their
fixed cost of a run over these few events. Counting a match costs *matches* many times what building it does, which is why
construction alone is there: it is the comparison that owes nothing to how matches are counted.

{_OBJECTS}""",
    "figure13": f"The pattern has length {WINDOWS_LENGTH}. The rest is as in Figure 12.",
    "figure14a": f"""\
Windows of {LONG_WINDOW:,} ms. Every pattern ends with the same ticker, so the rows written are as many at every length, and
the pattern of length 2 runs in the same rounds as the others. Longer patterns have more events to count: each ticker is
one in {len(TICKERS)}. The stream is longer than the paper's, as a run over that takes a few milliseconds.""",
    "figure14b": """\
q1 is `SEQ(DELL, IPIX, AMAT)`, q2 is `SEQ(DELL, IPIX, !QQQ, AMAT)`; both have a row for every AMAT. Each mechanism is
compared with itself. Counters have the longer stream. QQQ is a fourth ticker to count among the three of q1: by event of the
pattern q2 takes less than q1. Where what both have in common (reading types, writing rows) takes less, as it does the faster
Kleene gets, the ratio is higher.""",
    "figure15": f"""\
{", ".join(f"`SEQ({', '.join(types)})`" for types in THREE.values())}, as one workload. ECube, which shares construction
among queries, is not there to compare with. Events are as few as construction can afford. Planning counts, so that what
sharing gains shows better in Figure 16, over more events.""",
    "figure16a": f"""\
Each query is the common prefix of {COMMON_FIXED} types and a last type of its own, within {WINDOW:,} events; the stream has
these types only. *Alone* is `sharing="none"`: every query has counters of its own. Writing rows costs the same either
way.""",
    "figure16b": f"{QUERIES_FIXED} queries; the rest is as in Figure 16a.",
    "figure16c": f"""\
{QUERIES_FIXED} queries, each a first type of its own and then the common substring, within {WINDOW:,} events.""",
    "figure16d": f"The common substring has {COMMON_FIXED} types; the rest is as in Figure 16c.",
    "windows": """\
`SEQ(A, B, C)` over three types: every event counts, and a third of the window are live start events. In each row all three
contenders read the same events in the same rounds.""",
    "throughput": f"""\
`SEQ(E1, ..., E{LENGTH})` unless said otherwise, over a table in memory, one core, with the rows written to Arrow. With
{LENGTH} types every event belongs to the pattern, with 20 one in five does. Live start events are those of all keys
together ({USUAL:,} where not said); there are {KEYS:,} keys. *Rows per event* is what is written. *Scan* is Arrow counting
the values of the type column and finding the extremes of the time column. DuckDB counts the same with cumulative sums over
window functions on one thread, which works without a window, or with one for a sequence of two.""",
    "spark": """\
The file is in Parquet, with 20 string types and 1,000 keys. *Read and shuffle* has the same filter and columns, shuffled by
the key, or evenly where there is none, and drops the rows in the JVM. *Embedded* is Kleene without Spark, on one core, from
the same file. Without GROUP BY, all events go into one count: that it is faster on two cores means that parts of the stream
are counted apart and put together.""",
}
