"""How to read each experiment. Measured numbers have no place here: they come from the results."""

from __future__ import annotations

from benchmarks.lazy.streams import CONDITIONS, PHASE_WINDOW, WINDOW, H, T

OPENING = f"""\
The experiments of section 7 of the paper of 2015, with its query:

```
PATTERN SEQ(Stock a, Stock b, Stock c)
WHERE a.sector = 'Finance' AND b.sector = 'Hi-Tech' AND c.ticker = 'GOOG'
  AND Corr(a.history, b.history) > {T} AND Corr(b.history, c.history) > {T}
WITHIN {WINDOW}
```

A history has the last {H} prices of the event's ticker, and the window is the time in which a ticker has as many quotes. `Corr`
is `kleene.functions.corr`, a registered Python function. With *comparisons* the conditions are
`{CONDITIONS["comparisons"]}`, which a compiled filter decides. The paper has recorded prices; ours are
generated. Finance and Hi-Tech follow one market and are often correlated, GOOG seldom is, and Finance and Hi-Tech take turns in
being a little more frequent. f_c is the frequency of c relative to a and to b.

An *evaluation* is a candidate that the conditions of an edge are evaluated on, as the paper counts them; what a chain decides
once for several partial matches counts for each. *Eager* binds events in the order of the sequence; *chain cba* binds c first,
then b, then a. A *tree* chooses for every partial match what to bind next: by default what is expected to leave the fewest;
with *counts*, as the paper has it, what has the fewest candidates.
*Auto* is the plan without any option; it may also choose active instance stacks (*sequence*), whose evaluations are the
instances they look at."""

_BOUND = """\
With f_c the rare events are that much fewer, so a chain that begins with c saves about 1 / f_c against eager, not more, as long
as it then binds b: `Corr(b, c)` thins out the pairs. Chain cab has nothing to decide between c and a, and pays for all pairs of
them; so does a tree that goes by counts alone, half of the time. Chain bca looks for the few c around each b and is not far
behind cba; in the paper, where fewer events share a window, only chains that begin with c are good."""

REMARKS: dict[str, str] = {
    "figure7": f"""\
{_BOUND}

Throughput is that of a whole run: where the evaluations are few, reading the events is what is left. The streams with
correlations are shorter where c is frequent, because chains that bind a and c first evaluate that many.""",
    "figure8": """\
The conditions are the comparisons. Chains bind the same events in the same order whatever the sequence; only scopes differ, and
so the numbers differ a little. Eager is the chain of the sequence's own order: good where the rare event comes first.""",
    "figure9": """\
Instances that the paper's automaton would hold: partial matches whose next event may still come. Kleene counts them but keeps
none of them, it keeps events only. A chain that begins with the last component of the sequence never waits for anything. The
number depends on the window, not on the length of the stream, but for the chance of a higher peak in a longer one.""",
    "figure10": f"""\
`SEQ(A a, B b, C c) WHERE a.x + 0.8 < b.x AND b.y + 0.8 < c.y WITHIN {PHASE_WINDOW}`, where one type in turn is rare. A matcher
is fed one step at a time and makes a pass for each, so every count is that of the events of one step, and of those of the last
window, which a pass goes over again. The table has the evaluations of whole phases over those of the chain that is best in
that phase. A fixed order loses in some phase, because in one of them its last component is the rare one. A tree that goes by
counts loses where a or c is rare: nothing is to be decided between a and c.""",
    "random200": """\
Sequences and conjunctions of 3 to 6 components; rates over three decades; conditions between pairs with selectivities over two
and a half decades, comparisons, equalities and chains of plain comparisons; three in ten have a key. Up to 4 components all
orders are tried, beyond that those that the planners find and a sample; not those that are expected to take ten times what a
workload may. What took over twice as long as the fastest in a first run was not run again. The others had 3 rounds, then auto
and the fastest of them had more, as many each, and the best round of each counts: runs differ from round to round by more than
good choices do from each other. Where auto seemed to take over 1.1 times as long as the best, all had more rounds still.
How far one plan is from itself is said below the table. Trees, eager plans and the chains of planners count the instances that
wait, which takes up to a millisecond; chains of given orders and auto do not.

Memory that a run frees is kept for the next one: getting it from the system again took up to a third of a run, and not of all
choices alike. So no memory peak is reported here.

Auto is behind where it has measured a selectivity on too few events to tell two orders apart, or has looked at events for a
tenth of the time that the best choice takes.

Looking at the events and making a plan takes auto 1 to 3 milliseconds, up to about 6 where there are more events to look at.
With streams of a quarter of this length, on which the best choice mostly takes 8 to 40 milliseconds, that put 13 of the 200
workloads above 1.2, the highest at 1.46; the streams were made longer after that was seen.""",
    "throughput": """\
`SEQ(A a, B b, C c) WHERE a.x < b.x AND b.x < c.x WITHIN 1 second`, an event per millisecond. *Rare* is the place of the type
with the given share; the other two share the rest. *Ordinary*: x is uniform, and a sixth of all triples matches. *Selective*: x
is mostly high for A and low for C. Streams are shorter where matches are many. Kleene reads an Arrow table in memory on one
core and writes every match. Forced choices are active instance stacks (*sequence*) and the chains of all six orders.

Flink (apache-flink on PyPI, the Pattern API with `followedByAny`, one task) gets its events from arrays in its JVM and hands
every match to a function. It is timed from the first event to the end of its operators, in a warm JVM, without starting a job.
It keeps every partial match as a run, so the longer the stream, up to a window, the slower it is per event: it was run over
longer and longer streams until one took seconds, and that one counts. Most of these end before a window has passed, which is in
Flink's favour. Matches were compared one by one on the stream before, and counted on the last. *On Flink's events* has Kleene's
throughput on that same short stream, where the fixed cost of a run is most of its time.""",
}
