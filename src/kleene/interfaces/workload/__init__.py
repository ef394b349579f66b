"""Workloads: named queries over the same events, from folders and tables too, and their passes on Spark."""
