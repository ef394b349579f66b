"""`kleene stream`: sources and sinks by name, progress, and a table of what is found."""
