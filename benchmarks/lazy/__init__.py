"""The experiments of the lazy evaluation paper (2015), section 7; random workloads; and speed beside Flink's Pattern API."""
