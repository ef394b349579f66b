"""`kleene pack`: a Python with Kleene and its compiled kernels as an archive for clusters."""
