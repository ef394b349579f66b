"""The experiments of SASE+'08, section 6, and the speed of its queries beside Flink's Pattern API."""
