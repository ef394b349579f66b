"""How to read each experiment. Measured numbers have no place here: they come from the results."""

from __future__ import annotations

OPENING = """\
The experiments of section 6 of the paper of 2008, and Flink's Pattern API beside its queries. All queries come from one
template:

```
PATTERN SEQ(STOCK+ a[], STOCK b)
WHERE ES(a[], b) { [symbol] AND a[1].price % 500 = 0 AND P AND b.volume < 150 }
WITHIN W
```

ES is `partition_contiguity` (s2) or `skip_till_next_match` (s3). P is absent (p1), `a[i].price > a[i-1].price` (p2) or
`a[i].price > min(a[..i-1].price)` (p3; with `max` or `avg`: p3max, p3avg). There are two symbols, and a price rises with
probability 0.7. W counts events of one symbol; in ticks of the time column it is twice that. The stream has 200 W events
per symbol, or fewer where the matches would have too many elements to be held in memory. Matches are enumerated with
`RETURN a[].price AS prices, b.ts AS at`. `plan={"algorithm": ...}` chooses among `basic`, `merging` (the default) and
`backtrack`."""

REMARKS: dict[str, str] = {
    "1": """\
The basic algorithm. *Matching* is the share of a run that stops at the compressed form, the match buffer; *construction* is
the rest: reading every match out of the buffer, and writing it. *Runs per time step* are the runs that an event is put to.

The paper does not say what happens at the ends of the range of prices. Here a price wraps around from 1000 to 1, so that of
the two prices that start a run, 500 and 1000, the latter is followed by lower ones only: under p2 and p3 half of the runs
select one event, and matches are about half as long as in Table 2.""",
    "2": """\
The basic algorithm, but for the last column. An element is one event in one match: the output complexity of section 6.1 is
their number. Cost is linear in it if the line fits (R² close to 1); a cost per element at the last W that is not above that
at the first says that it does not grow faster than the output. The fixed cost of an event makes short matches dearer per
element.""",
    "3": """\
Both algorithms share the program that tests events, the match buffer and the writing of matches. *Visits* are counted work:
how often an event is put to a run.

The paper finds basic 200 to 300 times faster, and says that its backtrack algorithm reads events again. Ours does not: a run
that is postponed waits with its computation state at the event where it split off, and events stay in memory, grouped by
partition. So both put the same events to the same runs, in another order, and cost about the same.""",
    "4": """\
`OUTPUT NON-OVERLAP`. A star means a third component, `STOCK c` with `c.price > a[1].price AND c.price < a[a.LEN].price`,
which most runs do not survive.""",
    "5": """\
All matches are enumerated, which costs both the same. *Runs merged* is out of all runs started.""",
    "6": """\
The time in which events are put to runs, without reading and grouping the events and without construction. *Runs merged*
is out of all runs started.""",
    "speed": """\
Kleene reads an Arrow table in memory on one core, by its default plan. *Compressed* stops at the match buffer; *prices*
enumerates every match as `a[].price, b.ts`; *structs* as whole events, all columns. Flink (apache-flink on PyPI) gets the
same events from arrays in its JVM and hands every match to a function as a map of lists of events, which are its own
objects; it is timed from the first event to the end of its operators, in a warm JVM, without starting a job. It runs with
object reuse, without checkpoints, in event time with a watermark every 64 events (periodic ones were slower), and with keys
that spread the two symbols over its subtasks. Even at parallelism 1 it has threads besides, so compare CPU with CPU.

Matches were compared one by one, Flink's with the oracle's on a short stream and with Kleene's on the timed one. For every
b, skip_till_next_match has what was selected before it; Flink's relaxed contiguity has, for every prefix of what is
selected, the first b. So the word-by-word translation of p2s3 (*direct*) has other matches, and is shown only to be seen.
*every* is p2s3 rewritten for Flink: it selects all events up to b, which needs no look at earlier events, and picks the
rising ones out of each match. Where b is the next rise (`b.price > a[a.LEN].price` in place of `b.volume < 150`), and under
contiguity, both systems mean the same, and Flink runs the query as it stands.""",
}
