"""Other systems that need a program of their own."""
