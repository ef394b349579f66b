"""How to read each experiment. Measured numbers have no place here: they come from the results."""

from __future__ import annotations

REMARKS: dict[str, str] = {
    "1": """\
The equivalence test is not evaluated: its selectivity is simulated by more event types (section 5.2). Windows are pushed.
*Fewer visits* is counted work: the instances of states that the basic algorithm looks at, over those that AIS looks at. Time
differs by less than work does, for two reasons: both plans share the scan of types, and both write the same matches.""",
    "2": """\
With V1 = 10,000 there are thousands of simulated types and few triggers, so fixed costs per batch weigh on both plans.""",
    "3": """\
*Composite* partitions by the combinations of values that occur. It is Kleene's default, and not one of the paper's three.
Our Multi-PAIS keeps the stacks of the first attribute only and tests their instances for the others, so it does not pay for the
upkeep of several stacks that the paper found to make it the slowest.""",
    "5": """\
The columns up to the last are relative to each system's own throughput at L = 2, as in Figure 11; the last compares the two
systems. A window slides, so a trigger completes every increasing choice of L - 1 earlier events: L times what formula (1) of
the paper counts. Longer sequences therefore report more matches per event, and read more types, from the same events.

DuckDB is measured with the joins in the order in which they are written, by far the better one for long sequences. *Its own
join order* is the same SQL left to DuckDB's optimizer, on fewer events. That column is about a choice of join order, not about
Kleene: no comparison on this page uses it as a baseline.""",
    "6": """\
Relative to V1 = 10,000, as in Figure 12. DuckDB's column is its fastest formulation at each point. Where there are
no matches, that the counts are equal says little.""",
    "embedded": """\
Both read one Arrow table in memory, on one thread, and write the times of the three events to Arrow. Kleene's rows carry
`query`, `match_id`, `match_start` and `match_end` besides. *count* means that Kleene constructs every match and writes none,
and that DuckDB computes `count(*)`; by `AGG COUNT`, which constructs none, Kleene counts under [A-Seq](#a-seq).""",
    "spark": """\
Times, so below 1 Kleene is faster. Kleene gives the three columns that the self-join gives (`columns=`); *with all columns*
it gives the name of the query, an id and the times of its first and last event besides. The job without matching has the same
read, filter, projection, shuffle, sort and transfer to Python, and drops everything there. It returns nothing, so Kleene's
time beyond it includes sending matches to the JVM. *The same returning as many rows* sends back constant rows of the same
columns, about as many as there are matches: what is left beyond that is matching itself. *One column of as many rows* sends
back a single number for each: whoever finds them in Python and returns any of them, however fast, does not get below that.
Both were added to tell these things apart, and are not the job that the expectation speaks of.""",
    "sql": """\
Times, so above 1 the table function is slower. Of the events of 20 types the query reads three. The DataFrame API leaves the
others in the file; a table function cannot, unless its TABLE argument does. What it costs then is explained in
[Spark SQL](sql.md#cost-compared-with-the-dataframe-api).""",
}
