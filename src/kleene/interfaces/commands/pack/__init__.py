"""`kleene pack`: a Python with Kleene and its compiled kernels as an archive for clusters.

`pack` puts the archive together, `warm_up` compiles what goes into it. How compiled kernels are kept, and which are trusted,
is in `kleene.engine.kernels`.
"""
