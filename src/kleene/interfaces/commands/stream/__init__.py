"""`kleene stream`: sources and sinks by name, progress, and a table of what is found.

`stream` reads the arguments, `sources` opens them, `run` waits for the query and its reports, `view` and `progress` show
these, `errors` finds what of a failure is ours. The stream itself is `kleene.interfaces.streams`.
"""
