"""From a plan and batches of events to matches. Each mechanism is a package with kernels of its own.

Everything that matches has the shape of `matcher.Matcher`. `feed(batch)` takes the next events in stream order and yields
matches that are certain by now; `finish()` yields what is left. Before that, `compute_only(names)` says which columns of the
rows are wanted. In a stream, `advance(watermark)` says that all events before it have come, and yields what is certain by then;
`due` is the next watermark at which something happens though no event comes. `snapshot` is what the events after the `horizon`
do not tell, and `restore` resumes from those events and it.

Mechanisms (`sequence`, `automaton`, `lazy`, `shared`, `counting`) know what is shared (`passes`, `matches`, `events`,
`expressions`, `kernels`), never each other. `aggregation` is over the matches of any of them. `build` is the only module that
knows them all; `time_slices` is what a task does for its slice of time.
"""
